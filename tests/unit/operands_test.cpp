// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may stand in place of an operand: literals mean what they say wherever a function takes an operand, and what was
// never given a value is a fault, never a plan without the operation.
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/nn/attention.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr dim_ref row{"row"}, col{"col"}, part{"part", 2}, one{"one", 1}, many{"many", 3}, word{"word", 4},
    other{"other"};

/// Programs of x, [row = 5, col = 3], and u, [part = 2], and n, three indices along `many`: evaluated plainly, and
/// simulated on two devices that shard the rows.
struct program_of {
  mesh_value mesh = [] {
    mesh_value m;
    m.axes.push_back({"a", 2});
    return m;
  }();
  recorder in{mesh};
  value x, u, n;

  program_of() {
    spec sharded, whole, indices;
    sharded.mesh = whole.mesh = indices.mesh = mesh;
    placement rows(row);
    rows.axes.push_back("a");
    sharded.dims = {rows, placement(col)};
    whole.dims = {placement(part)};
    indices.dims = {placement(many)};
    x = in.input(element::f64, sharded);
    u = in.input(element::f64, whole);
    n = in.input(element::i32, indices);
  }
  std::vector<host_array> data(const sizes& at) const {
    std::vector<host_array> all;
    for (const value& v : {x, u, n}) {
      host_array a(shape_of(in.at(v).type, at));
      for (std::size_t i = 0; i < a.data.size(); ++i)
        a.data[i] = v.id == n.id ? static_cast<double>((i * 2) % 4) : static_cast<double>(i + 1);
      all.push_back(a);
    }
    return all;
  }
  /// The result, from the evaluator; the simulated devices must have the same.
  std::vector<double> run(const value& result) {
    in.output(result);
    const graph& g = in.made();
    EXPECT_TRUE(g.found.ok()) << static_cast<int>(g.found.fault) << " in " << g.found.op << " dim " << g.found.dim;
    if (!g.found.ok()) return {};
    const sizes at = sizes_for(g, std::array{named_size{"row", 5}, named_size{"col", 3}});
    const std::vector<host_array> arguments = data(at), want = evaluate(g, at, arguments);
    const program planned = partition(g, at);
    EXPECT_TRUE(planned.found.ok());
    EXPECT_EQ(planned.results, 1);
    const simulated got = simulate(planned, at, arguments, 1);
    EXPECT_EQ(got.problem, "");
    EXPECT_EQ(first_difference(want[0].data, got.results[0].data, 0), -1);
    return {want[0].data.begin(), want[0].data.end()};
  }
};

using numbers = std::vector<double>;

TEST(operands, literal_starts) {
  program_of p;
  EXPECT_EQ(p.run(dynamic_slice(p.x, row, part, 1)), (numbers{4, 5, 6, 7, 8, 9}));
  program_of q;
  // Moved so that the slice lies within the dim.
  EXPECT_EQ(q.run(dynamic_slice(q.x, row, part, 9)), (numbers{10, 11, 12, 13, 14, 15}));
  program_of r;
  EXPECT_EQ(r.run(sum(dynamic_update(r.x, row, broadcast(r.u, part, col), part, 2), col)), (numbers{6, 15, 3, 6, 42}));
}
TEST(operands, literal_updates_are_written_everywhere) {
  program_of p;
  EXPECT_EQ(p.run(sum(dynamic_update(p.x, row, 0.5, part, 1), col)), (numbers{6, 1.5, 1.5, 33, 42}));
}
TEST(operands, literal_indices) {
  program_of p;
  EXPECT_EQ(p.run(gather(p.x, row, 3)), (numbers{10, 11, 12}));
  program_of q;
  // Beyond the table there are zeros.
  EXPECT_EQ(q.run(gather(q.x, row, 5)), (numbers{0, 0, 0}));
}
TEST(operands, literal_rows_are_counted) {
  program_of p;
  // The indices are 0, 2, 0.
  EXPECT_EQ(p.run(scatter_add(1, p.n, word)), (numbers{2, 0, 1, 0}));
  program_of q;
  EXPECT_EQ(q.run(scatter_add(0.25, q.n, word)), (numbers{0.5, 0, 0.25, 0}));
}
TEST(operands, literal_predicates_and_factors) {
  program_of p;
  EXPECT_EQ(p.run(select(true, sum(p.x, col), 1)), (numbers{6, 15, 24, 33, 42}));
  program_of q;
  EXPECT_EQ(q.run(select(false, sum(q.x, col), 1)), numbers(5, 1));
  program_of r;
  EXPECT_EQ(r.run(dot(2, r.u)), (numbers{2, 4}));
  program_of s;
  EXPECT_EQ(s.run(interior(0, sum(s.x, col), 1, row)), (numbers{6, 0, 0, 0, 42}));
}
TEST(operands, stacks) {
  program_of p;
  EXPECT_EQ(p.run(stack(one, p.u)), (numbers{1, 2}));
  program_of q;
  // The new dim comes first, whatever the rank.
  const value both = stack(part, q.x, 2 * q.x);
  EXPECT_EQ(q.in.made().dims[q.in.at(both).type[0]].name, "part");
  EXPECT_EQ(q.run(sum(both, row)), (numbers{35, 40, 45, 70, 80, 90}));
  program_of r;
  EXPECT_EQ(r.run(sum(stack(many, r.x, 1, 0.5), row)), (numbers{35, 40, 45, 5, 5, 5, 2.5, 2.5, 2.5}));
}

