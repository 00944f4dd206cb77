// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/comm/messages.hpp>
#include <cleave/node/transport.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#if defined(__linux__)
#include <unistd.h>
#endif

// What devices of one node exchange through shared memory, in the caches or past them: the bits of reductions, operands
// longer than the slots, messages longer than the pipes, and which grids use shared memory.

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr axis_set line() { return axis_set{}.with(0); }

layout along(int dim) {
  layout l;
  l.append(dim, 0);
  return l;
}
layout partial(reduction how) {
  layout l;
  l.set_partial(line(), how);
  return l;
}
shape vector_of(std::int64_t elements) {
  shape s;
  s.rank = 1;
  s[0] = elements;
  return s;
}
/// A value whose sum over ranks depends on their order.
template <class T>
T value_of(std::int64_t i, int rank) {
  return static_cast<T>((static_cast<double>((i * 7919 + rank * 104729) % 1000) - 500) / 5);
}
template <class T>
std::vector<T> values_of(std::int64_t elements, int rank) {
  std::vector<T> all;
  for (std::int64_t i = 0; i < elements; ++i) all.push_back(value_of<T>(i, rank));
  return all;
}
/// The values of all ranks, added in the order of ranks.
template <class T>
std::vector<T> sums_of(std::int64_t elements) {
  std::vector<T> all = values_of<T>(elements, 0);
  for (int r = 1; r < support::ranks(); ++r)
    for (std::int64_t i = 0; i < elements; ++i) {
      T& sum = all[static_cast<std::size_t>(i)];
      sum = static_cast<T>(sum + value_of<T>(i, r));
    }
  return all;
}

/// Lengths on both sides of what every rank reduces, of a slot, and of several slots.
std::vector<std::int64_t> lengths() { return {1, 5, 1000, 4096, 4097, 40000, 700001}; }
/// On grids whose slots and messages are written past the caches, and into them.
template <class Check>
void in_every_way(const Check& check) {
  const store_setting before = store_mode();
  for (const store_setting setting : {store_setting::streaming, store_setting::cached}) {
    store_mode() = setting;
    check(grid(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()}));
  }
  store_mode() = before;
}
bool shares_memory(const grid& g) { return comm::is_direct(g.state().group_of(line())); }

template <class T>
void check_reductions(const grid& g) {
  for (std::int64_t n : lengths()) {
    const std::vector<T> in = values_of<T>(n, support::rank()), want = sums_of<T>(n);
    const comm::transfer all{element_of<T>, vector_of(n), partial(reduction::sum), layout{}, line(), reduction::sum};
    std::vector<T> out(in.size());
    for (int again = 0; again < 3; ++again) {
      std::fill(out.begin(), out.end(), T{});
      support::run_move(g.state(), kind::all_reduce, all, in.data(), out.data());
      EXPECT_EQ(out, want) << n;
    }
    std::vector<T> same = in;
    support::run_move(g.state(), kind::all_reduce, all, same.data(), same.data());
    EXPECT_EQ(same, want) << n;

    const comm::transfer part{element_of<T>, vector_of(n), partial(reduction::sum), along(0), line(), reduction::sum};
    const box mine = comm::held_after(g.state(), part);
    std::vector<T> kept(static_cast<std::size_t>(mine.elements()) + 1, T{77});
    support::run_move(g.state(), kind::reduce_scatter, part, in.data(), kept.data());
    EXPECT_EQ(kept.back(), T{77});
    kept.pop_back();
    const auto first = want.begin() + (kept.empty() ? 0 : mine[0].begin);
    EXPECT_EQ(kept, std::vector<T>(first, first + mine.elements())) << n;
  }
}

TEST(node, reductions_have_the_order_of_ranks) {
  in_every_way([](const grid& g) {
    check_reductions<std::int32_t>(g);
    check_reductions<std::int8_t>(g);
    if (!shares_memory(g)) return; // MPI has an order of its own
    check_reductions<float>(g);
    check_reductions<double>(g);
  });
}

/// A matrix that is sharded by rows is sharded by columns instead, is gathered, and goes back, by two collectives.
void check_reshards(const grid& g, std::int64_t rows, std::int64_t columns) {
  shape s;
  s.rank = 2;
  s[0] = rows;
  s[1] = columns;
  const auto run = [&](kind move, const layout& from, const layout& to) {
    std::vector<std::int32_t> in, want;
    const auto into = [](std::vector<std::int32_t>& all) {
      return [&](std::int64_t flat) { all.push_back(static_cast<std::int32_t>(flat)); };
    };
    support::for_owned(s, from, g.here(), g.sizes(), into(in));
    support::for_owned(s, to, g.here(), g.sizes(), into(want));
    std::vector<std::int32_t> out(want.size() + 1, -1);
    support::run_move(g.state(), move, {element::i32, s, from, to, line(), reduction::sum}, in.data(), out.data());
    EXPECT_EQ(out.back(), -1);
    out.pop_back();
    EXPECT_EQ(out, want) << rows << " x " << columns;
  };
  run(kind::all_to_all, along(0), along(1));
  run(kind::collective_permute, along(1), along(0));
  run(kind::all_gather, along(0), layout{});
  run(kind::all_gather, along(1), layout{});
}

