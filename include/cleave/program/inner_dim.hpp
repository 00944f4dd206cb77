// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/program.hpp>

#include <array>
#include <cstddef>

// Facts of a step that its kernel's type depends on.

namespace cleave { inline namespace v0 {

/// Which loop dim is innermost, and how each operand moves along it.
struct inner_dim {
  /// Position in the loop, -1 if the loop has no dims.
  int position = -1;
  bool folded = false;
  /// 0: stays; 1: contiguous; 2: some other stride.
  std::array<unsigned, max_operands> stride{};
};

namespace detail {
/// 0: a buffer does not have the dim; 1: its elements are adjacent along it; 2: they are further apart.
template <class Buffers, class Maps>
constexpr unsigned stride_kind(const buffer& b, dim_id d, const Buffers& buffers, const Maps& maps) {
  const int at = b.type.find(d);
  if (at < 0) return 0;
  if (b.form != form::view) return at == b.type.rank - 1 ? 1 : 2;
  const tensor_type& region = buffers[b.of].type;
  for (unsigned m = 0; m < b.maps; ++m) {
    const dim_map& map = maps[b.first_map + m];
    const bool inner = region[region.rank - 1] == map.from;
    if (map.to == d) return inner && map.stride == 1 ? 1 : 2;
    if (map.window == d) return inner && map.dilation == 1 ? 1 : 2;
  }
  return region[region.rank - 1] == d ? 1 : 2;
}
} // namespace detail

/// A map runs along the last dim of its result. A fold runs along the last dim of its largest operand, so that whatever
/// is reduced, memory is read in order.
template <class Buffers, class Maps>
[[gnu::cold]] constexpr inner_dim inner_dim_of(const step& s, const Buffers& buffers, const Maps& maps) {
  inner_dim inner;
  inner.position = s.loop.rank - 1;
  if (s.kind == step_kind::fold) {
    int rank = 0;
    for (std::uint16_t b : s.in)
      if (buffers[b].type.rank > rank) {
        rank = buffers[b].type.rank;
        inner.position = s.loop.find(buffers[b].type[rank - 1]);
      }
  }
  inner.folded = inner.position >= s.loop.rank - s.folded;
  for (std::size_t k = 0; k < s.in.size(); ++k) {
    inner.stride[k] = inner.position < 0 ? 0
                                         : detail::stride_kind(buffers[s.in[k]], s.loop[inner.position], buffers, maps);
  }
  return inner;
}

}} // namespace cleave::v0
