// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/pieces.hpp>
#include <cleave/execute/steps/gemm.hpp>
#include <cleave/execute/steps/move.hpp>

#include <type_traits>
#include <utility>

// A product that is pipelined with the all-gather before it or the reduce-scatter after it (step::pieces). If the
// devices share memory, or the pieces would be too short, they run one after the other, as other steps do.

namespace cleave { inline namespace v0 {

/// The product. It computes a piece while others travel; of a gathered dim that it contracts it adds up the pieces.
template <class Collective>
class product_in_pieces final : public bound_step {
 public:
  static constexpr bool gathers = std::is_same_v<Collective, comm::gather_in_pieces<>>;

  [[gnu::cold]] product_in_pieces(const binder& b, const step& s, owned<bound_step> whole)
      : step_(s), whole_(std::move(whole)),
        pieces_(b.grid, comm::transfer_of(b.program, move_of(b, s), b.at), s.pieces) {
    if (!pieces_.active()) return;
    const dim_id d = b.result(move_of(b, s)).type[pieces_.dim()];
    adds_up_ = !b.result(s).type.has(d);
    const gemm_step<>& product = whole_product();
    // An empty product has no parts.
    divided_ = product.whole().results != 0 && product.whole().k != 0;
    for (int k = 0; k < pieces_.count(); ++k) {
      computed_.push_back(computed_with(k));
      parts_.push_back(product.part_of(b, d, computed_[k]));
      const bound_gemm& part = parts_.back().gemm;
      scratch_ = std::max(scratch_, part.scratch);
      // An operand that is packed would be packed for every part.
      divided_ = divided_ && !part.array[0].packed && !part.array[1].packed;
      // A packed result, or one of many small products, is not added to.
      if (adds_up_ || is_scaled(s)) divided_ = divided_ && !part.array[2].packed && !part.small.chosen();
    }
    if (is_scaled(s)) divided_ = divided_ && !product.whole().array[2].packed && !product.whole().small.chosen();
    scratch_ = std::max(scratch_, product.shared_bytes().memory);
  }
  /// The memory that the move packs, followed by the memory that the product packs.
  comm::scratch_bytes shared_bytes() const override {
    if (!pieces_.active()) return whole_->shared_bytes();
    return {pieces_.scratch_bytes() + scratch_, 0};
  }
  void run(run_state& r) override {
    if (!pieces_.active()) return whole_->run(r);
    // The product uses the memory after the messages.
    const comm::scratch all = r.scratch;
    r.scratch.memory += pieces_.scratch_bytes();
    if constexpr (!gathers) pieces_.begin(r.at[step_.out], all.memory);
    if (divided_) run_parts(r);
    else run_whole(r);
    r.scratch = all;
    if constexpr (gathers) pieces_.finish();
  }
  /// Of the move: whether it only does the work that the product leaves to it.
  bool active() const { return pieces_.active(); }
  /// The move comes first: posts its messages.
  void begin(run_state& r, const step& move) {
    pieces_.begin(r.at[move.in[0]], r.at[move.out], r.scratch.memory);
    // Checks look at the result right after the step.
    arrived_ = r.checks != nullptr;
    for (int k = 0; arrived_ && k < pieces_.count(); ++k) pieces_.await(k);
  }
  /// The move comes last: writes its result.
  void complete(run_state& r, const step& move) { pieces_.finish(r.at[move.out]); }

