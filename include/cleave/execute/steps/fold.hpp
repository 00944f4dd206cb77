// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/expression_of.hpp>
#include <cleave/execute/loop_binder.hpp>
#include <cleave/execute/step_form.hpp>
#include <cleave/kernels/run_fold.hpp>
#include <cleave/storage/as.hpp>

// One pass over memory that reduces a chain of elementwise operations along dims.

namespace cleave::inline v0 {

class fold_step final : public bound_step {
 public:
  fold_step(const binder& b, const step& s, const fold_functions& code) : step_(s), code_(code) {
    detail::loop_binder(b, s).bind_fold(loops_, code.inner_folded);
    cut_fold(loops_, code.inner_folded);
  }
  comm::scratch_bytes shared_bytes() const override { return {fold_scratch(loops_, code_.computed_bytes), 0}; }
  void run(run_state& r) override {
    run_fold(loops_, operand_addresses(r, step_).from, r.at[step_.out], r.scratch.memory, code_);
  }
  bool runs_by_rows() const override { return runs_row_by_row(loops_, code_); }
  void run_rows(run_state& r, std::int64_t first, std::int64_t last, std::int64_t rows) const override {
    const std::int64_t row = loops_.results / rows;
    run_part_of_fold(loops_, operand_addresses(r, step_).from, r.at[step_.out], code_, first * row, last * row);
  }
  const bound_loops& loops() const { return loops_; }

 private:
  const step& step_;
  const fold_functions& code_;
  bound_loops loops_{};
};

namespace detail {
inline std::unique_ptr<bound_step> bind_fold(const binder& b, const step& s, const void* code) {
  return make_step<fold_step>(b, s, *as<fold_functions>(code));
}
} // namespace detail

template <>
struct step_code<step_kind::fold> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    using expression = typename detail::expression_of<Plan, I>::type;
    return {&detail::bind_fold,
            &fold_functions_of<expression, Plan::frozen.steps[I].combine, detail::folds_inner(Plan::frozen, I)>};
  }
};

} // namespace cleave::inline v0
