// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hand_plan.hpp"
#include "support.hpp"

#include <cleave/storage/flat_loops.hpp>
#include <cleave/storage/rows.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

// The kernels of single steps, as bound by the executor, against plain loops over global indices.

namespace CLEAVE_SOURCE {

using namespace hand;

constexpr element f32 = element::f32, f64 = element::f64, i32 = element::i32, b8 = element::boolean;

/// Value of an element, given its global indices by dim id.
using formula = std::function<double(const std::array<std::int64_t, 8>&)>;

/// Global indices by dim id of every element that a device has of a buffer, in the order of memory.
std::vector<std::array<std::int64_t, 8>> indices_of(const buffer& b, const sizes& s, const grid_state& g) {
  std::vector<std::array<std::int64_t, 8>> all;
  const shape global = shape_of(b.type, s);
  support::for_owned(global, b.where, g.here(), g.sizes(), [&](std::int64_t flat) {
    std::array<std::int64_t, 8> at{};
    for (int i = global.rank - 1; i >= 0; --i) {
      at[b.type[i]] = flat % global[i];
      flat /= global[i];
    }
    all.push_back(at);
  });
  return all;
}

template <class T>
std::vector<unsigned char> bytes_of(const buffer& b, const sizes& s, const grid_state& g, const formula& f) {
  std::vector<unsigned char> bytes;
  for (const auto& at : indices_of(b, s, g)) {
    const T v = convert<T>(f(at));
    const auto* first = reinterpret_cast<const unsigned char*>(&v);
    bytes.insert(bytes.end(), first, first + sizeof(T));
  }
  return bytes;
}

double read(const std::vector<unsigned char>& bytes, std::size_t i, element e) {
  double value = 0;
  with_element(e, [&](auto zero) {
    std::memcpy(&zero, bytes.data() + i * sizeof(zero), sizeof(zero));
    if constexpr (std::is_convertible_v<decltype(zero), double>) value = static_cast<double>(zero);
  });
  return value;
}

void expect_equal(const std::vector<unsigned char>& got, const buffer& b, const sizes& s, const grid_state& g,
                  const formula& want, double tolerance, const char* what) {
  const auto all = indices_of(b, s, g);
  int wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double expected = want(all[i]), value = read(got, i, b.type.element);
    const bool equal = expected == value || std::abs(expected - value) <= tolerance * (1 + std::abs(expected));
    if (!equal && ++wrong <= 3) {
      ADD_FAILURE() << what << ": element " << i << " expected " << expected << " got " << value;
    }
  }
}

grid line_of_ranks() { return grid(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()}); }

/// Runs the one step of a plan through the executor, then in the form for devices, and compares both.
template <class Maker>
void check(std::initializer_list<std::int64_t> extents, const std::vector<formula>& inputs, const formula& want,
           double tolerance = 0) {
  using Plan = hand_plan<Maker>;
  const grid g = line_of_ranks();
  sizes s;
  s.axes = g.sizes();
  std::size_t d = 0;
  for (std::int64_t e : extents) s.dims[d++] = e;
  std::vector<std::vector<unsigned char>> in(Plan::frozen.arguments);
  const buffer* out = nullptr;
  for (const buffer& b : Plan::frozen.buffers) {
    if (b.role == role::output) out = &b;
    if (b.role != role::input) continue;
    with_element(b.type.element,
                 [&](auto zero) { in[b.index] = bytes_of<decltype(zero)>(b, s, g.state(), inputs[b.index]); });
  }
  std::vector<support::on_device<unsigned char>> kept;
  for (const auto& bytes : in) kept.emplace_back(bytes);
  std::vector<const void*> from;
  for (const auto& bytes : kept) from.push_back(bytes.data());
  const std::vector<unsigned char> nothing(indices_of(*out, s, g.state()).size() *
                                               static_cast<std::size_t>(size_of(out->type.element)),
                                           0x55);
  const support::on_device<unsigned char> result(nothing);
  void* to = result.data();
  executor_for<Plan>(g.state(), s).run(from.data(), &to);
  expect_equal(result.read(), *out, s, g.state(), want, tolerance, "form of the executor");

  static constexpr const step& one = Plan::frozen.steps[0];
  if constexpr (one.kind == step_kind::map || one.kind == step_kind::fold) {
    using kernel = typename detail::expression_of<Plan, 0>::type;
    using whole_result = expression_result<kernel::entries - 1, typename kernel::type>;
    executor p(g.state(), s, runnable_of<Plan>);
    result.write(nothing);
    const bindings::running running(g.state().bound());
    p.start(from.data(), &to);
    run_state& r = p.state();
    const operand_addresses operands(r, one);
    using step_class = std::conditional_t<one.kind == step_kind::map, map_step<>, fold_step<>>;
    const bound_loops& loops = static_cast<const step_class&>(*r.steps[0]).loops();
    if constexpr (one.kind == step_kind::map) map_flat<kernel, whole_result>(loops, operands.from, &to);
    else
      fold_flat<kernel, one.combine, detail::folds_inner(Plan::frozen, 0)>(loops, operands.from, to, r.scratch.memory);
    expect_equal(result.read(), *out, s, g.state(), want, tolerance, "form for devices");
  }
}

