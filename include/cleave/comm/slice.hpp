// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/parts.hpp>

namespace cleave::comm {

/// Dims are divided over more axes: every device keeps a part of what it has. Blocks must nest. Communication: none.
class slice {
 public:
  slice(grid_state& grid, const transfer& t) : element_(t.element) {
    const box from = box_of(t.global, t.from, grid.here(), grid.sizes());
    const box to = box_of(t.global, t.to, grid.here(), grid.sizes());
    copy_ = copy_between(to, from, to);
  }
  scratch_bytes needs() const { return {}; }
  void run(const void* in, void* out, const scratch&) const { copy_box(copy_, in, out, size_of(element_)); }

 private:
  element element_;
  box_copy copy_{};
};

} // namespace cleave::comm
