// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/expr/functions.hpp>
#include <cleave/expr/statement.hpp>

namespace cleave { inline namespace v0 {

/// The value that stands for a tensor in the body of a function. It knows the tensor's type.
template <class T, auto Layout>
struct traced : value {
  using element_type = T;
  using sharding_type = typename detail::sharding_of_layout<std::remove_cvref_t<decltype(Layout)>>::type;

  constexpr traced() = default;
  constexpr traced(const value& v) : value(v) {}
};

namespace detail {

/// In place of a run-time number: a rank-0 value.
template <class T>
struct traced_number : value {
  using element_type = T;
  static_assert(sizeof(checked_element<T>) != 0);

  constexpr traced_number() = default;
  constexpr traced_number(const value& v) : value(v) { number = true; }
};

template <class A>
struct is_value : std::bool_constant<std::derived_from<A, value>> {};

/// The traced form of an argument or result type.
template <class A>
struct trace_type {
  using type = A;
};
template <template <class, auto> class Tensor, class T, auto Layout>
  requires TensorType<Tensor<T, Layout>>
struct trace_type<Tensor<T, Layout>> {
  using type = traced<T, Layout>;
};
template <Number T>
struct trace_type<T> {
  using type = traced_number<T>;
};
template <template <template <class, auto> class> class Aggregate, template <class, auto> class Tensor>
struct trace_type<Aggregate<Tensor>> {
  using type = Aggregate<traced>;
};
template <class T, std::size_t N>
struct trace_type<std::array<T, N>> {
  using type = std::array<typename trace_type<T>::type, N>;
};
/// std::tuple, and aggregates of the traced forms of their parameters.
template <template <class...> class Aggregate, class... T>
  requires(!std::derived_from<Aggregate<T...>, value> && !Number<Aggregate<T...>>)
struct trace_type<Aggregate<T...>> {
  using type = Aggregate<typename trace_type<T>::type...>;
};

/// The argument of the body: a tensor or a number is a plain value there, so that all values have one type and errors
/// have short names.
template <class A>
struct given_type {
  using type = typename trace_type<std::remove_cvref_t<A>>::type;
};
template <class A>
  requires std::derived_from<typename trace_type<std::remove_cvref_t<A>>::type, value>
struct given_type<A> {
  using type = value;
};
template <class A>
using given = typename given_type<A>::type;

/// Already recording: equal to its own traced form.
template <class A>
inline constexpr bool is_traced = std::same_as<typename trace_type<A>::type, A> &&
                                  (std::derived_from<A, value> || std::is_aggregate_v<A> || is_tuple<A> ||
                                   std::is_empty_v<A>);

/// The mesh of the first tensor among the leaves.
template <class... Args>
constexpr mesh_value mesh_of() {
  mesh_value found;
  bool any = false;
  std::tuple<typename trace_type<std::remove_cvref_t<Args>>::type...> leaves{};
  for_each_leaf<is_value>(leaves, [&]<class Leaf>(Leaf&) {
    if constexpr (TensorType<Leaf>)
      if (!any) {
        found = Leaf::sharding_type::mesh_type::value;
        any = true;
      }
  });
  return found;
}

template <class Leaf>
constexpr spec spec_of(const mesh_value& mesh) {
  if constexpr (TensorType<Leaf>) return typename Leaf::sharding_type{};
  else {
    spec s;
    s.mesh = mesh;
    return s;
  }
}

/// How a body takes arguments. `reported`: it captures, or the compiler has found an error in it; the error is out.
enum class call_fit : std::uint8_t { fits, does_not_fit, gives_nothing, gives_reference, reported };
struct no_fit {};
template <class F>
struct or_no_fit : F {
  using F::operator();
  no_fit operator()(...) const;
};
template <class F>
  requires(std::is_final_v<F> || !std::is_class_v<F>)
struct or_no_fit<F> {
  template <class... A>
  auto operator()(A&&... args) const -> decltype(std::declval<F&>()(args...));
  no_fit operator()(...) const;
};
/// The result of a call, or no_fit. Only the parameters decide whether a call fits. After an error in the body, which
/// the compiler has reported, there is no result.
template <class F, class... A>
inline constexpr call_fit fit_of = [] {
  if constexpr (!requires(or_no_fit<F>& f) { f(std::declval<A>()...); }) return call_fit::reported;
  else if constexpr (std::is_void_v<decltype(std::declval<or_no_fit<F>&>()(std::declval<A>()...))>)
    return call_fit::gives_nothing;
  else
    return std::is_same_v<decltype(std::declval<or_no_fit<F>&>()(std::declval<A>()...)), no_fit>
               ? call_fit::does_not_fit
               : call_fit::fits;
}();

/// Whether an object can be the body of a function: its type says everything. A closure that captures is not.
template <class F>
inline constexpr bool is_body = std::is_default_constructible_v<F>;
/// The fault of a body, or of a call of it.
template <class F>
using body_verdict = rejected<is_body<F> ? fault::none : fault::captures, F>;
constexpr fault fault_of(call_fit fit) {
  return fit == call_fit::does_not_fit      ? fault::arguments_do_not_fit
         : fit == call_fit::gives_nothing   ? fault::result_missing
         : fit == call_fit::gives_reference ? fault::reference_returned
                                            : fault::none;
}

/// In place of a body that captures, about which nothing else is reported.
struct refused_body {
  constexpr value operator()(const auto&...) const { return {}; }
};
/// Whether a type can stand in a signature: a result is something, and values have no types of tensors yet.
template <class A>
inline constexpr bool is_in_signature = !std::is_void_v<A> && !std::is_same_v<std::remove_cvref_t<A>, value>;
/// Whether a body can receive this: a tensor, a number, or an aggregate. A closure that captures is neither.
template <class A>
inline constexpr bool is_argument = has_leaves_alone<is_value, given<A>>();
template <class A>
struct is_value_or_tensor : std::bool_constant<is_value<A>::value || TensorType<A>> {};
template <class A>
using argument_verdict =
    rejected<is_argument<A>                                                 ? fault::none
             : has_leaves_alone<is_value_or_tensor, given<A>>()             ? fault::struct_of_one_kind
             : std::is_default_constructible_v<A> || std::is_aggregate_v<A> ? fault::not_an_argument
                                                                            : fault::captures,
             A>;
template <class A>
inline constexpr bool is_result = std::derived_from<A, value> || std::is_aggregate_v<A> || is_tuple<A>;
template <class A>
using result_verdict = rejected<is_result<A> ? fault::none : fault::not_an_argument, A>;
/// The result of a recording, if it has one.
template <bool Known, class Recording>
struct result_if : std::type_identity<value> {};
template <class Recording>
struct result_if<true, Recording> : std::type_identity<std::remove_cvref_t<typename Recording::taken>> {};
template <class F, class R, class... Args>
using checked_body = std::conditional_t<is_body<F> && is_argument<R> && (is_argument<Args> && ...), F, refused_body>;

/// A value in place of the result of a call that has been refused.
template <class... Args>
constexpr value refused_call(const Args&... args) {
  recorder* in = nullptr;
  std::tuple<Args...> all(args...);
  for_each_leaf<is_value>(all, [&](const auto& leaf) {
    if constexpr (requires { leaf.in; })
      if (leaf.in != nullptr) in = leaf.in;
  });
  return in == nullptr ? value{} : reported(*in);
}

/// Calls the body of a function or of a loop. A call that does not fit is one error, at its line.
template <class F, class... Args>
constexpr decltype(auto) called(const F& f, Args&... args) {
  constexpr call_fit fit = fit_of<const F, Args&...>;
  if constexpr (fit == call_fit::fits) return f(args...);
  else return say(rejection<fault_of(fit), F, got<sizeof...(Args)>>), refused_call(args...);
}
/// The same of a body whose result becomes a C. A result that cannot is an error too.
template <class C, class F, class... Args>
constexpr C called_for(const C& instead, const F& f, Args&... args) {
  constexpr call_fit fit = fit_of<const F, Args&...>;
  if constexpr (fit != call_fit::fits) {
    return say(rejection<fault_of(fit), F, got<sizeof...(Args)>>), static_cast<void>(refused_call(args...)), instead;
  } else {
    using made = std::remove_cvref_t<decltype(f(args...))>;
    if constexpr (std::convertible_to<made, C>) return f(args...);
    else return say(rejection<fault::carry_changes, C, made>), static_cast<void>(refused_call(args...)), instead;
  }
}

} // namespace detail

/// A program that is partitioned as a whole: a captureless generic lambda. One that is only called inside of others may
/// capture. Calling it with values, inside another function, inlines it. Calling it with tensors gives a statement.
template <class F>
struct function {
  using body_type = F;
  [[no_unique_address]] F body{};

