// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/interop/dlpack.hpp>
#include <cleave/interop/tpetra.hpp>
#include <cleave/redistribute/distributions.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

// Shards of other libraries: nothing is copied where that is promised, which addresses show, and a mistake of one rank
// is an exception on all of them.

namespace CLEAVE_SOURCE {

namespace interop = cleave::interop;
namespace dlpack = cleave::interop::dlpack;
using cleave::grid;
using cleave::tensor;

inline constexpr cleave::axis<"ranks"> axis_of_ranks;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh line{axis_of_ranks};
inline constexpr cleave::mesh plane{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"which"> which;
using matrix = tensor<double, line(row / axis_of_ranks, col)>;
using vector = tensor<double, line(row / axis_of_ranks)>;

// As in dlpack.h: nested names, and an enumeration for the device.
enum device_kind : std::int32_t { on_cpu = 1, on_cuda = 2 };
struct their_device {
  device_kind device_type;
  std::int32_t device_id;
};
struct their_type {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct their_array {
  void* data;
  their_device device;
  std::int32_t ndim;
  their_type dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct their_tensor {
  their_array dl_tensor;
  void* manager_ctx;
  void (*deleter)(their_tensor*);
};
// The layout in memory is that of dlpack.h on machines with 64 bits.
static_assert(sizeof(dlpack::managed_tensor) == 64 && sizeof(their_tensor) == 64);
static_assert(sizeof(dlpack::managed_tensor_versioned) == 80);
static_assert(offsetof(dlpack::array, device) == 8 && offsetof(dlpack::array, ndim) == 16);
static_assert(offsetof(dlpack::array, dtype) == 20 && offsetof(dlpack::array, shape) == 24);
static_assert(offsetof(dlpack::array, strides) == 32 && offsetof(dlpack::array, byte_offset) == 40);
static_assert(offsetof(dlpack::managed_tensor, manager_ctx) == 48 && offsetof(dlpack::managed_tensor, deleter) == 56);
static_assert(offsetof(dlpack::managed_tensor_versioned, flags) == 24);
static_assert(offsetof(dlpack::managed_tensor_versioned, dl_tensor) == 32);

/// Tests that touch shards on the host.
class interop_on_host : public testing::Test {
  void SetUp() override {
    if (!cleave::on_host) GTEST_SKIP() << "shards of a device cannot be read by the host";
  }
};

grid all_ranks() { return grid(line, MPI_COMM_WORLD, {support::ranks()}); }
std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

/// A DLPack tensor of a foreign library, which counts how often it was deleted.
template <class T, class Managed>
struct producer {
  std::vector<T> memory;
  std::vector<std::int64_t> shape, strides;
  Managed managed{};
  int deleted = 0;

  producer(std::size_t elements, std::vector<std::int64_t> extents, std::vector<std::int64_t> steps, std::uint8_t code)
      : memory(elements), shape(std::move(extents)), strides(std::move(steps)) {
    auto& a = managed.dl_tensor;
    a.data = memory.data();
    a.device.device_type = static_cast<decltype(a.device.device_type)>(1);
    a.ndim = static_cast<std::int32_t>(shape.size());
    a.dtype = {code, static_cast<std::uint8_t>(8 * sizeof(T)), 1};
    a.shape = shape.data();
    a.strides = strides.empty() ? nullptr : strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<producer*>(self->manager_ctx)->deleted; };
    if constexpr (requires { managed.version; }) managed.version.major = 1;
  }
  producer(const producer&) = delete;
  producer& operator=(const producer&) = delete;
};
template <class Managed>
using producer_of_rows = producer<double, Managed>;

/// This rank's shard of a matrix of `rows` x 5.
template <class Managed>
producer_of_rows<Managed> rows_of(const grid& g, std::int64_t rows) {
  const std::int64_t mine = matrix(g, {rows, 5}).local_extents()[0];
  return {size(5 * mine), {mine, 5}, {}, 2};
}

template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const cleave::error& e) {
    return e.what();
  }
  return "";
}
/// Whether all ranks threw what has these words.
template <class Call>
void expect_everywhere(std::string_view words, Call&& call) {
  const std::string said = message_of(call);
  EXPECT_NE(said.find(words), std::string::npos) << said;
}

template <class Managed>
void check_export() {
  const grid g = all_ranks();
  const std::int64_t rows = 3 * support::ranks() + 1;
  auto x = std::make_unique<matrix>(g, matrix::extents_type{rows, 5});
  x->fill_by([](const auto& at) { return static_cast<double>(10 * at[0] + at[1]); });
  Managed* const given = interop::to_dlpack<Managed>(*x);
  const auto& a = given->dl_tensor;
  EXPECT_EQ(a.data, static_cast<void*>(x->data()));
  EXPECT_EQ(a.byte_offset, 0u);
  EXPECT_EQ(static_cast<int>(a.device.device_type), 1);
  EXPECT_EQ(a.ndim, 2);
  EXPECT_EQ(int{a.dtype.code}, 2);
  EXPECT_EQ(int{a.dtype.bits}, 64);
  EXPECT_EQ(int{a.dtype.lanes}, 1);
  EXPECT_EQ(a.shape[0], x->local_extents()[0]);
  EXPECT_EQ(a.shape[1], 5);
  if (a.shape[0] > 0) {
    EXPECT_EQ(a.strides[0], 5);
    EXPECT_EQ(a.strides[1], 1);
  }
  // The elements outlive the tensor, until the deleter is called.
  const std::int64_t first = x->offset()[0];
  x.reset();
  for (std::int64_t i = 0; i < a.shape[0]; ++i)
    for (std::int64_t j = 0; j < 5; ++j)
      EXPECT_EQ(static_cast<const double*>(a.data)[5 * i + j], static_cast<double>(10 * (first + i) + j));
  given->deleter(given);
}
TEST_F(interop_on_host, shards_as_dlpack) {
  check_export<dlpack::managed_tensor>();
  check_export<dlpack::managed_tensor_versioned>();
  check_export<their_tensor>();
}

template <class T, class Tensor = tensor<T, line(row / axis_of_ranks)>>
void expect_type(int code) {
  const Tensor x(all_ranks(), {support::ranks()});
  auto* const given = interop::to_dlpack(x);
  EXPECT_EQ(int{given->dl_tensor.dtype.code}, code);
  EXPECT_EQ(std::size_t{given->dl_tensor.dtype.bits}, 8 * sizeof(T));
  given->deleter(given);
}
TEST_F(interop_on_host, types_of_dlpack) {
  expect_type<bool>(6);
  expect_type<std::int8_t>(0);
  expect_type<std::uint8_t>(1);
  expect_type<std::int64_t>(0);
  expect_type<std::uint32_t>(1);
  expect_type<cleave::half>(2);
  expect_type<cleave::bfloat16>(4);
  expect_type<float>(2);
  expect_type<Kokkos::complex<float>>(5);
  expect_type<Kokkos::complex<double>>(5);
}

template <class Managed>
void check_import() {
  const grid g = all_ranks();
  const std::int64_t rows = 3 * support::ranks() + 1;
  auto given = rows_of<Managed>(g, rows);
  {
    matrix x = interop::from_dlpack<matrix>(g, {rows, 5}, &given.managed);
    EXPECT_EQ(x.data(), given.memory.empty() ? x.data() : given.memory.data());
    matrix y(g, {rows, 5});
    y.fill_by([](const auto& at) { return static_cast<double>(at[0] - at[1]); });
    x = 2 * y;
    for (std::size_t k = 0; k < given.memory.size(); ++k)
      EXPECT_EQ(given.memory[k], 2 * static_cast<double>(x.offset()[0] + static_cast<std::int64_t>(k) / 5 -
                                                         static_cast<std::int64_t>(k) % 5));
    const matrix second = x.alias();
    EXPECT_EQ(given.deleted, 0);
  }
  EXPECT_EQ(given.deleted, 1);
}
TEST_F(interop_on_host, dlpack_as_shards) {
  check_import<dlpack::managed_tensor>();
  check_import<dlpack::managed_tensor_versioned>();
  check_import<their_tensor>();
}

TEST_F(interop_on_host, dlpack_with_strides_and_offset) {
  const grid g = all_ranks();
  const std::int64_t rows = 2 * support::ranks() + 1, mine = matrix(g, {rows, 5}).local_extents()[0];
  // A padded array, whose first element comes after three others; and columns first.
  producer<double, dlpack::managed_tensor> padded(size(3 + 8 * mine), {mine, 5}, {8, 1}, 2),
      turned(size(5 * mine + 5), {mine, 5}, {1, mine + 1}, 2);
  padded.managed.dl_tensor.byte_offset = 3 * sizeof(double);
  {
    matrix x = interop::from_dlpack<matrix>(g, {rows, 5}, &padded.managed),
           y = interop::from_dlpack<matrix>(g, {rows, 5}, &turned.managed);
    x.fill_by([](const auto& at) { return static_cast<double>(10 * at[0] + at[1] + 1); });
    y = x + 1;
    for (std::int64_t i = 0; i < mine; ++i)
      for (std::int64_t j = 0; j < 5; ++j) {
        const auto value = static_cast<double>(10 * (x.offset()[0] + i) + j + 1);
        EXPECT_EQ(padded.memory[size(3 + 8 * i + j)], value);
        EXPECT_EQ(turned.memory[size(i + (mine + 1) * j)], value + 1);
      }
    for (std::int64_t i = 0; i < mine; ++i)
      for (std::int64_t k = 5; k < 8; ++k) EXPECT_EQ(padded.memory[size(3 + 8 * i + k)], 0);
    // Of a View that is not contiguous, strides go out again.
    auto* const again = interop::to_dlpack(x);
    EXPECT_EQ(again->dl_tensor.data, mine == 0 ? nullptr : static_cast<void*>(padded.memory.data() + 3));
    if (mine > 1) {
      EXPECT_EQ(again->dl_tensor.strides[0], 8);
    }
    again->deleter(again);
  }
  EXPECT_EQ(padded.deleted + turned.deleted, 2);
}

TEST_F(interop_on_host, dlpack_that_is_only_read) {
  const grid g = all_ranks();
  const std::int64_t rows = support::ranks();
  auto given = rows_of<dlpack::managed_tensor_versioned>(g, rows);
  // The flag of one rank holds for all.
  if (support::rank() == support::ranks() - 1) given.managed.flags = 1;
  for (double& v : given.memory) v = 4;
  matrix x = interop::from_dlpack<matrix>(g, {rows, 5}, &given.managed), y(g, {rows, 5});
  EXPECT_THROW(x = 2 * y, cleave::view_error);
  y = x / 2.0;
  for (const double v : y.to_global()) EXPECT_EQ(v, 2);
  EXPECT_THROW(interop::to_dlpack(x), cleave::view_error);
  auto* const again = interop::to_dlpack<dlpack::managed_tensor_versioned>(x);
  EXPECT_EQ(again->flags, 1u);
  again->deleter(again);
}

TEST_F(interop_on_host, a_part_of_the_ranks_and_no_deleter) {
  const int n = support::ranks(), devices = (n + 1) / 2;
  const grid part(line, MPI_COMM_WORLD, {devices}, cleave::on_ranks{0, 2});
  const std::int64_t rows = 4 * devices - 1;
  const std::int64_t mine = matrix(part, {rows, 5}).local_extents()[0];
  producer_of_rows<dlpack::managed_tensor> given(size(5 * mine), {mine, 5}, {}, 2);
  given.managed.deleter = nullptr;
  matrix x = interop::from_dlpack<matrix>(part, {rows, 5}, part.active() ? &given.managed : nullptr);
  x.fill(1);
  for (const double v : given.memory) EXPECT_EQ(v, 1);
  auto* const out = interop::to_dlpack(x);
  EXPECT_EQ(out->dl_tensor.data == nullptr, !part.active());
  out->deleter(out);
}

TEST_F(interop_on_host, mistakes_of_one_rank_with_dlpack) {
  const grid g = all_ranks();
  const int last = support::ranks() - 1;
  const std::int64_t rows = 2 * support::ranks();
  const std::string who = "of rank " + std::to_string(last);
  using managed = dlpack::managed_tensor_versioned;
  const auto check = [&](std::string_view words, auto&& spoil) {
    auto given = rows_of<managed>(g, rows);
    managed* pointer = &given.managed;
    if (support::rank() == last) spoil(given, pointer);
    expect_everywhere(words, [&] { interop::from_dlpack<matrix>(g, {rows, 5}, pointer); });
    EXPECT_EQ(given.deleted, 0); // it stays with the caller
  };
  check("rank " + std::to_string(last) + " is a device of the grid, but was given no",
        [](auto&, managed*& p) { p = nullptr; });
  check(who + " has the major version 2", [](auto& p, managed*&) { p.managed.version.major = 2; });
  check(who + " is on device 3 of type 2", [](auto& p, managed*&) { p.managed.dl_tensor.device = {2, 3}; });
  check(who + " are f32, but those of the tensor are f64",
        [](auto& p, managed*&) { p.managed.dl_tensor.dtype.bits = 32; });
  check(who + " are of the type code 8 of DLPack with 64 bits and 1 lanes",
        [](auto& p, managed*&) { p.managed.dl_tensor.dtype.code = 8; });
  check(who + " are of the type code 2 of DLPack with 64 bits and 2 lanes",
        [](auto& p, managed*&) { p.managed.dl_tensor.dtype.lanes = 2; });
  check("the shard has 2 dims, but the View has rank 1", [](auto& p, managed*&) { p.managed.dl_tensor.ndim = 1; });
  check(who + " do not begin at a multiple of 8 bytes",
        [](auto& p, managed*&) { p.managed.dl_tensor.byte_offset = 4; });
  check("the shard " + who + " has extent 5, but its View has 4", [](auto& p, managed*&) { p.shape[1] = 4; });
  check("the View " + who + " has stride -5", [](auto& p, managed*&) {
    p.strides = {-5, 1};
    p.managed.dl_tensor.strides = p.strides.data();
  });
}

// What is used of a Tpetra::MultiVector and its Map.
namespace trilinos {
struct read_write {};
struct read_only {};
class map {
 public:
  map(std::size_t rows, long long first, long long base, bool contiguous)
      : rows_(rows), first_(first), base_(base), contiguous_(contiguous) {}
  long long getMinGlobalIndex() const { return rows_ == 0 ? std::numeric_limits<long long>::max() : first_ + base_; }
  long long getIndexBase() const { return base_; }
  bool isContiguous() const { return contiguous_; }

