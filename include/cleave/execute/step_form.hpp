// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/storage/element_type.hpp>

namespace cleave::inline v0 {

/// How steps of one form are bound: steps that need the same code, whatever their sizes and layouts, in whatever plan.
struct step_form {
  owned<bound_step> (*bind)(const binder&, const step&, const void*) = nullptr;
  /// What `bind` is given last: of maps and folds the functions of their expression.
  const void* code = nullptr;
};

/// The form of the steps of a kind: `step_code<Kind>::form<Plan, I>()` for step I of a plan. Each kind specialises it
/// in its file in execute/steps/, from nothing of the plan but what the code of the step depends on.
template <step_kind Kind>
struct step_code;

namespace detail {

template <class Step>
owned<bound_step> bind_as(const binder& b, const step& s, const void*) {
  return make_step<Step>(b, s);
}
/// The form of steps whose code is one class.
template <class Step>
inline constexpr step_form form_as{&bind_as<Step>, nullptr};

/// The C++ type of the elements of a buffer of a plan.
template <class Plan, std::size_t Buffer>
using element_at = typename element_type<Plan::frozen.buffers[Buffer].type.element>::type;

} // namespace detail

} // namespace cleave::inline v0
