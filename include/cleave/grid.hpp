// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/base/rejected.hpp>
#include <cleave/comm/errors.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/layout/sharding.hpp>
#include <cleave/node/transport.hpp>
#include <cleave/watch/calls.hpp>

#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

namespace cleave { inline namespace v0 {

/// The mesh at run time: a named mesh over the ranks of a communicator. The grid keeps a duplicate of the communicator.
/// Rank r is device r; the last axis varies fastest. Copies are handles of the same grid. Construct a grid while MPI is
/// initialised; it may be destroyed later.
///
/// `grid(mesh, comm, sizes, on_ranks{first, stride})` uses only a part of the ranks, and `on_ranks{.list = {3, 1}}`
/// those of a list, in its order. All ranks of `comm` construct the grid and its tensors. On ranks that are not devices
/// the tensors have no elements, and statements on them do nothing.
class grid {
 public:
  /// A handle without a grid.
  grid() = default;
  /// Collective over `comm`, which may be one of a session of MPI 4: then the grid and its tensors must end before the
  /// session does. `sizes` has one size for each axis. Throws mesh_error on all ranks if the sizes do not
  /// multiply to the number of ranks (for a part of the ranks: if they multiply to more than there are), differ between
  /// ranks, or contradict a fixed size of the mesh. Throws absent_error where checked mode is on from the beginning (by
  /// the environment or CLEAVE_CHECKED) and some ranks do not construct the grid within the time limit.
  template <class... Axes>
  grid(const cleave::mesh<Axes...>&, MPI_Comm comm, std::initializer_list<std::int64_t> sizes,
       const std::optional<on_ranks>& part = {})
      : grid(cleave::mesh<Axes...>::value, comm, std::vector<std::int64_t>(sizes), part) {}
  /// The same with sizes by name, in any order: `grid(mesh, comm, {model = 2, data = 4})`. Axes of fixed size may be
  /// omitted. Throws mesh_error if another axis is missing, or if one is named twice or is none of the mesh's.
  template <class... Axes, std::same_as<named_size> N>
  grid(const cleave::mesh<Axes...>&, MPI_Comm comm, std::initializer_list<N> sizes,
       const std::optional<on_ranks>& part = {})
      : grid(cleave::mesh<Axes...>::value, comm, ordered(cleave::mesh<Axes...>::value, {sizes.begin(), sizes.end()}),
             part) {}
  /// The same with sizes in a std::vector, a std::array or a C array of integers.
  template <class... Axes, detail::WholeNumbers Sizes>
  grid(const cleave::mesh<Axes...>&, MPI_Comm comm, const Sizes& sizes, const std::optional<on_ranks>& part = {})
      : grid(cleave::mesh<Axes...>::value, comm, detail::whole_numbers(sizes), part) {}
  /// Numbers that are not in braces are no sizes, which is an error of the compiler.
  template <class... Axes, std::integral... N>
  grid(const cleave::mesh<Axes...>&, MPI_Comm, N...) {
    say(rejection<fault::sizes_without_braces, N...>);
  }
  /// The communicator first, or none: the same.
  template <class... Axes>
  grid(MPI_Comm, const cleave::mesh<Axes...>&, std::initializer_list<std::int64_t>) {
    say(rejection<fault::sizes_without_braces, Axes...>);
  }
  template <class... Axes>
  grid(const cleave::mesh<Axes...>&, std::initializer_list<std::int64_t>) {
    say(rejection<fault::sizes_without_braces, Axes...>);
  }
  /// Other arguments construct no grid, which is an error of the compiler too.
  template <class Once = void>
  grid(detail::anything, detail::anything, detail::anything) {
    say(rejection<fault::sizes_without_braces, Once>);
  }
  grid(const mesh_value& mesh, MPI_Comm comm, const std::vector<std::int64_t>& sizes,
       const std::optional<on_ranks>& part = {})
      : state_(new grid_state(mesh, comm, sizes, part, &comm::shared_memory, &comm::watched_calls)) {}

  /// The mesh: names and fixed sizes of the axes.
  const mesh_value& mesh() const { return state().mesh(); }
  /// The number of devices.
  std::int64_t size() const { return state().sizes().devices(); }
  /// The size of one axis. Throws grid_error if the mesh does not have it.
  std::int64_t size(const MeshAxis auto& axis) const {
    constexpr std::string_view name = std::remove_cvref_t<decltype(axis)>::info.name;
    const int at = mesh().find(name);
    if (at < 0) raise<grid_error>(wording::axis_not_in_mesh(name));
    return state().sizes()[at];
  }
  /// The sizes of all axes, in the order of the mesh.
  const axis_sizes& sizes() const { return state().sizes(); }
  /// Whether this rank is a device of the grid.
  bool active() const { return state().active(); }
  /// The device number of this rank, or -1 if it is not a device.
  int rank() const { return state().world().rank; }
  /// The coordinates of this device, one for each axis.
  const coordinates& here() const { return state().here(); }
  /// The grid's own communicator of its devices; MPI_COMM_NULL on other ranks.
  MPI_Comm comm() const { return state().world().handle; }

