// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../mpi/check_function.hpp"

// The fenced space itself: what it must notice, and that the library's kernels run in it.

namespace {

inline constexpr cleave::axis<"a"> a;
inline constexpr cleave::mesh line{a};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using matrix = cleave::tensor<double, line(row / a, col)>;

struct doubled {
  double* x;
  void operator()(std::int64_t i) const { x[i] *= 2; }
};

} // namespace

/// Named, for the report of the fault.
[[gnu::noinline]] double stray_read(const double* x) { return x[0]; }
[[gnu::noinline]] void stray_write(double* x) { x[0] = 1; }

namespace {

TEST(fenced, is_no_host) {
  EXPECT_FALSE(cleave::on_host);
  EXPECT_EQ(cleave::comm::staged(), std::getenv("CLEAVE_GPU_AWARE_MPI") == nullptr);
  const cleave::grid g(line, MPI_COMM_WORLD, {support::ranks()});
  matrix x(g, {4 * support::ranks(), 3});
  EXPECT_TRUE(fenced::arena::holds(x.data()));
  const std::size_t before = fenced::queue::kernels();
  matrix y(g, {4 * support::ranks(), 3});
  y = x + 1;
  cleave::wait_for_kernels();
  EXPECT_GT(fenced::queue::kernels(), before);
  EXPECT_EQ(y.to_global(), std::vector<double>(static_cast<std::size_t>(12 * support::ranks()), 1));
}

/// The host may not touch a tensor, also when it just did so lawfully.
TEST(fenced, a_stray_access_is_caught) {
  const cleave::grid g(line, MPI_COMM_WORLD, {support::ranks()});
  matrix x(g, {4 * support::ranks(), 3});
  support::fill(x, 0);
  x.to_global();
  EXPECT_DEATH(stray_read(x.data()), "fenced: the host touches memory of the device[^$]*stray_read");
  EXPECT_DEATH(stray_write(x.data()), "fenced: the host touches memory of the device[^$]*stray_write");
  // A kernel may.
  cleave::launch("doubled", 12, doubled{x.data()});
  cleave::wait_for_kernels();
}

/// Who does not wait for a kernel sees what was there before.
TEST(fenced, kernels_run_when_they_are_waited_for) {
  const support::on_device<double> x(std::vector<double>(3, 1));
  cleave::launch("doubled", 3, doubled{x.data()});
  {
    const fenced::arena::opened open;
    EXPECT_EQ(x.data()[0], 1);
  }
  cleave::wait_for_kernels();
  {
    const fenced::arena::opened open;
    EXPECT_EQ(x.data()[2], 2);
  }
  cleave::launch("doubled", 3, doubled{x.data()});
  EXPECT_EQ(x.read(), std::vector<double>(3, 4)); // a copy waits
}

TEST(fenced, memory_is_given_back) {
  const std::size_t before = fenced::arena::allocated();
  {
    const auto first = cleave::allocate(1000), second = cleave::allocate(5000);
    EXPECT_EQ(fenced::arena::allocated(), before + 1000 + 5000 + 2 * 128 + 24 + 56);
    EXPECT_THROW(cleave::allocate(std::int64_t{1} << 40), cleave::memory_error);
  }
  EXPECT_EQ(fenced::arena::allocated(), before);
}

} // namespace
