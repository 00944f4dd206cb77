// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/values.hpp>

#include <functional>
#include <limits>

namespace cleave { inline namespace v0 { namespace nn {

/// The number of experts for each token: one (Switch, Fedus et al. 2021) or two (GShard, Lepikhin et al. 2020).
enum class experts_per_token : std::uint8_t { one, two };
/// The former names of `experts_per_token`.
struct choices {
  static constexpr experts_per_token top1 = experts_per_token::one, top2 = experts_per_token::two;
};

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
/// A choice of one expert for every token, in order: its number, its probability, whether it is each expert, and the
/// position among the tokens that chose the same expert.
struct routed {
  value expert, gate, hits, position;
};
/// The expert with the highest score but those of `excluded`. Scores decide: of probabilities that round to 0 or to
/// each other, none is the highest.
constexpr routed route(const value& scores, const value& gates, const value& excluded, const value& taken,
                       const moe_dims& d) {
  const double least = -std::numeric_limits<double>::infinity();
  routed r;
  r.expert = argmax(excluded.ok() ? select(excluded, least, scores) : scores, d.expert);
  r.hits = one_hot(r.expert, d.expert, element::boolean);
  r.gate = sum(select(r.hits, gates, 0), d.expert);
  const value before = cumulative_sum(cast<std::int32_t>(r.hits), d.token, running::forward_exclusive);
  r.position = sum(select(r.hits, taken.ok() ? before + taken : before, 0), d.expert);
  return r;
}

/// The slots of each token's experts, -1 if it got none, and the weights of their results.
struct expert_slots {
  int count = 0;
  fixed_array<value, 2> slot{}, gate{};
  value balancing{};
};
constexpr expert_slots choose_experts(const operand& x, const operand& router, const moe_dims& d,
                                      experts_per_token how) {
  const value scores = widened(dot(x, router, d.embed)), likes = softmax(scores, d.expert);
  const routed first = route(scores, likes, {}, {}, d);
  if (!first.position.ok()) return {};
  const value capacity = count<std::int32_t>(x, d.capacity);
  const auto slot_of = [&](const routed& r) {
    return select(r.position < capacity, r.expert * capacity + r.position, -1);
  };
  expert_slots chosen;
  chosen.count = how == experts_per_token::one ? 1 : 2;
  chosen.slot[0] = slot_of(first);
  chosen.gate[0] = first.gate;
  if (how == experts_per_token::two) {
    // Second choices come after all first ones.
    const routed second = route(scores, likes, first.hits, sum(cast<std::int32_t>(first.hits), d.token), d);
    // A token whose other scores are all minus infinity has no second expert.
    const value none = second.expert == first.expert;
    chosen.slot[1] = select(none, -1, slot_of(second));
    const value other = select(none, 0, second.gate), both = first.gate + other;
    chosen.gate[0] = first.gate / both;
    chosen.gate[1] = other / both;
  }
  const value share = mean(cast(first.hits, element_in(likes)), d.token), belief = mean(likes, d.token);
  chosen.balancing = mean(sum(stop_gradient(share) * belief, d.expert) *
                          cast(count<std::int32_t>(x, d.expert), element_in(likes)));
  chosen.balancing = in_type(chosen.balancing, element_in(x.from));
  return chosen;
}
/// Sends the tokens to their slots. Each group, an index of the dims of `slot` but the tokens, has slots of its own.
constexpr value send_tokens(const operand& x, const expert_slots& to, const moe_dims& d, dim_ref slot) {
  const recorder& in = *x.from.in;
  const tensor_type competing = in.at(to.slot[0]).type;
  static_vector<dim_ref, max_rank> groups;
  for (int i = 0; i < competing.rank; ++i)
    if (const std::string_view name = in.made().dims[competing[i]].name; name != d.token.name)
      groups.push_back(dim_ref(name));
  value sent;
  for (int k = 0; k < to.count; ++k) {
    const value part = scatter_add(x, to.slot[k], slot, {groups.begin(), groups.size()});
    sent = k == 0 ? part : sent + part;
  }
  return split(sent, slot, d.expert, d.capacity);
}
} // namespace detail

/// Sends every token of x [groups..., token, embed] to the experts that `router` [embed, expert] scores highest for it,
/// as far as they have slots, and adds their weighted results. `experts(sent)` receives [expert, capacity, groups...,
/// embed] and returns the same dims. `pin` constrains the tokens that are sent and come back. Communication: if `pin`
/// shards `expert` over an axis that shards the groups of x, one all-to-all in each direction and nothing else. Tokens
/// are moved by index, not by products with masks. Fault: dim_missing.
template <class Experts, class Pin>
constexpr moe_result mixture_of_experts(operand x, operand router, const moe_dims& d, experts_per_token how,
                                        const Experts& experts, const Pin& pin) {
  const value none{x.from.in, no_node};
  if (!x.from.ok() || !router.from.ok()) return {none, none};
  const dim_ref slot = derived_dim<"slot">(x, "mixture_of_experts", d.expert, d.capacity);
  if (slot.name.empty()) return {none, none};
  detail::expert_slots to;
  value sent;
  {
    const called_at user(x);
    to = detail::choose_experts(x, router, d, how);
    if (to.count == 0) return {none, none};
    sent = pin(detail::send_tokens(x, to, d, slot));
  }
  const value made = pin(experts(sent));
  const called_at user(x);
  const value back = merge(made, d.expert, d.capacity, slot);
  value mixed;
  for (int k = 0; k < to.count; ++k) {
    const value part = widened(gather(back, slot, to.slot[k])) * to.gate[k];
    mixed = k == 0 ? part : mixed + part;
  }
  return {in_type(mixed, element_in(x.from)), to.balancing};
}

}}} // namespace cleave::v0::nn
