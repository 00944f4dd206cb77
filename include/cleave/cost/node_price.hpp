// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/assignment.hpp>

#include <algorithm>
#include <utility>

namespace cleave { inline namespace v0 { namespace planner {

/// The price of taking a value from one layout to another, as often as its node runs.
constexpr double reshard_price(const cost_model& m, std::size_t u, layout from, layout to) {
  return m.weight.at[u] * m.cache.score(m.kind.at[u], from, to);
}

/// A node with the layouts that a strategy gives its operands and its result.
constexpr placed_op placed(const cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  placed_op o;
  o.code = n.code;
  o.arity = n.arity;
  for (int k = 0; k < n.arity; ++k) o.in[k] = {&m.node_at(n.in[k]).type, required(m, v, s, k)};
  o.out = {&n.type, s.out};
  o.maps = maps_of(m.g, n);
  o.halos = halos_of(m.g, n);
  o.user = n.user;
  if (const op_rules& rules = m.rules(v); rules.place.given) rules.place.call(n, s, o);
  return o;
}

/// The price of the communication in a node's own step, as often as it runs.
constexpr double step_price(const cost_model& m, std::size_t v, const strategy& s) {
  if ((m.traits.at[v] & moves_data) == 0) return 0;
  const op_rules& rules = m.rules(v);
  if (!rules.remembered) return m.weight.at[v] * m.rule.score(rules.moves.call(placed(m, v, s), m.at));
  double* known = m.cache.exchange(m.exchange_kind.at[v], s);
  if (*known < 0) *known = m.rule.score(rules.moves.call(placed(m, v, s), m.at));
  return m.weight.at[v] * *known;
}

/// Finds the layouts besides its own in which a value is needed, each once, in the order of its readers; they are
/// a.copies.
constexpr std::size_t find_copies(const cost_model& m, assignment& a, std::size_t u, layout own) {
  std::size_t found = 0;
  layout* copies = a.copies.at;
  const layout* need = a.need.at;
  const std::uint32_t end = m.first_edge.at[u + 1];
  const bool through = (m.traits.at[u] & read_through) != 0;
  // Most readers need the same layout as the reader before them.
  std::uint64_t last = own.word;
  std::uint32_t e = m.first_edge.at[u], result = m.last_output.at[u];
  while (e < end || result != 0) {
    const bool reader = e < end;
    const layout want = !reader ? asked_of(m, a, result - 1) : through ? needed(m, a, m.edges.at[e]) : need[e];
    reader ? ++e : result = m.other_output.at[result - 1];
    if (want.word == last || want.word == own.word) continue;
    last = want.word;
    std::size_t i = 0;
    while (i < found && copies[i].word != last) ++i;
    if (i == found) copies[found++] = want;
  }
  return found;
}

/// Puts the copies of a value in the order in which they are made, each from the cheapest layout that exists already:
/// next always the one with which it and those after it cost least, as a whole value before its slices. Their price.
constexpr double order_copies(const cost_model& m, assignment& a, std::size_t u, layout own, std::size_t found) {
  layout* copies = a.copies.at;
  double *price = a.copy_prices.at, total = 0;
  for (std::size_t i = 0; i < found; ++i) price[i] = reshard_price(m, u, own, copies[i]);
  const auto from = [&](std::size_t i, std::size_t k) {
    const bool partial = (copies[i].word & ~layout::dims_mask) != 0;
    return partial ? price[k] : std::min(price[k], reshard_price(m, u, copies[i], copies[k]));
  };
  for (std::size_t next = 0; next < found; ++next) {
    std::size_t best = next;
    double least = price[next];
    for (std::size_t i = next; i < found; ++i) {
      double sum = price[i];
      for (std::size_t k = next; k < found && (i == next || sum < least); ++k)
        if (k != i && price[k] > 0) sum += from(i, k);
      if (i == next || sum < least) least = sum, best = i;
    }
    std::swap(copies[next], copies[best]);
    std::swap(price[next], price[best]);
    total += price[next];
    for (std::size_t k = next + 1; k < found; ++k) price[k] = price[k] > 0 ? from(next, k) : 0;
  }
  return total;
}
/// The price of all copies of a value.
constexpr double copies_price(const cost_model& m, assignment& a, std::size_t u) {
  if ((m.traits.at[u] & rematerialised) != 0) return 0;
  const layout own = produced(m, a, u);
  const std::size_t found = find_copies(m, a, u, own);
  if (found > 1) return order_copies(m, a, u, own, found);
  return found == 0 ? 0 : reshard_price(m, u, own, a.copies.at[0]);
}
/// That, and the communication of the node's own step. Mostly all readers take a value in its own layout, which is
/// checked first.
constexpr double node_price(const cost_model& m, assignment& a, std::size_t v) {
  if ((m.traits.at[v] & (rematerialised | may_be_transparent | read_through | moves_data)) == 0 &&
      m.last_output.at[v] == 0) {
    const std::uint64_t own = a.chosen.at[v].out.word;
    const layout* need = a.need.at;
    const std::uint32_t end = m.first_edge.at[v + 1];
    std::uint32_t e = m.first_edge.at[v];
    while (e < end && need[e].word == own) ++e;
    return e == end ? 0 : copies_price(m, a, v);
  }
  const double copies = copies_price(m, a, v);
  return (m.traits.at[v] & moves_data) == 0 ? copies : copies + step_price(m, v, a.chosen.at[v]);
}

/// The flops of one device; blocks are taken as even, so that uneven ones do not count as repeated work.
constexpr double flops_with(const cost_model& m, std::size_t v, const strategy& s) {
  return m.flops.at[v] / static_cast<double>(m.at.axes.product_of(dividing_axes(s)));
}
/// The flops of one device when no work is repeated.
constexpr double flops_once(const cost_model& m, std::size_t v) {
  return m.flops.at[v] / static_cast<double>(m.at.axes.devices());
}
constexpr double flops_price(const cost_model& m, const assignment& a, double total) {
  double price = m.rule.flop * total;
  if (m.rule.repeat > 0 && total > a.allowed_flops * (1 + m.limits.equal_work))
    price += m.limits.forbidden_work * (total / a.allowed_flops);
  return price;
}
/// Whether a strategy alone would repeat more work than the policy allows.
constexpr bool repeats_too_much(const cost_model& m, const assignment& a, std::size_t v, const strategy& s) {
  if (m.rule.repeat == 0 || (m.traits.at[v] & has_flops) == 0) return false;
  return a.flops - a.work.at[v] + flops_with(m, v, s) > a.allowed_flops * (1 + m.limits.equal_work);
}

/// The price of the whole.
constexpr double total_price(const cost_model& m, const assignment& a) {
  double total = flops_price(m, a, a.flops);
  for (std::size_t u = 0; u < m.count; ++u) total += a.price.at[u];
  return total;
}

}}} // namespace cleave::v0::planner
