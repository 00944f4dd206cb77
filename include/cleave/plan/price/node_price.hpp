// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/assignment.hpp>

namespace cleave::detail {

/// What it costs to take a value from one layout to another, as often as its node runs.
constexpr double way(const cost_model& m, std::size_t u, layout from, layout to) {
  return m.weight.at[u] * m.cache.score(m.kind.at[u], from, to);
}

/// What the step of a node moves itself, once.
constexpr double step_price_once(const cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  const auto operand = [&](std::size_t k) -> const tensor_type& { return m.node_at(n.in[k]).type; };
  if (n.code == op::cumulative) return m.rule.score(scan_cost(n.type, s.out, n.type.find(n.which[0]), m.at));
  if (n.code == op::sort || n.code == op::argsort)
    return m.rule.score(sort_cost(operand(0), s.out, n.type.find(n.which[0]), n.code == op::argsort, m.at));
  if (n.code == op::scatter)
    return m.rule.score(scatter_cost(operand(0), required(m, v, s, 0), operand(1), required(m, v, s, 1), s.sent,
                                     s.out[n.type.find(n.which[0])], m.at));
  if (n.code == op::gather) return m.rule.score(gather_cost(operand(1), required(m, v, s, 1), s.taken[0], n.type, s.out, m.at));
  double* known = m.cache.exchange(n.first_map, s);
  if (*known >= 0) return *known;
  static_vector<exchange_part, max_arity> parts;
  for (std::uint8_t k = 0; k < n.arity; ++k)
    parts.push_back(part_of(maps_of(m.g, n), k, operand(k), required(m, v, s, k), n.type, s.out));
  return *known = m.rule.score(exchange_cost(std::span<const exchange_part>(parts.begin(), parts.end()), m.at));
}
/// That, as often as it runs.
constexpr double step_price(const cost_model& m, std::size_t v, const strategy& s) {
  return (m.traits.at[v] & moves_data) == 0 ? 0 : m.weight.at[v] * step_price_once(m, v, s);
}

/// Finds the layouts in which a value is needed beside its own, each once, in the order of its readers; they are a.copies.
constexpr std::size_t find_copies(const cost_model& m, assignment& a, std::size_t u, layout own) {
  std::size_t found = 0;
  layout* copies = a.copies.at;
  const auto add = [&](layout l) {
    for (std::size_t i = 0; i < found; ++i)
      if (copies[i].word == l.word) return;
    copies[found++] = l;
  };
  const std::uint32_t end = m.first_edge.at[u + 1];
  const bool through = (m.traits.at[u] & read_through) != 0;
  for (std::uint32_t e = m.first_edge.at[u]; e < end; ++e) {
    const layout l = through ? needed(m, a, m.edges.at[e]) : a.need.at[e];
    if (l.word != own.word) add(l);
  }
  for (std::uint32_t r = m.last_output.at[u]; r != 0; r = m.other_output.at[r - 1])
    if (const layout l = asked_of(m, a, r - 1); l.word != own.word) add(l);
  return found;
}

/// What it costs to make all copies of a value, each from the cheapest layout that is there already.
constexpr double copies_price(const cost_model& m, assignment& a, std::size_t u) {
  if ((m.traits.at[u] & rematerialised) != 0) return 0;
  const layout own = produced(m, a, u);
  const std::size_t found = find_copies(m, a, u, own);
  double total = 0;
  for (std::size_t i = 0; i < found; ++i) {
    double best = way(m, u, own, a.copies.at[i]);
    for (std::size_t j = 0; j < i && best > 0; ++j) {
      if (a.copies.at[j].unreduced() != 0) continue;
      const double other = way(m, u, a.copies.at[j], a.copies.at[i]);
      if (other < best) best = other;
    }
    total += best;
  }
  return total;
}
/// That, and what the node's own step moves. Mostly everybody takes a value as it comes, which is found out first.
constexpr double node_price(const cost_model& m, assignment& a, std::size_t v) {
  if ((m.traits.at[v] & (rematerialised | may_be_transparent | read_through | moves_data)) == 0 && m.last_output.at[v] == 0) {
    const std::uint64_t own = a.chosen.at[v].out.word;
    const layout* need = a.need.at;
    const std::uint32_t end = m.first_edge.at[v + 1];
    std::uint32_t e = m.first_edge.at[v];
    while (e < end && need[e].word == own) ++e;
    return e == end ? 0 : copies_price(m, a, v);
  }
  return copies_price(m, a, v) + step_price(m, v, a.chosen.at[v]);
}

constexpr double flops_with(const cost_model& m, std::size_t v, const strategy& s) {
  if ((m.traits.at[v] & has_flops) == 0) return 0;
  return m.weight.at[v] * flops_of(m.g, m.node_at(v), m.factors(v), s, m.at);
}
constexpr double flops_at(const cost_model& m, const assignment& a, std::size_t v) { return flops_with(m, v, a.chosen.at[v]); }
/// The flops of one device when no work is repeated.
constexpr double flops_once(const cost_model& m, std::size_t v) {
  return flops_with(m, v, strategy{}) / static_cast<double>(m.at.axes.devices());
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
  return a.flops - flops_at(m, a, v) + flops_with(m, v, s) > a.allowed_flops * (1 + m.limits.equal_work);
}

/// The price of the whole.
constexpr double total_price(const cost_model& m, const assignment& a) {
  double total = flops_price(m, a, a.flops);
  for (std::size_t u = 0; u < m.count; ++u) total += a.price.at[u];
  return total;
}

} // namespace cleave::detail
