// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/base/rejected.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/messages.hpp>
#include <cleave/comm/operation.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/mesh/mesh_value.hpp>
#include <cleave/ops/user.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <string>
#include <type_traits>

namespace cleave { inline namespace v0 {

/// The part of a tensor that a kernel of yours gets on this device: LayoutRight, in Kokkos' default memory space.
struct shard {
  cleave::element element = element::none;
  /// The extents of the whole tensor and of this part, and the global index at which the part begins.
  shape global{}, local{}, offset{};
  /// How many elements of a halo the View has before and after the part along each dim: element i of the part is at
  /// index i + before. Of a star, the corners have no defined values.
  shape before{}, after{};
  void* data = nullptr;
  /// The dims by name: `in[0].dims.find(time)` is the position of a dim.
  shard_dims dims{};

  /// Whether the part, or its halo, reaches the first element of the tensor along a dim, so that elements i with
  /// offset + i < 0 are outside of the domain. A tensor without the dim, and an empty part, have no face.
  bool at_low_face(dim_ref d) const {
    const int i = dims.find(d);
    return i >= 0 && local[i] > 0 && offset[i] <= std::max<std::int64_t>(before[i] - 1, 0);
  }
  /// The same for the last element.
  bool at_high_face(dim_ref d) const {
    const int i = dims.find(d);
    return i >= 0 && local[i] > 0 && offset[i] + local[i] + std::max<std::int64_t>(after[i] - 1, 0) >= global[i];
  }

  /// The part and its halo as a View: `in[0].view<const float**>()`. Throws view_error for another element type or
  /// rank.
  template <class Data>
  auto view() const {
    using view_type = Kokkos::View<Data, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    using value_type = std::remove_const_t<typename view_type::value_type>;
    constexpr int rank{view_type::rank()};
    if (element != element_of<value_type>)
      raise<view_error>(wording::shard_element(name_of(element), name_of(element_of<value_type>)));
    if (rank != local.rank) raise<view_error>(wording::view_rank(local.rank, rank));
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return view_type(as<typename view_type::value_type>(data), as_size(before[I] + local[I] + after[I])...);
    }(std::make_integer_sequence<int, rank>{});
  }
};

namespace detail {

/// Contiguous memory that a collective reads or writes.
struct span_of_view {
  void* data;
  std::int64_t elements;
  cleave::element element;
};
template <class View>
span_of_view span_of(const View& v) {
  if constexpr (!Kokkos::is_view_v<View>) {
    return say(rejection<fault::not_a_view, View>), span_of_view{nullptr, 0, element::none};
  } else {
    if (!v.span_is_contiguous()) raise<view_error>(wording::view_not_contiguous());
    using value_type = std::remove_const_t<typename View::value_type>;
    static_assert(sizeof(checked_element<value_type>) != 0);
    return {const_cast<value_type*>(v.data()), std::ssize(v), element_of<value_type>};
  }
}

/// Memory as MPI may reach it: itself, or a copy on the host that is written back.
class reached {
 public:
  reached(const span_of_view& v, bool read, bool written) : own_(v), written_(written) {
    if (!comm::staged()) {
      wait_for_kernels();
      return;
    }
    host_.resize(as_size(bytes()));
    if (read) copy_bytes<Kokkos::HostSpace, memory_space>(host_.data(), own_.data, bytes());
  }
  void* data() { return host_.empty() ? own_.data : host_.data(); }
  void done() {
    if (written_ && !host_.empty()) copy_bytes<memory_space, Kokkos::HostSpace>(own_.data, host_.data(), bytes());
  }

 private:
  std::int64_t bytes() const { return own_.elements * size_of(own_.element); }

  span_of_view own_;
  bool written_;
  indexed_vector<char> host_{};
};

} // namespace detail

/// The context in which a kernel of yours runs. It has collectives over named axes. All devices must make the same
/// calls in the same order. Views are contiguous, in memory that the default execution space reaches. Failures of MPI
/// throw mpi_error.
class local_context {
 public:
  explicit local_context(grid_state& grid, void* workspace = nullptr, std::int64_t bytes = 0)
      : grid_(&grid), workspace_(workspace), bytes_(bytes) {}

