// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/bucketed_all_reduce.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/execute/step_form.hpp>
#include <cleave/program/buckets.hpp>

#include <utility>

// Values that change their layout. Small all-reduces that stand one after the other travel as one message.

namespace cleave::inline v0 {

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
      : all_(b.grid, comm::transfer_of(b.program, s, b.at), std::move(parts), bytes) {}
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

/// Joins what can be joined of the all-reduces of a program.
template <class = void>
[[gnu::cold]] void join_reduces(const binder& b, indexed_vector<owned<bound_step>>& bound) {
  const program_view& p = b.program;
  for_each_bucket(p, b.at, b.grid.here(), [&](const reduce_bucket& all) {
    indexed_vector<comm::bucketed_all_reduce::part> parts;
    std::int64_t length = 0;
    for (std::size_t i : all.steps) {
      const step& s = p.steps[i];
      const std::int64_t bytes = b.bytes(b.result(s));
      parts.push_back({s.in[0], s.out, length, bytes, lives_in_bucket(p, s)});
      length += bytes;
    }
    bound[all.steps[0]] = make_step<combined_all_reduces<>>(b, p.steps[all.steps[0]], parts, all.bytes);
    for (std::size_t m = 1; m < all.steps.size(); ++m) bound[all.steps[m]] = make_step<combined_before<>>();
  });
}

/// Whether a program has all-reduces that may be joined. Those that have none do not compile it.
constexpr bool has_reduces_to_join(const program_view& p) {
  for (std::size_t i = 1; i < p.steps.size(); ++i)
    if (reduce_alike(p, p.steps[i - 1], p.steps[i])) return true;
  return false;
}

template <kind Move>
[[gnu::cold]] owned<bound_step> bind_move(const binder& b, const step& s, const void*) {
  return make_step<move_step<>>(s, comm::make_move<Move>(b.grid, comm::transfer_of(b.program, s, b.at)));
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
