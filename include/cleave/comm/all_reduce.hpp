// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/operation.hpp>
#include <cleave/comm/parts.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// Partial values over the axes are combined on all their devices. `in` may be `out`.
/// Communication: MPI_Allreduce of the shard; nothing over axes of size 1.
class all_reduce {
 public:
  [[gnu::cold]] all_reduce(grid_state& grid, const transfer& t)
      : element_(t.element), combine_(t.combine), elements_(held_before(grid, t).elements()) {
    if (grid.sizes().product(t.axes) > 1) group_ = grid.group_of(t.axes);
  }
  scratch_bytes needs() const { return {0, port_.staged() && group_.size > 1 ? bytes() : 0}; }

  void run(const void* in, void* out, const scratch& s) {
    if (group_.size == 1) return copy_bytes(out, in, bytes());
    // Both are the same memory if `in` is `out`, and if both are staged.
    const void* from = port_.outgoing(in, s.host, bytes());
    void* into = port_.incoming(out, s.host);
    all_reduce_by_mpi(from, into, elements_, element_, combine_, group_.handle);
    port_.arrived(out, s.host, bytes());
  }

 private:
  std::int64_t bytes() const { return elements_ * size_of(element_); }

  element element_;
  reduction combine_;
  std::int64_t elements_;
  port port_{};
  group group_{};
};

}}} // namespace cleave::v0::comm
