// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>
#include <cleave/kernels/labels.hpp>
#include <cleave/kernels/operands.hpp>
#include <cleave/kernels/results.hpp>
#include <cleave/storage/flat_loops.hpp>

#include <type_traits>

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
  /// Of each result, where the first element of the first line goes, and how many elements further the next line goes.
  void* const* out;
  const std::int64_t* out_apart;
};
using lines_function = void (*)(const line_block&);

/// Elements i to `stop` of a line; the first of them goes to `to`.
template <class Expression, class... Results>
[[gnu::always_inline]] inline void compute_line(const typename Expression::row_type& r,
                                                std::type_identity_t<detail::result_pointers<Results...>> to,
                                                std::int64_t i, std::int64_t stop) {
  using label = detail::label_of<Expression>;
  if constexpr (label::found && sizeof...(Results) == 1) {
    const std::int64_t at = label::position(r);
    const bool here = at >= i && at < stop;
    // Before its operands are overwritten, if the result is written in place.
    typename Expression::frame_type labelled{};
    if (here) labelled = Expression::frame_at(r, at);
    compute_line<typename label::elsewhere, Results...>(r, to, i, stop);
    if (here) to.store(at - i, labelled);
  } else {
    const typename Expression::line line(r);
    if (stop - i < vector_block) {
      for (std::int64_t j = 0; i < stop; ++i, ++j) line.store(i, to, j);
      return;
    }
    // Blocks that become vector code. If the length is no multiple of them, the last block overlaps the one before. It
    // is computed before that one, since a result may overwrite an operand, and is kept apart from the line until
    // then; but after all others, so that memory is read forwards. One loop does all: with a second copy of its body,
    // g++ 12 emits scalar code.
    const std::int64_t rest = (stop - i) % vector_block, last = stop - rest - vector_block;
    typename detail::result_pointers<Results...>::blocks end;
    std::int64_t at = i, until = rest == 0 ? stop : last;
    detail::result_pointers<Results...> block = to;
    for (int part = 0;; ++part) {
      for (; at < until; at += vector_block, block.move(vector_block)) {
        CLEAVE_INDEPENDENT
        for (int j = 0; j < vector_block; ++j) line.store(at + j, block, j);
      }
      if (part == 2 || rest == 0) break;
      at = part == 0 ? stop - vector_block : last;
      until = at + vector_block;
      block = to;
      if (part == 0) block.point_to(end);
      else block.move(last - i);
    }
    to.copy_end(end, stop - rest - i, rest);
  }
}

/// The results of an expression along lines.
template <class Expression, class... Results>
void compute_lines(const line_block& b) {
  using rows = row_maker<Expression>;
  typename Expression::row_type r = rows::moved(rows::start(*b.loops, b.from, b.step), b.offset);
  detail::result_pointers<Results...> to(b.out);
  for (std::int64_t row = 0; row < b.rows; ++row) {
    compute_line<Expression, Results...>(r, to, b.begin, b.end);
    r = rows::moved(r, b.apart);
    to.move(b.out_apart);
  }
}

}} // namespace cleave::v0
