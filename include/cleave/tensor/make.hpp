// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/tensor/assign.hpp>

namespace cleave { inline namespace v0 {

namespace detail {

/// An aggregate of new tensors with the extents of the given ones.
template <class A>
A made_like(const A& given) {
  A made = shared_with(given);
  for_each_leaf<is_run_time_leaf>(made, []<class Leaf>(Leaf& leaf) {
    if constexpr (is_tensor<Leaf>) leaf.rebind(Leaf(leaf.get_grid(), leaf.extents()));
    else say(rejection<fault::not_for_make, Leaf>);
  });
  return made;
}

template <class A>
const auto& first_tensor(const A& a) {
  if constexpr (is_tensor<A>) return a;
  else if constexpr (is_std_array<A>) return first_tensor(a[0]);
  else if constexpr (is_tuple<A>) return first_tensor(std::get<0>(a));
  else return call_with_fields([](const auto& first, const auto&...) -> const auto& { return first_tensor(first); }, a);
}

/// A rank-0 tensor beside another one.
template <class T, auto Layout>
auto number_beside(const tensor<T, Layout>& t) {
  using mesh_type = typename tensor<T, Layout>::sharding_type::mesh_type;
  return tensor<T, mesh_type{}()>(t.get_grid(), std::array<std::int64_t, 0>{});
}

} // namespace detail

/// The work of expression::make: the gradients as aggregates of new tensors, after the loss where that is asked for.
/// Collective.
template <class F, bool WithValue, std::size_t... Which, class... Args>
auto made(const expression<detail::gradient_body<F, WithValue, Which...>, Args...>& statement) {
  std::tuple all(detail::made_like(detail::item_at<Which>(statement.args).it)...);
  auto gradients = detail::one_or_tuple(std::move(all));
  if constexpr (WithValue) {
    using returned = decltype(F{}(std::declval<detail::given<Args>&>()...));
    if constexpr (std::derived_from<returned, value>) {
      auto loss = detail::number_beside(detail::first_tensor(gradients));
      run(statement, loss, gradients);
      return std::tuple(std::move(loss), std::move(gradients));
    } else {
      return say(rejection<fault::not_for_make, returned>), std::tuple<>();
    }
  } else {
    run(statement, gradients);
    return gradients;
  }
}

/// A mistake: the layouts of these results do not follow from the arguments. Fault: not_for_make.
template <class F, class... Args>
auto made(const expression<F, Args...>&) {
  return say(rejection<fault::not_for_make, F>), detail::absorbed_statement{};
}

}} // namespace cleave::v0
