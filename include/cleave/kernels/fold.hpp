// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>
#include <cleave/storage/flat_loops.hpp>
#include <cleave/storage/lanes.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/wide.hpp>

// The parts of a fold that depend on the type of its values and on its reduction, and its form for devices, which
// depends on its expression. kernels/run_fold.hpp has the loops on the host.

namespace cleave { inline namespace v0 {

/// Values of a fold that are added up at a time, in bytes: they are in the first cache.
inline constexpr std::int64_t fold_buffer_bytes = 1 << 13;

/// How values of type T are reduced on the host to results of type `Out`: this type for the results of a fold, T for
/// pieces of them. It does not depend on the expression that computes the values. Sums of several lines and pieces of
/// lines wait in `sums`.
struct fold_arithmetic {
  /// Starts `count` sums.
  void (*start)(void* sums, std::int64_t count) = nullptr;
  /// Adds `rows` lines of n values to one result. Its vector_block sums each take every vector_block-th value.
  void (*add_rows)(void* sums, const void* values, std::int64_t rows, std::int64_t n, std::int64_t apart) = nullptr;
  /// The result of these sums, which are added in a fixed order.
  void (*finish_row)(const void* sums, void* out) = nullptr;
  /// Results each of which reduces one line: all three functions above.
  void (*reduce_rows)(const void* values, std::int64_t results, std::int64_t n, std::int64_t apart, void* out,
                      std::int64_t out_apart) = nullptr;
  /// Adds `rows` lines of n values to n results.
  void (*add_columns)(void* sums, const void* values, std::int64_t rows, std::int64_t n, std::int64_t apart) = nullptr;
  /// n results, `step` elements apart.
  void (*finish_columns)(const void* sums, std::int64_t n, void* out, std::int64_t step) = nullptr;
};

template <class T, reduction How>
struct fold_sums {
  static void start(void* sums, std::int64_t count) {
    T* const sum = as<T>(sums);
    for (std::int64_t j = 0; j < count; ++j) sum[j] = identity_of<How, T>;
  }
  static void add_rows(void* sums, const void* values, std::int64_t rows, std::int64_t n, std::int64_t apart) {
    T* const kept = as<T>(sums);
    // In registers, which memory that others may see is not.
    T sum[vector_block];
    for (int j = 0; j < vector_block; ++j) sum[j] = kept[j];
    const T* line = as<T>(values);
    for (std::int64_t row = 0; row < rows; ++row, line += apart) add_line(sum, line, n);
    for (int j = 0; j < vector_block; ++j) kept[j] = sum[j];
  }
  static void add_columns(void* sums, const void* values, std::int64_t rows, std::int64_t n, std::int64_t apart) {
    T* const sum = as<T>(sums);
    const T* line = as<T>(values);
    for (std::int64_t row = 0; row < rows; ++row, line += apart) {
      std::int64_t i = 0;
      for (; i + vector_block <= n; i += vector_block) {
        CLEAVE_INDEPENDENT
        for (int j = 0; j < vector_block; ++j) sum[i + j] = combined<How>(sum[i + j], line[i + j]);
      }
      for (; i < n; ++i) sum[i] = combined<How>(sum[i], line[i]);
    }
  }
  static void add_line(T (&sum)[vector_block], const T* line, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + vector_block <= n; i += vector_block) {
      CLEAVE_INDEPENDENT
      for (int j = 0; j < vector_block; ++j) sum[j] = combined<How>(sum[j], line[i + j]);
    }
    for (int j = 0; j < n - i; ++j) sum[j] = combined<How>(sum[j], line[i + j]);
  }
  static T total(T (&sum)[vector_block]) {
    for (int half = vector_block / 2; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) sum[j] = combined<How>(sum[j], sum[j + half]);
    return sum[0];
  }
  /// The result of a row, of one line, and of column j of n.
  static T of_row(const void* sums) {
    T sum[vector_block];
    for (int j = 0; j < vector_block; ++j) sum[j] = as<T>(sums)[j];
    return total(sum);
  }
  static T of_line(const T* line, std::int64_t n) {
    T sum[vector_block];
    for (int j = 0; j < vector_block; ++j) sum[j] = identity_of<How, T>;
    add_line(sum, line, n);
    return total(sum);
  }
  static T of_column(const void* sums, std::int64_t, std::int64_t j) { return as<T>(sums)[j]; }
};

/// log(sum(exp(x))) in one pass: the largest value so far, and sums of exp(value - largest), which are scaled when a
/// larger one comes. A row has one largest value and vector_block sums; each column has its own. The sums are stored
/// after the largest values, of which `count` are reserved.
template <class T>
struct fold_sums<T, reduction::logsumexp> {
  static void start(void* sums, std::int64_t count) {
    T *const most = as<T>(sums), *const sum = most + count;
    for (std::int64_t j = 0; j < count; ++j) most[j] = identity_of<reduction::max, T>, sum[j] = 0;
  }
  static void add_rows(void* sums, const void* values, std::int64_t rows, std::int64_t n, std::int64_t apart) {
    T* const kept = as<T>(sums);
    T most = kept[0], sum[vector_block];
    for (int j = 0; j < vector_block; ++j) sum[j] = kept[vector_block + j];
    const T* line = as<T>(values);
    for (std::int64_t row = 0; row < rows; ++row, line += apart) add_line(most, sum, line, n);
    kept[0] = most;
    for (int j = 0; j < vector_block; ++j) kept[vector_block + j] = sum[j];
  }
  static void add_columns(void* sums, const void* values, std::int64_t rows, std::int64_t n, std::int64_t apart) {
    T *const most = as<T>(sums), *const sum = most + n;
    const T* line = as<T>(values);
    for (std::int64_t row = 0; row < rows; ++row, line += apart) {
      std::int64_t i = 0;
      for (; i + vector_block <= n; i += vector_block) {
        CLEAVE_INDEPENDENT
        for (int j = 0; j < vector_block; ++j) add(most[i + j], sum[i + j], line[i + j]);
      }
      for (; i < n; ++i) add(most[i], sum[i], line[i]);
    }
  }
  static T of_row(const void* sums) { return total(as<T>(sums)[0], as<T>(sums) + vector_block); }
  static T of_line(const T* line, std::int64_t n) {
    T most = identity_of<reduction::max, T>, sum[vector_block]{};
    add_line(most, sum, line, n);
    return total(most, sum);
  }
  static T of_column(const void* sums, std::int64_t n, std::int64_t j) {
    return as<T>(sums)[j] + scalar_op<op::log, T>::of(as<T>(sums)[n + j]);
  }