// out[i, j] = select(x[i, j] < bias[j], x * 2 + y[j, i], index of i) / number of elements
struct long_chain {
  static constexpr auto make() {
    program_of<4, 1, 11> p;
    p.dims = {{"i", dynamic}, {"j", dynamic}};
    p.buffers = {buffer_of(role::input, 0, type_of(f32, {0, 1}), 0), buffer_of(role::input, 1, type_of(f32, {1}), 0),
                 buffer_of(role::input, 2, type_of(f32, {1, 0}), 0),
                 buffer_of(role::output, 0, type_of(f32, {0, 1}), 0)};
    step& s = p.steps[0];
    s.kind = step_kind::map;
    s.code = op::div;
    s.in = {0, 1, 2};
    s.out = 3;
    s.loop = p.buffers[3].type;
    s.space = space_of(s.loop, 0);
    set_expression(p, s,
                   {load(f32, 0), load(f32, 1), apply(op::less, b8, 0, 1), literal(f32, 2), apply(op::mul, f32, 0, 3),
                    load(f32, 2), apply(op::add, f32, 4, 5), iota(f32, 0), apply(op::select, f32, 2, 6, 7),
                    count(f32, {0, 1}), apply(op::div, f32, 8, 9)});
    p.arguments = 3;
    p.results = 1;
    return p;
  }
};

TEST(kernels, fused_chain) {
  for (const auto& [i, j] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {8, 33}, {5, 1}, {1, 5}, {0, 4}, {4, 0}, {3, 16}, {600, 40}}) {
    const formula x = [](const auto& a) { return static_cast<double>((a[0] * 7 + a[1] * 3) % 11); };
    const formula bias = [](const auto& a) { return static_cast<double>(a[1] % 9); };
    const formula y = [](const auto& a) { return static_cast<double>(a[0] - 2 * a[1]); };
    const auto n = static_cast<float>(i * j);
    check<long_chain>({i, j}, {x, bias, y}, [&](const auto& a) {
      const double v = x(a) < bias(a) ? x(a) * 2 + y(a) : static_cast<double>(a[0]);
      return static_cast<double>(static_cast<float>(v) / n);
    });
  }
}

// A map that changes the element type, without dims.
struct scalar_cast {
  static constexpr auto make() {
    program_of<2, 1, 2> p;
    p.buffers = {buffer_of(role::input, 0, type_of(f64, {})), buffer_of(role::output, 0, type_of(i32, {}))};
    step& s = p.steps[0];
    s.kind = step_kind::map;
    s.code = op::cast;
    s.in = {0};
    s.out = 1;
    s.loop = p.buffers[1].type;
    set_expression(p, s, {load(f64, 0), apply(op::cast, i32, 0)});
    p.arguments = 1;
    p.results = 1;
    return p;
  }
};
TEST(kernels, rank_0) {
  check<scalar_cast>({}, {[](const auto&) { return 41.75; }}, [](const auto&) { return 41; });
}

