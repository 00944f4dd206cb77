// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/mpi.hpp>
#include <cleave/graph/graph.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cleave {

/// A mesh at run time: communicators, and what was bound to it. Shared by the grid and its tensors, so that it lives as long
/// as any of them; its end may come after MPI_Finalize.
class grid_state {
 public:
  /// Duplicates the communicator. Collective. Throws mesh_error on all ranks alike when the sizes do not fit.
  grid_state(const mesh_value& mesh, MPI_Comm comm, const std::vector<std::int64_t>& sizes) : mesh_(mesh) {
    comm::check(MPI_Comm_dup(comm, &world_.handle), "MPI_Comm_dup");
    try {
      comm::check(MPI_Comm_set_errhandler(world_.handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
      comm::check(MPI_Comm_size(world_.handle, &world_.size), "MPI_Comm_size");
      comm::check(MPI_Comm_rank(world_.handle, &world_.rank), "MPI_Comm_rank");
      agree(sizes);
    } catch (...) {
      release();
      throw;
    }
    here_ = coordinates_of(world_.rank, sizes_);
  }
  grid_state(const grid_state&) = delete;
  grid_state& operator=(const grid_state&) = delete;
  ~grid_state() { release(); }

  const mesh_value& mesh() const { return mesh_; }
  const axis_sizes& sizes() const { return sizes_; }
  /// Where this rank stands. Rank r of the communicator is device r: the last axis runs fastest.
  const coordinates& here() const { return here_; }
  const comm::group& world() const { return world_; }

  /// The devices that differ from this one on `axes` only. Their rank in the group counts through those axes, the one with
  /// the lowest id major. Collective over the whole grid when asked for the first time.
  const comm::group& group_of(axis_set axes) {
    const auto known = groups_.find(axes);
    if (known != groups_.end()) return known->second;
    coordinates common = here_;
    std::int64_t place = 0;
    for (int a = 0; a < max_axes; ++a)
      if ((axes >> a & 1) != 0) {
        common[static_cast<std::size_t>(a)] = 0;
        place = place * sizes_[a] + here_[static_cast<std::size_t>(a)];
      }
    comm::group g;
    comm::check(MPI_Comm_split(world_.handle, static_cast<int>(device_of(common, sizes_)), static_cast<int>(place), &g.handle),
                "MPI_Comm_split");
    comm::check(MPI_Comm_size(g.handle, &g.size), "MPI_Comm_size");
    comm::check(MPI_Comm_rank(g.handle, &g.rank), "MPI_Comm_rank");
    return groups_.emplace(axes, g).first->second;
  }
  /// Where rank `r` of the group over `axes` stands.
  coordinates member(axis_set axes, std::int64_t r) const {
    coordinates at = here_;
    for (int a = max_axes - 1; a >= 0; --a)
      if ((axes >> a & 1) != 0) {
        at[static_cast<std::size_t>(a)] = static_cast<std::int32_t>(r % sizes_[a]);
        r /= sizes_[a];
      }
    return at;
  }

  /// Whatever was made once for a key and extents (an executor); null where it is not there yet. What a warm call pays for its
  /// plan: one look-up by address and one comparison of extents.
  void* find_bound(const void* key, std::span<const std::int64_t> extents) const {
    const auto known = bound_.find(key);
    if (known == bound_.end()) return nullptr;
    for (const bound& entry : known->second)
      if (std::equal(extents.begin(), extents.end(), entry.extents.begin(), entry.extents.end())) return entry.made.get();
    return nullptr;
  }
  void* keep_bound(const void* key, std::span<const std::int64_t> extents, std::shared_ptr<void> made) {
    auto& entries = bound_[key];
    entries.push_back({std::vector<std::int64_t>(extents.begin(), extents.end()), std::move(made)});
    ++times_bound_;
    return entries.back().made.get();
  }
  /// How often something was bound: it stands still while calls are warm.
  std::int64_t times_bound() const { return times_bound_; }

  /// After a failed call of MPI the ranks may be out of step, so nothing is called again.
  bool broken() const { return broken_; }
  void set_broken() { broken_ = true; }

 private:
  struct bound {
    std::vector<std::int64_t> extents;
    std::shared_ptr<void> made;
  };

  void agree(const std::vector<std::int64_t>& given) {
    // Largest and, negated, smallest of what the ranks were given, so that all ranks find the same fault.
    constexpr int fields = max_axes + 1;
    std::int64_t mine[2 * fields] = {}, all[2 * fields] = {};
    mine[0] = static_cast<std::int64_t>(given.size());
    for (std::size_t a = 0; a < max_axes && a < given.size(); ++a) mine[a + 1] = given[a];
    for (int i = 0; i < fields; ++i) mine[fields + i] = -mine[i];
    comm::check(MPI_Allreduce(mine, all, 2 * fields, MPI_INT64_T, MPI_MAX, world_.handle), "MPI_Allreduce");
    if (all[0] != -all[fields]) throw mesh_error(wording::mesh_counts_disagree());
    if (all[0] != mesh_.size()) throw mesh_error(wording::mesh_needs_sizes(mesh_.size(), all[0]));
    for (int a = 0; a < mesh_.size(); ++a) {
      const axis_info& axis = mesh_.axes[static_cast<std::size_t>(a)];
      const std::int64_t most = all[a + 1], least = -all[fields + a + 1];
      if (most != least) throw mesh_error(wording::mesh_sizes_disagree(axis.name, least, most));
      if (most < 1) throw mesh_error(wording::mesh_size_not_positive(axis.name, most));
      if (axis.size != dynamic && axis.size != most) throw mesh_error(wording::mesh_size_fixed(axis.name, axis.size, most));
      sizes_[a] = most;
    }
    if (sizes_.devices() != world_.size) throw mesh_error(wording::mesh_needs_ranks(sizes_.devices(), world_.size));
  }
  void release() noexcept {
    bound_.clear();
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return;
    for (auto& entry : groups_)
      if (entry.second.handle != MPI_COMM_NULL) MPI_Comm_free(&entry.second.handle);
    groups_.clear();
    if (world_.handle != MPI_COMM_NULL) MPI_Comm_free(&world_.handle);
  }

  mesh_value mesh_{};
  axis_sizes sizes_{};
  coordinates here_{};
  comm::group world_{};
  std::map<axis_set, comm::group> groups_{};
  std::unordered_map<const void*, std::vector<bound>> bound_{};
  std::int64_t times_bound_ = 0;
  bool broken_ = false;
};

} // namespace cleave
