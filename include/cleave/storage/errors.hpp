// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about memory, and of libraries that are not ready.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Call `MPI_Init_thread`, then construct a `Kokkos::ScopeGuard`, before the first grid or tensor is constructed.
/// A program with MPI sessions makes its grids from a communicator of `MPI_Comm_create_from_group`.
inline constexpr text<1> not_initialised{"{library} is not initialised yet"};
/// fix: Do this before `MPI_Finalize` and `Kokkos::finalize`. Destroying grids and tensors is safe afterwards. So
/// are calls that do not communicate, before `Kokkos::finalize`: `fill`, `fill_by`, copies, `data()`.
inline constexpr text<1> finalised{"{library} has been finalised already"};
/// fix: Use more devices, shard more dims, or use smaller extents.
inline constexpr text<1> out_of_memory{"this device cannot allocate {bytes} bytes"};

}}} // namespace cleave::v0::wording
