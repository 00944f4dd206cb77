// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/loops.hpp>
#include <cleave/expr/values.hpp>
#include <cleave/solve/errors.hpp>

// The common parts of the iterative methods: when they stop, their results, and how they apply operators. The methods
// are written with the public functions on values, so that a solve is planned as a whole, also inside a larger
// function.

namespace cleave { inline namespace v0 { namespace solve {

/// When a method stops, and its first approximation: `cg(laplacian, b, {.tolerance = 1e-10, .iterations = 200})`.
struct options {
  /// The method has converged when the norm of its residual is at most this times the norm of the right-hand side. A
  /// literal, or a rank-0 value of the function.
  operand tolerance = 1e-8;
  /// The most iterations: a literal, or a rank-0 integer of the function.
  operand iterations = 1000;
  /// The first approximation, with the dims of the right-hand side. Zeros if there is none. Inside functions only.
  value start{};

  /// The most iterations, if they are a literal. Throws number_error if that is not a whole number from 0 to 2^31 - 1.
  constexpr std::int32_t literal_iterations() const {
    const double most = iterations.literal;
    if (!(most >= 0 && most <= 0x7fffffff) || most != static_cast<double>(static_cast<std::int32_t>(most)))
      raise<number_error>(wording::iterations_not_a_count(std::to_string(most)));
    return static_cast<std::int32_t>(most);
  }
};

/// Why a method ended: the element of `result::ended`.
enum class ended : std::int32_t {
  /// The most iterations were done, and the residual is still too large.
  at_limit = 0,
  /// The residual is small enough.
  converged = 1,
  /// The next step would divide by zero, or a number is not finite, or the right-hand side is so large or so small that
  /// squares of the residual leave the range of its type. The solution is that of the last iteration whose residual was
  /// finite; of GMRES, that of the last cycle that did not make the residual larger.
  broke_down = 2,
};

/// The result of a method. Its fields may be results of a function: write `std::tuple<Field, Number, Count, Count>` for
/// it, or a struct with these fields.
struct result {
  /// The last approximation, with the dims of the right-hand side.
  value solution;
  /// The norm of its residual, as the method computes it: a rank-0 value of the element type of the right-hand side.
  value residual;
  /// How many iterations there were: a rank-0 int32.
  value iterations;
  /// Why the method ended: a rank-0 int32, a number of `solve::ended`.
  value ended;
};
/// The same with the convergence history.
struct result_with_history {
  /// As in `result`.
  value solution, residual, iterations, ended;
  /// The norm of the residual before the first iteration and after each, along the dim that was given. Iterations
  /// beyond its extent are not kept. Elements beyond the last iteration are 0.
  value history;
};

/// No preconditioner.
struct identity {
  /// The same value.
  constexpr value operator()(const value& r) const { return r; }
};

namespace detail {

template <class M>
inline constexpr bool preconditions = !std::same_as<M, identity>;

/// Whether a method can compute with a right-hand side.
constexpr bool is_floating_vector(const operand& b, std::string_view method) {
  if (!b.from.ok()) return false;
  const element type = element_in(b.from);
  if (type == element::f32 || type == element::f64) return true;
  return b.from.in->fail(fault::not_floating, method, b.where).ok();
}

/// The return type of a lambda: nvcc cannot write the type of `std::array<value, 2>{a, b}` there for g++.
struct two_values {
  value first, second;
};
constexpr value inner(const value& a, const value& b) { return sum(a * b); }
constexpr value norm(const value& a) { return root_of_squares(sum(a * a)); }
/// x / y, and 0 if y is 0: the step of a direction that is finished. Nothing is divided by that 0, since its gradient
/// would be NaN.
constexpr value quotient(const value& x, const value& y) {
  const value none = y == 0;
  return select(none, zeros_like(x), x / select(none, 1, y));
}

/// The iterations of one solve: counts them, keeps their residuals, and knows when to stop. `Histories` is 0 or 1.
template <std::size_t Histories>
struct iteration {
  static_assert(Histories <= 1);
  using result_type = std::conditional_t<Histories == 0, result, result_with_history>;
  /// The values that a loop carries: the norm of the residual, the number of iterations, whether the method can
  /// continue, and the history.
  struct state {
    value residual, count, sound;
    std::array<value, Histories> history;
  };

  operand b;
  options when;
  std::array<dim_ref, Histories> along{};
  value limit{};
  /// Whether a residual below the limit can be told from one whose square is too small for the type. Always, if it is
  /// not given.
  value measured{};