// Faults: what, in which operation, at which line.
void expect_fault(const program_of& p, fault f, std::string_view op, unsigned line) {
  const verdict& v = p.in.made().found;
  EXPECT_EQ(v.fault, f);
  EXPECT_EQ(v.op, op);
  EXPECT_EQ(v.where.line, line);
  EXPECT_EQ(v.where.name(), "operands_test.cpp");
}
TEST(operands, numbers_of_a_carry_that_are_too_long) {
  program_of p;
  const auto same = [](const auto& state) { return state; };
  static_cast<void>(repeat_times(2, std::tuple(p.n, std::int64_t{9007199254740993}), same));
  expect_fault(p, fault::literal_too_long, "carry", __LINE__ - 1);
}
TEST(operands, windows_beside_a_dim_of_their_name) {
  program_of p;
  static_cast<void>(windows(p.u, window{part, row, part, 1, 1, 1, 1}));
  expect_fault(p, fault::dim_used_twice, "windows", __LINE__ - 1);
  program_of q;
  static_cast<void>(windows(q.x, window{row, other, part}, window{col, row, many}));
  expect_fault(q, fault::dim_used_twice, "windows", __LINE__ - 1);
}
// What an operation records first may be refused, and then has no type for what it records next.
TEST(operands, short_labels_and_starts_that_are_not_reduced) {
  const auto unreduced = [](program_of& p, element type, bool has_dim) {
    spec s;
    s.mesh = p.mesh;
    if (has_dim) s.dims = {placement(many)};
    s.unreduced.push_back("a");
    return p.in.input(type, s);
  };
  program_of p;
  EXPECT_FALSE(one_hot(unreduced(p, element::i8, true), word).ok());
  expect_fault(p, fault::unreduced_into_nonlinear, "cast", __LINE__ - 1);
  program_of q;
  EXPECT_FALSE(dynamic_slice(q.x, row, part, unreduced(q, element::i8, false)).ok());
  expect_fault(q, fault::unreduced_into_nonlinear, "cast", __LINE__ - 1);
}
TEST(operands, what_is_no_index) {
  program_of p;
  static_cast<void>(gather(p.x, row, 1.5));
  expect_fault(p, fault::not_an_index, "gather", __LINE__ - 1);
  program_of q;
  static_cast<void>(dynamic_slice(q.x, row, part, 2.0));
  expect_fault(q, fault::not_an_index, "dynamic_slice", __LINE__ - 1);
  program_of r;
  static_cast<void>(one_hot(r.u, word));
  expect_fault(r, fault::not_an_index, "one_hot", __LINE__ - 1);
  program_of s;
  static_cast<void>(nn::cross_entropy(s.x, sum(s.x, col), col));
  expect_fault(s, fault::not_an_index, "cross_entropy", __LINE__ - 1);
  program_of t;
  static_cast<void>(
      repeat_until(t.u, [](const value& v) { return v; }, [](const value& v) { return sum(v) > 1; }, 2.5));
  expect_fault(t, fault::not_a_count, "repeat_until", __LINE__ - 1);
}
TEST(operands, no_largest_elements) {
  program_of p;
  const auto [values, indices] = top_k(p.x, col, dim_ref{"none", 0});
  ASSERT_TRUE(values.ok() && indices.ok());
  EXPECT_TRUE(p.in.made().found.ok());
  EXPECT_EQ(p.in.at(values).type.rank, p.in.at(p.x).type.rank);
}
TEST(operands, ignored_labels) {
  program_of p;
  static_cast<void>(gather(p.x, row, 1.5, ignore{-1}));
  expect_fault(p, fault::not_an_index, "gather", __LINE__ - 1);
  program_of q;
  static_cast<void>(nn::embedding(q.x, sum(q.x, row), row, ignore{0}));
  expect_fault(q, fault::not_an_index, "gather", __LINE__ - 1);
  program_of r;
  static_cast<void>(one_hot(r.u, word, ignore{0}));
  expect_fault(r, fault::not_an_index, "one_hot", __LINE__ - 1);
  program_of s;
  static_cast<void>(gather(s.x, row, cast<unsigned>(s.n), ignore{-100}));
  expect_fault(s, fault::literal_does_not_fit, "equal", __LINE__ - 1);
  program_of t;
  static_cast<void>(weighted_mean(t.n, t.n > 0));
  expect_fault(t, fault::not_floating, "weighted_mean", __LINE__ - 1);
}
TEST(operands, labels_have_the_dims_of_the_scores) {
  program_of p;
  static_cast<void>(nn::cross_entropy(p.x, 2, col));
  expect_fault(p, fault::label_dims_differ, "cross_entropy", __LINE__ - 1);
  EXPECT_EQ(p.in.made().found.dim, "row");
  program_of q;
  static_cast<void>(nn::cross_entropy(sum(q.x, row), q.n, col));
  expect_fault(q, fault::label_dims_differ, "cross_entropy", __LINE__ - 1);
  EXPECT_EQ(q.in.made().found.dim, "many");
}
TEST(operands, dims_of_a_literal) {
  program_of p;
  static_cast<void>(dot(p.x, 2.0, col));
  expect_fault(p, fault::contracted_dim_missing, "dot", __LINE__ - 1);
  program_of q;
  static_cast<void>(stack(part, q.x, q.u));
  expect_fault(q, fault::dims_do_not_broadcast, "stack", __LINE__ - 1);
  program_of r;
  static_cast<void>(stack(row, r.x, r.x));
  expect_fault(r, fault::dim_used_twice, "stack", __LINE__ - 1);
}
TEST(operands, what_was_never_given_a_value) {
  const std::function<value(program_of&, const value&)> uses[] = {
      [](program_of& p, const value& v) { return p.x + v; },
      [](program_of& p, const value& v) { return v + p.x; },
      [](program_of& p, const value& v) { return dot(p.x, v, row); },
      [](program_of& p, const value& v) { return gather(p.x, row, v); },
      [](program_of& p, const value& v) { return dynamic_slice(p.x, row, part, v); },
      [](program_of& p, const value& v) { return dynamic_update(p.x, row, v, part, 0); },
      [](program_of& p, const value& v) { return scatter_add(v, p.n, word); },
      [](program_of& p, const value& v) { return select(p.x > 0, p.x, v); },
      [](program_of& p, const value& v) { return stack(part, p.x, v); },
      [](program_of&, const value& v) { return v; },
  };
  for (const auto& use : uses) {
    program_of p;
    p.in.output(use(p, value{}));
    EXPECT_EQ(p.in.made().found.fault, fault::value_missing) << &use - uses;
    EXPECT_FALSE(partition(p.in.made(), sizes_for(p.in.made())).found.ok()) << &use - uses;
  }
}

