// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/cost/exchange.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/storage/box.hpp>

namespace cleave::inline v0 {
class grid_state;
}

namespace cleave::inline v0::comm {

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
  /// A halo that lies in the ghosts of the View that has the shard, whose strides these are: its memory is that of the
  /// shard, around it.
  bool in_ghosts = false;
  strides ghost_strides{};
  /// Elements that are taken from nowhere stay as they are; elsewhere they become 0.
  bool keeps = false;
  sizes at{};

  bool is_region() const { return has_neighbours(out); }
  /// The indices of a device that one part of the exchange fills, and where they begin in its memory: those of a halo
  /// have memory of their own.
  box filled_by(std::uint32_t part, const coordinates& here) const {
    return out.form == form::halo ? part_of_halo(out, part, region, at, here) : indices_of(out, region, at, here);
  }
  std::int64_t begins_at(std::uint32_t part, const coordinates& here) const {
    if (in_ghosts) return ghosts_before(part, here);
    return out.form == form::halo ? offset_of_part(out, part, region, at, here) : 0;
  }
  strides strides_at(std::uint32_t part, const coordinates& here) const {
    return in_ghosts ? ghost_strides : strides_of(filled_by(part, here).extents());
  }
  /// From the first element of the shard to the first one of a part around it.
  std::int64_t ghosts_before(std::uint32_t part, const coordinates& here) const {
    const box there = filled_by(part, here);
    std::int64_t n = 0;
    for (int i = 0; i < there.rank; ++i)
      n += (there[i].begin - held(at[out.type[i]], out.where[i], here, at.axes).begin) * ghost_strides[i];
    return n;
  }
  std::uint32_t part_count() const { return is_region() ? parts_of(region.size()) : 1; }
  bool needs_part(std::uint32_t part) const { return !is_region() || (parts >> part & 1) != 0; }
  bool takes_from(std::size_t operand) const {
    for (const dim_map& m : maps)
      if (m.operand == operand) return true;
    return false;
  }
  /// The axes along which the blocks of an operand are fetched from others.
  axis_set fetched(std::size_t operand) const {
    axis_set set;
    for (const dim_map& m : maps)
      if (m.operand == operand) set |= in[operand].where[in[operand].type.find(m.from)].mask();
    return set;
  }
};

/// An exchange bound to a grid, or several that share messages. An interface, since only programs with an exchange need
/// its code.
class bound_exchange {
 public:
  virtual ~bound_exchange() = default;
  virtual scratch_bytes needs() const = 0;
  /// Sends and receives; `in` has the addresses of the operands, offsets among them, and `out` those of what is filled:
  /// of several exchanges one after the other. Before `finish`, which must follow, operands may be read but not
  /// written, and what is filled and the scratch are left alone.
  virtual void begin(const void* const* in, void* const* out, const scratch& s) = 0;
  virtual void finish() = 0;
  /// Whether this device exchanges messages with others.
  virtual bool communicates() const = 0;
  /// Between both: gives MPI the time to move messages.
  virtual void progress() = 0;
  void run(const void* const* in, void* const* out, const scratch& s) {
    begin(in, out, s);
    finish();
  }
};

} // namespace cleave::inline v0::comm
