// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about memory, and of libraries that are not ready.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: Call `MPI_Init_thread`, then construct a `Kokkos::ScopeGuard`, before the first grid or tensor is constructed.
/// A program with MPI sessions makes its grids from a communicator of `MPI_Comm_create_from_group`.
[[gnu::cold]] inline std::string not_initialised(std::string_view library) {
  return sentence({library, " is not initialised yet"});
}
/// mend: Do this before `MPI_Finalize` and `Kokkos::finalize`. Destroying grids and tensors is safe afterwards. So
/// is what does not communicate, before `Kokkos::finalize`: `fill`, `fill_by`, copies, `data()`.
[[gnu::cold]] inline std::string finalised(std::string_view library) {
  return sentence({library, " has been finalised already"});
}
/// mend: Use more devices, shard more dims, or use smaller extents.
[[gnu::cold]] inline std::string out_of_memory(std::int64_t bytes) {
  return sentence({"this device cannot allocate ", number(bytes), " bytes"});
}

}}} // namespace cleave::v0::wording
