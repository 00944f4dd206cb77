// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/move.hpp>
#include <cleave/grid.hpp>
#include <cleave/storage/memory.hpp>

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace support {

/// Bytes that this rank's calls of MPI moved since the last reset, each charged from its own arguments by the table of
/// docs/12-cost.md. Counted by the wrappers in pmpi.cpp.
std::int64_t charged_bytes();
/// How often MPI was called to communicate.
std::int64_t charged_calls();
/// Messages sent by this rank, which are charged to their receiver.
std::int64_t sent_messages();
/// A number made of the collective calls of MPI since the last reset, in their order. Equal on all ranks, or they would
/// wait for each other.
std::int64_t collective_order();
void reset_charges();
/// Makes the next calls of MPI that communicate, after so many others, return MPI_ERR_OTHER without communicating; 0
/// ends that.
void fail_calls(std::int64_t next, std::int64_t after = 0);
/// The same of calls by which memory is set up for ranks to share. They are not counted as communication.
void fail_set_up(std::int64_t next, std::int64_t after = 0);
/// The largest number of all ranks, without being counted.
std::int64_t over_ranks(std::int64_t mine);

/// While one lives, grids are made that communicate by MPI alone: for tests of what MPI itself does.
class only_mpi {
 public:
  only_mpi() : before_(cleave::comm::transport_mode()) {
    cleave::comm::transport_mode() = cleave::comm::transport::mpi;
  }
  ~only_mpi() { cleave::comm::transport_mode() = before_; }
  only_mpi(const only_mpi&) = delete;
  only_mpi& operator=(const only_mpi&) = delete;

 private:
  cleave::comm::transport before_;
};

/// While one lives, a setting of the library is another.
template <class T>
class setting {
 public:
  setting(T& of_library, T value) : of_library_(of_library), before_(std::exchange(of_library, value)) {}
  ~setting() { of_library_ = before_; }
  setting(const setting&) = delete;
  setting& operator=(const setting&) = delete;

 private:
  T& of_library_;
  T before_;
};

/// Allocations by operator new in this process so far.
std::int64_t allocations();
/// While it exists, the allocation of this number by operator new from now on finds no memory; 0: all find some.
struct no_memory {
  explicit no_memory(std::int64_t number);
  no_memory(const no_memory&) = delete;
  no_memory& operator=(const no_memory&) = delete;
  ~no_memory();
};
/// Whether warm calls take nothing from the heap. Where kernels run on a device, Kokkos takes the names of its copies
/// and fences from it.
inline constexpr bool heap_is_left_alone = cleave::on_host;

/// While one lives, what its thread takes from the heap is counted, by operator new or malloc or any of its kin, except
/// inside of MPI and of BLAS. See heap.cpp.
class heap_count {
 public:
  heap_count();
  ~heap_count();
  heap_count(const heap_count&) = delete;
  heap_count& operator=(const heap_count&) = delete;
  /// How many so far.
  std::int64_t operator()() const;
};
/// In the wrappers of MPI: what MPI allocates is its own affair. In the fenced space, an MPI that is aware of devices
/// touches their memory meanwhile.
class uncounted {
 public:
  uncounted();
  ~uncounted();
  uncounted(const uncounted&) = delete;
  uncounted& operator=(const uncounted&) = delete;

#ifdef CLEAVE_EXECUTION_SPACE
 private:
  std::optional<fenced::arena::opened> device_;
#endif
};
/// Whether malloc is seen too; not under sanitizers, which have their own.
bool counts_malloc();

/// Objects that main destroys after MPI_Finalize and Kokkos::finalize.
std::vector<std::shared_ptr<void>>& after_finalize();

/// Threads that work one after the other.
struct three_threads {
  three_threads() {
    given_.threads = 3;
    given_.space = this;
    given_.run = [](const void* self, const char*, const cleave::detail::shared_units& all) {
      ++cleave::as<three_threads>(const_cast<void*>(self))->parallel;
      for (std::int64_t t = 0; t < all.threads; ++t) all(t);
    };
    cleave::detail::given_instance::current() = &given_;
  }
  ~three_threads() { cleave::detail::given_instance::current() = nullptr; }
  three_threads(const three_threads&) = delete;
  three_threads& operator=(const three_threads&) = delete;

  /// How often they were used.
  int parallel = 0;

 private:
  cleave::detail::given_instance given_{};
};

inline int ranks() {
  int n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}
inline int rank() {
  int r = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  return r;
}

inline constexpr std::string_view axis_names[] = {"a", "b", "c"};

/// A mesh of so many axes with dynamic sizes.
inline cleave::mesh_value mesh_of(std::size_t axes) {
  cleave::mesh_value m;
  for (std::size_t i = 0; i < axes; ++i) m.axes.push_back({axis_names[i], cleave::dynamic});
  return m;
}

/// Every way to write the number of ranks as a product of `axes` sizes.
inline std::vector<std::vector<std::int64_t>> factorings(std::int64_t n, std::size_t axes) {
  if (axes == 1) return {{n}};
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t first = 1; first <= n; ++first) {
    if (n % first != 0) continue;
    for (auto rest : factorings(n / first, axes - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(rest);
    }
  }
  return all;
}

/// A grid of all ranks for every way to divide them over a mesh of two axes.
template <class Mesh>
std::vector<cleave::grid> grids(const Mesh& mesh) {
  std::vector<cleave::grid> all;
  for (const auto& sizes : factorings(ranks(), 2)) all.emplace_back(mesh, MPI_COMM_WORLD, sizes);
  return all;
}

/// Every layout without partial values of a tensor of this rank over so many axes: each axis divides no dim, or is the
/// next one of some dim, in every order.
inline std::vector<cleave::layout> layouts(int rank, int axes) {
  std::vector<cleave::layout> all{cleave::layout{}};
  for (std::size_t done = 0; done < all.size(); ++done) {
    const cleave::layout base = all[done];
    for (int a = 0; a < axes; ++a) {
      if ((base.used() >> a & 1) != 0) continue;
      for (int d = 0; d < rank; ++d) {
        cleave::layout l = base;
        l.append(d, a);
        bool known = false;
        for (const cleave::layout& other : all) known = known || other == l;
        if (!known) all.push_back(l);
      }
    }
  }
  return all;
}

/// Whether a device holds an index along a dim, from the definition of blocks and nothing else.
inline bool owns(std::int64_t index, const cleave::dim_blocks& dim, cleave::axis_list list,
                 const cleave::coordinates& at, const cleave::axis_sizes& sizes) {
  std::int64_t parts = 1, mine = 0;
  for (int i = 0; i < list.size(); ++i) {
    parts *= sizes[list[i]];
    mine = mine * sizes[list[i]] + at[static_cast<std::size_t>(list[i])];
  }
  std::int64_t length = dim.extent, blocks = dim.given == nullptr ? 0 : dim.given->count();
  if (blocks != 0 && (parts % blocks == 0 || blocks % parts == 0)) {
    std::int64_t k = 0;
    while (index >= dim.given->begins[k + 1]) ++k;
    if (blocks % parts == 0) return k / (blocks / parts) == mine;
    if (k != mine / (parts / blocks)) return false;
    mine %= parts /= blocks;
    index -= dim.given->begins[k];
    length = dim.given->begins[k + 1] - dim.given->begins[k];
  }
  std::int64_t block = length / parts;
  if (block * parts < length) ++block;
  return block != 0 && index / block == mine;
}

/// Calls f(flat global index) for every element that a device holds, in the order of its memory.
template <class F>
void for_owned(const cleave::shape& global, const cleave::layout& l, const cleave::coordinates& at,
               const cleave::axis_sizes& sizes, F&& f) {
  for (std::int64_t flat = 0; flat < global.elements(); ++flat) {
    std::int64_t rest = flat;
    bool mine = true;
    for (int i = global.rank - 1; i >= 0; --i) {
      mine = mine && owns(rest % global[i], global.along(i), l[i], at, sizes);
      rest /= global[i];
    }
    if (mine) f(flat);
  }
}

/// A move whose collective only the run knows.
inline cleave::owned<cleave::comm::bound_exchange> make_move(cleave::grid_state& grid, cleave::kind move,
                                                             const cleave::comm::transfer& t) {
  using cleave::kind, cleave::comm::make_move;
  switch (move) {
    case kind::slice: return make_move<kind::slice>(grid, t);
    case kind::mask: return make_move<kind::mask>(grid, t);
    case kind::all_reduce: return make_move<kind::all_reduce>(grid, t);
    case kind::reduce_scatter: return make_move<kind::reduce_scatter>(grid, t);
    case kind::all_gather: return make_move<kind::all_gather>(grid, t);
    case kind::all_to_all: return make_move<kind::all_to_all>(grid, t);
    default: return make_move<kind::collective_permute>(grid, t);
  }
}
/// A copy of numbers in the memory in which shards are.
template <class T>
class on_device {
 public:
  explicit on_device(const std::vector<T>& x) : size_(x.size()), memory_(cleave::allocate(bytes())) { write(x); }
  T* data() const { return static_cast<T*>(memory_.get()); }
  /// As many numbers, copied there.
  void write(const std::vector<T>& x) const {
    cleave::copy_bytes<cleave::memory_space, Kokkos::HostSpace>(data(), x.data(), bytes());
  }
  /// Copied back.
  std::vector<T> read() const {
    std::vector<T> x(size_);
    cleave::copy_bytes<Kokkos::HostSpace, cleave::memory_space>(x.data(), data(), bytes());
    return x;
  }

 private:
  std::int64_t bytes() const { return cleave::bytes_of<T>(static_cast<std::int64_t>(size_)); }

  std::size_t size_;
  std::shared_ptr<void> memory_;
};

/// The elements of this rank's shard of a tensor, in memory of the host.
template <class Tensor>
auto elements(const Tensor& t) {
  std::vector<typename Tensor::element_type> copy(static_cast<std::size_t>(t.local_size()));
  const auto bytes = cleave::bytes_of<typename Tensor::element_type>(t.local_size());
  cleave::copy_bytes<Kokkos::HostSpace, cleave::memory_space>(copy.data(), t.data(), bytes);
  return copy;
}

/// What a View of the memory of shards holds, in a View of the host. The View has no gaps between its elements.
template <class View>
auto read(const View& view) {
  Kokkos::View<typename View::non_const_data_type, typename View::array_layout, Kokkos::HostSpace> copy("copy",
                                                                                                        view.layout());
  const auto bytes = cleave::bytes_of<typename View::value_type>(static_cast<std::int64_t>(view.size()));
  cleave::copy_bytes<Kokkos::HostSpace, cleave::memory_space>(copy.data(), view.data(), bytes);
  return copy;
}
/// The reverse.
template <class View, class Copy>
void write(const View& view, const Copy& copy) {
  const auto bytes = cleave::bytes_of<typename View::value_type>(static_cast<std::int64_t>(view.size()));
  cleave::copy_bytes<cleave::memory_space, Kokkos::HostSpace>(view.data(), copy.data(), bytes);
}

/// Scratch memory of a move or an exchange.
class scratch_memory {
 public:
  explicit scratch_memory(const cleave::comm::scratch_bytes& needs)
      : memory_(cleave::allocate(needs.memory)), host_(cleave::allocate<Kokkos::HostSpace>(needs.host)) {}
  operator cleave::comm::scratch() const {
    return {static_cast<char*>(memory_.get()), static_cast<char*>(host_.get())};
  }

 private:
  std::shared_ptr<void> memory_, host_;
};

/// Runs one move with fresh scratch memory.
inline void run_move(cleave::grid_state& grid, cleave::kind move, const cleave::comm::transfer& t, const void* in,
                     void* out) {
  const auto m = make_move(grid, move, t);
  m->run_one(in, out, scratch_memory(m->needs()));
}
/// The same from and to memory of the host.
template <class T>
void run_move(cleave::grid_state& grid, cleave::kind move, const cleave::comm::transfer& t, const std::vector<T>& in,
              std::vector<T>& out) {
  const on_device<T> from(in), to(out);
  run_move(grid, move, t, from.data(), to.data());
  out = to.read();
}

} // namespace support
