// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/storage/memory.hpp>

#include <utility>

// Loops: the steps up to the end run again and again.

namespace cleave { inline namespace v0 {

namespace detail {

/// A map at the end of an iteration that copies a value to the memory of a carried one. If no other step needs the
/// value any more, both swap their memory instead (double buffer).
class swapped_carry {
 public:
  /// Step `number` of a loop from step `begin` to step `end`.
  [[gnu::cold]] swapped_carry(const binder& b, std::size_t begin, std::size_t number, std::size_t end) {
    const program_view& p = b.program;
    const step& s = p.steps[number];
    if (!copies(p, s)) return;
    const buffer &from = b.operand(s, 0), &to = b.result(s);
    bytes_ = b.bytes(to);
    if (bytes_ == 0 || from.role != role::workspace || to.role == role::input) return;
    if (from.form != form::shard || to.form != form::shard || same_memory(from, to)) return;
    if (from.type != to.type || from.where != to.where) return;
    if (!is_made_anew(b, from, begin, number)) return;
    for (std::size_t i = number + 1; i <= end; ++i)
      for (std::uint16_t in : p.steps[i].in)
        if (same_memory(p.buffers[in], from)) return;
    // The operand of an all-reduce may be stored in a combined message.
    for (const step& other : p.steps)
      if (other.kind == step_kind::move && other.move == kind::all_reduce &&
          (same_memory(b.result(other), from) || same_memory(b.result(other), to)))
        return;
    // If nested loops swapped the caller's memory, the result would not end in it.
    for (std::size_t i = 0; i < p.steps.size() && to.role == role::output; ++i) {
      const step& other = p.steps[i];
      if (i == number || other.code != op::loop_yield || !copies(p, other)) continue;
      for (const buffer* x : {&b.operand(other, 0), &b.result(other)})
        if (same_memory(*x, from) || same_memory(*x, to)) return;
    }
    for (std::size_t i = 0; i < p.buffers.size(); ++i) {
      const buffer& x = p.buffers[i];
      if (!same_memory(x, from) && !same_memory(x, to)) continue;
      // All of them must have all of the memory under one address. A slice that is read in place is elsewhere.
      if (x.form != form::shard || b.bytes(x) > bytes_ || b.slice_of(x) != nullptr) return;
      (same_memory(x, from) ? computed_ : carried_).push_back(i);
    }
    callers_ = to.role == role::output;
    swaps_ = true;
  }

  /// False if the step has to run.
  bool swap(run_state& r) {
    if (!swaps_) return false;
    exchange_memory(r);
    away_ = !away_;
    return true;
  }
  /// After the loop: copies a result back to the caller's memory.
  void bring_home(run_state& r) {
    if (!swaps_ || !away_ || !callers_) return;
    copy_bytes(r.at[computed_.front()], r.at[carried_.front()], bytes_);
    come_home(r);
  }
  /// Restores the addresses, whatever the memory holds.
  void come_home(run_state& r) {
    if (!swaps_ || !away_ || !callers_) return;
    exchange_memory(r);
    away_ = false;
  }

 private:
  /// Whether each iteration writes all of a value before it reads any of it. Values that are computed before the loop,
  /// and carried values, must keep their memory.
  static bool is_made_anew(const binder& b, const buffer& value, std::size_t begin, std::size_t number) {
    const program_view& p = b.program;
    for (std::size_t i = begin + 1; i < number; ++i) {
      const step& s = p.steps[i];
      for (std::uint16_t in : s.in)
        if (same_memory(p.buffers[in], value)) return false;
      const buffer& to = p.buffers[s.out];
      if (writes(s) && same_memory(to, value))
        return !s.keeps && s.in_loop == p.steps[number].in_loop && to.form == form::shard &&
               b.bytes(to) == b.bytes(value);
    }
    return false;
  }
  static bool copies(const program_view& p, const step& s) {
    if (s.in.size() != 1 || s.ops == 0 || s.ops > 2) return false;
    const indexed_span<const fused_op> fused_ops = fused_ops_of(p, s);
    return fused_ops[0].code == op::input && fused_ops.back().type == fused_ops[0].type &&
           (s.ops == 1 || fused_ops[1].code == op::identity);
  }
  void exchange_memory(run_state& r) const {
    void *const computed = r.at[computed_.front()], *const carried = r.at[carried_.front()];
    for (std::size_t i : computed_) r.at[i] = carried;
    for (std::size_t i : carried_) r.at[i] = computed;
  }

  bool swaps_ = false;
  /// The carried value is a result of the program.
  bool callers_ = false;
  /// They are in each other's memory.
  bool away_ = false;
  std::int64_t bytes_ = 0;
  /// The buffers in the memory of either.
  indexed_vector<std::size_t> computed_{}, carried_{};
};

} // namespace detail

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
