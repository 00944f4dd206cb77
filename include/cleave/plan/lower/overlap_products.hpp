// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/overlap.hpp>
#include <cleave/plan/lower/scale_products.hpp>
#include <cleave/plan/price.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace lowering {

/// Whether a move changes how one dim alone is sharded, of elements that a library multiplies.
constexpr bool moves_one_dim(const emitted& e, const step& s) {
  const buffer &from = e.made.buffers[s.in[0]], &to = e.made.buffers[s.out];
  const bool of_library = to.type.element == element::f32 || to.type.element == element::f64;
  const unsigned changed = from.where.differs_at(to.where);
  return of_library && from.form == form::shard && to.form == form::shard && changed != 0 &&
         (changed & (changed - 1)) == 0;
}
/// The first step after `i` that touches a piece of memory, in the same stretch of the same loop; none: there is none.
constexpr std::size_t next_to_touch(const emitted& e, std::size_t i, std::size_t memory) {
  for (std::size_t j = i + 1; j < e.made.steps.size(); ++j) {
    const step& s = e.made.steps[j];
    if (s.in_loop != e.made.steps[i].in_loop || s.kind == step_kind::loop_begin || s.kind == step_kind::loop_end)
      return none;
    if (touches(e, s, memory)) return j;
  }
  return none;
}

/// Whether a product would add up the chunks of an all-gather in another order on each device, although the devices
/// hold replicas of its result: it contracts the gathered dim, beginning with its own block.
constexpr bool replicas_would_differ(const emitted& e, const step& gather, const step& product) {
  const buffer &from = e.made.buffers[gather.in[0]], &to = e.made.buffers[gather.out],
               &out = e.made.buffers[product.out];
  int position = 0;
  while ((from.where.differs_at(to.where) >> position & 1) == 0) ++position;
  return !out.type.has(to.type[position]) && (gather.axes & ~out.where.sharded()) != 0;
}
/// The product that reads the result of the all-gather `i`, if that could as well run right before it; else none.
constexpr std::size_t product_after(const emitted& e, std::size_t i) {
  const indexed_vector<step>& steps = e.made.steps;
  const step& s = steps[i];
  const std::size_t j = next_to_touch(e, i, e.memory[s.out]);
  if (j == none || steps[j].kind != step_kind::gemm) return none;
  if ((steps[j].in[0] == s.out) == (steps[j].in[1] == s.out) || replicas_would_differ(e, s, steps[j])) return none;
  for (std::size_t k = i + 1; k < j; ++k)
    if (writes(steps[k]) && e.memory[steps[k].out] == e.memory[s.in[0]]) return none;
  return j;
}
/// The product that makes the operand of the reduce-scatter `i`, if no other step reads that and the move could as well
/// run right after it; else none.
constexpr std::size_t product_before(const emitted& e, const memory_uses& uses, std::size_t i) {
  const indexed_vector<step>& steps = e.made.steps;
  const step& s = steps[i];
  const std::size_t own = e.memory[s.in[0]];
  if (s.combine != reduction::sum || uses.steps[own] != 2 || e.storages[own].role != role::workspace) return none;
  std::size_t j = i;
  while (j-- > 0) {
    if (steps[j].in_loop != s.in_loop || steps[j].kind == step_kind::loop_begin || steps[j].kind == step_kind::loop_end)
      return none;
    if (steps[j].out == s.in[0] && writes(steps[j])) break;
    if (touches(e, steps[j], e.memory[s.out])) return none;
  }
  return j < i && steps[j].kind == step_kind::gemm ? j : none;
}

