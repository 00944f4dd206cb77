// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/exchange_spec.hpp>
#include <cleave/storage/box.hpp>

#include <vector>

// Which elements of which shard become which elements of another one: from maps, sizes and layouts alone, so that a sender and
// a receiver find the same without asking each other.

namespace cleave::comm {

/// Indices along one dim of what is filled, and where they come from: `to` counts from the beginning of the receiver's range,
/// `from` is a global index of one dim of the operand, or of two that have the same.
struct stretch {
  index_run along{};
  /// The place in the window, for operands that have the window too; else -1.
  std::int64_t in_window = -1;
  /// The index along the second dim of the operand, where that is one for the whole stretch; else -1.
  std::int64_t fixed = -1;
};

/// One dim of what is filled, with the dims of the operand that decide where it comes from.
struct filled_dim {
  int to = -1;
  int from[2] = {-1, -1};
  /// Positions of a window that both sides have.
  int window_to = -1, window_from = -1;
  std::vector<stretch> stretches{};
  /// Each source once, in places of its own, where stretches use some more than once; else empty.
  std::vector<index_run> distinct{};
};

/// How a receiver fills one part of its buffer from an operand.
struct filling {
  std::vector<filled_dim> dims{};
  bool staged = false;
  bool empty = false;
  /// How many elements come from somewhere.
  std::int64_t filled = 1;
};

/// The map of the major one of two dims that become one; null where there are none.
inline const dim_map* major_of(const exchange_spec& e, std::size_t operand, dim_id to) {
  const dim_map* major = nullptr;
  int count = 0;
  for (const dim_map& m : e.maps) {
    if (m.operand != operand || m.to != to) continue;
    ++count;
    if (m.floors) major = &m;
  }
  return count == 2 ? major : nullptr;
}

inline filling fill_of(const exchange_spec& e, std::size_t operand, std::uint32_t part, const coordinates& at, std::span<const std::int64_t> offsets) {
  filling f;
  const buffer& in = e.in[operand];
  const box mine = indices_of(e.out, e.region, e.at, at);
  dim_set mapped = 0;
  const auto finish = [&](filled_dim& d) {
    std::vector<index_run> all;
    std::int64_t covered = 0;
    for (const stretch& s : d.stretches) {
      all.push_back(s.along);
      covered += s.along.count;
    }
    if (d.window_to < 0) {
      std::vector<index_run> once = distinct_sources(all);
      if (count_of(once) < covered) {
        d.distinct = std::move(once);
        f.staged = true;
      }
    }
    f.empty = f.empty || covered == 0;
    f.filled *= covered;
    f.dims.push_back(std::move(d));
  };
  if (e.is_region()) {
    for (std::size_t m = 0; m < e.region.size(); ++m) {
      const dim_map& map = e.region[m];
      filled_dim d;
      d.to = d.from[0] = in.type.find(map.from);
      const range all = mine[d.to];
      const range wanted = part_along(map, held(e.at[map.to], e.out.where[d.to], at, e.at.axes), digit_of(part, m));
      for (index_run r : runs_of({1, 0, 1, false, map.outside, e.at[map.from]}, wanted)) {
        r.to += wanted.begin - all.begin;
        d.stretches.push_back({r, -1});
      }
      mapped |= dim_bit(map.from);
      finish(d);
    }
  } else {
    for (const dim_map& map : e.maps) {
      if (map.operand != operand) continue;
      mapped |= dim_bit(map.from);
      const int to = e.out.type.find(map.to);
      bool second = false;
      if (const dim_map* major = major_of(e, operand, map.to)) {
        if (map.floors) continue;
        // Two dims as one: each index of the major dim has a stretch of the minor one.
        filled_dim d;
        d.to = to;
        d.from[0] = in.type.find(map.from);
        d.from[1] = in.type.find(major->from);
        const std::int64_t length = e.at[map.from];
        const range wanted = mine[to];
        mapped |= dim_bit(major->from);
        for (std::int64_t i = length > 0 ? wanted.begin / length : 0; wanted.size() > 0 && i * length < wanted.end; ++i) {
          const range here = intersect(wanted, {i * length, (i + 1) * length});
          d.stretches.push_back({{here.begin - wanted.begin, 1, here.begin - i * length, 1, here.size()}, -1, i});
        }
        f.filled *= wanted.size();
        f.empty = f.empty || wanted.size() == 0;
        f.dims.push_back(std::move(d));
        continue;
      }
      for (filled_dim& d : f.dims)
        if (d.to == to) {
          // The diagonal: both dims have the index of the result.
          d.from[1] = in.type.find(map.from);
          second = true;
        }
      if (second) continue;
      filled_dim d;
      d.to = to;
      d.from[0] = in.type.find(map.from);
      const bool skewed = map.window != no_dim;
      if (skewed) {
        d.window_to = e.out.type.find(map.window);
        d.window_from = in.type.find(map.window);
        mapped |= dim_bit(map.window);
      }
      for (std::int64_t w = 0; w < (skewed ? e.at[map.window] : 1); ++w)
        for (const index_run& r : runs_of(bound(map, e.at, w, map.at_run_time == 0 ? 0 : offsets[map.at_run_time]), mine[to]))
          d.stretches.push_back({r, skewed ? w : -1});
      finish(d);
    }
  }
  for (int i = 0; i < in.type.rank; ++i) {
    if ((mapped & dim_bit(in.type[i])) != 0) continue;
    filled_dim d;
    d.to = e.out.type.find(in.type[i]);
    d.from[0] = i;
    const range same = mine[d.to];
    d.stretches.push_back({{0, 1, same.begin, 1, same.size()}, -1});
    f.empty = f.empty || same.size() == 0;
    f.filled *= same.size();
    f.dims.push_back(d);
  }
  return f;
}

/// Extents of the memory in which a staged filling keeps each source once, by position of the buffer that is filled.
inline shape staging_extents(const filling& f, const shape& extents) {
  shape s = extents;
  for (const filled_dim& d : f.dims)
    if (!d.distinct.empty()) s[d.to] = count_of(d.distinct);
  return s;
}

/// A box of elements on its way: from the shard of an operand, to the receiver's buffer or its staging memory.
struct exchange_piece {
  shape extents{};
  std::array<std::int64_t, max_rank> from{}, to{};
  std::int64_t from_offset = 0, to_offset = 0;
  std::int64_t elements = 1;
};

/// The pieces that come from one shard. `target` is the memory that is filled.
template <class Each>
void for_each_piece(const filling& f, const box& shard, const shape& target, Each&& each) {
  if (f.empty || shard.empty()) return;
  const auto from_stride = strides_of(shard.extents()), to_stride = strides_of(target);
  struct part {
    std::int64_t count, from, from_stride, to, to_stride;
  };
  std::vector<std::vector<part>> along;
  for (const filled_dim& d : f.dims) {
    std::vector<part>& parts = along.emplace_back();
    const auto to = to_stride[static_cast<std::size_t>(d.to)];
    const auto take = [&](index_run r, std::int64_t window, std::int64_t fixed = -1) {
      r = within(r, shard[d.from[0]]);
      if (fixed >= 0 && (fixed < shard[d.from[1]].begin || fixed >= shard[d.from[1]].end)) return;
      if (d.from[1] >= 0 && fixed < 0) r = within(r, shard[d.from[1]]);
      if (r.count == 0) return;
      part p{r.count, 0, 0, r.to * to, r.to_step * to};
      for (int i : d.from)
        if (i >= 0 && i == d.from[1] && fixed >= 0) {
          p.from += (fixed - shard[i].begin) * from_stride[static_cast<std::size_t>(i)];
        } else if (i >= 0) {
          p.from += (r.from - shard[i].begin) * from_stride[static_cast<std::size_t>(i)];
          p.from_stride += r.from_step * from_stride[static_cast<std::size_t>(i)];
        }
      if (window >= 0) {
        p.from += window * from_stride[static_cast<std::size_t>(d.window_from)];
        p.to += window * to_stride[static_cast<std::size_t>(d.window_to)];
      }
      parts.push_back(p);
    };
    if (!d.distinct.empty())
      for (const index_run& r : d.distinct) take(r, -1);
    else
      for (const stretch& s : d.stretches) take(s.along, s.in_window, s.fixed);
    if (parts.empty()) return;
  }
  std::vector<std::size_t> at(along.size(), 0);
  while (true) {
    exchange_piece p;
    p.extents.rank = static_cast<int>(along.size());
    for (std::size_t i = 0; i < along.size(); ++i) {
      const part& x = along[i][at[i]];
      p.extents[static_cast<int>(i)] = x.count;
      p.from[i] = x.from_stride;
      p.to[i] = x.to_stride;
      p.from_offset += x.from;
      p.to_offset += x.to;
    }
    p.elements = p.extents.elements();
    each(static_cast<const exchange_piece&>(p));
    std::size_t i = along.size();
    while (i > 0 && ++at[i - 1] == along[i - 1].size()) at[--i] = 0;
    if (i == 0) return;
  }
}

/// From the staging memory to where each source is needed, once or more often.
template <class Each>
void for_each_spread(const filling& f, const shape& staging, const shape& target, Each&& each) {
  filling spread = f;
  box all;
  all.rank = staging.rank;
  for (int i = 0; i < staging.rank; ++i) all.along[static_cast<std::size_t>(i)] = {0, staging[i]};
  for (filled_dim& d : spread.dims) {
    std::vector<stretch> places;
    for (const stretch& s : d.stretches) {
      if (d.distinct.empty()) {
        index_run r = s.along;
        // A common dim, or one whose sources are used once: staged as it is filled.
        r.from = r.to;
        r.from_step = r.to_step;
        places.push_back({r, -1});
        continue;
      }
      for (const index_run& unique : d.distinct) {
        const std::int64_t step = unique.from_step != 0 ? unique.from_step : 1;
        if (s.along.from % step != unique.from % step) continue;
        index_run r = within(s.along, {unique.from, unique.from + (unique.count - 1) * step + 1});
        if (r.count == 0) continue;
        r.from = unique.to + (r.from - unique.from) / step;
        r.from_step = r.from_step / step;
        places.push_back({r, -1});
      }
    }
    d.stretches = std::move(places);
    d.distinct.clear();
    d.from[0] = d.to;
    d.from[1] = -1;
  }
  for_each_piece(spread, all, target, each);
}

} // namespace cleave::comm
