// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/buffers.hpp>

#include <bit>

namespace cleave { inline namespace v0 { namespace lowering {

/// The form of an entry of an expression: a number, or a sum of multiples of the product, of the addend, or of both.
inline constexpr std::uint8_t a_number = 0, of_product = 1, of_addend = 2, of_others = 4;

/// An entry of an expression, and its factor. A library multiplies the numbers with each other first, so together they
/// must be far from the ends of the range of float: powers of 2 of the literals, and how many numbers are known at run
/// time only.
struct multiple {
  std::uint8_t form = a_number, at_run_time = 0;
  int power = 0;
};
inline constexpr int most_power = 60;

/// How far the exponent of a number is from 0. Zeros, infinities and NaN are farther than any.
constexpr int power_of_two(double number) {
  const int exponent = static_cast<int>(std::bit_cast<std::uint64_t>(number) >> 52 & 0x7ff);
  return exponent > 1023 ? exponent - 1023 : 1023 - exponent;
}
constexpr multiple times(const multiple& a, const multiple& b) {
  return {narrowed(a.form | b.form), narrowed(a.at_run_time + b.at_run_time), a.power + b.power};
}

/// The form of the result of an operation. A number that is computed from others is one number.
constexpr multiple multiple_of(const fused_op& o, const multiple* known) {
  const multiple &a = known[o.in[0]], &b = known[o.in[1]];
  constexpr multiple others{of_others}, some_number{a_number, 1};
  if (o.code == op::constant) return {a_number, 0, power_of_two(o.scalar)};
  if (role_of(o.code) == fused_role::count) return {};
  const linearity sums = entry_of(o.code).sums;
  switch (sums) {
    case linearity::unary: return a;
    case linearity::joint:
    case linearity::difference:
      if (a.form == a_number && b.form == a_number) return some_number;
      if (a.form == a_number || b.form == a_number) return others;
      return {narrowed(a.form | b.form), a.at_run_time > b.at_run_time ? a.at_run_time : b.at_run_time,
              a.power > b.power ? a.power : b.power};
    case linearity::each:
    case linearity::quotient:
      if (b.form == a_number)
        return a.form == a_number && a.at_run_time + b.at_run_time > 0 ? some_number : times(a, b);
      return sums == linearity::each && a.form == a_number ? times(a, b) : others;
    default: return others;
  }
}

/// A map of more operations is no scaled product.
inline constexpr int most_scaling_ops = 24;

/// Whether a map computes alpha * product + beta * addend with numbers alpha and beta, which may be computed first; the
/// addend, if it has one, is an array like the result.
constexpr bool scales_product(const program& p, const step& m, std::uint16_t product) {
  const buffer& out = p.buffers[m.out];
  const auto alike = [&](const buffer& x) {
    return x.form == form::shard && x.type == out.type && x.where == out.where;
  };
  if (m.ops < 2 || m.ops > most_scaling_ops || !alike(p.buffers[product]) || !alike(out)) return false;
  multiple known[most_scaling_ops]{};
  std::uint16_t addend = product;
  for (std::size_t t = 0; t < m.ops; ++t) {
    const fused_op& o = p.fused_ops[m.first_op + t];
    if (o.type != out.type.element) return false;
    if (o.code == op::input) {
      const std::uint16_t read = m.in[o.arg];
      const buffer& x = p.buffers[read];
      known[t].form = read == product ? of_product : x.type.rank == 0 && x.form == form::shard ? a_number : of_addend;
      known[t].at_run_time = known[t].form == a_number ? 1 : 0;
      if (known[t].form != of_addend) continue;
      if (!alike(x) || (addend != product && addend != read)) return false;
      addend = read;
    } else {
      known[t] = multiple_of(o, known);
      if (known[t].form >= of_others) return false;
      if (known[t].form != a_number && (known[t].at_run_time > 1 || known[t].power > most_power)) return false;
    }
  }
  return (known[m.ops - 1u].form & of_product) != 0;
}

/// By memory: how many steps touch it, and the last one.
struct memory_uses {
  indexed_vector<std::size_t> steps{}, last{};
};
constexpr memory_uses uses_of_memory(const emitted& e) {
  memory_uses uses;
  uses.steps.assign(e.storages.size(), 0);
  uses.last.assign(e.storages.size(), 0);
  std::size_t *const touched = uses.steps.data(), *const last = uses.last.data();
  const std::size_t* memory = e.memory.data();
  const step* steps = e.made.steps.data();
  const std::size_t count = e.made.steps.size();
  for (std::size_t i = 0; i < count; ++i) {
    const step& s = steps[i];
    for (std::size_t k = 0; k < s.in.count; ++k) ++touched[memory[s.in.items[k]]], last[memory[s.in.items[k]]] = i;
    if (writes(s)) ++touched[memory[s.out]], last[memory[s.out]] = i;
  }
  return uses;
}

/// Whether the map `j` may run right after the product `i`: its operands are there, and no step between them needs
/// memory that it overwrites or reads its addend, whose memory the caller may have given for the result.
constexpr bool may_run_earlier(const emitted& e, std::size_t i, std::size_t j) {
  const indexed_vector<step>& steps = e.made.steps;
  const step& m = steps[j];
  for (std::size_t k = i + 1; k < j; ++k) {
    if (touches(e, steps[k], e.memory[m.out])) return false;
    for (std::uint16_t b : m.in)
      if (b != steps[i].out && e.made.buffers[b].type.rank > 0 && touches(e, steps[k], e.memory[b])) return false;
    for (std::uint16_t b : m.in)
      if (b != steps[i].out && writes(steps[k]) && e.memory[steps[k].out] == e.memory[b]) return false;
  }
  return true;
}
/// Whether the product `i` may run where the map `j` does: its operands are still there, and would be anyway.
constexpr bool may_run_later(const emitted& e, std::size_t i, std::size_t j) {
  const indexed_vector<step>& steps = e.made.steps;
  for (std::size_t operand = 0; operand < 2; ++operand) {
    const std::size_t memory = e.memory[steps[i].in[operand]];
    bool kept = e.storages[memory].role != role::workspace;
    for (std::size_t k = i + 1; k < steps.size(); ++k) {
      if (k < j && writes(steps[k]) && e.memory[steps[k].out] == memory) return false;
      kept = kept || (k >= j && touches(e, steps[k], memory));
    }
    if (!kept) return false;
  }
  return true;
}

/// Makes the map `j` a part of the product `i`.
constexpr void merge_scaling(emitted& e, std::size_t i, std::size_t j, bool earlier) {
  step &g = e.made.steps[i], &m = e.made.steps[j];
  for (std::size_t t = 0; t < m.ops; ++t) {
    fused_op& o = e.made.fused_ops[m.first_op + t];
    if (o.code != op::input) continue;
    const std::uint16_t read = m.in[o.arg];
    std::size_t k = read == g.out ? 0 : 2;
    while (k > 0 && k < g.in.size() && g.in[k] != read) ++k;
    if (k == g.in.size()) g.in.push_back(read);
    o.arg = narrowed(k);
  }
  g.first_op = m.first_op;
  g.ops = m.ops;
  // Nothing is in the memory of the plain product any more.
  e.memory[g.out] = e.memory[m.out];
  g.out = m.out;
  if (!earlier) m = g;
  // Nothing waits for an exchange yet: marks of steps that are gone.
  step& gone = earlier ? m : g;
  gone.kind = step_kind::wait;
  gone.in.count = 0;
}

/// The map that alone reads the product `i`, if it does nothing but scale it; `none` if there is none.
constexpr std::size_t scaling_of(const emitted& e, const memory_uses& uses, std::size_t i) {
  const step& g = e.made.steps[i];
  if (g.batch.rank > 0 || g.ops > 0 || g.panels != 0) return none;
  const buffer& product = e.made.buffers[g.out];
  const std::size_t own = e.memory[g.out];
  const bool of_library = product.type.element == element::f32 || product.type.element == element::f64;
  if (!of_library || product.type.rank == 0 || e.storages[own].role != role::workspace) return none;
  const std::size_t j = uses.last[own];
  if (uses.steps[own] != 2 || j <= i) return none;
  const step& m = e.made.steps[j];
  if (m.kind != step_kind::map || m.in_loop != g.in_loop || !scales_product(e.made, m, g.out)) return none;
  const std::size_t target = e.memory[m.out];
  return target == e.memory[g.in[0]] || target == e.memory[g.in[1]] ? none : j;
}

/// Maps that only scale a matrix product, and maybe add a multiple of another array, become a part of it: libraries
/// compute alpha * a b + beta * c in one pass.
constexpr void scale_products(emitted& e) {
  indexed_vector<step>& steps = e.made.steps;
  const std::size_t count = steps.size();
  const step* const all = steps.data();
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) any = any || all[i].kind == step_kind::gemm;
  if (!any) return;
  const memory_uses uses = uses_of_memory(e);
  std::size_t first_gone = count;
  for (std::size_t i = 0; i < count; ++i) {
    if (all[i].kind != step_kind::gemm) continue;
    const std::size_t j = scaling_of(e, uses, i);
    if (j == none) continue;
    const bool earlier = may_run_earlier(e, i, j);
    if (!earlier && !may_run_later(e, i, j)) continue;
    merge_scaling(e, i, j, earlier);
    if (const std::size_t gone = earlier ? j : i; gone < first_gone) first_gone = gone;
  }
  std::size_t kept = first_gone;
  for (std::size_t i = first_gone; i < count; ++i)
    if (all[i].kind != step_kind::wait) steps[kept++] = steps[i];
  while (steps.size() > kept) steps.pop_back();
}

}}} // namespace cleave::v0::lowering
