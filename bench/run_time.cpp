// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs of Cleave against the same by hand, both in this process.
//
//   mpirun -n 2 run_time RESULTS.jsonl [seconds for each measurement] [add, dot, digits or mlp: that alone]
#include "../examples/digits_model.hpp"
#include "by_hand.hpp"
#include "measure.hpp"
#include "mlp_model.hpp"

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace {

constexpr long mlp_batch = 1024, mlp_embed = 1024, mlp_hidden = 4096;
constexpr long digits_batch = 180, digits_hidden = 256;

/// A number for a global position, the same in both programs.
float number(long i, long j, float scale) {
  return scale * std::sin(static_cast<float>(i % 1009) * 0.7f + static_cast<float>(j) * 1.3f);
}

/// Fills a tensor and the hand-written program's shard of it alike.
template <class Tensor, class View>
void fill(const Tensor& t, const View& v, float scale) {
  t.fill_by([&](const auto& at) {
    return number(static_cast<long>(at[0]), Tensor::rank > 1 ? static_cast<long>(at[1 % Tensor::rank]) : 0, scale);
  });
  for (std::size_t i = 0; i < v.size(); ++i) v.data()[i] = t.data()[i];
}
/// Both programs must have computed the same, or their times say nothing.
template <class Tensor>
void expect_same(const Tensor& t, const float* theirs, const char* what) {
  double off = 0, size = 0;
  for (std::int64_t i = 0; i < t.local_size(); ++i) {
    off = std::max(off, std::fabs(static_cast<double>(t.data()[i]) - static_cast<double>(theirs[i])));
    size = std::max(size, std::fabs(static_cast<double>(theirs[i])));
  }
  if (!(off <= 1e-4 * size)) throw std::runtime_error(std::string("the two programs differ in ") + what);
}

void run_mlp(measure::results& out, MPI_Comm comm, int data, int model, double seconds) {
  const cleave::grid grid(mlp::mesh, comm, {data, model});
  mlp::Activations x(grid, {mlp_batch, mlp_embed}), wanted(grid, {mlp_batch, mlp_embed}),
      y(grid, {mlp_batch, mlp_embed});
  mlp::Weights w{{grid, {mlp_embed, mlp_hidden}}, {grid, {mlp_hidden, mlp_embed}}};
  mlp::Scalar loss(grid, {});
  const by_hand::ranks on(comm, data, model);
  by_hand::mlp hand(on, mlp_batch, mlp_embed, mlp_hidden);
  fill(x, hand.x, 1.0f);
  fill(wanted, hand.wanted, 0.5f);
  fill(w.up, hand.up, 0.03f);
  fill(w.down, hand.down, 0.02f);

  const auto forward = [&] { y = mlp::forward(w, x); };
  const float rate = 0.1f;
  const auto step = [&] { mlp::train(w, x, wanted, rate).into(w, loss); };
  forward();
  hand.forward();
  expect_same(y, hand.y.data(), "the output of the mlp");
  for (int i = 0; i < 2; ++i) step(), hand.step(rate);
  expect_same(w.up, hand.up.data(), "the weights of the mlp");
  expect_same(w.down, hand.down.data(), "the weights of the mlp");
  expect_same(loss, &hand.loss, "the loss of the mlp");

  const std::string mesh = " on " + std::to_string(data) + "x" + std::to_string(model);
  // Two products forward, and three backward: the inputs need no gradient.
  constexpr double flops = 2.0 * mlp_batch * mlp_embed * mlp_hidden;
  out.factor("mlp forward" + mesh, measure::compare(comm, 1, seconds, forward, [&] { hand.forward(); }), 1.03,
             measure::work::products(2 * flops));
  out.factor("mlp training step" + mesh, measure::compare(comm, 1, seconds, step, [&] { hand.step(rate); }), 1.03,
             measure::work::products(5 * flops));
}

void run_digits(measure::results& out, MPI_Comm comm, int data, int model, double seconds) {
  using types = digits::of<float>;
  const cleave::grid grid(digits::mesh, comm, {data, model});
  const auto made = [&] {
    return types::Weights{{grid, {64, digits_hidden}},
                          {grid, {digits_hidden}},
                          {grid, {digits_hidden, 10}},
                          {grid, {10}}};
  };
  types::Weights w = made(), momentum = made();
  types::Images images(grid, {digits_batch, 64});
  types::Labels labels(grid, {digits_batch});
  types::Scalar loss(grid, {});
  const by_hand::ranks on(comm, data, model);
  by_hand::digits hand(on, digits_batch, digits_hidden);
  fill(images, hand.images, 1.0f);
  fill(w.up, hand.up, 0.1f);
  fill(w.down, hand.down, 0.1f);
  labels.fill_by([](const auto& at) { return static_cast<int>(at[0] % 10); });
  for (std::int64_t i = 0; i < labels.local_size(); ++i) hand.labels[static_cast<std::size_t>(i)] = labels.data()[i];

  const float rate = 0.01f;
  const auto step = [&] { types::train(w, momentum, images, labels, rate).into(w, momentum, loss); };
  for (int i = 0; i < 5; ++i) step(), hand.step(rate);
  expect_same(w.up, hand.up.data(), "the weights of the digits");
  expect_same(w.down, hand.down.data(), "the weights of the digits");
  expect_same(loss, &hand.loss, "the loss of the digits");

  const std::string mesh = " on " + std::to_string(data) + "x" + std::to_string(model);
  out.factor("digits training step" + mesh, measure::compare(comm, 10, seconds, step, [&] { hand.step(rate); }), 1.05);
}

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh row_of_ranks{line};
inline constexpr cleave::dim<"i"> di;
inline constexpr cleave::dim<"j"> dj;
inline constexpr cleave::dim<"k"> dk;

/// 64 x 64 on one rank: what is left is the cost of the call.
void run_add(measure::results& out, double seconds) {
  using Matrix = cleave::tensor<float, row_of_ranks(di, dj)>;
  const cleave::grid grid(row_of_ranks, MPI_COMM_SELF, {1});
  Matrix a(grid, {64, 64}), b(grid, {64, 64}), c(grid, {64, 64});
  const by_hand::matrix x("x", 64, 64), y("y", 64, 64), z("z", 64, 64);
  fill(a, x, 1.0f);
  fill(b, y, 0.5f);
  out.above("call: 64x64 add on 1 rank",
            measure::compare(
                MPI_COMM_SELF, 1000, seconds, [&] { c = a + b; },
                [&] { by_hand::add(x.data(), y.data(), z.data(), 64 * 64); }),
            1.0);
  expect_same(c, z.data(), "the sum");
}

/// 64 x 64, the contracted dim sharded.
void run_dot(measure::results& out, MPI_Comm comm, int ranks, double seconds) {
  using Left = cleave::tensor<float, row_of_ranks(di, dk / line)>;
  using Right = cleave::tensor<float, row_of_ranks(dk / line, dj)>;
  using Matrix = cleave::tensor<float, row_of_ranks(di, dj)>;
  const cleave::grid grid(row_of_ranks, comm, {ranks});
  Left a(grid, {64, 64});
  Right b(grid, {64, 64});
  Matrix c(grid, {64, 64});
  const auto mine = static_cast<std::size_t>(64 / ranks);
  const by_hand::matrix x("x", 64, mine), y("y", mine, 64), z("z", 64, 64);
  fill(a, x, 1.0f);
  fill(b, y, 0.5f);
  out.above("call: 64x64 dot with all-reduce on " + std::to_string(ranks) + " ranks",
            measure::compare(
                comm, 200, seconds, [&] { c = dot(a, b, dk); }, [&] { by_hand::dot_and_all_reduce(x, y, z, comm); }),
            1.0);
  expect_same(c, z.data(), "the product");
}

} // namespace

int main(int argc, char** argv) {
  return measure::run(argc, argv, 4, [](const measure::task& t) {
    const auto wanted = [&](const char* name) { return t.only.empty() || t.only == name; };
    if (t.ranks == 1 && wanted("add")) run_add(t.out, t.seconds / 4);
    if (t.ranks > 1 && wanted("dot")) run_dot(t.out, t.comm, t.ranks, t.seconds / 4);
    for (const auto& [data, model] : {std::pair{t.ranks, 1}, std::pair{1, t.ranks}}) {
      if (t.ranks > 1 && wanted("digits")) run_digits(t.out, t.comm, data, model, t.seconds);
      if (t.ranks > 1 && wanted("mlp")) run_mlp(t.out, t.comm, data, model, 4 * t.seconds);
    }
  });
}
