// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/execute/bands.hpp>
#include <cleave/execute/indexed_products.hpp>

// One line for each file of steps.
#include <cleave/execute/steps/call.hpp>
#include <cleave/execute/steps/exchange.hpp>
#include <cleave/execute/steps/fold.hpp>
#include <cleave/execute/steps/gemm.hpp>
#include <cleave/execute/steps/loop.hpp>
#include <cleave/execute/steps/map.hpp>
#include <cleave/execute/steps/move.hpp>
#include <cleave/execute/steps/product_in_panels.hpp>
#include <cleave/execute/steps/product_in_pieces.hpp>
#include <cleave/execute/steps/rows.hpp>
#include <cleave/execute/steps/scan.hpp>
#include <cleave/execute/steps/sort.hpp>

#include <array>

// Makes of a plan, a constant, the data that the run time needs: the program, and the code of its steps. The rest of
// the run time is compiled once.

namespace cleave { inline namespace v0 {

/// The plan as the run time sees it. Its address stands for the plan.
struct runnable {
  program_view program;
  /// The form of each step, by its number.
  indexed_span<const std::uint16_t> form_of;
  indexed_span<const step_form> forms;
  /// Joins small all-reduces; null if there is nothing to join.
  void (*join_reduces)(const binder&, indexed_vector<owned<bound_step>>&) = nullptr;
  /// Finds the steps that run in bands of rows; null if no two could.
  indexed_vector<owned<step_group>> (*find_bands)(const binder&, const indexed_vector<owned<bound_step>>&) = nullptr;
  /// Finds look-ups that products read in place; null if there are none.
  void (*find_products)(const binder&, const indexed_vector<owned<bound_step>>&,
                        indexed_vector<owned<step_group>>&) = nullptr;

