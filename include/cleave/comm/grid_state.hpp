// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/agreement.hpp>
#include <cleave/comm/bindings.hpp>
#include <cleave/comm/errors.hpp>
#include <cleave/comm/guarded_calls.hpp>
#include <cleave/comm/recorded_calls.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/comm/transport.hpp>
#include <cleave/comm/workspace_pool.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace cleave { inline namespace v0 {

/// The ranks of a communicator that a grid uses: device d is rank first + stride * d, or entry d of a list:
/// `on_ranks{.list = {3, 1, 2, 0}}`.
struct on_ranks {
  int first = 0;
  int stride = 1;
  std::vector<int> list{};

  int operator[](std::int64_t device) const {
    return list.empty() ? first + stride * comm::rank_number(device) : list[as_size(device)];
  }
};

/// A mesh at run time: communicators, and objects bound to it. Shared by the grid and its tensors, so that it lives as
/// long as any of them; it may be destroyed after MPI_Finalize.
class grid_state : public guarded_calls {
 public:
  /// Duplicates the communicator. Collective. Throws mesh_error on all ranks if the sizes do not fit. Without a part
  /// the grid has all ranks. `other`: the transport besides MPI; `watch`: the recorder of the calls of the process. The
  /// communicator may be one of a session of MPI 4. Throws environment_error if MPI is not initialised or is finalised,
  /// and, in checked mode, absent_error if some ranks do not construct the grid within the time limit.
  [[gnu::noinline]] grid_state(const mesh_value& mesh, MPI_Comm comm, const std::vector<std::int64_t>& sizes,
                               const std::optional<on_ranks>& part = {}, const comm::transport_maker* other = nullptr,
                               const comm::call_watcher* watch = nullptr)
      : mesh_(mesh), part_(part.value_or(on_ranks{})), other_(other) {
    if (watch != nullptr) comm::watcher = watch;
    open(comm, sizes, part.has_value());
  }
  grid_state(const grid_state&) = delete;
  grid_state& operator=(const grid_state&) = delete;
  ~grid_state() { release(); }

  const mesh_value& mesh() const { return mesh_; }
  const axis_sizes& sizes() const { return sizes_; }
  /// The coordinates of this rank. Rank r of the communicator is device r: the last axis runs fastest.
  const coordinates& here() const { return here_; }
  /// All ranks of the communicator that the grid was made from.
  const comm::group& everyone() const { return everyone_; }
  /// Whether steps compute while messages are in flight.
  bool overlaps() const { return overlaps_; }
  /// Turns checks on or off. Collective over all ranks: a check that one of them turns on holds for all, with the
  /// longest limit. Throws environment_error on all ranks if a limit is not above 0, as for the environment variable.
  void check(const checks& c) {
    require_usable();
    const bool fits = c.time_limit > 0 && c.time_limit <= std::numeric_limits<double>::max();
    double mine[4] = {c.calls ? 1.0 : 0.0, c.nans ? 1.0 : 0.0, fits ? c.time_limit : 0, fits ? 0.0 : 1.0}, all[4] = {};
    guarded([&] { comm::check(MPI_Allreduce(mine, all, 4, MPI_DOUBLE, MPI_MAX, everyone_.handle), "MPI_Allreduce"); });
    if (all[3] != 0) raise<environment_error>(wording::time_limit_not_above_0());
    checked_ = {all[0] != 0, all[1] != 0, all[2]};
    if (!checked_.any() || !active() || agreement_) return;
    guarded([&] {
      comm::grid_transport* const t = other_transport();
      void* const shared = t == nullptr ? nullptr : t->share(comm::agreement::shared_bytes(world_.size));
      agreement_ = owned<comm::agreement>(new comm::agreement(world_, shared));
    });
  }
  /// The device that a rank of `everyone` is, -1 if it is none.
  int device_at(int rank) const {
    for (std::int64_t d = 0; d < sizes_.devices() && !part_.list.empty(); ++d)
      if (part_[d] == rank) return comm::rank_number(d);
    const int after = rank - part_.first;
    if (!part_.list.empty() || after < 0 || after % part_.stride != 0) return -1;
    return after / part_.stride < sizes_.devices() ? after / part_.stride : -1;
  }
  /// A number that is unique among the grids of this process.
  std::int64_t id() const { return id_; }