 private:
  std::size_t rows_;
  long long first_, base_;
  bool contiguous_;
};
template <class T>
class multi_vector {
 public:
  using view = Kokkos::View<T**, Kokkos::LayoutLeft, cleave::memory_space>;
  using const_view = Kokkos::View<const T**, Kokkos::LayoutLeft, cleave::memory_space>;
  // Rows are padded, as those of a part of a longer MultiVector.
  multi_vector(std::size_t global, std::size_t rows, std::size_t vectors, const map& m)
      : global_(global), map_(std::make_shared<map>(m)), all_("vectors", rows + 2, vectors),
        local_(Kokkos::subview(all_, std::pair<std::size_t, std::size_t>(0, rows), Kokkos::ALL)) {}
  view getLocalViewDevice(read_write) { return local_; }
  const_view getLocalViewDevice(read_only) const { return local_; }
  std::size_t getGlobalLength() const { return global_; }
  std::size_t getNumVectors() const { return local_.extent(1); }
  std::shared_ptr<const map> getMap() const { return map_; }

 private:
  std::size_t global_;
  std::shared_ptr<map> map_;
  view all_, local_;
};
} // namespace trilinos

TEST_F(interop_on_host, multi_vectors) {
  const grid g = all_ranks();
  using vectors = tensor<double, line(which, row / axis_of_ranks)>;
  for (const std::int64_t base : {0, 1})
    for (const std::int64_t rows : {std::int64_t{support::ranks()} * 3, std::int64_t{7}}) {
      const vector shape(g, {rows});
      const std::size_t mine = size(shape.local_size());
      const trilinos::map map(mine, shape.offset()[0], base, true);
      trilinos::multi_vector<double> several(size(rows), mine, 3, map), one(size(rows), mine, 1, map);
      vectors x = interop::wrap_multivector<vectors>(g, several, trilinos::read_write{});
      vector y = interop::wrap_multivector<vector>(g, one, trilinos::read_write{});
      EXPECT_EQ(x.data(), several.getLocalViewDevice(trilinos::read_write{}).data());
      EXPECT_EQ(y.data(), one.getLocalViewDevice(trilinos::read_write{}).data());
      x.fill_by([](const auto& at) { return static_cast<double>(100 * at[0] + at[1]); });
      y = sum(x, which);
      for (std::size_t i = 0; i < mine; ++i) {
        const auto at = static_cast<double>(shape.offset()[0]) + static_cast<double>(i);
        EXPECT_EQ(several.getLocalViewDevice(trilinos::read_write{})(i, 2), 200 + at);
        EXPECT_EQ(one.getLocalViewDevice(trilinos::read_write{})(i, 0), 300 + 3 * at);
      }
      const vectors z = interop::wrap_multivector<vectors>(g, several, trilinos::read_only{});
      EXPECT_THROW(z.fill(1), cleave::view_error);
      expect_everywhere("has 2 dims, but the tensor has 1",
                        [&] { interop::wrap_multivector<vector>(g, several, trilinos::read_write{}); });
      trilinos::multi_vector<double> mixed(size(rows), mine, 1, {mine, 0, base, false});
      expect_everywhere("not consecutive",
                        [&] { interop::wrap_multivector<vector>(g, mixed, trilinos::read_write{}); });
    }
}
TEST_F(interop_on_host, multi_vectors_with_other_rows) {
  const int n = support::ranks();
  if (n == 1) return;
  const grid g = all_ranks();
  // Balanced blocks: one row more on the first ranks.
  const std::int64_t rows = 2 * n + 1, mine = rows / n + (support::rank() < rows % n ? 1 : 0),
                     first = support::rank() * (rows / n) + std::min<std::int64_t>(support::rank(), rows % n);
  trilinos::multi_vector<double> v(size(rows), size(mine), 1, {size(mine), first, 0, true});
  const bool same = n == 2;
  const std::string said = message_of([&] { interop::wrap_multivector<vector>(g, v, trilinos::read_write{}); });
  EXPECT_EQ(said.empty(), same) << said;
  if (!same) {
    EXPECT_NE(said.find("along dim 'row' the MultiVector has the indices from 3 to below 5 on rank 1, but the shard "
                        "has those from 3 to below 6"),
              std::string::npos)
        << said;
  }
  // The same blocks in another order.
  std::vector<int> backwards;
  for (int r = n; r-- > 0;) backwards.push_back(r);
  const grid turned(line, MPI_COMM_WORLD, {n}, cleave::on_ranks{.list = backwards});
  trilinos::multi_vector<double> even(size(2 * n), 2, 1, {2, 2 * support::rank(), 0, true});
  expect_everywhere("on rank 0, but the shard has those from " + std::to_string(2 * n - 2),
                    [&] { interop::wrap_multivector<vector>(turned, even, trilinos::read_write{}); });
}

using field = tensor<double, plane(row / ay, col / ax)>;
using host_box = Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace>;
TEST(boxes, of_any_size_and_back) {
  const int n = support::ranks();
  for (const auto& sizes : support::factorings(n, 2)) {
    const grid g(plane, MPI_COMM_WORLD, {sizes[0], sizes[1]});
    field x(g, {11, 2 * n + 3});
    // Rank r has two columns, the last rank three more; none are on rank 0, whose columns rank 1 has too.
    const std::int64_t r = support::rank(), width = x.extent(1);
    std::int64_t first = 2 * r, end = r == n - 1 ? width : 2 * r + 2;
    if (n > 1 && r == 0) end = 0;
    if (n > 1 && r == 1) first = 0;
    host_box mine("mine", 11, size(end - first));
    for (std::int64_t i = 0; i < 11; ++i)
      for (std::int64_t j = first; j < end; ++j) mine(size(i), size(j - first)) = static_cast<double>(100 * i + j);
    from_boxes(mine, {0, first}, x);
    const std::vector<double> all = x.to_global();
    for (std::int64_t i = 0; i < 11; ++i)
      for (std::int64_t j = 0; j < width; ++j) EXPECT_EQ(all[size(i * width + j)], static_cast<double>(100 * i + j));
    x = 2 * x;
    // Back with a ghost on each side, where there is one.
    const std::int64_t low = std::max<std::int64_t>(first - 1, 0), high = std::min(end + 1, width);
    host_box wider("wider", 3, size(high - low));
    to_boxes(x, wider, {4, low});
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = low; j < high; ++j)
        EXPECT_EQ(wider(size(i), size(j - low)), static_cast<double>(200 * (i + 4) + 2 * j));
  }
}
TEST(boxes, mistakes_are_seen_by_all_ranks) {
  const int n = support::ranks();
  const grid g(plane, MPI_COMM_WORLD, {n, 1});
  const field x(g, {2 * n, 4});
  const std::int64_t r = support::rank();
  const host_box two("two", 2, 4), three("three", 3, 4);
  expect_everywhere("the box of rank " + std::to_string(n - 1) + " has the indices from " + std::to_string(2 * n - 2) +
                        " to below " + std::to_string(2 * n + 1),
                    [&] { from_boxes(r == n - 1 ? three : two, {2 * r, 0}, x); });
  expect_everywhere("-1", [&] { to_boxes(x, two, {2 * r, r == n - 1 ? -1 : 0}); });
  expect_everywhere("have " + std::to_string(8 * n - 4) + " elements together",
                    [&] { from_boxes(r == n - 1 ? host_box("one", 1, 4) : two, {2 * r, 0}, x); });
  if (n > 1) {
    expect_everywhere("in the boxes of two ranks", [&] { from_boxes(two, {r == n - 1 ? 2 * r - 1 : 2 * r, 0}, x); });
  }
}

} // namespace CLEAVE_SOURCE