  /// The scratch memory that the operation asked for by its static `workspace`, as elements of a type:
  /// `here.workspace<double>()`. Its contents are not defined when the kernel begins. It is aligned for every element
  /// type.
  template <class T>
  auto workspace() const {
    return Kokkos::View<T*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
        as<T>(workspace_), as_size(bytes_) / sizeof(T));
  }
  /// The number of the grid, which no other grid of this process has or had.
  std::int64_t grid_id() const { return grid_->id(); }

  /// The number of devices along an axis.
  std::int64_t size(const MeshAxis auto& axis) const { return grid_->sizes()[number(axis)]; }
  /// The position of this device along an axis.
  std::int64_t index(const MeshAxis auto& axis) const { return grid_->here()[number(axis)]; }
  /// The communicator of the devices that differ from this one on the given axes only. Its ranks count through these
  /// axes; the first axis of the mesh is the major one. Only kernels communicate on it, so that any tag may be used.
  template <MeshAxis... Axes>
  MPI_Comm comm(const Axes&... axes) const {
    return grid_->of_kernels(set_of(axes...));
  }

  /// The number of this device among all of the grid.
  std::int64_t device() const { return grid_->world().rank; }
  /// All devices get the text of device 0. Collective over the devices.
  void broadcast_text(std::string& text) const {
    const comm::group& all = grid_->devices();
    auto length = static_cast<std::int64_t>(text.size());
    comm::check(MPI_Bcast(&length, 1, MPI_INT64_T, 0, all.handle), "MPI_Bcast");
    text.resize(as_size(length));
    comm::check(MPI_Bcast(text.data(), as_int(length), MPI_CHAR, 0, all.handle), "MPI_Bcast");
  }

  /// Reduces the Views of all devices along the axes; every device gets the result, in place.
  template <class View, MeshAxis... Axes>
  void all_reduce(const View& view, reduction how, const Axes&... axes) const {
    const detail::span_of_view v = detail::span_of(view);
    detail::reached memory(v, true, true);
    const comm::group& among = group(axes...);
    if (comm::is_direct(among)) among.direct->all_reduce(memory.data(), memory.data(), v.elements, v.element, how);
    else comm::all_reduce_by_mpi(memory.data(), memory.data(), v.elements, v.element, how, among.handle);
    memory.done();
  }
  /// Gathers the parts of all devices along the axis into `all`, one after another. Parts have the same length.
  template <class Part, class All>
  void all_gather(const Part& part, const All& all, const MeshAxis auto& axis) const {
    const detail::span_of_view from = detail::span_of(part), to = detail::span_of(all);
    check_parts(from, to, size(axis));
    detail::reached in(from, true, false), out(to, false, true);
    const MPI_Datatype type = comm::datatype_of(from.element);
    comm::check(CLEAVE_MPI_CALL(MPI_Allgather)(in.data(), one_call(from.elements), type, out.data(),
                                               one_call(from.elements), type, group(axis).handle),
                "MPI_Allgather");
    out.done();
  }
  /// Reduces `all` over the devices along the axis; `part` becomes this device's part of the result. Parts have the
  /// same length.
  template <class All, class Part>
  void reduce_scatter(const All& all, const Part& part, reduction how, const MeshAxis auto& axis) const {
    const detail::span_of_view from = detail::span_of(all), to = detail::span_of(part);
    check_parts(to, from, size(axis));
    detail::reached in(from, true, false), out(to, false, true);
    comm::check(CLEAVE_MPI_CALL(MPI_Reduce_scatter_block)(in.data(), out.data(), one_call(to.elements),
                                                          comm::reduced_datatype_of(how, to.element),
                                                          comm::operation_of(how, to.element), group(axis).handle),
                "MPI_Reduce_scatter_block");
    out.done();
  }
  /// Every device sends a piece of `from` to each device along the axis, and receives a piece of each in `to`. The
  /// pieces are stored one after another, in the order of the devices; `sent` and `received` are their numbers of
  /// elements. Sender and receiver must agree on them. Empty pieces are not sent. The own piece is copied.
  template <class From, class To>
  void all_to_all(const From& from, indexed_span<const std::int64_t> sent, const To& to,
                  indexed_span<const std::int64_t> received, const MeshAxis auto& axis) const {
    const detail::span_of_view out = detail::span_of(from), in = detail::span_of(to);
    const comm::rank_blocks leaving = pieces(sent, out, size(axis)), arriving = pieces(received, in, size(axis));
    if (out.element != in.element) raise<view_error>(wording::shard_element(name_of(out.element), name_of(in.element)));
    detail::reached read(out, true, false), written(in, false, true);
    comm::messages m;
    m.exchange(read.data(), leaving, written.data(), arriving, out.element, group(axis),
               [](void* into, const void* piece, std::int64_t bytes) {
                 if (comm::staged()) copy_bytes<Kokkos::HostSpace, Kokkos::HostSpace>(into, piece, bytes);
                 else copy_bytes(into, piece, bytes);
               });
    written.done();
  }
  /// `to` receives `from` of the device `by` positions before this one along the axis, periodic.
  template <class From, class To>
  void shift(const From& from, const To& to, std::int64_t by, const MeshAxis auto& axis) const {
    const detail::span_of_view sent = detail::span_of(from), received = detail::span_of(to);
    check_parts(sent, received, 1);
    detail::reached in(sent, true, false), out(received, false, true);
    const comm::group& g = group(axis);
    const auto neighbour = [&](std::int64_t step) { return as_int(((g.rank + step) % g.size + g.size) % g.size); };
    comm::messages m;
    m.receive(out.data(), received.elements, received.element, neighbour(-by), g);
    m.send(in.data(), sent.elements, sent.element, neighbour(by), g);
    m.wait();
    out.done();
  }

