// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/parts.hpp>

namespace cleave::inline v0::comm {

/// Dims are sharded over more axes: every device keeps a part of what it has. Blocks must nest. Communication: none.
class slice {
 public:
  slice(grid_state& grid, const transfer& t) : element_(t.element) {
    const box to = held_after(grid, t);
    copy_ = copy_between(to, held_before(grid, t), to);
  }
  scratch_bytes needs() const { return {}; }
  void run(const void* in, void* out, const scratch&) const { copy_box(copy_, in, out, size_of(element_)); }

 private:
  element element_;
  box_copy copy_{};
};

} // namespace cleave::inline v0::comm
