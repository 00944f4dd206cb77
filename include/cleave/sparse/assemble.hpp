// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/grid.hpp>
#include <cleave/layout/blocks.hpp>
#include <cleave/shards.hpp>
#include <cleave/sparse/errors.hpp>
#include <cleave/sparse/matrix.hpp>

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <span>
#include <vector>

namespace cleave { inline namespace v0 { namespace sparse {

/// An entry of a matrix. Rows and columns count from 0.
template <class T>
struct triplet {
  /// Its place in the whole matrix.
  std::int64_t row, column;
  /// Its number.
  T value;
};

namespace detail {

template <class Matrix>
struct parts_of;
template <class N, class Values, class... Fields>
struct parts_of<matrix<N, Values, Fields...>> {
  using names = N;
  using element = typename Values::element_type;
  using transposed = csr<element, typename N::mesh_type{}(typename N::columns{} / typename N::axis{}),
                         typename N::rows{}, typename N::by>;
};

/// A number of elements as MPI takes it. Throws shape_error if there are too many.
inline int count_of(std::int64_t n) {
  if (n > INT_MAX) raise<shape_error>(wording::too_many_for_one_call(INT_MAX, n));
  return as_int(n);
}

/// Elements of any type that ranks send to each other. A count or memory that is too large is an error on all ranks of
/// `all`, which make the same calls: shape_error or memory_error.
template <class T>
class messages_of {
 public:
  messages_of(MPI_Comm comm, MPI_Comm all) : comm_(comm), all_(all) {
    MPI_Comm_size(comm, &ranks_);
    comm::check(MPI_Type_contiguous(sizeof(T), MPI_BYTE, &type_), "MPI_Type_contiguous");
    comm::check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  messages_of(const messages_of&) = delete;
  messages_of& operator=(const messages_of&) = delete;
  ~messages_of() { MPI_Type_free(&type_); }

  /// The elements that all ranks send to this one, in the order of the ranks. `received` becomes the numbers.
  std::vector<T> exchange(std::span<const T> elements, const std::vector<std::int64_t>& sent,
                          std::vector<std::int64_t>& received) const {
    received.assign(as_size(ranks_), 0);
    comm::check(MPI_Alltoall(sent.data(), 1, MPI_INT64_T, received.data(), 1, MPI_INT64_T, comm_), "MPI_Alltoall");
    const sizes to = sizes_of(sent), from = sizes_of(received);
    std::vector<T> got = room_for(std::max(to.all, from.all), from.all);
    comm::check(MPI_Alltoallv(elements.data(), to.count.data(), to.begin.data(), type_, got.data(), from.count.data(),
                              from.begin.data(), type_, comm_),
                "MPI_Alltoallv");
    return got;
  }
  /// The elements of all ranks, in their order.
  std::vector<T> gather(std::span<const T> mine) const {
    const std::int64_t count = std::ssize(mine);
    std::vector<std::int64_t> counts(as_size(ranks_));
    comm::check(MPI_Allgather(&count, 1, MPI_INT64_T, counts.data(), 1, MPI_INT64_T, comm_), "MPI_Allgather");
    const sizes from = sizes_of(counts);
    std::vector<T> got = room_for(from.all, from.all);
    comm::check(MPI_Allgatherv(mine.data(), static_cast<int>(count), type_, got.data(), from.count.data(),
                               from.begin.data(), type_, comm_),
                "MPI_Allgatherv");
    return got;
  }

 private:
  /// Numbers of elements by rank, and where they begin, as MPI takes them if all of them together fit.
  struct sizes {
    std::vector<int> count{}, begin{};
    std::int64_t all = 0;
  };
  static sizes sizes_of(const std::vector<std::int64_t>& counts) {
    sizes made;
    for (const std::int64_t n : counts) {
      made.count.push_back(static_cast<int>(n));
      made.begin.push_back(static_cast<int>(made.all));
      made.all += n;
    }
    return made;
  }
  std::vector<T> room_for(std::int64_t counted, std::int64_t elements) const {
    std::int64_t most = counted;
    comm::check(MPI_Allreduce(&counted, &most, 1, MPI_INT64_T, MPI_MAX, all_), "MPI_Allreduce");
    if (most > INT_MAX) raise<shape_error>(wording::too_many_for_one_call(INT_MAX, most));
    std::vector<T> made;
    comm::allocate_on_all(all_, [&] { made.resize(as_size(elements)); });
    return made;
  }

  MPI_Comm comm_, all_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  int ranks_ = 1;
};

/// The devices with the same rows: a matrix is replicated over the other axes.
class replicas {
 public:
  replicas(const grid& g, std::int64_t part) {
    comm::check(MPI_Comm_split(g.comm(), comm::rank_number(part), g.rank(), &comm_), "MPI_Comm_split");
    MPI_Comm_rank(comm_, &rank_);
  }
  replicas(const replicas&) = delete;
  replicas& operator=(const replicas&) = delete;
  ~replicas() { MPI_Comm_free(&comm_); }
  MPI_Comm comm() const { return comm_; }
  bool first() const { return rank_ == 0; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
};

/// The first triplet outside of the matrix, on the first rank that has one: an error of all ranks.
template <class T>
void check_places(const grid& g, std::int64_t rows, std::int64_t columns, std::span<const triplet<T>> mine) {
  std::int64_t place[2]{};
  int here = INT_MAX, first = INT_MAX;
  for (std::size_t i = mine.size(); i-- > 0;)
    if (mine[i].row < 0 || mine[i].row >= rows || mine[i].column < 0 || mine[i].column >= columns) {
      place[0] = mine[i].row;
      place[1] = mine[i].column;
      here = g.rank();
    }
  comm::check(MPI_Allreduce(&here, &first, 1, MPI_INT, MPI_MIN, g.comm()), "MPI_Allreduce");
  if (first == INT_MAX) return;
  comm::check(MPI_Bcast(place, 2, MPI_INT64_T, first, g.comm()), "MPI_Bcast");
  raise<shape_error>(wording::triplet_outside(place[0], place[1], rows, columns));
}

/// The blocks of a dim of a matrix. Throws on all ranks where it cannot have this extent over so many devices.
inline dim_blocks blocks_over(const grid& g, const dim_ref& dim, std::int64_t extent, std::int64_t parts) {
  check_extent(dim, extent, parts, g.state());
  return {extent, g.state().blocks_of(dim, extent)};
}

/// The triplets of the own rows in order, duplicates added up in the order in which they were given.
template <class T>
std::vector<triplet<T>> own_triplets(const grid& g, MPI_Comm along, const replicas& same, const dim_blocks& rows,
                                     std::span<const triplet<T>> mine) {
  std::vector<triplet<T>> sorted = messages_of<triplet<T>>(same.comm(), g.comm()).gather(mine);
  int parts = 1;
  MPI_Comm_size(along, &parts);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return a.row < b.row; });
  std::vector<std::int64_t> sent(as_size(parts)), received;
  for (const triplet<T>& t : sorted) ++sent[as_size(rows.owner(parts, t.row))];
  std::vector<triplet<T>> all = messages_of<triplet<T>>(along, g.comm()).exchange(sorted, sent, received);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.row != b.row ? a.row < b.row : a.column < b.column; });
  std::size_t sums = 0;
  for (const triplet<T>& t : all)
    if (sums > 0 && all[sums - 1].row == t.row && all[sums - 1].column == t.column) all[sums - 1].value += t.value;
    else all[sums++] = t;
  all.resize(sums);
  return all;
}

/// The largest of each number over all devices.
inline void largest(const grid& g, std::span<std::int64_t> numbers) {
  comm::check(MPI_Allreduce(MPI_IN_PLACE, numbers.data(), count_of(std::ssize(numbers)), MPI_INT64_T, MPI_MAX,
                            g.comm()),
              "MPI_Allreduce");
}

/// A tensor that is one row for each device, from the row of this one.
template <class Tensor, class Row>
Tensor per_device(const grid& g, std::int64_t parts, std::int64_t most, const Row& row) {
  using element = typename Tensor::element_type;
  Tensor made(g, {parts, most});
  made.fill_by([&](const auto& at) {
    const std::size_t i = as_size(at[1]);
    return i < row.size() ? static_cast<element>(row[i]) : element{};
  });
  return made;
}
template <class View>
auto on_host(const View& v) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, v);
}

} // namespace detail