 private:
  /// exp(x - from). Equal infinities have no difference.
  static T grown(T x, T from) { return x == from ? T(1) : scalar_op<op::exp, T>::of(x - from); }
  static void add(T& most, T& sum, T x) {
    const T above = x > most ? x : most;
    sum = sum * grown(most, above) + grown(x, above);
    most = above;
  }
  static T total(T most, const T* sum) {
    T all = 0;
    for (int j = 0; j < vector_block; ++j) all += sum[j];
    return most + scalar_op<op::log, T>::of(all);
  }
  /// In blocks that stay in the first cache between the two loops over each.
  static void add_line(T& most, T (&sum)[vector_block], const T* line, std::int64_t n) {
    constexpr std::int64_t block{fold_buffer_bytes / sizeof(T)};
    for (; n > block; n -= block, line += block) add_block(most, sum, line, block);
    add_block(most, sum, line, n);
  }
  static void add_block(T& most, T (&sum)[vector_block], const T* line, std::int64_t n) {
    const T above = largest(most, line, n), scale = grown(most, above);
    for (int j = 0; j < vector_block; ++j) sum[j] *= scale;
    most = above;
    std::int64_t i = 0;
    // Of an infinite largest value there is no difference.
    if (above - above != 0)
      for (; i < n; ++i) sum[0] += grown(line[i], above);
    for (; i + vector_block <= n; i += vector_block) {
      // Prefetches the next block while this one computes.
      prefetch_line(line + i + n);
      CLEAVE_INDEPENDENT
      for (int j = 0; j < vector_block; ++j) sum[j] += scalar_op<op::exp, T>::of(line[i + j] - above);
    }
    for (int j = 0; j < n - i; ++j) sum[j] += scalar_op<op::exp, T>::of(line[i + j] - above);
  }
  /// The largest of `most` and n values. Two vectors at a time: each comparison waits for the one before.
  static T largest(T most, const T* line, std::int64_t n) {
    using all = fold_sums<T, reduction::max>;
    T even[vector_block], odd[vector_block];
    for (int j = 0; j < vector_block; ++j) even[j] = odd[j] = most;
    std::int64_t i = 0;
    for (; i + 2 * vector_block <= n; i += 2 * vector_block) {
      all::add_line(even, line + i, vector_block);
      all::add_line(odd, line + i + vector_block, vector_block);
    }
    all::add_line(even, line + i, n - i);
    all::add_line(even, odd, vector_block);
    return all::total(even);
  }
};

template <class T, reduction How, class Out>
struct fold_results {
  using sums_type = fold_sums<T, How>;

