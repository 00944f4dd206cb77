// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/program.hpp>

#include <cstdint>

// The loops of a map or a fold, bound to sizes. Nothing here depends on the expression, so it is compiled once.

namespace cleave { inline namespace v0 {

/// The arrays that a kernel walks through: its loads, then its indices (whose "address" is the index itself), then the
/// results.
inline constexpr int max_walked = max_operands + max_indices + max_results;

/// How many loads of a map may be prefetched.
inline constexpr int most_prefetched = 4;

/// One loop: its extent, and how far each array moves with it, in elements.
struct loop_dim {
  std::int64_t extent = 1;
  std::int64_t stride[max_walked]{};
};

/// Nested loops, the innermost last.
struct loop_nest {
  int rank = 0;
  loop_dim dims[max_rank + 1]{};

  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i].extent;
    return n;
  }
  const loop_dim& back() const { return dims[rank - 1]; }
  void append(const loop_dim& d) { dims[rank++] = d; }

  /// Drops dims of extent 1 and merges neighbours if all arrays permit. The innermost stays innermost, even with extent
  /// 1: the classes of its strides are known to the compiler.
  void collapse(int walked) {
    if (rank == 0) return;
    int outermost = rank - 1;
    for (int i = rank - 1; i-- > 0;) {
      if (dims[i].extent == 1) continue;
      loop_dim& inner = dims[outermost];
      bool merges = true;
      for (int k = 0; k < walked; ++k) merges = merges && dims[i].stride[k] == inner.stride[k] * inner.extent;
      if (merges) inner.extent *= dims[i].extent;
      else dims[--outermost] = dims[i];
    }
    for (int i = outermost; i < rank; ++i) dims[i - outermost] = dims[i];
    rank -= outermost;
  }
  /// Moves dim `from` to the place of dim `to`, which comes after it.
  void rotate(int from, int to) {
    const loop_dim moved = dims[from];
    for (int i = from; i < to; ++i) dims[i] = dims[i + 1];
    dims[to] = moved;
  }
};

/// The loops of a map or fold.
struct bound_loops {
  /// How many arrays are walked through, and how many of them are results.
  int walked = 1, written = 1;
  /// map: all dims. fold: the kept dims, without the inner one if that is kept.
  loop_nest outer{};
  /// fold: the folded dims; the inner one is last in it if it is folded.
  loop_nest folded{};
  /// The inner dim; for a map the last of `outer`.
  loop_dim inner{};
  /// map: the dim before the inner one is contiguous for a load that the inner one strides through.
  bool tiled = false;
  /// map: the results are larger than the caches, so they use non-temporal stores.
  bool non_temporal = false;
  /// map: loads that are prefetched, if the result uses non-temporal stores.
  int prefetched = 0;
  int prefetch[most_prefetched]{};
  std::int64_t index_base[max_indices]{};
  indexed_vector<double> literals{};
  /// fold: the number of results; if there are few, the folded range is cut in `chunks` pieces of `chunk` elements.
  std::int64_t results = 1;
  std::int64_t chunks = 1;
  std::int64_t chunk = 0;
  /// fold: results are adjacent in the operands, while folded elements are not.
  bool along_results = false;

  /// The first result among the arrays.
  int first_result() const { return walked - written; }
};

/// A position in the outer loops of a nest: indices, and how far each array is along.
class odometer {
 public:
  /// In the first `rank` dims, before iteration `flat`.
  odometer(const loop_nest& nest, int rank, int walked, std::int64_t flat)
      : nest_(&nest), rank_(rank), walked_(walked) {
    for (int k = 0; k < walked; ++k) offset_[k] = 0;
    for (int i = rank - 1; i >= 0; --i) {
      const loop_dim& d = nest.dims[i];
      index_[i] = flat % d.extent;
      flat /= d.extent;
      for (int k = 0; k < walked; ++k) offset_[k] += index_[i] * d.stride[k];
    }
  }
  const std::int64_t* offset() const { return offset_; }
  /// Iterations from here to the end of the last loop.
  std::int64_t left() const { return rank_ == 0 ? 1 : nest_->dims[rank_ - 1].extent - index_[rank_ - 1]; }
  /// How far apart those are.
  const std::int64_t* apart() const { return nest_->dims[rank_ == 0 ? 0 : rank_ - 1].stride; }
  /// Advances by `n` iterations, at most `left`.
  void advance(std::int64_t n) {
    for (int i = rank_ - 1; i >= 0; --i, n = 1) {
      const loop_dim& d = nest_->dims[i];
      index_[i] += n;
      const bool carries = index_[i] == d.extent;
      const std::int64_t by = carries ? n - d.extent : n;
      for (int k = 0; k < walked_; ++k) offset_[k] += by * d.stride[k];
      if (!carries) return;
      index_[i] = 0;
    }
  }

 private:
  const loop_nest* nest_;
  int rank_, walked_;
  std::int64_t index_[max_rank + 1];
  std::int64_t offset_[max_walked];
};

/// Elements `flat` to `end` of a nest whose innermost loop has `inner` elements, block by block: `visit(at, rows,
/// begin, end)`.
template <class Visit>
void for_each_block(const loop_nest& nest, int walked, std::int64_t flat, std::int64_t end, const Visit& visit) {
  const std::int64_t inner = nest.back().extent;
  if (flat >= end) return;
  odometer at(nest, nest.rank - 1, walked, flat / inner);
  std::int64_t i = flat % inner;
  while (flat < end) {
    if (i == 0 && end - flat >= inner) {
      const std::int64_t whole = (end - flat) / inner, rows = whole < at.left() ? whole : at.left();
      visit(at, rows, std::int64_t{0}, inner);
      flat += rows * inner;
      at.advance(rows);
    } else {
      const std::int64_t stop = inner - i < end - flat ? inner : i + (end - flat);
      visit(at, std::int64_t{1}, i, stop);
      flat += stop - i;
      i = 0;
      at.advance(1);
    }
  }
}

}} // namespace cleave::v0
