// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/redistribute/errors.hpp>
#include <cleave/redistribute/redistribution.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/tensor/errors.hpp>
#include <cleave/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

// Arrays in distributions that other codes have: given block sizes, any box on each rank (PETSc), and block-cyclic
// blocks (ScaLAPACK). Elements that a rank lacks come in one message from each rank that has some of them.

namespace cleave { inline namespace v0 {

/// How long the blocks of an array are along each dim of a tensor, in the order of its dims: `block_sizes{{10, 12, 9},
/// {}}`. Along a dim there are as many blocks as devices over which the tensor shards it. Block i belongs to those with
/// shard i. An empty list stands for the blocks of the tensor.
struct block_sizes {
  std::vector<std::vector<std::int64_t>> along;
  block_sizes(std::initializer_list<std::vector<std::int64_t>> dims) : along(dims) {}
};

/// A block-cyclic distribution of a matrix over a grid of processes, as in an array descriptor of ScaLAPACK. Local
/// arrays are column-major.
struct block_cyclic {
  /// Rows and columns of the grid of processes.
  std::array<std::int64_t, 2> processes{1, 1};
  /// Rows and columns of a block: MB and NB.
  std::array<std::int64_t, 2> block{64, 64};
  /// Which row and column of processes has the first block: RSRC and CSRC.
  std::array<std::int64_t, 2> first{0, 0};
  /// The leading dimension of the array of this rank: LLD. 0 if there is nothing between its columns.
  std::int64_t leading = 0;
  /// Whether rank 1 of the communicator is the second row of processes, not the second column: order "C" of
  /// blacs_gridinit.
  bool column_order = false;

