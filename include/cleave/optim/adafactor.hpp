// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/optim/leaves.hpp>
#include <cleave/optim/schedule.hpp>

#include <array>
#include <cstdint>

namespace cleave { inline namespace v0 { namespace optim {

namespace detail {

/// Which dim of a list is left out, counted from its end.
enum class position : std::uint8_t { last = 1, before_last = 2 };

template <class Mesh, std::size_t Out, class Done, std::size_t At, class... Rest>
struct without_entry {
  using type = Done;
};
template <class Mesh, std::size_t Out, class... Done, std::size_t At, class P, class... Rest>
struct without_entry<Mesh, Out, sharding<Mesh, nothing_unreduced, Done...>, At, P, Rest...>
    : without_entry<Mesh, Out,
                    std::conditional_t<At == Out, sharding<Mesh, nothing_unreduced, Done...>,
                                       sharding<Mesh, nothing_unreduced, Done..., P>>,
                    At + 1, Rest...> {};

/// The layout of a mean over one of the last two dims: those that remain keep their axes. Tensors of one dim or none
/// have one second moment, which is kept whole with the rows; with the columns there is a number that nothing reads.
template <class Sharding, position Out>
struct without_dim;
template <class Mesh, class Unreduced, class... P, position Out>
struct without_dim<sharding<Mesh, Unreduced, P...>, Out> {
  static constexpr std::size_t rank = sizeof...(P);
  static constexpr std::size_t out = rank >= 2 ? rank - std::size_t{underlying(Out)} : Out == position::last ? rank : 0;
  using type = typename without_entry<Mesh, out, sharding<Mesh, nothing_unreduced>, 0, P...>::type;
};

template <class T>
using moment_element = std::conditional_t<accumulator_of(element_of<T>) == element_of<T>, T, float>;

/// A tensor template with the arguments of another, whose dims it takes but one.
template <template <class, auto> class Tensor, position Out>
struct reduced {
  template <class T, auto Layout>
  using type = Tensor<moment_element<T>, typename without_dim<std::remove_cvref_t<decltype(Layout)>, Out>::type{}>;
};

/// An aggregate with `reduced` tensors.
template <class Weights, position Out>
struct reduced_tree {
  using type = Weights;
};
template <template <class, auto> class Tensor, class T, auto Layout, position Out>
  requires TensorType<Tensor<T, Layout>>
struct reduced_tree<Tensor<T, Layout>, Out> {
  using type = typename reduced<Tensor, Out>::template type<T, Layout>;
};
template <template <template <class, auto> class> class Aggregate, template <class, auto> class Tensor, position Out>
struct reduced_tree<Aggregate<Tensor>, Out> {
  using type = Aggregate<reduced<Tensor, Out>::template type>;
};
template <class T, std::size_t N, position Out>
struct reduced_tree<std::array<T, N>, Out> {
  using type = std::array<typename reduced_tree<T, Out>::type, N>;
};
template <template <class...> class Aggregate, class... T, position Out>
struct reduced_tree<Aggregate<T...>, Out> {
  using type = Aggregate<typename reduced_tree<T, Out>::type...>;
};

} // namespace detail

/// The weights as Adafactor keeps their second moments: each tensor with two or more dims without its last dim; the
/// other dims keep their axes. float for 16-bit weights. `Weights` is a template over
/// `template <class, auto> class Tensor`, a template over types, a std::array, or a tensor.
template <class Weights>
using rows_of = typename detail::reduced_tree<Weights, detail::position::last>::type;
/// The same, without the dim before the last one.
template <class Weights>
using columns_of = typename detail::reduced_tree<Weights, detail::position::before_last>::type;

/// The state of Adafactor: means of squared gradients over the last dim and over the dim before it, and the number of
/// steps, a rank-0 tensor. A matrix has one number for each row and one for each column instead of one for each weight.
/// All start as zeros. Tensors with fewer than two dims have a whole second moment in `rows` and an unused number in
/// `columns`. The types follow from those of the weights: `adafactor_state<Weights, Number>`.
template <class Weights, class Number>
struct adafactor_state {
  rows_of<Weights> rows;
  columns_of<Weights> columns;
  Number steps;
};

/// Options of Adafactor.
struct adafactor_options {
  /// Step t has the weight t^-decay in the means, t = 1, 2, ...
  double decay = 0.8;
  /// Added to squares, so that no mean is 0.
  double epsilon = 1e-30;
  /// Updates whose root mean square over a whole tensor exceeds this are scaled down to it.
  double clip = 1;
  /// The rate of a tensor is multiplied by its root mean square, or by `least_scale` if that is greater.
  bool parameter_scale = true;
  double least_scale = 1e-3;
  /// Decoupled weight decay, times the rate.
  double weight_decay = 0;
};

namespace detail {

/// The mean of x over the dims that it has and `like` lacks.
constexpr value mean_like(const value& x, const value& like) {
  if (!x.ok() || !like.ok()) return x;
  recorder& in = *x.in;
  const source where = in.at(x).where;
  const dim_set gone = in.at(x).type.set() & ~in.at(like).type.set();
  return gone == 0 ? x : in.reduce(reduction::sum, x, gone, where) / in.count(gone, element_in(x), where);
}

/// One weight and the state of its update.
struct adafactor_leaf {
  value weight, gradient, row, column;
  /// Whether its second moment is kept as means over two dims; otherwise it is kept in `row`.
  bool factored;
  /// The mean of the rows, then the mean square of the update; the mean square of the weight.
  value length{}, size{};
};

// Each of these functions computes one mean for all leaves before any reader of it: so the reductions of all leaves are
// adjacent and share messages.

/// The new means of squared gradients, along rows and along columns.
constexpr void average_squares(indexed_vector<adafactor_leaf>& all, const value& fresh, double epsilon) {
  indexed_vector<fixed_array<value, 2>> squares;
  for (const auto& l : all) {
    const value square = l.gradient * l.gradient + epsilon;
    squares.push_back({mean_like(square, l.row), l.factored ? mean_like(square, l.column) : square});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& l = all[i];
    l.row = l.row + fresh * (squares[i][0] - l.row);
    if (l.factored) l.column = l.column + fresh * (squares[i][1] - l.column);
  }
}
/// Makes rows relative to the mean of all rows: the second moment is row * column. The two are not multiplied with each
/// other, because the product underflows in float if gradients are 0.
constexpr void normalize_rows(indexed_vector<adafactor_leaf>& all) {
  for (auto& l : all)
    if (l.factored) l.length = mean_like(l.row, l.column);
  for (auto& l : all)
    if (l.factored) l.row = l.row / l.length;
}
/// The mean squares of whole updates and weights. The updates themselves are computed again later, so they are not
/// stored.
constexpr void measure(indexed_vector<adafactor_leaf>& all, bool weights_too) {
  for (auto& l : all) {
    l.length = mean((l.gradient / l.row) * (l.factored ? l.gradient / l.column : l.gradient));
    if (weights_too) l.size = mean(l.weight * l.weight);
  }
}

} // namespace detail

/// One step of Adafactor (Shazeer and Stern 2018; optax.adafactor without a first moment): the new weights and state.
/// The second moment of a tensor with two or more dims is the product of its means over the last dim and over the dim
/// before it, divided by the mean over both. Dims before these, such as stacked layers, have separate moments. `rate`
/// is a number, the value of a schedule, or a rank-0 value. 16-bit weights are computed in float. Layouts are those of
/// the weights. Communication: three rounds of reductions, each for all leaves together, and no gather: means along
/// sharded dims, then sums of these, then two numbers for each sharded tensor. Fault: result_count.
template <class Weights, class State, class Rate>
constexpr std::tuple<Weights, State> adafactor(const Weights& weights, const State& state, const Weights& gradients,
                                               const Rate& rate, const adafactor_options& o = {},
                                               source where = source::here()) {
  const called_at user(operand(state.steps, where.file, where.line), "adafactor");
  const value steps = detail::step_done(state.steps) + 1;
  const value fresh = detail::as_number(pow(steps, -o.decay));
  indexed_vector<detail::adafactor_leaf> all;
  const auto begin = [&](const value& w, const value& g, const value& r, const value& c) {
    all.push_back({widened(w), widened(g), r, c, w.ok() && r.ok() && w.in->at(w).type.rank > r.in->at(r).type.rank});
    return w;
  };
  tree_map(begin, weights, gradients, state.rows, state.columns);
  // If the aggregates differ in their number of leaves, tree_map has reported it.
  if (all.empty()) return {weights, state};

  detail::average_squares(all, fresh, o.epsilon);
  State s = state;
  s.steps = state.steps + 1;
  s.rows = tree_map([&, i = std::size_t{0}](const value&) mutable { return all[i++].row; }, state.rows);
  s.columns = tree_map([&, i = std::size_t{0}](const value&) mutable { return all[i++].column; }, state.columns);
  detail::normalize_rows(all);
  detail::measure(all, o.parameter_scale);
  auto updated = [&, i = std::size_t{0}](const value& w) mutable {
    const auto& l = all[i++];
    const value direction = l.gradient * (rsqrt(l.row) / maximum(root_of_squares(l.length) / o.clip, 1));
    value update = detail::as_number(rate) * (l.factored ? direction * rsqrt(l.column) : direction);
    if (o.parameter_scale) update = update * maximum(root_of_squares(l.size), o.least_scale);
    if (o.weight_decay != 0) update = update + detail::as_number(rate) * (o.weight_decay * l.weight);
    return in_type(l.weight - update, element_in(w));
  };
  return {tree_map(updated, weights), s};
}

/// The same with the decreasing rate of the paper: min(0.01, 1 / sqrt(t)) times the root mean square of each tensor.
template <class Weights, class State>
constexpr std::tuple<Weights, State> adafactor(const Weights& weights, const State& state, const Weights& gradients,
                                               source where = source::here()) {
  const called_at user(operand(state.steps, where.file, where.line), "adafactor");
  // 1 / sqrt(t) falls below 0.01 at t = 10^4.
  const value t = detail::step_done(state.steps) + 1;
  return adafactor(weights, state, gradients, detail::as_number(minimum(rsqrt(t), 0.01)), adafactor_options{}, where);
}

}}} // namespace cleave::v0::optim
