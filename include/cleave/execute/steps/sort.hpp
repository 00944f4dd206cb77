// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/distributed/sort.hpp>
#include <cleave/execute/steps/routed.hpp>

// Sorting along a dim.

namespace cleave {

namespace detail {
template <class T>
std::unique_ptr<bound_step> bind_sort(const binder& b, const step& s, const void*) {
  const buffer& in = b.operand(s, 0);
  const sorted_tensor t{in.type, in.where, dim_along(s), s.backwards, s.what == op::argsort, b.at};
  return std::make_unique<routed_step>(s, std::make_unique<bound_sort<T>>(b.grid, t));
}
} // namespace detail

template <>
struct step_code<step_kind::sort> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    return {&detail::bind_sort<detail::element_at<Plan, Plan::frozen.steps[I].in[0]>>, nullptr};
  }
};

} // namespace cleave
