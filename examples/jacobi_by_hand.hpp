// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A Jacobi sweep as codes with Kokkos and MPI have it: blocks with ghosts, rows sent as they are, columns packed.
#pragma once

#include <mpi.h>
#include <Kokkos_Core.hpp>

#include <array>
#include <cstdint>
#include <utility>

namespace by_hand {

using Block = Kokkos::View<double**, Kokkos::LayoutRight>;
using Column = Kokkos::View<double*>;
using Range = Kokkos::MDRangePolicy<Kokkos::Rank<2>, Kokkos::IndexType<std::int64_t>>;
using Line = Kokkos::RangePolicy<Kokkos::IndexType<std::int64_t>>;

/// The part of a process in rows x cols points over a grid of processes: blocks of ceil(n / processes).
struct Part {
  std::array<int, 2> processes, at;
  std::array<std::int64_t, 2> points, begin, extent;

  Part(std::array<std::int64_t, 2> all, std::array<int, 2> grid, int rank)
      : processes(grid), at{rank / grid[1], rank % grid[1]}, points(all) {
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t block = (points[d] + processes[d] - 1) / processes[d];
      begin[d] = std::min(at[d] * block, points[d]);
      extent[d] = std::min(begin[d] + block, points[d]) - begin[d];
    }
  }
  int neighbour(int dy, int dx) const {
    const int y = at[0] + dy, x = at[1] + dx;
    return y < 0 || x < 0 || y >= processes[0] || x >= processes[1] ? MPI_PROC_NULL : y * processes[1] + x;
  }
};

struct PackColumn {
  Block u;
  Column to;
  std::int64_t j;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { to(i) = u(i + 1, j); }
};
struct UnpackColumn {
  Column from;
  Block u;
  std::int64_t j;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { u(i + 1, j) = from(i); }
};
struct Mean {
  Block u, next;
  Kokkos::Array<std::int64_t, 2> begin, points;
  KOKKOS_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    const std::int64_t y = begin[0] + i - 1, x = begin[1] + j - 1;
    const bool border = y == 0 || x == 0 || y == points[0] - 1 || x == points[1] - 1;
    next(i, j) = border ? u(i, j) : 0.25 * (u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1));
  }
};

/// Sweeps of one block. Both Views have a ghost on each side.
class Jacobi {
 public:
  Jacobi(MPI_Comm comm, const Part& part) : comm_(comm), part_(part) {
    for (auto* column : {&send_[0], &send_[1], &receive_[0], &receive_[1]})
      *column = Column("column", static_cast<std::size_t>(part.extent[0]));
  }
  void sweep(const Block& u, const Block& next) {
    exchange(u);
    Kokkos::parallel_for("sweep", Range({1, 1}, {part_.extent[0] + 1, part_.extent[1] + 1}),
                         Mean{u, next, {part_.begin[0], part_.begin[1]}, {part_.points[0], part_.points[1]}});
  }

 private:
  void exchange(const Block& u) {
    const std::int64_t rows = part_.extent[0], cols = part_.extent[1];
    const std::array<int, 4> to{part_.neighbour(-1, 0), part_.neighbour(1, 0), part_.neighbour(0, -1),
                                part_.neighbour(0, 1)};
    const auto row = [&](std::int64_t i) { return &u(i, 1); };
    const std::array<double*, 4> into{row(0), row(rows + 1), receive_[0].data(), receive_[1].data()},
        from{row(1), row(rows), send_[0].data(), send_[1].data()};
    std::array<MPI_Request, 8> requests;
    for (std::size_t k = 0; k < 4; ++k)
      MPI_Irecv(into[k], static_cast<int>(k < 2 ? cols : rows), MPI_DOUBLE, to[k], static_cast<int>(k ^ 1), comm_,
                &requests[k]);
    Kokkos::parallel_for("pack", Line(0, rows), PackColumn{u, send_[0], 1});
    Kokkos::parallel_for("pack", Line(0, rows), PackColumn{u, send_[1], cols});
    Kokkos::fence();
    for (std::size_t k = 0; k < 4; ++k)
      MPI_Isend(from[k], static_cast<int>(k < 2 ? cols : rows), MPI_DOUBLE, to[k], static_cast<int>(k), comm_,
                &requests[4 + k]);
    MPI_Waitall(8, requests.data(), MPI_STATUSES_IGNORE);
    if (to[2] != MPI_PROC_NULL) Kokkos::parallel_for("unpack", Line(0, rows), UnpackColumn{receive_[0], u, 0});
    if (to[3] != MPI_PROC_NULL) Kokkos::parallel_for("unpack", Line(0, rows), UnpackColumn{receive_[1], u, cols + 1});
  }

  MPI_Comm comm_;
  Part part_;
  std::array<Column, 2> send_{}, receive_{};
};

} // namespace by_hand