/// Attention over the rows of x as sources, whose number differs by sentence: the mask of the comment in
/// nn/attention.hpp.
TEST(operands, masks_may_capture_lengths) {
  constexpr dim_ref batch{"batch"}, position{"position"}, source{"source"}, head{"head"};
  recorder in{mesh_value{}};
  spec of_q, of_k, of_lengths;
  of_q.dims = {placement(batch), placement(position), placement(head)};
  of_k.dims = {placement(batch), placement(source), placement(head)};
  of_lengths.dims = {placement(batch)};
  const value q = in.input(element::f64, of_q), k = in.input(element::f64, of_k), v = in.input(element::f64, of_k),
              lengths = in.input(element::i32, of_lengths);
  in.output(
      nn::attention(q, k, v, {position, source, head}, [&](const value&, const value& s) { return s < lengths; }));
  ASSERT_TRUE(in.made().found.ok());
  const sizes at = sizes_for(in.made(), std::array{named_size{"batch", 2}, named_size{"position", 1},
                                                   named_size{"source", 3}, named_size{"head", 1}});
  std::vector<host_array> data;
  for (const value& each : {q, k, v, lengths}) data.emplace_back(shape_of(in.at(each).type, at));
  data[2].data = {1, 10, 100, 1, 10, 100};
  data[3].data = {2, 3};
  const auto mixed = evaluate(in.made(), at, data)[0].data;
  EXPECT_NEAR(mixed[0], 5.5, 1e-12);
  EXPECT_NEAR(mixed[1], 37, 1e-12);
}

TEST(operands, integers_have_whole_numbers_within_their_range) {
  EXPECT_TRUE(has_number(element::i8, -128) && has_number(element::i8, 127));
  EXPECT_FALSE(has_number(element::i8, -129) || has_number(element::i8, 128) || has_number(element::i8, 0.5));
  EXPECT_TRUE(has_number(element::u32, 4294967295.0));
  EXPECT_FALSE(has_number(element::u32, 4294967296.0) || has_number(element::u32, -1));
  EXPECT_TRUE(has_number(element::i64, -0x1p63) && has_number(element::u64, 0x1p63));
  EXPECT_FALSE(has_number(element::i64, 0x1p63) || has_number(element::u64, 0x1p64));
  EXPECT_TRUE(has_number(element::boolean, 1) && has_number(element::f16, 0.5));
  EXPECT_FALSE(has_number(element::boolean, 2));
  program_of p;
  EXPECT_FALSE(p.in.value_of(operand(0.5), "mul", element::i32).ok());
  EXPECT_EQ(p.in.made().found.fault, fault::literal_does_not_fit);
}

constexpr value doubled(const value& x) { return 2 * x; }

// A body may be a plain function of the language.
TEST(operands, a_function_is_the_body_of_a_loop) {
  program_of p;
  const value y = repeat_times(3, p.u, doubled);
  EXPECT_TRUE(y.ok());
  EXPECT_EQ(p.run(y), (std::vector<double>{8, 16}));
}

} // namespace CLEAVE_SOURCE
