// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/execute/given_strides.hpp>
#include <cleave/execute/slices_in_place.hpp>
#include <cleave/kernels/expression.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/program_view.hpp>

namespace cleave { inline namespace v0 {

/// The data from which a step is bound: the program, the sizes, the device. Computed once, when a plan meets sizes.
struct binder {
  grid_state& grid;
  program_view program;
  const sizes& at;
  /// Null: all arguments and results are contiguous.
  const given_strides* given = nullptr;
  /// The slices that are read in place; null: all are copied.
  const indexed_vector<slice_in_place>* slices = nullptr;

  const buffer& operand(const step& s, std::size_t k) const { return program.buffers[s.in[k]]; }
  const buffer& result(const step& s) const { return program.buffers[s.out]; }
  /// The number of a step of this program.
  std::size_t number_of(const step& s) const { return as_size(&s - program.steps.data()); }
  /// The steps that run in one pass with this one, the first of them.
  indexed_span<const step> pass_of(const step& s) const { return cleave::pass_of(program.steps, number_of(s)); }

  /// Whether all arrays are in LayoutLeft order.
  bool is_left() const { return given != nullptr && given->left; }
  /// Whether a buffer is the view through which an operation reads a shard and its halo.
  bool is_around_shard(const buffer& b) const { return cleave::is_around_shard(program, b); }
  /// Extents of this device's shard of a buffer, and its bytes.
  shape local(const buffer& b) const { return indices_of(b, program.maps, at, grid.here()).extents(); }
  [[gnu::cold]] std::int64_t bytes(const buffer& b) const {
    return elements_of(b, program.maps, at, grid.here()) * size_of(b.type.element);
  }
  /// The bytes of a shard from its first element to its last.
  [[gnu::cold]] std::int64_t bytes_between(const buffer& x) const {
    const strides* own = given == nullptr ? nullptr : given->of_buffer(program, x);
    const std::int64_t packed = bytes(x);
    if (own == nullptr || packed == 0) return packed;
    const shape extents = local(x);
    std::int64_t last = 0;
    for (int i = 0; i < extents.rank; ++i) last += (extents[i] - 1) * (*own)[i];
    return (last + 1) * size_of(x.type.element);
  }
  [[gnu::cold]] addressing addresses(const buffer& b) const {
    if (const slice_in_place* s = slice_of(b)) {
      addressing a = addresses(program.buffers[s->whole]);
      a.extents = local(b);
      return a;
    }
    return addressing_of(
        b, program.buffers, program.maps, at, grid.here(),
        [this](const buffer& shard) -> const std::int64_t* {
          const strides* own = given == nullptr ? nullptr : given->of_buffer(program, shard);
          return own == nullptr ? nullptr : own->begin();
        },
        is_left());
  }
  /// The slice that a buffer is, if it is read in place.
  const slice_in_place* slice_of(const buffer& b) const {
    for (std::size_t i = 0; slices != nullptr && i < slices->size(); ++i)
      if (&b == &program.buffers[(*slices)[i].slice]) return &(*slices)[i];
    return nullptr;
  }
  /// The buffer in whose memory a step reads a buffer.
  const buffer& read_from(std::uint16_t b) const {
    const slice_in_place* s = slice_of(program.buffers[b]);
    return program.buffers[s == nullptr ? b : s->whole];
  }
  /// Finds the slices that products read in place.
  [[gnu::cold]] indexed_vector<slice_in_place> find_slices() const {
    const auto address = [this](const buffer& b) { return addresses(b); };
    return detail::slice_search(program, at, address).found();
  }
  /// Whether a halo has no memory of its own, because the View of the argument that it surrounds has ghosts for it.
  bool lies_in_ghosts(const buffer& halo) const {
    return given != nullptr && given->ghosts_take(program, halo, at, grid.here());
  }
  /// The indices of this device along dim `i` of a loop.
  [[gnu::noinline, gnu::cold]] range held_along(const tensor_type& loop, const layout& space, int i) const {
    return held(at.along(loop[i]), space[i], grid.here(), grid.sizes());
  }
};

inline strides strides_in(const addressing& a) {
  strides s{};
  for (int i = 0; i < a.extents.rank; ++i) s[i] = a.stride[as_size(i)];
  return s;
}

/// A number that is known when a kernel starts: a constant as its type stores it, or a product of extents.
[[gnu::cold]] inline double literal_of(const fused_op& t, const sizes& at) {
  if (role_of(t.code) == fused_role::constant) return rounded_to(t.type, t.scalar);
  double product = 1;
  for (dim_id d = 0; d < max_dims; ++d)
    if (t.over.contains(d)) product *= as_double(at[d]);
  return product;
}

}} // namespace cleave::v0
