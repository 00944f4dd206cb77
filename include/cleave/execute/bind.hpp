// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/bind_step.hpp>
#include <cleave/execute/call_checks.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

namespace cleave {

/// A plan bound to a grid and to sizes, up to the kernels. Buffers that live in one workspace slot share its memory; one
/// allocation holds all slots and the scratch of the steps.
class bound_program {
 public:
  /// Collective over the grid: sub-communicators may be made.
  bound_program(grid_state& grid, const sizes& at, std::span<const dim_info> dims, std::span<const buffer> buffers,
                std::span<const step> steps, std::span<const dim_map> maps, std::size_t arguments, std::size_t results, std::size_t slots,
                comm::exchange_maker make_exchange = nullptr, const loop_list& loops = {})
      : grid_(&grid) {
    const detail::binder bind{grid, buffers, maps, dims, at, make_exchange, loops};
    bytes_.resize(buffers.size());
    for (std::size_t b = 0; b < buffers.size(); ++b)
      bytes_[b] = bind.local(buffers[b]).elements() * size_of(buffers[b].type.element);

    std::vector<std::int64_t> slot(slots, 0);
    for (std::size_t b = 0; b < buffers.size(); ++b)
      if (buffers[b].role == role::workspace && buffers[b].form != form::view && buffers[b].form != form::slice) slot[buffers[b].index] = std::max(slot[buffers[b].index], bytes_[b]);
    std::vector<std::int64_t> slot_at(slots, 0);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < slots; ++i) {
      slot_at[i] = total;
      total += comm::aligned(slot[i]);
    }
    steps_.reserve(steps.size());
    comm::scratch_bytes most;
    std::int64_t host = 0;
    for (const step& s : steps) steps_.push_back(bind.bind(s));
    bind.join_reduces(steps, steps_);
    for (bound_step& s : steps_) {
      most.memory = std::max(most.memory, s.scratch.memory);
      most.host = std::max(most.host, s.scratch.host);
      s.own_at = total;
      s.own_host_at = host;
      total += comm::aligned(s.own_scratch.memory);
      host += comm::aligned(s.own_scratch.host);
      if (!s.joins) continue;
      s.message_at = total;
      total += comm::aligned(s.joins->bytes());
    }
    workspace_bytes_ = total + most.memory;
    const bool allocated = try_allocate(workspace_bytes_, workspace_) && try_allocate<Kokkos::HostSpace>(host + most.host, host_);
    grid.agree_on_memory(allocated, workspace_bytes_ + host + most.host, "the workspace of a plan");
    scratch_ = {workspace_ ? static_cast<char*>(workspace_.get()) + total : nullptr, host_ ? static_cast<char*>(host_.get()) + host : nullptr};

    at_.resize(buffers.size(), nullptr);
    for (std::size_t b = 0; b < buffers.size(); ++b)
      switch (buffers[b].role) {
        case role::workspace:
          if (workspace_)
            at_[b] = static_cast<char*>(workspace_.get()) + slot_at[buffers[b].index] + bind.addresses(buffers[b]).offset * size_of(buffers[b].type.element);
          break;
        case role::input: inputs_.push_back({b, buffers[b].index}); break;
        case role::output: outputs_.push_back({b, buffers[b].index}); break;
      }
    for (bound_step& s : steps_) {
      if (!s.joins) continue;
      s.message = static_cast<char*>(workspace_.get()) + s.message_at;
      for (const comm::joined_reduce::part& p : s.joins->parts())
        if (p.lives_there) at_[p.from] = at_[p.to] = s.message + p.offset;
    }
    in_flight_.reserve(static_cast<std::size_t>(std::ranges::count_if(steps, &step::in_flight)));
    find_hazards(buffers, steps, arguments, results);
    checks_ = std::make_unique<detail::call_checks>(grid, at, dims, buffers, steps, maps);
  }