  /// The devices as a group for messages. Collective over the whole grid when asked for the first time.
  const comm::group& devices() {
    if (all_devices_.ranks.handle == MPI_COMM_NULL) {
      all_devices_.ranks = world_;
      connected(all_devices_);
    }
    return all_devices_.ranks;
  }

  /// The devices that differ from this one on `axes` only. Their rank in the group counts through those axes, the one
  /// with the lowest id major. Collective over the whole grid when asked for the first time.
  const comm::group& group_of(axis_set axes) { return group_over(axes).ranks; }
  /// The same, ready for messages between them. Collective in the same way.
  const comm::group& connected(axis_set axes) { return connected(group_over(axes)); }
  /// The same devices in the order of the blocks of a dim that is sharded over a list of axes, or in the reverse order.
  const comm::group& in_order(axis_list list, bool backwards) { return group_over(list, backwards).ranks; }
  const comm::group& connected(axis_list list) { return connected(group_over(list, false)); }
  /// A communicator of the same devices for kernels of the user only, who may receive with any tag: they never match
  /// messages of steps in flight. Collective in the same way.
  MPI_Comm of_kernels(axis_set axes) {
    comm::kept_group& g = group_over(axes);
    connected(g);
    if (g.of_kernels == MPI_COMM_NULL)
      guarded([&] { comm::check(MPI_Comm_dup(g.ranks.handle, &g.of_kernels), "MPI_Comm_dup"); });
    return g.of_kernels;
  }
  /// The coordinates of rank `r` of the group over `axes`.
  coordinates member(axis_set axes, std::int64_t r) const { return moved_along(axes, here_, r, sizes_); }

  /// Objects bound to plans and extents.
  bindings& bound() { return bound_; }
  /// The workspace that all plans share.
  const workspace_pool& workspace() const { return workspace_; }
  /// Makes the workspace of a depth of nested calls at least this large on this device. Throws memory_error on all
  /// devices if one of them cannot. Collective over the devices.
  [[gnu::cold]] void reserve_workspace(std::size_t depth, std::int64_t bytes, std::int64_t host_bytes) {
    const bool allocated = workspace_.grow(depth, bytes, host_bytes);
    try {
      agree_on_memory(allocated, bytes + host_bytes, "the workspace of a plan");
    } catch (const memory_error&) {
      // A device lost the memory of its other plans: on all devices they request it again.
      workspace_.forget();
      throw;
    }
  }
  /// Frees the workspace. Collective over the devices, as is the next call of each plan. Not while a plan runs.
  [[gnu::cold]] void release_workspace() {
    if (bound_.depth() == 0) workspace_.release();
  }
  /// The limit of bound extents per plan. Collective over all ranks; the least number that one of them gives holds for
  /// all.
  void keep_extents(std::int64_t mine) {
    const std::int64_t negated = -mine;
    std::int64_t most = negated;
    largest(&negated, &most, 1, everyone_);
    bound_.keep_extents(std::max<std::int64_t>(-most, 1));
  }

