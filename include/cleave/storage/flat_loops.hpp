// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/layout/layout.hpp>

#include <cstdint>

/// Says that the iterations of the loop that follows do not depend on each other, so that no check of overlap is
/// needed. Loops of a constant number of iterations so marked become vector code at -O2 too.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define CLEAVE_INDEPENDENT
#elif defined(__clang__)
#define CLEAVE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define CLEAVE_INDEPENDENT _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#else
#define CLEAVE_INDEPENDENT
#endif

/// Of a loop of a kernel, that nvcc need not unroll it.
#if defined(__CUDACC__)
#define CLEAVE_NOT_UNROLLED _Pragma("unroll 1")
#else
#define CLEAVE_NOT_UNROLLED
#endif

/// Of a loop of eight iterations, that it becomes straight code before vector code is made of it.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define CLEAVE_STRAIGHT _Pragma("GCC unroll 8")
#else
#define CLEAVE_STRAIGHT
#endif

namespace cleave { inline namespace v0 {

/// Elements in a block of a vectorised loop.
inline constexpr int vector_block = 16;

// Nested loops as kernels of devices take them: plain arrays, no longer than the kernel needs. A thread finds its place
// from the number of its unit of work.

/// Division by a number that is known before a kernel starts: a product and a shift (Granlund and Montgomery, "Division
/// by invariant integers using multiplication", 1994), where a device would take tens of instructions.
class flat_divisor {
 public:
  flat_divisor() = default;
  /// An extent of 0, of which nothing is divided, is taken for 1.
  explicit flat_divisor(std::int64_t divisor) : divisor_(divisor > 0 ? divisor : 1) {
    constexpr std::uint64_t one = 1;
    const auto by = static_cast<std::uint64_t>(divisor_);
    while (shift_ < 31 && (one << shift_) < by) ++shift_;
    // Of a divisor above 2^31, small numbers have the quotient 0.
    if (const std::uint64_t power = one << shift_; by <= power)
      factor_ = static_cast<std::uint32_t>(((power - by) << 32) / by + 1);
  }

  CLEAVE_FUNCTION std::int64_t divisor() const { return divisor_; }
  /// n / divisor, of an n that is not negative.
  CLEAVE_FUNCTION std::int64_t quotient(std::int64_t n) const {
    constexpr std::int64_t small = (std::int64_t{1} << 31) - 1;
    if (n > small) return n / divisor_;
    const auto low = static_cast<std::uint32_t>(n);
    const auto high = static_cast<std::uint32_t>((std::uint64_t{low} * factor_) >> 32);
    return (high + low) >> shift_;
  }

 private:
  std::int64_t divisor_ = 1;
  std::uint32_t factor_ = 1;
  int shift_ = 0;
};

/// Loops, the innermost last, and how far each of `Walked` arrays moves with them.
template <int Walked>
struct flat_nest {
  struct dim {
    std::int64_t extent = 1;
    std::int64_t stride[Walked]{};
  };
  int rank = 0;
  dim dims[max_rank + 1]{};

  void append(const dim& d) { dims[rank++] = d; }
};

/// The same as a kernel takes them.
template <int Walked>
struct flat_loops {
  int rank = 0;
  flat_divisor extent[max_rank + 1];
  std::int64_t stride[max_rank + 1][Walked];

  void append(std::int64_t n, const std::int64_t* strides) {
    extent[rank] = flat_divisor(n);
    for (int k = 0; k < Walked; ++k) stride[rank][k] = strides[k];
    ++rank;
  }
  /// The first `count` loops of a nest.
  template <class Nest>
  void append_all(const Nest& nest, int count) {
    for (int i = 0; i < count; ++i) append(nest.dims[i].extent, nest.dims[i].stride);
  }
  /// Adds how far each array is along in iteration `flat`.
  CLEAVE_FUNCTION void move(std::int64_t flat, std::int64_t* offset) const {
    CLEAVE_NOT_UNROLLED
    for (int i = rank - 1; i >= 0; --i) {
      const std::int64_t around = i == 0 ? 0 : extent[i].quotient(flat);
      const std::int64_t index = flat - around * extent[i].divisor();
      for (int k = 0; k < Walked; ++k) offset[k] += index * stride[i][k];
      flat = around;
    }
  }
};

/// Nested loops cut in units of `Repeat` elements for each thread of a device. Threads that follow each other have
/// elements that do, along the innermost loop. The elements of one thread are along the loop around it, so that what
/// several of them read is read once; where there is none, they are far apart along the innermost one. Where that is
/// short, they are far apart along the loop around it, so that threads that follow each other go on there.
template <int Walked, int Repeat>
class flat_tiles {
 public:
  /// Where a unit begins: how far each array is along, and how many elements it has.
  struct position {
    std::int64_t offset[Walked]{};
    int count = 0;
  };

  /// A nest has a rank above 0, and `extent` and `stride` for each of its `dims`.
  template <class Nest>
  explicit flat_tiles(const Nest& nest) {
    // Threads that run in step, and elements of a line of the cache.
    constexpr std::int64_t line = 32;
    const auto& inner = nest.dims[nest.rank - 1];
    std::int64_t columns = inner.extent, groups = 1;
    alone_ = nest.rank == 1;
    spread_ = !alone_ && inner.extent < line;
    if (alone_) {
      const std::int64_t share = ((columns + Repeat - 1) / Repeat + line - 1) / line * line;
      if (share < columns) columns = share;
      limit_ = inner.extent;
    } else {
      limit_ = nest.dims[nest.rank - 2].extent;
      groups = (limit_ + Repeat - 1) / Repeat;
      outer_.append_all(nest, nest.rank - 2);
    }
    for (int k = 0; k < Walked; ++k) {
      const std::int64_t one = alone_ ? 0 : nest.dims[nest.rank - 2].stride[k];
      column_step_[k] = inner.stride[k];
      step_[k] = alone_ ? columns * inner.stride[k] : spread_ ? groups * one : one;
      group_step_[k] = spread_ ? one : Repeat * one;
    }
    columns_ = flat_divisor(columns);
    groups_ = flat_divisor(groups);
    units_ = columns * groups;
    for (int i = 0; i < nest.rank - 2; ++i) units_ *= nest.dims[i].extent;
  }

  std::int64_t units() const { return units_; }
  CLEAVE_FUNCTION position at(std::int64_t unit) const {
    position p;
    const std::int64_t around = columns_.quotient(unit), column = unit - around * columns_.divisor();
    const std::int64_t outer = groups_.quotient(around), group = around - outer * groups_.divisor();
    for (int k = 0; k < Walked; ++k) p.offset[k] = column * column_step_[k] + group * group_step_[k];
    outer_.move(outer, p.offset);
    std::int64_t left = limit_ - group * Repeat;
    if (alone_) left = columns_.quotient(limit_ - column + columns_.divisor() - 1);
    if (spread_) left = groups_.quotient(limit_ - group + groups_.divisor() - 1);
    p.count = left < Repeat ? static_cast<int>(left) : Repeat;
    return p;
  }
  /// How far array k moves from one element to the next.
  CLEAVE_FUNCTION std::int64_t step(int k) const { return step_[k]; }
  CLEAVE_FUNCTION const std::int64_t* steps() const { return step_; }

 private:
  flat_divisor columns_, groups_;
  std::int64_t units_ = 0, limit_ = 0;
  bool alone_ = false, spread_ = false;
  std::int64_t column_step_[Walked];
  std::int64_t step_[Walked];
  std::int64_t group_step_[Walked];
  flat_loops<Walked> outer_;
};

}} // namespace cleave::v0
