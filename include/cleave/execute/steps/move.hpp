// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/bucketed_all_reduce.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/comm/move_in_flight.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/steps/exchange.hpp>
#include <cleave/program/buckets.hpp>

#include <utility>

// Values that change their layout. Adjacent small all-reduces travel as one message. Some overlap with other steps.

namespace cleave { inline namespace v0 {

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
/// The same for all-reduces that overlap with other steps. All of them end with the first one.
template <class = void>
class combined_in_flight final : public bound_step {
 public:
  combined_in_flight(const binder& b, const step& s, indexed_vector<comm::bucketed_all_reduce::part> parts,
                     std::int64_t bytes)
      : all_(b.grid, whole_of(b, s, bytes), b.number_of(s)), parts_(std::move(parts)), bytes_(bytes) {
    to_.resize(parts_.size());
  }
  comm::scratch_bytes own_bytes() const override { return {comm::aligned(bytes_) + all_.needs().memory, 0}; }
  void settle(const comm::scratch& own, run_state& r) override {
    message_ = own.memory;
    for (const comm::bucketed_all_reduce::part& p : parts_)
      if (p.lives_there) r.at[p.from] = r.at[p.to] = message_ + p.offset;
  }
  void run(run_state& r) override {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const comm::bucketed_all_reduce::part& p = parts_[k];
      if (!p.lives_there) copy_bytes(message_ + p.offset, r.at[p.from], p.bytes);
      to_[k] = r.at[p.to];
    }
    const void* const in = message_;
    void* const out = message_;
    all_.begin(&in, &out, {message_ + comm::aligned(bytes_), nullptr});
    if (all_.communicates() && r.grid.overlaps()) return detail::leave_under_way(r, &all_);
    end();
  }
  void finish(run_state& r) override {
    if (r.in_flight.remove(&all_) != 0) end();
  }

 private:
  static comm::transfer whole_of(const binder& b, const step& s, std::int64_t bytes) {
    const comm::transfer like = comm::transfer_of(b.program, s, b.at);
    return comm::bucketed_all_reduce::whole(like, bytes / size_of(like.element));
  }
  void end() {
    all_.finish();
    for (std::size_t k = 0; k < parts_.size(); ++k)
      if (const comm::bucketed_all_reduce::part& p = parts_[k]; !p.lives_there)
        copy_bytes(to_[k], message_ + p.offset, p.bytes);
  }

  comm::all_reduce_in_flight<> all_;
  indexed_vector<comm::bucketed_all_reduce::part> parts_;
  std::int64_t bytes_;
  /// The addresses of the values that are not stored in the message.
  indexed_vector<void*> to_{};
  char* message_ = nullptr;
};
/// One of the others.
template <class = void>
class combined_before final : public bound_step {
 public:
  explicit combined_before(std::size_t first) : first_(first) {}
  void run(run_state&) override {}
  void finish(run_state& r) override { r.steps[first_]->finish(r); }

 private:
  std::size_t first_;
};

namespace detail {

/// Combines adjacent small all-reduces of a program.
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
    const std::size_t first = all.steps[0];
    const step& s = p.steps[first];
    if (s.in_flight && comm::goes_on(b.grid, s.axes))
      bound[first] = make_step<combined_in_flight<>>(b, s, parts, all.bytes);
    else bound[first] = make_step<combined_all_reduces<>>(b, s, parts, all.bytes);
    for (std::size_t m = 1; m < all.steps.size(); ++m) bound[all.steps[m]] = make_step<combined_before<>>(first);
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

template <kind Move>
[[gnu::cold]] owned<bound_step> bind_move_in_flight(const binder& b, const step& s, const void*) {
  auto made = comm::make_move_in_flight<Move>(b.grid, comm::transfer_of(b.program, s, b.at), b.number_of(s));
  if (made) return make_step<exchange_step<>>(b, s, std::move(made));
  return bind_move<Move>(b, s, nullptr);
}

/// The form of a move that is pipelined with an adjacent product: steps/product_in_pieces.hpp.
template <class Plan, std::size_t I>
constexpr step_form form_beside_product();
/// The form of a move that a product makes panel by panel: steps/product_in_panels.hpp.
template <class Plan>
constexpr step_form form_of_panels_moved();

} // namespace detail

template <>
struct step_code<step_kind::move> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    if constexpr (Plan::frozen.steps[I].pieces != 0) return detail::form_beside_product<Plan, I>();
    else if constexpr (Plan::frozen.steps[I].panels != 0) return detail::form_of_panels_moved<Plan>();
    else if constexpr (Plan::frozen.steps[I].in_flight)
      return {&detail::bind_move_in_flight<Plan::frozen.steps[I].move>, nullptr};
    else return {&detail::bind_move<Plan::frozen.steps[I].move>, nullptr};
  }
};

}} // namespace cleave::v0