  static void finish_row(const void* sums, void* out) { *as<Out>(out) = convert<Out>(sums_type::of_row(sums)); }
  static void reduce_rows(const void* values, std::int64_t results, std::int64_t n, std::int64_t apart, void* out,
                          std::int64_t out_apart) {
    const T* line = as<T>(values);
    Out* to = as<Out>(out);
    for (std::int64_t result = 0; result < results; ++result, line += apart, to += out_apart)
      *to = convert<Out>(sums_type::of_line(line, n));
  }
  static void finish_columns(const void* sums, std::int64_t n, void* out, std::int64_t step) {
    for (std::int64_t j = 0; j < n; ++j) as<Out>(out)[j * step] = convert<Out>(sums_type::of_column(sums, n, j));
  }
};

template <class T, reduction How, class Out>
inline constexpr fold_arithmetic fold_arithmetic_of{&fold_sums<T, How>::start,
                                                    &fold_sums<T, How>::add_rows,
                                                    &fold_results<T, How, Out>::finish_row,
                                                    &fold_results<T, How, Out>::reduce_rows,
                                                    &fold_sums<T, How>::add_columns,
                                                    &fold_results<T, How, Out>::finish_columns};

/// The partial result of a thread on a device.
template <class T, reduction How>
struct fold_state {
  T value;

  CLEAVE_FUNCTION static fold_state empty() { return {identity_of<How, T>}; }
  template <int N>
  CLEAVE_FUNCTION void add(const T (&x)[N]) {
    for (int r = 0; r < N; ++r) value = combined<How>(value, x[r]);
  }
  CLEAVE_FUNCTION void join(const fold_state& other) { value = combined<How>(value, other.value); }
  CLEAVE_FUNCTION T result() const { return value; }
};
/// The largest value, and the sum of exp(value - largest). An empty one has the sum 0.
template <class T>
struct fold_state<T, reduction::logsumexp> {
  T most, sum;

  CLEAVE_FUNCTION static fold_state empty() { return {identity_of<reduction::max, T>, T(0)}; }
  template <int N>
  CLEAVE_FUNCTION void add(const T (&x)[N]) {
    T above = most;
    for (int r = 0; r < N; ++r) above = x[r] > above ? x[r] : above;
    sum = sum * grown(most, above);
    for (int r = 0; r < N; ++r) sum += grown(x[r], above);
    most = above;
  }
  CLEAVE_FUNCTION void join(const fold_state& other) {
    const T above = other.most > most ? other.most : most;
    sum = sum * grown(most, above) + other.sum * grown(other.most, above);
    most = above;
  }
  CLEAVE_FUNCTION T result() const { return most + scalar_op<op::log, T>::of(sum); }

