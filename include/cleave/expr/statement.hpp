// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/fields.hpp>
#include <cleave/record/value.hpp>
#include <cleave/type/abstract.hpp>

#include <initializer_list>

namespace cleave { inline namespace v0 {

template <class F, class... Args>
struct expression;

namespace detail {

template <class A>
using kept = typename kept_as<std::remove_cvref_t<A>>::type;

/// The same tensors without a copy of their elements: a tensor itself, or an aggregate of tensors and numbers.
template <class A>
constexpr A shared_with(const A& a) {
  if constexpr (TensorType<A> && requires { a.alias(); }) {
    return a.alias();
  } else if constexpr (is_std_array<A>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return A{shared_with(a[I])...};
    }(std::make_index_sequence<std::tuple_size_v<A>>{});
  } else if constexpr (is_tuple<A>) {
    return call_with_items([](const auto&... items) { return A(shared_with(items)...); }, a);
  } else if constexpr (std::is_aggregate_v<A> && !std::is_array_v<A> && !std::is_empty_v<A> && !is_number<A>) {
    // A type that is no argument is reported when the statement is recorded.
    if constexpr (!has_plain_fields<A>) return a;
    else return call_with_fields([](const auto&... fields) { return A{shared_with(fields)...}; }, a);
  } else {
    return a;
  }
}

template <class F, class... Args>
constexpr expression<F, Args...> shared_with(const expression<F, Args...>& e) {
  return e;
}

/// An operand of a statement. Copies of statements share the elements of their tensors, so that building one costs
/// nothing.
template <class A>
struct statement_operand {
  A it;

  constexpr statement_operand(const A& a) : it(shared_with(a)) {}
  constexpr statement_operand(const statement_operand& other) : it(shared_with(other.it)) {}
  constexpr statement_operand(statement_operand&&) = default;
};

} // namespace detail

/// A statement: a tree of operations on tensors. It is recorded into a graph, by its type, when it is assigned. It
/// holds aliases of its tensors, so that they live as long as it does. `F` is the captureless closure that records the
/// operation.
template <class F, class... Args>
struct [[nodiscard("a statement computes nothing before it is assigned: y = f(x), or f(x).into(y)")]] expression {
  detail::list_of<detail::statement_operand<Args>...> args;

  /// Runs the statement into existing tensors, or aggregates of them: `step(state, batch).into(state, loss)`.
  /// Collective over the devices.
  template <class... Results>
  void into(Results&... results) const {
    run(*this, results...);
  }
  /// A mistake: `f(x).into(loss, std::tie(a, b))`. Fault: results_in_tuple.
  template <class... Results>
    requires((!std::is_lvalue_reference_v<Results> && detail::is_tuple<std::remove_const_t<Results>>) || ...)
  void into(Results&&...) const {
    say(rejection<fault::results_in_tuple, got<sizeof...(Results)>>);
  }
  /// Allocates the results and runs the statement into them: `auto [loss, grads] = value_and_grad(f)(params,
  /// batch).make()`. Works for gradients, whose types follow from the arguments. Use `into` for other functions, and if
  /// nothing should be allocated.
  auto make() const { return made(*this); }

