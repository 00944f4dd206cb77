// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What plans say of themselves.
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
using X = cleave::abstract<float, mesh(batch / data, embed)>;
using Up = cleave::abstract<float, mesh(embed, hidden / model)>;
using Down = cleave::abstract<float, mesh(hidden / model, embed)>;

constexpr unsigned first_line = __LINE__ + 2;
constexpr cleave::function mlp([](auto x, auto up, auto down) {
  const auto h = relu(dot(x, up, embed));
  return dot(h, down, hidden) + x;
});
constexpr auto plan = cleave::plan<X(X, Up, Down)>(mlp);

constexpr unsigned line_of_sweeps = __LINE__ + 2;
constexpr cleave::function sweeps([](auto u, auto times) {
  return repeat_times(times, u, [](auto v) { return 0.5f * (shift(v, batch, 1) + shift(v, batch, -1)); });
});

/// With lines of this file, which have two digits, as distances from one; behind an empty line.
std::string without_lines(std::string text, unsigned from) {
  for (unsigned distance = 0; distance < 3; ++distance) {
    const std::string line = ":" + std::to_string(from + distance);
    for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at))
      text.replace(at, line.size(), ":+" + std::to_string(distance));
  }
  return "\n" + text;
}
void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

TEST(Explain, NamesTheCollectiveItsBytesItsLineAndWhy) {
  const std::string text = explain(plan, {data = 2, model = 4, batch = 8, embed = 16, hidden = 32});
  expect_has(text, "all_reduce");
  expect_has(text, "f32[batch/data, embed | unreduced(model)]");
  expect_has(text, std::to_string(2 * 3 * (4 * 16 * 4) / 4));
  expect_has(text, "dot explain_test.cpp:" + std::to_string(first_line + 1));
  expect_has(text, "partial over model, needed whole");
  EXPECT_EQ(text.find("assumed"), std::string::npos);
}
TEST(Explain, SaysWhatGoesOnWhileAProductComputes) {
  using Sharded = cleave::abstract<float, mesh(embed / data, hidden)>;
  using Result = cleave::abstract<float, mesh(batch / data, hidden)>;
  constexpr cleave::function layer([](auto x, auto w) { return dot(x, w, embed); });
  constexpr auto gathered = cleave::plan<Result(X, Sharded)>(layer, cleave::expect<model, 1>{});
  static_assert(gathered.count(cleave::kind::all_gather) == 1 && gathered.collectives() == 1);
  expect_has(explain(gathered), "sharded over data, needed whole, while the product with it is computed (");
  expect_has(explain_passes(gathered), "product in pieces");
  // Too small for that.
  constexpr auto small = cleave::plan<Result(X, Sharded)>(layer, cleave::expect<model, 1>{}, cleave::expect<batch, 4>{},
                                                          cleave::expect<embed, 8>{}, cleave::expect<hidden, 8>{});
  EXPECT_EQ(explain(small).find("while"), std::string::npos);
}
TEST(Explain, SaysBehindWhichProductsASumIsHidden) {
  using Wide = cleave::abstract<float, mesh(batch / data, hidden)>;
  using Sum = cleave::abstract<float, mesh(embed, hidden)>;
  constexpr unsigned line = __LINE__ + 1;
  constexpr cleave::function sums([](auto x, auto v, auto w) {
    const auto first = dot(x, v, batch);
    const auto second = dot(x, w, batch);
    return std::pair(2 * relu(first), second);
  });
  constexpr auto hidden_sums = cleave::plan<std::pair<Sum, Sum>(X, Wide, Wide)>(sums, cleave::expect<model, 1>{});
  expect_has(explain(hidden_sums), "partial over data, needed whole, while 1 product is computed, until dot:" +
                                       std::to_string(line + 2) + " is over\n");
  expect_has(explain_passes(hidden_sums), "move begins");
  constexpr auto one_by_one = cleave::plan<std::pair<Sum, Sum>(X, Wide, Wide)>(sums, cleave::expect<model, 1>{},
                                                                               cleave::without_overlap{});
  EXPECT_EQ(explain(one_by_one).find("while"), std::string::npos);
  EXPECT_EQ(explain_passes(one_by_one).find("move begins"), std::string::npos);
  static_assert(one_by_one.bytes() == hidden_sums.bytes() && one_by_one.workspace() < hidden_sums.workspace());
}
TEST(Explain, MarksHints) {
  expect_has(explain(plan, {data = 2}), "assumed, since known only at run time: model = 4, batch = 4096");
}
TEST(Explain, SaysWhichSizesAreFarFromThoseOfThePlan) {
  expect_has(explain(plan, {data = 64, model = 4, batch = 8}),
             "planned for data = 4, batch = 4096: another plan may be better at these sizes, see expect<data, 64>, "
             "expect<batch, 8>\n");
  EXPECT_EQ(explain(plan, {data = 16, model = 1, batch = 1024}).find("another plan"), std::string::npos);
  constexpr cleave::function doubled([](auto x) { return x + x; });
  constexpr auto expected = cleave::plan<X(X)>(doubled, cleave::expect<data, 1>{});
  EXPECT_EQ(explain(expected, {data = 1}).find("another plan"), std::string::npos);
  expect_has(explain(expected, {data = 9}), "planned for data = 1: ");
}
TEST(Explain, DoesNotCallAssumedWhatFollows) {
  constexpr cleave::function halves([](auto x) {
    return sum(split(x, embed, cleave::dim<"half", 2>{}, cleave::dim<"rest">{}), cleave::dim<"half", 2>{});
  });
  constexpr auto folded = cleave::plan<cleave::abstract<float, mesh(batch / data, cleave::dim<"rest">{})>(X)>(halves);
  EXPECT_EQ(explain(folded, {data = 2, model = 2, batch = 8, embed = 16}).find("assumed"), std::string::npos);
  expect_has(explain(folded, {data = 2, model = 2, batch = 8}), "embed = ");
}
TEST(Explain, ShowsEachValueOfExchangesThatShareMessages) {
  constexpr cleave::function both(
      [](auto u, auto v) { return std::pair(shift(u, batch, 1) + u, shift(v, batch, -1) + shift(v, batch, 2)); });
  constexpr auto of_both = cleave::plan<std::pair<X, X>(X, X)>(both);
  static_assert(of_both.collectives() == 1 && of_both.count(cleave::kind::exchange) == 1);
  static_assert(of_both.count(cleave::kind::none) == 0);
  const std::string text = explain(of_both, {data = 2, model = 2, batch = 256, embed = 16});
  expect_has(text, "\nexchange    data  f32[batch/data, embed]  f32[batch/data, embed]  64 ");
  expect_has(text, "\n+ exchange  data  f32[batch/data, embed]  f32[batch/data, embed]  128 ");
  expect_has(text, "each device reads the neighbours of its block, while others compute, unless arg 0 keeps them\n");
  expect_has(text, "each device reads the neighbours of its block, in the same messages, unless arg 1 keeps them\n");
  expect_has(text, "total 192 bytes a device");
}
TEST(Explain, SaysThatAHaloMayStayOnlyIfItMay) {
  constexpr cleave::function shifted([](auto u) { return shift(u, batch, 1) + u; });
  expect_has(explain(cleave::plan<X(X)>(shifted), {data = 2, model = 2}), ", unless arg 0 keeps them\n");
  // A sort reads a contiguous copy of its operand.
  constexpr cleave::function and_sorted([](auto u) { return std::pair(shift(u, batch, 1) + u, sort(u, embed)); });
  const std::string text = explain(cleave::plan<std::pair<X, X>(X)>(and_sorted), {data = 2, model = 2});
  expect_has(text, "each device reads the neighbours of its block");
  EXPECT_EQ(text.find("unless"), std::string::npos);
}
TEST(Explain, SaysSoWhereNothingMoves) {
  constexpr cleave::function twice([](auto x) { return x + x; });
  expect_has(explain(cleave::plan<X(X)>(twice)), "no communication");
}
TEST(Explain, ListsThePassesOverMemory) {
  constexpr cleave::function star([](auto x) {
    return roll(x, batch, 1) + roll(x, batch, -1) + shift(x, embed, 1) + shift(x, embed, -1) +
           (roll(x, batch, 2) + roll(x, batch, -2) - 6.0f * x);
  });
  constexpr auto of_star = cleave::plan<X(X)>(star);
  const std::string text = explain_passes(of_star, {data = 2, model = 2, batch = 256, embed = 16});
  // A halo of two rows at both ends, and of one column of zeros; a shard of 128 rows.
  constexpr int halo = 4 * 16 * 4 + 2 * 128 * 4, shard = 128 * 16 * 4;
  // Both ends go to one other device, in one message that is packed and unpacked; to two devices they go as they are.
  EXPECT_EQ(of_star.workspace({data = 2, model = 2, batch = 256, embed = 16}), halo + 2 * 4 * 16 * 4);
  EXPECT_EQ(of_star.parts_of_workspace({data = 2, model = 2, batch = 256, embed = 16}).values, halo);
  EXPECT_EQ(of_star.workspace({data = 4, model = 2, batch = 512, embed = 16}), halo);
  expect_has(text,
             "  " + cleave::detail::grouped(shard + halo) + "    " + cleave::detail::grouped(shard) + "      0\n");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}