  /// From the nine integers of a descriptor, and the grid of processes that its context has.
  static block_cyclic of_descriptor(std::span<const int, 9> desc, std::int64_t rows, std::int64_t columns) {
    return {{rows, columns}, {desc[4], desc[5]}, {desc[6], desc[7]}, desc[8]};
  }
  /// Throws shape_error unless there are processes, blocks have elements, and the first block is on a process.
  void require_valid() const {
    for (std::size_t d = 0; d < 2; ++d)
      if (processes[d] < 1 || block[d] < 1 || first[d] < 0 || first[d] >= processes[d])
        raise<shape_error>(wording::cyclic_numbers());
  }
  /// Rows and columns that a rank of the communicator has of a matrix (numroc). Both are 0 if it is no process. Throws
  /// shape_error if the numbers make no distribution.
  std::array<std::int64_t, 2> local_extents(std::array<std::int64_t, 2> matrix, int rank) const {
    require_valid();
    std::array<std::int64_t, 2> all{};
    const std::array<std::int64_t, 2> at = place_of(rank);
    for (std::size_t d = 0; d < 2 && at[0] >= 0; ++d)
      for (std::int64_t b = (at[d] - first[d] + processes[d]) % processes[d]; b * block[d] < matrix[d];
           b += processes[d])
        all[d] += std::min(block[d], matrix[d] - b * block[d]);
    return all;
  }
  /// The row and the column of a rank in the grid of processes; -1 if it is none of them.
  std::array<std::int64_t, 2> place_of(int rank) const {
    if (rank >= processes[0] * processes[1]) return {-1, -1};
    if (column_order) return {rank % processes[0], rank / processes[0]};
    return {rank / processes[1], rank % processes[1]};
  }
};

namespace detail {

/// A View in memory that the host can access.
template <class View>
concept HostView = bool(Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename View::memory_space>::accessible);

/// The shards of a tensor with blocks of other sizes.
inline distribution blocks_of(const tensor_state& t, const block_sizes& sizes) {
  distribution made = shards_of(t, false);
  if (std::ssize(sizes.along) != t.global.rank)
    raise<shape_error>(wording::block_lists(t.global.rank, std::ssize(sizes.along)));
  for (int d = 0; d < t.global.rank; ++d) {
    const std::vector<std::int64_t>& given = sizes.along[as_size(d)];
    auto& blocks = made.blocks[as_size(d)];
    if (given.empty()) continue;
    const std::string_view name = t.dims->dims[d].dim.name;
    if (given.size() != blocks.size())
      raise<shape_error>(wording::block_count(name, std::ssize(blocks), std::ssize(given)));
    std::int64_t begin = 0;
    for (std::size_t b = 0; b < given.size(); ++b) {
      if (given[b] < 0) raise<shape_error>(wording::block_negative(name, given[b]));
      blocks[b] = {{begin, begin + given[b]}};
      begin += given[b];
    }
    if (begin != t.global[d]) raise<shape_error>(wording::block_sum(name, t.global[d], begin));
  }
  return made;
}
/// Throws if the numbers make no distribution over the ranks.
inline void check_numbers(const block_cyclic& c, int ranks) {
  c.require_valid();
  if (c.processes[0] * c.processes[1] > ranks)
    raise<shape_error>(wording::cyclic_processes(c.processes[0], c.processes[1], ranks));
}
inline distribution blocks_of(const tensor_state& t, const block_cyclic& c) {
  const int ranks = t.grid.state().everyone().size;
  check_numbers(c, ranks);
  distribution made{2, {}, {}};
  made.blocks.resize(2);
  for (std::size_t d = 0; d < 2; ++d) {
    made.blocks[d].resize(as_size(c.processes[d]));
    for (std::int64_t b = 0; b * c.block[d] < t.global[d]; ++b)
      made.blocks[d][as_size((b + c.first[d]) % c.processes[d])].push_back(
          {b * c.block[d], std::min((b + 1) * c.block[d], t.global[d])});
  }
  made.at.resize(as_size(ranks), {});
  for (int r = 0; r < ranks; ++r) {
    const std::array<std::int64_t, 2> at = c.place_of(r);
    made.at[as_size(r)][0] = at[0];
    made.at[as_size(r)][1] = at[1];
  }
  return made;
}

/// An array of the caller in host memory.
template <class T>
struct local_array {
  T* data;
  strides stride{};
};
/// Whether something holds on any rank. Collective.
inline bool on_any_rank(grid_state& g, bool here) {
  const int mine = here ? 1 : 0;
  int any = 0;
  g.guarded(
      [&] { comm::check(MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, g.everyone().handle), "MPI_Allreduce"); });
  return any != 0;
}
/// Throws on all ranks if the array of any rank is not as long as its part.
inline void check_arrays(grid_state& g, bool fits) {
  if (on_any_rank(g, !fits)) raise<view_error>(wording::array_misfit());
}
/// The View of a caller, if it has the extents of the part of this rank.
template <class View>
auto array_of(const tensor_state& t, const distribution& blocks, const View& view) {
  static_assert(View::rank() <= as_size(max_rank));
  local_array<typename View::value_type> made{view.data(), {}};
  const shape want = blocks.extents(t.grid.state().everyone().rank);
  bool fits = View::rank() == as_size(want.rank);
  for (std::size_t d = 0; d < View::rank() && fits; ++d) {
    made.stride[d] = as_signed(view.stride(d));
    fits = want.elements() == 0 || as_signed(view.extent(d)) == want[d];
  }
  check_arrays(t.grid.state(), fits);
  return made;
}
/// A column-major array.
template <class T>
local_array<T> array_of(const tensor_state& t, const distribution& blocks, const block_cyclic& c, std::span<T> local) {
  const shape want = blocks.extents(t.grid.state().everyone().rank);
  const std::int64_t leading = c.leading == 0 ? want[0] : c.leading;
  const std::int64_t needed = want.elements() == 0 ? 0 : leading * (want[1] - 1) + want[0];
  check_arrays(t.grid.state(), leading >= want[0] && std::ssize(local) >= needed);
  local_array<T> made{local.data(), {}};
  made.stride[0] = 1;
  made.stride[1] = leading;
  return made;
}

/// The boxes that all ranks have of a tensor's elements, and whether this rank's has some of another one's.
inline distribution boxes_of(const tensor_state& t, const shape& begin, const shape& extents, bool& shares) {
  constexpr std::size_t each = 2 * std::size_t{max_rank};
  const comm::group& ranks = t.grid.state().everyone();
  const int n = t.global.rank;
  std::vector<std::int64_t> all(each * as_size(ranks.size)), mine(each);
  for (int d = 0; d < n; ++d) {
    mine[as_size(d)] = begin[d];
    mine[as_size(max_rank + d)] = begin[d] + extents[d];
  }
  t.grid.state().guarded([&] {
    comm::check(MPI_Allgather(mine.data(), int{each}, MPI_INT64_T, all.data(), int{each}, MPI_INT64_T, ranks.handle),
                "MPI_Allgather");
  });
  distribution made{n, {}, {}};
  made.blocks.resize(as_size(n));
  made.at.resize(as_size(ranks.size), {});
  shares = false;
  for (int r = 0; r < ranks.size; ++r) {
    const std::int64_t* const of = all.data() + each * as_size(r);
    bool empty = false, meets = r != ranks.rank;
    for (int d = 0; d < n; ++d) {
      const range run{of[d], of[max_rank + d]};
      empty = empty || run.size() <= 0;
      meets = meets && intersect(run, {begin[d], begin[d] + extents[d]}).size() > 0;
      made.blocks[as_size(d)].push_back({run});
      made.at[as_size(r)][as_size(d)] = r;
    }
    shares = shares || meets;
    for (int d = 0; d < n && !empty; ++d)
      if (of[d] < 0 || of[max_rank + d] > t.global[d])
        raise<shape_error>(wording::box_outside(t.dims->dims[d].dim.name, r, of[d], of[max_rank + d], t.global[d]));
    if (empty) made.at[as_size(r)][0] = -1;
  }
  return made;
}
/// The boxes of Views with these first indices. Throws if they are not those of a tensor: each element in one of them.
template <class View, std::size_t Rank>
distribution boxes_of(const tensor_state& t, const View& local, const std::array<std::int64_t, Rank>& begin,
                      bool must_fill) {
  shape first, extents;
  for (std::size_t d = 0; d < Rank; ++d) {
    first[d] = begin[d];
    extents[d] = d < View::rank() ? as_signed(local.extent(d)) : 0;
  }
  bool shares = false;
  distribution made = boxes_of(t, first, extents, shares);
  if (!must_fill) return made;
  std::int64_t together = 0;
  for (int r = 0; r < std::ssize(made.at); ++r)
    if (made.has_part(r)) together += made.extents(r).elements();
  if (together != t.global.elements()) raise<shape_error>(wording::boxes_miss(t.global.elements(), together));
  if (on_any_rank(t.grid.state(), shares)) raise<shape_error>(wording::boxes_overlap());
  return made;
}

/// Whether the shard of this rank is the part of its process: block (i, j) of a tensor with the dims of an array of
/// blocks, in the columns first.
inline bool is_process_here(const grid_state& g, const layout& where, const block_cyclic& c) {
  const axis_sizes& sizes = g.sizes();
  const std::array<std::int64_t, 2> at = c.place_of(g.everyone().rank);
  const int device = g.device_at(g.everyone().rank);
  if (device < 0 || at[0] < 0) return device < 0 && at[0] < 0;
  const coordinates here = coordinates_of(device, sizes);
  for (std::size_t d = 0; d < 2; ++d) {
    const auto& along = where[d == 0 ? 4 : 1];
    const std::int64_t first = (at[d] - c.first[d] + c.processes[d]) % c.processes[d];
    if (sizes.product(along) != c.processes[d] || (along.empty() ? 0 : block_index(along, here, sizes)) != first)
      return false;
  }
  return true;
}

template <class T>
void distribute(const tensor_state& t, const distribution& blocks, const local_array<const T>& from) {
  require_kokkos();
  const comm::group& all = t.grid.state().everyone();
  const distribution shards = shards_of(t, true);
  const redistribution moves(all, blocks, shards);
  redistribution::parts<T> parts;
  std::unique_ptr<T[]> host;
  void* out = nullptr;
  t.halo = {};
  t.grid.state().guarded([&] {
    comm::allocate_on_all(all.handle, [&] {
      host = std::make_unique<T[]>(as_size(t.elements()));
      out = t.begin_writing();
      moves.make(parts);
    });
    moves.run(parts, from.data, from.stride, host.get(), strides_of(t.local));
  });
  wait_for_kernels();
  if (t.grid.active() && !shards.has_part(all.rank)) fill_identity(out, t.elements(), t.element, t.where.combine());
  else copy_bytes<memory_space, Kokkos::HostSpace>(out, host.get(), t.bytes());
  t.end_writing();
}
template <class T>
void collect(const tensor_state& t, const distribution& blocks, const local_array<T>& to) {
  require_kokkos();
  const comm::group& all = t.grid.state().everyone();
  const distribution shards = shards_of(t, false);
  const redistribution moves(all, shards, blocks);
  redistribution::parts<T> parts;
  std::unique_ptr<T[]> host;
  const void* in = nullptr;
  t.grid.state().guarded([&] {
    comm::allocate_on_all(all.handle, [&] {
      host = std::make_unique<T[]>(as_size(t.elements()));
      in = t.packed();
      moves.make(parts);
    });
  });
  std::shared_ptr<void> reduced;
  if (!t.where.unreduced().empty() && t.grid.active()) in = (reduced = reduced_shard(t, in)).get();
  wait_for_kernels();
  copy_bytes<Kokkos::HostSpace, memory_space>(host.get(), in, t.bytes());
  t.grid.state().guarded([&] { moves.run(parts, host.get(), strides_of(t.local), to.data, to.stride); });
}

/// The same of a View; `find` gives the distribution of all such Views.
template <class T, class View, class Find>
void distribute_view(const tensor_state& t, const View& local, const Find& find) {
  using element = typename View::value_type;
  if constexpr (!std::is_same_v<std::remove_const_t<element>, T>) {
    say(rejection<fault::view_elements_differ, element, T>);
  } else {
    const distribution blocks = find();
    const auto array = array_of(t, blocks, local);
    distribute<T>(t, blocks, {array.data, array.stride});
  }
}
template <class T, class View, class Find>
void collect_view(const tensor_state& t, const View& local, const Find& find) {
  using element = typename View::value_type;
  if constexpr (!std::is_same_v<element, T>) {
    say(rejection<fault::view_elements_differ, element, T>);
  } else {
    const distribution blocks = find();
    collect(t, blocks, array_of(t, blocks, local));
  }
}

} // namespace detail

/// Gives a tensor the elements of an array whose blocks have other sizes: `local` is the View of this rank's block, in
/// host memory, with any strides.
///
/// Collective over the communicator of the grid. Each device receives the elements that it lacks, in one message from
/// each rank that has some; replicas of a block take turns. Besides that two all-reduces of a number. Throws
/// shape_error on all ranks if the sizes do not fit the tensor, and view_error if the View of any rank does not have
/// the extents of its block.
template <class Data, class... Properties, class T, auto Layout>
  requires detail::HostView<Kokkos::View<Data, Properties...>>
void from_blocks(const Kokkos::View<Data, Properties...>& local, const block_sizes& sizes, const tensor<T, Layout>& x) {
  detail::distribute_view<T>(x.state(), local, [&] { return detail::blocks_of(x.state(), sizes); });
}
/// The inverse of `from_blocks`: writes this rank's block. Partial values are reduced first, by one all-reduce more.
template <class T, auto Layout, class Data, class... Properties>
  requires detail::HostView<Kokkos::View<Data, Properties...>>
void to_blocks(const tensor<T, Layout>& x, const Kokkos::View<Data, Properties...>& local, const block_sizes& sizes) {
  detail::collect_view<T>(x.state(), local, [&] { return detail::blocks_of(x.state(), sizes); });
}

/// Gives a tensor the elements of an array of which each rank has a box: `local` is the View of this rank's box, in
/// host memory, with any strides, and `begin` the index of its first element. A rank may have an empty one.
///
/// Collective over the communicator of the grid. Each device receives the elements that it lacks, in one message from
/// each rank that has some. Besides that, the ranks tell each other their boxes by one all-gather, and three numbers by
/// all-reduces. Throws shape_error on all ranks if a box leaves the tensor, or an element is in no box or in two.
template <class Data, class... Properties, class T, auto Layout>
  requires(detail::HostView<Kokkos::View<Data, Properties...>> && tensor<T, Layout>::rank > 0)
void from_boxes(const Kokkos::View<Data, Properties...>& local,
                const std::array<std::int64_t, std::size_t{tensor<T, Layout>::rank}>& begin,
                const tensor<T, Layout>& x) {
  detail::distribute_view<T>(x.state(), local, [&] { return detail::boxes_of(x.state(), local, begin, true); });
}
/// The inverse of `from_boxes`: writes this rank's box. Boxes may overlap, as those with ghosts do, and need not have
/// all elements. Partial values are reduced first, by one all-reduce more.
template <class T, auto Layout, class Data, class... Properties>
  requires(detail::HostView<Kokkos::View<Data, Properties...>> && tensor<T, Layout>::rank > 0)
void to_boxes(const tensor<T, Layout>& x, const Kokkos::View<Data, Properties...>& local,
              const std::array<std::int64_t, std::size_t{tensor<T, Layout>::rank}>& begin) {
  detail::collect_view<T>(x.state(), local, [&] { return detail::boxes_of(x.state(), local, begin, false); });
}

/// Gives a matrix the elements of a block-cyclic one (ScaLAPACK): `local` is the column-major array of this rank, in
/// host memory, `c` its distribution. Process (p, q) is rank p * columns + q of the communicator of the tensor's grid.
/// The first dim of the tensor is that of the rows.
///
/// Collective over the communicator of the grid. Each device receives the elements that it lacks, in one message from
/// each process that has some; besides that two all-reduces of a number. Throws shape_error on all ranks if the numbers
/// make no distribution over these ranks, and view_error if the array of any rank is too short for its part.
template <class T, auto Layout>
  requires(tensor<T, Layout>::rank == 2)
void from_block_cyclic(std::span<const std::type_identity_t<T>> local, const block_cyclic& c,
                       const tensor<T, Layout>& x) {
  const detail::distribution blocks = detail::blocks_of(x.state(), c);
  detail::distribute<T>(x.state(), blocks, detail::array_of(x.state(), blocks, c, local));
}
/// The inverse of `from_block_cyclic`: writes the array of this rank. Partial values are reduced first, by one
/// all-reduce more.
template <class T, auto Layout>
  requires(tensor<T, Layout>::rank == 2)
void to_block_cyclic(const tensor<T, Layout>& x, std::span<std::type_identity_t<T>> local, const block_cyclic& c) {
  const detail::distribution blocks = detail::blocks_of(x.state(), c);
  detail::collect(x.state(), blocks, detail::array_of(x.state(), blocks, c, local));
}

/// A tensor that wraps the block-cyclic array of this rank (ScaLAPACK), without a copy. It has six dims, `Tensor =
/// tensor<double, mesh(J, q_part / q, j, I, p_part / p, i)>`: an element in row `(I * P + p_part) * MB + i` of the
/// matrix and in column `(J * Q + q_part) * NB + j`, of P x Q processes, is at (J, q_part, j, I, p_part, i). `local` is
/// column-major, so that the dim `i` lies side by side; Kokkos' default execution space must be able to access it, and
/// the caller keeps it.
///
/// Collective over the communicator of the grid: it agrees on a number, and otherwise communicates as wrapping a View
/// does. Throws shape_error on all ranks if the numbers make no distribution over these ranks, the matrix is not made
/// of whole blocks, as many for each process, or some rank is not the process whose blocks its shard has; and
/// view_error if the array of any rank is too short.
template <class Tensor>
Tensor wrap_block_cyclic(const grid& g, const std::array<std::int64_t, 2>& matrix, const block_cyclic& c,
                         std::span<typename Tensor::element_type> local) {
  constexpr layout where = Tensor::where;
  if constexpr (Tensor::rank != 6 || where.is_partial() ||
                (where.axes(0) | where.axes(2) | where.axes(3) | where.axes(5)) != 0) {
    say(rejection<fault::cyclic_dims, typename Tensor::sharding_type>);
    return Tensor();
  } else {
    using view = Kokkos::View<typename Tensor::element_type******, Kokkos::LayoutStride, memory_space,
                              Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    detail::check_numbers(c, g.state().everyone().size);
    for (std::size_t d = 0; d < 2; ++d)
      if (matrix[d] % (c.block[d] * c.processes[d]) != 0)
        raise<shape_error>(wording::cyclic_whole(d == 0 ? "rows" : "columns", matrix[d], c.block[d], c.processes[d]));
    if (detail::on_any_rank(g.state(), !detail::is_process_here(g.state(), where, c)))
      raise<shape_error>(wording::cyclic_place());
    const std::array<std::int64_t, 2> turns{matrix[0] / (c.block[0] * c.processes[0]),
                                            matrix[1] / (c.block[1] * c.processes[1])};
    const bool has_part = c.place_of(g.state().everyone().rank)[0] >= 0;
    const std::int64_t rows = turns[0] * c.block[0], columns = turns[1] * c.block[1],
                       leading = c.leading == 0 ? rows : c.leading,
                       needed = rows * columns == 0 ? 0 : leading * (columns - 1) + rows;
    detail::check_arrays(g.state(), !has_part || (leading >= rows && std::ssize(local) >= needed));
    // Nothing along any dim where there is no part.
    const auto extent = [&](std::int64_t n) { return as_size(has_part ? n : 0); };
    const Kokkos::LayoutStride strides(extent(turns[1]), as_size(c.block[1] * leading), extent(1), 1,
                                       extent(c.block[1]), as_size(leading), extent(turns[0]), as_size(c.block[0]),
                                       extent(1), 1, extent(c.block[0]), 1);
    return Tensor(g, {turns[1], c.processes[1], c.block[1], turns[0], c.processes[0], c.block[0]},
                  view(local.data(), strides));
  }
}

}} // namespace cleave::v0
