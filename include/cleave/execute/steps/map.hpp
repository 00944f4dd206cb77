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
  }
  void run(run_state& r) override { run_map(loops_, operand_addresses(r, step_).from, r.at[step_.out], code_); }
  const bound_loops& loops() const { return loops_; }

 private:
  const step& step_;
  const map_functions& code_;
  bound_loops loops_{};
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
