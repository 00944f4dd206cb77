// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/autodiff/derivative.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/expr/tree.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 {

namespace detail {

/// The number of the node that is recorded next.
constexpr node_id next_node(const recorder& in) { return static_cast<node_id>(in.made().nodes.size()); }

/// Replaces the leaves by variables: names of their own, so that other readers of the same values are not
/// differentiated.
template <class A>
constexpr void make_variables(A& a, indexed_vector<value>& all) {
  for_each_leaf<is_value>(a, [&]<class Leaf>(Leaf& leaf) {
    if (!leaf.ok()) return;
    recorder& in = *leaf.in;
    leaf = Leaf(is_floating(in.at(leaf).type.element)
                    ? in.alias(op::identity, leaf, in.at(leaf).where)
                    : in.fail(fault::not_differentiable, "value_and_grad", in.at(leaf).where));
    all.push_back(leaf);
  });
}
/// Cotangents of the variables, for seeds of the results.
constexpr indexed_vector<value> pulled_back(recorder& in, indexed_span<const value> results,
                                            indexed_span<const value> seeds, indexed_span<const value> variables) {
  for (const auto& list : {results, seeds, variables})
    for (const value& v : list)
      if (!v.ok() || !in.made().found.ok()) return indexed_vector<value>(variables.size(), value{&in, no_node});
  reverse_pass pass(in, variables);
  return pass.run(results, seeds, variables);
}

} // namespace detail

/// Inside a function: the number that is differentiated, the first value that a loss returns. Fault: loss_not_scalar.
template <class Result>
constexpr value loss_of(Result& result) {
  const indexed_vector<value> leaves = detail::leaf_values(result);
  const value loss = leaves.front();
  if (!loss.ok()) return loss;
  const node& n = loss.in->at(loss);
  if (n.type.rank == 0 && is_floating(n.type.element)) return loss;
  return loss.in->fail(fault::loss_not_scalar, name_of(n.code), n.where,
                       n.type.rank > 0 ? loss.in->made().dims[n.type[0]].name : std::string_view{});
}

namespace detail {

template <class First, class... Rest>
constexpr auto one_or_tuple(std::tuple<First, Rest...> all) {
  if constexpr (sizeof...(Rest) == 0) return std::get<0>(std::move(all));
  else return all;
}

template <class F, bool WithValue, std::size_t... Which>
struct gradient_body {
  template <class... Args>
  constexpr auto operator()(const Args&... args) const {
    if constexpr (!is_body<F>) return say(rejection<fault::captures, F>), refused(args...);
    else if constexpr (((Which < sizeof...(Args)) && ...)) return of(args...);
    else
      return say(rejection<fault::no_such_argument, expected<sizeof...(Args)>, got<std::max({Which...})>>),
             refused(args...);
  }

 private:
  template <class... Args>
  static constexpr value refused(const Args&... args) {
    std::tuple<Args...> all(args...);
    return recorder_of(all)->fail(fault::already_reported, "gradient", {});
  }
  template <class... Args>
  static constexpr auto of(const Args&... args) {
    std::tuple<Args...> all(args...);
    indexed_vector<value> variables;
    (make_variables(std::get<Which>(all), variables), ...);
    auto result = call_with_items([](auto&... a) { return called(F{}, a...); }, all);
    const value loss = loss_of(result);
    indexed_vector<value> cotangents(variables.size(), value{loss.in, no_node});
    if (loss.ok()) {
      const node n = loss.in->at(loss);
      const value one = loss.in->constant(1, n.type.element, n.where);
      cotangents = pulled_back(*loss.in, std::array{loss}, std::array{one}, variables);
    }
    auto gradients = std::tuple(std::get<Which>(all)...);
    set_leaves(gradients, cotangents);
    if constexpr (WithValue) return std::tuple(result, one_or_tuple(gradients));
    else return one_or_tuple(gradients);
  }
};

/// The pullback of a function at a point: linear, from cotangents of the results to those of the arguments.
template <class Result, class... Args>
struct pullback {
  Result result;
  std::tuple<Args...> arguments;

