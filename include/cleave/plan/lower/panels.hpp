// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/allocate.hpp>
#include <cleave/plan/lower/overlap_products.hpp>
#include <cleave/plan/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cleave { inline namespace v0 { namespace lowering {

/// The dim along which a move gathers blocks; no_dim: it does something else.
constexpr dim_id gathered_dim(const emitted& e, const step& s) {
  if (s.kind != step_kind::move || s.move != kind::all_gather || !moves_one_dim(e, s)) return no_dim;
  const buffer& to = e.made.buffers[s.out];
  return to.type[gathered_position(e.made.buffers[s.in[0]], to)];
}
/// The dim along which the step `i` gathers an operand of a single product; no_dim: it does something else, or the
/// result has memory for others.
constexpr dim_id gathered_for_product(const emitted& e, const memory_uses& uses, std::size_t i) {
  const step& s = e.made.steps[i];
  const dim_id d = s.panels == 0 ? gathered_dim(e, s) : no_dim;
  if (d == no_dim) return no_dim;
  const std::size_t memory = e.memory[s.out];
  return uses.steps[memory] == 2 && e.storages[memory].role == role::workspace ? d : no_dim;
}
/// Whether a product can gather an operand panel by panel along a dim.
constexpr bool takes_panels(const emitted& e, const step& product, dim_id along) {
  if (is_scaled(product) || (product.k.has(along) && product.batch.rank > 0)) return false;
  for (const step& other : e.made.steps)
    if (other.kind == step_kind::move && other.panels != 0 && product.in.contains(other.out) &&
        gathered_dim(e, other) != along)
      return false;
  return true;
}
/// The product that can gather the result of step `i` panel by panel: the product alone reads it. none: there is none.
constexpr std::size_t product_for_panels(const emitted& e, const memory_uses& uses, std::size_t i) {
  const dim_id d = gathered_for_product(e, uses, i);
  const std::size_t j = d == no_dim ? none : product_after(e, i);
  return j != none && takes_panels(e, e.made.steps[j], d) ? j : none;
}
/// The product in a loop that alone reads the result of step `i`, which gathers before the loop, and could gather it in
/// every iteration: the source does not change until the loop is over. none: there is none.
constexpr std::size_t product_in_loop(const emitted& e, const memory_uses& uses, std::size_t i) {
  const indexed_vector<step>& steps = e.made.steps;
  const step& s = steps[i];
  const dim_id d = gathered_for_product(e, uses, i);
  if (d == no_dim) return none;
  const std::size_t j = uses.last[e.memory[s.out]];
  const step& product = steps[j];
  if (product.kind != step_kind::gemm || product.in_loop == s.in_loop || !takes_panels(e, product, d)) return none;
  if (!within(e.made.loops, product.in_loop, s.in_loop) || (product.in[0] == s.out) == (product.in[1] == s.out))
    return none;
  std::size_t end = j;
  while (steps[end].kind != step_kind::loop_end || e.made.loops[steps[end].in_loop - 1u].around != s.in_loop) ++end;
  for (std::size_t k = i + 1; k < end; ++k)
    if (writes(steps[k]) && e.memory[steps[k].out] == e.memory[s.in[0]]) return none;
  return j;
}
/// A move and the product that would gather for it.
struct gathered_product {
  std::size_t move = none, product = none;
};
/// The one that takes most memory.
template <class ProductOf>
constexpr gathered_product largest_gathered(const emitted& e, const ProductOf& product_of) {
  const memory_uses uses = uses_of_memory(e);
  gathered_product best;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < e.made.steps.size(); ++i) {
    const std::size_t j = product_of(e, uses, i);
    if (j == none || e.storages[e.memory[e.made.steps[i].out]].bytes <= most) continue;
    most = e.storages[e.memory[e.made.steps[i].out]].bytes;
    best = {i, j};
  }
  return best;
}

/// Lets products gather their operands panel by panel until the workspace is within a limit: first the product that
/// saves most, and when there are no more, in narrower panels. They move the same bytes. If that does not suffice,
/// operands that are gathered before a loop are gathered in every iteration.
class panel_gathering {
 public:
  constexpr panel_gathering(emitted& e, const sizes& at, std::int64_t limit)
      : e_(e), steps_(e.made.steps), at_(at), limit_(limit), bytes_(needed()) {}

  constexpr void run() {
    while (bytes_ > limit_) {
      gather_in_panels();
      narrow();
      if (bytes_ <= limit_ || !gather_in_loop()) return;
    }
  }

 private:
  constexpr std::int64_t needed() const {
    emitted copy = e_;
    const program made = allocate(std::move(copy));
    return workspace(made, at_);
  }
  constexpr void divide(std::uint16_t n) {
    for (step& s : steps_)
      if (s.panels != 0) s.panels = n;
  }
  constexpr void gather_in_panels() {
    divide(1);
    for (bytes_ = needed(); bytes_ > limit_; bytes_ = needed()) {
      const gathered_product best = largest_gathered(e_, product_for_panels);
      if (best.move == none) return;
      step& product = steps_[best.product];
      steps_[best.move].panels = product.panels = 1;
      // It reads the source of the gathered operand, until it is over.
      if (const std::uint16_t from = steps_[best.move].in[0]; !product.in.contains(from)) product.in.push_back(from);
    }
  }
  /// The fewest panels that suffice; if none do, the fewest that take least.
  constexpr void narrow() {
    constexpr std::uint16_t most_panels = 256;
    std::uint16_t best = 1;
    for (std::uint16_t n = 2; n <= most_panels && bytes_ > limit_; n = narrowed(2 * n)) {
      divide(n);
      const std::int64_t own = needed();
      if (own >= bytes_) continue;
      bytes_ = own;
      best = n;
    }
    divide(best);
  }
  /// Moves the largest gather before a loop into the loop; false: there is none.
  constexpr bool gather_in_loop() {
    const gathered_product best = largest_gathered(e_, product_in_loop);
    if (best.move == none) return false;
    steps_[best.move].in_loop = steps_[best.product].in_loop;
    const auto place = [&](std::size_t k) { return steps_.begin() + static_cast<std::ptrdiff_t>(k); };
    std::rotate(place(best.move), place(best.move + 1), place(best.product));
    return true;
  }

  emitted& e_;
  indexed_vector<step>& steps_;
  const sizes& at_;
  std::int64_t limit_, bytes_;
};

}}} // namespace cleave::v0::lowering
