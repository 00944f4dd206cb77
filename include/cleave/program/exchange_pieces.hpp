// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/exchange_spec.hpp>

#include <utility>

// Which elements of which shard become which elements of another one: from maps, sizes and layouts alone, so that a
// sender and a receiver find the same without asking each other.

namespace cleave { inline namespace v0 { namespace comm {

/// Indices along one dim of the buffer that is filled, and where they come from: `to` counts from the beginning of the
/// receiver's range, `from` is a global index of one dim of the operand, or of two dims that have the same index.
struct stretch {
  index_run along{};
  /// The index in the window of the map; -1 if it has none.
  std::int64_t in_window = -1;
  /// The index along the second dim of the operand if it is one for the whole stretch; else -1.
  std::int64_t fixed = -1;
};

/// One dim of the buffer that is filled, and the dims of the operand that it comes from.
struct filled_dim {
  int to = -1;
  int from[2] = {-1, -1};
  /// Positions of a window: in the filled buffer, and in the operand if it has it too.
  int window_to = -1, window_from = -1;
  indexed_vector<stretch> stretches{};
  /// Each source once, at an index of its own, if stretches use some more than once; else empty.
  indexed_vector<index_run> distinct{};
};

/// How a receiver fills one part of its buffer from an operand.
struct filling {
  indexed_vector<filled_dim> dims{};
  bool staged = false;
  bool empty = false;
  /// The number of elements that are filled.
  std::int64_t filled = 1;
};

/// The map of the major one of two dims that become one; null if there are none.
constexpr const dim_map* major_of(const exchange_spec& e, std::size_t operand, dim_id to) {
  const dim_map* major = nullptr;
  int count = 0;
  for (const dim_map& m : e.maps) {
    if (m.operand != operand || m.to != to) continue;
    ++count;
    if (m.floors) major = &m;
  }
  return count == 2 ? major : nullptr;
}

namespace detail {

/// Finds how one device fills a part of its buffer from an operand, dim by dim.
class filler {
 public:
  constexpr filler(const exchange_spec& e, std::size_t operand, std::uint32_t part, const coordinates& at)
      : e_(e), in_(e.in[operand]), at_(at), mine_(e.filled_by(part, at)) {}

  /// A dim of a region around the blocks of the operand.
  constexpr void add_region_dim(const dim_map& map, int digit) {
    filled_dim d;
    d.to = d.from[0] = in_.type.find(map.from);
    const range block = held(e_.at.along(map.to), e_.out.where[d.to], at_, e_.at.axes),
                wanted = part_along(map, block, digit);
    for (index_run r : runs_of({1, 0, 1, false, map.outside, e_.at[map.from]}, wanted)) {
      r.to += wanted.begin - mine_[d.to].begin;
      d.stretches.push_back({r, -1});
    }
    mapped_ |= dim_bit(map.from);
    add(std::move(d));
  }
  /// Two dims of the operand as one: each index of the major dim has a stretch of the minor one.
  constexpr void add_merged_dim(const dim_map& minor, const dim_map& major) {
    filled_dim d;
    d.to = e_.out.type.find(minor.to);
    d.from[0] = in_.type.find(minor.from);
    d.from[1] = in_.type.find(major.from);
    mapped_ |= dim_bit(minor.from) | dim_bit(major.from);
    const std::int64_t length = e_.at[minor.from];
    const range wanted = mine_[d.to];
    for (std::int64_t i = length > 0 ? wanted.begin / length : 0; wanted.size() > 0 && i * length < wanted.end; ++i) {
      const range here = intersect(wanted, {i * length, (i + 1) * length});
      d.stretches.push_back({{here.begin - wanted.begin, 1, here.begin - i * length, 1, here.size()}, -1, i});
    }
    append(std::move(d), wanted.size());
  }
  /// A dim that follows a map. `offset`: the part of the map's offset that only the run knows.
  constexpr void add_mapped_dim(const dim_map& map, std::int64_t offset) {
    mapped_ |= dim_bit(map.from);
    const int to = e_.out.type.find(map.to);
    for (filled_dim& d : made_.dims)
      if (d.to == to) {
        // The diagonal: both dims of the operand have the index of the result.
        d.from[1] = in_.type.find(map.from);
        return;
      }
    filled_dim d;
    d.to = to;
    d.from[0] = in_.type.find(map.from);
    const bool skewed = map.window != no_dim;
    if (skewed) {
      d.window_to = e_.out.type.find(map.window);
      d.window_from = in_.type.find(map.window);
      mapped_ |= dim_bit(map.window);
    }
    for (std::int64_t w = 0; w < (skewed ? e_.at[map.window] : 1); ++w)
      for (const index_run& r : runs_of(bound(map, e_.at, w, offset), mine_[to]))
        d.stretches.push_back({r, skewed ? w : -1});
    add(std::move(d));
  }
  /// The dims of the operand that no map mentions: their indices are those of the result.
  constexpr void add_common_dims() {
    for (int i = 0; i < in_.type.rank; ++i) {
      if (mapped_.contains(in_.type[i])) continue;
      filled_dim d;
      d.to = e_.out.type.find(in_.type[i]);
      d.from[0] = i;
      const range same = mine_[d.to];
      d.stretches.push_back({{0, 1, same.begin, 1, same.size()}, -1});
      append(std::move(d), same.size());
    }
  }
  constexpr filling& made() { return made_; }

