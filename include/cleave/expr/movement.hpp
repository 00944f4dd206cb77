// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/expr/functions.hpp>
#include <cleave/rules/remap.hpp>
#include <cleave/type/tensor_type.hpp>

#include <algorithm>
#include <limits>

// Elements under other indices. All of these are linear, have gradients, take any layout of their operands and give any
// layout: every device fetches just the elements that it lacks, in one exchange. A dim whose extent changes takes
// another name.

namespace cleave { inline namespace v0 {

/// The end of a slice that extends to the end of the dim.
inline constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();

/// A tensor and the dim along which `concat` joins it to others.
struct concat_operand {
  operand x;
  dim_ref dim;
};
/// The operand of `concat` that is x along one of its dims.
constexpr concat_operand piece(operand x, dim_ref dim) { return {x, dim}; }
CLEAVE_LIFT(piece)

/// A window along a dim, as an argument of `windows`. Index i sees the elements stride * i + dilation * k - low for k =
/// 0, 1, ... along the new dim `at`, whose extent is fixed. The result has dim `to`, which may be `from` itself if the
/// extent stays the same. `high` says how far windows reach beyond the end.
struct window {
  dim_ref from, to, at;
  std::int64_t stride = 1, dilation = 1, low = 0, high = 0;
  border outside = border::zero;
};
/// A window as a constant, for `windows` in a statement: `windows(u, cleave::window_c<row, row, around, 1, 1, 1, 1>)`.
template <auto From, auto To, auto At, std::int64_t Stride, std::int64_t Dilation, std::int64_t Low, std::int64_t High,
          border Outside>
struct window_constant {
  constexpr operator window() const { return {From, To, At, Stride, Dilation, Low, High, Outside}; }
};
/// The window from, to and at these dims, with the numbers of `window`, as a constant.
template <auto From, auto To, auto At, std::int64_t Stride = 1, std::int64_t Dilation = 1, std::int64_t Low = 0,
          std::int64_t High = 0, border Outside = border::zero>
inline constexpr window_constant<From, To, At, Stride, Dilation, Low, High, Outside> window_c{};

/// The elements begin, begin + step, ... before `end` of dim `from`, as dim `to`. Negative indices count from the end.
/// Communication, as for all functions of this header: each device receives exactly the elements that it lacks, in one
/// exchange. Faults: dim_missing, step_too_small. Calls throw shape_error if `begin` or `end` is beyond the dim.
constexpr value slice(operand x, dim_ref from, dim_ref to, std::int64_t begin, std::int64_t end = to_the_end,
                      std::int64_t step = 1) {
  detail::remapping r(op::slice, x);
  if (dim_map* m = r.along(from, to)) {
    // Both count from the same end.
    const bool reversed = end != to_the_end && (begin < 0) == (end < 0) && begin > end;
    if (step < 1 || reversed) return r.fail(fault::step_too_small, from.name), r.record();
    const extent_sum first = detail::index_from(begin, m->from),
                     last = end == to_the_end ? detail::sum_of(0, m->from) : detail::index_from(end, m->from);
    const std::int64_t n = r.fixed(m->from);
    if (n == dynamic) r.reaches(m->from, begin, end == to_the_end ? 0 : end);
    else if (begin < -n || begin > n || (end != to_the_end && (end < -n || end > n)))
      return r.fail(fault::step_too_small, from.name), r.record();
    m->stride = step;
    m->offset = first;
    r.extent(m->to, detail::minus(last, first, step - 1), step);
  }
  return r.record();
}
CLEAVE_LIFT(slice)

/// Dim `from` as dim `to`, with `low` elements before it, `high` elements after it and `interior` elements between any
/// two. The new elements have the value `with`.
constexpr value pad(operand x, dim_ref from, dim_ref to, std::int64_t low, std::int64_t high, std::int64_t interior = 0,
                    double with = 0) {
  detail::remapping r(op::pad, x);
  dim_map* m = r.along(from, to);
  if (m == nullptr) return r.record();
  if (low < 0 || high < 0 || interior < 0) return r.fail(fault::step_too_small, from.name), r.record();
  m->divisor = interior + 1;
  m->offset = detail::sum_of(-low);
  const dim_id f = m->from, t = m->to;
  r.extent(t, detail::sum_of(low + high - interior, f, interior + 1));
  // Of nothing the sum would be wrong.
  if (interior > 0) r.reaches(f, 1, 1);
  const value padded = r.record();
  if (with == 0 || !padded.ok()) return padded;
  const called_at user(x);
  const value place = x.from.in->iota(to, element::i64, x.where) - as_double(low);
  const value length = x.from.in->count(dim_bit(f), element::i64, x.where);
  const auto step = as_double(interior + 1);
  value inside = (place >= 0) & (place < length * step);
  if (interior > 0) inside = inside & (place / step * step == place);
  return select(inside, padded, with);
}
CLEAVE_LIFT(pad)

/// Element i of the result is element i - by of x. `outside` gives the elements beyond the ends.
constexpr value shift(operand x, dim_ref d, std::int64_t by, border outside = border::zero) {
  detail::remapping r(op::shift, x);
  if (dim_map* m = r.along(d, d)) {
    m->offset = detail::sum_of(-by);
    m->outside = outside;
  }
  return r.record();
}
CLEAVE_LIFT(shift)
/// Element i of the result is element i - by of x, periodic. `by` may be a value that is known only at run time; it
/// must be the same on all devices.
constexpr value roll(operand x, dim_ref d, std::int64_t by) {
  detail::remapping r(op::roll, x);
  if (dim_map* m = r.along(d, d)) {
    m->offset = detail::sum_of(-by);
    m->outside = border::periodic;
  }
  return r.record();
}
constexpr value roll(operand x, dim_ref d, operand by) {
  detail::remapping r(op::roll, x);
  if (dim_map* m = r.along(d, d)) {
    m->outside = border::periodic;
    m->at_run_time = 1;
    m->sign = -1;
    r.add_operand(r.in().index_of(by, "roll"));
  }
  return r.record();
}
CLEAVE_LIFT(roll)
/// The elements along a dim in reverse order.
constexpr value flip(operand x, dim_ref d) {
  detail::remapping r(op::flip, x);
  if (dim_map* m = r.along(d, d)) {
    m->stride = -1;
    m->offset = detail::sum_of(-1, m->from);
  }
  return r.record();
}
CLEAVE_LIFT(flip)
namespace detail {
/// The extent of half of a dim: "half 007".
inline constexpr auto half_names = numbered_names("half ");
} // namespace detail
/// The halves of a dim exchanged, and the first half of the result negated: (x1, x2) becomes (-x2, x1). Rotary position
/// embeddings are `x * cos + rotate_halves(x, head) * sin`. The extent is even; if it is not, the fault is
/// extents_differ for a fixed extent, otherwise the call throws shape_error. Faults: dim_missing, extents_differ.
constexpr value rotate_halves(operand x, dim_ref d) {
  detail::remapping r(op::rotate_halves, x);
  dim_map* m = r.along(d, d);
  if (m == nullptr) return r.record();
  recorder& in = r.in();
  const std::int64_t extent = r.fixed(m->from);
  const dim_ref of_half{detail::half_names[m->from].text(), extent == dynamic ? dynamic : extent / 2};
  const int two = in.dim({"two halves", 2}, "rotate_halves", x.where), half = in.dim(of_half, "rotate_halves", x.where);
  if (two < 0 || half < 0) return r.fail(), r.record();
  const dim_product halves{m->from, known_dim(two), known_dim(half)};
  if (!in.relate(halves, "rotate_halves", x.where)) return r.fail(), r.record();
  m->offset = detail::sum_of(0, halves[2]);
  m->outside = border::periodic;
  const value exchanged = r.record();
  const called_at user(x);
  const value index = in.iota(d, element::i64, x.where);
  const value middle = in.count(dim_bit(half), element::i64, x.where);
  return select(index < middle, -exchanged, exchanged);
}
CLEAVE_LIFT(rotate_halves)
/// Each element `times` times, side by side. Dim `to` is that much longer.
constexpr value repeat(operand x, dim_ref from, dim_ref to, std::int64_t times) {
  detail::remapping r(op::repeat, x);
  if (dim_map* m = r.along(from, to)) {
    if (times < 1) return r.fail(fault::step_too_small, from.name), r.record();
    m->divisor = times;
    m->floors = true;
    r.extent(m->to, detail::sum_of(0, m->from, times));
  }
  return r.record();
}
CLEAVE_LIFT(repeat)
/// The whole dim `times` times, one after the other, as dim `to`.
constexpr value tile(operand x, dim_ref from, dim_ref to, std::int64_t times) {
  detail::remapping r(op::tile, x);
  if (dim_map* m = r.along(from, to)) {
    if (times < 1) return r.fail(fault::step_too_small, from.name), r.record();
    m->outside = border::periodic;
    r.extent(m->to, detail::sum_of(0, m->from, times));
  }
  return r.record();
}
CLEAVE_LIFT(tile)
/// Element i is element (i, i) of dims `i` and `j`, which have the same extent. The result has dim `i`.
constexpr value diagonal(operand x, dim_ref i, dim_ref j) {
  detail::remapping r(op::diagonal, x);
  dim_map* first = r.along(i, i);
  if (first == nullptr) return r.record();
  const dim_id kept = first->to;
  const int gone = r.in().made().find_dim(j.name);
  if (gone < 0 || gone == kept || !r.type_.has(gone)) return r.fail(fault::dim_missing, j.name), r.record();
  tensor_type rest;
  rest.element = r.type_.element;
  for (int k = 0; k < r.type_.rank; ++k)
    if (r.type_[k] != gone) rest.append(r.type_[k]);
  return detail::recorded_diagonal(r.in(), x.from, kept, known_dim(gone), rest, x.where);
}
CLEAVE_LIFT(diagonal)

/// A mistake: operands are no list. Fault: dims_in_braces.
#define CLEAVE_REFUSED_IN_BRACES(name)                                   \
  template <Dim D, class Item>                                           \
  constexpr auto name(std::initializer_list<Item> all, const D&) {       \
    return say(detail::braces<#name, D>), detail::refused_list(all);     \
  }                                                                      \
  template <Dim D, class Item>                                           \
  constexpr auto name(const D&, std::initializer_list<Item> all) {       \
    return say(detail::braces<#name, D>), detail::refused_list(all);     \
  }                                                                      \
  template <Dim D>                                                       \
  constexpr auto name(std::initializer_list<detail::listed>, const D&) { \
    return say(detail::braces<#name, D>), detail::absorbed_statement{};  \
  }

/// Tensors one after the other along a dim, which is called `to` in the result. The other dims are common. At most six
/// pieces. Faults: too_many_pieces, dims_do_not_broadcast, element_types_differ.
template <std::same_as<concat_operand>... Rest>
constexpr value concat(dim_ref to, const concat_operand& first, const Rest&... rest) {
  const std::array<concat_operand, sizeof...(Rest) + 1> all{first, rest...};
  for (const concat_operand& piece : all)
    if (piece.x.is_literal)
      for (const concat_operand& other : all)
        if (!other.x.is_literal && other.x.from.in != nullptr)
          return other.x.from.in->fail(fault::dims_do_not_broadcast, "concat", piece.x.where, piece.dim.name);
  detail::remapping r(op::concat, first.x);
  if (all.size() > max_arity) return r.fail(fault::too_many_pieces, to.name), r.record();
  dim_map* m = r.along(first.dim, to);
  if (m == nullptr) return r.record();
  extent_sum length = detail::sum_of(0, m->from);
  const dim_id target = m->to;
  static_vector<dim_map, max_arity> maps{*m};
  static_vector<value, max_arity> args{first.x.from};
  for (std::uint8_t k = 1; k < all.size(); ++k) {
    const value v = all[k].x.from;
    if (!v.ok()) return v;
    const tensor_type& t = r.in().at(v).type;
    const int d = r.in().dim_of(v, all[k].dim, "concat", first.x.where);
    if (d < 0) return r.fail(), r.record();
    for (int i = 0; i < t.rank; ++i)
      if (t[i] != d && !r.type_.has(t[i]))
        return r.fail(fault::dims_do_not_broadcast, r.in().made().dims[t[i]].name), r.record();
    if (t.rank != r.type_.rank) return r.fail(fault::dims_do_not_broadcast, all[k].dim.name), r.record();
    if (t.element != r.type_.element) return r.fail(fault::element_types_differ, {}), r.record();
    dim_map next;
    next.operand = k;
    next.from = known_dim(d);
    next.to = target;
    next.offset = detail::minus({}, length);
    maps.push_back(next);
    args.push_back(v);
    length = detail::minus(length, detail::sum_of(0, next.from, -1));
  }
  r.extent(target, length);
  if (r.failed()) return r.record();
  return r.in().remap(op::concat, indexed_span<const value>(args.begin(), args.size()),
                      indexed_span<const dim_map>(maps.begin(), maps.size()), r.type_, first.x.where);
}
CLEAVE_LIFT(concat)
CLEAVE_REFUSED_IN_BRACES(concat)

/// The elements that each index sees around it; see `window`. Up to three dims at once, corners included. The new dims
/// come last, in order. Faults: window_open, too_many_pieces, dim_used_twice.
template <std::convertible_to<window>... W>
  requires(sizeof...(W) > 0)
constexpr value windows(operand x, const W&... each) {
  detail::remapping r(op::windows, x);
  if (sizeof...(W) > 3) return r.fail(fault::too_many_pieces, {}), r.record();
  for (const window& w : {window(each)...}) {
    dim_map* m = r.along(w.from, w.to);
    if (m == nullptr) return r.record();
    const int k = r.in().dim(w.at, "windows", x.where);
    if (k < 0) return r.fail(), r.record();
    if (r.has(k)) return r.fail(fault::dim_used_twice, w.at.name), r.record();
    const std::int64_t length = r.fixed(known_dim(k));
    if (length == dynamic) return r.fail(fault::window_open, w.at.name), r.record();
    if (w.stride < 1 || w.dilation < 1 || length < 1) return r.fail(fault::step_too_small, w.from.name), r.record();
    if (r.type_.rank == max_rank) return r.fail(fault::rank_too_high, w.at.name), r.record();
    r.type_.append(k);
    m->window = known_dim(k);
    m->stride = w.stride;
    m->dilation = w.dilation;
    m->offset = detail::sum_of(-w.low);
    m->outside = w.outside;
    const std::int64_t reach = w.low + w.high - w.dilation * (length - 1);
    if (m->from == m->to && w.stride == 1 && reach == 0) continue;
    r.extent(m->to, detail::sum_of(reach - 1 + w.stride, m->from), w.stride);
  }
  return r.record();
}
CLEAVE_LIFT(windows)

/// A slice of dim `from` that begins at `start`, as dim `to`, whose fixed extent is its length. `start` is a literal,
/// or a rank-0 integer that is known only at run time and is the same on all devices. It is clamped so that the slice
/// is within the dim, as in XLA; a literal is not negative. Faults: dim_too_short, not_a_start_index, not_an_index,
/// index_negative. Calls throw shape_error if the dim is shorter than the slice.
constexpr value dynamic_slice(operand x, dim_ref from, dim_ref to, operand start) {
  detail::remapping r(op::dynamic_slice, x);
  if (dim_map* m = r.along(from, to)) {
    m->at_run_time = 1;
    m->sign = 1;
    r.add_operand(detail::clamped_start(r.in(), r.in().index_of(start, "dynamic_slice"), m->from, m->to,
                                        "dynamic_slice", x.where));
  }
  return r.record();
}
CLEAVE_LIFT(dynamic_slice)
/// x with the elements of `update` in place of its own from index `start` on. Dim `part` of the update is along dim
/// `whole` of x. A literal update is written to all of them. `start` is as for `dynamic_slice`.
constexpr value dynamic_update(operand x, dim_ref whole, operand update, dim_ref part, operand start) {
  recorder& in = detail::recorder_of(x, update);
  if (!x.from.ok())
    return x.is_literal ? in.fail(fault::dim_missing, "dynamic_update", x.where, whole.name)
                        : in.missing("dynamic_update", x.where);
  if (update.is_literal) {
    const value number = in.value_of(update, "dynamic_update", in.at(x.from).type.element);
    update = detail::placed(in.broadcast(number, std::array{part}, update.where), update);
  }
  detail::remapping r(op::dynamic_pad, update);
  dim_map* m = r.along(part, whole);
  if (m == nullptr) return r.record();
  const value first = detail::clamped_start(in, in.index_of(start, "dynamic_update"), m->to, m->from, "dynamic_update",
                                            x.where);
  m->at_run_time = 1;
  m->sign = -1;
  const dim_id length = m->from;
  r.add_operand(first);
  const value placed = r.record();
  if (!placed.ok() || !first.ok()) return placed;
  const called_at user(x);
  const value index = in.iota(whole, in.at(first).type.element, x.where);
  const value end = first + in.count(dim_bit(length), in.at(first).type.element, x.where);
  return in.marked(select((index >= first) & (index < end), placed, x), chooses_update);
}
CLEAVE_LIFT(dynamic_update)

namespace detail {
template <std::size_t N>
constexpr value stacked(dim_operand along, const std::array<operand, N>& all) {
  recorder& in = *recorder_of(all);
  std::size_t first = 0;
  while (all[first].is_literal || all[first].from.in == nullptr) ++first;
  const source where = along.where;
  dim_ref to = along.dim;
  if (!all[first].from.ok()) return in.missing("stack", where);
  const tensor_type part = in.at(all[first].from).type;
  to.extent = std::ssize(all);
  const value index = in.iota(to, element::i32, where);
  if (!index.ok()) return index;
  tensor_type whole;
  whole.element = part.element;
  whole.append(in.at(index).type[0]);
  if (part.has(whole[0])) return in.fail(fault::dim_used_twice, "stack", where, to.name);
  if (part.rank == max_rank) return in.fail(fault::rank_too_high, "stack", where, to.name);
  for (int i = 0; i < part.rank; ++i) whole.append(part[i]);
  value result{};
  for (std::size_t k = N; k-- > 0;) {
    const value own = in.value_of(all[k], "stack", part.element);
    if (!own.ok()) return own;
    const tensor_type t = in.at(own).type;
    for (const dim_set missing : {part.set() & ~t.set(), t.set() & ~part.set()})
      for (dim_id d = 0; d < in.made().dims.size() && !all[k].is_literal; ++d)
        if ((missing & dim_bit(d)) != 0)
          return in.fail(fault::dims_do_not_broadcast, "stack", where, in.made().dims[d].name);
    if (result.in == nullptr) {
      result = in.broadcast(own, whole, where);
    } else {
      const value here = in.elementwise(op::equal, std::array{index, in.constant(as_double(k), element::i32, where)},
                                        where);
      result = in.elementwise(op::select, std::array{here, own, result}, where);
    }
    if (!result.ok()) return result;
  }
  return result;
}
} // namespace detail

/// `inside` where every given dim is at least `width` from both of its ends, `outside` elsewhere. It updates the
/// interior of a grid and keeps its border. No communication.
template <std::convertible_to<dim_ref>... D>
  requires(sizeof...(D) > 0)
constexpr value interior(operand inside, operand outside, std::int64_t width, const D&... dims) {
  recorder& in = detail::recorder_of(inside, outside);
  if (width < 0) return in.fail(fault::step_too_small, "interior", inside.where, {}, {}, 0, width);
  const called_at user(inside.is_literal ? outside : inside);
  value result = in.value_of(inside, "interior", detail::element_beside(outside));
  for (const dim_ref& d : detail::dims_of(dims...)) {
    const int id = in.made().find_dim(d.name);
    if (id < 0) return in.fail(fault::dim_missing, "interior", inside.where, d.name);
    const value index = in.iota(d, element::i64, inside.where);
    const value end = in.count(dim_bit(id), element::i64, inside.where) - width;
    result = select((index >= width) & (index < end), result, outside);
  }
  return result;
}
CLEAVE_LIFT(interior)

/// Tensors with equal dims and element types, along one new dim that comes first in the result. Literals fill their
/// part; at least one operand is a value. Computed in the step that reads it. Faults: dims_do_not_broadcast,
/// dim_used_twice, element_types_differ, rank_too_high.
template <std::convertible_to<operand>... X>
  requires(sizeof...(X) > 0)
constexpr value stack(dim_operand to, const X&... x) {
  return detail::stacked(to, std::array{operand(x)...});
}
template <class First, class... Rest>
  requires(detail::NoOperands<First, Rest...> || Recorded<First>)
constexpr auto stack(const First& a, const Rest&... b) {
  say(rejection<detail::misuse<op_named<"stack">, First, Rest...>, op_named<"stack">, First, Rest...>);
  return detail::mistaken(a, b...);
}
CLEAVE_REFUSED_IN_BRACES(stack)
template <Dim D, class... A>
  requires(Statement<A> || ...)
constexpr auto stack(const D& to, const A&... args) {
  return detail::make_expression([](const auto& d, const auto&... x) { return stack(dim_operand(d, "", 0), x...); }, to,
                                 args...);
}

}} // namespace cleave::v0
