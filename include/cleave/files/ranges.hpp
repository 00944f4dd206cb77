// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/files/checksum.hpp>
#include <cleave/files/file.hpp>
#include <cleave/layout/box.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

// Which bytes of files a rank reads or writes for its shards, whatever the format: one function, `part_of`.

namespace cleave { inline namespace v0 { namespace io {

/// The traffic of a load or a save, of all ranks together.
struct traffic {
  /// Bytes of the shards, or of the owned parts of them, without headers and padding of formats.
  std::int64_t needed = 0;
  /// Bytes of all calls that read or write elements, and the number of these calls.
  std::int64_t moved = 0, calls = 0;
  /// 1 if nothing was read in vain.
  double ratio() const { return needed == 0 ? 1 : as_double(moved) / as_double(needed); }
};

namespace detail {

/// Checks of the blocks of an array or of a piece of it.
struct block_checks {
  enum class by : std::uint8_t { nothing, zip, castagnoli } kind = by::nothing;
  /// Bytes of a block; the last one may be shorter.
  std::int64_t block = 0;
};

/// The linear checks of blocks, from runs of bytes in the order of the file.
class running_checks {
 public:
  running_checks(const block_checks& how, std::int64_t bytes, std::uint32_t* sums)
      : how_(how), bytes_(bytes), sums_(sums) {}
  void add(std::int64_t at, const void* data, std::int64_t count) {
    for (const char* next = static_cast<const char*>(data); count > 0;) {
      const std::int64_t number = at / how_.block, n = std::min(count, (number + 1) * how_.block - at);
      if (number != number_) finish(), number_ = number, at_ = at;
      skip_to(at);
      state_ = zip() ? crc<crc32_of_zip>::add(state_, next, n) : crc<crc32c>::add(state_, next, n);
      at_ += n, at += n, next += n, count -= n;
    }
  }
  /// After the last run. The checks of other parts of a block are combined by exclusive or.
  void finish() {
    if (number_ < 0) return;
    skip_to(std::min((number_ + 1) * how_.block, bytes_));
    sums_[number_] ^= state_;
    state_ = 0;
    number_ = -1;
  }

 private:
  bool zip() const { return how_.kind == block_checks::by::zip; }
  void skip_to(std::int64_t at) {
    if (at == at_ || state_ == 0) return at_ = at, void();
    if (at - at_ != gap_) {
      gap_ = at - at_;
      factor_ = zip() ? crc<crc32_of_zip>::factor(gap_) : crc<crc32c>::factor(gap_);
    }
    state_ = zip() ? crc<crc32_of_zip>::times(factor_, state_) : crc<crc32c>::times(factor_, state_);
    at_ = at;
  }

  block_checks how_;
  std::int64_t bytes_;
  std::uint32_t* sums_;
  std::int64_t number_ = -1, at_ = 0, gap_ = -1;
  std::uint32_t state_ = 0, factor_ = 0;
};

/// Elements of a member and where they lie in a file.
struct file_part {
  std::int64_t file = 0;
  /// The byte of the file where an array begins, or a piece of it.
  std::int64_t begin = 0;
  /// From elements of the file behind `begin` to elements of the memory; in the order of the file.
  box_copy copy{};
  std::int64_t element_bytes = 1;
  char* memory = nullptr;
  /// Where this rank adds to the checks of the piece; null: it does not.
  std::uint32_t* sums = nullptr;
  block_checks checks{};
  std::int64_t piece_bytes = 0;