  constexpr function() = default;
  /// Wraps a captureless generic lambda, or another object without state whose call operator records the program.
  constexpr explicit function(F f) : body(f) {}

  /// Inside another function: the body is inlined there.
  template <class... Args>
    requires(detail::is_traced<Args> || ...)
  constexpr auto operator()(const Args&... args) const {
    return detail::called(body, args...);
  }
  /// For tensors and aggregates of them: a statement that runs when it is assigned.
  template <class... Args>
    requires(!(detail::is_traced<Args> || ...))
  constexpr expression<F, detail::kept<Args>...> operator()(const Args&... args) const {
    return {{{args}...}};
  }
};
template <class F>
function(F) -> function<F>;

template <class F>
inline constexpr bool is_function = false;
template <class F>
inline constexpr bool is_function<function<F>> = true;

/// Records the graph of a body under a signature: runs it on traced arguments. The number of leaves and their order
/// are those of the signature's types.
template <class Body, class Signature>
struct recording {
  static_assert(sizeof(rejected<fault::not_a_signature, Signature>) != 0);
  static constexpr graph record() {
    recorder in(mesh_value{});
    in.refuse(fault::already_reported, "function", {});
    return in.take();
  }
};
template <class Body, class R, class... Args>
  requires(detail::is_in_signature<R> && (detail::is_in_signature<Args> && ...))
struct recording<Body, R(Args...)> {
  template <class A>
  using traced_form = typename detail::trace_type<std::remove_cvref_t<A>>::type;
  /// The argument types are instantiated first: a fault of theirs is reported before the body is.
  static_assert((sizeof(Args) + ... + 1) != 0);
  static_assert(sizeof(detail::body_verdict<Body>) != 0);
  /// Here the body is instantiated, before anything else is asked of it, and with few templates around it: compilers
  /// print them all.
  using body = detail::checked_body<Body, R, Args...>;
  using taken = decltype(std::declval<detail::or_no_fit<body>&>()(std::declval<detail::given<Args>&>()...));
  static constexpr detail::call_fit fit = [] {
    if constexpr (!requires { typename recording::taken; }) return detail::call_fit::reported;
    else {
      // After an error clang finds no call that fits.
      constexpr detail::call_fit found = detail::fit_of<body, detail::given<Args>&...>;
      if (found == detail::call_fit::does_not_fit && !std::is_same_v<taken, detail::no_fit>)
        return detail::call_fit::reported;
      return std::is_reference_v<taken> ? detail::call_fit::gives_reference : found;
    }
  }();
  using taken_or_value = typename detail::result_if<fit == detail::call_fit::fits, recording>::type;
  static_assert((sizeof(detail::argument_verdict<std::remove_cvref_t<Args>>) + ... +
                 sizeof(detail::argument_verdict<std::remove_cvref_t<R>>)) != 0);
  static_assert(sizeof(rejected<detail::fault_of(fit), Body, got<sizeof...(Args)>>) != 0);

