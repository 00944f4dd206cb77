// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_hand_sparse.hpp"

#include <KokkosSparse_CrsMatrix.hpp>
#include <KokkosSparse_spmv.hpp>

#include <algorithm>
#include <map>

namespace by_hand {

struct sparse_product::local_matrix {
  using crs = KokkosSparse::CrsMatrix<double, int, Kokkos::DefaultExecutionSpace, void, int>;
  crs all;
};

sparse_product::sparse_product(MPI_Comm comm, std::int64_t n, const std::vector<int>& begins,
                               const std::vector<std::int64_t>& columns, const std::vector<double>& values)
    : comm_(comm) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const std::int64_t block = (n + ranks - 1) / ranks, first = std::min(n, rank * block),
                     own = std::min(n, first + block) - first;
  // What others have, in the order of its indices, so that what comes from one rank lies in one piece.
  std::map<std::int64_t, int> place;
  for (std::int64_t c : columns)
    if (c < first || c >= first + own) place.emplace(c, 0);
  std::vector<int> asked(static_cast<std::size_t>(ranks), 0), answered(asked);
  std::vector<std::int64_t> wanted;
  for (auto& [column, at] : place) {
    at = static_cast<int>(own + static_cast<std::int64_t>(wanted.size()));
    wanted.push_back(column);
    ++asked[static_cast<std::size_t>(column / block)];
  }
  MPI_Alltoall(asked.data(), 1, MPI_INT, answered.data(), 1, MPI_INT, comm);
  std::vector<int> asked_at(asked.size(), 0), answered_at(asked.size(), 0);
  int sent = 0, received = 0;
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    asked_at[i] = received;
    answered_at[i] = sent;
    if (asked[i] != 0) from_.push_back({r, asked[i], own + received});
    if (answered[i] != 0) to_.push_back({r, answered[i], sent});
    received += asked[i];
    sent += answered[i];
  }
  std::vector<std::int64_t> named(static_cast<std::size_t>(sent));
  MPI_Alltoallv(wanted.data(), asked.data(), asked_at.data(), MPI_INT64_T, named.data(), answered.data(),
                answered_at.data(), MPI_INT64_T, comm);
  packed_ = Kokkos::View<int*>("packed", named.size());
  send_ = Kokkos::View<double*>("sent", named.size());
  for (std::size_t i = 0; i < named.size(); ++i) packed_(i) = static_cast<int>(named[i] - first);
  requests_.resize(from_.size() + to_.size());

  x = Kokkos::View<double*>("x", static_cast<std::size_t>(own) + wanted.size());
  y = Kokkos::View<double*>("y", static_cast<std::size_t>(own));
  Kokkos::View<int*> rows("rows", begins.size()), local("columns", columns.size());
  Kokkos::View<double*> entries("entries", values.size());
  for (std::size_t i = 0; i < begins.size(); ++i) rows(i) = begins[i];
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::int64_t c = columns[i];
    local(i) = c >= first && c < first + own ? static_cast<int>(c - first) : place.at(c);
    entries(i) = values[i];
  }
  matrix_ = std::make_unique<local_matrix>(local_matrix{
      {"A", static_cast<int>(own), static_cast<int>(x.size()), static_cast<int>(values.size()), entries, rows, local}});
}
sparse_product::~sparse_product() = default;

void sparse_product::run() {
  std::size_t request = 0;
  for (const peer& p : from_)
    MPI_Irecv(x.data() + p.first, p.count, MPI_DOUBLE, p.rank, 0, comm_, &requests_[request++]);
  const auto list = packed_;
  const auto from = x, to = send_;
  Kokkos::parallel_for(
      "pack", Kokkos::RangePolicy<>(0, static_cast<int>(list.size())), KOKKOS_LAMBDA(int i) { to(i) = from(list(i)); });
  Kokkos::fence();
  for (const peer& p : to_)
    MPI_Isend(send_.data() + p.first, p.count, MPI_DOUBLE, p.rank, 0, comm_, &requests_[request++]);
  MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  KokkosSparse::spmv("N", 1.0, matrix_->all, x, 0.0, y);
  Kokkos::fence();
}

} // namespace by_hand