TEST(Explain, CountsTheBoxesOfAPass) {
  constexpr cleave::function inner([](auto x) { return cleave::interior(2.0f * x, x, 1, batch, embed); });
  constexpr auto of_inner = cleave::plan<X(X)>(inner);
  // The interior, the other columns of its rows, and the other rows.
  expect_has(explain_passes(of_inner), "elementwise in 3 boxes");
}

TEST(Explain, NamesTheArraysOfEveryPassAndAddsUp) {
  EXPECT_EQ(without_lines(explain_passes(plan, {data = 2, model = 4, batch = 8, embed = 16, hidden = 32}), first_line),
            R"(
pass         for                       reads            writes    bytes read  written  moved
product      dot explain_test.cpp:+0   arg 0, arg 1     dot:+0           768      128      0
elementwise  relu explain_test.cpp:+0  dot:+0           relu:+0          128      128      0
product      dot explain_test.cpp:+1   relu:+0, arg 2   dot:+1           640      256      0
move         dot explain_test.cpp:+1   dot:+1           dot:+1#2         256      256    384
elementwise  add explain_test.cpp:+1   dot:+1#2, arg 0  result 0         512      256      0
total        5 passes                                                  2,304    1,024    384
)");
}
TEST(Explain, CountsPassesOfLoopsAndWhatIsReadAroundAShard) {
  const std::string text = explain_passes(cleave::plan<X(X, int)>(sweeps),
                                          {data = 2, model = 2, batch = 8, embed = 16});
  // A shard of 4 rows and a halo of 2, of 64 bytes each; 16 iterations are assumed.
  EXPECT_EQ(without_lines(text, line_of_sweeps), R"(
pass         for                             reads                       writes            bytes read  written  moved  times
elementwise  carry explain_test.cpp:+0       arg 0                       result 0                 256      256      0      1
exchange     shift explain_test.cpp:+0       result 0                    halo of result 0         128      128     64     16
elementwise  mul explain_test.cpp:+0         result 0, halo of result 0  mul:+0                   384      256      0     16
elementwise  loop_yield explain_test.cpp:+0  mul:+0                      result 0                 256      256      0     16
total        49 passes                                                                         12,544   10,496  1,024
)");
}
TEST(Explain, AnUpdateWritesWhatChangesAlone) {
  static constexpr cleave::dim<"one", 1> one;
  using Cache = cleave::abstract<float, mesh(batch, embed)>;
  using Row = cleave::abstract<float, mesh(one, embed)>;
  constexpr cleave::function decode(
      [](auto cache, auto row, auto place) { return cleave::dynamic_update(cache, batch, row, one, place); });
  constexpr auto of_decode = cleave::plan<Cache(Cache, Row, int)>(decode);
  const std::string text = explain_passes(of_decode, {batch = 1 << 20, embed = 16});
  // The step of the update; before it the copy of the cache, which is nothing where the result is the argument.
  const std::size_t update = text.find("exchange");
  ASSERT_NE(update, std::string::npos);
  expect_has(text.substr(update), " 64  ");
  EXPECT_LT(of_decode.workspace({batch = 1 << 20, embed = 16}), 100);
}
TEST(Explain, ASliceReadsWhatItHas) {
  static constexpr cleave::dim<"one", 1> one;
  using Cache = cleave::abstract<float, mesh(batch, embed)>;
  using Row = cleave::abstract<float, mesh(one, embed)>;
  constexpr cleave::function row_at([](auto cache, auto at) { return cleave::dynamic_slice(cache, batch, one, at); });
  const std::string text = explain_passes(cleave::plan<Row(Cache, int)>(row_at), {batch = 1 << 20, embed = 16});
  // A row of 64 bytes and the number of the row.
  const std::size_t slice = text.find("exchange");
  ASSERT_NE(slice, std::string::npos);
  expect_has(text.substr(slice), "  68       64      0\n");
}
TEST(Explain, NamesWhatALoopLeaves) {
  constexpr cleave::function halves([](auto x, auto times) {
    return max(x, embed) + std::get<1>(repeat_times(times, std::tuple(x, max(x, embed)), [](auto state) {
             const auto next = 0.5f * std::get<0>(state);
             return std::tuple(next, std::get<1>(state) + sum(next, embed));
           }));
  });
  using Y = cleave::abstract<float, mesh(batch / data)>;
  const std::string text = explain_passes(cleave::plan<Y(X, int)>(halves), {data = 2, batch = 8, embed = 16});
  EXPECT_EQ(text.find("slot "), std::string::npos) << text;
}
TEST(Explain, ShowsTheLayoutOfEveryValue) {
  const std::string text = cleave::explain_layouts<X(X, Up, Down)>(mlp);
  expect_has(text, "%4 = relu(%3): f32[batch/data, hidden/model]  line " + std::to_string(first_line));
  expect_has(text, "%5 = dot(%4, %2 over hidden): f32[batch/data, embed | unreduced(model)]");
  expect_has(text, "%6 = add(%5, %0): f32[batch/data, embed]");
}

} // namespace CLEAVE_SOURCE
