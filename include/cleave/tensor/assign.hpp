// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/statement.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/tensor/call.hpp>
#include <cleave/tensor/mistakes.hpp>
#include <cleave/tensor/tensor.hpp>

namespace cleave { inline namespace v0 {

namespace detail {

/// A tensor or a number: where a call stops looking into aggregates.
template <class A>
struct is_run_time_leaf : std::bool_constant<is_tensor<A> || Number<A>> {};

/// Operand `i` of a call is a tensor that nobody constructed with a grid.
[[noreturn, gnu::cold]] inline void raise_without_data(std::size_t i, std::size_t arguments, std::size_t results) {
  if (i < arguments) raise<grid_error>(wording::argument_without_data(i));
  raise<grid_error>(wording::result_without_data(i - arguments, results));
}
/// The leaves of a statement's operands, and then those of its results.
template <class Plan, class Statement, class... Results>
auto operands_of(const Statement& statement, Results&... results) {
  std::array<call_operand, Plan::frozen.arguments + Plan::frozen.results + 1> operands;
  std::size_t next = 0;
  const auto add = [&]<class Leaf>(const Leaf& leaf) {
    if constexpr (is_tensor<Leaf>) {
      if (!leaf.has_data()) raise_without_data(next, Plan::frozen.arguments, Plan::frozen.results);
      operands[next++] = {&leaf.state(), leaf.shard()};
    } else {
      operands[next++] = {nullptr, &leaf};
    }
  };
  const auto add_all = [&](const auto& argument) { for_each_leaf<is_run_time_leaf>(argument, add); };
  for_each_operand(statement, add_all);
  (for_each_leaf<is_run_time_leaf>(results, add), ...);
  return operands;
}

/// Runs a plan on the leaves of a statement's operands and of its results.
template <class Plan, class Statement, class... Results>
void run_plan(const Statement& statement, Results&... results) {
  static_assert(sizeof(typename rejection_of<Plan>::type) != 0);
  if constexpr (Plan::found.ok())
    run_program(runnable_of<Plan>, operands_of<Plan>(statement, results...).data(), comm::address_of_call());
}

template <class... Results>
struct result_of {
  using type = std::tuple<Results...>;
};
template <class Result>
struct result_of<Result> {
  using type = Result;
};

struct identity_body {
  template <class X>
  constexpr auto operator()(const X& x) const {
    return x;
  }
};

} // namespace detail

/// Runs a statement into existing tensors, or aggregates of them: what `f(x, y).into(a, b)` and `y = f(x)` do.
/// Collective over the devices. Throws grid_error if the tensors are on two grids, and shape_error if a dim has two
/// extents.
template <class F, class... Args, class... Results>
void run(const expression<F, Args...>& statement, Results&... results) {
  using result = typename detail::result_of<std::remove_cvref_t<Results>...>::type;
  using recorded = detail::recording_of<result, expression<F, Args...>>;
  static_assert(sizeof(typename recorded::type) != 0);
  detail::run_plan<plan_of<typename recorded::body, typename recorded::signature>>(statement, results...);
}

/// Gives a tensor without data the grid and the extents that follow from a statement's tensors, and runs the statement
/// into it.
template <class T, auto Layout, class F, class... Args>
void construct(tensor<T, Layout>& to, const expression<F, Args...>& statement) {
  using recorded = detail::recording_of<tensor<T, Layout>, expression<F, Args...>>;
  static_assert(sizeof(typename recorded::type) != 0);
  using plan = plan_of<typename recorded::body, typename recorded::signature>;
  static_assert(sizeof(typename detail::rejection_of<plan>::type) != 0);
  if constexpr (plan::found.ok()) {
    const auto operands = detail::operands_of<plan>(statement);
    const detail::result_place place = detail::place_of_result(runnable_of<plan>.program, operands.data());
    to.rebind(tensor<T, Layout>(place.on, indexed_span<const std::int64_t>(place.extents.extent, place.extents.rank)));
    detail::run_plan<plan>(statement, to);
  }
}
template <class T, auto Layout, class U, auto From>
void construct(tensor<T, Layout>& to, const tensor<U, From>& from) {
  construct(to, function(detail::identity_body{})(from));
}

template <class T, auto Layout, class F, class... Args>
void assign(tensor<T, Layout>& to, const expression<F, Args...>& statement) {
  run(statement, to);
}
/// The same values in another layout.
template <class T, auto Layout, class U, auto From>
void assign(tensor<T, Layout>& to, const tensor<U, From>& from) {
  run(function(detail::identity_body{})(from), to);
}
template <class T, auto Layout>
void assign(tensor<T, Layout>&, detail::absorbed_statement) {}
template <class T, auto Layout>
void assign(tensor<T, Layout>&, const detail::refused_value&) {}
template <class T, auto Layout, Number N>
void assign(tensor<T, Layout>& to, N number) {
  if constexpr (detail::lost_in<T, N> == fault::none) to.fill(static_cast<T>(number));
  else to.fill(number);
}

}} // namespace cleave::v0
