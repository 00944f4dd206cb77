// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products that go on together with a collective, on a network on which the collective takes as long as the product
// computes: the share of the communication that is hidden behind the product. And a training step, whose gradients are
// reduced while those of the layers before them are computed. The network is one that tests/network/network.hpp makes
// of this machine.
//
//   mpirun -n 2 overlap_time RESULTS.jsonl [seconds for each measurement [a part of the names]]
#include "../tests/network/network.hpp"
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/stencil/advance.hpp>

#include <algorithm>
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

// A network of six layers of equal width, replicated: every device has a part of the batch.
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"even"> even;
inline constexpr cleave::dim<"odd"> odd;
using up = cleave::tensor<float, mesh(even, odd)>;
using down = cleave::tensor<float, mesh(odd, even)>;
using samples = cleave::tensor<float, mesh(batch / line, even)>;

constexpr cleave::function loss([](auto a, auto b, auto c, auto d, auto e, auto f, auto x) {
  const auto two = [](auto y, auto w, auto v) { return tanh(dot(tanh(dot(y, w, even)), v, odd)); };
  const auto y = two(two(two(x, a, b), c, d), e, f);
  return cleave::mean(y * y);
});
constexpr cleave::function train([](auto a, auto b, auto c, auto d, auto e, auto f, auto x) {
  const auto slopes = cleave::grad<0, 1, 2, 3, 4, 5>(loss)(a, b, c, d, e, f, x);
  const auto [da, db, dc, dd, de, df] = slopes;
  return std::tuple(a - 0.1 * da, b - 0.1 * db, c - 0.1 * dc, d - 0.1 * dd, e - 0.1 * de, f - 0.1 * df);
});
constexpr auto train_one_by_one = cleave::with(train, cleave::without_overlap{});

template <class Step>
class training {
 public:
  training(MPI_Comm comm, int ranks, std::int64_t n, const Step& step) : step_(step) {
    const cleave::grid grid(mesh, comm, {ranks});
    const auto some = [n](const auto& at) {
      return std::sin(static_cast<double>(3 * at[0] + 2 * at[1])) / std::sqrt(static_cast<double>(n));
    };
    for (up* w : {&a_, &c_, &e_}) *w = up(grid, {n, n}), w->fill_by(some);
    for (down* w : {&b_, &d_, &f_}) *w = down(grid, {n, n}), w->fill_by(some);
    x_ = samples(grid, {n * ranks, n});
    x_.fill_by([](const auto& at) { return std::sin(static_cast<double>(at[0] + 5 * at[1])); });
    (*this)();
  }
  void operator()() { step_(a_, b_, c_, d_, e_, f_, x_).into(a_, b_, c_, d_, e_, f_); }
  std::vector<float> values() const {
    const auto all = a_.to_global();
    return {all.begin(), all.end()};
  }

 private:
  const Step& step_;
  up a_{}, c_{}, e_{};
  down b_{}, d_{}, f_{};
  samples x_{};
};

/// On a network on which the gradients take as long as a half of the step computes.
void measure_training(const measure::task& with, std::int64_t n) {
  const std::string name = "gradients hidden behind a training step, 6 layers of " + std::to_string(n) + "^2, float, " +
                           std::to_string(with.ranks) + " ranks";
  if (name.find(with.only) == std::string::npos) return;
  network::simulated() = {};
  training apart(with.comm, with.ranks, n, train_one_by_one);
  training together(with.comm, with.ranks, n, train);
  const auto theirs = apart.values(), ours = together.values();
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (std::abs(ours[i] - theirs[i]) > 1e-3 * (1 + std::abs(theirs[i])))
      throw std::runtime_error("the two programs differ");
  const double communication = measure::compare(with.comm, 1, with.seconds, [&] { apart(); }, [] {}).ours / 2;
  const double bytes = 6.0 * static_cast<double>(n * n) * sizeof(float) * 2 * (with.ranks - 1) / with.ranks;
  network::simulated() = {10e-6, bytes / communication};
  const measure::timing t = measure::compare(with.comm, 1, with.seconds, [&] { together(); }, [&] { apart(); });
  network::simulated() = {};
  with.out.share(name, t, communication, 0.3);
}

// Sweeps over a plate, so many for one exchange of halos, beside an exchange for each sweep.
inline constexpr cleave::dim<"high"> high;
inline constexpr cleave::dim<"wide"> wide;
using plate = cleave::tensor<double, mesh(high / line, wide)>;

template <int Steps>
inline constexpr cleave::function sweeps([](auto u) {
  const auto sweep = [](auto v) { return 0.25 * (v(-1, 0) + v(1, 0) + v(0, -1) + v(0, 1)); };
  return cleave::stencil::advance<Steps>(sweep, cleave::stencil::star<1>(u, along(high, cleave::stencil::periodic),
                                                                         along(wide, cleave::stencil::periodic)));
});
template <int Steps>
void measure_sweeps(const measure::task& with, std::int64_t n, const char* where, double limit) {
  const std::string name = std::to_string(Steps) + " sweeps of " + std::to_string(n) + "^2 for one exchange " + where;
  if (name.find(with.only) == std::string::npos) return;
  const cleave::grid grid(mesh, with.comm, {with.ranks});
  plate start(grid, {n, n}), u(grid, {n, n}), v(grid, {n, n}), w(grid, {n, n});
  start.fill_by([](const auto& at) { return std::sin(static_cast<double>(at[0] + 2 * at[1])); });
  const auto single = [&] {
    for (int k = 0; k < Steps; k += 2) {
      v = sweeps<1>(k == 0 ? start : u);
      u = sweeps<1>(v);
    }
  };
  const auto together = [&] { w = sweeps<Steps>(start); };
  single();
  together();
  const auto theirs = u.to_global(), ours = w.to_global();
  if (!std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end()))
    throw std::runtime_error("the two programs differ");
  with.out.growth(name, measure::compare(with.comm, 1, with.seconds, together, single), limit, "an exchange for each");
}
void measure_sweeps_of(const measure::task& with, std::int64_t n, const char* where, double limit) {
  measure_sweeps<2>(with, n, where, limit);
  measure_sweeps<4>(with, n, where, limit);
  measure_sweeps<8>(with, n, where, limit);
}

void measure_all(const measure::task& with) {
  if (with.ranks == 1) return;
  for (std::int64_t n : {64, 512, 2048}) measure_sweeps_of(with, n, "through shared memory", 1.25);
  cleave::comm::transport_mode() = cleave::comm::transport::mpi;
  for (std::int64_t n : {1536, 3072}) {
    measure_hidden<rows>(with, "all-gather", n);
    measure_hidden<columns>(with, "reduce-scatter", n);
  }
  for (std::int64_t n : {512, 1024}) measure_training(with, n);
  network::simulated() = {100e-6, 1e9};
  for (std::int64_t n : {64, 512, 2048})
    measure_sweeps_of(with, n, "with messages that take 0.1 ms", n < 2048 ? 0.8 : 1.15);
  network::simulated() = {};
}

} // namespace

int main(int argc, char** argv) { return measure::run(argc, argv, 3.0, measure_all); }
