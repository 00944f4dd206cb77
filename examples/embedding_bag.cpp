// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bags of words, each the weighted sum of the rows that its words have in a table, learned by gradient descent from the
// sums that another table gives. The words of the table are sharded over one axis of the mesh and the bags over the
// other: rows are added up at the devices that have them, and the gradient of a row goes back there.
//
//   mpirun -n 4 embedding_bag [--words 1000] [--embed 16] [--bags 256] [--items 8] [--steps 200] [--mesh 2x2]
#include "options.hpp"

#include <cleave/cleave.hpp>

#include <cstdint>
#include <cstdio>

namespace bags {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"word"> word;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"bag"> bag;
inline constexpr cleave::dim<"item"> item;

using Table = cleave::tensor<float, mesh(word / model, embed)>;
using Words = cleave::tensor<int, mesh(bag / data, item)>;
using Weights = cleave::tensor<float, mesh(bag / data, item)>;
using Sums = cleave::tensor<float, mesh(bag / data, embed)>;
using Loss = cleave::tensor<float, mesh()>;

constexpr cleave::function sums([](auto table, auto words, auto weights) {
  return dot(gather(table, word, words), weights, item);
});
constexpr cleave::function loss([](auto table, auto words, auto weights, auto wanted) {
  const auto off = sums(table, words, weights) - wanted;
  return mean(sum(off * off, embed));
});
constexpr cleave::function step([](auto table, auto words, auto weights, auto wanted) {
  auto [value, slope] = cleave::value_and_grad(loss)(table, words, weights, wanted);
  return std::tuple(table - 4.0f * slope, value);
});
using Stepped = std::tuple<Table, Loss>;

// Each device adds up the rows that it has, and one all-reduce puts the sums together: no row moves, however long the
// table is.
constexpr auto plan = cleave::plan<Sums(Table, Words, Weights)>(sums);
static_assert(plan.count(cleave::kind::all_reduce) == 1 && plan.collectives() == 1);
static_assert(plan.bytes({word = 1 << 20, embed = 64, bag = 4096, item = 8, data = 4, model = 4}) ==
              2 * 3 * (4096 / 4 * 64 * 4) / 4);
// A step gathers nothing, and asks for no rows either.
constexpr auto step_plan = cleave::plan<Stepped(Table, Words, Weights, Sums)>(step);
static_assert(step_plan.count(cleave::kind::exchange) == 0 && step_plan.count(cleave::kind::all_gather) == 0);

constexpr std::string_view usage =
    "usage: embedding_bag [options]\n"
    "  --words N        rows of the table (1000)\n"
    "  --embed N        numbers of each (16)\n"
    "  --bags N         bags of words (256)\n"
    "  --items N        words of each (8)\n"
    "  --steps N        steps of gradient descent (200)\n"
    "  --mesh DxM       processes over the bags x over the words (as square as possible)\n";

int run(examples::options& given, int ranks, bool speaks) {
  const long words = given.number("--words", 1000L), width = given.number("--embed", 16L),
             count = given.number("--bags", 256L);
  const long items = given.number("--items", 8L), steps = given.number("--steps", 200L);
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  given.done();
  cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  if (speaks)
    std::printf("%ld words, %ld bags of %ld on %ld x %ld processes; the plan of a step:\n\n%s\n", words, count, items,
                sizes[0], sizes[1],
                explain(step_plan,
                        {word = words, embed = width, bag = count, item = items, data = sizes[0], model = sizes[1]})
                    .c_str());

  Table table(grid, {words, width}), truth(grid, {words, width});
  Words in(grid, {count, items});
  Weights weights(grid, {count, items});
  Sums wanted(grid, {count, width});
  Loss value(grid, {});
  truth.fill_by([&](const auto& at) { return static_cast<float>(2 * examples::noise(at[0] * width + at[1]) - 1); });
  table.fill_by([](const auto&) { return 0.0f; });
  // Few words are in most bags, as in a language.
  in.fill_by([&](const auto& at) {
    const double u = examples::noise(at[0] * items + at[1] + 7919);
    return static_cast<int>(u * u * u * static_cast<double>(words));
  });
  weights.fill_by([&](const auto&) { return 1.0f / static_cast<float>(items); });
  wanted = sums(truth, in, weights);

  double first = 0, last = 0;
  const double start = MPI_Wtime();
  for (long i = 0; i < steps; ++i) {
    step(table, in, weights, wanted).into(table, value);
    last = value.item();
    if (i == 0) first = last;
    if (speaks && (i % 50 == 0 || i + 1 == steps)) std::printf("step %4ld  loss %.6f\n", i, last);
  }
  const bool right = last < 0.8 * first;
  if (speaks)
    std::printf("%.1f microseconds a step; %s\n", 1e6 * (MPI_Wtime() - start) / static_cast<double>(steps),
                right ? "learned" : "WRONG");
  return right ? 0 : 1;
}

} // namespace bags

int main(int argc, char** argv) { return examples::run(argc, argv, bags::usage, bags::run); }