  constexpr iteration(const operand& right, const options& o, const std::array<dim_ref, Histories>& steps)
      : b(right), when(o), along(steps) {
    const called_at user(b);
    const value size = norm(b.from);
    limit = scaled(size);
    if (!size.ok()) return;
    const element type = element_in(b.from);
    const double precision = type == element::f32 ? 0x1p-23 : 0x1p-52,
                 least = type == element::f32 ? 0x1p-63 : 0x1p-511;
    measured = (maximum(limit, precision * size) >= least) | (sum(cast(b.from != 0, type)) == 0);
  }
  /// For residuals that are relative already.
  constexpr iteration(const operand& right, const options& o, const std::array<dim_ref, Histories>& steps, double size)
      : b(right), when(o), along(steps) {
    const called_at user(b);
    limit = b.from.ok() ? scaled(number(size, element_in(b.from))) : b.from;
  }

  constexpr value number(double x, element type = element::i32) const { return b.from.in->constant(x, type, b.where); }
  constexpr bool starts() const { return when.start.in != nullptr; }
  constexpr value start() const { return starts() ? like_b(when.start) : zeros_like(b); }
  /// The result of an operator or a preconditioner. It has the dims of the right-hand side: without a dim it would be
  /// broadcast along it.
  template <class F>
  constexpr value applied(const F& f, const value& x) const {
    return like_b(f(x));
  }

  constexpr value residual_of(const value& product) const {
    const called_at user(b);
    return b.from - product;
  }

  /// The most iterations, as a value.
  constexpr value all() const {
    return when.iterations.is_literal ? number(when.iterations.literal) : when.iterations.from;
  }
  /// The number of iterations allowed: none if the first residual is small enough, or not a number.
  constexpr operand most(const state& first) const {
    const called_at user(b);
    const double given = when.iterations.literal;
    const bool counts = given >= 0 && given <= 0x7fffffff && given == static_cast<double>(static_cast<long>(given));
    if (when.iterations.is_literal && !counts) return operand(given, b.where.file, b.where.line);
    return operand(select(first.residual > limit, all(), zeros_like(all())), b.where.file, b.where.line);
  }
  constexpr state first(const value& residual) const {
    const called_at user(b);
    state s{residual, number(0), number(1, element::boolean), {}};
    for (std::size_t i = 0; i < Histories; ++i)
      s.history[i] = select(iota(b, along[i]) == 0, residual, zeros_like(residual));
    return s;
  }
  constexpr state next(const state& before, const value& residual, const value& sound) const {
    state s{residual, before.count + number(1), sound, {}};
    for (std::size_t i = 0; i < Histories; ++i)
      s.history[i] = select(iota(b, along[i]) == s.count, residual, before.history[i]);
    return s;
  }
  constexpr value stops(const state& s) const {
    const called_at user(b);
    return (s.residual <= limit) | !s.sound;
  }
  /// Whether a number is one, and not infinite.
  constexpr value finite(const value& x) const {
    return abs(x) <= (element_in(b.from) == element::f32 ? 0x1p127 : 0x1p1023);
  }
  /// A number or a value that was given, in the element type of the right-hand side.
  constexpr value given(const operand& x) const {
    if (!b.from.ok()) return b.from;
    const element type = element_in(b.from);
    return x.is_literal ? number(x.literal, type) : element_in(x.from) == type ? x.from : cast(x.from, type);
  }
  constexpr result_type outcome(const value& solution, const state& s) const {
    const called_at user(b);
    const value unfinished = select(s.sound & finite(s.residual), number(0), number(2));
    const value small = (s.residual <= limit) & finite(limit);
    const value done = measured.ok() ? select(measured, number(1), number(2)) : number(1);
    const value why = select(small, done, unfinished);
    if constexpr (Histories == 0) return {solution, s.residual, s.count, why};
    else return {solution, s.residual, s.count, why, s.history[0]};
  }
  /// After a fault.
  constexpr result_type refused() const {
    result_type all{};
    const value none{b.from.in, no_node};
    return tree_map([&](const value&) { return none; }, all);
  }

 private:
  constexpr value like_b(const value& x) const {
    if (!b.from.ok() || !x.ok()) return x;
    recorder& in = *b.from.in;
    const tensor_type &want = in.at(b.from).type, &got = in.at(x).type;
    const dim_set other = want.set() ^ got.set();
    if (want.element == got.element && other == 0) return x;
    std::string_view dim;
    for (dim_id d = 0; other != 0 && dim.empty(); ++d)
      if ((other & dim_bit(d)) != 0) dim = in.made().dims[d].name;
    return in.fail(fault::operator_changes_type, "solve", b.where, dim);
  }
  constexpr value scaled(const value& size) const {
    return when.tolerance.is_literal ? value(size * when.tolerance.literal) : value(size * when.tolerance.from);
  }
};

} // namespace detail

}}} // namespace cleave::v0::solve
