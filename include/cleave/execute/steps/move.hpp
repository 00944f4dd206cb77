// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/bucketed_all_reduce.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/execute/step_form.hpp>
#include <cleave/plan/lower/combine_all_reduces.hpp>

#include <utility>

// Values that change their layout. Small all-reduces that stand one after the other travel as one message.

namespace cleave::inline v0 {

namespace detail {
inline comm::transfer transfer_of(const binder& b, const step& s) {
  const buffer &from = b.operand(s, 0), &to = b.result(s);
  return {from.type.element, shape_of(from.type, b.at), from.where, to.where, s.axes, s.combine};
}
} // namespace detail

template <class = void>
class move_step final : public bound_step {
 public:
  move_step(const step& s, owned<comm::bound_move> move) : step_(s), move_(std::move(move)) {}
  comm::scratch_bytes shared_bytes() const override { return move_->needs(); }
  void run(run_state& r) override { move_->run(r.at[step_.in[0]], r.at[step_.out], r.scratch); }

 private:
  const step& step_;
  owned<comm::bound_move> move_;
};

/// Several all-reduces as one message, in the place of the first of them.
template <class = void>
class combined_all_reduces final : public bound_step {
 public:
  combined_all_reduces(const binder& b, const step& s, indexed_vector<comm::bucketed_all_reduce::part> parts,
                       std::int64_t bytes)
      : all_(b.grid, detail::transfer_of(b, s), std::move(parts), bytes) {}
  comm::scratch_bytes shared_bytes() const override { return all_.needs(); }
  comm::scratch_bytes own_bytes() const override { return {all_.bytes(), 0}; }
  void settle(const comm::scratch& own, run_state& r) override {
    message_ = own.memory;
    for (const comm::bucketed_all_reduce::part& p : all_.parts())
      if (p.lives_there) r.at[p.from] = r.at[p.to] = message_ + p.offset;
  }
  void run(run_state& r) override {
    all_.run([&](std::size_t buffer) { return r.at[buffer]; }, message_, r.scratch);
  }

 private:
  comm::bucketed_all_reduce all_;
  char* message_ = nullptr;
};
/// One of the others.
template <class = void>
class combined_before final : public bound_step {
 public:
  void run(run_state&) override {}
};

namespace detail {

/// Joins what can be joined of the all-reduces of a program. All devices that take part in them have the same shards,
/// and so join the same.
template <class = void>
class reduce_joiner {
 public:
  reduce_joiner(const binder& b, indexed_vector<owned<bound_step>>& bound) : b_(b), bound_(bound) {}
  void join() {
    const indexed_span<const step> steps = b_.program.steps;
    for (std::size_t first = 0; first < steps.size();) {
      std::size_t end = first + 1;
      while (end < steps.size() && alike(steps[first], steps[end])) ++end;
      if (end - first > 1 && b_.grid.sizes().product(steps[first].axes) > 1) join_within(first, end);
      first = end;
    }
  }

 private:
  bool alike(const step& a, const step& b) const {
    return reduce_alike(a, b_.result(a).type.element, b, b_.result(b).type.element);
  }
  [[gnu::cold]] void join_within(std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      const step& s = b_.program.steps[i];
      const std::int64_t bytes = b_.bytes(b_.result(s));
      if (bytes > comm::bucketed_value_bytes) continue;
      if (length_ + bytes > comm::bucket_bytes) close();
      members_.push_back(i);
      parts_.push_back({s.in[0], s.out, length_, bytes, may_live_elsewhere(s)});
      length_ += bytes;
    }
    close();
  }
  [[gnu::cold]] void close() {
    if (members_.size() > 1) {
      bound_[members_[0]] = make_step<combined_all_reduces<>>(b_, b_.program.steps[members_[0]], parts_, length_);
      for (std::size_t m = 1; m < members_.size(); ++m) bound_[members_[m]] = make_step<combined_before<>>();
    }
    members_.clear();
    parts_.clear();
    length_ = 0;
  }
  /// Whether what an all-reduce combines in place may be given memory of its own: nothing else is a name for it.
  bool may_live_elsewhere(const step& reduce) const {
    const program_view& p = b_.program;
    const buffer &in = b_.operand(reduce, 0), &out = b_.result(reduce);
    if (in.role != role::workspace || out.role != role::workspace || in.index != out.index) return false;
    for (std::size_t b = 0; b < p.buffers.size(); ++b) {
      if (p.buffers[b].role != role::workspace || p.buffers[b].index != out.index) continue;
      bool written = false;
      for (const step& s : p.steps) written = written || s.out == b;
      if (!written) return false;
    }
    return true;
  }

  const binder& b_;
  indexed_vector<owned<bound_step>>& bound_;
  indexed_vector<std::size_t> members_{};
  indexed_vector<comm::bucketed_all_reduce::part> parts_{};
  std::int64_t length_ = 0;
};

template <class = void>
[[gnu::cold]] void join_reduces(const binder& b, indexed_vector<owned<bound_step>>& bound) {
  reduce_joiner<>(b, bound).join();
}

/// Whether a program has all-reduces that may be joined. Those that have none do not compile it.
constexpr bool has_reduces_to_join(const program_view& p) {
  for (std::size_t i = 1; i < p.steps.size(); ++i)
    if (reduce_alike(p.steps[i - 1], p.buffers[p.steps[i - 1].out].type.element, p.steps[i],
                     p.buffers[p.steps[i].out].type.element))
      return true;
  return false;
}

template <kind Move>
[[gnu::cold]] owned<bound_step> bind_move(const binder& b, const step& s, const void*) {
  return make_step<move_step<>>(s, comm::make_move<Move>(b.grid, transfer_of(b, s)));
}

/// The form of a move that goes on together with the product beside it: steps/product_in_pieces.hpp.
template <class Plan, std::size_t I>
constexpr step_form form_beside_product();

} // namespace detail

template <>
struct step_code<step_kind::move> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    if constexpr (Plan::frozen.steps[I].pieces != 0) return detail::form_beside_product<Plan, I>();
    else return {&detail::bind_move<Plan::frozen.steps[I].move>, nullptr};
  }
};

} // namespace cleave::inline v0
