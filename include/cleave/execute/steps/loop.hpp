// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/execute/swapped_carry.hpp>
#include <cleave/storage/memory.hpp>

// Loops: the steps up to the end run again and again.

namespace cleave { inline namespace v0 {

template <class = void>
class loop_step final : public bound_step {
 public:
  [[gnu::cold]] loop_step(const binder& b, const step& s) : begin_(b.number_of(s)), end_(begin_ + 1) {
    const program_view& p = b.program;
    for (std::size_t depth = 1; depth > 0; ++end_) {
      if (p.steps[end_].kind == step_kind::loop_begin) ++depth;
      if (p.steps[end_].kind == step_kind::loop_end) --depth;
    }
    const loop_info& l = p.loops[s.in_loop - 1u];
    iterations_ = l.along != no_dim ? b.at[l.along] : l.iterations;
    backwards_ = l.backwards;
    if (!s.in.empty()) count_ = number_at{s.in[0], b.operand(s, 0).type.element};
    if (const step& last = p.steps[end_ - 1]; !last.in.empty()) until_ = number_at{last.in[0], element::boolean};
    for (std::size_t i = 0; i < p.buffers.size(); ++i)
      if (const buffer& x = p.buffers[i]; x.form == form::slice && x.loop == s.in_loop)
        slices_.push_back({i, x.of, b.bytes(x)});
    for (first_carry_ = end_ - 1; first_carry_ > begin_ + 1 && goes_on(p.steps[first_carry_ - 1], s.in_loop);)
      --first_carry_;
    for (std::size_t i = first_carry_; i + 1 < end_; ++i)
      carries_.push_back(detail::swapped_carry(b, begin_, i, end_ - 1));
  }
  std::size_t next(std::size_t) const override { return end_; }
  void run(run_state& r) override {
    const std::int64_t iterations = count_.known() ? count_.read(r) : iterations_;
    const homing home{*this, r};
    for (std::int64_t i = 0; i < iterations; ++i) {
      const std::int64_t index = backwards_ ? iterations - 1 - i : i;
      for (const slice& s : slices_) r.at[s.buffer] = as<char>(r.at[s.stack]) + index * s.bytes;
      r.run_steps(begin_ + 1, first_carry_);
      for (std::size_t c = 0; c < carries_.size(); ++c) {
        const std::size_t number = first_carry_ + c;
        if (!carries_[c].swap(r)) r.run_steps(number, number + 1);
        // Other devices may run the step, since their shards differ, and all look for NaN together.
        else if (r.checks != nullptr) r.checks->after_step(number, r.at);
      }
      if (until_.known() && until_.read(r) != 0) break;
    }
    for (detail::swapped_carry& c : carries_) c.bring_home(r);
  }

 private:
  /// A number of rank 0, the same on all devices.
  struct number_at {
    std::size_t buffer = 0;
    cleave::element element = cleave::element::none;

    bool known() const { return element != cleave::element::none; }
    std::int64_t read(const run_state& r) const {
      const std::int64_t number = host_number(r.at[buffer], element).integer();
      return r.checks == nullptr ? number : r.checks->agreed(number);
    }
  };
  /// Whether a step may be the end of an iteration for a carried value.
  static bool goes_on(const step& s, std::uint8_t loop) {
    return (s.kind == step_kind::map || is_scaled(s)) && s.in_loop == loop;
  }
  /// Leaves no address of the caller behind, also if a step throws.
  struct homing {
    loop_step& loop;
    run_state& r;
    ~homing() {
      for (detail::swapped_carry& c : loop.carries_) c.come_home(r);
    }
  };
  struct slice {
    std::size_t buffer;
    std::size_t stack;
    std::int64_t bytes;
  };
  std::size_t begin_, end_;
  std::int64_t iterations_ = 0;
  bool backwards_ = false;
  number_at count_{}, until_{};
  /// The slices that are read or written at the index of each iteration.
  indexed_vector<slice> slices_{};
  /// The last maps of an iteration, among them those that copy values to the carried values.
  std::size_t first_carry_ = 0;
  indexed_vector<detail::swapped_carry> carries_{};
};

template <>
struct step_code<step_kind::loop_begin> : detail::code_bound_by<&detail::bind_as<loop_step<>>> {};
template <>
struct step_code<step_kind::loop_end> : detail::code_bound_by<&detail::bind_idle<>> {};

}} // namespace cleave::v0
