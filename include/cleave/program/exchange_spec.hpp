// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/exchange.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/program_view.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// An exchange of a plan, for given sizes.
struct exchange_spec {
  indexed_vector<buffer> in{};
  /// The strides of the shards of the operands; none: they are contiguous.
  indexed_vector<strides> in_strides{};
  buffer out{};
  indexed_vector<dim_map> maps{};
  /// For a region: its maps in order, and the parts that are needed.
  indexed_vector<dim_map> region{};
  std::uint32_t parts = 0;
  /// The halo is stored in the ghosts of the View that has the shard, whose strides these are: its memory surrounds the
  /// shard's.
  bool in_ghosts = false;
  /// Parts of a halo are stored in LayoutLeft order.
  bool left = false;
  strides ghost_strides{};
  /// Elements without a source keep their value; otherwise they become 0.
  bool keeps = false;
  sizes at{};

  constexpr bool is_region() const { return has_neighbours(out); }
  /// The indices of a device that one part of the exchange fills, and where they begin in its memory: those of a halo
  /// have memory of their own.
  constexpr box filled_by(std::uint32_t part, const coordinates& here) const {
    return out.form == form::halo ? part_of_halo(out, part, region, at, here) : indices_of(out, region, at, here);
  }
  constexpr std::int64_t begins_at(std::uint32_t part, const coordinates& here) const {
    if (in_ghosts) return ghosts_before(part, here);
    return out.form == form::halo ? offset_of_part(out, part, region, at, here) : 0;
  }
  constexpr strides strides_at(std::uint32_t part, const coordinates& here) const {
    return in_ghosts ? ghost_strides : strides_of(filled_by(part, here).extents(), left);
  }
  /// From the first element of the shard to the first one of a part around it.
  constexpr std::int64_t ghosts_before(std::uint32_t part, const coordinates& here) const {
    const box there = filled_by(part, here);
    std::int64_t n = 0;
    for (int i = 0; i < there.rank; ++i)
      n += (there[i].begin - held(at.along(out.type[i]), out.where[i], here, at.axes).begin) * ghost_strides[i];
    return n;
  }
  constexpr std::uint32_t part_count() const { return is_region() ? parts_of(region.size()) : 1; }
  constexpr bool needs_part(std::uint32_t part) const { return !is_region() || (parts >> part & 1) != 0; }
  constexpr bool takes_from(std::size_t operand) const {
    for (const dim_map& m : maps)
      if (m.operand == operand) return true;
    return false;
  }
  /// The axes along which the blocks of an operand are fetched from others.
  constexpr axis_set fetched(std::size_t operand) const {
    axis_set set;
    for (const dim_map& m : maps)
      if (m.operand == operand) set |= in[operand].where[in[operand].type.find(m.from)].mask();
    return set;
  }
};

/// An exchange of a program whose arguments and results are contiguous.
[[gnu::cold]] constexpr exchange_spec exchange_of(const program_view& p, const step& s, const sizes& at) {
  exchange_spec e;
  for (std::uint16_t in : s.in) e.in.push_back(p.buffers[in]);
  e.out = p.buffers[s.out];
  for (const dim_map& m : p.maps.subspan(s.first_map, s.maps)) e.maps.push_back(m);
  if (e.is_region())
    for (const dim_map& m : p.maps.subspan(e.out.first_map, e.out.maps)) e.region.push_back(m);
  e.out.first_map = 0;
  e.parts = e.out.parts;
  e.keeps = s.keeps;
  e.at = at;
  return e;
}

}}} // namespace cleave::v0::comm
