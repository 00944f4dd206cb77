// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/layout/blocks.hpp>

#include <algorithm>
#include <string_view>

namespace cleave { inline namespace v0 {

/// The element that an index outside of a dim stands for: none (0), the dim as a ring, its outermost element, or the
/// dim mirrored at the centre of its outermost element (NumPy's wrap, edge and reflect).
enum class border : std::uint8_t { zero, periodic, edge, reflect };

constexpr std::string_view name_of(border b) {
  constexpr enum_table<border, std::string_view, 4> names{{"zero", "periodic", "edge", "reflect"}};
  return names[b];
}

namespace detail {
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
constexpr std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return a - floor_div(a, b) * b; }
} // namespace detail

/// A run of indices along a dim, in equal steps, and the indices that it is taken from.
struct index_run {
  std::int64_t to = 0, to_step = 1, from = 0, from_step = 1, count = 0;
  friend constexpr bool operator==(const index_run&, const index_run&) = default;
};

/// From which index of an operand an index of a result is taken: (stride * index + offset) / divisor. A quotient that
/// is not an integer gives nothing, or, if `floors`, is rounded down. The divisor is 1, or the stride is 1 or -1.
struct index_map {
  std::int64_t stride = 1, offset = 0, divisor = 1;
  bool floors = false;
  border outside = border::zero;
  /// The extent of the operand's dim.
  std::int64_t extent = 0;

  /// -1 if it is taken from nowhere; the element is 0 then.
  constexpr std::int64_t source(std::int64_t index) const {
    const std::int64_t n = stride * index + offset;
    if (extent == 0 || (!floors && detail::floor_mod(n, divisor) != 0)) return -1;
    return inside(detail::floor_div(n, divisor));
  }
  constexpr std::int64_t inside(std::int64_t i) const {
    switch (outside) {
      case border::zero: return i >= 0 && i < extent ? i : -1;
      case border::periodic: return detail::floor_mod(i, extent);
      case border::edge: return i < 0 ? 0 : i < extent ? i : extent - 1;
      case border::reflect: {
        if (extent == 1) return 0;
        const std::int64_t turn = detail::floor_mod(i, 2 * extent - 2);
        return turn < extent ? turn : 2 * extent - 2 - turn;
      }
    }
    return -1;
  }
};

/// The runs that fill the indices `to` of a result; `to` of a run counts from the beginning of the range. Element k of
/// a run goes to r.to + k * r.to_step and comes from r.from + k * r.from_step.
/// @post (1) an index t of `to` is filled by one element of one run if m.source(t) >= 0, otherwise by none
/// @post (2) this element comes from m.source(t)
constexpr indexed_vector<index_run> runs_of(const index_map& m, range to) {
  indexed_vector<index_run> all;
  if (to.size() <= 0 || m.extent == 0) return all;
  // A divisor takes part of the indices at a time: those for which it divides, or which leave the same remainder.
  for (std::int64_t part = 0; part < m.divisor; ++part) {
    const std::int64_t remainder = detail::floor_mod(m.stride * (to.begin + part) + m.offset, m.divisor);
    if (!m.floors && remainder != 0) continue;
    const std::int64_t step = m.divisor, count = (to.size() - part + step - 1) / step;
    // In units of the operand: it starts at `at` and advances by `by`.
    const std::int64_t at = detail::floor_div(m.stride * (to.begin + part) + m.offset, m.divisor);
    const std::int64_t by = m.divisor > 1 ? (m.stride < 0 ? -1 : 1) : m.stride;
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t here = at + i * by, source = m.inside(here);
      // The number of steps until the border is met.
      const std::int64_t e = m.extent, period = m.outside == border::reflect ? std::max<std::int64_t>(e - 1, 1) : e;
      std::int64_t low = 0, high = e;
      if (m.outside == border::periodic || m.outside == border::reflect) {
        low = detail::floor_div(here, period) * period;
        high = low + period;
      } else if (here < 0 || here >= e) {
        low = here < 0 ? here - count * std::max<std::int64_t>(by < 0 ? -by : by, 1) : e;
        high = here < 0 ? 0 : here + count * std::max<std::int64_t>(by < 0 ? -by : by, 1) + 1;
      }
      std::int64_t steps = by > 0 ? (high - here + by - 1) / by : by < 0 ? (here - low) / -by + 1 : count;
      steps = std::min(steps, count - i);
      if (source >= 0) {
        const std::int64_t next = steps > 1 ? m.inside(here + by) : source + by;
        all.push_back({part + i * step, step, source, steps > 1 ? next - source : 0, steps});
      }
      i += steps;
    }
  }
  return all;
}

/// The indices of an operand from which runs take elements, each once.
/// @post (1) an index is in the result if and only if it is in some run
/// @post (2) element number n of the result has r.to + k == n: runs are numbered one after another
/// @post (3) no index is in the result twice
constexpr indexed_vector<index_run> distinct_sources(indexed_vector<index_run> runs) {
  std::int64_t step = 1;
  for (index_run& r : runs) {
    if (r.from_step < 0) r.from += (r.count - 1) * r.from_step, r.from_step = -r.from_step;
    if (r.from_step == 0 || r.count == 1) r.count = 1, r.from_step = 0;
    step = std::max(step, r.from_step);
  }
  for (index_run& r : runs) r.from_step = step, r.to = 0, r.to_step = 1;
  if (runs.size() < 2) return runs;
  const auto residue = [&](const index_run& r) { return r.from % step; };
  std::sort(runs.begin(), runs.end(), [&](const index_run& a, const index_run& b) {
    return residue(a) != residue(b) ? residue(a) < residue(b) : a.from < b.from;
  });
  indexed_vector<index_run> merged;
  for (const index_run& r : runs) {
    if (!merged.empty() && residue(merged.back()) == residue(r) &&
        r.from <= merged.back().from + merged.back().count * step) {
      const std::int64_t end = (r.from - merged.back().from) / step + r.count;
      merged.back().count = std::max(merged.back().count, end);
    } else {
      merged.push_back(r);
    }
  }
  std::int64_t number = 0;
  for (index_run& r : merged) {
    r.to = number;
    number += r.count;
  }
  return merged;
}

constexpr std::int64_t count_of(const indexed_vector<index_run>& runs) {
  std::int64_t n = 0;
  for (const index_run& r : runs) n += r.count;
  return n;
}

/// The part of a run that is taken from a block.
/// @post (1) it has the elements of the run that come from indices of the block, and no others
constexpr index_run within(const index_run& r, range block) {
  index_run part = r;
  if (r.from_step == 0) {
    if (r.from < block.begin || r.from >= block.end) part.count = 0;
    return part;
  }
  const std::int64_t s = r.from_step > 0 ? r.from_step : -r.from_step;
  // How many steps until it enters the block, and until it leaves it.
  const std::int64_t ahead = r.from_step > 0 ? block.begin - r.from : r.from - (block.end - 1);
  const std::int64_t over = r.from_step > 0 ? block.end - r.from : r.from - block.begin + 1;
  const std::int64_t first = ahead > 0 ? (ahead + s - 1) / s : 0, last = over > 0 ? (over + s - 1) / s : 0;
  const std::int64_t end = std::min(last, r.count);
  part.count = end > first ? end - first : 0;
  part.to += first * r.to_step;
  part.from += first * r.from_step;
  return part;
}

}} // namespace cleave::v0
