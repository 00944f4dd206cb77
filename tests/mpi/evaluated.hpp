// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/grid.hpp>
#include <cleave/simulate/evaluate.hpp>

#include <mpi.h>

#include <vector>

namespace support {

/// `cleave::evaluate` by the first device of a grid, which sends the results to the others: the tests have more ranks
/// than cores. On ranks that are no devices, by each of them. The messages are not counted.
inline std::vector<cleave::host_array> evaluated(const cleave::grid& grid, const cleave::graph& g,
                                                 const cleave::sizes& at, const std::vector<cleave::host_array>& in) {
  if (!grid.active() || grid.rank() == 0) {
    std::vector<cleave::host_array> all = evaluate(g, at, in);
    if (grid.active())
      for (cleave::host_array& x : all)
        PMPI_Bcast(x.data.data(), static_cast<int>(x.data.size()), MPI_DOUBLE, 0, grid.comm());
    return all;
  }
  std::vector<cleave::host_array> all;
  for (const cleave::tensor_type& type : g.output_types) {
    all.emplace_back(cleave::shape_of(type, at));
    PMPI_Bcast(all.back().data.data(), static_cast<int>(all.back().data.size()), MPI_DOUBLE, 0, grid.comm());
  }
  return all;
}

} // namespace support
