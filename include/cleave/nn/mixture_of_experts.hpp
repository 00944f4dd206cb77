// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/sort.hpp>
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
  /// Rank 0: experts * the sum over experts of (its share of the choices) * (its mean probability), averaged over
  /// groups. It is 1 if all experts are used equally (Fedus et al. 2021, eq. 4). `experts_per_token` counts first
  /// choices alone, as GShard does. Add it to the loss with a small weight.
  value load_balancing_loss;
};

namespace detail {

/// For each token and choice: the slot of the expert, -1 if it got none, and the weight of its result.
struct expert_slots {
  value slot{}, gate{}, balancing{};
};
/// Scores decide which experts a token likes best: of probabilities that round to 0 or to each other, none is the
/// highest.
constexpr expert_slots choose_experts(const operand& x, const operand& router, const moe_dims& d, dim_ref choice,
                                      bool first_choices_count) {
  const value scores = widened(dot(x, router, d.embed)), likes = softmax(scores, d.expert);
  const auto [most, expert] = top_k(scores, d.expert, choice);
  if (!expert.ok()) return {};
  const value later = iota(most, choice) > 0;
  // A token whose other scores are all minus infinity has no second expert.
  const value none = later & (most == -std::numeric_limits<double>::infinity());
  const value hits = one_hot(expert, d.expert, element::boolean) & !none, ones = cast<std::int32_t>(hits);
  // The second choices of a group come after all first ones, and so on.
  const value before = cumulative_sum(ones, d.token, running::forward_exclusive) +
                       cumulative_sum(sum(ones, d.token), choice, running::forward_exclusive);
  const value position = sum(select(hits, before, 0), d.expert), capacity = count<std::int32_t>(x, d.capacity);
  expert_slots chosen;
  chosen.slot = select((position >= capacity) | none, -1, expert * capacity + position);
  chosen.gate = choice.extent == 1 ? sum(select(hits, likes, 0), d.expert) : softmax(most, choice);
  const value counted = cast(hits, element_in(likes)), belief = mean(likes, d.token);
  const value share = first_choices_count ? mean(sum(select(later, 0, counted), choice), d.token)
                                          : mean(counted, choice, d.token);
  chosen.balancing = in_type(mean(sum(stop_gradient(share) * belief, d.expert) *
                                  cast(count<std::int32_t>(x, d.expert), element_in(likes))),
                             element_in(x.from));
  return chosen;
}
template <class Experts, class Pin>
constexpr moe_result routed(operand x, operand router, const moe_dims& d, dim_ref choice, bool first_choices_count,
                            const Experts& experts, const Pin& pin) {
  const value none{x.from.in, no_node};
  if (!x.from.ok() || !router.from.ok()) return {none, none};
  const dim_ref slot = derived_dim<"slot">(x, "mixture_of_experts", d.expert, d.capacity);
  if (slot.name.empty()) return {none, none};
  recorder& in = *x.from.in;
  expert_slots to;
  value sent, token, gate;
  static_vector<dim_ref, max_rank> groups;
  {
    const called_at user(x);
    to = choose_experts(x, router, d, choice, first_choices_count);
    if (!to.slot.ok()) return {none, none};
    // Each group, an index of the dims of the tokens but `token`, has slots of its own.
    const tensor_type competing = in.at(to.slot).type;
    for (int i = 0; i < competing.rank; ++i)
      if (const std::string_view name = in.made().dims[competing[i]].name; name != d.token.name && name != choice.name)
        groups.push_back(dim_ref(name));
    const auto by_slot = [&](const value& v) { return scatter_add(v, to.slot, slot, {groups.begin(), groups.size()}); };
    token = by_slot(select(to.slot < 0, 0, iota(x, d.token) + 1)) - 1;
    gate = by_slot(to.gate);
    sent = pin(split(gather(x, d.token, token), slot, d.expert, d.capacity));
  }
  const value made = pin(experts(sent));
  const called_at user(x);
  const value back = widened(merge(made, d.expert, d.capacity, slot)) * gate;
  const value mixed = scatter_add(back, token, d.token, {groups.begin(), groups.size()});
  if (!mixed.ok()) return {mixed, to.balancing};
  tensor_type ordered = in.at(x.from).type;
  ordered.element = in.at(mixed).type.element;
  return {in_type(in.reordered(mixed, ordered, x.where), element_in(x.from)), to.balancing};
}
} // namespace detail

/// Sends every token of x [groups..., token, embed] to the experts that `router` [embed, expert] scores highest for it,
/// as far as they have slots, and adds their results, weighted by their probabilities, of several experts divided by
/// the sum of these. The fixed extent of dim `choice` is the number of experts for each token.
/// `experts(sent)` receives [expert, capacity, groups..., embed] and returns the same dims. `pin` constrains the tokens
/// that are sent and come back. Communication: if `pin` shards `expert` over an axis that shards the groups of x, one
/// all-to-all in each direction and nothing else. Tokens are moved by index, not by products with masks. Faults:
/// dim_missing, window_open, dim_too_short.
template <class Experts, class Pin>
constexpr moe_result mixture_of_experts(operand x, operand router, const moe_dims& d, dim_ref choice,
                                        const Experts& experts, const Pin& pin) {
  return detail::routed(x, router, d, choice, false, experts, pin);
}
/// The same for one or two experts, of at least so many.
template <class Experts, class Pin>
constexpr moe_result mixture_of_experts(operand x, operand router, const moe_dims& d, experts_per_token how,
                                        const Experts& experts, const Pin& pin) {
  // Of other names, so that a function may have layers of both.
  const bool single = how == experts_per_token::one;
  const dim_ref choice = single ? derived_dim<"pick ">(x, "mixture_of_experts", d.expert)
                                : derived_dim<"both ">(x, "mixture_of_experts", d.expert);
  return detail::routed(x, router, d, {choice.name, single ? 1 : 2}, true, experts, pin);
}

}}} // namespace cleave::v0::nn
