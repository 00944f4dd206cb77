// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hand_plan.hpp"
#include "support.hpp"

#include <gtest/gtest.h>

#include <vector>

// Whole programs of several steps: what the executor adds to its kernels and collectives.

namespace CLEAVE_SOURCE {

using namespace hand;

constexpr element f32 = element::f32;

/// y[i, j] = relu(sum over k of a[i, k] * b[k, j]), k sharded: a product, an all-reduce in place, a map.
struct product {
  static constexpr auto make() {
    program_of<5, 3, 2> p;
    p.dims = {{"i", dynamic}, {"j", dynamic}, {"k", dynamic}};
    p.buffers = {buffer_of(role::input, 0, type_of(f32, {0, 2}), 2), buffer_of(role::input, 1, type_of(f32, {2, 1}), 2),
                 buffer_of(role::workspace, 0, type_of(f32, {0, 1})),
                 buffer_of(role::workspace, 0, type_of(f32, {0, 1})), buffer_of(role::output, 0, type_of(f32, {0, 1}))};
    p.buffers[2].where.set_partial(1);
    step& gemm = p.steps[0];
    gemm.kind = step_kind::gemm;
    gemm.code = op::dot;
    gemm.in = {0, 1};
    gemm.out = 2;
    gemm.m.append(0);
    gemm.n.append(1);
    gemm.k.append(2);
    step& move = p.steps[1];
    move.kind = step_kind::move;
    move.code = op::dot;
    move.move = kind::all_reduce;
    move.axes = 1;
    move.in = {2};
    move.out = 3;
    step& map = p.steps[2];
    map.kind = step_kind::map;
    map.code = op::relu;
    map.in = {3};
    map.out = 4;
    map.loop = p.buffers[4].type;
    set_expression(p, map, {load(f32, 0), apply(op::relu, f32, 0)});
    p.arguments = 2;
    p.results = 1;
    p.slots = 1;
    return p;
  }
};

TEST(executor, product_all_reduce_map) {
  const grid g(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()});
  for (const auto& [ni, nj, nk] :
       std::vector<std::array<std::int64_t, 3>>{{3, 5, 7}, {4, 1, 16}, {1, 6, 0}, {0, 2, 3}, {33, 17, 9}}) {
    sizes s;
    s.axes = g.sizes();
    s.dims[0] = ni;
    s.dims[1] = nj;
    s.dims[2] = nk;
    const range mine = held(dim_blocks{nk}, axis_list(0), g.here(), g.sizes());
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    std::vector<float> a(at(ni * mine.size())), b(at(mine.size() * nj));
    for (std::int64_t i = 0; i < ni; ++i)
      for (std::int64_t k = 0; k < mine.size(); ++k)
        a[at(i * mine.size() + k)] = static_cast<float>(i + k + mine.begin);
    for (std::int64_t k = 0; k < mine.size(); ++k)
      for (std::int64_t j = 0; j < nj; ++j) b[at(k * nj + j)] = static_cast<float>(k + mine.begin - 2 * j);
    const support::on_device<float> left(a), right(b), result(std::vector<float>(at(ni * nj), -1));
    const void* in[] = {left.data(), right.data()};
    void* out[] = {result.data()};
    auto& run = executor_for<hand_plan<product>>(g.state(), s);
    run.run(in, out);
    support::reset_charges();
    const std::int64_t before = support::allocations();
    run.run(in, out);
    const std::int64_t allocated = support::allocations() - before;
    if (support::heap_is_left_alone) {
      EXPECT_EQ(allocated, 0);
    }
    EXPECT_EQ(support::charged_calls(), support::ranks() > 1 && ni * nj > 0 ? 1 : 0);
    EXPECT_EQ(support::charged_bytes(), 2 * (support::ranks() - 1) * ni * nj * 4 / support::ranks());
    int wrong = 0;
    const auto y = result.read();
    for (std::int64_t i = 0; i < ni; ++i)
      for (std::int64_t j = 0; j < nj; ++j) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < nk; ++k) sum += (i + k) * (k - 2 * j);
        wrong += y[at(i * nj + j)] == static_cast<float>(sum > 0 ? sum : 0) ? 0 : 1;
      }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(&run, &executor_for<hand_plan<product>>(g.state(), s));
  }
}