  /// A mistake: a condition or a number is asked of a statement. Fault: statement_as_number.
  template <class T>
    requires std::is_arithmetic_v<T>
  explicit operator T() const {
    return say(rejection<fault::statement_as_number, T>), T{};
  }
  /// The same mistake.
  template <class... X>
  double item(const X&...) const {
    return say(rejection<fault::statement_as_number, got<sizeof...(X)>>), 0;
  }
  /// A mistake: `std::tie(a, b) = f(x)`. Fault: results_in_tuple.
  template <class... T>
    requires(sizeof...(T) > 0)
  explicit(false) operator std::tuple<T&...>() const {
    return say(rejection<fault::results_in_tuple, got<sizeof...(T)>>), std::tuple<T&...>(*static_cast<T*>(nullptr)...);
  }
};

template <class E>
inline constexpr bool is_expression = false;
template <class F, class... Args>
inline constexpr bool is_expression<expression<F, Args...>> = true;

/// A tensor or a statement. Values are not statements, since they are recorded at once.
template <class A>
concept Statement = (TensorType<A> && !std::derived_from<std::remove_cvref_t<A>, value>) ||
                    is_expression<std::remove_cvref_t<A>>;
/// Two operands of a statement. One of them may be a number, which becomes a rank-0 argument of the plan.
template <class A, class B>
concept StatementPair = (Statement<A> && (Statement<B> || Number<B>)) || (Number<A> && Statement<B>);

/// Any operand of a statement that has no tensor, as the key of random numbers.
template <class A>
concept StatementOperand = Statement<A> || Number<A>;

/// A value in the body of a function.
template <class A>
concept Recorded = std::derived_from<A, value>;

/// A number that shapes a plan, in a statement: `shift(x, row, cleave::constant<1>{})`. A plain number in a statement
/// is known only at run time.
template <auto V>
struct constant {
  /// The number itself.
  constexpr operator decltype(V)() const { return V; }
  /// The number as an operand, a literal. Functions of whole numbers and of values have both for integers.
  constexpr operator operand() const
    requires std::floating_point<decltype(V)>
  {
    return {V, "", 0};
  }
};

/// In place of a statement that has been refused. Assigning it does nothing, and operations on it give it again.
struct absorbed_statement {
  explicit operator bool() const { return false; }
};

namespace detail {

using v0::absorbed_statement;
/// Dims, axes and specifications: objects without state, which the type carries.
template <class A>
inline constexpr bool is_constant_argument = std::is_empty_v<A> && !is_expression<A>;

template <class A>
inline constexpr std::size_t leaf_count = is_constant_argument<A> ? 0 : 1;
template <class F, class... Args>
inline constexpr std::size_t leaf_count<expression<F, Args...>> = (leaf_count<Args> + ... + 0);

/// Calls `f` with each operand that is no constant, in order.
template <class A, class F>
constexpr void for_each_operand(const A& a, F& f) {
  if constexpr (!is_constant_argument<A>) f(a);
}
template <class By, class... Args, class F>
constexpr void for_each_operand(const expression<By, Args...>& e, F& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (for_each_operand(item_at<I>(e.args).it, f), ...);
  }(std::index_sequence_for<Args...>{});
}

// Their types, as those of a tuple that nobody makes.
template <class... Lists>
struct joined_lists {
  using type = std::tuple<>;
};
template <class... A>
struct joined_lists<std::tuple<A...>> {
  using type = std::tuple<A...>;
};
template <class... A, class... B, class... Rest>
struct joined_lists<std::tuple<A...>, std::tuple<B...>, Rest...> : joined_lists<std::tuple<A..., B...>, Rest...> {};
template <class A>
struct operand_types {
  using type = std::conditional_t<is_constant_argument<A>, std::tuple<>, std::tuple<A>>;
};
template <class F, class... Args>
struct operand_types<expression<F, Args...>> : joined_lists<typename operand_types<Args>::type...> {};

template <class A, std::size_t First>
struct rebuild {
  template <class Leaves>
  static constexpr decltype(auto) from(Leaves& leaves) {
    if constexpr (is_constant_argument<A>) return A{};
    else return (item_at<First>(leaves));
  }
};
template <class F, class... Args, std::size_t First>
struct rebuild<expression<F, Args...>, First> {
  static constexpr auto offsets = [] {
    std::array<std::size_t, sizeof...(Args) + 1> at{First};
    std::size_t i = 0;
    ((at[i + 1] = at[i] + leaf_count<Args>, ++i), ...);
    return at;
  }();
  template <class Leaves>
  static constexpr auto from(Leaves& leaves) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return F{}(rebuild<Args, offsets[I]>::from(leaves)...);
    }(std::index_sequence_for<Args...>{});
  }
};
/// An operation of the library. Its operands have no line: nothing can note the line of a statement, and a line of
/// these headers would tell the user nothing.
template <class F>
struct lifted : F {};
template <class F>
inline constexpr bool is_lifted = false;
template <class F>
inline constexpr bool is_lifted<lifted<F>> = true;
template <class A>
constexpr decltype(auto) without_line(const A& a) {
  if constexpr (std::derived_from<A, value>) return operand(a, "", 0);
  else return (a);
}
template <class F, class... Args, std::size_t First>
struct rebuild<expression<lifted<F>, Args...>, First> {
  template <class Leaves>
  static constexpr auto from(Leaves& leaves) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return record(without_line(rebuild<Args, rebuild<expression<F, Args...>, First>::offsets[I]>::from(leaves))...);
    }(std::index_sequence_for<Args...>{});
  }
  template <class... X>
  static constexpr auto record(const X&... x) {
    if constexpr (std::is_invocable_v<F, const X&...>) return F{}(x...);
    else return say(rejection<fault::not_in_statement, Args...>), refused(x...);
  }
  /// A value that is no result: the fault has been reported above.
  template <class... X>
  static constexpr value refused(const X&... x) {
    recorder* in = nullptr;
    const auto take = [&](const auto& each) {
      if constexpr (requires { each.from.in; }) in = each.from.in;
    };
    (take(x), ...);
    return reported(*in);
  }
};