// Folds of a[i, j, k] in every memory order over every set of dims; dim 0 is sharded where it is kept, dim 2 where it
// is not.
template <int A, int B, int C, int Folded, reduction How, element E>
struct folding {
  static constexpr int sharded = (Folded & 1) != 0 ? ((Folded & 2) != 0 ? ((Folded & 4) != 0 ? -1 : 2) : 1) : 0;
  static constexpr auto make() {
    program_of<2, 1, 2> p;
    p.dims = {{"i", dynamic}, {"j", dynamic}, {"k", dynamic}};
    tensor_type kept = type_of(E, {}), loop;
    for (int d = 0; d < 3; ++d)
      if ((Folded >> d & 1) == 0) kept.append(static_cast<dim_id>(d));
    loop = kept;
    for (int d : {A, B, C})
      if ((Folded >> d & 1) != 0) loop.append(static_cast<dim_id>(d));
    p.buffers = {buffer_of(role::input, 0, type_of(E, {A, B, C}), sharded), buffer_of(role::output, 0, kept, sharded)};
    step& s = p.steps[0];
    s.kind = step_kind::fold;
    s.code = op::reduce;
    s.in = {0};
    s.out = 1;
    s.loop = loop;
    s.space = space_of(loop, sharded);
    s.folded = static_cast<std::uint8_t>(3 - kept.rank);
    s.combine = How;
    set_expression(p, s, {load(E, 0), apply(op::mul, E, 0, 0)});
    p.arguments = 1;
    p.results = 1;
    return p;
  }
};

template <int A, int B, int C, int Folded, reduction How, element E>
void check_fold(std::array<std::int64_t, 3> extent) {
  const formula x = [](const auto& a) { return static_cast<double>((a[0] * 5 + a[1] * 3 + a[2] * 7) % 4 - 1); };
  const formula want = [&](const std::array<std::int64_t, 8>& kept) {
    double total = How == reduction::sum    ? 0
                   : How == reduction::prod ? 1
                   : How == reduction::max  ? -HUGE_VAL
                                            : HUGE_VAL;
    if (E == i32 && How == reduction::max) total = std::numeric_limits<std::int32_t>::lowest();
    std::array<std::int64_t, 8> at = kept;
    const auto range_of = [&](std::size_t d) {
      return (Folded >> d & 1) != 0 ? range{0, extent[d]} : range{kept[d], kept[d] + 1};
    };
    for (at[0] = range_of(0).begin; at[0] < range_of(0).end; ++at[0])
      for (at[1] = range_of(1).begin; at[1] < range_of(1).end; ++at[1])
        for (at[2] = range_of(2).begin; at[2] < range_of(2).end; ++at[2]) {
          const double v = x(at) * x(at);
          total = How == reduction::sum    ? total + v
                  : How == reduction::prod ? total * v
                  : How == reduction::max  ? std::max(total, v)
                                           : std::min(total, v);
        }
    return total;
  };
  check<folding<A, B, C, Folded, How, E>>({extent[0], extent[1], extent[2]}, {x}, want);
}

template <int A, int B, int C>
void check_folds(std::array<std::int64_t, 3> extent) {
  check_fold<A, B, C, 1, reduction::sum, f32>(extent);
  check_fold<A, B, C, 2, reduction::max, f32>(extent);
  check_fold<A, B, C, 4, reduction::min, f32>(extent);
  check_fold<A, B, C, 3, reduction::sum, f64>(extent);
  check_fold<A, B, C, 5, reduction::max, i32>(extent);
  check_fold<A, B, C, 6, reduction::sum, i32>(extent);
  check_fold<A, B, C, 7, reduction::sum, f64>(extent);
}
TEST(kernels, folds_in_every_order) {
  for (const std::array<std::int64_t, 3>& extent :
       {std::array<std::int64_t, 3>{4, 3, 21}, {17, 1, 5}, {2, 0, 3}, {1, 1, 1}, {9, 40, 33}}) {
    check_folds<0, 1, 2>(extent);
    check_folds<2, 0, 1>(extent);
    check_folds<1, 2, 0>(extent);
  }
}
TEST(kernels, products_fold) { check_fold<0, 1, 2, 4, reduction::prod, f64>({3, 2, 5}); }