/// first = x * 2; second = x + 1: the argument is still read after the first result is written.
struct two_results {
  static constexpr auto make() {
    program_of<3, 2, 6> p;
    p.dims = {{"i", dynamic}};
    p.buffers = {buffer_of(role::input, 0, type_of(f32, {0})), buffer_of(role::output, 0, type_of(f32, {0})),
                 buffer_of(role::output, 1, type_of(f32, {0}))};
    for (std::size_t r = 0; r < 2; ++r) {
      step& s = p.steps[r];
      s.kind = step_kind::map;
      s.code = op::add;
      s.in = {0};
      s.out = static_cast<std::uint16_t>(r + 1);
      s.loop = p.buffers[0].type;
      set_expression(p, s, {load(f32, 0), literal(f32, r == 0 ? 2 : 1), apply(r == 0 ? op::mul : op::add, f32, 0, 1)},
                     3 * r);
    }
    p.arguments = 1;
    p.results = 2;
    return p;
  }
};
/// y[j, i] = x[i, j]: no element may be written before all are read.
struct turned {
  static constexpr auto make() {
    program_of<2, 1, 1> p;
    p.dims = {{"i", dynamic}, {"j", dynamic}};
    p.buffers = {buffer_of(role::input, 0, type_of(f32, {0, 1})), buffer_of(role::output, 0, type_of(f32, {1, 0}))};
    step& s = p.steps[0];
    s.kind = step_kind::map;
    s.code = op::reshard;
    s.in = {0};
    s.out = 1;
    s.loop = p.buffers[1].type;
    set_expression(p, s, {load(f32, 0)});
    p.arguments = 1;
    p.results = 1;
    return p;
  }
};
/// y = 2 x.
struct doubled {
  static constexpr auto make() {
    program_of<2, 1, 3> p;
    p.dims = {{"i", dynamic}};
    p.buffers = {buffer_of(role::input, 0, type_of(f32, {0})), buffer_of(role::output, 0, type_of(f32, {0}))};
    step& s = p.steps[0];
    s.kind = step_kind::map;
    s.code = op::mul;
    s.in = {0};
    s.out = 1;
    s.loop = p.buffers[1].type;
    set_expression(p, s, {load(f32, 0), literal(f32, 2), apply(op::mul, f32, 0, 1)});
    p.arguments = 1;
    p.results = 1;
    return p;
  }
};

TEST(executor, results_over_arguments) {
  const grid g(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()});
  sizes s;
  s.axes = g.sizes();
  s.dims[0] = 3;
  s.dims[1] = 3;

  using memory = support::on_device<float>;
  const memory x({1, 2, 3}), other({0, 0, 0});
  const void* in[] = {x.data()};
  void* over_first[] = {x.data(), other.data()};
  auto& two = executor_for<hand_plan<two_results>>(g.state(), s);
  two.run(in, over_first);
  EXPECT_EQ(x.read(), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(other.read(), (std::vector<float>{2, 3, 4}));
  const std::int64_t before = support::allocations();
  two.run(in, over_first);
  const std::int64_t allocated = support::allocations() - before;
  if (support::heap_is_left_alone) {
    EXPECT_EQ(allocated, 0);
  }
  EXPECT_EQ(x.read(), (std::vector<float>{4, 8, 12}));
  EXPECT_EQ(other.read(), (std::vector<float>{3, 5, 7}));

  const memory m({1, 2, 3, 4, 5, 6, 7, 8, 9});
  const void* from[] = {m.data()};
  void* to[] = {m.data()};
  executor_for<hand_plan<turned>>(g.state(), s).run(from, to);
  EXPECT_EQ(m.read(), (std::vector<float>{1, 4, 7, 2, 5, 8, 3, 6, 9}));

  // In place where that is safe; beside it where the memory only overlaps.
  const memory line({1, 2, 3, 4});
  const void* head[] = {line.data()};
  void* same[] = {line.data()};
  void* shifted[] = {line.data() + 1};
  auto& twice = executor_for<hand_plan<doubled>>(g.state(), s);
  twice.run(head, same);
  EXPECT_EQ(line.read(), (std::vector<float>{2, 4, 6, 4}));
  twice.run(head, shifted);
  EXPECT_EQ(line.read(), (std::vector<float>{2, 4, 8, 12}));
}

/// After a failure of MPI the grid refuses to go on.
TEST(executor, broken_grid) {
  const grid g(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()});
  sizes s;
  s.axes = g.sizes();
  s.dims[0] = 1;
  const support::on_device<float> x({1}), y({0});
  const void* in[] = {x.data()};
  void* out[] = {y.data()};
  auto& run = executor_for<hand_plan<doubled>>(g.state(), s);
  run.run(in, out);
  EXPECT_EQ(y.read()[0], 2);
  g.state().set_broken();
  EXPECT_THROW(run.run(in, out), mpi_error);
}

/// Errors of MPI are exceptions on the grid's own communicator, while the user's keeps its handler.
TEST(executor, errors_of_mpi) {
  const grid g(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()});
  char byte = 0;
  EXPECT_THROW(comm::check(MPI_Send(&byte, 1, MPI_BYTE, support::ranks() + 5, 0, g.comm()), "MPI_Send"), mpi_error);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  EXPECT_EQ(handler, MPI_ERRORS_ARE_FATAL);
}

} // namespace CLEAVE_SOURCE
