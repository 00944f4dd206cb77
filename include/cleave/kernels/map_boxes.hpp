// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/kernels/map.hpp>

#include <algorithm>
#include <cstring>
#include <type_traits>

// A map whose operands are each several arrays (a shard and its halo), or whose expression differs between parts of the
// domain. Its iteration space is cut into boxes in which every load is one array with plain strides.

namespace cleave { inline namespace v0 {

/// A part of the iteration space of a map in which every load is one array with plain strides.
struct map_segment {
  /// Where a load begins: at which of the step's addresses, and how many bytes further.
  struct source {
    std::size_t address;
    std::int64_t bytes;
    /// Whether it moves through its array as the result does through its own.
    bool beside_result = false;
  };
  bound_loops loops{};
  indexed_vector<source> from{};
  /// Of each result, how many bytes after its address it begins.
  std::int64_t out_bytes[max_results]{};
  /// Its indices along the first dim of the loop.
  std::int64_t first_row = 0, rows = 1;
  const map_functions* code = nullptr;
  /// The load that it copies, which moves like its one result: nothing is to be done if both are one. -1: it computes.
  int copies = -1;

  /// Whether it reads a message that may still be in flight.
  bool waits = false;

  bool stays(const void* const* loads, void* const* out) const { return copies >= 0 && loads[copies] == out[0]; }
  /// Where its results begin; `to`: the addresses of the step's.
  void find_results(void* const* to, void** out) const {
    for (int k = 0; k < loops.written; ++k) out[k] = static_cast<char*>(to[k]) + out_bytes[k];
  }
};

/// Segments that follow each other along the inner dim. They are computed together, some lines at a time, so that every
/// line of the cache is read and written once.
struct map_box {
  indexed_vector<map_segment> segments{};
  /// Lines of each segment, and the elements of a line of all segments.
  std::int64_t lines = 0, width = 0;
  /// A unit of parallel work is `unit_lines` lines, or one of `line_parts` parts of a line. The number of the first
  /// unit.
  std::int64_t unit_lines = 1, line_parts = 1, first_unit = 0;
  /// Whether it has segments that wait, and segments that do not.
  bool waits = false, starts = false;
  /// Whether the results use non-temporal stores.
  bool non_temporal = false;

  std::int64_t units() const { return (lines + unit_lines - 1) / unit_lines * line_parts; }
};

/// Which segments of a map run: all, or those that wait for a halo, or the others.
enum class box_part : std::uint8_t { all, waiting, others };

struct map_boxes {
  indexed_vector<map_box> all{};
  std::int64_t units = 0;
  /// The extent of the first dim of the loop, and the bytes of the result for each index of it. 0 bytes: the dims of
  /// the loop are in another order in memory.
  std::int64_t rows = 0, row_bytes = 0;
  /// Bytes of the result that are 0 unless a box writes them.
  std::int64_t zeroed = 0;
  /// The addresses of all loads of a run, segment by segment.
  indexed_vector<const void*> from{};

  void append(map_box box) {
    for (const map_segment& s : box.segments) {
      box.width += s.loops.inner.extent;
      (s.waits ? box.waits : box.starts) = true;
    }
    const loop_nest& nest = box.segments.front().loops.outer;
    box.lines = nest.size() / nest.back().extent;
    if (box.width < detail::map_grain) box.unit_lines = detail::map_grain / box.width;
    else box.line_parts = (box.width + detail::map_grain - 1) / detail::map_grain;
    box.first_unit = units;
    units += box.units();
    for (const map_segment& s : box.segments) from.resize(from.size() + s.from.size());
    all.push_back(std::move(box));
  }
};

namespace detail {

/// Copies lines of equal length from one array to another one with the same strides. Borders are few elements wide.
inline void copy_lines(const char* from, char* to, std::int64_t bytes, std::int64_t apart, std::int64_t lines) {
  const auto copy = [&](auto size) {
    for (std::int64_t line = 0; line < lines; ++line, from += apart, to += apart)
      std::memcpy(to, from, static_cast<std::size_t>(size));
  };
  if (bytes == 4) copy(std::integral_constant<std::size_t, 4>{});
  else if (bytes == 8) copy(std::integral_constant<std::size_t, 8>{});
  else if (bytes == 16) copy(std::integral_constant<std::size_t, 16>{});
  else copy(bytes);
}

/// Elements `begin` to `end` of some lines of a box that follow each other along one dim.
struct box_stretch {
  std::int64_t first_line, lines, begin, end;
};

struct map_boxes_work {
  const map_boxes& boxes;
  void* const* to;
  box_part part;

