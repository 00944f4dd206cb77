// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/execute/arguments.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/execute/runnable.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/plan/workspace.hpp>
#include <cleave/program/program_view.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace cleave { inline namespace v0 {

/// The numbers of a statement that take the element type of a tensor, which has to hold them.
class number_checks {
 public:
  [[gnu::cold]] explicit number_checks(const program_view& p) {
    for (const step& s : p.steps) {
      const indexed_span<const fused_op> all = fused_ops_of(p, s);
      for (const fused_op& o : all) {
        if (role_of(o.code) != fused_role::operation || o.scalar != is_number_that_fits) continue;
        const fused_op& given = all[o.in[0]];
        if (given.code == op::input && s.in[given.arg] < p.arguments)
          numbers_.push_back({s.in[given.arg], given.type, o.type});
      }
    }
  }
  /// `data` gives the address of an argument that is a number in memory of the host; null of a tensor. Throws
  /// number_error if the type of a tensor cannot hold the number, on all ranks, since they have the same number.
  template <class Data>
  void check(const Data& data) const {
    for (const number& n : numbers_) {
      const void* const at = data(n.argument);
      if (at == nullptr) continue;
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, at, std::min(sizeof bytes, as_size(size_of(n.given))));
      const host_number given(bytes, n.given);
      if (is_floating(n.given) ? !has_number(n.type, given.floating())
                               : !has_integer(n.type, given.integer(), n.given == element::u64))
        raise<number_error>(wording::number_does_not_fit(given.text(), name_of(n.type)));
    }
  }

 private:
  struct number {
    std::size_t argument;
    element given, type;
  };
  indexed_vector<number> numbers_{};
};

/// Runs one plan for one set of sizes on one grid. Binding computes all that depends on sizes; running walks the steps,
/// allocates nothing and decides nothing. Buffers that live in one workspace slot share its memory; all slots and the
/// memory of the steps are in the workspace of the grid.
class executor {
 public:
  /// Collective over the grid: sub-communicators may be made. The plan outlives the executor, and so do strides that
  /// are not those of contiguous shards.
  [[gnu::cold]] executor(grid_state& grid, const sizes& at, const runnable& code, const given_strides* given = nullptr)
      : running_{grid}, arguments_(binder{grid, code.program, at, given}), numbers_(code.program) {
    binder b{grid, code.program, at, given};
    const indexed_vector<slice_in_place> slices = b.find_slices();
    b.slices = &slices;
    bind_steps(b, code);
    lay_out_memory(b, code);
    take_memory(grid.bound().depth());
    arguments_.find_hazards(b, running_.steps);
  }
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;

  /// Allocates the memory that a run with these addresses needs; returns the bytes that could not be allocated.
  [[gnu::cold]] std::int64_t prepare(const void* const* inputs, void* const* outputs) {
    return arguments_.prepare(inputs, outputs);
  }
  /// Takes the addresses of a run. A result is computed in memory of its own if the caller's memory is that of an
  /// argument that is still to be read.
  void start(const void* const* inputs, void* const* outputs) {
    running_.grid.require_usable();
    take_memory(running_.grid.bound().depth() - 1);
    arguments_.take(running_.grid, inputs, outputs, running_.at);
    running_.checks = running_.grid.checked().any() ? checks_.get() : nullptr;
    if (running_.checks == nullptr) return;
    // An element that is read before it is written is NaN.
    fill_bytes(block_.memory, 0xFF, memory_bytes_);
    checks_->before_call(running_.at);
  }
  /// Collective over the grid. Shards of the arguments and of the results, in order; a result may be the memory of an
  /// argument.
  void run(const void* const* inputs, void* const* outputs) {
    const bindings::running running(running_.grid.bound());
    start(inputs, outputs);
    try {
      running_.run_steps(0, running_.steps.size());
    } catch (const mpi_error&) {
      abandon();
      throw;
    } catch (const agreement_error&) {
      // The other ranks make other calls, so moves in flight cannot be finished.
      abandon();
      throw;
    } catch (...) {
      try {
        finish_exchanges();
      } catch (...) {
        // Messages stay in flight, so the ranks are out of step from now on.
        abandon();
        throw;
      }
      throw;
    }
    arguments_.give(outputs);
  }
  run_state& state() { return running_; }
  /// From now on these look at the steps of calls in checked mode.
  void look_with(owned<call_hooks> checks) { checks_ = std::move(checks); }
  bool has_checks() const { return static_cast<bool>(checks_); }
  /// Bytes of this device's workspace.
  std::int64_t workspace_bytes() const { return memory_bytes_; }
  const number_checks& numbers() const { return numbers_; }