  static_assert(sizeof(detail::result_verdict<taken_or_value>) != 0);

  static constexpr graph record() { return recorded(std::index_sequence_for<Args...>{}); }

 private:
  template <std::size_t... I>
  static constexpr graph recorded(std::index_sequence<I...>) {
    if constexpr (!std::is_same_v<body, Body> || fit != detail::call_fit::fits) {
      recorder in(mesh_value{});
      in.refuse(fault::already_reported, "function", {});
      return in.take();
    } else {
      const mesh_value mesh = detail::mesh_of<R, Args...>();
      recorder in(mesh);
      std::tuple<traced_form<Args>...> args{};
      (give(in, mesh, std::get<I>(args)), ...);
      auto result = Body{}(static_cast<detail::given<Args>&>(std::get<I>(args))...);
      give_results(in, mesh, result);
      return in.take();
    }
  }
  template <class Arg>
  static constexpr void give(recorder& in, const mesh_value& mesh, Arg& arg) {
    bool any = false;
    for_each_leaf<detail::is_value>(arg, [&]<class Leaf>(Leaf& leaf) {
      leaf = Leaf(in.input(element_of<typename Leaf::element_type>, detail::spec_of<Leaf>(mesh)));
      any = true;
    });
    // An aggregate whose fields were refused: the compiler has reported why.
    if (!any && !std::is_empty_v<Arg>) in.refuse(fault::already_reported, "input", {});
  }
  template <class Result>
  static constexpr void give_results(recorder& in, const mesh_value& mesh, Result& result) {
    traced_form<R> asked{};
    // Results and the layouts asked of them are walked together, leaf by leaf.
    indexed_vector<value> leaves;
    if constexpr (detail::is_result<Result> && !std::is_same_v<Result, detail::refused_value>)
      for_each_leaf<detail::is_value>(result, [&](value& v) { leaves.push_back(v); });
    else in.refuse(fault::already_reported, "function", {});
    std::int64_t next = 0;
    for_each_leaf<detail::is_value>(asked, [&]<class Leaf>(Leaf&) {
      if (next < std::ssize(leaves))
        in.output(leaves[as_size(next)], element_of<typename Leaf::element_type>, detail::spec_of<Leaf>(mesh));
      ++next;
    });
    if (next != std::ssize(leaves)) in.refuse(fault::result_count, "function", {}, {}, {}, next, std::ssize(leaves));
  }
};

namespace detail {

/// The body and the arguments of a statement. A call of a function with tensors alone has the function's own body, and
/// so shares its plan with `plan<...>(f)`.
template <class E>
struct body_of {
  using type = statement_body<E>;
};
template <class F, class... Args>
  requires(!is_lifted<F> && !(is_expression<Args> || ...) && !(is_constant_argument<Args> || ...))
struct body_of<expression<F, Args...>> {
  using type = F;
};

/// The recording of a statement into a result.
template <class R, class E, class Leaves = typename operand_types<E>::type>
struct recording_of;
template <class R, class E, class... Leaves>
struct recording_of<R, E, std::tuple<Leaves...>> {
  using body = typename body_of<E>::type;
  using signature = R(Leaves...);
  using type = recording<body, signature>;
};

} // namespace detail

}} // namespace cleave::v0