  template <class Cotangent>
  constexpr auto operator()(const Cotangent& cotangent) const {
    auto at = result;
    auto given = cotangent;
    auto back = arguments;
    const indexed_vector<value> results = leaf_values(at), seeds = leaf_values(given), variables = leaf_values(back);
    recorder& in = *recorder_of(back);
    bool fits = results.size() == seeds.size();
    for (std::size_t i = 0; i < results.size() && fits; ++i)
      if (results[i].ok() && seeds[i].ok())
        fits = in.at(results[i]).type.element == in.at(seeds[i]).type.element &&
               (in.at(seeds[i]).type.set() & ~in.at(results[i]).type.set()) == 0;
    if (!fits)
      in.refuse(fault::cotangent_does_not_fit, "vjp",
                seeds.empty() || !seeds[0].ok() ? source{} : in.at(seeds[0]).where);
    set_leaves(back, pulled_back(in, results, seeds, variables));
    return one_or_tuple(back);
  }
};

template <class F>
struct remat_body {
  F body{};

  template <class... Args>
  constexpr auto operator()(const Args&... args) const {
    std::tuple<Args...> all(args...);
    recorder* in = recorder_of(all);
    const node_id first = next_node(*in);
    auto result = body(args...);
    recorder::region r;
    r.first = first;
    r.last = next_node(*in);
    if (r.first != r.last) in->add(r);
    return result;
  }
};

/// Records `forward(args...)`, which gives std::pair(result, residuals), under names of its own, so that derivatives
/// see it as one operation; `close(region, result, residuals)` adds its derivative.
template <class Forward, class Close, class... Args>
constexpr auto with_own_derivative(const Forward& forward, const Close& close, std::tuple<Args...> all) {
  recorder::region r;
  recorder* in = recorder_of(all);
  const auto named = [&]<class Leaf>(Leaf& leaf) {
    if (leaf.ok()) leaf = Leaf(in->alias(op::identity, leaf, in->at(leaf).where));
  };
  for_each_leaf<is_value>(all, named);
  r.first = next_node(*in);
  auto [result, residuals] = call_with_items([&](auto&... a) { return forward(a...); }, all);
  const indexed_vector<value> unnamed = leaf_values(result);
  for_each_leaf<is_value>(result, named);
  // A kept result is kept under its name, so that a second derivative flows through the values that the first one
  // reads.
  const indexed_vector<value> results = leaf_values(result);
  for_each_leaf<is_value>(residuals, [&]<class Leaf>(Leaf& leaf) {
    for (std::size_t i = 0; i < results.size(); ++i)
      if (leaf.ok() && leaf.id == unnamed[i].id) leaf = Leaf(results[i]);
  });
  r.arguments = leaf_values(all);
  r.results = results;
  close(r, result, residuals);
  r.last = next_node(*in);
  if (in->made().found.ok()) in->add(r);
  return result;
}

template <class Forward, class Backward>
struct custom_body {
  Forward forward;
  Backward backward;

  template <class... Args>
  constexpr auto operator()(const Args&... args) const {
    const auto close = [&]<class Result, class Residuals>(recorder::region& r, const Result& result,
                                                          const Residuals& residuals) {
      if constexpr (std::is_empty_v<Backward>) {
        r.residuals = leaf_values(residuals);
        r.backward = &rule<Residuals, Result>;
      } else {
        record_ahead(r, result, residuals);
      }
    };
    return with_own_derivative(forward, close, std::tuple<Args...>(args...));
  }