  std::int64_t bytes() const { return copy.elements * element_bytes; }
  std::int64_t first_byte() const { return begin + copy.from_offset * element_bytes; }
};

/// The part of `wanted` that is stored in a file as `stored`, with these strides and with its first element at
/// `first`. Memory has the box `held`, row-major. Boxes are by the dims of the member.
inline file_part part_of(const box& wanted, const box& held, const box& stored, const strides& stride,
                         std::int64_t first) {
  const box part = intersect(wanted, stored);
  const shape extents = part.extents();
  const strides in_memory = strides_of(held.extents());
  int order[max_rank] = {0, 1, 2, 3, 4, 5, 6, 7};
  static_assert(max_rank == 8);
  std::stable_sort(order, order + part.rank, [&](int a, int b) { return stride[a] > stride[b]; });
  shape sorted;
  strides from{}, to{};
  sorted.rank = part.rank;
  for (int d = 0; d < part.rank; ++d) {
    sorted[d] = extents[order[d]];
    from[d] = stride[order[d]];
    to[d] = in_memory[order[d]];
  }
  file_part made;
  made.copy = make_copy(sorted, from, first + position_in(stored, part, stride), to, position_in(held, part));
  return made;
}

/// Elements side by side in a file: `count` elements, `stride` apart in memory.
struct file_run {
  std::int64_t at, count, to, stride;
};
/// Calls `f(run)` in the order of the file.
template <class F>
void for_each_run(const box_copy& c, F&& f) {
  if (c.elements == 0) return;
  const bool side_by_side = c.rank > 0 && c.from[c.rank - 1] == 1;
  const int outer = side_by_side ? c.rank - 1 : c.rank;
  file_run r{c.from_offset, side_by_side ? c.extent[outer] : 1, c.to_offset, side_by_side ? c.to[outer] : 1};
  std::int64_t index[max_rank]{};
  while (true) {
    f(r);
    int d = outer - 1;
    for (; d >= 0; --d) {
      r.at += c.from[d], r.to += c.to[d];
      if (++index[d] < c.extent[d]) break;
      r.at -= c.from[d] * c.extent[d], r.to -= c.to[d] * c.extent[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

/// Copies elements between a run of bytes and memory with a stride.
template <bool ToMemory>
void copy_run(char* memory, std::int64_t stride, char* run, std::int64_t count, std::int64_t size) {
  if (stride == 1)
    return void(ToMemory ? std::memcpy(memory, run, as_size(count * size))
                         : std::memcpy(run, memory, as_size(count * size)));
  const auto each = [&]<std::size_t Size>(std::integral_constant<std::size_t, Size>) {
    for (std::int64_t i = 0; i < count; ++i, memory += stride * std::int64_t{Size}, run += Size)
      ToMemory ? std::memcpy(memory, run, Size) : std::memcpy(run, memory, Size);
  };
  if (size == 1) each(std::integral_constant<std::size_t, 1>{});
  else if (size == 2) each(std::integral_constant<std::size_t, 2>{});
  else if (size == 4) each(std::integral_constant<std::size_t, 4>{});
  else if (size == 8) each(std::integral_constant<std::size_t, 8>{});
  else each(std::integral_constant<std::size_t, 16>{});
}

/// Moves parts between files and memory. Runs that are close to each other in a file share a call: if they are read,
/// at most a twentieth of its bytes are read in vain; if they are written, they lie side by side.
class file_mover {
 public:
  /// The most bytes of a call.
  static constexpr std::int64_t most = std::int64_t{4} << 20;

  file_mover(std::vector<file>& files, bool reads) : files_(files), reads_(reads), buffer_(new char[as_size(most)]) {}
  /// The parts are moved in the order of their bytes.
  traffic run(std::vector<file_part> parts) {
    std::sort(parts.begin(), parts.end(), [](const file_part& a, const file_part& b) {
      return a.file != b.file ? a.file < b.file : a.first_byte() < b.first_byte();
    });
    for (const file_part& p : parts) {
      done_.needed += p.bytes();
      if (p.bytes() == 0) continue;
      checks_.push_back(std::make_unique<running_checks>(p.checks, p.piece_bytes, p.sums));
      for_each_run(p.copy, [&](const file_run& r) { add(p, r); });
    }
    flush();
    for (const auto& c : checks_) c->finish();
    return done_;
  }

 private:
  struct waiting {
    const file_part* part;
    running_checks* checks;
    std::int64_t at, count, to, stride;
  };
  void add(const file_part& p, file_run r) {
    const std::int64_t size = p.element_bytes;
    while (r.count > 0) {
      const std::int64_t n = std::min(r.count, most / size), at = p.begin + r.at * size, gap = at - end_;
      const std::int64_t together = at + n * size - begin_;
      const bool near = !runs_.empty() && file_ == p.file && gap >= 0 && together <= most &&
                        (gap == 0 || (reads_ && 20 * (vain_ + gap) <= together - vain_ - gap));
      if (!near) {
        flush();
        begin_ = at, vain_ = 0, file_ = p.file;
      } else {
        vain_ += gap;
      }
      runs_.push_back({&p, checks_.back().get(), at, n, r.to, r.stride});
      end_ = at + n * size;
      r.at += n, r.to += n * r.stride, r.count -= n;
    }
  }
  void flush() {
    if (runs_.empty()) return;
    file& f = files_[as_size(file_)];
    const std::int64_t bytes = end_ - begin_;
    const waiting& first = runs_.front();
    const bool direct = runs_.size() == 1 && first.stride == 1;
    char* const through = direct ? first.part->memory + first.to * first.part->element_bytes : buffer_.get();
    if (reads_) f.read(begin_, through, bytes);
    for (const waiting& w : runs_) {
      const std::int64_t size = w.part->element_bytes;
      char* const run = through + (w.at - begin_);
      char* const memory = w.part->memory + w.to * size;
      if (!direct)
        reads_ ? copy_run<true>(memory, w.stride, run, w.count, size)
               : copy_run<false>(memory, w.stride, run, w.count, size);
      if (w.part->sums != nullptr) w.checks->add(w.at - w.part->begin, run, w.count * size);
    }
    if (!reads_) f.write(begin_, through, bytes);
    done_.moved += bytes;
    ++done_.calls;
    runs_.clear();
  }

  std::vector<file>& files_;
  bool reads_;
  std::unique_ptr<char[]> buffer_;
  std::vector<waiting> runs_{};
  std::vector<std::unique_ptr<running_checks>> checks_{};
  std::int64_t file_ = -1, begin_ = 0, end_ = 0, vain_ = 0;
  traffic done_{};
};

} // namespace detail

}}} // namespace cleave::v0::io
