// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/kernels/map_boxes.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>

// A map that overwrites in place an operand that it reads at a distance, such as a stencil.

namespace cleave { inline namespace v0 {

/// Computes a few rows into memory of its own and writes them to the operand as soon as no row that is still to be
/// computed reads them. Each thread has consecutive rows. Rows that another thread reads wait until all have computed.
/// So do rows that are read from the other end of the array, as on a ring: these are copied first.
class rolling_map {
 public:
  /// `fitting`: the operands that have the type of the result and all of their memory under one address, a bit each.
  rolling_map(const map_boxes& boxes, std::uint64_t fitting) : rows_(boxes.rows), row_bytes_(boxes.row_bytes) {
    if (!on_host || row_bytes_ == 0 || rows_ == 0) return;
    replaceable_ = fitting;
    for (const map_box& box : boxes.all)
      for (const map_segment& s : box.segments)
        for (const map_segment::source& load : s.from)
          if (!load.beside_result) replaceable_ &= ~bit(load.address);
    for (const map_box& box : boxes.all)
      for (const map_segment& s : box.segments)
        for (const map_segment::source& load : s.from)
          if (may_replace(load.address) && load.bytes != s.out_bytes[0]) note(load, s);
    block_ = std::clamp<std::int64_t>(block_bytes / row_bytes_, 1, rows_);
    // The last block of a thread may have one row, and the next thread reads the rows after its own.
    slots_ = behind_ == 0 ? 1 : rows_up(behind_ - 1, block_) + 2;
  }

  /// Whether the result may have the memory of an operand, and whether the map must roll then: each element of the
  /// result needs more of the operand than the element whose place it takes.
  bool may_replace(std::size_t operand) const { return (replaceable_ & bit(operand)) != 0; }
  bool rolls(std::size_t operand) const { return (replaceable_ & at_distance_ & bit(operand)) != 0; }

  /// Runs the map: the result is written to the memory of operand `replaced`. The boxes have their addresses.
  void run(map_boxes& boxes, std::size_t replaced, const void* const* at, char* to) {
    const std::int64_t most = std::max<std::int64_t>(std::max(behind_, ahead_), 1);
    shares_ = std::clamp<std::int64_t>(rows_ / (2 * most), 1, detail::launch_threads());
    const std::int64_t bytes = (shares_ * rows_of_share() + head_ + tail_) * row_bytes_;
    // There may be more threads than in the calls before.
    char* const memory = memory_.at_least(bytes + std::int64_t{page});
    // Half a page away from the operand: processors compare addresses within a page when loads pass stores.
    const auto place = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % page; };
    beside_ = memory + (place(to) + page / 2 + page - place(memory)) % page / 64 * 64;
    char* const kept = beside_ + shares_ * rows_of_share() * row_bytes_;
    copy_bytes(kept, to, head_ * row_bytes_);
    copy_bytes(kept + head_ * row_bytes_, to + (rows_ - tail_) * row_bytes_, tail_ * row_bytes_);
    std::size_t next = 0;
    for (const map_box& box : boxes.all)
      for (const map_segment& s : box.segments)
        for (const map_segment::source& load : s.from) {
          const void*& from = boxes.from[next++];
          if (at[load.address] != at[replaced] || !is_far(load.bytes - s.out_bytes[0])) continue;
          from = load.bytes < s.out_bytes[0] ? kept + load.bytes
                                             : kept + (head_ - rows_ + tail_) * row_bytes_ + load.bytes;
        }
    const work w{*this, boxes, to};
    detail::launch_units("cleave map", shares_, &work::compute, &w);
    if (shares_ > 1) detail::launch_units("cleave map", shares_, &work::write_back, &w);
  }

 private:
  /// Bytes of rows that are computed at a time before they are written to the operand.
  static constexpr std::int64_t block_bytes = tuned_size(1 << 15, 128);
  static constexpr std::uintptr_t page = 1 << 12;
  static constexpr std::int64_t rows_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

