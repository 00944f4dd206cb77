// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/kernels/expression.hpp>
#include <cleave/ops/meaning.hpp>
#include <cleave/storage/memory.hpp>

#include <memory>

namespace cleave { inline namespace v0 { namespace detail {

/// Which operation of a fused chain made a NaN: computes one element of the chain once more, on the host.
class nan_search {
 public:
  nan_search(grid_state& grid, const sizes& at, const program_view& p) : b_{grid, p, at} {}

  /// Before a step: copies the operands that it, or the pass that it begins, overwrites.
  [[gnu::cold]] void keep_operands(const step& s, const indexed_vector<void*>& address) {
    // They are copied already.
    if (is_in_pass(s)) return;
    kept_.clear();
    if (s.ops == 0 || is_scaled(s)) return;
    wait_for_kernels();
    for (std::uint16_t b : s.in) {
      const buffer& x = b_.program.buffers[b];
      bool overwritten = false;
      for (const step& one : b_.pass_of(s)) overwritten = overwritten || address[b] == address[one.out];
      if (!overwritten || x.form == form::view) continue;
      kept_.push_back({b, allocate(b_.bytes(x))});
      copy_bytes(kept_.back().memory.get(), address[b], b_.bytes(x));
    }
  }

  /// The operation of step `s` that made element `flat` of its result NaN; null if it is not known.
  [[gnu::cold]] const fused_op* find(const step& s, std::int64_t flat, const indexed_vector<void*>& address) const {
    if (is_scaled(s) || has_neighbours(b_.program.buffers[s.out])) return nullptr;
    const indexed_span<const fused_op> all = fused_ops_of(b_.program, s);
    const indexed_vector<std::uint8_t> needed = entries_of(all);
    for (std::size_t t = 0; t < all.size(); ++t) {
      const bool around = role_of(all[t].code) == fused_role::load &&
                          b_.is_around_shard(b_.program.buffers[s.in[all[t].arg]]);
      if (needed[t] != 0 && (is_complex(all[t].type) || all[t].user != nullptr || around)) return nullptr;
    }
    const int kept = s.loop.rank - s.folded;
    point at;
    at.set(extents(s), 0, kept, flat);
    std::int64_t folded = 1;
    for (int d = kept; d < s.loop.rank; ++d) folded *= extents(s)[d].size();
    for (std::int64_t f = 0; f < folded; ++f) {
      at.set(extents(s), kept, s.loop.rank, f);
      if (const fused_op* made = first_nan_of(s, needed, at, address); made != nullptr) return made;
    }
    return nullptr;
  }

  /// Indices along the loop dims of a step, counted from this device's first, and the label there.
  struct label_found {
    std::int64_t index[max_rank] = {}, label = 0;
    /// The place of the dim of the classes in the loop; -1: every label may be there.
    int along = -1;
  };
  /// The first label that a comparison with indices, entry `t` of a step, must not have.
  [[gnu::cold]] label_found wrong_label(const step& s, const fused_op& t, const indexed_vector<void*>& address) const {
    const indexed_span<const fused_op> all = fused_ops_of(b_.program, s);
    const std::size_t side = role_of(all[t.in[0]].code) == fused_role::index ? 1 : 0;
    const std::uint8_t along = all[t.in[1 - side]].arg;
    const element type = all[t.in[side]].type;
    if (has_neighbours(b_.program.buffers[s.out])) return {};
    for (std::size_t e = 0; e <= t.in[side]; ++e) {
      if (is_complex(all[e].type) || all[e].user != nullptr) return {};
      if (role_of(all[e].code) == fused_role::load && b_.is_around_shard(b_.program.buffers[s.in[all[e].arg]]))
        return {};
    }
    const box whole = extents(s);
    std::int64_t points = 1;
    for (int d = 0; d < s.loop.rank; ++d)
      points *= d == along ? std::min<std::int64_t>(whole[d].size(), 1) : whole[d].size();
    indexed_vector<double> value(as_size(t.in[side]) + 1);
    for (std::int64_t p = 0; p < points; ++p) {
      point at;
      std::int64_t rest = p;
      for (int d = s.loop.rank; d-- > 0;) {
        if (d == along) continue;
        at.index[d] = rest % whole[d].size();
        rest /= whole[d].size();
      }
      for (std::size_t e = 0; e < value.size(); ++e) value[e] = entry_at(s, all[e], at, address, value.data());
      const double label = value[value.size() - 1];
      if (is_label(label, b_.at[s.loop[along]], type, t.scalar)) continue;
      label_found f{{}, static_cast<std::int64_t>(label), along};
      for (int d = 0; d < s.loop.rank; ++d) f.index[d] = whole[d].begin + at.index[d];
      return f;
    }
    return {};
  }
  /// Whether a label is an index of a dim, none, or the one that is ignored.
  static bool is_label(double label, std::int64_t extent, element type, double ignored) {
    return (label >= 0 && label < as_double(extent)) || label == label_of_none(type) || label == ignored - 0.5;
  }

