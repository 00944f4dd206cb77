// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/operation.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/storage/elements.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// The reduction of each device's values over the devices whose blocks of a sharded dim come before its own, or after
/// it; the identity if there is none. The values of recurrences are segments; all zeros if there is none.
/// Communication: MPI_Exscan of the values; nothing over axes of size 1.
class prefix_scan {
 public:
  /// Collective over the grid when these axes are requested in this order for the first time.
  prefix_scan(grid_state& grid, axis_list list, bool backwards, reduction how, element e, std::int64_t elements)
      : prefix_scan(grid, list, backwards, how, e, elements, reduced_datatype_of(how, e), operation_of(how, e)) {}
  static prefix_scan* of_recurrence(grid_state& grid, axis_list list, bool backwards, element e,
                                    std::int64_t elements) {
    const element pair = affine_element(e);
    return new prefix_scan(grid, list, backwards, reduction::sum, pair, elements, datatype_of(pair),
                           operation_of_recurrence(e));
  }
  bool communicates() const { return group_.size > 1; }
  std::int64_t host_bytes() const { return communicates() ? port_.host_bytes(bytes(), bytes()) : 0; }

  void run(const void* in, void* out, char* host) const {
    port_.call(in, bytes(), out, bytes(), host, [&](const void* from, void* into) {
      for_each_call(elements_, [&](std::int64_t first, call_count n) {
        check(CLEAVE_MPI_CALL(MPI_Exscan)(element_at(from, first, element_), element_at(into, first, element_), n,
                                          datatype_, operation_, group_.handle),
              "MPI_Exscan");
      });
    });
    if (group_.rank == 0) fill_identity(out, elements_, element_, combine_);
  }

 private:
  prefix_scan(grid_state& grid, axis_list list, bool backwards, reduction how, element e, std::int64_t elements,
              MPI_Datatype datatype, MPI_Op operation)
      : element_(e), combine_(how), elements_(elements), datatype_(datatype), operation_(operation) {
    if (grid.sizes().product(list) > 1) group_ = grid.in_order(list, backwards);
  }
  std::int64_t bytes() const { return elements_ * size_of(element_); }

  element element_;
  reduction combine_;
  std::int64_t elements_;
  MPI_Datatype datatype_;
  MPI_Op operation_;
  port port_{};
  group group_{};
};

}}} // namespace cleave::v0::comm