 private:
  static const step& move_of(const binder& b, const step& s) {
    const std::size_t own = b.number_of(s);
    return b.program.steps[gathers ? own - 1 : own + 1];
  }
  gemm_step<>& whole_product() const { return static_cast<gemm_step<>&>(*whole_); }
  range along(int k) const {
    if constexpr (gathers) return pieces_.arriving(k).along;
    else return pieces_.making(k).along;
  }
  /// The range that is computed when a piece is due: the piece. Nobody waits for pieces of the block that stays here,
  /// which comes last, so it is computed as two parts: a product pays for each of its parts.
  range computed_with(int k) const {
    const range piece = along(k);
    const int before = pieces_.count() - pieces_.pieces(), half = (pieces_.pieces() + 1) / 2;
    if (gathers || k < before) return piece;
    if ((k - before) % half != 0) return {piece.begin, piece.begin};
    return {piece.begin, along(std::min(k + half, pieces_.count()) - 1).end};
  }
  void run_whole(run_state& r) {
    if constexpr (gathers) {
      for (int k = 0; k < pieces_.count(); ++k) await(k);
      whole_->run(r);
    } else {
      whole_->run(r);
      for (int k = 0; k < pieces_.count(); ++k) pieces_.made(k);
    }
  }
  void run_parts(run_state& r) {
    gemm_step<>& product = whole_product();
    product.prepare(r);
    if (product.completes()) return run_whole(r);
    bool first = true;
    for (int k = 0; k < pieces_.count(); ++k) {
      if constexpr (gathers) await(k);
      if (computed_[k].size() != 0) {
        product.run_part(parts_[k], r, adds_up_ && !first, r.scratch.memory);
        first = false;
      }
      if constexpr (!gathers) pieces_.made(k);
    }
  }
  void await(int k) {
    if constexpr (gathers)
      if (!arrived_) pieces_.await(k);
  }

  const step& step_;
  owned<bound_step> whole_;
  Collective pieces_;
  /// The parts of the product, and where they are along the dim.
  indexed_vector<range> computed_{};
  indexed_vector<gemm_step<>::part> parts_{};
  std::int64_t scratch_ = 0;
  /// Whether it computes piece by piece, and whether it adds up the results. Messages are the same otherwise.
  bool divided_ = false, adds_up_ = false;
  bool arrived_ = false;
};

/// The move, of which the product does the rest.
template <class Collective>
class move_beside_product final : public bound_step {
 public:
  move_beside_product(const binder& b, const step& s, owned<comm::bound_exchange> whole)
      : step_(s), product_(product_in_pieces<Collective>::gathers ? b.number_of(s) + 1 : b.number_of(s) - 1),
        whole_(std::move(whole)) {}
  comm::scratch_bytes shared_bytes() const override { return whole_->needs(); }
  void run(run_state& r) override {
    auto& product = static_cast<product_in_pieces<Collective>&>(*r.steps[product_]);
    if (!product.active()) return whole_->run_one(r.at[step_.in[0]], r.at[step_.out], r.scratch);
    if constexpr (product_in_pieces<Collective>::gathers) product.begin(r, step_);
    else product.complete(r, step_);
  }

 private:
  const step& step_;
  std::size_t product_;
  owned<comm::bound_exchange> whole_;
};

namespace detail {

template <class Collective, class T, template <class> class Step>
[[gnu::cold]] owned<bound_step> bind_in_pieces(const binder& b, const step& s, const void*) {
  return make_step<product_in_pieces<Collective>>(b, s, bind_gemm_of<T, Step>(b, s, nullptr));
}
template <class Collective, kind Move>
[[gnu::cold]] owned<bound_step> bind_beside_product(const binder& b, const step& s, const void*) {
  return make_step<move_beside_product<Collective>>(b, s,
                                                    comm::make_move<Move>(b.grid,
                                                                          comm::transfer_of(b.program, s, b.at)));
}
/// The pipelined form of a move.
template <kind Move>
using collective_in_pieces =
    std::conditional_t<Move == kind::all_gather, comm::gather_in_pieces<>, comm::reduce_scatter_in_pieces<>>;

template <class Plan, std::size_t I>
constexpr step_form form_in_pieces() {
  using number = element_at<Plan, Plan::frozen.steps[I].out>;
  using collective = collective_in_pieces<goes_first(Plan::frozen, I) ? kind::reduce_scatter : kind::all_gather>;
  if constexpr (is_scaled(Plan::frozen.steps[I])) return {&bind_in_pieces<collective, number, scaled_gemm_step>};
  else return {&bind_in_pieces<collective, number, gemm_step>};
}
template <class Plan, std::size_t I>
constexpr step_form form_beside_product() {
  constexpr kind move = Plan::frozen.steps[I].move;
  return {&bind_beside_product<collective_in_pieces<move>, move>};
}

} // namespace detail

}} // namespace cleave::v0
