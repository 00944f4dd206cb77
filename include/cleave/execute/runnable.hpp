// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/execute/bands.hpp>

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
#include <cleave/execute/steps/sort.hpp>

#include <algorithm>
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
/// All that the code of a step depends on. Steps with equal keys share their code.
struct form_key {
  indexed_vector<std::uint64_t> facts{};
  indexed_vector<fused_code> expressions{};
  std::uint64_t hash = 0;

  constexpr form_key(const program_view& p, std::size_t i) {
    const step& s = p.steps[i];
    const auto type_of = [&](std::size_t b) { return 1 + std::uint64_t{underlying(p.buffers[b].type.element)}; };
    const std::uint64_t way = s.kind == step_kind::fold       ? folds_inner(p, i)
                              : s.kind == step_kind::map      ? is_boxed(p, s)
                              : s.kind == step_kind::exchange ? std::uint64_t{underlying(exchange_role_of(p, i))}
                                                              : s.kind == step_kind::move && s.in_flight;
    const unsigned pieces = s.pieces == 0 ? 0u : goes_first(p, i) ? 1u : 2u, panels = s.panels != 0 ? 1 : 0;
    const std::uint64_t out = writes(s) ? type_of(s.out) : 0u;
    facts = {underlying(s.kind), underlying(s.move), underlying(s.combine), underlying(s.what), out, way};
    facts.push_back((is_scaled(s) ? 1u : 0u) | (s.joined ? 2u : 0u) | panels << 2 | pieces << 3 |
                    (s.feeds_product ? 64u : 0u) | unsigned{s.one_term} << 7);
    // Expressions say the types of all their operands.
    for (std::size_t k = 0; k < s.in.size() && (k == 0 || !runs_expression(s)); ++k) facts.push_back(type_of(s.in[k]));
    for (std::size_t v = 0; runs_expression(s) && v < expressions_of(p, s); ++v)
      expressions.push_back(fused_code_of(p, i, box_with(p, s, v)));
    for (const fused_code& code : expressions) hash = hash * 31 + code.hash();
    for (std::uint64_t fact : facts) hash = hash * 31 + fact;
  }
  constexpr bool operator==(const form_key& o) const {
    return hash == o.hash && facts == o.facts && expressions == o.expressions;
  }
};
template <std::size_t Steps>
constexpr form_list<Steps> forms_of(const program_view& p) {
  form_list<Steps> list;
  indexed_vector<form_key> keys;
  for (std::size_t i = 0; i < Steps; ++i) {
    const form_key own(p, i);
    std::uint16_t f = 0;
    while (f < list.count && !(keys[f] == own)) ++f;
    if (f == list.count) {
      keys.push_back(own);
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

} // namespace detail

/// Of a type with a constant `frozen`, a program. Functions that it does not need are not compiled.
template <class Plan>
inline constexpr runnable runnable_of = [] {
  using detail::forms_of_plan;
  runnable r{Plan::frozen, indexed_span(forms_of_plan<Plan>::list.form_of, forms_of_plan<Plan>::steps),
             forms_of_plan<Plan>::all};
  if constexpr (detail::has_reduces_to_join(Plan::frozen)) r.join_reduces = &detail::join_reduces<>;
  if constexpr (detail::may_have_bands(Plan::frozen)) r.find_bands = &detail::find_bands<>;
  if constexpr (std::ranges::any_of(Plan::frozen.steps, &step::feeds_product))
    r.find_products = &detail::find_indexed_products<>;
  return r;
}();

}} // namespace cleave::v0