  bool is_far(std::int64_t distance) const { return 2 * std::abs(distance) > rows_ * row_bytes_; }
  static std::uint64_t bit(std::size_t operand) { return std::uint64_t{1} << operand; }
  /// A read at a distance.
  void note(const map_segment::source& load, const map_segment& s) {
    at_distance_ |= bit(load.address);
    const std::int64_t distance = load.bytes - s.out_bytes[0];
    if (!is_far(distance)) {
      std::int64_t& reach = distance < 0 ? behind_ : ahead_;
      reach = std::max(reach, rows_up(std::abs(distance), row_bytes_));
    } else if (distance < 0) {
      // Rows that begin within a row end within another one.
      head_ = std::max(head_, std::min(rows_, rows_up(load.bytes, row_bytes_) + s.rows));
    } else {
      tail_ = std::max(tail_, rows_ - load.bytes / row_bytes_);
    }
  }
  /// Rows of memory of a thread: its first ones, which it holds back, and the blocks in turn.
  std::int64_t rows_of_share() const { return ahead_ + slots_ * block_; }

  struct work {
    const rolling_map& map;
    const map_boxes& boxes;
    char* to;

    struct share {
      std::int64_t begin, first_block, end;
      char* memory;
      std::int64_t blocks;
    };
    share share_of(std::int64_t number) const {
      const std::int64_t begin = map.rows_ * number / map.shares_, end = map.rows_ * (number + 1) / map.shares_;
      const std::int64_t held = number == 0 ? 0 : map.ahead_;
      char* const memory = map.beside_ + number * map.rows_of_share() * map.row_bytes_;
      return {begin, begin + held, end, memory, rows_up(end - begin - held, map.block_)};
    }
    char* slot(const share& s, std::int64_t block) const {
      return s.memory + (map.ahead_ + block % map.slots_ * map.block_) * map.row_bytes_;
    }
    std::int64_t first_row(const share& s, std::int64_t block) const { return s.first_block + block * map.block_; }
    void compute_rows(std::int64_t first, std::int64_t last, char* beside) const {
      void* const out = beside - first * map.row_bytes_;
      run_rows_of_boxes(boxes, &out, first, last);
    }
    void write_block(const share& s, std::int64_t block) const {
      const std::int64_t first = first_row(s, block), last = std::min(first + map.block_, s.end);
      copy_bytes(to + first * map.row_bytes_, slot(s, block), (last - first) * map.row_bytes_);
    }
    std::int64_t first_held(const share& s) const { return std::max<std::int64_t>(s.blocks - map.slots_ + 1, 0); }

    static void compute(const void* self, std::int64_t begin, std::int64_t end) {
      const work& w = *as<work>(self);
      for (std::int64_t number = begin; number < end; ++number) {
        const share s = w.share_of(number);
        if (s.first_block > s.begin) w.compute_rows(s.begin, s.first_block, s.memory);
        for (std::int64_t b = 0; b < s.blocks; ++b) {
          const std::int64_t first = w.first_row(s, b);
          w.compute_rows(first, std::min(first + w.map.block_, s.end), w.slot(s, b));
          if (b + 1 >= w.map.slots_) w.write_block(s, b + 1 - w.map.slots_);
        }
        if (w.map.shares_ == 1) w.write_held(s);
      }
    }
    static void write_back(const void* self, std::int64_t begin, std::int64_t end) {
      const work& w = *as<work>(self);
      for (std::int64_t number = begin; number < end; ++number) w.write_held(w.share_of(number));
    }
    void write_held(const share& s) const {
      copy_bytes(to + s.begin * map.row_bytes_, s.memory, (s.first_block - s.begin) * map.row_bytes_);
      for (std::int64_t b = first_held(s); b < s.blocks; ++b) write_block(s, b);
    }
  };

  std::int64_t rows_, row_bytes_;
  /// Operands, a bit each.
  std::uint64_t replaceable_ = 0, at_distance_ = 0;
  /// How many rows back and ahead the operands are read.
  std::int64_t behind_ = 0, ahead_ = 0;
  /// The first and last rows, which are read from the other end.
  std::int64_t head_ = 0, tail_ = 0;
  std::int64_t block_ = 1, slots_ = 1, shares_ = 1;
  kept_memory<char> memory_{};
  char* beside_ = nullptr;
};

}} // namespace cleave::v0
