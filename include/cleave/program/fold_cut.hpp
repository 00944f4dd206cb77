// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/program_view.hpp>

// How a reduction is cut in pieces that threads reduce at the same time, and the memory of their results.

namespace cleave { inline namespace v0 {

/// Elements that are worth a unit of parallel work, and the most pieces of one range.
inline constexpr std::int64_t fold_grain = tuned_size(1 << 13, 16);
inline constexpr std::int64_t fold_chunks = 256;
/// Units of results up to which a folded range is cut.
inline constexpr std::int64_t most_cut_results = 64;
/// Results that share a unit if the inner dim is kept, and if a short inner dim is folded.
inline constexpr std::int64_t fold_width = 512;
inline constexpr std::int64_t fold_short_width = tuned_size(128, 8);
/// A folded range in `chunks` pieces of `chunk` elements.
struct fold_cut {
  std::int64_t chunks = 1, chunk = 0;
};

/// Cuts a folded range in pieces if there are few results, of which `inner` are adjacent in memory. Depends on the
/// shape only, never on the number of threads, so that the order of summation does not either.
constexpr fold_cut cut_of_fold(std::int64_t results, std::int64_t range, std::int64_t inner) {
  const std::int64_t width = inner < fold_width ? inner : fold_width;
  const std::int64_t units = width == 0 ? 0 : results / width;
  fold_cut c{1, range};
  if (units == 0 || units > most_cut_results || range == 0) return c;
  std::int64_t pieces = range * width / fold_grain;
  if (pieces > fold_chunks) pieces = fold_chunks;
  if (pieces > range) pieces = range;
  if (pieces < 2) return c;
  c.chunk = (range + pieces - 1) / pieces;
  c.chunks = (range + c.chunk - 1) / c.chunk;
  return c;
}

namespace detail {

/// How far the arrays of a step move along a dim of its loop: its operands, its indices, its result.
class moves_of_step {
 public:
  constexpr moves_of_step(const program_view& p, const step& s, const sizes& at, const coordinates& here)
      : p_(p), s_(s) {
    for (std::uint16_t b : s.in) address_.push_back(addressing_of(p.buffers[b], p.buffers, p.maps, at, here));
    address_.push_back(addressing_of(p.buffers[s.out], p.buffers, p.maps, at, here));
  }
  constexpr indexed_vector<std::int64_t> along(int i) const {
    indexed_vector<std::int64_t> all;
    for (std::size_t k = 0; k < s_.in.size(); ++k)
      all.push_back(stride_along(p_.buffers[s_.in[k]], address_[k], s_.loop[i]));
    for (const fused_op& t : fused_ops_of(p_, s_))
      if (role_of(t.code) == fused_role::index) all.push_back(t.arg == i ? 1 : 0);
    all.push_back(stride_along(p_.buffers[s_.out], address_.back(), s_.loop[i]));
    return all;
  }

 private:
  const program_view& p_;
  const step& s_;
  indexed_vector<addressing> address_{};
};

/// The length of the innermost loop over results: that of its dim, and of the dims around it with which it is one
/// stretch of memory in all arrays.
constexpr std::int64_t inner_results(const program_view& p, const step& s, int inner, const shape& extents,
                                     const sizes& at, const coordinates& here) {
  const moves_of_step moves(p, s, at, here);
  const indexed_vector<std::int64_t> own = moves.along(inner);
  std::int64_t n = extents[inner];
  for (int i = s.loop.rank - s.folded; i-- > 0;) {
    if (i == inner || extents[i] == 1) continue;
    const indexed_vector<std::int64_t> around = moves.along(i);
    for (std::size_t k = 0; k < own.size(); ++k)
      if (around[k] != own[k] * n) return n;
    n *= extents[i];
  }
  return n;
}

} // namespace detail

/// Bytes of the results of the pieces of a reduction on a device.
struct fold_scratch_of_step {
  std::int64_t bytes = 0;
  /// All of the operand is reduced to one number, as a part of a pass over several steps at a time.
  bool to_one = false;
};
[[gnu::cold]] constexpr fold_scratch_of_step scratch_of_fold(const program_view& p, const step& s, const sizes& at,
                                                             const coordinates& here) {
  const inner_dim inner = inner_dim_of(s, p.buffers, p.maps);
  const bool inner_folded = inner.folded || inner.position < 0;
  shape extents;
  extents.rank = s.loop.rank;
  std::int64_t results = 1, range = 1;
  for (int i = 0; i < s.loop.rank; ++i) {
    extents[i] = held(at.along(s.loop[i]), s.space[i], here, at.axes).size();
    (i < s.loop.rank - s.folded ? results : range) *= extents[i];
  }
  const std::int64_t side_by_side = inner_folded ? 1 : detail::inner_results(p, s, inner.position, extents, at, here);
  const fold_cut cut = cut_of_fold(results, range, side_by_side);
  if (cut.chunks < 2) return {};
  const element computed = accumulator_of(p.fused_ops[as_size(s.first_op + s.ops - 1)].type);
  return {cut.chunks * results * size_of(computed), inner_folded && results == 1};
}

}} // namespace cleave::v0