 private:
  /// Adds a dim, staged if stretches use some sources more than once.
  constexpr void add(filled_dim d) {
    indexed_vector<index_run> all;
    std::int64_t covered = 0;
    for (const stretch& s : d.stretches) {
      all.push_back(s.along);
      covered += s.along.count;
    }
    if (d.window_from < 0) {
      indexed_vector<index_run> once = distinct_sources(all);
      if (count_of(once) < covered) {
        d.distinct = std::move(once);
        made_.staged = true;
      }
    }
    append(std::move(d), covered);
  }
  constexpr void append(filled_dim d, std::int64_t covered) {
    made_.empty = made_.empty || covered == 0;
    made_.filled *= covered;
    made_.dims.push_back(std::move(d));
  }

  const exchange_spec& e_;
  const buffer& in_;
  const coordinates& at_;
  /// The device's indices of the filled buffer.
  box mine_;
  /// Dims of the operand that have been dealt with.
  dim_set mapped_{};
  filling made_{};
};

} // namespace detail

/// How the device at these coordinates fills a part of its buffer from an operand.
constexpr filling fill_of(const exchange_spec& e, std::size_t operand, std::uint32_t part, const coordinates& at,
                          indexed_span<const std::int64_t> offsets) {
  detail::filler fill(e, operand, part, at);
  if (e.is_region())
    for (std::size_t m = 0; m < e.region.size(); ++m) fill.add_region_dim(e.region[m], digit_of(part, m));
  else
    for (const dim_map& map : e.maps) {
      if (map.operand != operand) continue;
      const dim_map* const major = major_of(e, operand, map.to);
      if (major == nullptr) fill.add_mapped_dim(map, map.at_run_time == 0 ? 0 : offsets[map.at_run_time]);
      else if (!map.floors) fill.add_merged_dim(map, *major);
    }
  fill.add_common_dims();
  return std::move(fill.made());
}

/// Extents of the memory in which a staged filling keeps each source once, by position of the filled buffer. All
/// indices of a window share a source that is kept once.
constexpr shape staging_extents(const filling& f, const shape& extents) {
  shape s = extents;
  for (const filled_dim& d : f.dims) {
    if (d.distinct.empty()) continue;
    s[d.to] = count_of(d.distinct);
    if (d.window_to >= 0) s[d.window_to] = 1;
  }
  return s;
}

/// A box of elements in transit: from the shard of an operand, to the receiver's buffer or its staging memory.
struct exchange_piece {
  shape extents{};
  strides from{}, to{};
  std::int64_t from_offset = 0, to_offset = 0;
  std::int64_t elements = 1;

  constexpr void append(std::int64_t extent, std::int64_t from_stride, std::int64_t to_stride) {
    from[extents.rank] = from_stride;
    to[extents.rank] = to_stride;
    extents[extents.rank++] = extent;
  }
};

namespace detail {

/// A run of elements along one filled dim: how many, and where in two arrays. The same run may come again at equal
/// distances: the rows of dims that are merged, the indices of a window.
struct piece_run {
  std::int64_t count, from, from_stride, to, to_stride;
  std::int64_t times = 1, from_again = 0, to_again = 0;
};

/// The runs along one filled dim that a shard has.
class runs_in_shard {
 public:
  /// `may_come_again`: whether runs at equal distances may be one.
  constexpr runs_in_shard(const filled_dim& d, const box& shard, const strides& from, const strides& to,
                          bool may_come_again)
      : d_(d), shard_(shard), from_(from), to_(to), may_come_again_(may_come_again) {
    if (!d.distinct.empty())
      for (const index_run& r : d.distinct) take(r, -1, -1);
    else
      for (const stretch& s : d.stretches) take(s.along, s.in_window, s.fixed);
  }
  indexed_vector<piece_run> all{};
  constexpr bool comes_again() const {
    for (const piece_run& p : all)
      if (p.times > 1) return true;
    return false;
  }

