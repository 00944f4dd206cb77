// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/box_binder.hpp>
#include <cleave/execute/expression_of.hpp>
#include <cleave/execute/loop_binder.hpp>
#include <cleave/execute/step_form.hpp>
#include <cleave/kernels/map.hpp>
#include <cleave/storage/as.hpp>

// One pass over memory for a chain of elementwise operations.

namespace cleave::inline v0 {

class map_step final : public bound_step {
 public:
  map_step(const binder& b, const step& s, const map_functions& code) : step_(s), code_(code) {
    detail::loop_binder(b, s).bind_map(loops_);
    large_ = may_store_past_caches(loops_, size_of(b.result(s).type.element));
  }
  void run(run_state& r) override {
    const operand_addresses operands(r, step_);
    if (large_) loops_.past_caches = !overwrites(operands, r.at[step_.out]);
    run_map(loops_, operands.from, r.at[step_.out], code_);
  }
  bool runs_by_rows() const override { return on_host && !loops_.tiled; }
  void prepare_rows(run_state& r, bool read_again) override {
    if (large_) loops_.past_caches = !read_again && !overwrites(operand_addresses(r, step_), r.at[step_.out]);
  }
  void run_rows(run_state& r, std::int64_t first, std::int64_t last, std::int64_t rows) const override {
    const std::int64_t row = loops_.outer.size() / rows;
    run_part_of_map(loops_, operand_addresses(r, step_).from, r.at[step_.out], code_, first * row, last * row);
  }
  const bound_loops& loops() const { return loops_; }

 private:
  /// What is overwritten is in the caches when it is written.
  bool overwrites(const operand_addresses& operands, const void* result) const {
    for (std::size_t k = 0; k < step_.in.size(); ++k)
      if (operands.from[k] == result) return true;
    return false;
  }

  const step& step_;
  const map_functions& code_;
  bound_loops loops_{};
  /// Its result is larger than the caches.
  bool large_ = false;
};

/// A map that reads a shard and its halo.
class stencil_step final : public bound_step {
 public:
  stencil_step(const binder& b, const step& s, const map_functions& code)
      : step_(s), code_(code), boxes_(detail::box_binder(b, s).bind()) {}
  void run(run_state& r) override { run_map_boxes(boxes_, operand_addresses(r, step_).from, r.at[step_.out], code_); }

 private:
  const step& step_;
  const map_functions& code_;
  map_boxes boxes_;
};

namespace detail {
inline std::unique_ptr<bound_step> bind_map(const binder& b, const step& s, const void* code) {
  if (reads_around_shard(b, s)) return make_step<stencil_step>(b, s, *as<map_functions>(code));
  return make_step<map_step>(b, s, *as<map_functions>(code));
}
} // namespace detail

template <>
struct step_code<step_kind::map> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    return {&detail::bind_map, &map_functions_of<typename detail::expression_of<Plan, I>::type>};
  }
};

} // namespace cleave::inline v0
