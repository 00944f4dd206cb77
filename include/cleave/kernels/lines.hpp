// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>
#include <cleave/kernels/labels.hpp>
#include <cleave/kernels/operands.hpp>
#include <cleave/storage/flat_loops.hpp>

// Lines of an expression on the host: the one function of a map or a fold that is compiled for each expression. The
// loops around lines, non-temporal stores, and reductions do not depend on the expression.

namespace cleave { inline namespace v0 {

/// Lines of an expression, and where their values go.
struct line_block {
  /// Where literals and indices are.
  const bound_loops* loops;
  /// The addresses of the loads, and how far each moves along a line.
  const void* const* from;
  const std::int64_t* step;
  /// How far each array is along at the first line, and how far the next line is from there.
  const std::int64_t* offset;
  const std::int64_t* apart;
  std::int64_t rows;
  /// The elements of each line.
  std::int64_t begin, end;
  /// Where the first element of the first line goes, and how many elements further the next line goes.
  void* out;
  std::int64_t out_apart;
};
using lines_function = void (*)(const line_block&);

/// The elements of a block from i on.
template <class Expression, class Out>
inline void compute_block(const typename Expression::line& l, Out* to, std::int64_t i) {
  CLEAVE_INDEPENDENT
  for (int j = 0; j < vector_block; ++j) to[j] = convert<Out>(l.at(i + j));
}

/// Elements i to `stop` of a line; the first of them goes to `to`.
template <class Expression, class Out>
[[gnu::always_inline]] inline void compute_line(const typename Expression::row_type& r, Out* to, std::int64_t i,
                                                std::int64_t stop) {
  using label = detail::label_of<Expression>;
  if constexpr (label::found) {
    const std::int64_t at = label::position(r);
    const bool here = at >= i && at < stop;
    // Before its operands are overwritten, if the result is written in place.
    const Out labelled = here ? convert<Out>(Expression::at(r, at)) : Out{};
    compute_line<typename label::elsewhere>(r, to, i, stop);
    if (here) to[at - i] = labelled;
  } else {
    const typename Expression::line line(r);
    if (stop - i < vector_block) {
      for (; i < stop; ++i, ++to) *to = convert<Out>(line.at(i));
      return;
    }
    // Blocks that become vector code. If the length is no multiple of them, the last block overlaps the one before. It
    // is computed before that one, since the result may overwrite an operand, and is kept apart from the line until
    // then; but after all others, so that memory is read forwards. One loop does all: with a second copy of its body,
    // g++ 12 emits scalar code.
    const std::int64_t rest = (stop - i) % vector_block, last = stop - rest - vector_block;
    alignas(64) Out end[vector_block];
    std::int64_t at = i, until = rest == 0 ? stop : last;
    Out* block = to;
    for (int part = 0;; ++part) {
      for (; at < until; at += vector_block, block += vector_block) compute_block<Expression>(line, block, at);
      if (part == 2 || rest == 0) break;
      at = part == 0 ? stop - vector_block : last;
      until = at + vector_block;
      block = part == 0 ? end : to + (last - i);
    }
    for (std::int64_t j = 0; j < rest; ++j) to[stop - rest - i + j] = end[vector_block - rest + j];
  }
}

/// The values of an expression, as the type `Out`: that of its result, or that in which it is computed.
template <class Expression, class Out>
void compute_lines(const line_block& b) {
  using rows = row_maker<Expression>;
  typename Expression::row_type r = rows::moved(rows::start(*b.loops, b.from, b.step), b.offset);
  Out* to = as<Out>(b.out);
  for (std::int64_t row = 0; row < b.rows; ++row) {
    compute_line<Expression>(r, to, b.begin, b.end);
    r = rows::moved(r, b.apart);
    to += b.out_apart;
  }
}

}} // namespace cleave::v0