TEST(node, long_boxes_are_packed_on_their_way) {
  in_every_way([](const grid& g) {
    check_reshards(g, 3, 5);
    check_reshards(g, 7, 40001);
    check_reshards(g, 40001, 7);
    check_reshards(g, 801, 1003);
  });
}

void check_messages(const grid& g) {
  const comm::group& all = g.state().devices();
  const int next = (all.rank + 1) % all.size, before = (all.rank + all.size - 1) % all.size;
  if (all.size == 1) return;
  // The second ones are waited for first, and the first one is longer than a pipe and than what the caches hold.
  std::vector<std::vector<std::int64_t>> sent, received;
  for (std::int64_t n : {2100000, 1, 70000, 3}) {
    sent.emplace_back(static_cast<std::size_t>(n));
    std::iota(sent.back().begin(), sent.back().end(), all.rank * 1000 + n);
    received.emplace_back(static_cast<std::size_t>(n));
  }
  comm::messages early, late;
  for (std::size_t i = 0; i < 4; ++i)
    (i < 2 ? early : late).receive(received[i].data(), std::ssize(received[i]), element::i64, before, all);
  for (std::size_t i = 0; i < 4; ++i)
    (i < 2 ? early : late).send(sent[i].data(), std::ssize(sent[i]), element::i64, next, all);
  late.wait();
  early.wait();
  for (const auto& r : received) {
    std::vector<std::int64_t> want(r.size());
    std::iota(want.begin(), want.end(), before * 1000 + std::ssize(r));
    EXPECT_EQ(r, want);
  }
}
TEST(node, messages_of_a_pair_arrive_in_their_order) {
  const grid g(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()});
  check_messages(g);
  in_every_way(check_messages);
}

TEST(node, slots_have_a_part_for_each_rank) {
  for (const std::int64_t bytes : {comm::node_group::least_slot, comm::node_group::most_slot, std::int64_t{2048}})
    for (int ranks = 2; ranks < 5000; ++ranks) {
      const std::int64_t slot = comm::node_group::slot_for(bytes, ranks);
      // The parts of a reduction begin at lines of the cache, and take the longest element at least.
      ASSERT_GE(slot / (ranks + 1) / 64 * 64, size_of(element::c128)) << ranks;
      ASSERT_EQ(slot % 64, 0);
    }
}

#if defined(__linux__)
/// The open files and the mappings of segments that this process has.
std::vector<std::string> segments_here() {
  std::vector<std::string> all;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file, gone);
    if (target.starts_with("/memfd:cleave")) all.push_back(file.path());
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/memfd:cleave") != std::string::npos) all.push_back(line);
  return all;
}
TEST(node, nothing_is_left_where_mpi_fails) {
  const grid g(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()});
  if (!shares_memory(g)) return;
  const std::vector<std::string> before = segments_here();
  // Those of the grid are mapped, and no file is open any more.
  EXPECT_FALSE(before.empty());
  for (const std::string& s : before) EXPECT_FALSE(s.starts_with("/proc/self/fd")) << s;
  for (std::int64_t after = 0; after < 2; ++after) {
    comm::node_segment segment;
    support::fail_set_up(1, after);
    EXPECT_THROW(segment.make(g.state().group_of(line()), 4096), mpi_error);
    support::fail_set_up(0);
    EXPECT_EQ(segments_here(), before) << after;
    MPI_Barrier(MPI_COMM_WORLD);
  }
}
#endif

TEST(node, one_rank_can_ask_for_mpi) {
  const bool shared = shares_memory(grid(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()}));
  EXPECT_EQ(shared, on_host && support::ranks() > 1 && comm::transport_mode() != comm::transport::mpi &&
                        (comm::node_ranks() == 0 || comm::node_ranks() >= support::ranks()));
  const comm::transport before = comm::transport_mode();
  if (support::rank() == support::ranks() - 1) comm::transport_mode() = comm::transport::mpi;
  const grid without(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()});
  comm::transport_mode() = before;
  EXPECT_FALSE(shares_memory(without));
  EXPECT_EQ(without.state().devices().link, nullptr);
}

TEST(node, shared_memory_may_outlive_mpi) {
  auto g = std::make_shared<grid>(support::mesh_of(1), MPI_COMM_WORLD, std::vector<std::int64_t>{support::ranks()});
  g->state().group_of(line());
  g->state().devices();
  support::after_finalize().push_back(g);
}

} // namespace CLEAVE_SOURCE
