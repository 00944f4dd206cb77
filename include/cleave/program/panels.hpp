// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/box.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/product_form.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>
#include <bit>

// Products whose operands are gathered panel by panel (step::panels): a panel has some indices of the dim along which
// an operand is gathered, and only one panel of each operand needs memory. SUMMA (van de Geijn and Watts 1997) if both
// operands are gathered along the contracted dim.

namespace cleave { inline namespace v0 {

/// The panels of a product on a device, for given sizes.
struct product_panels {
  struct operand {
    /// Whether it is gathered, and the number of the move that gathers it.
    bool gathered = false;
    std::size_t move = 0;
    /// The devices that have a block of it each, in their order, and the extent of a block.
    axis_list over{};
    std::int64_t block = 1;
  };
  operand of[2]{};
  /// The dim along which operands are gathered, its indices that are gathered here, and the extent of a panel.
  dim_id along = no_dim;
  range all{};
  std::int64_t width = 1;
  /// Whether the blocks that are gathered are those of the result. Otherwise operands are gathered as a whole: the
  /// devices decide the same, from sizes alone.
  bool active = true;

  constexpr bool gathers(int x) const { return x < 2 && of[x].gathered; }
  /// The panel that begins at an index: it is within one block of each gathered operand.
  constexpr range at(std::int64_t begin) const {
    std::int64_t end = std::min(begin + width, all.end);
    for (const operand& o : of)
      if (o.gathered) end = std::min(end, all.begin + (owner(o, begin) + 1) * o.block);
    return {begin, end};
  }
  /// The most indices of a panel.
  constexpr std::int64_t widest() const { return std::min(width, std::max<std::int64_t>(all.size(), 0)); }
  /// Which of the devices has an index.
  constexpr std::int64_t owner(const operand& o, std::int64_t index) const { return (index - all.begin) / o.block; }
};

/// The position of the dim along which a move between two buffers gathers.
constexpr int gathered_position(const buffer& from, const buffer& to) {
  return std::countr_zero(from.where.differs_at(to.where));
}

/// The panels of a product of a program.
[[gnu::cold]] constexpr product_panels panels_of(const program_view& p, const step& product, const sizes& at,
                                                 const coordinates& here) {
  product_panels q;
  std::int64_t least = 0;
  for (std::size_t i = 0; &p.steps[i] != &product; ++i) {
    const step& move = p.steps[i];
    if (move.panels == 0 || move.kind != step_kind::move) continue;
    for (int x = 0; x < 2; ++x) {
      if (product.in[as_size(x)] != move.out) continue;
      const buffer &from = p.buffers[move.in[0]], &to = p.buffers[move.out];
      const int position = gathered_position(from, to);
      const axis_list before = from.where[position], after = to.where[position];
      const dim_blocks dim = at.along(to.type[position]);
      const std::int64_t block = dim.longest(at.axes.product(before));
      q.of[x] = {true, i, before.without(after.size()), std::max<std::int64_t>(block, 1)};
      q.along = to.type[position];
      q.all = held(dim, after, here, at.axes);
      least = least == 0 ? q.of[x].block : std::min(least, q.of[x].block);
      q.active = q.active && dim.given == nullptr &&
                 (after.empty() || dim.longest(at.axes.product(after)) == block * at.axes.product(q.of[x].over));
    }
  }
  if (product.panels != 0) q.width = std::max<std::int64_t>((least + product.panels - 1) / product.panels, 1);
  return q;
}
/// Whether the results of the moves of a product have no memory, since it gathers them panel by panel.
constexpr bool is_in_panels(const program_view& p, const step& s, const sizes& at) {
  if (s.panels == 0) return false;
  const step* product = &s;
  while (product->kind != step_kind::gemm || product->panels == 0 || (&s != product && !product->in.contains(s.out)))
    ++product;
  return panels_of(p, *product, at, coordinates{}).active;
}

/// A gathered operand's panel in memory of its own.
constexpr addressing address_of_panel(const buffer& b, const addressing& whole, dim_id along, std::int64_t size) {
  addressing a;
  a.extents = whole.extents;
  a.extents[b.type.find(along)] = size;
  const strides s = strides_of(a.extents);
  for (int i = 0; i < b.type.rank; ++i) a.stride[as_size(i)] = s[i];
  return a;
}
/// The dims of a product of one panel. `address(buffer)` gives where an array is: the left operand, the right one, the
/// result.
template <class Address>
constexpr product_groups groups_of_panel(const program_view& p, const step& s, const product_panels& q,
                                         std::int64_t size, const Address& address) {
  const buffer* const of[3] = {&p.buffers[s.in[0]], &p.buffers[s.in[1]], &p.buffers[s.out]};
  addressing at[3];
  for (int x = 0; x < 3; ++x) {
    at[x] = address(*of[x]);
    if (q.gathers(x)) at[x] = address_of_panel(*of[x], at[x], q.along, size);
    else if (const int i = of[x]->type.find(q.along); i >= 0) at[x].extents[i] = size;
  }
  return groups_of_product(s, of, at);
}

/// Calls f(panel) for each panel; for an empty one if the dim has no index.
template <class F>
constexpr void for_each_panel(const product_panels& q, F&& f) {
  if (q.all.size() <= 0) return f(range{q.all.begin, q.all.begin});
  for (range r = q.at(q.all.begin);; r = q.at(r.end)) {
    f(r);
    if (r.end >= q.all.end) return;
  }
}

/// Bytes of the panels of a product, and of the memory that its products pack.
template <class Address>
constexpr std::int64_t scratch_of_panels(const program_view& p, const step& s, const product_panels& q,
                                         const Address& address) {
  const std::int64_t bytes = size_of(p.buffers[s.out].type.element);
  std::int64_t panels = 0, packed = 0;
  for (int x = 0; x < 2; ++x)
    if (q.gathers(x)) {
      const buffer& b = p.buffers[s.in[as_size(x)]];
      panels += aligned(address_of_panel(b, address(b), q.along, q.widest()).extents.elements() * bytes);
    }
  std::int64_t known = -1;
  for_each_panel(q, [&](range r) {
    if (r.size() == known) return;
    known = r.size();
    packed = std::max(packed, form_of_product(groups_of_panel(p, s, q, known, address), false).packed_bytes(bytes));
  });
  return panels + packed;
}
/// The same on a device, where arguments and results are contiguous.
constexpr std::int64_t scratch_of_panels(const program_view& p, const step& s, const sizes& at,
                                         const coordinates& here) {
  return scratch_of_panels(p, s, panels_of(p, s, at, here),
                           [&](const buffer& b) { return addressing_of(b, p.buffers, p.maps, at, here); });
}

}} // namespace cleave::v0
