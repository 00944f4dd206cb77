// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/expr/functions.hpp>
#include <cleave/layout/sharding.hpp>
#include <cleave/nn/attention.hpp>

namespace cleave { inline namespace v0 { namespace nn {

namespace detail {

/// Whether a rule gives an axis to its dim in a tensor with these dims: it does, unless an earlier rule gives the axis
/// to another of these dims.
constexpr bool keeps_axis(indexed_span<const placement> rules, std::size_t rule, std::string_view axis,
                          indexed_span<const std::string_view> dims) {
  for (std::size_t r = 0; r < rule; ++r) {
    bool applies = false, takes = false;
    for (std::string_view d : dims) applies = applies || d == rules[r].dim.name;
    for (std::string_view a : rules[r].axes) takes = takes || a == axis;
    if (applies && takes) return false;
  }
  return true;
}

template <class... Entries>
struct dim_list {};
template <class A, class B>
struct concatenated;
template <class... A, class... B>
struct concatenated<dim_list<A...>, dim_list<B...>> {
  using type = dim_list<A..., B...>;
};

/// The dims that a rule puts before and after a dim.
template <class D, class Rule>
struct company {
  using before = dim_list<>;
  using after = dim_list<>;
};

/// A dim sharded over those of the axes that it keeps.
template <class Entry, class Tensor, std::size_t Rule, class... Axes>
struct kept_axes {
  using type = Entry;
};
template <class Entry, class Tensor, std::size_t Rule, class A, class... Rest>
struct kept_axes<Entry, Tensor, Rule, A, Rest...>
    : kept_axes<
          typename std::conditional_t<Tensor::keeps(Rule, A::info.name), std::type_identity<decltype(Entry{} / A{})>,
                                      std::type_identity<Entry>>::type,
          Tensor, Rule, Rest...> {};

/// A dim as its rule shards it, if it has one.
template <class D, class Tensor, std::size_t Rule, class... Rules>
struct ruled {
  using type = D;
};
template <class D, class Tensor, std::size_t Rule, class... Axes, class... Rest>
struct ruled<D, Tensor, Rule, sharded_dim<D, Axes...>, Rest...> : kept_axes<D, Tensor, Rule, Axes...> {};
template <class D, class Tensor, std::size_t Rule, class Other, class... Rest>
struct ruled<D, Tensor, Rule, Other, Rest...> : ruled<D, Tensor, Rule + 1, Rest...> {};

} // namespace detail

/// A rule that gives tensors with one dim another dim next to it: the type of `before(batch, microbatch)` and
/// `after(layer, stage / model)`.
template <class D, class Entry, bool Before>
struct accompanied;
template <class D, class Other, class... Axes, bool Before>
struct accompanied<D, sharded_dim<Other, Axes...>, Before> {
  static constexpr placement value = sharded_dim<Other, Axes...>::value;
};
/// A rule: tensors that have the first dim have the second one before it. The second dim may be sharded, as in
/// `stage / model`.
template <Dim D, class Entry>
constexpr accompanied<D, placement_of<Entry>, true> before(const D&, const Entry&) {
  return {};
}
/// A rule: tensors that have the first dim have the second one after it.
template <Dim D, class Entry>
constexpr accompanied<D, placement_of<Entry>, false> after(const D&, const Entry&) {
  return {};
}

namespace detail {
template <class D, class Other, class... Axes>
struct company<D, accompanied<D, sharded_dim<Other, Axes...>, true>> {
  using before = dim_list<Other>;
  using after = dim_list<>;
};
template <class D, class Other, class... Axes>
struct company<D, accompanied<D, sharded_dim<Other, Axes...>, false>> {
  using before = dim_list<>;
  using after = dim_list<Other>;
};
template <class D, class Tensor, std::size_t Rule, class At, class... Axes, bool Before, class... Rest>
struct ruled<D, Tensor, Rule, accompanied<At, sharded_dim<D, Axes...>, Before>, Rest...>
    : kept_axes<D, Tensor, Rule, Axes...> {};

/// All dims of a tensor, with those that the rules add.
template <class Done, class Rules, class... D>
struct expanded {
  using type = Done;
};
template <class... Done, class... Rules, class D, class... Rest>
struct expanded<dim_list<Done...>, dim_list<Rules...>, D, Rest...> {
  template <class List, class... Lists>
  struct all {
    using type = List;
  };
  template <class First, class Second, class... Lists>
  struct all<First, Second, Lists...> : all<typename concatenated<First, Second>::type, Lists...> {};
  using own = typename all<dim_list<Done...>, typename company<D, Rules>::before..., dim_list<D>,
                           typename company<D, Rules>::after...>::type;
  using type = typename expanded<own, dim_list<Rules...>, Rest...>::type;
};

} // namespace detail

/// The mesh axes that shard dims, for all tensors of a kind (the layout rules of Mesh-TensorFlow):
/// `layout_rules{mesh, heads / model, batch / data}`. Dims without a rule are not sharded. If two dims of a tensor have
/// rules for the same axis, the first rule wins.
template <class Mesh, class... Rules>
struct layout_rules {
  constexpr layout_rules() = default;
  /// Deduces the mesh and the rules.
  constexpr explicit layout_rules(const Mesh&, const Rules&...) {}

