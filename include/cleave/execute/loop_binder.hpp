// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/kernels/expression.hpp>
#include <cleave/kernels/loops.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace detail {

/// The loops of a map or fold for the sizes of a binder.
class loop_binder {
 public:
  loop_binder(const binder& b, const step& s)
      : b_(b), s_(s), pass_(b.pass_of(s)), inner_(inner_dim_of(s, b.program.buffers, b.program.maps)) {
    if (b.is_left() && s.kind == step_kind::map) inner_.position = std::min(s.loop.rank - 1, 0);
    for (std::size_t k = 0; k < s.in.size(); ++k) add(b.operand(s, k), k);
    for (std::size_t r = 0; r < pass_.size(); ++r) add(b.result(pass_[r]), s.in.size() + r);
    fused_ops = fused_ops_of(b.program, pass_.back());
    for (int i = 0; i < s.loop.rank; ++i) part.extent[i] = b.held_along(s.loop, s.space, i).size();
  }

  /// The part of the iteration space that is bound, counted from the first index of the device: all of it at first. In
  /// a halo beyond the end of a ring, indices are so much smaller than they are counted.
  struct {
    std::int64_t begin[max_rank] = {}, extent[max_rank] = {}, wrapped[max_rank] = {};
  } part{};
  /// The operations of the part.
  indexed_span<const fused_op> fused_ops{};
  /// The index with which the part begins along a dim of the loop.
  std::int64_t first_index(int i) const {
    return b_.held_along(s_.loop, s_.space, i).begin + part.begin[i] - part.wrapped[i];
  }
  /// Sets how a load moves through its array; the number past the last load stands for the first result.
  void read_at(std::size_t k, const addressing& strides) { address_[k].stride = strides.stride; }
  /// The loops of a map without shortcuts: those of adjacent parts have the same lines.
  void bind_part(bound_loops& l) const {
    append_dims(l, s_.loop.rank);
    l.outer.append(innermost());
    l.inner = l.outer.back();
    bind_values(l);
  }

  [[gnu::cold]] void bind_map(bound_loops& l) const {
    append_dims(l, s_.loop.rank);
    l.outer.append(innermost());
    l.outer.collapse(l.walked);
    find_tile(l);
    l.inner = l.outer.back();
    bind_values(l);
  }
  /// Has a load prefetched, if it runs along the line as the result does. This is worth it if several lines of an array
  /// are read at the same time.
  void prefetch(bound_loops& l, std::size_t k) const {
    const bool beside = l.inner.stride[k] == 1 &&
                        size_of(b_.operand(s_, k).type.element) == size_of(b_.result(s_).type.element);
    if (beside && l.prefetched < most_prefetched) l.prefetch[l.prefetched++] = as_int(k);
  }
  /// `inner_folded`: the inner dim is a folded one, or there is none.
  void bind_fold(bound_loops& l, bool inner_folded) const {
    append_dims(l, s_.loop.rank - s_.folded);
    loop_nest& with_inner = inner_folded ? l.folded : l.outer;
    with_inner.append(innermost());
    l.outer.collapse(l.walked);
    l.folded.collapse(l.walked);
    l.inner = with_inner.back();
    if (!inner_folded) --l.outer.rank;
    bind_values(l);
  }

 private:
  /// All dims but the inner one: the first `kept` among the outer ones, the others among the folded ones.
  [[gnu::cold]] void append_dims(bound_loops& l, int kept) const {
    l.written = as_int(pass_.size());
    l.walked = as_int(s_.in.size()) + indices() + l.written;
    for (int k = 0; k < s_.loop.rank; ++k)
      if (const int i = b_.is_left() ? s_.loop.rank - 1 - k : k; i != inner_.position)
        (i < kept ? l.outer : l.folded).append(loop_dim_at(i));
  }
  loop_dim innermost() const { return inner_.position >= 0 ? loop_dim_at(inner_.position) : loop_dim{}; }
  /// A plan whose operands do not fit its loops would read wrong memory.
  [[gnu::cold]] void add(const buffer& x, std::size_t k) {
    address_[k] = b_.addresses(x);
    if (x.form == form::halo) return;
    const shape extents = b_.local(x);
    for (int i = 0; i < s_.loop.rank; ++i) {
      const int position = x.type.find(s_.loop[i]);
      const std::int64_t wanted = b_.held_along(s_.loop, s_.space, i).size();
      if (position >= 0 && extents[position] != wanted)
        raise<shape_error>(
            wording::plan_inconsistent(name_of(s_.code), b_.program.dims[s_.loop[i]].name, wanted, extents[position]));
    }
  }
  /// A loop dim with the strides of loads, indices and results.
  [[gnu::cold]] loop_dim loop_dim_at(int i) const {
    loop_dim d;
    d.extent = part.extent[i];
    int next = 0;
    for (std::size_t k = 0; k < s_.in.size(); ++k)
      d.stride[next++] = stride_along(b_.operand(s_, k), address_[k], s_.loop[i]);
    for (const fused_op& t : fused_ops)
      if (role_of(t.code) == fused_role::index) d.stride[next++] = t.arg == i ? 1 : 0;
    for (std::size_t r = 0; r < pass_.size(); ++r)
      d.stride[next++] = stride_along(b_.result(pass_[r]), address_[s_.in.size() + r], s_.loop[i]);
    return d;
  }
  /// Puts the dim along which a transposed operand is contiguous next to the inner one.
  void find_tile(bound_loops& l) const {
    const loop_dim& inner = l.outer.back();
    for (std::size_t k = 0; k < s_.in.size(); ++k) {
      if (inner.stride[k] < 2 || inner.extent < 2) continue;
      for (int d = 0; d + 1 < l.outer.rank; ++d)
        if (l.outer.dims[d].stride[k] == 1) {
          l.outer.rotate(d, l.outer.rank - 2);
          l.tiled = true;
          return;
        }
    }
  }
  int indices() const {
    int n = 0;
    for (const fused_op& t : fused_ops) n += role_of(t.code) == fused_role::index ? 1 : 0;
    return n;
  }
  [[gnu::cold]] void bind_values(bound_loops& l) const {
    int indices = 0;
    l.literals.clear();
    for (const fused_op& t : fused_ops) {
      if (role_of(t.code) == fused_role::index) l.index_base[indices++] = first_index(t.arg);
      if (is_literal(role_of(t.code))) l.literals.push_back(literal_of(t, b_.at));
    }
  }

  const binder& b_;
  const step& s_;
  indexed_span<const step> pass_;
  cleave::inner_dim inner_;
  addressing address_[max_operands + max_results];
};

}}} // namespace cleave::v0::detail
