// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/operation.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/storage/fill.hpp>

namespace cleave::comm {

/// Values of each device combined over the devices whose blocks of a divided dim come before its own, or after it; the identity where
/// there is none.
/// Communication: MPI_Exscan of the values; nothing over axes of size 1.
class prefix_scan {
 public:
  /// Collective over the grid when these axes are asked for in this order for the first time.
  prefix_scan(grid_state& grid, axis_list list, bool backwards, reduction how, element e, std::int64_t elements)
      : element_(e), combine_(how), port_(staged()), staged_(staged()), elements_(elements) {
    if (grid.sizes().product(list) > 1) group_ = grid.in_order(list, backwards);
  }
  bool communicates() const { return group_.size > 1; }
  std::int64_t host_bytes() const { return staged_ && communicates() ? 2 * aligned(elements_ * size_of(element_)) : 0; }

  void run(const void* in, void* out, char* host) const {
    const std::int64_t bytes = elements_ * size_of(element_), limit = count_limit();
    char* const host_out = host + aligned(bytes);
    const void* from = port_.outgoing(in, host, bytes);
    void* into = port_.incoming(out, host_out);
    for (std::int64_t done = 0; done < elements_; done += limit) {
      const std::int64_t n = elements_ - done < limit ? elements_ - done : limit;
      check(CLEAVE_MPI_CALL(MPI_Exscan)(element_at(from, done, element_), element_at(into, done, element_), static_cast<call_count>(n),
                                        reduced_datatype_of(combine_, element_), operation_of(combine_, element_), group_.handle),
            "MPI_Exscan");
    }
    port_.arrived(out, host_out, bytes);
    if (group_.rank == 0) fill_identity(out, elements_, element_, combine_);
  }

 private:
  element element_;
  reduction combine_;
  port port_;
  bool staged_;
  std::int64_t elements_;
  group group_{};
};

} // namespace cleave::comm