/// A dim or an axis.
template <class A>
concept Name = Dim<A> || MeshAxis<A>;
template <class... A>
concept NamesAlone = sizeof...(A) > 0 && (Name<A> && ...);
template <class A>
concept Absorbed = std::same_as<A, absorbed_statement>;
template <class A>
concept SymbolicOperand = Recorded<A> || Statement<A>;
/// An array, a tuple or a pair of operands, in which no operation takes them.
template <class A>
concept OperandList = (is_tuple<A> || is_std_array<A>) && std::tuple_size<A>::value > 0 &&
                      SymbolicOperand<std::tuple_element_t<0, A>>;
/// Operands of one statement. A tensor type among values is none.
template <class... A>
concept StatementAmong = (Statement<A> || ...);
template <class... A>
concept StatementOperands = StatementAmong<A...> && !((Recorded<A> || std::same_as<A, operand> || Absorbed<A>) || ...);
/// Arguments that no operation takes, whatever it is.
template <class... A>
concept NoOperands = NamesAlone<A...> || (Absorbed<A> || ...) || ((OperandList<A> || ...) && !(Statement<A> || ...));
template <class A>
inline constexpr bool gives_value = Recorded<A>;
template <OperandList A>
inline constexpr bool gives_value<A> = Recorded<std::tuple_element_t<0, A>>;
/// In place of the refused result of a call: combined with other values a number raises no further fault.
template <class... A>
using refused_result = std::conditional_t<NamesAlone<A...>, refused_value,
                                          std::conditional_t<(gives_value<A> || ...), value, absorbed_statement>>;

template <class Op, class... A>
inline constexpr fault misuse = NamesAlone<A...>          ? fault::names_alone
                                : (Absorbed<A> || ...)    ? fault::none
                                : (OperandList<A> || ...) ? fault::dims_in_braces
                                                          : fault::wrong_arguments;
template <class A, class B>
inline constexpr fault misuse<op_named<"max">, A, B> =
    std::convertible_to<A, operand> && std::convertible_to<B, operand> ? fault::larger_of_two : fault::wrong_arguments;
template <class A, class B>
inline constexpr fault misuse<op_named<"min">, A, B> = misuse<op_named<"max">, A, B>;
template <text Name, class... A>
inline constexpr auto braces = rejection<fault::dims_in_braces, op_named<Name>, A...>;
/// The result of an operation that has been refused.
template <class... A>
constexpr refused_result<A...> mistaken(const A&... args) {
  if constexpr (!(gives_value<A> || ...)) {
    return {};
  } else {
    value beside;
    const auto take = [&]<class Each>(const Each& each) {
      if constexpr (Recorded<Each>) beside = each.in != nullptr ? each : beside;
      else if constexpr (gives_value<Each>) beside = std::get<0>(each);
    };
    (take(args), ...);
    return reported(beside);
  }
}
/// What a list in braces stands for.
template <class Item>
constexpr auto refused_list(std::initializer_list<Item> all) {
  if constexpr (requires { all.begin()->x.from; }) return mistaken(all.begin()->x.from);
  else return mistaken(*all.begin());
}
/// What is in braces, which no function takes.
struct listed {
  template <class T>
    requires(Name<T> || std::integral<T> || SymbolicOperand<T>)
  constexpr listed(const T&) {}
};

/// The body of the function that a statement records: takes the leaves, records the tree.
template <class E>
struct statement_body {
  template <class... Leaves>
  constexpr auto operator()(Leaves&... leaves) const {
    const list_of<Leaves&...> all{{leaves}...};
    return rebuild<E, 0>::from(all);
  }
};

/// An operand as a statement stores it: a number in its kept type, a tensor itself.
template <class Kept, class A>
constexpr decltype(auto) passed_on(const A& a) {
  if constexpr (Number<A>) return Kept(a);
  else return (a);
}
/// A statement that stores its operands so.
template <class F, class... Args>
constexpr expression<F, kept<Args>...> make_call(F, const Args&... args) {
  return {{{passed_on<kept<Args>>(args)}...}};
}
template <class F, class... Args>
constexpr expression<lifted<F>, kept<Args>...> make_expression(F, const Args&... args) {
  return {{{passed_on<kept<Args>>(args)}...}};
}

} // namespace detail

// Operators and functions on tensors are declared next to those on values, one line each. They mean the same, and are
// recorded when the statement is assigned.

