// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/movement.hpp>
#include <cleave/solve/iteration.hpp>

#include <array>

namespace cleave { inline namespace v0 { namespace solve {

namespace detail {

/// Two dims for the vectors of a cycle of `Restart` iterations: one more than iterations. Their names belong to GMRES.
template <int Restart>
struct krylov {
  static constexpr auto letters = [] {
    std::array<char, 16> all{'k', 'r', 'y', 'l', 'o', 'v', ' '};
    for (std::size_t i = 15, rest = Restart; i > 7; --i, rest /= 10) all[i - 1] = static_cast<char>('0' + rest % 10);
    return all;
  }();
  static constexpr auto other_letters = [] {
    auto all = letters;
    return all[0] = 'c', all;
  }();
  static constexpr dim_ref basis{std::string_view(letters.data(), 15), Restart + 1};
  static constexpr dim_ref column{std::string_view(other_letters.data(), 15), Restart + 1};
};

/// The values that a cycle carries: the basis, its last vector, the Hessenberg matrix, whose columns are along the dim
/// `column`, and the number of columns. `null` is the vector c with c H = 0 and first element 1: the residual of the
/// least squares problem is a multiple of it, so that no rotations are needed (Ayachour 2003).
template <class Loop>
struct gmres_cycle {
  value basis, last, hessenberg, null, columns;
  typename Loop::state loop;
};
template <class Loop>
struct gmres_state {
  value x, r;
  typename Loop::state loop;
};
/// The values that back substitution carries from column to column.
struct substitution {
  value right, column;
};

template <int Restart, class Loop, class A, class M>
class gmres_method {
  using dims = krylov<Restart>;
  using cycle = gmres_cycle<Loop>;
  using state = gmres_state<Loop>;

 public:
  constexpr gmres_method(const Loop& l, const A& operation, const M& preconditioner)
      : loop_(l), a_(operation), m_(preconditioner) {}

  constexpr auto solved() const {
    const value x = loop_.start();
    const value r = loop_.starts() ? loop_.residual_of(loop_.applied(a_, x)) : loop_.b.from;
    const state first = [&] {
      const called_at user(loop_.b);
      return state{x, r, loop_.first(norm(r))};
    }();
    const state last = repeat_until(
        first, [&](const state& s) { return restarted(s); },
        [&](const state& s) {
          const value stops = loop_.stops(s.loop);
          const called_at user(loop_.b);
          return value(stops | (s.loop.count >= cast<std::int32_t>(loop_.all())));
        },
        loop_.most(first.loop));
    return loop_.outcome(last.x, last.loop);
  }

 private:
  /// One cycle: the approximation that is best in the space of its basis, and its true residual.
  constexpr state restarted(const state& s) const {
    const std::pair<cycle, value> start = begun(s);
    const value size = start.second;
    const cycle last = repeat_until(
        start.first, [&](const cycle& c) { return extended(c, size); },
        [&](const cycle& c) { return loop_.stops(c.loop); }, most(s));
    const value direction = loop_.applied(m_, combined(last, size));
    const value x = [&] {
      const called_at user(loop_.b);
      return value(s.x + direction);
    }();
    const value r = loop_.residual_of(loop_.applied(a_, x));
    const called_at user(loop_.b);
    // The residual becomes larger by rounding at most, unless the operator is singular.
    const value residual = norm(r), taken = last.loop.sound & loop_.finite(residual) & (residual <= 1.001 * size);
    state next{select(taken, x, s.x), select(taken, r, s.r), last.loop};
    next.loop.residual = select(taken, residual, size);
    next.loop.sound = taken;
    return next;
  }
  constexpr std::pair<cycle, value> begun(const state& s) const {
    const called_at user(loop_.b);
    const value size = norm(s.r), unit = s.r / size;
    const value basis = select(at(dims::basis, 0), unit, rows(dims::basis, unit));
    const value null = select(at(dims::basis, 0), zeros_like(size) + 1, zeros_like(size));
    return {cycle{basis, unit, rows(dims::column, null), null, loop_.number(0), s.loop}, size};
  }
  constexpr operand most(const state& s) const {
    const called_at user(loop_.b);
    const value left = cast<std::int32_t>(loop_.all()) - s.loop.count;
    return operand(minimum(left, Restart), loop_.b.where.file, loop_.b.where.line);
  }
  /// One more vector, orthogonal to all others: classical Gram-Schmidt twice, whose products with all vectors are one
  /// reduction.
  constexpr cycle extended(const cycle& c, const value& size) const {
    const value image = loop_.applied(a_, loop_.applied(m_, c.last));
    const called_at user(loop_.b);
    const value h = products(c.basis, image);
    const value once = image - dot(h, c.basis, dims::basis);
    const value again = products(c.basis, once);
    const value w = once - dot(again, c.basis, dims::basis);
    const value all = h + again;
    const value length = norm(w);
    // If the space is exhausted the length is 0 but for rounding.
    const double precision = element_in(loop_.b.from) == element::f32 ? 0x1p-23 : 0x1p-52;
    const value below = maximum(length, precision * sqrt(sum(all * all) + length * length));
    const value unit = w / below;
    const value here = at(dims::basis, c.columns + 1);
    const value null = select(here, -sum(all * c.null) / below, c.null);
    const value far = norm(null), residual = size / far;
    return {select(here, unit, c.basis),
            unit,
            select(at(dims::column, c.columns), select(here, below, all), c.hessenberg),
            null,
            c.columns + 1,
            loop_.next(c.loop, residual, loop_.finite(residual) & loop_.finite(far))};
  }
  /// The combination of the basis that leaves that residual: rows 1, 2, ... of the Hessenberg matrix are triangular.
  constexpr value combined(const cycle& c, const value& size) const {
    const called_at user(loop_.b);
    const value right = -size / sum(c.null * c.null) * c.null;
    const auto [done, weights] = scan(
        dims::column, substitution{right, loop_.number(Restart)}, c.hessenberg,
        [&](const substitution& s, const value& column) {
          const value diagonal = at(dims::basis, s.column + 1);
          const value weight = quotient(sum(select(diagonal, s.right, 0)), sum(select(diagonal, column, 0)));
          return std::pair(substitution{s.right - weight * column, s.column - 1}, weight);
        },
        direction::backward);
    return dot(rename(weights, dims::column, dims::basis), c.basis, dims::basis);
  }