// Few results of many elements: cut in pieces, joined in order.
TEST(kernels, long_folds) {
  check_fold<0, 1, 2, 7, reduction::sum, f64>({3, 40, 300});
  check_fold<0, 1, 2, 3, reduction::sum, f64>({300, 40, 3});
  check_fold<0, 1, 2, 6, reduction::sum, i32>({3, 40, 400});
}

// Few elements of many results: a vector holds results.
TEST(kernels, short_folds) {
  for (const std::array<std::int64_t, 3>& extent :
       {std::array<std::int64_t, 3>{13, 7, 10}, {40, 31, 31}, {64, 4, 1}, {50, 9, 0}}) {
    check_fold<0, 1, 2, 4, reduction::sum, f32>(extent);
    check_fold<0, 1, 2, 4, reduction::max, f64>(extent);
    check_fold<1, 0, 2, 4, reduction::min, f32>(extent);
    check_fold<1, 0, 2, 6, reduction::sum, i32>(extent);
  }
}

/// Products in every memory order of operands and result, through the binding of the executor.
template <class T>
void check_gemm(const tensor_type& a, const tensor_type& b, const tensor_type& c, dim_set batch, dim_set contracted,
                const std::array<std::int64_t, 8>& extent, int sharded) {
  const grid g = line_of_ranks();
  sizes s;
  s.axes = g.sizes();
  for (std::size_t d = 0; d < 8; ++d) s.dims[d] = extent[d];
  program_of<3, 1> p;
  p.buffers = {buffer_of(role::input, 0, a, sharded), buffer_of(role::input, 1, b, sharded),
               buffer_of(role::output, 0, c, sharded)};
  for (int d = 0; d < 8; ++d) p.dims.push_back({"d", dynamic});
  step& one = p.steps[0];
  one.kind = step_kind::gemm;
  one.code = op::dot;
  one.in = {0, 1};
  one.out = 2;
  for (int i = 0; i < c.rank; ++i)
    ((batch & dim_bit(c[i])) != 0 ? one.batch : a.has(c[i]) ? one.m : one.n).append(c[i]);
  for (int i = 0; i < a.rank; ++i)
    if ((contracted & dim_bit(a[i])) != 0) one.k.append(a[i]);
  p.arguments = 2;
  p.results = 1;
  const auto left = [&](const std::array<std::int64_t, 8>& i) {
    std::int64_t v = 0;
    for (int d = 0; d < a.rank; ++d) v += i[a[d]] * (a[d] * 2 + 1);
    return static_cast<double>(v % 5 - 2);
  };
  const auto right = [&](const std::array<std::int64_t, 8>& i) {
    std::int64_t v = 0;
    for (int d = 0; d < b.rank; ++d) v += i[b[d]] * (b[d] + 2);
    return static_cast<double>(v % 7 - 3);
  };
  using memory = support::on_device<unsigned char>;
  const memory in_a(bytes_of<T>(p.buffers[0], s, g.state(), left)),
      in_b(bytes_of<T>(p.buffers[1], s, g.state(), right)),
      out(std::vector<unsigned char>(indices_of(p.buffers[2], s, g.state()).size() * sizeof(T), 0x55));
  const void* from[] = {in_a.data(), in_b.data()};
  void* to[] = {out.data()};
  const std::uint16_t form_of[] = {0};
  const step_form forms[] = {{&detail::bind_gemm_of<T, gemm_step>, nullptr}};
  const runnable code{p, form_of, forms};
  executor(g.state(), s, code).run(from, to);
  const formula want = [&](const std::array<std::int64_t, 8>& kept) {
    double total = 0;
    std::array<std::int64_t, 8> at = kept;
    std::int64_t n = 1;
    for (int i = 0; i < one.k.rank; ++i) n *= extent[one.k[i]];
    for (std::int64_t flat = 0; flat < n; ++flat) {
      std::int64_t rest = flat;
      for (int i = 0; i < one.k.rank; ++i) {
        at[one.k[i]] = rest % extent[one.k[i]];
        rest /= extent[one.k[i]];
      }
      total += left(at) * right(at);
    }
    return total;
  };
  std::string what = "product";
  for (const buffer& x : p.buffers) {
    what += " [";
    for (int i = 0; i < x.type.rank; ++i)
      what += " " + std::to_string(x.type[i]) + ":" + std::to_string(extent[x.type[i]]);
    what += " ]";
  }
  expect_equal(out.read(), p.buffers[2], s, g.state(), want, 0, what.c_str());
}