 private:
  /// exp(x - from). Equal infinities have no difference.
  CLEAVE_FUNCTION static T grown(T x, T from) { return x == from ? T(1) : scalar_op<op::exp, T>::of(x - from); }
};

/// A reduction as Kokkos takes it.
template <class State>
class fold_reducer {
 public:
  using reducer = fold_reducer;
  using value_type = State;
  using result_view_type = Kokkos::View<State, Kokkos::AnonymousSpace, Kokkos::MemoryUnmanaged>;

  CLEAVE_FUNCTION explicit fold_reducer(State& value) : value_(&value) {}
  CLEAVE_FUNCTION void join(State& to, const State& from) const { to.join(from); }
  CLEAVE_FUNCTION void init(State& value) const { value = State::empty(); }
  CLEAVE_FUNCTION State& reference() const { return *value_; }
  CLEAVE_FUNCTION result_view_type view() const { return result_view_type(value_); }
  CLEAVE_FUNCTION bool references_scalar() const { return true; }

 private:
  State* value_;
};

/// Stores a result.
template <class T, class Out>
struct fold_store {
  Out* to;
  T result;
  CLEAVE_FUNCTION void operator()() const { *to = convert<Out>(result); }
};

/// Combines the pieces of every result.
template <class T, int How, class Out>
struct join_functor {
  using state = fold_state<T, static_cast<reduction>(How)>;
  const T* pieces;
  Out* out;
  std::int64_t results;
  std::int64_t chunks;

  /// The pieces of a result by one thread, first to last.
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    T sum = pieces[i];
    for (std::int64_t c = 1; c < chunks; ++c) sum = combined<static_cast<reduction>(How)>(sum, pieces[c * results + i]);
    out[i] = convert<Out>(sum);
  }
  /// By the threads of a group.
  template <class Group>
  KOKKOS_FUNCTION void operator()(const Group& group, std::int64_t i) const {
    state sum = state::empty();
    group.reduce(chunks, term{pieces + i, results}, fold_reducer<state>(sum));
    group.single(fold_store<T, Out>{out + i, sum.result()});
  }

 private:
  struct term {
    const T* first;
    std::int64_t apart;
    KOKKOS_FUNCTION void operator()(std::int64_t c, state& sum) const {
      const T value[1] = {first[c * apart]};
      sum.add(value);
    }
  };
};
template <class T, reduction How, class Out>
void join_pieces(const bound_loops& l, const void* pieces, void* to) {
  const join_functor<T, static_cast<int>(How), Out> join{as<T>(pieces), as<Out>(to), l.results, l.chunks};
  if constexpr (on_host) {
    for (std::int64_t i = 0; i < l.results; ++i) join(i);
  } else {
    const lanes_of_reduction lanes(l.results, l.chunks);
    if (lanes.count > 1) launch_groups("cleave fold", l.results, lanes, join);
    else launch("cleave fold", l.results, join);
  }
}

/// One piece of one result for each unit, for devices. The inner dim, if kept, is the last of `outer`. A thread loads
/// several values before it adds them, so that their loads overlap.
template <class Expression, int How, class Out>
struct fold_flat_functor {
  using T = typename Expression::value_type;
  using rows = row_maker<Expression>;
  using row_type = typename Expression::row_type;
  using state = fold_state<T, static_cast<reduction>(How)>;
  static constexpr int wide = Expression::entries <= 6 ? 8 : Expression::entries <= 24 ? 4 : 1;

  row_type start;
  flat_loops<rows::walked> outer;
  flat_loops<rows::walked> folded;
  Out* out;
  flat_divisor results;
  std::int64_t range;
  std::int64_t chunk;

  /// A piece by one thread.
  KOKKOS_FUNCTION void operator()(std::int64_t unit) const {
    piece mine(*this, unit);
    state sum = state::empty();
    for (std::int64_t i = 0; i < mine.next.count; i += wide) mine.next(i, sum);
    *mine.to = convert<Out>(sum.result());
  }
  /// By the threads of a group. Those that follow each other have values that do; the values of one are far apart.
  template <class Group>
  KOKKOS_FUNCTION void operator()(const Group& group, std::int64_t unit) const {
    piece mine(*this, unit);
    mine.next.apart = (mine.next.count + wide - 1) / wide;
    state sum = state::empty();
    group.reduce(mine.next.apart, mine.next, fold_reducer<state>(sum));
    group.single(fold_store<T, Out>{mine.to, sum.result()});
  }