  /// Every device along the axis gets the View of the device at position `root`, in place. A device other than the root
  /// receives the bytes of the View. Throws grid_error if the axis has no such position.
  template <class View>
  void broadcast(const View& view, std::int64_t root, const MeshAxis auto& axis) const {
    const detail::span_of_view v = detail::span_of(view);
    const comm::group& g = group(axis);
    if (root < 0 || root >= g.size) raise<grid_error>(wording::no_such_position(root, g.size));
    detail::reached memory(v, g.rank == root, g.rank != root);
    comm::broadcast(g, memory.data(), v.elements, v.element, as_int(root));
    memory.done();
  }

 private:
  template <class Axis>
  int number(const Axis&) const {
    const int a = grid_->mesh().find(std::remove_cvref_t<Axis>::info.name);
    if (a < 0) raise<grid_error>(wording::grid_of_another_mesh());
    return a;
  }
  template <class... Axes>
  axis_set set_of(const Axes&... axes) const {
    axis_set set;
    ((set = set.with(number(axes))), ...);
    return set;
  }
  /// The first call does everything that is collective over the grid, so that afterwards only some groups may call.
  template <class... Axes>
  const comm::group& group(const Axes&... axes) const {
    return grid_->connected(set_of(axes...));
  }
  static comm::call_count one_call(std::int64_t n) {
    if (n > comm::count_limit()) raise<shape_error>(wording::too_many_for_one_call(comm::count_limit(), n));
    return comm::as_count(n);
  }
  /// The blocks of a View that has room for them.
  static comm::rank_blocks pieces(indexed_span<const std::int64_t> counts, const detail::span_of_view& v,
                                  std::int64_t devices) {
    comm::rank_blocks blocks;
    for (std::int64_t n : counts) blocks.append(n);
    if (std::ssize(counts) != devices || blocks.end() > v.elements)
      raise<view_error>(wording::pieces_do_not_fit(devices, std::ssize(counts), v.elements, blocks.end()));
    return blocks;
  }
  static void check_parts(const detail::span_of_view& part, const detail::span_of_view& all, std::int64_t parts) {
    if (part.element != all.element)
      raise<view_error>(wording::shard_element(name_of(part.element), name_of(all.element)));
    if (part.elements * parts != all.elements)
      raise<view_error>(wording::parts_do_not_fit(part.elements * parts, all.elements));
  }

  grid_state* grid_;
  void* workspace_;
  std::int64_t bytes_;
};

}} // namespace cleave::v0