/// All permutations of a type's dims.
std::vector<tensor_type> orders(tensor_type t) {
  std::vector<tensor_type> all;
  std::sort(t.dims.begin(), t.dims.begin() + t.rank);
  do all.push_back(t);
  while (std::next_permutation(t.dims.begin(), t.dims.begin() + t.rank));
  return all;
}

TEST(kernels, products_in_every_order) {
  // m = 0, n = 1, k = 2, batch = 3; the batch dim or m is sharded.
  for (const std::array<std::int64_t, 8>& extent : {std::array<std::int64_t, 8>{5, 4, 3, 2},
                                                    {1, 4, 3, 2},
                                                    {5, 1, 3, 3},
                                                    {5, 4, 1, 2},
                                                    {0, 4, 3, 2},
                                                    {5, 4, 0, 2},
                                                    {1, 1, 6, 1},
                                                    {3, 1, 1, 5},
                                                    // Many products, which one kernel computes; too large for it.
                                                    {5, 4, 3, 40},
                                                    {1, 1, 6, 400},
                                                    {1, 17, 3, 32},
                                                    {12, 11, 13, 24}}) {
    for (const tensor_type& a : orders(type_of(f32, {0, 2})))
      for (const tensor_type& b : orders(type_of(f32, {1, 2})))
        for (const tensor_type& c : orders(type_of(f32, {0, 1}))) check_gemm<float>(a, b, c, 0, dim_bit(2), extent, 0);
    for (const tensor_type& a : orders(type_of(f64, {0, 2, 3})))
      for (const tensor_type& b : orders(type_of(f64, {1, 2, 3})))
        for (const tensor_type& c : orders(type_of(f64, {0, 1, 3})))
          check_gemm<double>(a, b, c, dim_bit(3), dim_bit(2), extent, 3);
    for (const tensor_type& a : orders(type_of(i32, {0, 2})))
      for (const tensor_type& b : orders(type_of(i32, {1, 2})))
        check_gemm<std::int32_t>(a, b, type_of(i32, {0, 1}), 0, dim_bit(2), extent, 1);
  }
}

TEST(kernels, products_of_many_dims) {
  // m = {0, 1}, n = {4}, k = {2, 3}, batch = {5}
  const std::array<std::int64_t, 8> extent{3, 2, 4, 3, 5, 2};
  const auto all_a = orders(type_of(f32, {0, 1, 2, 3, 5})), all_b = orders(type_of(f32, {4, 2, 3, 5})),
             all_c = orders(type_of(f32, {0, 1, 4, 5}));
  for (std::size_t i = 0; i < 240; ++i)
    check_gemm<float>(all_a[i * 7 % all_a.size()], all_b[i * 5 % all_b.size()], all_c[i * 11 % all_c.size()],
                      dim_bit(5), dim_bit(2) | dim_bit(3), extent, i % 2 == 0 ? 0 : 5);
  // Many products of two batch dims.
  const std::array<std::int64_t, 8> many{3, 2, 4, 3, 9, 7, 6};
  for (const tensor_type& a : orders(type_of(f32, {0, 2, 4, 5})))
    check_gemm<float>(a, type_of(f32, {5, 6, 2, 4}), type_of(f32, {4, 5, 0, 6}), dim_bit(4) | dim_bit(5), dim_bit(2),
                      many, 4);
  check_gemm<std::int32_t>(type_of(i32, {4, 5, 2}), type_of(i32, {5, 2, 4}), type_of(i32, {5, 4}),
                           dim_bit(4) | dim_bit(5), dim_bit(2), many, 5);
  // matrix times vector, dot product of vectors, outer product of a batch
  check_gemm<float>(type_of(f32, {0, 2}), type_of(f32, {2}), type_of(f32, {0}), 0, dim_bit(2), extent, 0);
  check_gemm<float>(type_of(f32, {2, 0}), type_of(f32, {2}), type_of(f32, {0}), 0, dim_bit(2), extent, 0);
  check_gemm<float>(type_of(f32, {2}), type_of(f32, {2, 4}), type_of(f32, {4}), 0, dim_bit(2), extent, 4);
  check_gemm<double>(type_of(f64, {2}), type_of(f64, {2}), type_of(f64, {}), 0, dim_bit(2), extent, -1);
}

