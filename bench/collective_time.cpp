// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The collectives of plans against calls of MPI by hand, both in this process, with the time that writing the operand
// takes. Sizes are bytes of each rank's operand.
//
//   mpirun -n 2 collective_time RESULTS.jsonl [seconds for each measurement [a part of the names]]
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/comm/messages.hpp>
#include <cleave/comm/move.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};

using buffer = std::vector<float>;

/// A move of a square matrix of floats, or of a vector, on the one axis of the mesh.
class bound {
 public:
  template <cleave::kind Move>
  static bound make(const cleave::grid& grid, const cleave::shape& global, cleave::layout from, cleave::layout to) {
    cleave::axis_set axes;
    axes = axes.with(0);
    return bound(cleave::comm::make_move<Move>(grid.state(),
                                               {cleave::element::f32, global, from, to, axes, cleave::reduction::sum}));
  }
  void operator()(const buffer& in, buffer& out) {
    move_->run_one(in.data(), out.data(), {memory_.data(), host_.data()});
  }

 private:
  explicit bound(cleave::owned<cleave::comm::bound_exchange> move)
      : move_(std::move(move)), memory_(static_cast<std::size_t>(move_->needs().memory) + 64),
        host_(static_cast<std::size_t>(move_->needs().host) + 64) {}

  cleave::owned<cleave::comm::bound_exchange> move_;
  std::vector<char> memory_, host_;
};

cleave::layout whole() { return {}; }
cleave::layout along(int dim) {
  cleave::layout l;
  l.append(dim, 0);
  return l;
}
cleave::layout partial() {
  cleave::layout l;
  cleave::axis_set axes;
  l.set_partial(axes.with(0), cleave::reduction::sum);
  return l;
}
cleave::shape extents(long rows, long columns) {
  cleave::shape s;
  s.rank = columns == 0 ? 1 : 2;
  s[0] = rows;
  if (columns != 0) s[1] = columns;
  return s;
}

struct measured {
  const measure::task& with;
  const cleave::grid& grid;
  int rank;
  std::string size;
  long elements;

  /// Both programs must have moved the same, or their times say nothing.
  template <class F, class G>
  void against(const std::string& what, std::size_t in, std::size_t out, F ours, G theirs) const {
    const std::string name = what + ", " + size + " on " + std::to_string(with.ranks) + " ranks";
    if (name.find(with.only) == std::string::npos) return;
    buffer x(in), y(out), z(out);
    for (std::size_t i = 0; i < in; ++i) x[i] = static_cast<float>((i + static_cast<std::size_t>(rank) * 7) % 31);
    ours(x, y);
    theirs(x, z);
    if (y != z) throw std::runtime_error("the two programs differ in " + what);
    const int calls = static_cast<int>(std::clamp<long>((1L << 22) / (elements + 1), 2, 500));
    // As in a program that has just computed what it sends. Of an operand that stays, the other rank would have a copy
    // in its cache, and MPI, which reads it there, would send nothing.
    const auto computed = [&x] { std::fill(x.begin(), x.end(), 1.0f); };
    const auto with_ours = [&] {
      computed();
      ours(x, y);
    };
    const auto with_theirs = [&] {
      computed();
      theirs(x, z);
    };
    with.out.factor(name, measure::compare(with.comm, calls, with.seconds, with_ours, with_theirs), 1.05);
  }
};

void reductions(const measured& m, MPI_Comm comm) {
  const long n = m.elements, part = n / m.with.ranks;
  const auto count = static_cast<int>(n), part_count = static_cast<int>(part);
  const auto all = static_cast<std::size_t>(n), own = static_cast<std::size_t>(part);
  m.against("all-reduce", all, all, bound::make<cleave::kind::all_reduce>(m.grid, extents(n, 0), partial(), whole()),
            [=](const buffer& in, buffer& out) {
              MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, comm);
            });
  m.against("reduce-scatter", all, own,
            bound::make<cleave::kind::reduce_scatter>(m.grid, extents(n, 0), partial(), along(0)),
            [=](const buffer& in, buffer& out) {
              MPI_Reduce_scatter_block(in.data(), out.data(), part_count, MPI_FLOAT, MPI_SUM, comm);
            });
  m.against("all-gather", own, all, bound::make<cleave::kind::all_gather>(m.grid, extents(n, 0), along(0), whole()),
            [=](const buffer& in, buffer& out) {
              MPI_Allgather(in.data(), part_count, MPI_FLOAT, out.data(), part_count, MPI_FLOAT, comm);
            });
}

/// A matrix that was sharded by rows becomes sharded by columns.
void reshards(const measured& m, MPI_Comm comm) {
  const int ranks = m.with.ranks;
  const long mine = std::lround(std::sqrt(static_cast<double>(m.elements) / ranks)), side = mine * ranks;
  const auto elements = static_cast<std::size_t>(mine * side);
  buffer packed(elements);
  const auto by_hand = [=, &packed](const buffer& in, buffer& out) {
    for (int r = 0; r < ranks; ++r)
      for (long i = 0; i < mine; ++i)
        std::copy_n(in.data() + i * side + r * mine, mine, packed.data() + (r * mine + i) * mine);
    const auto count = static_cast<int>(mine * mine);
    MPI_Alltoall(packed.data(), count, MPI_FLOAT, out.data(), count, MPI_FLOAT, comm);
  };
  m.against("reshard, all-to-all", elements, elements,
            bound::make<cleave::kind::all_to_all>(m.grid, extents(side, side), along(0), along(1)), by_hand);
  m.against("reshard, permute", elements, elements,
            bound::make<cleave::kind::collective_permute>(m.grid, extents(side, side), along(0), along(1)), by_hand);
}

/// Every rank sends its operand to the next one, as a halo does.
void neighbours(const measured& m, MPI_Comm comm) {
  const int ranks = m.with.ranks, next = (m.rank + 1) % ranks, before = (m.rank + ranks - 1) % ranks;
  const auto elements = static_cast<std::size_t>(m.elements);
  cleave::comm::messages under_way;
  const cleave::comm::group& devices = m.grid.state().devices();
  m.against(
      "message to a neighbour", elements, elements,
      [&](const buffer& in, buffer& out) {
        under_way.receive(out.data(), m.elements, cleave::element::f32, before, devices);
        under_way.send(in.data(), m.elements, cleave::element::f32, next, devices);
        under_way.wait();
      },
      [=](const buffer& in, buffer& out) {
        MPI_Request open[2];
        const auto count = static_cast<int>(in.size());
        MPI_Irecv(out.data(), count, MPI_FLOAT, before, 0, comm, &open[0]);
        MPI_Isend(in.data(), count, MPI_FLOAT, next, 0, comm, &open[1]);
        MPI_Waitall(2, open, MPI_STATUSES_IGNORE);
      });
}

void measure_all(const measure::task& with) {
  if (with.ranks == 1) return;
  const cleave::grid grid(mesh, with.comm, {with.ranks});
  const std::pair<const char*, long> sizes[] = {{"4 KiB", 1L << 10},
                                                {"64 KiB", 1L << 14},
                                                {"1 MiB", 1L << 18},
                                                {"16 MiB", 1L << 22}};
  for (const auto& [name, elements] : sizes) {
    const measured m{with, grid, grid.rank(), name, elements};
    reductions(m, with.comm);
    reshards(m, with.comm);
    neighbours(m, with.comm);
  }
}

} // namespace

int main(int argc, char** argv) { return measure::run(argc, argv, 1.0, measure_all); }
