// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/operation.hpp>
#include <cleave/comm/parts.hpp>

namespace cleave::comm {

/// Partial values over the axes are combined on all their devices. `in` may be `out`.
/// Communication: MPI_Allreduce of the shard; nothing over axes of size 1.
class all_reduce {
 public:
  all_reduce(grid_state& grid, const transfer& t) : element_(t.element), combine_(t.combine), port_(staged()), staged_(staged()) {
    elements_ = box_of(t.global, t.from, grid.here(), grid.sizes()).elements();
    if (grid.sizes().product(t.axes) > 1) group_ = grid.group_of(t.axes);
  }
  scratch_bytes needs() const { return {0, staged_ && group_.size > 1 ? bytes() : 0}; }

  void run(const void* in, void* out, const scratch& s) const {
    if (group_.size == 1) return copy_bytes(out, in, bytes());
    const void* from = port_.outgoing(in, s.host, bytes());
    void* into = port_.incoming(out, s.host);
    const std::int64_t limit = count_limit();
    for (std::int64_t done = 0; done < elements_; done += limit) {
      const std::int64_t n = elements_ - done < limit ? elements_ - done : limit;
      check(CLEAVE_MPI_CALL(MPI_Allreduce)(from == into ? MPI_IN_PLACE : element_at(from, done, element_),
                                           element_at(into, done, element_), static_cast<call_count>(n),
                                           reduced_datatype_of(combine_, element_), operation_of(combine_, element_), group_.handle),
            "MPI_Allreduce");
    }
    port_.arrived(out, s.host, bytes());
  }

 private:
  std::int64_t bytes() const { return elements_ * size_of(element_); }

  element element_;
  reduction combine_;
  port port_;
  bool staged_;
  std::int64_t elements_ = 0;
  group group_{};
};

} // namespace cleave::comm