// Rows of all lengths, in one piece and in several, at any places.
template <class T>
void check_rows(const strided_dims& row, std::int64_t source_size, std::int64_t target_size, std::int64_t rows) {
  Kokkos::View<T*, memory_space> from("from", static_cast<std::size_t>(source_size)),
      to("to", static_cast<std::size_t>(target_size));
  Kokkos::View<std::int64_t*, memory_space> source("source", static_cast<std::size_t>(rows)),
      target("target", static_cast<std::size_t>(rows));
  auto all = Kokkos::create_mirror_view(from), made = Kokkos::create_mirror_view(to);
  auto in = Kokkos::create_mirror_view(source), out = Kokkos::create_mirror_view(target);
  for (std::size_t i = 0; i < all.size(); ++i) all(i) = static_cast<T>(i % 101);
  std::int64_t reach[2] = {0, 0};
  for (int d = 0; d < row.rank; ++d)
    for (int array : {0, 1}) reach[array] += (row.extent[d] - 1) * row.stride[array][d];
  const std::int64_t apart = (target_size - reach[0] - 1) / (rows - 1);
  for (const bool adds : {false, true}) {
    std::vector<T> want(made.size(), T(7));
    for (std::int64_t r = 0; r < rows; ++r) {
      // Rows that are copied lie apart; those that are added lie apart or are the same.
      in(static_cast<std::size_t>(r)) = !adds && r % 5 == 3 ? -1 : r * 13 % (source_size - reach[1]);
      out(static_cast<std::size_t>(r)) = !adds ? r * apart : r % 4 == 1 ? -1 : r % 3 * apart;
      for (std::int64_t k = 0; k < row.size(); ++k) {
        const std::int64_t i = in(static_cast<std::size_t>(r)), o = out(static_cast<std::size_t>(r));
        const T x = i < 0 ? T{} : all(static_cast<std::size_t>(i + row.at(1, k)));
        if (o >= 0)
          want[static_cast<std::size_t>(o + row.at(0, k))] =
              adds ? static_cast<T>(want[static_cast<std::size_t>(o + row.at(0, k))] + x) : x;
      }
    }
    Kokkos::deep_copy(made, T(7));
    Kokkos::deep_copy(from, all);
    Kokkos::deep_copy(to, made);
    Kokkos::deep_copy(source, in);
    Kokkos::deep_copy(target, out);
    if (adds) add_rows<T>(from.data(), to.data(), source.data(), target.data(), row, rows);
    else copy_rows<T>(from.data(), to.data(), source.data(), target.data(), row, rows);
    Kokkos::fence();
    Kokkos::deep_copy(made, to);
    for (std::size_t i = 0; i < made.size(); ++i) ASSERT_EQ(made(i), want[i]) << i << (adds ? " added" : " copied");
  }
}
TEST(kernels, rows) {
  const auto dims = [](std::initializer_list<std::array<std::int64_t, 3>> all) {
    strided_dims row;
    for (const auto& [extent, to, from] : all) row.add(extent, to, from);
    return row;
  };
  // One element; one piece that is longer than a unit of work; dims that join; every other element; turned around; gaps
  // in one of them.
  check_rows<double>(dims({}), 50, 50, 7);
  check_rows<float>(dims({{300, 1, 1}}), 1000, 40000, 120);
  check_rows<float>(dims({{20000, 1, 1}}), 20100, 70000, 3);
  check_rows<double>(dims({{3, 7 * 19, 7 * 19}, {1, 500, 1}, {7, 19, 19}, {19, 1, 1}}), 600, 60000, 90);
  check_rows<std::int32_t>(dims({{33, 2, 1}}), 90, 4000, 40);
  check_rows<double>(dims({{17, 1, 31}, {31, 17, 1}}), 600, 40000, 50);
  check_rows<float>(dims({{5, 100, 64}, {64, 1, 1}}), 400, 30000, 40);
}