  /// Turns checked mode on or off for this grid and its tensors: see `checks`. Collective over all ranks of the
  /// communicator that the grid was constructed from. What one rank asks for holds for all.
  void check(const checks& c) const { state().check(c); }
  /// The faults that checked mode looks for on this grid.
  const checks& checked() const { return state().checked(); }

  /// Gives the sizes of the blocks of a `dim_in_blocks`, in their order and for all ranks, before the first tensor
  /// with the dim. Other dims with the same name of blocks have them too. They do not change. Collective over all
  /// ranks of the communicator that the grid was constructed from: one all-reduce of four numbers. Throws grid_error
  /// on all ranks if they do not give the same sizes, if a size is below 0, or if there are other ones already.
  template <Dim D>
  void set_blocks(const D&, const std::vector<std::int64_t>& sizes) const {
    static_assert(!D::ref.blocks.empty(), "the blocks of this dim are equal: declare it as a dim_in_blocks");
    state().set_blocks(D::ref.blocks, sizes);
  }

  /// Gives a dim the blocks of another one, the last of which with elements is `more` longer: after
  /// `grid.set_blocks(vertex, cell / x, cells, 1)` each device has the vertices before its cells, and the last one also
  /// the vertex behind them. A stencil from one dim to the other needs a halo. Throws shape_error if the other dim
  /// cannot have this extent. Otherwise as above.
  template <Dim D, Dim Of, MeshAxis... Axes>
  void set_blocks(const D& dim, const sharded_dim<Of, Axes...>&, std::int64_t extent, std::int64_t more) const {
    const std::int64_t parts = (std::int64_t{1} * ... * size(Axes{}));
    check_extent(Of::ref, extent, parts, state());
    const dim_blocks blocks{extent, state().blocks_of(Of::ref, extent)};
    std::vector<std::int64_t> own;
    for (std::int64_t i = 0; i < parts; ++i) own.push_back(blocks.block(parts, i).size());
    own[as_size(extent == 0 ? 0 : blocks.owner(parts, extent - 1))] += more;
    set_blocks(dim, own);
  }

  /// All sizes of a plan as on this grid, with its axes and the sizes of its blocks: `bytes(plan.view(), at)` is then
  /// the exact price for these blocks. `named` has extents of dims: `grid.sizes_of(plan, {row = 23})`. No
  /// communication.
  template <class Plan>
  auto sizes_of(const Plan& plan, std::initializer_list<named_size> named) const {
    auto at = plan.sized(named);
    at.axes = sizes();
    for (std::size_t d = 0; d < plan.view().dims.size(); ++d)
      at.given[d] = state().blocks_of(plan.view().dims[d].ref(), at.dims[d]);
    return at;
  }

  /// How many sets of extents each plan stays bound for: 32 unless this says otherwise, at least 1. Binding computes
  /// sizes and message lists and makes the workspace large enough. The least recently used set is dropped; a call with
  /// its extents binds again. While a kernel of the user calls plans, a dropped set is freed when the call of that
  /// kernel's plan ends. Collective over all ranks of the communicator that the grid was constructed from. The least
  /// number that one of them gives holds for all.
  void keep_extents(std::int64_t sets) const { state().keep_extents(sets); }
  /// Bytes that this device holds for the workspace of calls on this grid, which all plans share: as many as the
  /// largest of those that are bound needs, and as much again for each depth of calls that kernels of the user make. A
  /// plan reports its need: `plan.workspace`. No communication.
  std::int64_t workspace_bytes() const { return state().workspace().bytes(); }
  /// Makes the workspace at least so large on each device, so that no later plan that needs no more moves it. Throws
  /// memory_error on all devices if one of them does not have the memory. Collective over the devices; each may give
  /// another number.
  void reserve_workspace(std::int64_t bytes) const {
    if (active()) state().reserve_workspace(0, bytes, 0);
  }
  /// Frees the workspace. The next call of each plan allocates it again. Nothing happens while a plan runs. Collective
  /// over the devices.
  void release_workspace() const { state().release_workspace(); }
  /// Whether the handle has a grid.
  explicit operator bool() const { return state_ != nullptr; }
  /// The state behind the handle, for the library. Throws grid_error if there is none.
  grid_state& state() const {
    if (!state_) raise<grid_error>(wording::grid_missing());
    return *state_;
  }
  /// Whether two handles refer to the same grid.
  friend bool operator==(const grid& a, const grid& b) { return a.state_ == b.state_; }

 private:
  static std::vector<std::int64_t> ordered(const mesh_value& mesh, indexed_span<const named_size> named) {
    std::vector<std::int64_t> sizes;
    for (int a = 0; a < mesh.size(); ++a) {
      const axis_info& axis = mesh.axes[a];
      const size_of_name found = look_up_size(named, &named_size::is_of_axis, axis.name, axis.size);
      if (!found.is_clear()) raise<mesh_error>(wording::axis_sizes_given(axis.name, found.given));
      sizes.push_back(found.size);
    }
    for (const named_size& n : named)
      if (mesh.find(n.name) < 0 || !n.is_of_axis(n.name)) raise<mesh_error>(wording::size_of_no_axis(n.name));
    return sizes;
  }

  std::shared_ptr<grid_state> state_{};
};

}} // namespace cleave::v0
