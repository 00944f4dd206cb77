// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>
#include <cleave/storage/flat_loops.hpp>
#include <cleave/storage/memory.hpp>

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

// Lines of an expression on the host: the one function of a map or a fold that is compiled for each expression. The
// loops around lines, non-temporal stores, and reductions do not depend on the expression.

namespace cleave { inline namespace v0 {

// The results of one expression: one or several. They are members with types, since compilers make no vector code of
// stores to an array of pointers.

/// A result of an expression: the value of one of its entries, as the type `Out`. That is the type of the entry, or
/// that in which it is computed.
template <int Entry, class Out>
struct expression_result {
  static constexpr int entry = Entry;
  using type = Out;
};

namespace detail {

/// Where a frame has the value of a result.
template <class Result>
using value_cell = cell<Result::entry, computed<typename Result::type>>;

template <int K, class Out>
struct result_pointer {
  Out* at;
};
template <int K, class Out>
CLEAVE_FUNCTION inline Out*& pointer_of(result_pointer<K, Out>& p) {
  return p.at;
}
template <int K, class Out>
CLEAVE_FUNCTION inline Out* pointer_of(const result_pointer<K, Out>& p) {
  return p.at;
}

/// Memory for a block of elements of result K.
template <int K, class Out>
struct result_block {
  alignas(64) Out at[vector_block];
};

template <class Numbers, class... Results>
struct pointers_of_results;
template <int... K, class... Results>
struct pointers_of_results<std::integer_sequence<int, K...>, Results...>
    : result_pointer<K, typename Results::type>... {
  /// A block of each.
  struct blocks : result_block<K, typename Results::type>... {};
  /// A value of each, as it is computed.
  struct values : frame<std::integer_sequence<int, Results::entry...>, Results...> {
    template <class Frame>
    CLEAVE_FUNCTION void take(const Frame& f) {
      const int each[]{
          (static_cast<value_cell<Results>&>(*this).value = static_cast<const value_cell<Results>&>(f).value, 0)...};
      static_cast<void>(each);
    }
  };

  pointers_of_results() = default;
  explicit pointers_of_results(void* const* at)
      : result_pointer<K, typename Results::type>{as<typename Results::type>(at[K])}... {}

  CLEAVE_FUNCTION void move(std::int64_t elements) {
    const int each[]{(pointer_of<K>(*this) += elements, 0)...};
    static_cast<void>(each);
  }
  CLEAVE_FUNCTION void move(const std::int64_t* elements) {
    const int each[]{(pointer_of<K>(*this) += elements[K], 0)...};
    static_cast<void>(each);
  }
  /// Stores element j of each; a frame has the values.
  template <class Frame>
  CLEAVE_FUNCTION void store(std::int64_t j, const Frame& f) const {
    const int each[]{
        (pointer_of<K>(*this)[j] = convert<typename Results::type>(static_cast<const value_cell<Results>&>(f).value),
         0)...};
    static_cast<void>(each);
  }
  /// Points to blocks instead.
  void point_to(blocks& b) {
    const int each[]{(pointer_of<K>(*this) = static_cast<result_block<K, typename Results::type>&>(b).at, 0)...};
    static_cast<void>(each);
  }
  /// Copies the last elements of blocks to elements from j on.
  void copy_end(const blocks& b, std::int64_t j, std::int64_t count) const {
    const int each[]{
        (copy_elements(static_cast<const result_block<K, typename Results::type>&>(b).at + (vector_block - count),
                       pointer_of<K>(*this) + j, count),
         0)...};
    static_cast<void>(each);
  }

 private:
  template <class Out>
  static void copy_elements(const Out* from, Out* to, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) to[j] = from[j];
  }
};
/// Where the results go.
template <class... Results>
using result_pointers = pointers_of_results<std::make_integer_sequence<int, int{sizeof...(Results)}>, Results...>;

} // namespace detail

// Comparisons of the index along a line with a label, as in one_hot(label), which the plan marks (fused_op::arg): true
// at one element of a line at most. A line is computed as if it were false everywhere, and that element on its own.

namespace detail {

/// Replaces such a comparison if it is false. Compilers leave out the code that depends on it.
struct no_label_here {
  using type = bool;
  static constexpr fused_role role = fused_role::user;
  static constexpr int a = 0, b = 0, c = 0, label = 0, x = no_entry, y = no_entry, z = no_entry;
  using meaning = no_label_here;
  template <class Row>
  CLEAVE_FUNCTION static bool of(const Row&, std::int64_t, int, no_value, no_value, no_value) {
    return false;
  }
};

template <class Expression, class Entries>
struct label_search;
template <int Loads, class... Nodes, int... I>
struct label_search<fused_expression<Loads, Nodes...>, std::integer_sequence<int, I...>> {
  /// The first such comparison.
  static constexpr int equal = [] {
    int first = -1;
    ((first = first < 0 && Nodes::label != 0 ? I : first), ...);
    return first;
  }();
  static constexpr bool found = equal >= 0;
  /// The expression for indices with a false comparison.
  using elsewhere = fused_expression<Loads, std::conditional_t<I == equal, no_label_here, Nodes>...>;

  template <int Entry>
  using node = std::tuple_element_t<static_cast<std::size_t>(Entry), std::tuple<Nodes...>>;
  /// Which element of a line has the label of a comparison; it may be none of the line.
  template <int Entry = equal, class Row>
  static std::int64_t position(const Row& r) {
    using compared = node<Entry>;
    using label_node = node<compared::label == 1 ? compared::a : compared::b>;
    using index_node = node<compared::label == 1 ? compared::b : compared::a>;
    return static_cast<std::int64_t>(*as<typename label_node::type>(r.at[label_node::a])) - r.index[index_node::a];
  }
};
template <class Expression>
using label_of = label_search<Expression, std::make_integer_sequence<int, Expression::entries>>;

} // namespace detail

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