/// A sparse matrix from triplets: `assemble<Matrix>(grid, rows, columns, triplets)`. Triplets may be given on any rank,
/// in any order, and are sent to the devices that own their rows. Triplets of one place are added up. `Matrix` is a
/// `csr<...>`. Each device has its rows, finds the columns of others that they read, and tells the owners, once.
///
/// Collective over the communicator of the grid, all of whose ranks are devices. Throws shape_error on all ranks if the
/// numbers of rows and columns are no extents, if a triplet lies outside of the matrix or one rank has or receives more
/// than 2^31 - 1 of them, and memory_error.
template <class Matrix, class T = typename detail::parts_of<Matrix>::element>
Matrix assemble(const grid& g, std::int64_t rows, std::int64_t columns, std::span<const triplet<T>> triplets) {
  using names = typename detail::parts_of<Matrix>::names;
  const local_context context(g.state());
  const typename names::axis axis{};
  const MPI_Comm along = context.comm(axis);
  const std::int64_t parts = context.size(axis), here = context.index(axis);
  const dim_blocks by_row = detail::blocks_over(g, names::rows::ref, rows, parts),
                   by_column = detail::blocks_over(g, names::columns::ref, columns, parts);
  if (std::max(rows, columns) > INT64_MAX / 16) raise<shape_error>(cleave::wording::too_many_bytes());
  detail::check_places(g, rows, columns, triplets);
  const detail::replicas same(g, here);
  const std::vector<triplet<T>> own = detail::own_triplets(g, along, same, by_row, triplets);
  const range my_rows = by_row.block(parts, here), my_columns = by_column.block(parts, here);
  const auto is_mine = [&](std::int64_t c) { return c >= my_columns.begin && c < my_columns.end; };

  std::vector<std::int64_t> halo;
  comm::allocate_on_all(g.comm(), [&] {
    for (const auto& t : own)
      if (!is_mine(t.column)) halo.push_back(t.column);
  });
  std::sort(halo.begin(), halo.end());
  halo.erase(std::unique(halo.begin(), halo.end()), halo.end());
  std::vector<std::int64_t> asked(as_size(parts)), told;
  for (const std::int64_t c : halo) ++asked[as_size(by_column.owner(parts, c))];
  std::vector<std::int64_t> sent = detail::messages_of<std::int64_t>(along, g.comm()).exchange(halo, asked, told);
  for (std::int64_t& c : sent) c -= my_columns.begin;

  std::int64_t most[] = {std::ssize(own), std::ssize(halo), std::ssize(sent), my_columns.size() + std::ssize(halo)};
  detail::largest(g, most);
  if (most[3] > INT_MAX) raise<shape_error>(wording::too_many_columns(most[3]));
  std::vector<std::int64_t> ends, at_columns;
  std::vector<T> values;
  comm::allocate_on_all(g.comm(), [&] {
    ends.resize(as_size(my_rows.size()));
    at_columns.reserve(own.size());
    values.reserve(own.size());
  });
  for (const auto& t : own) {
    ++ends[as_size(t.row - my_rows.begin)];
    values.push_back(t.value);
    const auto place = std::lower_bound(halo.begin(), halo.end(), t.column) - halo.begin();
    at_columns.push_back(is_mine(t.column) ? t.column - my_columns.begin : my_columns.size() + place);
  }
  for (std::size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
  std::vector<std::int64_t> leaving(told.begin(), told.end());
  leaving.push_back(columns);

  Matrix a;
  a.ends = decltype(a.ends)(g, {rows});
  a.ends.fill_by([&](const auto& at) { return ends[as_size(at[0] - my_rows.begin)]; });
  a.columns = detail::per_device<decltype(a.columns)>(g, parts, most[0], at_columns);
  a.values = detail::per_device<decltype(a.values)>(g, parts, most[0], values);
  a.halo = detail::per_device<decltype(a.halo)>(g, parts, most[1], halo);
  a.receive_counts = detail::per_device<decltype(a.receive_counts)>(g, parts, parts, asked);
  a.sent = detail::per_device<decltype(a.sent)>(g, parts, most[2], sent);
  a.send_counts = detail::per_device<decltype(a.send_counts)>(g, parts, parts + 1, leaving);
  return a;
}
template <class Matrix, class T = typename detail::parts_of<Matrix>::element>
Matrix assemble(const grid& g, std::int64_t rows, std::int64_t columns, const std::vector<triplet<T>>& triplets) {
  return assemble<Matrix>(g, rows, columns, std::span<const triplet<T>>(triplets));
}

/// The entries of the rows of this device, by rows and columns, those of value 0 included. Each replica of the rows has
/// them. No communication.
template <class Names, class Values, class... Fields>
std::vector<triplet<typename Values::element_type>> triplets_of(const matrix<Names, Values, Fields...>& a) {
  const local_context context(a.values.get_grid().state());
  const auto ends = detail::on_host(a.ends.view());
  const auto columns = detail::on_host(a.columns.view());
  const auto values = detail::on_host(a.values.view());
  const auto halo = detail::on_host(a.halo.view());
  const auto counts = detail::on_host(a.send_counts.view());
  const std::int64_t parts = context.size(typename Names::axis{}), last = counts(0, counts.extent(1) - 1);
  const range own = detail::blocks_over(a.values.get_grid(), Names::columns::ref, last, parts)
                        .block(parts, context.index(typename Names::axis{}));
  std::vector<triplet<typename Values::element_type>> all;
  std::int64_t e = 0;
  for (std::size_t row = 0; row < ends.extent(0); ++row)
    for (; e < ends(row); ++e) {
      const std::int64_t c = columns(0, as_size(e));
      all.push_back({a.ends.offset()[0] + as_signed(row),
                     c < own.size() ? own.begin + c : halo(0, as_size(c - own.size())), values(0, as_size(e))});
    }
  return all;
}

/// The transpose as a matrix of its own, assembled once: `multiply(transposed(a), y)` is the transpose product. Its
/// rows are the columns of `a`, sharded over the same axis. Collective as `assemble`.
template <class Names, class Values, class... Fields>
auto transposed(const matrix<Names, Values, Fields...>& a) {
  using parts = detail::parts_of<matrix<Names, Values, Fields...>>;
  const grid& g = a.values.get_grid();
  const local_context context(g.state());
  std::vector<triplet<typename Values::element_type>> all;
  if (detail::replicas(g, context.index(typename Names::axis{})).first()) all = triplets_of(a);
  for (auto& t : all) std::swap(t.row, t.column);
  const auto counts = detail::on_host(a.send_counts.view());
  return assemble<typename parts::transposed>(g, counts(0, counts.extent(1) - 1), a.ends.extents()[0], all);
}

}}} // namespace cleave::v0::sparse
