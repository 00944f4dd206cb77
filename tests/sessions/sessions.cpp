// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program with MPI sessions alone: MPI_Init is never called, and the communicator is made from a group of the
// session. It has the values that one device computes. With MPI_Init beside the session the same. Ends with 77 where
// MPI has no sessions.
#include <cleave/cleave.hpp>

#include <cstdio>
#include <string_view>
#include <vector>

#ifdef MPI_SESSION_NULL

namespace {

inline constexpr cleave::axis<"ranks"> over;
inline constexpr cleave::mesh mesh{over};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using Plane = cleave::tensor<double, mesh(row / over, col)>;
using Columns = cleave::tensor<double, mesh(row, col / over)>;
using Number = cleave::tensor<double, mesh()>;

constexpr cleave::function sweep([](auto u) {
  return 0.5 * (shift(u, row, 1) + shift(u, row, -1)) + shift(u, col, 1);
});
constexpr std::int64_t rows = 11, cols = 6;

/// Of whole numbers, so that every order of addition gives the same.
std::int64_t number_at(std::int64_t i, std::int64_t j) {
  return i < 0 || i >= rows || j < 0 || j >= cols ? 0 : 2 * ((7 * i + 3 * j) % 10);
}
int wrong(const char* what) {
  std::printf("wrong: %s\n", what);
  return 1;
}

/// Exchanges neighbours, reshards and reduces.
int values(MPI_Comm comm) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  const cleave::grid g(mesh, comm, {ranks});
  Plane u(g, {rows, cols});
  Columns turned(g, {rows, cols});
  Number total(g, {});
  u.fill_by([](const auto& at) { return number_at(at[0], at[1]); });
  u = sweep(u);
  turned = u;
  total = sum(turned * turned);
  const std::vector<double> all = turned.to_global();
  double want = 0;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) {
      const auto element = static_cast<double>((number_at(i - 1, j) + number_at(i + 1, j)) / 2 + number_at(i, j - 1));
      if (all[static_cast<std::size_t>(i * cols + j)] != element) return wrong("an element");
      want += element * element;
    }
  if (total.item() != want) return wrong("a sum");
  return 0;
}

/// From what a session calls the world.
int in_session() {
  MPI_Session session = MPI_SESSION_NULL;
  if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) return wrong("MPI_Session_init");
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "cleave.tests", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  MPI_Group_free(&group);
  const int result = values(comm);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
  return result;
}
int all() {
  int begun = 0;
  MPI_Initialized(&begun);
  if (begun != 0) return wrong("MPI_Initialized before MPI_Init");
  // One session: Open MPI 5.0 itself ends by a signal in a second one after the first one has ended.
  if (in_session() != 0) return 1;
  try {
    const cleave::grid none(mesh, MPI_COMM_WORLD, {1});
    return wrong("a grid on MPI_COMM_WORLD without MPI_Init");
  } catch (const cleave::environment_error&) {
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  int result = 0;
  if (argc > 1 && std::string_view(argv[1]) == "beside_init") {
    MPI_Init(&argc, &argv);
    result = in_session() != 0 || values(MPI_COMM_WORLD) != 0 ? 1 : 0;
    MPI_Finalize();
  } else {
    result = all();
  }
  return result;
}

#else

int main() {
  std::puts("This MPI has no sessions.");
  return 77;
}

#endif
