// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products that go on together with a collective, on a network on which the collective takes as long as the product
// computes: the share of the communication that is hidden behind the product. The network is one that
// tests/network/network.hpp makes of this machine.
//
//   mpirun -n 2 overlap_time RESULTS.jsonl [seconds for each measurement [a part of the names]]
#include "../tests/network/network.hpp"
#include "measure.hpp"

#include <cleave/cleave.hpp>

#include <cmath>

namespace {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"deep"> deep;

using result = cleave::tensor<float, mesh(row / line, col)>;
using rows = cleave::tensor<float, mesh(row / line, deep)>;
using columns = cleave::tensor<float, mesh(row, deep / line)>;
using weights = cleave::tensor<float, mesh(deep / line, col)>;

constexpr cleave::function product([](auto a, auto b) { return dot(a, b, deep); });

/// A product on a grid of its own, so that it is bound with the pieces that are asked for.
template <class Left>
class bound {
 public:
  bound(MPI_Comm comm, int ranks, std::int64_t n, bool in_pieces) {
    const std::int64_t least = cleave::comm::least_piece();
    if (!in_pieces) cleave::comm::least_piece() = std::int64_t{1} << 50;
    const cleave::grid grid(mesh, comm, {ranks});
    a_ = Left(grid, {n, n});
    b_ = weights(grid, {n, n});
    r_ = result(grid, {n, n});
    const auto some = [](const auto& at) { return std::sin(static_cast<double>(at[0] + 2 * at[1])); };
    a_.fill_by(some);
    b_.fill_by(some);
    (*this)();
    cleave::comm::least_piece() = least;
  }
  void operator()() { r_ = product(a_, b_); }
  std::vector<float> values() const {
    const auto all = r_.to_global();
    return {all.begin(), all.end()};
  }

 private:
  Left a_{};
  weights b_{};
  result r_{};
};

template <class Left>
void measure_hidden(const measure::task& with, const char* what, std::int64_t n) {
  const std::string name = std::string(what) + " hidden behind a product, " + std::to_string(n) + "^3, float, " +
                           std::to_string(with.ranks) + " ranks";
  if (name.find(with.only) == std::string::npos) return;
  network::simulated() = {};
  bound<Left> apart(with.comm, with.ranks, n, false), together(with.comm, with.ranks, n, true);
  const auto theirs = apart.values(), ours = together.values();
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (std::abs(ours[i] - theirs[i]) > 1e-3 * (1 + std::abs(theirs[i])))
      throw std::runtime_error("the two programs differ");
  // The product alone, and the network that is as slow.
  const double compute = measure::compare(with.comm, 1, with.seconds, [&] { apart(); }, [] {}).ours;
  const double bytes = static_cast<double>(n * n) * sizeof(float) * (with.ranks - 1) / with.ranks;
  network::simulated() = {10e-6, bytes / compute};
  const measure::timing t = measure::compare(with.comm, 1, with.seconds, [&] { together(); }, [&] { apart(); });
  network::simulated() = {};
  with.out.share(name, t, compute, 0.8);
}

void measure_all(const measure::task& with) {
  if (with.ranks == 1) return;
  cleave::comm::transport_mode() = cleave::comm::transport::mpi;
  for (std::int64_t n : {1536, 3072}) {
    measure_hidden<rows>(with, "all-gather", n);
    measure_hidden<columns>(with, "reduce-scatter", n);
  }
}

} // namespace

int main(int argc, char** argv) { return measure::run(argc, argv, 3.0, measure_all); }
