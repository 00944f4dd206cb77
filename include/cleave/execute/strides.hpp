// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/step.hpp>

#include <array>
#include <cstddef>

// Facts of a step that its kernel's type depends on.

namespace cleave {

/// Which loop dim is innermost, and how each operand moves along it.
struct inner_dim {
  /// Position in the loop, -1 where the loop has no dims.
  int position = -1;
  bool folded = false;
  /// 0: stays; 1: contiguous; 2: some other stride.
  std::array<int, max_operands> stride{};
};

/// A map runs along the last dim of its result. A fold runs along the last dim of its largest operand, so that whatever is
/// reduced, memory is read in order.
template <class Buffers>
constexpr inner_dim inner_dim_of(const step& s, const Buffers& buffers) {
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
    const tensor_type& t = buffers[s.in[k]].type;
    const int at = inner.position < 0 ? -1 : t.find(s.loop[inner.position]);
    inner.stride[k] = at < 0 ? 0 : at == t.rank - 1 ? 1 : 2;
  }
  return inner;
}

} // namespace cleave
