// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Several threads of each process, each with a communicator, a grid and an instance of an execution space of its own,
// run the same calls at the same time. All get the bits that one thread gets alone. Ends with 77 where MPI does not
// allow calls from several threads.
#include <cleave/cleave.hpp>
#include <cleave/tensor/on_instance.hpp>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

namespace {

inline constexpr cleave::axis<"ranks"> over;
inline constexpr cleave::mesh mesh{over};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"item"> item;
using Plane = cleave::tensor<double, mesh(row / over, col)>;
using Columns = cleave::tensor<double, mesh(row, col / over)>;
using Indices = cleave::tensor<std::int32_t, mesh(item / over)>;
using Number = cleave::tensor<double, mesh()>;
using Picked = cleave::tensor<double, mesh(item / over, col)>;

constexpr cleave::function sweep([](auto u) {
  return 0.25 * (shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) + shift(u, col, -1));
});
constexpr cleave::function settle([](auto u, auto rate) {
  return cleave::repeat_times(5, u, [&](auto v) { return v + rate * (sweep(v) - v); });
});
constexpr cleave::function spread([](auto u) { return sqrt(sum(u * u)); });

/// Calls that exchange neighbours, reduce, reshard, sort and look rows up, again and again.
std::vector<double> values(MPI_Comm comm, int ranks, int seed) {
  const cleave::grid g(mesh, comm, {ranks});
  Plane u(g, {53, 31});
  Columns c(g, {53, 31});
  Indices at(g, {40});
  Picked rows(g, {40, 31});
  Number n(g, {});
  u.fill_by([seed](const auto& i) { return std::sin(static_cast<double>((3 + seed) * i[0] + 7 * i[1])); });
  at.fill_by([](const auto& i) { return static_cast<std::int32_t>(17 * i[0] % 53); });
  double size = 0;
  for (int step = 0; step < 30; ++step) {
    u = settle(u, 0.5);
    c = sort(u, row);
    u = u + 0.01 * c;
    rows = cleave::gather(u, row, at);
    n = spread(rows);
    size += n.item();
    // Plans, workspaces and grids come and go in one thread while others run.
    if (step % 10 == 9) {
      const cleave::grid again(mesh, comm, {ranks});
      Plane v(again, {step + 3, 5});
      Number m(again, {});
      v.fill(1);
      m = spread(v);
      size += m.item();
    }
  }
  std::vector<double> all = u.to_global();
  all.push_back(size);
  return all;
}

/// On the host each thread runs its own kernels; on a device it has a stream.
template <std::size_t Count>
auto own_instances() {
#ifdef KOKKOS_ENABLE_SERIAL
  if constexpr (cleave::on_host) {
    std::vector<Kokkos::Serial> all;
    for (std::size_t i = 0; i < Count; ++i) all.emplace_back(Kokkos::NewInstance());
    return all;
  } else
#endif
    return Kokkos::Experimental::partition_space(Kokkos::DefaultExecutionSpace(), std::vector<int>(Count, 1));
}

int run(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  constexpr int threads = 3;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm comms[threads];
  for (MPI_Comm& c : comms) MPI_Comm_dup(MPI_COMM_WORLD, &c);
  std::vector<double> alone[threads];
  for (int t = 0; t < threads; ++t) alone[t] = values(comms[t], ranks, t);
  const auto instances = own_instances<threads>();
  std::atomic<int> wrong{0};
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      try {
        const cleave::on_instance here(instances[static_cast<std::size_t>(t)]);
        if (values(comms[t], ranks, t) != alone[t]) {
          std::printf("rank %d: thread %d has other values\n", rank, t);
          ++wrong;
        }
      } catch (const std::exception& e) {
        std::printf("rank %d: thread %d: %s\n", rank, t, e.what());
        ++wrong;
      }
    });
  for (std::thread& t : team) t.join();
  for (MPI_Comm& c : comms) MPI_Comm_free(&c);
  return wrong == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int result = provided == MPI_THREAD_MULTIPLE ? run(argc, argv) : 77;
  MPI_Finalize();
  return result;
}
