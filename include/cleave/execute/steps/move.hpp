// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/comm/move_in_flight.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/steps/exchange.hpp>
#include <cleave/program/buckets.hpp>

#include <utility>

// Values that change their layout. Adjacent small all-reduces travel as one message. Some overlap with other steps.

namespace cleave { inline namespace v0 {

/// A value of a bucket and its offset there, in bytes. A value that is stored in the bucket is not copied.
struct bucket_part {
  std::size_t from = 0, to = 0;
  std::int64_t offset = 0, bytes = 0;
  bool lives_there = false;
};

/// Several all-reduces as one message, their bucket, in the place of the first of them. If it overlaps with other
/// steps, all of them end with the first one.
template <class = void>
class combined_all_reduces final : public bound_step {
 public:
  combined_all_reduces(owned<comm::bound_exchange> all, bool in_flight, indexed_vector<bucket_part> parts,
                       std::int64_t bytes)
      : all_(std::move(all)), in_flight_(in_flight), parts_(std::move(parts)), bytes_(comm::aligned(bytes)) {
    to_.resize(parts_.size());
  }
  comm::scratch_bytes shared_bytes() const override { return in_flight_ ? comm::scratch_bytes{} : all_->needs(); }
  comm::scratch_bytes own_bytes() const override { return {bytes_ + (in_flight_ ? all_->needs().memory : 0), 0}; }
  void settle(const comm::scratch& own, run_state& r) override {
    bucket_ = own.memory;
    for (const bucket_part& p : parts_)
      if (p.lives_there) r.at[p.from] = r.at[p.to] = bucket_ + p.offset;
  }
  void run(run_state& r) override {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const bucket_part& p = parts_[k];
      if (!p.lives_there) copy_bytes(bucket_ + p.offset, r.at[p.from], p.bytes);
      to_[k] = r.at[p.to];
    }
    const void* const in = bucket_;
    void* const out = bucket_;
    all_->begin(&in, &out, in_flight_ ? comm::scratch{bucket_ + bytes_, nullptr} : r.scratch);
    if (all_->communicates() && r.grid.overlaps()) return detail::leave_under_way(r, all_.get());
    end();
  }
  void finish(run_state& r) override {
    if (r.in_flight.remove(all_.get()) != 0) end();
  }
  /// The transfer of one unsharded value, as long as the bucket, like those in it.
  static comm::transfer whole(comm::transfer like, std::int64_t bytes) {
    like.global = {};
    like.global.rank = 1;
    like.global[0] = bytes / size_of(like.element);
    like.from = like.to = {};
    like.from.set_partial(like.axes, like.combine);
    return like;
  }

 private:
  void end() {
    all_->finish();
    for (std::size_t k = 0; k < parts_.size(); ++k)
      if (const bucket_part& p = parts_[k]; !p.lives_there) copy_bytes(to_[k], bucket_ + p.offset, p.bytes);
  }

  owned<comm::bound_exchange> all_;
  bool in_flight_;
  indexed_vector<bucket_part> parts_;
  std::int64_t bytes_;
  /// The addresses of the values that are not stored in the bucket.
  indexed_vector<void*> to_{};
  char* bucket_ = nullptr;
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
    indexed_vector<bucket_part> parts;
    std::int64_t length = 0;
    for (std::size_t i : all.steps) {
      const step& s = p.steps[i];
      const std::int64_t bytes = b.bytes(b.result(s));
      parts.push_back({s.in[0], s.out, length, bytes, lives_in_bucket(p, s)});
      length += bytes;
    }
    const std::size_t first = all.steps[0];
    const step& s = p.steps[first];
    const bool in_flight = s.in_flight && comm::goes_on(b.grid, s.axes);
    const comm::transfer whole = combined_all_reduces<>::whole(comm::transfer_of(p, s, b.at), all.bytes);
    owned<comm::bound_exchange> made;
    if (in_flight) made = owned<comm::bound_exchange>(new comm::all_reduce_in_flight<>(b.grid, whole, first));
    else made = comm::make_move<kind::all_reduce>(b.grid, whole);
    bound[first] = make_step<combined_all_reduces<>>(std::move(made), in_flight, parts, all.bytes);
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
  return make_step<exchange_step<>>(b, s, comm::make_move<Move>(b.grid, comm::transfer_of(b.program, s, b.at)), false);
}
template <kind Move>
[[gnu::cold]] owned<bound_step> bind_move_in_flight(const binder& b, const step& s, const void*) {
  auto made = comm::make_move_in_flight<Move>(b.grid, comm::transfer_of(b.program, s, b.at), b.number_of(s));
  if (made) return make_step<exchange_step<>>(b, s, std::move(made), true);
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
      return {&detail::bind_move_in_flight<Plan::frozen.steps[I].move>};
    else return {&detail::bind_move<Plan::frozen.steps[I].move>};
  }
};

}} // namespace cleave::v0
