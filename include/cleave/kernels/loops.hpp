// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/function.hpp>
#include <cleave/layout/layout.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace cleave {

/// Nested loops over arrays with strides, the innermost last. Made when a step is bound: dims of extent 1 vanish, and
/// neighbours merge where all arrays permit.
struct loop_nest {
  struct dim {
    std::int64_t extent = 1;
    /// One for each operand, in elements.
    std::vector<std::int64_t> stride{};
  };
  std::vector<dim> dims{};

  std::int64_t size() const {
    std::int64_t n = 1;
    for (const dim& d : dims) n *= d.extent;
    return n;
  }
  /// Merges dims. The innermost stays innermost, even with extent 1: the classes of its strides are known to the compiler.
  void collapse() {
    std::vector<dim> kept;
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (kept.empty()) {
        kept.push_back(dims[i]);
        continue;
      }
      if (dims[i].extent == 1) continue;
      dim& inner = kept.back();
      bool merges = true;
      for (std::size_t k = 0; k < inner.stride.size(); ++k)
        merges = merges && dims[i].stride[k] == inner.stride[k] * inner.extent;
      if (merges) inner.extent *= dims[i].extent;
      else kept.push_back(dims[i]);
    }
    dims.assign(kept.rbegin(), kept.rend());
  }
};

/// Loops as kernels take them: plain arrays, strides of `Operands` arrays.
template <int Operands>
struct kernel_loops {
  int rank;
  std::int64_t extent[max_rank];
  std::int64_t stride[max_rank][Operands];

  kernel_loops() = default;
  explicit kernel_loops(const std::vector<loop_nest::dim>& dims, std::size_t count) : rank(static_cast<int>(count)) {
    for (std::size_t i = 0; i < count; ++i) {
      extent[i] = dims[i].extent;
      for (std::size_t k = 0; k < Operands; ++k) stride[i][k] = dims[i].stride[k];
    }
  }
};

/// A position in loops: indices, and how far each operand is along.
template <int Operands>
struct odometer {
  std::int64_t index[max_rank];
  std::int64_t offset[Operands];

  CLEAVE_FUNCTION odometer(const kernel_loops<Operands>& l, std::int64_t flat) {
    for (int k = 0; k < Operands; ++k) offset[k] = 0;
    for (int i = l.rank - 1; i >= 0; --i) {
      index[i] = flat % l.extent[i];
      flat /= l.extent[i];
      for (int k = 0; k < Operands; ++k) offset[k] += index[i] * l.stride[i][k];
    }
  }
  CLEAVE_FUNCTION void next(const kernel_loops<Operands>& l) {
    for (int i = l.rank - 1; i >= 0; --i) {
      for (int k = 0; k < Operands; ++k) offset[k] += l.stride[i][k];
      if (++index[i] < l.extent[i]) return;
      index[i] = 0;
      for (int k = 0; k < Operands; ++k) offset[k] -= l.stride[i][k] * l.extent[i];
    }
  }
};

} // namespace cleave