 private:
  /// A run by its indices alone, by which sender and receiver agree whether it comes again.
  struct indices {
    index_run run{};
    std::int64_t window = -1, fixed = -1;
    /// The distance from another one: of the indices on both sides, and of the fixed index.
    constexpr indices minus(const indices& o) const {
      return {{run.to - o.run.to, run.to_step, run.from - o.run.from, run.from_step, run.count},
              window - o.window,
              fixed - o.fixed};
    }
    friend constexpr bool operator==(const indices&, const indices&) = default;
  };
  constexpr void add(const piece_run& p, const indices& own) {
    const bool alike = !all.empty() && may_come_again_ && own.run.count == last_.run.count &&
                       own.run.from_step == last_.run.from_step && own.run.to_step == last_.run.to_step;
    if (alike && (all.back().times == 1 || own.minus(last_) == distance_)) {
      piece_run& first = all.back();
      if (first.times++ == 1) first.from_again = p.from - first.from, first.to_again = p.to - first.to;
      distance_ = own.minus(last_);
    } else {
      all.push_back(p);
    }
    last_ = own;
  }
  constexpr void take(index_run r, std::int64_t window, std::int64_t fixed) {
    const int first = d_.from[0], second = d_.from[1];
    r = within(r, shard_[first]);
    if (fixed >= 0 && (fixed < shard_[second].begin || fixed >= shard_[second].end)) return;
    if (second >= 0 && fixed < 0) r = within(r, shard_[second]);
    if (r.count == 0) return;
    piece_run p{r.count, (r.from - shard_[first].begin) * from_[first], r.from_step * from_[first], r.to * to_[d_.to],
                r.to_step * to_[d_.to]};
    if (second >= 0 && fixed >= 0) {
      p.from += (fixed - shard_[second].begin) * from_[second];
    } else if (second >= 0) {
      p.from += (r.from - shard_[second].begin) * from_[second];
      p.from_stride += r.from_step * from_[second];
    }
    if (window >= 0 && d_.window_from >= 0) p.from += window * from_[d_.window_from];
    if (window >= 0) p.to += window * to_[d_.window_to];
    add(p, {r, window, fixed});
  }

  const filled_dim& d_;
  const box& shard_;
  const strides &from_, &to_;
  bool may_come_again_;
  indices last_{}, distance_{};
};

} // namespace detail

/// The pieces that come from one shard, whose array has the strides `from`. The memory that is filled has the strides
/// `to`.
template <class Each>
constexpr void for_each_piece(const filling& f, const box& shard, const strides& from, const strides& to, Each&& each) {
  if (f.empty || shard.empty()) return;
  indexed_vector<indexed_vector<detail::piece_run>> along;
  std::size_t rank = f.dims.size();
  for (const filled_dim& d : f.dims) {
    detail::runs_in_shard runs(d, shard, from, to, rank < max_rank);
    rank += runs.comes_again();
    if (runs.all.empty()) return;
    along.push_back(std::move(runs.all));
  }
  // All combinations of runs, the last dim fastest.
  indexed_vector<std::size_t> at(along.size(), 0);
  while (true) {
    exchange_piece p;
    for (std::size_t i = 0; i < along.size(); ++i) {
      const detail::piece_run& x = along[i][at[i]];
      if (x.times > 1) p.append(x.times, x.from_again, x.to_again);
      p.append(x.count, x.from_stride, x.to_stride);
      p.from_offset += x.from;
      p.to_offset += x.to;
    }
    p.elements = p.extents.elements();
    each(std::as_const(p));
    std::size_t i = along.size();
    while (i > 0 && ++at[i - 1] == along[i - 1].size()) at[--i] = 0;
    if (i == 0) return;
  }
}

/// The copies from the staging memory to every element that needs a source, in memory with the strides `to`.
template <class Each>
constexpr void for_each_spread(const filling& f, const shape& staging, const strides& to, Each&& each) {
  filling spread = f;
  box all;
  all.rank = staging.rank;
  for (int i = 0; i < staging.rank; ++i) all[i] = {0, staging[i]};
  for (filled_dim& d : spread.dims) {
    indexed_vector<stretch> copies;
    for (const stretch& s : d.stretches) {
      if (d.distinct.empty()) {
        index_run r = s.along;
        // A common dim, or one whose sources are used once, has the same indices in the staging memory.
        r.from = r.to;
        r.from_step = r.to_step;
        copies.push_back({r, s.in_window});
        continue;
      }
      for (const index_run& unique : d.distinct) {
        const std::int64_t step = unique.from_step != 0 ? unique.from_step : 1;
        if (s.along.from % step != unique.from % step) continue;
        index_run r = within(s.along, {unique.from, unique.from + (unique.count - 1) * step + 1});
        if (r.count == 0) continue;
        r.from = unique.to + (r.from - unique.from) / step;
        r.from_step = r.from_step / step;
        copies.push_back({r, s.in_window});
      }
    }
    d.stretches = std::move(copies);
    d.from[0] = d.to;
    d.from[1] = -1;
    d.window_from = d.distinct.empty() ? d.window_to : -1;
    d.distinct.clear();
  }
  for_each_piece(spread, all, strides_of(staging), to, each);
}

}}} // namespace cleave::v0::comm
