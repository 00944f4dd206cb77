// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/expr/tree.hpp>
#include <cleave/rules/loop.hpp>
#include <cleave/type/tensor_type.hpp>

#include <utility>

// Loops whose body is planned once. Bodies are functions or lambdas of values; values from outside are read in the
// body, and loop-invariant values are computed once, before.

namespace cleave { inline namespace v0 {

/// The order in which `scan` visits the indices of its dim.
enum class direction : std::uint8_t { forward, backward };

namespace detail {

/// The same aggregate with other leaves; refused values if their number differs.
template <class A>
constexpr A with_leaves(A all, recorder& in, indexed_span<const value> values) {
  indexed_vector<value> given = leaf_values(all);
  for (std::size_t i = 0; i < given.size(); ++i)
    given[i] = values.size() == given.size() ? values[i] : value{&in, no_node};
  set_leaves(all, given);
  return all;
}
template <class A>
constexpr bool all_ok(const A& all) {
  for (const value& v : leaf_values(all))
    if (!v.ok()) return false;
  return true;
}
template <class A>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

// Numbers of C++ in a carry, in tuples and pairs: a counter that begins as 0 is a value inside of the loop.
template <class A>
inline constexpr bool has_numbers = std::is_arithmetic_v<A>;
template <class... A>
inline constexpr bool has_numbers<std::tuple<A...>> = (has_numbers<A> || ...);
template <class A, class B>
inline constexpr bool has_numbers<std::pair<A, B>> = has_numbers<A> || has_numbers<B>;

template <class A>
inline constexpr bool has_values = !std::is_arithmetic_v<A>;
template <class... A>
inline constexpr bool has_values<std::tuple<A...>> = (has_values<A> || ...);
template <class A, class B>
inline constexpr bool has_values<std::pair<A, B>> = has_values<A> || has_values<B>;

/// The recorder of the values among numbers, or null.
template <class A>
constexpr recorder* recorder_beside_numbers(const A& all) {
  if constexpr (std::is_arithmetic_v<A>) {
    return nullptr;
  } else if constexpr (has_numbers<A>) {
    return std::apply(
        [](const auto&... part) {
          recorder* in = nullptr;
          ((in = in != nullptr ? in : recorder_beside_numbers(part)), ...);
          return in;
        },
        all);
  } else {
    A copy = all;
    return recorder_of(copy);
  }
}
/// The recorder of the values with which a loop starts. If all are numbers, the fault of recorder_of.
template <class A>
constexpr recorder& recorder_of_start(const A& all) {
  if constexpr (has_values<A>) {
    return *recorder_beside_numbers(all);
  } else {
    A copy = all;
    return *recorder_of(copy);
  }
}
/// The same with values in place of the numbers.
template <class A>
constexpr auto with_values(recorder& in, const A& all, source where) {
  if constexpr (std::is_arithmetic_v<A>)
    return in.value_of(operand(all, where.file, where.line), "carry", literal_element<A>);
  else if constexpr (!has_numbers<A>) return all;
  else if constexpr (is_pair<A>)
    return std::pair(with_values(in, all.first, where), with_values(in, all.second, where));
  else return std::apply([&](const auto&... part) { return std::tuple(with_values(in, part, where)...); }, all);
}

/// Checks the results of a body against the carried values of the next iteration; faults name the line of the loop.
constexpr bool carry_on(recorder& in, std::string_view op, indexed_span<const value> carried,
                        indexed_span<const value> given, source where, indexed_vector<value>& last) {
  if (given.size() != carried.size()) {
    in.refuse(fault::result_count, op, where, {}, {}, std::ssize(carried), std::ssize(given));
    return false;
  }
  indexed_vector<value> next;
  for (std::size_t i = 0; i < given.size(); ++i) next.push_back(computed_for(in, op, carried[i], given[i], where));
  for (std::size_t i = 0; i < given.size(); ++i) last.push_back(loop_yield_of(in, carried[i], next[i], where));
  for (const value& v : last)
    if (!v.ok()) return false;
  return true;
}

/// How often a loop runs at most: a literal is a whole number, not negative.
constexpr value count_of(recorder& in, const operand& most, std::string_view op) {
  if (!most.is_literal) return in.value_of(most, op);
  const bool counts = most.literal >= 0 && most.imaginary == 0 && is_whole(most.literal);
  return counts ? in.constant(most.literal, element::i32, most.where) : in.fail(fault::not_a_count, op, most.where);
}

/// The predicate of the results of a body. One that gives a bool of C++ would end the loop always or never.
template <class P, class C>
constexpr value held_by(const P& done, const C& next) {
  constexpr call_fit fit = fit_of<const P, const C&>;
  if constexpr (fit != call_fit::fits) {
    return say(rejection<fault_of(fit), P, got<1>>), refused_call(next);
  } else {
    using made = std::remove_cvref_t<decltype(done(next))>;
    if constexpr (std::convertible_to<made, value>) return done(next);
    else return say(rejection<fault::not_a_predicate, made>), refused_call(next);
  }
}

inline constexpr auto trip_names = numbered_names("trip ");

template <class C, class F>
constexpr C repeated(std::string_view op, recorder& in, loop_info info, value times, const C& init, const F& body,
                     source where) {
  const std::uint8_t loop = all_ok(init) ? in.enter(info, where) : std::uint8_t{0};
  if (loop == 0) return with_leaves(init, in, {});
  if (times.in != nullptr) set_trip_count(in, op, loop, times, where);
  indexed_vector<value> carried, last;
  for (const value& v : leaf_values(init)) carried.push_back(carry_into(in, loop, v, where));
  const C next = body(with_leaves(init, in, carried), loop);
  const bool fine = carry_on(in, op, carried, leaf_values(next), where, last);
  in.leave(loop);
  if (!fine) return with_leaves(init, in, {});
  for (value& v : last) v = loop_result_of(in, v, where);
  return with_leaves(init, in, last);
}

} // namespace detail

/// Inside a function: runs `f` along a dim, index by index (jax.lax.scan):
/// `y = scan(layer, x, weights, [](auto x, auto w) { ... })`. The first argument of `f` is the carry: the result for
/// the previous index, `init` at first. The second argument is `stacked` at the index. `f` returns the next carry. If
/// it returns a std::pair, the second part is stacked along the dim, and scan returns a pair as well.
///
/// `init` and `stacked` are values or aggregates of them. A tuple or a pair in `init` may have numbers, such as a
/// counter that begins as 0: an int32; `float` and `double` keep their types. The carry keeps its dims, its element
/// types and one layout. The body is planned once, and its price is multiplied by the extent of the dim. The dim is not
/// sharded inside the loop: a stack that is sharded along it is gathered first. Differentiable: values that the
/// derivative needs are kept for each index, or recomputed if `f` is the `remat` of a function. Faults: dim_missing,
/// result_count, carry_changes.
template <class Init, class S, class F>
  requires(!Statement<Init> && !Statement<S>)
constexpr auto scan(dim_ref along, const Init& init, const S& stacked, const F& f, direction way = direction::forward,
                    const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  using namespace detail;
  const source where{file, line};
  recorder& in = recorder_of_start(std::tuple(init, stacked));
  const auto start = with_values(in, init, where);
  using C = std::remove_const_t<decltype(start)>;
  const auto step = [&f](const C& carry, const S& slice) { return called(f, carry, slice); };
  using result_type = decltype(step(start, stacked));
  constexpr bool stacks = is_pair<result_type> && !std::same_as<result_type, C>;
  const int d = in.dim(along, "scan", where);
  indexed_vector<value> sources;
  if (d >= 0)
    for (const value& v : leaf_values(stacked)) sources.push_back(stack_first(in, v, known_dim(d), where));
  const bool fine = d >= 0 && all_ok(start) && leaves_ok(sources);
  const std::uint8_t loop = fine ? in.enter({known_dim(d), way == direction::backward}, where) : std::uint8_t{0};
  indexed_vector<value> carried, slices, last, collected;
  for (const value& v : leaf_values(start)) carried.push_back(loop == 0 ? v : carry_into(in, loop, v, where));
  for (const value& v : sources) slices.push_back(loop == 0 ? v : loop_slice_of(in, loop, v, where));
  const auto given = loop == 0 ? step(with_leaves(start, in, {}), with_leaves(stacked, in, {}))
                               : step(with_leaves(start, in, carried), with_leaves(stacked, in, slices));
  const auto onward = [&] {
    if constexpr (stacks) return given.first;
    else return given;
  }();
  const bool goes_on = loop != 0 && carry_on(in, "scan", carried, leaf_values(onward), where, last);
  if (loop != 0) in.leave(loop);
  for (value& v : last) v = loop_result_of(in, v, where);
  if (!goes_on) last.clear();
  C out = with_leaves(start, in, last);
  if constexpr (stacks) {
    for (const value& v : leaf_values(given.second))
      collected.push_back(goes_on ? loop_stack_of(in, loop, v, where) : value{&in, no_node});
    return std::pair(out, with_leaves(given.second, in, collected));
  } else {
    return out;
  }
}

/// Inside a function: runs `f` `times` times. `times` is a literal, or a rank-0 integer that is known only at run time.
/// The body is planned once, and its price is multiplied by the number, or by 16 if it is not known. With a run-time
/// number there is no derivative. Faults: not_a_count, iterations_not_known, carry_changes.
template <class Init, class F>
  requires(!Statement<Init>)
constexpr auto repeat_times(operand times, const Init& init, const F& f) {
  recorder& in = detail::recorder_of_start(init);
  const auto start = detail::with_values(in, init, times.where);
  using C = std::remove_const_t<decltype(start)>;
  loop_info info{.iterations = hinted_iterations};
  if (times.is_literal) {
    // Along a dim of its own, so that a derivative can stack its values.
    const auto count = static_cast<std::int64_t>(times.literal);
    if (count < 0 || !is_whole(times.literal))
      return in.refuse(fault::not_a_count, "repeat_times", times.where), detail::with_leaves(start, in, {});
    if (in.made().loops.full())
      return in.refuse(fault::too_many_loops, "repeat_times", times.where), detail::with_leaves(start, in, {});
    const int d = in.dim({detail::trip_names[in.made().loops.size()].text(), count}, "repeat_times", times.where);
    if (d < 0) return detail::with_leaves(start, in, {});
    info.along = known_dim(d);
  }
  return detail::repeated(
      "repeat_times", in, info, times.is_literal ? value{} : times.from, start,
      [&](const C& carried, std::uint8_t) { return detail::called_for(carried, f, carried); }, times.where);
}
/// A mistake: the number of iterations comes first. Fault: wrong_arguments.
template <Number N, class F>
constexpr value repeat_times(const value& init, const N&, const F&) {
  return say(rejection<fault::wrong_arguments, op_named<"repeat_times">, N>), detail::reported(init);
}
/// Inside a function: runs `f` until `done` holds for its result, at most `most` times (jax.lax.while_loop, tested
/// after each iteration). `done` returns a rank-0 predicate, on whose value all devices agree. The price assumes 16
/// iterations. There is no derivative. `repeat_until_reported` says whether the loop ended because `done` held. Faults:
/// not_a_count, not_a_predicate, iterations_not_known, carry_changes.
template <class Init, class F, class P>
  requires(!Statement<Init>)
constexpr auto repeat_until(const Init& init, const F& f, const P& done, operand most) {
  recorder& in = detail::recorder_of_start(init);
  const auto start = detail::with_values(in, init, most.where);
  using C = std::remove_const_t<decltype(start)>;
  const value times = detail::count_of(in, most, "repeat_until");
  return detail::repeated(
      "repeat_until", in, {.iterations = hinted_iterations}, times, start,
      [&](const C& carried, std::uint8_t loop) {
        const C next = detail::called_for(carried, f, carried);
        detail::set_break(in, "repeat_until", loop, detail::held_by(done, next), most.where);
        return next;
      },
      most.where);
}

/// The facts of a loop after it.
struct loop_report {
  /// How many iterations it had: a rank-0 int32.
  value iterations;
  /// Whether it ended because its predicate held, and not because it had the most iterations allowed: a rank-0 bool.
  value converged;
};

/// repeat_until with a report: a std::pair of the result of repeat_until and a loop_report. The values of the report
/// may be results of the function, and the function may compute with them.
template <class Init, class F, class P>
  requires(!Statement<Init>)
constexpr auto repeat_until_reported(const Init& init, const F& f, const P& done, operand most) {
  recorder& in = detail::recorder_of_start(init);
  const auto start = detail::with_values(in, init, most.where);
  using C = std::remove_const_t<decltype(start)>;
  using state = std::tuple<C, value, value>;
  const value times = detail::count_of(in, most, "repeat_until_reported");
  const state before{start, in.constant(0, element::i32, most.where), in.constant(0, element::boolean, most.where)};
  const state after = detail::repeated(
      "repeat_until_reported", in, {.iterations = hinted_iterations}, times, before,
      [&](const state& carried, std::uint8_t loop) {
        const C next = detail::called_for(std::get<0>(carried), f, std::get<0>(carried));
        const value holds = detail::held_by(done, next);
        detail::set_break(in, "repeat_until_reported", loop, holds, most.where);
        return state{next,
                     in.elementwise(op::add, std::array{std::get<1>(carried), in.constant(1, element::i32, most.where)},
                                    most.where),
                     holds};
      },
      most.where);
  return std::pair(std::get<0>(after), loop_report{std::get<1>(after), std::get<2>(after)});
}

// On tensors. Bodies and predicates are lambdas without captures.
template <Dim D, class C, class S, class F>
  requires(Statement<C> || Statement<S>)
constexpr auto scan(const D& along, const C& init, const S& stacked, const F& f) {
  return detail::make_call([](const auto& d, const auto& c, const auto& s,
                              const auto& g) { return scan(d, c, s, g, direction::forward, "", 0); },
                           along, init, stacked, f);
}
template <StatementOperand N, Statement C, class F>
constexpr auto repeat_times(const N& times, const C& init, const F& f) {
  return detail::make_call([](const auto& n, const auto& c,
                              const auto& g) { return repeat_times(detail::without_line(n), c, g); },
                           times, init, f);
}
template <Statement C, class F, class P, StatementOperand N>
constexpr auto repeat_until(const C& init, const F& f, const P& done, const N& most) {
  return detail::make_call([](const auto& c, const auto& g, const auto& p,
                              const auto& n) { return repeat_until(c, g, p, detail::without_line(n)); },
                           init, f, done, most);
}
template <Statement C, class F, class P, StatementOperand N>
constexpr auto repeat_until_reported(const C& init, const F& f, const P& done, const N& most) {
  return detail::make_call(
      [](const auto& c, const auto& g, const auto& p, const auto& n) {
        const auto [result, report] = repeat_until_reported(c, g, p, detail::without_line(n));
        return std::tuple(result, report.iterations, report.converged);
      },
      init, f, done, most);
}

namespace detail {
/// The results of a branch: values, and not a number of C++.
template <class F, class... Args>
constexpr auto branch_result(const F& body, const Args&... args) {
  constexpr call_fit fit = fit_of<const F, const Args&...>;
  if constexpr (fit != call_fit::fits)
    return say(rejection<fault_of(fit), F, got<sizeof...(Args)>>), refused_call(args...);
  else if constexpr (is_result<std::remove_cvref_t<decltype(body(args...))>>) return body(args...);
  else return say(rejection<fault::number_from_branch, decltype(body(args...))>), refused_call(args...);
}
/// Runs a body once or not at all; if it does not run, the result is the given values, or 0 if there are none.
template <class F, class... Args>
constexpr auto branch(recorder& in, value holds, indexed_span<const value> otherwise, source where, const F& body,
                      const Args&... args) {
  const std::uint8_t loop = in.enter({no_dim, false, 0, 1, true}, where);
  // Read within, so that values that depend on them alone are computed within.
  const auto inside = [&](auto all) {
    indexed_vector<value> read;
    for (const value& v : leaf_values(all)) {
      read.push_back(loop == 0 || !v.ok() ? v : loop_slice_of(in, loop, v, where));
      read.back().number = v.number;
    }
    set_leaves(all, read);
    return all;
  };
  auto result = branch_result(body, inside(args)...);
  if (loop == 0) return with_leaves(result, in, {});
  set_trip_count(in, "cond", loop, holds, where);
  const indexed_vector<value> made = leaf_values(result);
  indexed_vector<value> carried, last;
  for (std::size_t i = 0; i < made.size() && leaves_ok(made); ++i) {
    value before = otherwise.empty()      ? in.zeros(in.at(made[i]).type, where)
                   : i < otherwise.size() ? otherwise[i]
                                          : value{&in, no_node};
    carried.push_back(before.ok() ? carry_into(in, loop, before, where) : before);
  }
  const bool fine = leaves_ok(carried) && carry_on(in, "cond", carried, made, where, last);
  in.leave(loop);
  if (!fine) return with_leaves(result, in, {});
  for (value& v : last) v = loop_result_of(in, v, where);
  return with_leaves(result, in, last);
}
} // namespace detail

/// Inside a function: the result of `yes(args...)` if the rank-0 predicate holds, else the result of `no(args...)`;
/// only one of them runs (jax.lax.cond). Values that they read from outside are computed before. Both return values
/// with the same types, element types and dims. The price assumes that both run. The derivative is that of the branch
/// that ran. Faults: not_a_predicate, carry_changes.
template <class Yes, class No, class... Args>
constexpr auto cond(operand predicate, const Yes& yes, const No& no, const Args&... args) {
  recorder& in = *predicate.from.in;
  const source where = predicate.where;
  if (predicate.from.ok() &&
      (in.at(predicate.from).type.rank != 0 || in.at(predicate.from).type.element != element::boolean))
    predicate.from = in.fail(fault::not_a_predicate, "cond", where);
  // One wrong branch is one error: the other most often has the same fault.
  constexpr bool fits = detail::fit_of<const Yes, const Args&...> == detail::call_fit::fits;
  if constexpr (!fits) {
    return static_cast<void>(detail::branch_result(yes, args...)), detail::reported(predicate.from);
  } else {
    auto result = detail::branch(in, predicate.from, {}, where, yes, args...);
    const value fails = predicate.from.ok() ? in.elementwise(op::logical_not, std::array{predicate.from}, where)
                                            : predicate.from;
    return detail::branch(in, fails, detail::leaf_values(result), where, no, args...);
  }
}

/// A mistake: two values to choose from. Fault: branch_no_function.
template <class Yes, class No>
  requires((Recorded<Yes> || Number<Yes>) && (Recorded<No> || Number<No>))
constexpr value cond(operand predicate, const Yes&, const No&) {
  return say(rejection<fault::branch_no_function, Yes, No>), detail::reported(predicate.from);
}
/// A mistake: the order of jax.lax.scan. Fault: scan_without_dim.
template <class F, class C, class S>
  requires(!std::convertible_to<const F&, dim_ref> && (Recorded<C> || Recorded<S>))
constexpr value scan(const F&, const C& init, const S& stacked) {
  return say(rejection<fault::scan_without_dim, F>), detail::mistaken(init, stacked);
}

template <Statement Q, class Yes, class No, class... Args>
constexpr auto cond(const Q& predicate, const Yes& yes, const No& no, const Args&... args) {
  return detail::make_call([](const auto& p, const auto& y, const auto& n,
                              const auto&... a) { return cond(detail::without_line(p), y, n, a...); },
                           predicate, yes, no, args...);
}

}} // namespace cleave::v0