  /// The blocks of given sizes of that name; null: none.
  const block_table* blocks_of(std::string_view name) const {
    for (const auto& known : blocks_)
      if (known->name == name) return &known->table;
    return nullptr;
  }
  /// Those of a dim that has this extent; null: equal ones.
  const block_table* blocks_of(const dim_ref& dim, std::int64_t extent) const {
    const block_table* const given = blocks_of(dim.blocks);
    return given != nullptr && given->begins.back() == extent ? given : nullptr;
  }
  /// Names the sizes of blocks. Collective over all ranks. Throws grid_error on all ranks if they do not agree.
  [[gnu::cold]] void set_blocks(std::string_view name, indexed_span<const std::int64_t> sizes) {
    require_usable();
    comm::word_hash h;
    h.mix(name);
    for (const std::int64_t n : sizes) h.mix(n);
    const std::int64_t hash = as_signed(h.value >> 2), mine[4] = {hash, -hash, std::ssize(sizes), -std::ssize(sizes)};
    std::int64_t all[4] = {};
    largest(mine, all, 4, everyone_);
    if (all[0] != -all[1] || all[2] != -all[3]) raise<grid_error>(wording::blocks_disagree(name));
    if (sizes.empty()) raise<grid_error>(wording::blocks_without_sizes(name));
    owned<named_blocks> made(new named_blocks{name, {}});
    indexed_vector<std::int64_t>& begins = made->table.begins;
    begins.push_back(0);
    for (const std::int64_t n : sizes) {
      if (n < 0 || n > most_elements - begins.back())
        raise<grid_error>(wording::blocks_negative(name, std::ssize(begins) - 1, n));
      begins.push_back(begins.back() + n);
    }
    const block_table* const known = blocks_of(name);
    if (known == nullptr) blocks_.push_back(std::move(made));
    else if (!std::equal(begins.begin(), begins.end(), known->begins.begin(), known->begins.end()))
      raise<grid_error>(wording::blocks_changed(name));
  }