  /// The rules as data, for `layout_table`.
  static constexpr indexed_span<const placement> list() { return rules; }

  /// The layout of tensors with these dims, for a tensor type: `tensor<float, rules(embed, heads, head)>`.
  template <Dim... D>
  constexpr auto operator()(const D&...) const {
    return laid_out(typename detail::expanded<detail::dim_list<>, detail::dim_list<Rules...>, D...>::type{});
  }

  /// Inside a function: x, with all its dims pinned as the rules say.
  friend constexpr value constrain(operand x, const layout_rules&) {
    if (!x.from.ok()) return x.from;
    const graph& g = x.from.in->made();
    const tensor_type& type = g.nodes[x.from.id].type;
    static_vector<std::string_view, max_rank> names;
    for (int i = 0; i < type.rank; ++i) names.push_back(g.dims[type[i]].name);
    spec s;
    s.mesh = Mesh::value;
    for (std::string_view name : names) {
      placement p{dim_ref(name)};
      std::size_t own = 0;
      while (own < sizeof...(Rules) && rules[own].dim.name != name) ++own;
      if (own < sizeof...(Rules))
        for (std::string_view axis : rules[own].axes)
          if (detail::keeps_axis(rules, own, axis, {names.begin(), names.size()})) p.axes.push_back(axis);
      s.dims.push_back(p);
    }
    return cleave::constrain(x, s);
  }

 private:
  static constexpr std::array<placement, sizeof...(Rules)> rules{Rules::value...};
  template <class... D>
  static constexpr auto laid_out(detail::dim_list<D...>) {
    return Mesh{}(typename detail::ruled<D, dims_of<D...>, 0, Rules...>::type{}...);
  }
  template <class... D>
  struct dims_of {
    static constexpr bool keeps(std::size_t rule, std::string_view axis) {
      return detail::keeps_axis(rules, rule, axis, std::array<std::string_view, sizeof...(D)>{D::ref.name...});
    }
  };
};

/// A schedule: layer after layer, planned once. With `Recompute` the backward pass recomputes each layer from its input
/// and keeps nothing else (Chen et al. 2016).
template <bool Recompute = false>
struct layer_by_layer {
  static constexpr bool recompute = Recompute;
};

/// A schedule: layers in stages, along a dim that the rules put after the dim of layers; batches in microbatches, along
/// a dim that the rules put before the dim of the batch. See `pipeline`. With `Rounds` above 1 the schedule is
/// circular, and parameters have dim `Round` too.
template <class Stage, class Microbatch, int Rounds = 1, class Round = dim<"round", Rounds>, bool Recompute = false>
struct pipelined {
  static constexpr bool recompute = Recompute;
  static constexpr dim_ref stage = Stage::ref, microbatch = Microbatch::ref, round = Round::ref;
  static constexpr int rounds = Rounds;
  constexpr pipelined() = default;
  /// Deduces the dims of stages and microbatches.
  constexpr pipelined(const Stage&, const Microbatch&) {}
};
template <class Stage, class Microbatch>
pipelined(const Stage&, const Microbatch&) -> pipelined<Stage, Microbatch>;

/// The layout of a whole model as a small table: of its parameters, its activations and the state of the optimizer,
/// which follows the parameters unless it has rules of its own (ZeRO); the schedule of its layers; and how attention is
/// computed.
template <class Parameters, class Activations, class State = Parameters, class Schedule = layer_by_layer<>,
          class Attention = all_scores>
struct model_layout {
  Parameters parameters{};
  Activations activations{};
  State state{};
  Schedule schedule{};
  Attention attention{};

  /// The same table with another schedule: `layer_by_layer<true>{}`, `pipelined{stage, microbatch}`.
  template <class Other>
  constexpr model_layout<Parameters, Activations, State, Other, Attention> scheduled(const Other&) const {
    return {};
  }
  /// The same table with another kind of attention: `in_blocks{block}`, `around_ring{ring}`.
  template <class Other>
  constexpr model_layout<Parameters, Activations, State, Schedule, Other> attending(const Other&) const {
    return {};
  }
};
template <class P, class A>
model_layout(P, A) -> model_layout<P, A>;
template <class P, class A, class S>
model_layout(P, A, S) -> model_layout<P, A, S>;

}}} // namespace cleave::v0::nn