  grid_state& grid() const { return *grid_; }
  /// Checked mode, around steps and numbers that decide how often a loop runs.
  void begins(std::size_t i) {
    if (checking_) checks_->before_step(i, [&](std::size_t buffer) { return at_[buffer]; });
  }
  void ends(std::size_t i) {
    if (checking_) checks_->after_step(i, [&](std::size_t buffer) { return at_[buffer]; });
  }
  std::int64_t agreed(std::int64_t number) { return checking_ ? checks_->agreed(number) : number; }
  bound_step& operator[](std::size_t i) { return steps_[i]; }
  void* at(std::size_t buffer) const { return at_[buffer]; }
  const comm::scratch& scratch() const { return scratch_; }
  /// An exchange that goes on while other steps compute, in scratch memory of its own.
  void begin_exchange(std::size_t i, const void* const* in, void* out) {
    const bound_step& s = steps_[i];
    s.exchange->begin(in, out, {workspace_ ? static_cast<char*>(workspace_.get()) + s.own_at : nullptr, host_ ? static_cast<char*>(host_.get()) + s.own_host_at : nullptr});
    in_flight_.push_back(s.exchange.get());
  }
  void finish_exchange(std::size_t begun) {
    std::erase(in_flight_, steps_[begun].exchange.get());
    steps_[begun].exchange->finish();
  }
  void finish_exchanges() {
    while (!in_flight_.empty()) {
      in_flight_.back()->finish();
      in_flight_.pop_back();
    }
  }
  void progress() {
    for (comm::bound_exchange* e : in_flight_) e->progress();
  }
  /// What a loop reads and writes in a trip, counted from 0 in the order in which they run.
  void set_trip(const bound_step& loop, std::int64_t trip, std::int64_t trips) {
    const std::int64_t index = loop.backwards ? trips - 1 - trip : trip;
    for (const bound_step::slice& s : loop.slices) at_[s.buffer] = static_cast<char*>(at_[s.stack]) + index * s.bytes;
  }
  /// Bytes of this device's workspace.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Takes the addresses of a run. A result whose memory is that of an argument that is still to be read is computed beside it.
  void start(const void* const* inputs, void* const* outputs) {
    grid_->require_usable();
    refuse_overlap(outputs);
    for (const place& p : inputs_) at_[p.buffer] = const_cast<void*>(inputs[p.index]);
    for (std::size_t r = 0; r < aside_.size(); ++r) aside_[r].used = false;
    for (const hazard& h : hazards_) {
      const auto from = reinterpret_cast<std::uintptr_t>(inputs[h.argument]), to = reinterpret_cast<std::uintptr_t>(outputs[h.result]);
      const auto read = static_cast<std::uintptr_t>(argument_bytes_[h.argument]);
      const auto written = static_cast<std::uintptr_t>(aside_[h.result].bytes);
      if (from < to + written && to < from + read && !(h.same_place_is_safe && from == to)) aside_[h.result].used = true;
    }
    for (aside& a : aside_)
      if (a.used && !a.memory) a.memory = allocate(a.bytes);
    for (const place& p : outputs_) at_[p.buffer] = aside_[p.index].used ? aside_[p.index].memory.get() : outputs[p.index];
    checking_ = grid_->checked().any();
    if (checking_) checks_->before_call([&](std::size_t buffer) { return at_[buffer]; });
  }
  void finish(void* const* outputs) {
    for (std::size_t r = 0; r < aside_.size(); ++r)
      if (aside_[r].used) copy_bytes(outputs[r], aside_[r].memory.get(), aside_[r].bytes);
  }

 private:
  struct place {
    std::size_t buffer;
    std::size_t index;
  };
  /// A result that is written while an argument is still read.
  struct hazard {
    std::size_t argument;
    std::size_t result;
    bool same_place_is_safe;
  };
  struct aside {
    std::int64_t bytes = 0;
    bool used = false;
    std::shared_ptr<void> memory{};
  };

