// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/operands.hpp>

// Loops as kernels of devices take them: plain arrays, no longer than the expression needs.

namespace cleave::inline v0 {

template <int Walked>
struct flat_loops {
  int rank = 0;
  std::int64_t extent[max_rank + 1];
  std::int64_t stride[max_rank + 1][Walked];

  flat_loops() = default;
  explicit flat_loops(const loop_nest& nest, int count) {
    for (int i = 0; i < count; ++i) append(nest.dims[i]);
  }
  void append(const loop_dim& d) {
    extent[rank] = d.extent;
    for (int k = 0; k < Walked; ++k) stride[rank][k] = d.stride[k];
    ++rank;
  }
};

/// A position in loops: indices, and how far each array is along.
template <int Walked>
struct flat_position {
  std::int64_t index[max_rank + 1];
  std::int64_t offset[Walked];

  CLEAVE_FUNCTION flat_position(const flat_loops<Walked>& l, std::int64_t flat) {
    for (int k = 0; k < Walked; ++k) offset[k] = 0;
    for (int i = l.rank - 1; i >= 0; --i) {
      index[i] = flat % l.extent[i];
      flat /= l.extent[i];
      for (int k = 0; k < Walked; ++k) offset[k] += index[i] * l.stride[i][k];
    }
  }
  CLEAVE_FUNCTION void next(const flat_loops<Walked>& l) {
    for (int i = l.rank - 1; i >= 0; --i) {
      for (int k = 0; k < Walked; ++k) offset[k] += l.stride[i][k];
      if (++index[i] < l.extent[i]) return;
      index[i] = 0;
      for (int k = 0; k < Walked; ++k) offset[k] -= l.stride[i][k] * l.extent[i];
    }
  }
};

} // namespace cleave::inline v0
