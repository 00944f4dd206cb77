// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Particles put in the order of their keys, as space-filling curves and load balancing need it: keys are sorted along a
// sharded dim, and what belongs to them follows. Whatever the keys are, every process has as many particles after as
// before.
//
//   mpirun -n 4 distributed_sort [--particles 100000] [--equal]
#include "options.hpp"

#include <cleave/cleave.hpp>

#include <cstdint>
#include <cstdio>

namespace sorting {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ax};
inline constexpr cleave::dim<"particle"> particle;

using Keys = cleave::tensor<double, mesh(particle / ax)>;
using Masses = cleave::tensor<float, mesh(particle / ax)>;
using Flag = cleave::tensor<bool, mesh()>;
using Number = cleave::tensor<double, mesh()>;

// The keys in order, and the masses in the order of their keys, planned for many of them: of few keys, each device
// would sort all, which takes fewer collectives.
constexpr auto in_order = with(cleave::function([](auto keys, auto masses) {
                                 return std::tuple(sort(keys, particle),
                                                   take_along(masses, argsort(keys, particle), particle));
                               }),
                               cleave::expect<particle, (1 << 24)>{}, cleave::expect<ax, 64>{});
using Ordered = std::tuple<Keys, Masses>;

// Two sorts and a look-up, each one exchange in which a device moves a part of its elements; nobody gathers the keys.
constexpr auto plan = cleave::plan<Ordered(Keys, Masses)>(in_order);
static_assert(plan.count(cleave::kind::exchange) == 3 && plan.collectives() == 3);
constexpr cleave::function keys_alone([](auto keys) { return sort(keys, particle); });
static_assert(cleave::plan<Keys(Keys)>(keys_alone).bytes({particle = 1 << 24, ax = 64}) < (1 << 24) / 64 * 9);

// Whether no key is larger than the one after it, which may be on another process.
constexpr cleave::function rises([](auto keys) {
  return all(shift(keys, particle, -1, cleave::border::edge) >= keys);
});
constexpr cleave::function moment([](auto keys, auto masses) { return sum(keys * cast<double>(masses)); });

constexpr std::string_view usage =
    "usage: distributed_sort [options]\n"
    "  --particles N    how many (100000)\n"
    "  --equal          most keys are equal\n";

int run(examples::options& given, int ranks, bool speaks) {
  const long particles = given.number("--particles", 100000L);
  const bool equal = given.flag("--equal");
  given.done();
  cleave::grid grid(mesh, MPI_COMM_WORLD, {ranks});
  if (speaks)
    std::printf("%ld particles on %d processes; the plan:\n\n%s\n", particles, ranks,
                explain(plan, {particle = particles, ax = ranks}).c_str());

  Keys keys(grid, {particles}), ordered(grid, {particles});
  Masses masses(grid, {particles}), followed(grid, {particles});
  const auto key = [&](std::int64_t i) { return equal && i % 10 != 0 ? 0.5 : examples::noise(i); };
  keys.fill_by([&](const auto& at) { return key(at[0]); });
  masses.fill_by([&](const auto& at) { return static_cast<float>(1 + at[0] % 7); });
  in_order(keys, masses).into(ordered, followed);
  const double start = MPI_Wtime();
  in_order(keys, masses).into(ordered, followed);
  const double seconds = MPI_Wtime() - start;

  Flag risen(grid, {});
  Number before(grid, {}), after(grid, {});
  risen = rises(ordered);
  before = moment(keys, masses);
  after = moment(ordered, followed);
  // The same pairs, added in another order.
  const double difference = std::abs(before.item() - after.item()) / (1 + std::abs(before.item()));
  const bool right = risen.item() && difference < 1e-12;
  if (speaks)
    std::printf("%.1f million particles a second; %s\n", 1e-6 * static_cast<double>(particles) / seconds,
                right ? "in order" : "WRONG");
  return right ? 0 : 1;
}

} // namespace sorting

int main(int argc, char** argv) { return examples::run(argc, argv, sorting::usage, sorting::run); }