  /// Zeros with one dim more than a value, which comes first.
  constexpr value rows(dim_ref along, const value& each) const {
    recorder& in = *loop_.b.from.in;
    const int d = in.dim(along, "gmres", loop_.b.where);
    if (d < 0 || !each.ok()) return {&in, no_node};
    const tensor_type& like = in.at(each).type;
    if (like.rank == max_rank) return in.fail(fault::rank_too_high, "gmres", loop_.b.where);
    tensor_type t;
    t.element = like.element;
    t.append(d);
    for (int i = 0; i < like.rank; ++i) t.append(like[i]);
    return in.zeros(t, loop_.b.where);
  }
  constexpr value at(dim_ref along, operand place) const { return iota(loop_.b, along) == place; }
  /// The products of all vectors of the basis with one.
  constexpr value products(const value& basis, const value& w) const {
    recorder& in = *loop_.b.from.in;
    return w.ok() && basis.ok() ? in.dot(basis, w, in.at(loop_.b.from).type.set(), loop_.b.where) : value{&in, no_node};
  }

  const Loop& loop_;
  const A& a_;
  const M& m_;
};

template <int Restart, class A, class M, class... History>
constexpr auto gmres_of(const A& a, operand b, const options& when, const M& m, const History&... history) {
  using loop_type = iteration<sizeof...(History)>;
  const bool possible = is_floating_vector(b, "gmres"); // before the norm of b, which would name itself
  const loop_type loop(b, when, {dim_ref(history)...});
  if (!possible) return loop.refused();
  return gmres_method<Restart, loop_type, A, M>(loop, a, m).solved();
}
template <int Restart, class A, class M, class... History>
constexpr auto gmres_statement(const A& a, operand b, operand tolerance, operand most, const M& m,
                               const History&... history) {
  return gmres_of<Restart>(a, b, {tolerance, most}, m, history...);
}
CLEAVE_LIFT_TEMPLATE(gmres_statement, int Restart, Restart)

} // namespace detail

/// GMRES(m) (Saad and Schultz 1986; Saad 2003, algorithms 6.9 and 9.5, with a preconditioner on the right): the
/// solution of A x = b for any operator: `gmres<30>(a, b)`. It starts again after `Restart` iterations. The arguments
/// are those of `cg`; neither `a` nor `m` need be symmetric.
///
/// `b` has any dims and any layout; its element type is float or double. Memory: Restart + 1 vectors like b, in its
/// layout. The vectors are made orthogonal by classical Gram-Schmidt, twice (Giraud, Langou, Rozloznik and van den
/// Eshof 2005). Communication in each iteration: that of `a` and of `m`, two all-reduces of Restart + 1 numbers, and
/// one of a number. After each cycle the true residual takes `a` once more. The residuals of the history within a cycle
/// are those of the least squares problem. It breaks down if a number is not finite. There is no derivative. Faults:
/// not_floating, not_a_count, operator_changes_type, rank_too_high.
template <int Restart = 30, class A, class M = identity, Dim... History>
  requires(Restart > 0 && Restart < 100'000'000)
constexpr auto gmres(const A& a, operand b, const options& when = {}, const M& m = {}, const History&... history) {
  return detail::gmres_of<Restart>(a, b, when, m, history...);
}
/// The same as a statement, as for `cg`.
template <int Restart = 30, class A, Statement B, class M = identity, Dim... History>
constexpr auto gmres(const A& a, const B& b, const options& when = {}, const M& m = {}, const History&... history) {
  return detail::gmres_statement<Restart>(a, b, when.tolerance.literal, when.literal_iterations(), m, history...);
}

}}} // namespace cleave::v0::solve
