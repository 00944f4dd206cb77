// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/record/numbered_names.hpp>

#include <functional>

namespace cleave::nn {

/// The number of experts for each token: one (Switch, Fedus et al. 2021) or two (GShard, Lepikhin et al. 2020).
enum class choices : std::uint8_t { top1, top2 };

/// The dims of a mixture of experts. Tokens along `token` compete for slots: each expert takes at most `capacity` of
/// them from each group, which is an index of the other dims of the tokens. The extent of `capacity` is fixed, or an
/// argument has the dim.
struct moe_dims {
  dim_ref token, embed, expert, capacity;
};

/// The result of a mixture of experts.
struct moe_result {
  /// With the dims of x: the weighted results of the experts for each token; 0 for tokens that got no slot.
  value mixed;
  /// Rank 0: experts * the sum over experts of (share of tokens whose first choice it is) * (its mean probability),
  /// averaged over groups. It is 1 if all experts are used equally (Fedus et al. 2021, eq. 4). Add it to the loss with
  /// a small weight.
  value load_balancing_loss;
};

namespace detail {
/// All places of all experts, called by the numbers of the dims of experts and of places: layers may have several of either.
inline constexpr auto slots_of_dims = cleave::detail::names_of_pairs("slot");

/// A choice of one expert for every token, in order: which, with what probability, and the place among those who chose the same.
struct routed {
  value expert, gate, hits, place;
};
constexpr routed route(const value& gates, const value& open, const value& taken, const moe_dims& d) {
  const value free = open.ok() ? gates * open : gates;
  routed r;
  r.expert = argmax(free, d.expert);
  r.hits = cast(one_hot(r.expert, d.expert), gates.in->at(gates).type.element);
  r.gate = sum(free * r.hits, d.expert);
  const value whole = cast<std::int32_t>(r.hits);
  const value before = cumulative_sum(whole, d.token, running::forward_exclusive);
  r.place = sum((taken.ok() ? before + taken : before) * whole, d.expert);
  return r;
}
} // namespace detail

/// Sends every token of x [groups..., token, embed] to the experts that `router` [embed, expert] scores highest for it,
/// as far as they have slots, and adds their weighted results. `experts(sent)` receives [expert, capacity, groups...,
/// embed] and returns the same dims. `pin` constrains the tokens that are sent and come back. Communication: if `pin`
/// shards `expert` over an axis that shards the groups of x, one all-to-all in each direction and nothing else. Tokens
/// are moved by index, not by products with masks. Fault: dim_missing.
template <class Experts, class Pin>
constexpr moe_result mixture_of_experts(operand x, operand router, const moe_dims& d, choices how, const Experts& experts, const Pin& pin) {
  const source where = x.where;
  recorder& in = *x.from.in;
  if (!x.from.ok() || !router.from.ok()) return {{&in, no_node}, {&in, no_node}};
  const int e = in.dim(d.expert, "mixture_of_experts", where), c = in.dim(d.capacity, "mixture_of_experts", where);
  if (e < 0 || c < 0) return {{&in, no_node}, {&in, no_node}};
  const dim_ref slot{cleave::detail::name_of_pair(detail::slots_of_dims, e, c)};
  const element type = in.at(x.from).type.element;
  std::array<value, 2> slots, gates;
  const std::size_t count = how == choices::top1 ? 1 : 2;
  value sent, balancing;
  {
    const called_at user(x);
    const value likes = softmax(dot(x, router, d.embed), d.expert);
    const detail::routed first = detail::route(likes, {}, {}, d);
    if (!first.place.ok()) return {{&in, no_node}, {&in, no_node}};
    const value capacity = in.count(dim_bit(static_cast<dim_id>(c)), element::i32, where);
    const auto place_of = [&](const detail::routed& r) { return select(r.place < capacity, r.expert * capacity + r.place, -1); };
    slots[0] = place_of(first);
    gates[0] = first.gate;
    if (count == 2) {
      // Second choices come after all first ones.
      const detail::routed second = detail::route(likes, 1.0 - first.hits, sum(cast<std::int32_t>(first.hits), d.token), d);
      slots[1] = place_of(second);
      const value both = first.gate + second.gate;
      gates = {first.gate / both, second.gate / both};
    }
    const value share = mean(first.hits, d.token), belief = mean(likes, d.token);
    balancing = mean(sum(stop_gradient(share) * belief, d.expert) * cast(in.count(dim_bit(static_cast<dim_id>(e)), element::i32, where), type));

    // Each group has places of its own.
    const tensor_type competing = in.at(first.place).type;
    static_vector<dim_ref, max_rank> groups;
    for (int i = 0; i < competing.rank; ++i)
      if (const std::string_view name = in.made().dims[competing[i]].name; name != d.token.name) groups.push_back(dim_ref(name));
    for (std::size_t k = 0; k < count; ++k) {
      const value part = scatter_add(x, slots[k], slot, {groups.begin(), groups.size()});
      sent = k == 0 ? part : sent + part;
    }
    sent = pin(split(sent, slot, d.expert, d.capacity));
  }
  const value made = pin(experts(sent));
  const called_at user(x);
  const value back = merge(made, d.expert, d.capacity, slot);
  value mixed;
  for (std::size_t k = 0; k < count; ++k) {
    const value part = gather(back, slot, slots[k]) * gates[k];
    mixed = k == 0 ? part : mixed + part;
  }
  return {mixed, balancing};
}

} // namespace cleave::nn
