// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/arguments.hpp>
#include <cleave/execute/runnable.hpp>
#include <cleave/plan/workspace.hpp>
#include <cleave/storage/as.hpp>

namespace cleave::inline v0 {

/// A plan bound to a grid and to sizes. Buffers that live in one workspace slot share its memory; one allocation holds
/// all slots and the memory of the steps.
class bound_program {
 public:
  /// Collective over the grid: sub-communicators may be made.
  [[gnu::cold]] bound_program(grid_state& grid, const sizes& at, const runnable& code,
                              const given_strides* given = nullptr)
      : running_{grid}, arguments_(binder{grid, code.program, at, given}), checks_(grid, at, code.program) {
    binder b{grid, code.program, at, given};
    const indexed_vector<slice_in_place> slices = b.find_slices();
    b.slices = &slices;
    bind_steps(b, code);
    allocate_memory(b, code);
    arguments_.find_hazards(b, running_.steps);
  }
  bound_program(const bound_program&) = delete;
  bound_program& operator=(const bound_program&) = delete;

  /// Takes the addresses of a run. A result whose memory is that of an argument that is still to be read is computed
  /// beside it.
  void start(const void* const* inputs, void* const* outputs) {
    running_.grid.require_usable();
    arguments_.take(running_.grid, inputs, outputs, running_.at);
    running_.checks = running_.grid.checked().any() ? &checks_ : nullptr;
    if (running_.checks != nullptr) checks_.before_call(running_.at);
  }
  void run() { running_.run_steps(0, running_.steps.size()); }
  void finish(void* const* outputs) { arguments_.give(outputs); }
  /// After an exception that all ranks throw: nothing is left under way, so that the plan can run again.
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

  run_state& state() { return running_; }
  /// Bytes of this device's workspace.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  [[gnu::cold]] void bind_steps(const binder& b, const runnable& code) {
    for (std::size_t i = 0; i < b.program.steps.size(); ++i) {
      running_.names.push_back(profile_name(b.program.steps[i]));
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

  /// The workspace: the slots, then what steps have of their own, then what they share.
  [[gnu::cold]] void allocate_memory(const binder& b, const runnable& code) {
    const program_view& p = b.program;
    indexed_vector<std::int64_t> slot_at = slot_bytes(p, b.at, b.grid.here(),
                                                      [&](const buffer& x) { return !b.lies_in_ghosts(x); });
    std::int64_t memory = 0, host = 0;
    for (std::int64_t& slot : slot_at) {
      const std::int64_t bytes = slot;
      slot = memory;
      memory += comm::aligned(bytes);
    }
    const std::int64_t first_own = memory;
    comm::scratch_bytes shared;
    indexed_vector<std::int64_t> until_waited(running_.steps.size(), 0);
    for (std::size_t i = 0; i < running_.steps.size(); ++i) {
      const auto& s = running_.steps[i];
      const comm::scratch_bytes own = s->own_bytes(), needs = s->shared_bytes();
      if (s->frees_when_waited()) until_waited[i] = own.memory;
      else memory += comm::aligned(own.memory);
      host += comm::aligned(own.host);
      shared.memory = std::max(shared.memory, needs.memory);
      shared.host = std::max(shared.host, needs.host);
    }
    if (code.find_bands != nullptr) shared.memory = std::max(shared.memory, scratch_of_bands(p, b.at, b.grid.here()));
    for (const auto& g : running_.groups) shared.memory = std::max(shared.memory, g->shared_bytes);
    const held_memory held = share_until_waited(p, until_waited);
    const std::int64_t first_held = memory;
    memory += held.bytes;
    workspace_bytes_ = memory + shared.memory;
    const bool allocated = try_allocate(workspace_bytes_, workspace_) &&
                           try_allocate<Kokkos::HostSpace>(host + shared.host, host_);
    b.grid.agree_on_memory(allocated, workspace_bytes_ + host + shared.host, "the workspace of a plan");

    char* const base = as<char>(workspace_.get());
    running_.at.resize(p.buffers.size(), nullptr);
    for (std::size_t i = 0; i < p.buffers.size(); ++i)
      if (const buffer& x = p.buffers[i]; base != nullptr && x.role == role::workspace)
        running_.at[i] = base + slot_at[x.index] +
                         (b.is_around_shard(x) ? 0 : b.addresses(x).offset) * size_of(x.type.element);
    settle_steps(first_own, first_held, held, host);
  }
  /// Gives the steps their own memory, which begins at `memory` bytes, that which they hold until they are waited for,
  /// which begins at `first_held`, and the shared one after it.
  [[gnu::cold]] void settle_steps(std::int64_t memory, std::int64_t first_held, const held_memory& held,
                                  std::int64_t shared_host) {
    char *const base = as<char>(workspace_.get()), *const host_base = as<char>(host_.get());
    const auto at = [](char* from, std::int64_t offset) { return from == nullptr ? nullptr : from + offset; };
    std::int64_t host = 0;
    for (std::size_t i = 0; i < running_.steps.size(); ++i) {
      bound_step& s = *running_.steps[i];
      const comm::scratch_bytes own = s.own_bytes();
      const bool frees = s.frees_when_waited();
      s.settle({at(base, frees ? first_held + held.begin[i] : memory), at(host_base, host)}, running_);
      if (!frees) memory += comm::aligned(own.memory);
      host += comm::aligned(own.host);
    }
    running_.scratch = {at(base, first_held + held.bytes), at(host_base, shared_host)};
  }

  run_state running_;
  detail::argument_memory arguments_;
  detail::call_checks checks_;
  std::int64_t workspace_bytes_ = 0;
  std::shared_ptr<void> workspace_{}, host_{};
};

} // namespace cleave::inline v0
