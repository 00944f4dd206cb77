// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/expression_of.hpp>
#include <cleave/execute/loop_binder.hpp>
#include <cleave/kernels/run_fold.hpp>
#include <cleave/storage/memory.hpp>

// One pass over memory that reduces a chain of elementwise operations along dims.

namespace cleave { inline namespace v0 {

template <class = void>
class fold_step final : public bound_step {
 public:
  [[gnu::cold]] fold_step(const binder& b, const step& s, const fold_functions& code) : step_(s), code_(code) {
    detail::loop_binder(b, s).bind_fold(loops_, code.inner_folded);
    // The other folds of a program in LayoutLeft order have one dim.
    loops_.along_results = b.is_left() && s.loop.rank > 1;
    cut_fold(loops_, code.inner_folded);
    in_order_ = inner_dim_of(s, b.program.buffers, b.program.maps).position == s.loop.rank - 1;
  }
  comm::scratch_bytes shared_bytes() const override {
    return {loops_.chunks > 1 ? loops_.chunks * loops_.results * code_.computed_bytes : 0, 0};
  }
  void run(run_state& r) override {
    run_fold(loops_, operand_addresses(r, step_).from, r.at[step_.out], r.scratch.memory, code_);
  }
  int row_dims() const override {
    if (runs_row_by_row(loops_, code_)) return step_.loop.rank - step_.folded;
    return folds_all_rows() ? step_.loop.rank : 0;
  }
  bool folds_all_rows() const override { return in_order_ && folds_in_pieces(loops_, code_); }
  void prepare_rows(run_state&, const row_setup& setup) override { setup_ = setup; }
  void run_rows(run_state& r, const row_block& b) const override {
    const operand_addresses operands(r, step_);
    if (folds_all_rows()) {
      const std::int64_t row = loops_.folded.size() / b.rows;
      fold_progress& p = b.progress[setup_.fold];
      if (b.first == b.begin) start_fold(loops_, b.begin * row, p);
      go_on_with_fold(loops_, operands.from, setup_.scratch, code_, b.last * row, b.end * row, p);
    } else {
      const std::int64_t row = loops_.results / b.rows;
      run_part_of_fold(loops_, operands.from, r.at[step_.out], code_, b.first * row, b.last * row);
    }
  }
  void finish_rows(run_state& r, const indexed_vector<std::int64_t>& cuts) override {
    if (!folds_all_rows()) return;
    const operand_addresses operands(r, step_);
    const std::int64_t row = loops_.folded.size() / cuts.back();
    for (std::size_t i = 1; i + 1 < cuts.size(); ++i)
      fold_piece_around(loops_, operands.from, setup_.scratch, code_, cuts[i] * row);
    code_.join(loops_, setup_.scratch, r.at[step_.out]);
  }
  const bound_loops& loops() const { return loops_; }

 private:
  const step& step_;
  const fold_functions& code_;
  bound_loops loops_{};
  /// Whether the loops run in the order of the dims.
  bool in_order_ = false;
  row_setup setup_{};
};

namespace detail {
template <class Step>
owned<bound_step> bind_fold(const binder& b, const step& s, const void* code) {
  return make_step<Step>(b, s, *as<fold_functions>(code));
}
} // namespace detail

template <>
struct step_code<step_kind::fold> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    using expression = typename detail::expression_of<Plan, I>::type;
    constexpr const step& s = Plan::frozen.steps[I];
    return {&detail::bind_fold<fold_step<>>,
            &fold_functions_of<expression, s.combine, detail::folds_inner(Plan::frozen, I), s.one_term>};
  }
};

}} // namespace cleave::v0