 private:
  template <class Residuals, class Result>
  static constexpr indexed_vector<value> rule(indexed_span<const value> kept, indexed_span<const value> given) {
    Residuals residuals{};
    Result cotangent{};
    set_leaves(residuals, kept);
    set_leaves(cotangent, given);
    auto back = Backward{}(residuals, cotangent);
    return leaf_values(back);
  }
  /// The captures of a rule do not live until there is a derivative, so it is recorded at once, for stand-ins of the
  /// cotangents, and once more then.
  template <class Residuals, class Result>
  constexpr void record_ahead(recorder::region& r, Result cotangent, const Residuals& residuals) const {
    recorder& in = *recorder_of(cotangent);
    for_each_leaf<is_value>(cotangent, [&]<class Leaf>(Leaf& leaf) {
      if (!leaf.ok()) return;
      const node n = in.at(leaf);
      leaf = Leaf(in.alias(op::identity, in.zeros(n.type, n.where), n.where));
    });
    r.stand_ins = leaf_values(cotangent);
    r.ahead = next_node(in);
    r.cotangents = leaf_values(backward(residuals, cotangent));
  }
};

} // namespace detail

/// A function that returns the result of `f` and its gradient: `auto [loss, grads] = value_and_grad(f)(params, batch)`.
/// The first tensor that `f` returns is the loss; it has rank 0 and a floating-point type. The gradient is with respect
/// to the arguments `Which` (the first if none is given; several give a tuple) and has their types: for an aggregate,
/// the same aggregate. Communication: a partial gradient is reduced directly into the layout that is asked for
/// (all-reduce for a replicated parameter, reduce-scatter for a sharded one). Faults: loss_not_scalar,
/// not_differentiable, no_such_argument, no_derivative.
template <std::size_t... Which, class F>
constexpr auto value_and_grad(const function<F>&) {
  if constexpr (sizeof...(Which) == 0) return function(detail::gradient_body<F, true, 0>{});
  else return function(detail::gradient_body<F, true, Which...>{});
}
/// The gradient alone; see `value_and_grad`.
template <std::size_t... Which, class F>
constexpr auto grad(const function<F>&) {
  if constexpr (sizeof...(Which) == 0) return function(detail::gradient_body<F, false, 0>{});
  else return function(detail::gradient_body<F, false, Which...>{});
}

// Mistakes: the gradient of a bare lambda. Fault: not_a_function.
template <std::size_t... Which, class F>
  requires(!is_function<F>)
constexpr auto value_and_grad(const F& f) {
  return say(rejection<fault::not_a_function, F>), value_and_grad<Which...>(function<F>(f));
}
template <std::size_t... Which, class F>
  requires(!is_function<F>)
constexpr auto grad(const F& f) {
  return say(rejection<fault::not_a_function, F>), grad<Which...>(function<F>(f));
}

/// Inside a function: the result of `f` and its pullback, which maps a cotangent of the result to cotangents of the
/// arguments: `auto [y, pullback] = vjp(f, x, w); auto [dx, dw] = pullback(dy);`. Fault: cotangent_does_not_fit.
template <class F, class... Args>
constexpr auto vjp(const F& f, const Args&... args) {
  std::tuple<Args...> all(args...);
  indexed_vector<value> variables;
  detail::call_with_items([&](auto&... a) { (detail::make_variables(a, variables), ...); }, all);
  auto result = detail::call_with_items([&](auto&... a) { return f(a...); }, all);
  return std::pair(result, detail::pullback<decltype(result), Args...>{result, all});
}

/// The same function, with values that are recomputed in the backward pass instead of being kept (jax.checkpoint).
/// Gathers of its arguments are repeated too.
template <class F>
constexpr auto remat(const function<F>& f) {
  return function(detail::remat_body<F>{f.body});
}

/// A function with its own derivative (jax.custom_vjp). `forward(args...)` returns std::pair(result, residuals).
/// `backward(residuals, cotangent)` returns the cotangents of the arguments: one, or a tuple. Inside a function both
/// may capture values; `forward` none that the gradient depends on. Fault: captures_a_variable.
template <class Forward, class Backward>
constexpr auto custom_vjp(Forward forward, Backward backward) {
  return function(detail::custom_body<Forward, Backward>{forward, backward});
}

}} // namespace cleave::v0
