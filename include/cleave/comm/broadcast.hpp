// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/mpi.hpp>
#include <cleave/comm/operation.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// Sends the elements of one rank to all ranks of a group, in place. `data` is memory that MPI can access.
inline void broadcast(const group& g, void* data, std::int64_t elements, element type, int root) {
  for (std::int64_t done = 0; done < elements; done += count_limit()) {
    const std::int64_t left = elements - done;
    check(CLEAVE_MPI_CALL(MPI_Bcast)(element_at(data, done, type),
                                     as_count(left < count_limit() ? left : count_limit()), datatype_of(type), root,
                                     g.handle),
          "MPI_Bcast");
  }
}

}}} // namespace cleave::v0::comm