 private:
  /// Adds values i, i + apart...
  struct term {
    const fold_flat_functor& f;
    row_type first;
    std::int64_t begin = 0, count = 0, apart = 1;
    KOKKOS_FUNCTION void operator()(std::int64_t i, state& sum) const {
      if (f.folded.rank > 1) return add_one_by_one(i, sum);
      // Without a loop over dims between them, no load waits for the one before it.
      T value[wide];
      for (int r = 0; r < wide; ++r) {
        // Beyond the last value the first one is loaded again.
        const std::int64_t number = begin + (i + r * apart < count ? i + r * apart : i);
        std::int64_t offset[rows::walked];
        for (int k = 0; k < rows::walked; ++k) offset[k] = number * f.folded.stride[0][k];
        value[r] = Expression::at(rows::moved(first, offset), 0);
      }
      for (int r = 0; r < wide; ++r)
        if (i + r * apart >= count) value[r] = identity_of<static_cast<reduction>(How), T>;
      sum.add(value);
    }
    KOKKOS_FUNCTION void add_one_by_one(std::int64_t i, state& sum) const {
      CLEAVE_NOT_UNROLLED
      for (int r = 0; r < wide; ++r, i += apart) {
        if (i >= count) return;
        std::int64_t offset[rows::walked] = {};
        f.folded.move(begin + i, offset);
        const T value[1] = {Expression::at(rows::moved(first, offset), 0)};
        sum.add(value);
      }
    }
  };
  struct piece {
    term next;
    Out* to;
    KOKKOS_FUNCTION piece(const fold_flat_functor& f, std::int64_t unit) : next{f, f.start} {
      const std::int64_t number = f.results.quotient(unit);
      std::int64_t kept[rows::walked] = {};
      f.outer.move(unit - number * f.results.divisor(), kept);
      next.first = rows::moved(f.start, kept);
      next.begin = number * f.chunk;
      const std::int64_t left = f.range - next.begin;
      next.count = left < f.chunk ? left : f.chunk;
      to = f.out + number * f.results.divisor() + kept[rows::result];
    }
  };
};

template <class Expression, reduction How, bool InnerFolded, class Out>
void fold_flat_into(const bound_loops& l, const void* const* from, Out* out) {
  using rows = row_maker<Expression>;
  flat_loops<rows::walked> outer, folded;
  outer.append_all(l.outer, l.outer.rank);
  if (!InnerFolded) outer.append(l.inner.extent, l.inner.stride);
  folded.append_all(l.folded, l.folded.rank);
  const fold_flat_functor<Expression, static_cast<int>(How), Out> f{
      rows::start(l, from, l.inner.stride), outer, folded, out, flat_divisor(l.results), l.folded.size(), l.chunk};
  const std::int64_t pieces = l.chunks * l.results;
  if constexpr (InnerFolded)
    if (const lanes_of_reduction lanes(pieces, l.chunk); lanes.count > 1)
      return launch_groups("cleave fold", pieces, lanes, f);
  launch("cleave fold", pieces, f);
}

/// Runs a fold on a device. `pieces` is scratch memory for the pieces of results.
template <class Expression, reduction How, bool InnerFolded>
void fold_flat(const bound_loops& l, const void* const* from, void* to, void* pieces) {
  using T = typename Expression::value_type;
  using Out = typename Expression::type;
  if (l.results == 0) return;
  if (l.chunks == 1) return fold_flat_into<Expression, How, InnerFolded>(l, from, as<Out>(to));
  fold_flat_into<Expression, How, InnerFolded>(l, from, as<T>(pieces));
  join_pieces<T, How, Out>(l, pieces, to);
}

}} // namespace cleave::v0