/// The function of this name on tensors, statements, and operands that may be combined with them.
#define CLEAVE_LIFT(name)                                                                                              \
  template <class... A>                                                                                                \
    requires cleave::detail::StatementOperands<A...>                                                                   \
  constexpr auto name(const A&... args) {                                                                              \
    return cleave::detail::make_expression([](const auto&... x) -> decltype(name(x...)) { return name(x...); },        \
                                           args...);                                                                   \
  }                                                                                                                    \
  template <cleave::detail::SymbolicOperand A>                                                                         \
  constexpr auto name(const A& a, std::initializer_list<cleave::detail::listed>) {                                     \
    return say(cleave::detail::braces<#name, A>), cleave::detail::mistaken(a);                                         \
  }                                                                                                                    \
  template <cleave::detail::SymbolicOperand A, class B>                                                                \
  constexpr auto name(const A& a, const B& b, std::initializer_list<cleave::detail::listed>) {                         \
    return say(cleave::detail::braces<#name, A, B>), cleave::detail::mistaken(a, b);                                   \
  }                                                                                                                    \
  template <class... A>                                                                                                \
    requires(cleave::detail::NoOperands<A...> ||                                                                       \
             ((cleave::Recorded<A> || ...) && !requires(const A&... x) { name(cleave::detail::without_line(x)...); })) \
  constexpr cleave::detail::refused_result<A...> name(const A&... args) {                                              \
    say(cleave::rejection<cleave::detail::misuse<cleave::op_named<#name>, A...>, cleave::op_named<#name>, A...>);      \
    return cleave::detail::mistaken(args...);                                                                          \
  }
/// The same for a function with template arguments: `CLEAVE_LIFT_TEMPLATE(cast, class T, T)`.
#define CLEAVE_LIFT_TEMPLATE(name, parameter, argument)                                                           \
  template <parameter, class... A>                                                                                \
    requires(cleave::Statement<A> || ...)                                                                         \
  constexpr auto name(const A&... args) {                                                                         \
    return cleave::detail::make_expression(                                                                       \
        [](const auto&... x) -> decltype(name<argument>(x...)) { return name<argument>(x...); }, args...);        \
  }                                                                                                               \
  template <parameter, class... A>                                                                                \
    requires(cleave::detail::NoOperands<A...> ||                                                                  \
             ((cleave::Recorded<A> || ...) &&                                                                     \
              !requires(const A&... x) { name(cleave::detail::without_line(x)...); } &&                           \
              !requires(const A&... x) { name<argument>(cleave::detail::without_line(x)...); }))                  \
  constexpr cleave::detail::refused_result<A...> name(const A&... args) {                                         \
    say(cleave::rejection<cleave::detail::misuse<cleave::op_named<#name>, A...>, cleave::op_named<#name>, A...>); \
    return cleave::detail::mistaken(args...);                                                                     \
  }
/// The same for functions of a key, which may be a number alone.
#define CLEAVE_LIFT_OF_KEY(name)                                                                                     \
  template <cleave::StatementOperand K, class... A>                                                                  \
    requires((cleave::StatementOperand<A> || cleave::Dim<A>) && ...)                                                 \
  constexpr auto name(const K& key, const A&... args) {                                                              \
    return cleave::detail::make_expression([](const auto&... x) -> decltype(name(x...)) { return name(x...); }, key, \
                                           args...);                                                                 \
  }
#define CLEAVE_LIFT_TEMPLATE_OF_KEY(name, parameter, argument)                                                  \
  template <parameter, cleave::StatementOperand K, class... A>                                                  \
    requires((cleave::StatementOperand<A> || cleave::Dim<A>) && ...)                                            \
  constexpr auto name(const K& key, const A&... args) {                                                         \
    return cleave::detail::make_expression(                                                                     \
        [](const auto&... x) -> decltype(name<argument>(x...)) { return name<argument>(x...); }, key, args...); \
  }                                                                                                             \
  template <parameter, class... A>                                                                              \
    requires cleave::detail::NamesAlone<A...>                                                                   \
  constexpr cleave::detail::refused_value name(const A&...) {                                                   \
    return say(cleave::rejection<cleave::fault::not_a_key, cleave::op_named<#name>, A...>),                     \
           cleave::detail::refused_value{};                                                                     \
  }
/// Operators, one operand of which may be a number.
#define CLEAVE_LIFT_UNARY(sign)                                              \
  template <cleave::Statement X>                                             \
  constexpr auto operator sign(const X& x) {                                 \
    return detail::make_expression([](const auto& a) { return sign a; }, x); \
  }
#define CLEAVE_LIFT_BINARY(sign)                                                                 \
  template <class A, class B>                                                                    \
    requires StatementPair<A, B>                                                                 \
  constexpr auto operator sign(const A& a, const B& b) {                                         \
    return detail::make_expression([](const auto& x, const auto& y) { return x sign y; }, a, b); \
  }

}} // namespace cleave::v0