  /// Whether a condition holds on all devices. Collective over the devices: one small MPI_Allreduce.
  [[gnu::cold]] bool holds_everywhere(bool here) {
    const int mine = here ? 1 : 0;
    int all = mine;
    if (world_.size > 1)
      guarded([&] { comm::check(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, world_.handle), "MPI_Allreduce"); });
    return all != 0;
  }
  /// Throws memory_error on all devices if one of them could not allocate. Collective over the devices: one small
  /// MPI_Allreduce.
  [[gnu::cold]] void agree_on_memory(bool allocated, std::int64_t bytes, std::string_view what) {
    std::int64_t mine[2] = {allocated ? 0 : bytes, allocated ? -1 : world_.rank}, all[2] = {};
    std::copy(mine, mine + 2, all);
    if (world_.size > 1) largest(mine, all, 2, world_);
    if (all[1] >= 0) raise<memory_error>(wording::rank_out_of_memory(all[0], what, all[1]));
  }
  /// The largest of each of some numbers over the ranks of a group. Collective over them: one small MPI_Allreduce.
  [[gnu::cold]] void largest(const std::int64_t* mine, std::int64_t* all, int count, const comm::group& among) {
    guarded([&] { comm::check(MPI_Allreduce(mine, all, count, MPI_INT64_T, MPI_MAX, among.handle), "MPI_Allreduce"); });
  }

 private:
  struct group_with_key {
    std::uint64_t key = 0;
    comm::kept_group group{};
  };

  struct named_blocks {
    std::string_view name;
    block_table table;
  };

  /// Marks the keys of groups in block order.
  static constexpr std::uint64_t ordered_key = std::uint64_t{1} << 63;

  comm::kept_group& group_over(axis_set axes) {
    return group_once(std::uint64_t{axes.bits()} << 1, axes, index_along(axes, here_, sizes_));
  }
  comm::kept_group& group_over(axis_list list, bool backwards) {
    const std::uint64_t key = ordered_key | std::uint64_t{list.packed} << 1 | (backwards ? 1u : 0u);
    const std::int64_t block = block_index(list, here_, sizes_),
                       order = backwards ? sizes_.product(list) - block : block;
    return group_once(key, list.mask(), order);
  }
  [[gnu::cold]] comm::kept_group& group_once(std::uint64_t key, axis_set axes, std::int64_t order) {
    for (const auto& known : groups_)
      if (known->key == key) return known->group;
    return guarded([&]() -> comm::kept_group& {
      const comm::group made = split(axes, order);
      groups_.push_back(owned<group_with_key>(new group_with_key()));
      groups_.back()->key = key;
      comm::kept_group& g = groups_.back()->group;
      g.ranks = made;
      if (made.size > 1 && (key & ordered_key) == 0)
        if (comm::grid_transport* t = other_transport()) t->join(g, world_);
      return g;
    });
  }
  /// Null if all messages use MPI: if a rank asks for it, or if MPI accesses device memory itself. The first call is
  /// collective over the devices.
  [[gnu::cold]] comm::grid_transport* other_transport() {
    if (!on_host || only_mpi_ || other_ == nullptr || world_.size == 1) return nullptr;
    if (!transport_) transport_ = other_->make(world_, stores_);
    return transport_.get();
  }
  const comm::group& connected(comm::kept_group& g) {
    if (g.ranks.link == nullptr && g.ranks.size > 1)
      guarded([&] {
        if (comm::grid_transport* t = other_transport()) t->connect(g);
      });
    return g.ranks;
  }
  /// The communicator of the devices that differ from this one on some axes only, in ascending `order`. Collective over
  /// the grid.
  comm::group split(axis_set axes, std::int64_t order) const {
    const std::int64_t color = device_of(moved_along(axes, here_, 0, sizes_), sizes_);
    comm::group g;
    comm::check(MPI_Comm_split(world_.handle, comm::rank_number(color), comm::rank_number(order), &g.handle),
                "MPI_Comm_split");
    comm::check(MPI_Comm_size(g.handle, &g.size), "MPI_Comm_size");
    comm::check(MPI_Comm_rank(g.handle, &g.rank), "MPI_Comm_rank");
    return g;
  }

  /// Cold, and behind a constructor that is not inlined: g++ treats a function that always calls a cold one as cold
  /// too, and would not vectorise the loops of a user's function that makes a grid.
  [[gnu::cold]] void open(MPI_Comm comm, const std::vector<std::int64_t>& sizes, bool is_part) {
    static std::atomic<std::int64_t> grids{0};
    id_ = ++grids;
    if (comm == MPI_COMM_NULL || comm == MPI_Comm{}) raise<mesh_error>(wording::communicator_null());
    of_session_ = comm::is_of_session(comm);
    if (!of_session_) comm::require_mpi();
    int inter = 0;
    comm::check(MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
    if (inter != 0) raise<mesh_error>(wording::communicator_inter());
    checks asked;
    const std::exception_ptr misspelt = fault_of_environment(asked);
    if (!misspelt) begin_recording(comm, asked.time_limit);
    const comm::recorded call("the construction of a grid");
    if (asked.any()) comm::limit_call(2 * asked.time_limit);
    everyone_.handle = comm::duplicated(comm, asked.any() ? asked.time_limit : 0);
    try {
      comm::check(MPI_Comm_set_errhandler(everyone_.handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
      comm::check(MPI_Comm_size(everyone_.handle, &everyone_.size), "MPI_Comm_size");
      comm::check(MPI_Comm_rank(everyone_.handle, &everyone_.rank), "MPI_Comm_rank");
      agree(sizes, is_part, asked, misspelt);
      world_ = everyone_;
      if (is_part) {
        world_ = {MPI_COMM_NULL, comm::rank_number(sizes_.devices()), device_at(everyone_.rank)};
        comm::check(MPI_Comm_split(everyone_.handle, active() ? 0 : MPI_UNDEFINED, world_.rank, &world_.handle),
                    "MPI_Comm_split");
      }
    } catch (...) {
      release();
      throw;
    }
    if (active()) here_ = coordinates_of(world_.rank, sizes_);
    if (asks_for_checks_) check(asked);
  }
  /// Ranks have their numbers in the communicator of the first grid.
  [[gnu::cold]] void begin_recording(MPI_Comm comm, double limit) const {
    int rank = 0, ranks = 0;
    comm::check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    comm::check(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
    if (const comm::call_watcher* const watch = comm::watcher; watch != nullptr) watch->begin(rank, ranks, limit);
  }
  /// Reads all environment variables; returns the fault, if there is one. Also the variables that only later calls use:
  /// a rank that found a fault there would throw alone.
  [[gnu::cold]] std::exception_ptr fault_of_environment(checks& asked) const {
    try {
      // Not assigned from the call itself: if it throws, g++ 12 may leave a part of its result in `asked`.
      const checks read = checks_of_environment();
      if (const comm::call_watcher* const watch = comm::watcher; watch != nullptr) watch->read_environment();
      comm::transport_mode();
      comm::overlap_mode();
      if (other_ != nullptr) other_->read_environment();
      comm::gpu_aware_mode();
      store_mode();
      fft_plans_of_environment();
      asked = read;
    } catch (const environment_error&) {
      return std::current_exception();
    }
    return nullptr;
  }
  [[gnu::cold]] void agree(const std::vector<std::int64_t>& given, bool is_part, const checks& asked,
                           const std::exception_ptr& misspelt) {
    // Maxima and, negated, minima of the arguments over all ranks, so that all ranks find the same fault.
    constexpr int fields = max_axes + 9, first = max_axes + 1, stride = max_axes + 2, checked = max_axes + 3,
                  only_mpi = max_axes + 4, at_once = max_axes + 5, faulty = max_axes + 6, part = max_axes + 7,
                  stored = max_axes + 8;
    std::int64_t mine[2 * fields] = {}, all[2 * fields] = {};
    mine[0] = std::ssize(given);
    for (std::size_t a = 0; a < max_axes && a < given.size(); ++a) mine[a + 1] = given[a];
    mine[part] = !is_part ? 0 : part_.list.empty() ? 1 : 2;
    mine[first] = part_.list.empty() ? part_.first : hash_of_list();
    mine[stride] = part_.stride;
    mine[checked] = asked.any() ? 1 : 0;
    mine[faulty] = misspelt ? 1 : 0;
    if (!misspelt) {
      mine[only_mpi] = comm::transport_mode() == comm::transport::mpi ? 1 : 0;
      mine[at_once] = comm::overlap_mode() ? 0 : 1;
      mine[stored] = underlying(store_mode());
    }
    for (int i = 0; i < fields; ++i) mine[fields + i] = -mine[i];
    comm::check(MPI_Allreduce(mine, all, 2 * fields, MPI_INT64_T, MPI_MAX, everyone_.handle), "MPI_Allreduce");
    if (misspelt) std::rethrow_exception(misspelt);
    if (all[faulty] != 0) raise<environment_error>(wording::environment_of_another_rank());
    asks_for_checks_ = all[checked] != 0;
    only_mpi_ = all[only_mpi] != 0;
    overlaps_ = all[at_once] == 0;
    stores_ = static_cast<store_setting>(all[stored]);
    if (all[0] != -all[fields]) raise<mesh_error>(wording::mesh_counts_disagree());
    if (all[0] != mesh_.size()) raise<mesh_error>(wording::mesh_needs_sizes(mesh_.size(), all[0]));
    for (int a = 0; a < mesh_.size(); ++a) {
      const axis_info& axis = mesh_.axes[a];
      const std::int64_t most = all[a + 1], least = -all[fields + a + 1];
      if (most != least) raise<mesh_error>(wording::mesh_sizes_disagree(axis.name, least, most));
      if (most < 1) raise<mesh_error>(wording::mesh_size_not_positive(axis.name, most));
      if (axis.size != dynamic && axis.size != most)
        raise<mesh_error>(wording::mesh_size_fixed(axis.name, axis.size, most));
      sizes_[a] = most;
    }
    for (const int field : {part, first, stride})
      if (all[field] != -all[fields + field]) raise<mesh_error>(wording::mesh_parts_disagree());
    if (!are_countable()) raise<mesh_error>(wording::mesh_uncountable(everyone_.size));
    if (!is_part) {
      if (sizes_.devices() != everyone_.size)
        raise<mesh_error>(wording::mesh_needs_ranks(sizes_.devices(), everyone_.size));
      return;
    }
    if (!part_.list.empty()) return check_list();
    const std::int64_t last = part_.first + part_.stride * (sizes_.devices() - 1);
    if (part_.first < 0 || part_.stride < 1 || last >= everyone_.size)
      raise<mesh_error>(wording::mesh_part_outside(part_.first, part_.stride, last, everyone_.size));
  }
  /// Whether a communicator can have as many ranks as the product of the sizes, which are at least 1 each.
  bool are_countable() const {
    std::int64_t n = 1;
    for (const std::int64_t size : sizes_.of) {
      if (size > std::numeric_limits<int>::max() / n) return false;
      n *= size;
    }
    return true;
  }
  /// Cut so that it can be negated.
  std::int64_t hash_of_list() const {
    comm::word_hash h;
    for (int rank : part_.list) h.mix(rank);
    return as_signed(h.value >> 2);
  }
  [[gnu::cold]] void check_list() const {
    if (std::ssize(part_.list) != sizes_.devices())
      raise<mesh_error>(wording::mesh_list_length(std::ssize(part_.list), sizes_.devices()));
    for (std::size_t d = 0; d < part_.list.size(); ++d)
      if (const int rank = part_.list[d];
          rank < 0 || rank >= everyone_.size || std::count(part_.list.begin(), part_.list.end(), rank) != 1)
        raise<mesh_error>(wording::mesh_list_rank(d, rank, everyone_.size));
  }
  [[gnu::cold]] void release() noexcept {
    bound_.clear();
    workspace_.release();
    int finalized = 0;
    if (!of_session_) MPI_Finalized(&finalized);
    // Messages of a broken grid may still be in transit. An MPI that reuses the number of a freed communicator, as
    // MPICH does, would let the new one receive them: so the communicators of a broken grid are kept.
    if (finalized != 0 || broken_) {
      if (agreement_) agreement_->forget();
      return;
    }
    agreement_.reset();
    if (transport_) transport_->release();
    for (const auto& known : groups_) known->group.release();
    groups_.clear();
    if (world_.handle != MPI_COMM_NULL && world_.handle != everyone_.handle) MPI_Comm_free(&world_.handle);
    if (everyone_.handle != MPI_COMM_NULL) MPI_Comm_free(&everyone_.handle);
  }

  mesh_value mesh_{};
  axis_sizes sizes_{};
  coordinates here_{};
  on_ranks part_{};
  comm::group everyone_{};
  indexed_vector<owned<group_with_key>> groups_{};
  /// Each stays where it is, as long as the grid lives.
  indexed_vector<owned<named_blocks>> blocks_{};
  comm::kept_group all_devices_{};
  const comm::transport_maker* other_ = nullptr;
  owned<comm::grid_transport> transport_{};
  bool only_mpi_ = false, overlaps_ = true;
  /// The stores for data that ranks share.
  store_setting stores_ = store_setting::automatic;
  bindings bound_{};
  workspace_pool workspace_{};
  std::int64_t id_ = 0;
  bool asks_for_checks_ = false;
};

/// Throws where the blocks of a dim are not those of a tensor.
[[gnu::cold]] inline void check_blocks(const dim_ref& dim, const block_table* given, std::int64_t extent,
                                       std::int64_t parts) {
  if (given == nullptr) raise<shape_error>(wording::blocks_missing(dim.name, dim.blocks));
  if (given->begins.back() != extent)
    raise<shape_error>(wording::blocks_sum(dim.name, extent, dim.blocks, given->begins.back()));
  if (given->count() % parts != 0 && parts % given->count() != 0)
    raise<shape_error>(wording::blocks_parts(dim.name, parts, dim.blocks, given->count()));
}

/// Throws where a dim cannot have an extent over so many devices.
[[gnu::cold]] inline void check_extent(const dim_ref& dim, std::int64_t extent, std::int64_t parts,
                                       const grid_state& on) {
  if (extent < 0) raise<shape_error>(wording::extent_negative(dim.name, extent));
  if (dim.extent != dynamic && dim.extent != extent)
    raise<shape_error>(wording::extent_fixed(dim.name, dim.extent, extent));
  if (dim.divisible && extent % parts != 0) raise<shape_error>(wording::extent_not_divisible(dim.name, parts, extent));
  if (!dim.blocks.empty()) check_blocks(dim, on.blocks_of(dim.blocks), extent, parts);
}

}} // namespace cleave::v0
