// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/grid_state.hpp>
#include <cleave/layout/sharding.hpp>

#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

namespace cleave {

/// The mesh at run time: a named mesh over the ranks of a communicator, of which it keeps a duplicate. Rank r is device r;
/// the last axis runs fastest. Copies are handles of the same grid. Must be constructed while MPI is initialised,
/// may be destroyed after that.
///
/// `grid(mesh, comm, sizes, on_ranks{first, stride})` lives on a part of the ranks. It is made by all ranks of `comm`, and so are
/// its tensors; outside of the part these have no elements, and statements on them do nothing.
class grid {
 public:
  grid() = default;
  /// Collective over `comm`. Throws mesh_error on all ranks alike when the sizes do not multiply to the number of ranks (on a
  /// part: to more than there are), differ between ranks, or contradict sizes fixed in the mesh.
  template <class... Axes>
  grid(const cleave::mesh<Axes...>&, MPI_Comm comm, std::initializer_list<std::int64_t> sizes, std::optional<on_ranks> part = {})
      : grid(cleave::mesh<Axes...>::value, comm, std::vector<std::int64_t>(sizes), part) {}
  template <class... Axes>
  grid(const cleave::mesh<Axes...>&, MPI_Comm comm, const std::vector<std::int64_t>& sizes, std::optional<on_ranks> part = {})
      : grid(cleave::mesh<Axes...>::value, comm, sizes, part) {}
  grid(const mesh_value& mesh, MPI_Comm comm, const std::vector<std::int64_t>& sizes, std::optional<on_ranks> part = {})
      : state_(std::make_shared<grid_state>(mesh, comm, sizes, part)) {}

  const mesh_value& mesh() const { return state().mesh(); }
  /// The number of devices.
  std::int64_t size() const { return state().sizes().devices(); }
  /// The size of one axis.
  std::int64_t size(const MeshAxis auto& axis) const {
    return state().sizes()[mesh().find(std::remove_cvref_t<decltype(axis)>::info.name)];
  }
  const axis_sizes& sizes() const { return state().sizes(); }
  /// Whether this rank is one of the devices.
  bool active() const { return state().active(); }
  /// The device number of this rank, -1 where it is none.
  int rank() const { return state().world().rank; }
  const coordinates& here() const { return state().here(); }
  /// The grid's own communicator of its devices; MPI_COMM_NULL elsewhere.
  MPI_Comm comm() const { return state().world().handle; }

  /// Turns checked mode on or off for this grid and its tensors: see `checks`. Collective over all ranks of the communicator that the
  /// grid was made from; what one of them asks for holds for all.
  void check(const checks& c) const { state().check(c); }
  const checks& checked() const { return state().checked(); }

  explicit operator bool() const { return state_ != nullptr; }
  grid_state& state() const {
    if (!state_) throw grid_error(wording::grid_missing());
    return *state_;
  }
  /// Two handles of one grid are equal.
  friend bool operator==(const grid& a, const grid& b) { return a.state_ == b.state_; }

 private:
  std::shared_ptr<grid_state> state_{};
};

} // namespace cleave