/// A pair that could be pipelined, and the time that this saves.
struct overlap_found {
  std::size_t move = none, product = none;
  overlap_choice choice{};
};
constexpr overlap_found find_overlap(const emitted& e, const memory_uses& uses, std::size_t i, const sizes& at,
                                     const policy& rule) {
  const step& s = e.made.steps[i];
  if (s.kind != step_kind::move || s.panels != 0) return {};
  if ((s.move != kind::all_gather && s.move != kind::reduce_scatter) || !moves_one_dim(e, s)) return {};
  const std::size_t j = s.move == kind::all_gather ? product_after(e, i) : product_before(e, uses, i);
  if (j == none || e.made.steps[j].panels != 0) return {};
  const program_view p = e.made;
  const step& product = e.made.steps[j];
  return {i, j,
          choose_pieces({step_cost(p, s, at), pricing_of(step_kind::gemm).most_flops.call(placed(p, product), at),
                         at.axes.product(s.axes)},
                        rule)};
}

/// Whether the step `i` is adjacent to the one with which it is pipelined.
constexpr bool is_paired(const indexed_vector<step>& steps, std::size_t i) {
  return (i + 1 < steps.size() && go_together(steps[i], steps[i + 1])) ||
         (i > 0 && go_together(steps[i - 1], steps[i]));
}

/// Of each product, the pair that saves most: both steps say in how many pieces.
constexpr bool choose_overlaps(emitted& e, const memory_uses& uses, const sizes& at, const policy& rule) {
  indexed_vector<step>& steps = e.made.steps;
  indexed_vector<overlap_found> best(steps.size(), overlap_found{});
  bool any = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const overlap_found f = find_overlap(e, uses, i, at, rule);
    if (f.choice.pieces == 0 || f.choice.saved <= best[f.product].choice.saved) continue;
    best[f.product] = f;
    any = true;
  }
  for (const overlap_found& f : best)
    if (f.choice.pieces != 0) steps[f.move].pieces = steps[f.product].pieces = f.choice.pieces;
  return any;
}

/// Pipelines a product with the all-gather of an operand, or with the reduce-scatter of its result, if the cost model
/// predicts a gain: the move comes right before the product, or right after it. A product is part of one pair. The
/// bytes moved do not change, nor does the memory.
constexpr void overlap_products(emitted& e, const sizes& at, const policy& rule) {
  indexed_vector<step>& steps = e.made.steps;
  bool any = false;
  for (std::size_t i = 0; i < steps.size(); ++i) any = any || steps[i].kind == step_kind::gemm;
  if (!any) return;
  const memory_uses uses = uses_of_memory(e);
  if (!choose_overlaps(e, uses, at, rule)) return;
  const auto place = [&](std::size_t k) { return steps.begin() + static_cast<std::ptrdiff_t>(k); };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != step_kind::move || steps[i].pieces == 0 || is_paired(steps, i)) continue;
    const bool gathers = steps[i].move == kind::all_gather;
    const std::size_t j = gathers ? product_after(e, i) : product_before(e, uses, i);
    if (j == none) steps[i].pieces = 0;
    else if (gathers) std::rotate(place(i), place(i + 1), place(j));
    else std::rotate(place(j + 1), place(i), place(i + 1));
    // Another step is here now.
    if (j != none && gathers) --i;
  }
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].pieces != 0 && !is_paired(steps, i)) steps[i].pieces = 0;
}

/// Finds look-ups whose rows the product after them alone reads (step::feeds_product).
constexpr void find_lookups_of_products(program& p) {
  step* const steps = p.steps.data();
  const std::size_t count = p.steps.size();
  for (std::size_t i = 0; i + 1 < count; ++i) {
    step& s = steps[i];
    const step& product = steps[i + 1];
    if (s.kind != step_kind::gather || product.kind != step_kind::gemm || product.pieces != 0 || product.panels != 0 ||
        product.batch.rank == 0 || (product.in[0] != s.out && product.in[1] != s.out))
      continue;
    const buffer& rows = p.buffers[s.out];
    const element e = rows.type.element;
    int readers = 0;
    for (const step& other : p.steps)
      for (std::uint16_t in : other.in) readers += in == s.out ? 1 : 0;
    for (const buffer& other : p.buffers) readers += other.form != form::shard && other.of == s.out ? 1 : 0;
    s.feeds_product = readers == 1 && rows.role == role::workspace && (e == element::f32 || e == element::f64) &&
                      p.buffers[product.out].type.element == e;
  }
}

}}} // namespace cleave::v0::lowering