 private:
  /// Indices along the loop dims of a step, counted from this device's first.
  struct point {
    std::int64_t index[max_rank] = {};

    /// Dims `first` to `last` from their common index.
    void set(const box& extents, int first, int last, std::int64_t flat) {
      for (int d = last; d-- > first; flat /= extents[d].size()) index[d] = flat % extents[d].size();
    }
  };
  struct kept_operand {
    std::size_t buffer;
    std::shared_ptr<void> memory;
  };

  box extents(const step& s) const {
    box e;
    e.rank = s.loop.rank;
    for (int d = 0; d < s.loop.rank; ++d) e.along[d] = b_.held_along(s.loop, s.space, d);
    return e;
  }
  /// The entries that the last one is computed from, and itself. Others belong to other results of the same pass.
  [[gnu::cold]] static indexed_vector<std::uint8_t> entries_of(indexed_span<const fused_op> all) {
    indexed_vector<std::uint8_t> needed(all.size(), 0);
    needed[all.size() - 1] = 1;
    for (std::size_t t = all.size(); t-- > 0;) {
      const fused_role role = role_of(all[t].code);
      const int operands = role == fused_role::user ? 3 : role == fused_role::operation ? arity_of(all[t].code) : 0;
      for (int k = 0; k < operands && needed[t] != 0; ++k) needed[all[t].in[as_size(k)]] = 1;
    }
    return needed;
  }
  [[gnu::cold]] const fused_op* first_nan_of(const step& s, const indexed_vector<std::uint8_t>& needed, const point& at,
                                             const indexed_vector<void*>& address) const {
    const indexed_span<const fused_op> fused_ops = fused_ops_of(b_.program, s);
    indexed_vector<double> value(fused_ops.size());
    for (std::size_t t = 0; t < fused_ops.size(); ++t) {
      const fused_op& o = fused_ops[t];
      if (needed[t] == 0) continue;
      value[t] = entry_at(s, o, at, address, value.data());
      if (value[t] != value[t] && role_of(o.code) != fused_role::load) return &o;
    }
    return nullptr;
  }
  double entry_at(const step& s, const fused_op& o, const point& at, const indexed_vector<void*>& address,
                  const double* value) const {
    switch (role_of(o.code)) {
      case fused_role::load: return element_at(s, s.in[o.arg], at, address);
      case fused_role::index: return plain::stored(o.type, as_double(extents(s)[o.arg].begin + at.index[o.arg]));
      case fused_role::constant: return plain::stored(o.type, o.scalar);
      case fused_role::count: return literal_of(o, b_.at);
      default:
        return plain::applied(o.code, fused_ops_of(b_.program, s)[o.in[typed_operand(o.code)]].type, o.type,
                              value[o.in[0]], value[o.in[1]], value[o.in[2]]);
    }
  }
  double element_at(const step& s, std::size_t b, const point& at, const indexed_vector<void*>& address) const {
    const buffer& from = b_.program.buffers[b];
    const addressing where = b_.addresses(from);
    std::int64_t offset = 0;
    for (int d = 0; d < s.loop.rank; ++d) offset += at.index[d] * stride_along(from, where, s.loop[d]);
    const void* data = address[b];
    for (const kept_operand& k : kept_)
      if (k.buffer == b) data = k.memory.get();
    return host_number(as<char>(data) + offset * size_of(from.type.element), from.type.element).floating();
  }

  binder b_;
  indexed_vector<kept_operand> kept_{};
};

}}} // namespace cleave::v0::detail
