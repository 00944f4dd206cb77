// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/statement.hpp>

namespace cleave {

/// The value that stands for a tensor in the body of a function. It knows the tensor's type.
template <class T, auto Layout>
struct traced : value {
  using element_type = T;
  using sharding_type = std::remove_cvref_t<decltype(Layout)>;

  constexpr traced() = default;
  constexpr traced(const value& v) : value(v) {}
};

namespace detail {

/// In place of a run-time number: a rank-0 value.
template <class T>
struct traced_number : value {
  using element_type = T;
  static_assert(sizeof(element_said<T>) != 0);

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
/// std::tuple, and aggregates of what their parameters name.
template <template <class...> class Aggregate, class... T>
  requires(!std::derived_from<Aggregate<T...>, value> && !Number<Aggregate<T...>>)
struct trace_type<Aggregate<T...>> {
  using type = Aggregate<typename trace_type<T>::type...>;
};

/// Already recording: equal to its own traced form.
template <class A>
inline constexpr bool is_traced = std::same_as<typename trace_type<A>::type, A>;

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

} // namespace detail

/// A program that is partitioned as a whole: a captureless generic lambda. Calling it with values, inside another
/// function, inlines it. Calling it with tensors gives a statement.
template <class F>
struct function {
  using body_type = F;
  F body{};

  constexpr function() = default;
  /// Wraps a captureless generic lambda, or another object without state whose call operator records the program.
  constexpr explicit function(F f) : body(f) {}

  /// Inside another function: the body is inlined there.
  template <class... Args>
    requires(detail::is_traced<Args> || ...)
  constexpr auto operator()(const Args&... args) const {
    return body(args...);
  }
  /// For tensors and aggregates of them: a statement that runs when it is assigned.
  template <class... Args>
    requires(!(detail::is_traced<Args> || ...))
  constexpr expression<F, detail::kept<Args>...> operator()(const Args&... args) const {
    return {std::tuple<detail::statement_operand<detail::kept<Args>>...>(args...)};
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
struct recording;
template <class Body, class R, class... Args>
struct recording<Body, R(Args...)> {
  static constexpr graph record() {
    const mesh_value mesh = detail::mesh_of<R, Args...>();
    recorder in(mesh);
    std::tuple<typename detail::trace_type<std::remove_cvref_t<Args>>::type...> args{};
    const auto give = [&](auto& arg) {
      bool any = false;
      for_each_leaf<detail::is_value>(arg, [&]<class Leaf>(Leaf& leaf) {
        leaf = Leaf(in.input(element_of<typename Leaf::element_type>, detail::spec_of<Leaf>(mesh)));
        any = true;
      });
      // An aggregate whose fields were refused: the compiler has said why.
      if (!any && !std::is_empty_v<std::remove_cvref_t<decltype(arg)>>) in.fail(fault::already_said, "input", {});
    };
    std::apply([&](auto&... each) { (give(each), ...); }, args);
    auto result = std::apply([](auto&... a) { return Body{}(a...); }, args);
    typename detail::trace_type<std::remove_cvref_t<R>>::type asked{};
    // Results and what is asked of them are walked side by side, leaf by leaf.
    std::vector<value> leaves;
    for_each_leaf<detail::is_value>(result, [&](value& v) { leaves.push_back(v); });
    std::size_t next = 0;
    for_each_leaf<detail::is_value>(asked, [&]<class Leaf>(Leaf&) {
      if (next < leaves.size())
        in.output(leaves[next], element_of<typename Leaf::element_type>, detail::spec_of<Leaf>(mesh));
      ++next;
    });
    if (next != leaves.size())
      in.fail(fault::result_count, "function", {}, {}, {}, static_cast<std::int64_t>(next),
              static_cast<std::int64_t>(leaves.size()));
    return in.take();
  }
};

} // namespace cleave