  bool runs(bool waits) const { return part == box_part::all || waits == (part == box_part::waiting); }
  static void run(const void* work, std::int64_t begin, std::int64_t end) {
    const map_boxes_work& w = *static_cast<const map_boxes_work*>(work);
    const void* const* from = w.boxes.from.data();
    bool non_temporal = false;
    for (const map_box& box : w.boxes.all) {
      const bool any = (box.waits && w.runs(true)) || (box.starts && w.runs(false));
      const std::int64_t units = any ? box.units() : 0;
      for (std::int64_t unit = begin - box.first_unit > 0 ? begin - box.first_unit : 0;
           unit < units && unit + box.first_unit < end; ++unit) {
        const std::int64_t first = unit / box.line_parts * box.unit_lines, number = unit % box.line_parts;
        w.run_lines(box, from, first, std::min(first + box.unit_lines, box.lines), begin_of(box, number),
                    begin_of(box, number + 1));
        non_temporal = non_temporal || box.non_temporal;
      }
      for (const map_segment& s : box.segments) from += s.from.size();
    }
    if (non_temporal) finish_stores_non_temporal();
  }
  /// The start of a part of a line: a multiple of the elements that are computed at once.
  static std::int64_t begin_of(const map_box& box, std::int64_t part) {
    return part == box.line_parts ? box.width : box.width * part / box.line_parts / vector_block * vector_block;
  }
  /// Elements `begin` to `end` of lines `first` to `last` of a box.
  void run_lines(const map_box& box, const void* const* from, std::int64_t first, std::int64_t last, std::int64_t begin,
                 std::int64_t end) const {
    for (box_stretch some{first, 0, begin, end}; some.first_line < last; some.first_line += some.lines) {
      some.lines = std::min(last - some.first_line, lines_in_a_row(box, some.first_line));
      if (box.non_temporal) {
        store_non_temporal(box, from, some);
        continue;
      }
      // Copied segments share cache lines with the computed one, which is longer and brings them in faster.
      for (const bool copied : {false, true}) {
        const void* const* loads = from;
        std::int64_t at = 0;
        for (const map_segment& s : box.segments) {
          if ((s.copies >= 0) == copied && runs(s.waits))
            run_segment(s, loads, {some.first_line, some.lines, some.begin - at, some.end - at});
          at += s.loops.inner.extent;
          loads += s.from.size();
        }
      }
    }
  }
  /// The segments that run: those that follow each other are stored together.
  void store_non_temporal(const map_box& box, const void* const* loads, const box_stretch& some) const {
    constexpr int most = 8;
    line_piece pieces[most];
    int count = 0;
    void* out[max_results];
    const auto store = [&] {
      if (count == 0) return;
      const std::int64_t begin = std::max(some.begin, pieces[0].begin), end = std::min(some.end, pieces[count - 1].end);
      const std::int64_t bytes = box.segments.front().code->bytes;
      const bound_loops& l = *pieces[0].loops;
      for (int k = 0; k < l.written; ++k) out[k] = as<char>(out[k]) + (begin - pieces[0].begin) * bytes;
      compute_lines_non_temporal(pieces, count,
                                 {some.lines, begin, end, out, pieces[0].apart + l.first_result(), bytes});
      count = 0;
    };
    std::int64_t end = 0;
    for (const map_segment& s : box.segments) {
      const std::int64_t begin = end;
      end += s.loops.inner.extent;
      const bool takes_part = runs(s.waits) && begin < some.end && end > some.begin;
      if (!takes_part || count == most) store();
      if (takes_part) {
        const odometer at = before_line(s, some.first_line);
        const std::int64_t* const along = at.offset() + s.loops.first_result();
        for (int k = 0; k < s.loops.written && count == 0; ++k)
          out[k] = as<char>(to[k]) + s.out_bytes[k] + along[k] * s.code->bytes;
        pieces[count++] = {s.loops, loads, s.code->lines, begin, end, at.offset(), at.apart()};
      }
      loads += s.from.size();
    }
    store();
  }
  static odometer before_line(const map_segment& s, std::int64_t line) {
    return {s.loops.outer, s.loops.outer.rank - 1, s.loops.walked, line};
  }
  static std::int64_t lines_in_a_row(const map_box& box, std::int64_t line) {
    std::int64_t lines = box.lines - line;
    for (const map_segment& s : box.segments) lines = std::min(lines, before_line(s, line).left());
    return lines;
  }
  /// The stretch counts from the first element of the segment, and may be longer than it.
  void run_segment(const map_segment& s, const void* const* loads, const box_stretch& some) const {
    void* out[max_results];
    s.find_results(to, out);
    const bound_loops& l = s.loops;
    const std::int64_t begin = std::max<std::int64_t>(some.begin, 0), end = std::min(some.end, l.inner.extent);
    if (begin >= end || s.stays(loads, out)) return;
    const odometer at = before_line(s, some.first_line);
    if (s.copies < 0)
      return map_work{l, loads, out, *s.code}.run_lines(at.offset(), at.apart(), some.lines, begin, end);
    const std::int64_t size = s.code->bytes, first = (at.offset()[l.walked - 1] + begin) * size;
    copy_lines(as<char>(loads[s.copies]) + first, as<char>(out[0]) + first, (end - begin) * size,
               at.apart()[l.walked - 1] * size, some.lines);
  }
};

} // namespace detail

/// Takes the addresses of the step's operands.
inline void take_addresses(map_boxes& boxes, const void* const* at) {
  std::size_t next = 0;
  for (const map_box& box : boxes.all)
    for (const map_segment& s : box.segments)
      for (const map_segment::source& load : s.from)
        boxes.from[next++] = static_cast<const char*>(at[load.address]) + load.bytes;
}

/// Whether a map may use non-temporal stores if it overwrites no operand.
inline bool may_store_non_temporal(const map_boxes& boxes) {
  std::int64_t bytes = 0;
  for (const map_box& box : boxes.all) bytes += box.lines * box.width * box.segments.front().code->bytes;
  return on_host && stores_of(bytes) == stores::non_temporal;
}
/// Sets whether results use non-temporal stores from now on.
inline void set_non_temporal(map_boxes& boxes, bool past) {
  for (map_box& box : boxes.all)
    box.non_temporal = past && box.width * box.segments.front().code->bytes >= non_temporal_line;
}

/// Indices `first` to `last` of the first dim of the loop, on this thread. `to` is where each result of index 0 is or
/// would be.
inline void run_rows_of_boxes(const map_boxes& boxes, void* const* to, std::int64_t first, std::int64_t last) {
  const void* const* from = boxes.from.data();
  for (const map_box& box : boxes.all)
    for (const map_segment& s : box.segments) {
      const void* const* const loads = from;
      from += s.from.size();
      const std::int64_t begin = first > s.first_row ? first - s.first_row : 0,
                         end = last - s.first_row < s.rows ? last - s.first_row : s.rows;
      void* out[max_results];
      s.find_results(to, out);
      if (begin >= end || s.stays(loads, out)) continue;
      const bound_loops& l = s.loops;
      const std::int64_t row = l.outer.size() / s.rows;
      detail::map_work::run_elements({l, loads, out, *s.code}, begin * row, end * row);
    }
}

/// Runs a map of several boxes, or a part of it. `at`: the addresses of the step's operands.
inline void run_map_boxes(map_boxes& boxes, const void* const* at, void* const* to, box_part part = box_part::all) {
  take_addresses(boxes, at);
  if constexpr (on_host) {
    const detail::map_boxes_work work{boxes, to, part};
    detail::launch_units("cleave map", boxes.units, &detail::map_boxes_work::run, &work);
  } else {
    const void* const* from = boxes.from.data();
    for (const map_box& box : boxes.all)
      for (const map_segment& s : box.segments) {
        void* out[max_results];
        s.find_results(to, out);
        const bool runs = part == box_part::all || s.waits == (part == box_part::waiting);
        if (runs && !s.stays(from, out)) s.code->flat(s.loops, from, out);
        from += s.from.size();
      }
  }
}

}} // namespace cleave::v0