// Divisions by a product and a shift, as kernels of devices do them.
TEST(kernels, divisors) {
  std::mt19937_64 random(1);
  for (const std::int64_t d :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{641}, std::int64_t{65535},
        std::int64_t{65536}, std::int64_t{1000003}, (std::int64_t{1} << 31) - 1, std::int64_t{1} << 31,
        (std::int64_t{1} << 31) + 1, std::int64_t{1} << 40}) {
    const flat_divisor by(d);
    EXPECT_EQ(by.divisor(), d);
    const auto expect_quotient = [&](std::int64_t n) { ASSERT_EQ(by.quotient(n), n / d) << n << " / " << d; };
    for (std::int64_t n = 0; n < 1000; ++n) expect_quotient(n);
    for (std::int64_t n : {d - 1, d, d + 1, 3 * d - 1, 3 * d, (std::int64_t{1} << 31) - 1, std::int64_t{1} << 31})
      expect_quotient(n);
    for (int i = 0; i < 1000; ++i) {
      const auto n = static_cast<std::int64_t>(random() >> 1);
      expect_quotient(n);
      expect_quotient(n >> 32);
    }
  }
}

// The units of a device have every element of nested loops once, whatever the extents.
// Array 0 is packed; the last dim of array 1 is its first one.
flat_nest<2> nest_of_two(const std::vector<std::int64_t>& extents) {
  flat_nest<2> nest;
  for (const std::int64_t n : extents) nest.append({n, {}});
  std::int64_t packed = 1, turned = 1;
  for (int i = nest.rank - 1; i >= 0; --i) nest.dims[i].stride[0] = packed, packed *= nest.dims[i].extent;
  for (int i = 0; i < nest.rank; ++i) nest.dims[i].stride[1] = turned, turned *= nest.dims[i].extent;
  return nest;
}
template <int Repeat>
void check_tiles(const std::vector<std::int64_t>& extents) {
  const flat_nest<2> nest = nest_of_two(extents);
  const flat_tiles<2, Repeat> tiles(nest);
  std::int64_t elements = 1;
  for (const std::int64_t n : extents) elements *= n;
  std::vector<int> visits(static_cast<std::size_t>(elements));
  for (std::int64_t unit = 0; unit < tiles.units(); ++unit) {
    const auto at = tiles.at(unit);
    ASSERT_LE(at.count, Repeat);
    ASSERT_LT(at.offset[0], elements) << "where nothing is, something is read";
    for (int r = 0; r < at.count; ++r) {
      const std::int64_t packed = at.offset[0] + r * tiles.step(0), turned = at.offset[1] + r * tiles.step(1);
      ASSERT_LT(packed, elements);
      ++visits[static_cast<std::size_t>(packed)];
      std::int64_t want = 0;
      for (int i = 0; i < nest.rank; ++i)
        want += packed / nest.dims[i].stride[0] % nest.dims[i].extent * nest.dims[i].stride[1];
      ASSERT_EQ(turned, want);
    }
  }
  for (const int n : visits) ASSERT_EQ(n, 1) << testing::PrintToString(extents) << " in units of " << Repeat;
}
TEST(kernels, tiles) {
  for (const std::vector<std::int64_t>& extents : {std::vector<std::int64_t>{1},
                                                   {5},
                                                   {32},
                                                   {33},
                                                   {1000},
                                                   {7, 1},
                                                   {1, 7},
                                                   {9, 31},
                                                   {16, 64},
                                                   {3, 5, 7},
                                                   {5, 8, 32},
                                                   {9, 17, 70},
                                                   {1, 9, 33},
                                                   {2, 3, 4, 5},
                                                   {2, 3, 9, 40}}) {
    check_tiles<1>(extents);
    check_tiles<4>(extents);
    check_tiles<8>(extents);
  }
}

} // namespace CLEAVE_SOURCE