  /// Two results in one memory would overwrite each other. What was found for the same addresses before holds still.
  void refuse_overlap(void* const* outputs) {
    if (std::equal(apart_.begin(), apart_.end(), outputs)) return;
    std::iota(by_address_.begin(), by_address_.end(), std::size_t{0});
    std::sort(by_address_.begin(), by_address_.end(), [&](std::size_t a, std::size_t b) { return std::less<void*>()(outputs[a], outputs[b]); });
    std::size_t last = by_address_.size();
    for (std::size_t r : by_address_) {
      if (aside_[r].bytes == 0) continue;
      if (last < by_address_.size() && static_cast<char*>(outputs[last]) + aside_[last].bytes > static_cast<char*>(outputs[r]))
        throw overlap_error(wording::results_overlap(static_cast<std::int64_t>(std::min(last, r)), static_cast<std::int64_t>(std::max(last, r))));
      last = r;
    }
    std::copy(outputs, outputs + apart_.size(), apart_.begin());
  }

  void find_hazards(std::span<const buffer> buffers, std::span<const step> steps, std::size_t arguments, std::size_t results) {
    constexpr std::size_t never = ~std::size_t{0};
    std::vector<std::size_t> first_write(results, never), last_read(arguments, never);
    aside_.resize(results);
    apart_.resize(results, nullptr);
    by_address_.resize(results, 0);
    argument_bytes_.resize(arguments, 0);
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (buffers[b].form == form::slice) continue;
      if (buffers[b].role == role::output) aside_[buffers[b].index].bytes = bytes_[b];
      if (buffers[b].role == role::input) argument_bytes_[buffers[b].index] = bytes_[b];
    }
    // What a loop reads is read until it ends, and what it writes may be written as soon as it begins.
    std::size_t depth = 0, begin = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind == step_kind::loop_begin && depth++ == 0) begin = i;
      if (steps[i].kind == step_kind::loop_end) --depth;
      std::size_t end = i;
      for (std::size_t inner = depth; inner > 0; inner += steps[end].kind == step_kind::loop_begin ? 1u : 0u, inner -= steps[end].kind == step_kind::loop_end ? 1u : 0u) ++end;
      for (std::uint16_t b : steps[i].in)
        if (buffers[b].role == role::input) last_read[buffers[b].index] = end;
      if (!writes(steps[i])) continue;
      const buffer& out = buffers[steps[i].out];
      if (out.role == role::output && first_write[out.index] == never) first_write[out.index] = depth > 0 ? begin : i;
    }
    // Within one step an argument may be overwritten in place where element i of the result needs element i of it alone.
    const auto pointwise = [&](const step& s, std::size_t argument) {
      if (s.kind == step_kind::move) return s.move == kind::all_reduce || s.move == kind::mask;
      if (s.kind != step_kind::map) return false;
      for (std::uint16_t b : s.in)
        if (buffers[b].role == role::input && buffers[b].index == argument &&
            (buffers[b].type.rank != s.loop.rank || buffers[b].type.dims != s.loop.dims ||
             buffers[b].type.element != buffers[s.out].type.element))
          return false;
      return true;
    };
    for (std::size_t a = 0; a < arguments; ++a)
      for (std::size_t r = 0; r < results; ++r) {
        if (last_read[a] == never || first_write[r] == never || last_read[a] < first_write[r]) continue;
        const bool same = last_read[a] == first_write[r] && pointwise(steps[last_read[a]], a);
        hazards_.push_back({a, r, same});
      }
  }

  grid_state* grid_;
  std::vector<bound_step> steps_{};
  std::vector<comm::bound_exchange*> in_flight_{};
  std::vector<std::int64_t> bytes_{}, argument_bytes_{};
  std::vector<void*> at_{};
  std::vector<place> inputs_{}, outputs_{};
  std::vector<hazard> hazards_{};
  std::vector<aside> aside_{};
  std::vector<void*> apart_{};
  std::vector<std::size_t> by_address_{};
  std::int64_t workspace_bytes_ = 0;
  std::shared_ptr<void> workspace_{}, host_{};
  comm::scratch scratch_{};
  std::unique_ptr<detail::call_checks> checks_;
  bool checking_ = false;
};

} // namespace cleave