 private:
  /// After an exception that all ranks throw: nothing is left in flight, so that the plan can run again.
  void finish_exchanges() {
    while (!running_.in_flight.empty()) {
      running_.in_flight.back()->finish();
      running_.in_flight.pop_back();
    }
  }

  /// After a failure that may have left the ranks out of step: the grid is broken, and nothing runs again.
  [[gnu::cold]] void abandon() {
    running_.grid.set_broken();
    running_.in_flight.clear();
    running_.groups.clear();
    running_.steps.clear();
  }
  [[gnu::cold]] void bind_steps(const binder& b, const runnable& code) {
    running_.plan = b.program.steps.data();
    for (std::size_t i = 0; i < b.program.steps.size(); ++i) {
      const step& s = b.program.steps[i];
      // A map may wait for the halo that the waits before it are for.
      const std::size_t begun = s.kind == step_kind::wait ? s.begun : i - 1;
      const bool waits = s.kind == step_kind::wait || (i > 0 && b.program.steps[i - 1].kind == step_kind::wait);
      const std::int64_t result = is_collective(s) || (comm::tracer != nullptr && writes(s)) ? b.bytes(b.result(s)) : 0;
      running_.results.push_back(result);
      running_.bytes.push_back(!is_collective(s) && waits ? running_.bytes[begun] : result);
      running_.names.push_back(profile_name(s));
      running_.steps.push_back(code.bind(b, i));
    }
    if (code.join_reduces != nullptr) code.join_reduces(b, running_.steps);
    if (code.find_bands != nullptr && b.given == nullptr) running_.groups = code.find_bands(b, running_.steps);
    if (code.find_products != nullptr && b.given == nullptr) code.find_products(b, running_.steps, running_.groups);
    running_.in_flight.reserve(running_.steps.size());
  }
  [[gnu::cold]] static std::string profile_name(const step& s) {
    std::string name;
    if (s.move != kind::none) name.append(name_of(s.move)).append(" for ");
    name.append(name_of(s.code));
    if (s.move != kind::none) name.append(" line ").append(std::to_string(s.where.line));
    return name;
  }

  /// Lays out the workspace: the slots, then the memory that each step has of its own, then the memory that they share.
  [[gnu::cold]] void lay_out_memory(const binder& b, const runnable& code) {
    const program_view& p = b.program;
    indexed_vector<std::int64_t> slot_at = slot_bytes(p, b.at, b.grid.here(),
                                                      [&](const buffer& x) { return !b.lies_in_ghosts(x); });
    std::int64_t memory = 0, host = 0;
    for (std::int64_t& slot : slot_at) {
      const std::int64_t bytes = slot;
      slot = memory;
      memory += comm::aligned(bytes);
    }
    running_.at.resize(p.buffers.size(), nullptr);
    for (std::size_t i = 0; i < p.buffers.size(); ++i)
      if (const buffer& x = p.buffers[i]; x.role == role::workspace)
        buffers_.push_back(
            {i, slot_at[x.index] + (b.is_around_shard(x) ? 0 : b.addresses(x).offset) * size_of(x.type.element)});
    comm::scratch_bytes shared;
    indexed_vector<std::int64_t> until_waited(running_.steps.size(), 0);
    for (std::size_t i = 0; i < running_.steps.size(); ++i) {
      const auto& s = running_.steps[i];
      const comm::scratch_bytes own = s->own_bytes(), needs = s->shared_bytes();
      if (own.memory > 0 || own.host > 0) own_.push_back({i, memory, host});
      if (s->frees_when_waited()) until_waited[i] = own.memory;
      else memory += comm::aligned(own.memory);
      host += comm::aligned(own.host);
      shared.memory = std::max(shared.memory, needs.memory);
      shared.host = std::max(shared.host, needs.host);
    }
    if (code.find_bands != nullptr) shared.memory = std::max(shared.memory, scratch_of_bands(p, b.at, b.grid.here()));
    for (const auto& g : running_.groups) shared.memory = std::max(shared.memory, g->shared_bytes);
    const held_memory held = share_until_waited(p, until_waited);
    for (own_memory& own : own_)
      if (running_.steps[own.step]->frees_when_waited()) own.memory = memory + held.begin[own.step];
    shared_ = {memory + held.bytes, host};
    memory_bytes_ = shared_.memory + shared.memory;
    host_bytes_ = host + shared.host;
  }
  /// Takes the memory of the grid's workspace for a depth of nested calls. Collective over the grid if the plan asks
  /// for it for the first time; later only if it moved.
  void take_memory(std::size_t depth) {
    const workspace_pool& pool = running_.grid.workspace();
    if (asked_at_ != pool.releases() || (asked_ >> depth & 1) == 0) reserve_memory(depth);
    const workspace_pool::block now = pool.at(depth);
    if (!(now == block_)) place(now);
  }
  [[gnu::cold]] void reserve_memory(std::size_t depth) {
    running_.grid.reserve_workspace(depth, memory_bytes_, host_bytes_);
    const std::int64_t releases = running_.grid.workspace().releases();
    asked_ = (asked_at_ == releases ? asked_ : 0) | std::uint64_t{1} << depth;
    asked_at_ = releases;
  }
  [[gnu::cold]] void place(const workspace_pool::block& now) {
    const auto at = [](void* from, std::int64_t offset) { return from == nullptr ? nullptr : as<char>(from) + offset; };
    block_ = now;
    for (const buffer_memory& x : buffers_) running_.at[x.buffer] = at(now.memory, x.memory);
    for (const own_memory& own : own_)
      running_.steps[own.step]->settle({at(now.memory, own.memory), at(now.host, own.host)}, running_);
    running_.scratch = {at(now.memory, shared_.memory), at(now.host, shared_.host)};
  }

