// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../network/network.hpp"
#include "support.hpp"

#include <cleave/comm/messages.hpp>

#include <gtest/gtest.h>

// The slow network of the tests: messages and collectives take the time that it says, whenever they were posted, and
// bring what they bring.

namespace CLEAVE_SOURCE {

/// While one lives, the network is slow, on all ranks.
struct slow_network {
  slow_network(double latency, double bandwidth) {
    MPI_Barrier(MPI_COMM_WORLD);
    network::simulated() = {latency, bandwidth};
  }
  ~slow_network() {
    MPI_Barrier(MPI_COMM_WORLD);
    network::simulated() = {};
  }
};

void neighbours(int bytes, int repeated, double least) {
  const int n = support::ranks(), next = (support::rank() + 1) % n, before = (support::rank() + n - 1) % n;
  const auto length = static_cast<std::size_t>(bytes);
  std::vector<std::vector<char>> in(static_cast<std::size_t>(repeated), std::vector<char>(length)), out = in;
  for (std::size_t i = 0; i < out.size(); ++i) out[i].assign(length, static_cast<char>(support::rank() + 3 * i));
  std::vector<MPI_Request> open(2 * out.size());
  // Receives are posted long before the messages leave, and still are not early.
  for (std::size_t i = 0; i < in.size(); ++i)
    MPI_Irecv(in[i].data(), bytes, MPI_CHAR, before, 1, MPI_COMM_WORLD, &open[i]);
  // No message leaves before all ranks are here.
  const double start = MPI_Wtime();
  MPI_Barrier(MPI_COMM_WORLD);
  for (std::size_t i = 0; i < in.size(); ++i)
    MPI_Isend(out[i].data(), bytes, MPI_CHAR, next, 1, MPI_COMM_WORLD, &open[in.size() + i]);
  int done = 0;
  MPI_Testall(repeated, open.data(), &done, MPI_STATUSES_IGNORE);
  EXPECT_TRUE(done == 0 || MPI_Wtime() - start >= least);
  MPI_Waitall(static_cast<int>(open.size()), open.data(), MPI_STATUSES_IGNORE);
  EXPECT_GE(MPI_Wtime() - start, least);
  for (std::size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], std::vector<char>(length, static_cast<char>(before + 3 * static_cast<int>(i))));
}

TEST(network, delays_messages) {
  const slow_network slow(4e-3, 1e8);
  neighbours(16, 1, 4e-3);
  // Those of a rank leave one after the other.
  neighbours(200000, 3, 4e-3 + 6e-3);
}

TEST(network, delays_collectives) {
  const slow_network slow(2e-3, 1e8);
  const int n = support::ranks();
  std::vector<char> mine(100000, static_cast<char>(support::rank())), all(mine.size() * static_cast<std::size_t>(n));
  const double start = MPI_Wtime();
  MPI_Allgather(mine.data(), 100000, MPI_CHAR, all.data(), 100000, MPI_CHAR, MPI_COMM_WORLD);
  EXPECT_GE(MPI_Wtime() - start, n > 1 ? 2e-3 + (n - 1) * 1e-3 : 0);
  for (int r = 0; r < n; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r) * mine.size()], static_cast<char>(r));
}

} // namespace CLEAVE_SOURCE
