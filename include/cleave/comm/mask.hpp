// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/parts.hpp>
#include <cleave/storage/fill.hpp>

namespace cleave::inline v0::comm {

/// A complete value becomes a partial one: the devices with coordinate 0 on the axes keep it, the others hold the
/// identity of the reduction. Communication: none.
class mask {
 public:
  mask(grid_state& grid, const transfer& t)
      : element_(t.element), combine_(t.to.combine()), keeps_(same_along(t.axes, grid.here(), coordinates{})),
        elements_(held_after(grid, t).elements()) {}
  scratch_bytes needs() const { return {}; }
  void run(const void* in, void* out, const scratch&) const {
    if (keeps_) copy_bytes(out, in, elements_ * size_of(element_));
    else fill_identity(out, elements_, element_, combine_);
  }

 private:
  element element_;
  reduction combine_;
  bool keeps_;
  std::int64_t elements_;
};

} // namespace cleave::inline v0::comm