  owned<bound_step> bind(const binder& b, std::size_t i) const {
    const step_form& f = forms[form_of[i]];
    return f.bind(b, program.steps[i], f.code);
  }
};

namespace detail {

/// The forms of a program's steps: which steps share their code, and one example of each.
template <std::size_t Steps>
struct form_list {
  std::uint16_t form_of[Steps + 1]{};
  std::uint16_t example[Steps + 1]{};
  std::uint16_t count = 0;
};

/// Whether the code of a step is that of its expression, or of the expression of the pass that it begins.
constexpr bool runs_expression(const step& s) { return s.ops > 0 && s.kind != step_kind::gemm && !is_in_pass(s); }
/// Of steps that share their code the same; of others nearly always another one.
constexpr std::uint64_t form_hash(const program_view& p, std::size_t i) {
  const step& s = p.steps[i];
  const auto element_of_buffer = [&](std::size_t b) { return std::uint64_t{underlying(p.buffers[b].type.element)}; };
  std::uint64_t h = underlying(s.kind) | std::uint64_t{underlying(s.move)} << 8 |
                    std::uint64_t{underlying(s.combine)} << 16 | std::uint64_t{underlying(s.what)} << 48;
  if (writes(s)) h |= element_of_buffer(s.out) << 24;
  if (!s.in.empty()) h |= element_of_buffer(s.in[0]) << 32;
  if (s.in.size() > 1 && !runs_expression(s)) h |= element_of_buffer(s.in[1]) << 56;
  if (s.kind == step_kind::fold) h |= (folds_inner(p, i) ? 1ull : 0ull) << 40;
  if (s.kind == step_kind::map) h |= (is_boxed(p, s) ? 1ull : 0ull) << 40 | (s.joined ? 1ull : 0ull) << 41;
  if (s.kind == step_kind::exchange) h |= std::uint64_t{underlying(exchange_role_of(p, i))} << 40;
  if (s.kind == step_kind::move && s.in_flight) h |= 1ull << 40;
  if (is_scaled(s)) h |= 1ull << 40;
  if (s.pieces != 0) h |= (goes_first(p, i) ? 1ull : 2ull) << 41;
  if (s.panels != 0) h |= 3ull << 41;
  return !runs_expression(s) ? h : h ^ fused_code_of(p, i).hash() << 1;
}
constexpr bool same_form(const program_view& p, std::size_t i, std::size_t j) {
  const step &a = p.steps[i], &b = p.steps[j];
  if (a.kind != b.kind || a.what != b.what || a.move != b.move || a.combine != b.combine) return false;
  if (writes(a) && p.buffers[a.out].type.element != p.buffers[b.out].type.element) return false;
  if (a.in.empty() != b.in.empty() || is_scaled(a) != is_scaled(b)) return false;
  if (a.kind == step_kind::move && a.in_flight != b.in_flight) return false;
  if (a.kind == step_kind::exchange && exchange_role_of(p, i) != exchange_role_of(p, j)) return false;
  if ((a.pieces != 0) != (b.pieces != 0) || (a.pieces != 0 && goes_first(p, i) != goes_first(p, j))) return false;
  if ((a.panels != 0) != (b.panels != 0)) return false;
  // Expressions say the types of all their operands.
  const bool expressed = runs_expression(a);
  const std::size_t typed = !expressed ? a.in.size() : a.in.empty() ? 0 : 1;
  if (!expressed && a.in.size() != b.in.size()) return false;
  for (std::size_t k = 0; k < typed; ++k)
    if (p.buffers[a.in[k]].type.element != p.buffers[b.in[k]].type.element) return false;
  if (a.kind == step_kind::fold && folds_inner(p, i) != folds_inner(p, j)) return false;
  if (a.kind == step_kind::map && is_boxed(p, a) != is_boxed(p, b)) return false;
  return expressed == runs_expression(b) && (!expressed || fused_code_of(p, i) == fused_code_of(p, j));
}
template <std::size_t Steps>
constexpr form_list<Steps> forms_of(const program_view& p) {
  form_list<Steps> list;
  std::uint64_t hash[Steps + 1]{};
  for (std::size_t i = 0; i < Steps; ++i) {
    const std::uint64_t own = form_hash(p, i);
    std::uint16_t f = 0;
    while (f < list.count && (hash[f] != own || !same_form(p, list.example[f], i))) ++f;
    if (f == list.count) {
      hash[f] = own;
      list.example[list.count++] = narrowed(i);
    }
    list.form_of[i] = f;
  }
  return list;
}

template <class Plan>
struct forms_of_plan {
  static constexpr std::size_t steps = Plan::frozen.steps.size();
  static constexpr form_list<steps> list = forms_of<steps>(Plan::frozen);
  template <std::size_t... F>
  static constexpr std::array<step_form, sizeof...(F)> table(std::index_sequence<F...>) {
    return {step_code<Plan::frozen.steps[list.example[F]].kind>::template form<Plan, list.example[F]>()...};
  }
  static constexpr auto all = table(std::make_index_sequence<list.count>{});
};

template <class Plan>
constexpr auto reduce_joiner_of() -> decltype(&join_reduces<>) {
  if constexpr (has_reduces_to_join(Plan::frozen)) return &join_reduces<>;
  else return nullptr;
}
template <class Plan>
constexpr auto band_finder_of() -> decltype(&find_bands<>) {
  if constexpr (may_have_bands(Plan::frozen)) return &find_bands<>;
  else return nullptr;
}
template <class Plan>
constexpr auto product_finder_of() -> decltype(&find_indexed_products<>) {
  if constexpr (has_indexed_products(Plan::frozen)) return &find_indexed_products<>;
  else return nullptr;
}

} // namespace detail

/// Of a type with a constant `frozen`, a program.
template <class Plan>
inline constexpr runnable runnable_of{Plan::frozen,
                                      indexed_span(detail::forms_of_plan<Plan>::list.form_of,
                                                   detail::forms_of_plan<Plan>::steps),
                                      detail::forms_of_plan<Plan>::all,
                                      detail::reduce_joiner_of<Plan>(),
                                      detail::band_finder_of<Plan>(),
                                      detail::product_finder_of<Plan>()};

}} // namespace cleave::v0