  /// Bytes from the beginning of the workspace, and of that on the host.
  struct buffer_memory {
    std::size_t buffer;
    std::int64_t memory;
  };
  struct own_memory {
    std::size_t step;
    std::int64_t memory, host;
  };

  run_state running_;
  detail::argument_memory arguments_;
  owned<call_hooks> checks_{};
  number_checks numbers_;
  indexed_vector<buffer_memory> buffers_{};
  indexed_vector<own_memory> own_{};
  comm::scratch_bytes shared_{};
  std::int64_t memory_bytes_ = 0, host_bytes_ = 0;
  /// Where the workspace was in the last call; the depths for which the plan has asked for it, a bit each, and after
  /// which release.
  workspace_pool::block block_{};
  std::uint64_t asked_ = 0;
  std::int64_t asked_at_ = -1;
};

/// Free memory demanded before a plan is bound, apart from its workspace: usually much more than it takes.
inline constexpr std::int64_t bytes_to_bind = 1 << 20;
/// Lists of the standard library, not arrays for kernels. Volatile, lest the compiler leaves the memory out.
[[gnu::cold]] inline void probe_memory_to_bind() {
  void* volatile memory = ::operator new(bytes_to_bind);
  ::operator delete(memory);
}

/// The executor of a plan on a grid, made at the first call with these extents and kept with the grid. `extents` has
/// one number for each dim of the plan; `complete` turns them into the sizes to bind and is called only if there is no
/// executor yet.
template <class Complete>
executor& executor_for(grid_state& grid, const runnable& code, indexed_span<const std::int64_t> extents,
                       const Complete& complete) {
  void* found = grid.bound().find(&code, extents);
  if (found == nullptr) {
    // Completing may throw; nothing is kept then.
    const sizes at = complete();
    // Ranks communicate while they bind, so that one without memory would leave the others waiting.
    grid.agree_on_memory(finds_memory(&probe_memory_to_bind), bytes_to_bind, "the binding of a plan");
    grid.bound().make_room(&code);
    grid.guarded(
        [&] { found = grid.bound().keep(&code, extents, std::shared_ptr<void>(new executor(grid, at, code))); });
  }
  return *as<executor>(found);
}
/// The same for sizes that are complete.
template <class Plan>
executor& executor_for(grid_state& grid, const sizes& at) {
  const indexed_span<const std::int64_t> dims(at.dims);
  return executor_for(grid, runnable_of<Plan>, dims.first(Plan::frozen.dims.size()), [&] { return at; });
}

}} // namespace cleave::v0
