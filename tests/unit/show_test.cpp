// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records of plans beside the numbers of the plans, their JSON, their differences, their page, and pictures of layouts.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/nn/layout_rules.hpp>
#include <cleave/show/plan_diff.hpp>
#include <cleave/show/plan_page.hpp>
#include <cleave/show/visualise.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"copy"> copy;
inline constexpr cleave::dim<"layer", 6> layer;
using X = cleave::abstract<float, mesh(batch / data, embed)>;
using Up = cleave::abstract<float, mesh(embed, hidden / model)>;
using Down = cleave::abstract<float, mesh(hidden / model, embed)>;
using Square = cleave::abstract<float, mesh(layer, embed / model, copy)>;

constexpr cleave::function mlp([](auto x, auto up, auto down) {
  return dot(relu(dot(x, up, embed)), down, hidden) + x;
});
constexpr cleave::function layers([](auto x, const auto& weights) {
  return scan(layer, x, weights, [](auto v, auto w) { return rename(relu(dot(v, w, embed)), copy, embed); });
});

cleave::studied_plan planned(const char* result_layout) {
  auto s = cleave::study::of<X(X, Up, Down)>(mlp, {"x", "up", "down"});
  s.lay_out("result", cleave::layout_table(result_layout));
  return s.plan({batch = 64, embed = 128, hidden = 256, data = 2, model = 4});
}
cleave::studied_plan of_layers() {
  const auto s = cleave::study::of<X(X, Square)>(layers, {"x", "weights"});
  return s.plan({batch = 64, embed = 128, copy = 128, data = 2, model = 4});
}
const auto of_array = [](const cleave::plan_record& r, const std::string& name) {
  return *std::find_if(r.arrays.begin(), r.arrays.end(), [&](const auto& a) { return a.name == name; });
};

TEST(Show, a_record_has_the_numbers_of_the_plan) {
  const cleave::studied_plan p = planned("batch / data");
  const cleave::plan_record r = record_of(p, cleave::machines::a100);
  EXPECT_EQ(r.bytes, p.bytes());
  EXPECT_EQ(r.workspace, p.memory().workspace.total());
  EXPECT_EQ(r.arguments, 4 * (32 * 128 + 128 * 64 + 64 * 128));
  EXPECT_EQ(r.seconds, p.predict(cleave::machines::a100).seconds);
  EXPECT_EQ(r.flops, 2 * 2 * 32 * 128 * 64);
  std::int64_t moved = 0, flops = 0, collectives = 0;
  double exposed = 0;
  for (const cleave::step_record& s : r.steps) {
    moved += s.times * s.bytes_moved;
    flops += s.times * s.flops;
    collectives += s.communicates && !s.joined;
    exposed += s.exposed;
    EXPECT_NE(s.line, 0);
    EXPECT_EQ(s.file, "show_test.cpp");
  }
  EXPECT_EQ(moved, r.bytes);
  EXPECT_EQ(flops, r.flops);
  EXPECT_EQ(collectives, p.collectives());
  EXPECT_DOUBLE_EQ(exposed, p.predict(cleave::machines::a100).exposed);
  EXPECT_EQ(of_array(r, "up").type, "f32[embed, hidden/model]");
  EXPECT_EQ(of_array(r, "up").bytes, 4 * 128 * 64);
  EXPECT_EQ(of_array(r, "result").role, "result");
}

// A compiled plan names its arguments by the members of aggregates, as a plan at run time does.
template <template <class, auto> class Tensor>
struct two_weights {
  Tensor<float, mesh(embed, hidden / model)> up;
  Tensor<float, mesh(hidden / model, embed)> down;
};
TEST(Show, a_compiled_plan_has_the_names_of_its_arguments) {
  constexpr auto plan = cleave::plan<X(X, two_weights<cleave::abstract>)>(
      cleave::function([](auto x, const auto& w) { return dot(relu(dot(x, w.up, embed)), w.down, hidden) + x; }));
  const auto sizes = {batch = 64, embed = 128, hidden = 256, data = 2, model = 4};
  const cleave::plan_record named = record_of(plan, sizes, {"x", "weights"}),
                            timed = record_of(plan, cleave::machines::a100, sizes);
  EXPECT_EQ(of_array(named, "weights.down").type, "f32[hidden/model, embed]");
  EXPECT_EQ(of_array(named, "x").role, "argument");
  EXPECT_EQ(of_array(timed, "arg 1.up").type, "f32[embed, hidden/model]");
  EXPECT_EQ(of_array(timed, "result").role, "result");
  EXPECT_EQ(named.bytes, plan.bytes(sizes));
  EXPECT_GT(timed.seconds, 0);
}

TEST(Show, a_record_counts_the_iterations_of_loops) {
  const cleave::studied_plan p = of_layers();
  const cleave::plan_record r = record_of(p);
  EXPECT_EQ(r.bytes, p.bytes());
  std::int64_t in_loop = 0, moved = 0;
  for (const cleave::step_record& s : r.steps) {
    EXPECT_EQ(s.times, s.loop != 0 ? 6 : 1);
    in_loop += s.loop != 0;
    moved += s.times * s.bytes_moved;
  }
  EXPECT_GT(in_loop, 1);
  EXPECT_EQ(moved, r.bytes);
}

// Values that a later step needs never take more than the workspace.
TEST(Show, live_values_fit_in_the_workspace) {
  for (const cleave::plan_record& r : {record_of(planned("batch / data")), record_of(of_layers())}) {
    std::int64_t most = 0;
    for (int i = 0; i < std::ssize(r.steps); ++i) {
      std::vector<std::int64_t> slots(r.arrays.size(), 0);
      for (const cleave::array_record& a : r.arrays)
        if (a.slot >= 0 && a.first <= i && i <= a.last) {
          std::int64_t& slot = slots[static_cast<std::size_t>(a.slot)];
          slot = std::max(slot, a.bytes);
        }
      std::int64_t sum = 0;
      for (const std::int64_t slot : slots) sum += slot;
      most = std::max(most, sum);
    }
    EXPECT_GT(most, 0);
    EXPECT_LE(most, r.workspace);
  }
}

TEST(Show, json_is_read_as_it_was_written) {
  for (cleave::plan_record r : {record_of(planned("batch / data"), cleave::machines::h100), record_of(of_layers())}) {
    r.arrays[0].name = "a \"name\"\\\n\x01 of <letters>";
    EXPECT_EQ(cleave::plan_of_json(to_json(r)), r);
  }
}
TEST(Show, other_text_is_no_plan) {
  EXPECT_THROW(cleave::plan_of_json(""), cleave::file_error);
  EXPECT_THROW(cleave::plan_of_json("[]"), cleave::file_error);
  EXPECT_THROW(cleave::plan_of_json(R"({"arrays":[],"steps":[{"writes":0}]})"), cleave::file_error);
  EXPECT_THROW(cleave::plan_of_json(R"({"bytes":1.5})"), cleave::file_error);
  std::string cut = to_json(record_of(planned("batch / data")));
  for (std::size_t n = 0; n + 2 < cut.size(); n += 97)
    EXPECT_THROW(cleave::plan_of_json(cut.substr(0, n)), cleave::file_error);
  EXPECT_EQ(cleave::plan_of_json(R"({"bytes":7,"of a later version":{"a":[1,null]}})").bytes, 7);
}

TEST(Show, a_plan_differs_from_itself_in_nothing) {
  const cleave::plan_record r = record_of(planned("batch / data"));
  EXPECT_TRUE(plan_diff(r, r).none());
  EXPECT_EQ(to_string(plan_diff(r, r)), "");
}
TEST(Show, a_changed_collective_is_a_difference) {
  const cleave::plan_record before = record_of(planned("batch / data")),
                            after = record_of(planned("batch / data, embed / model"));
  const cleave::plan_changes d = plan_diff(before, after);
  EXPECT_FALSE(d.same_collectives());
  ASSERT_EQ(d.removed.size(), 1u);
  ASSERT_EQ(d.added.size(), 1u);
  EXPECT_EQ(d.removed[0].what,
            "all_reduce over model: f32[batch/data, embed | unreduced(model)] -> f32[batch/data, embed], for dot");
  EXPECT_EQ(d.removed[0].bytes, before.bytes);
  EXPECT_EQ(d.added[0].bytes, after.bytes);
  EXPECT_NE(to_string(d).find("+ 1 x reduce_scatter over model"), std::string::npos);
  EXPECT_NE(to_string(d).find("bytes moved: 24576 -> 12288 (0.5 of it)"), std::string::npos);
  // The memory of the result, which both plans have under one name.
  EXPECT_NE(to_string(d).find("- 1 x result f32[batch/data, embed], 16384 bytes\n"
                              "+ 1 x result f32[batch/data, embed/model], 4096 bytes\n"),
            std::string::npos)
      << to_string(d);
}
TEST(Show, moved_text_is_no_difference) {
  cleave::plan_record before = record_of(planned("batch / data")), after = before;
  for (cleave::step_record& s : after.steps) s.line += 10;
  EXPECT_TRUE(plan_diff(before, after).none());
  after.steps.back().bytes_moved += 1;
  for (cleave::step_record& s : after.steps)
    if (s.communicates) ++s.bytes_moved;
  EXPECT_EQ(plan_diff(before, after).changed.size(), 1u);
}
TEST(Show, an_array_that_grows_or_goes_is_a_difference) {
  const cleave::plan_record before = record_of(planned("batch / data"));
  cleave::plan_record after = before;
  after.arrays[0].bytes *= 2;
  after.arrays.push_back({"made", "f32[batch]", "value", 256});
  const cleave::plan_changes d = plan_diff(before, after);
  EXPECT_TRUE(d.same_collectives());
  EXPECT_FALSE(d.none());
  ASSERT_EQ(d.arrays.size(), 2u);
  EXPECT_EQ(d.arrays[0].after.bytes, 2 * d.arrays[0].before.bytes);
  EXPECT_EQ(d.arrays[1].before.count, 0);
  EXPECT_NE(to_string(d).find("\n+ 1 x value f32[batch], 256 bytes\n"), std::string::npos);
  EXPECT_EQ(to_string(plan_diff(after, before)).find("+ 1 x value"), std::string::npos);
}

TEST(Show, a_page_has_the_plan_and_no_markup_of_its_names) {
  cleave::plan_record r = record_of(planned("batch / data"));
  r.arrays[0].name = "</script><b>";
  const std::string page = plan_page(r, "x < y");
  EXPECT_NE(page.find("<title>x &lt; y</title>"), std::string::npos);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  const std::string begin = "id=\"plan\">";
  const std::size_t from = page.find(begin) + begin.size();
  std::string json = page.substr(from, page.find("</script>", from) - from);
  EXPECT_EQ(cleave::plan_of_json(json), r);
}

TEST(Show, a_layout_is_drawn_as_blocks_with_their_devices) {
  const std::string of_up =
      "  hidden 0:4    hidden 4:8    hidden 8:10\n"
      "+-------------+-------------+-------------+\n"
      "| 0,3         | 1,4         | 2,5         |\n"
      "+-------------+-------------+-------------+\n";
  EXPECT_EQ(cleave::visualise<Up>({embed = 6, hidden = 10, data = 2, model = 3}, {.colours = false}), of_up);
  EXPECT_EQ(cleave::visualise(mesh(embed, hidden / model), {embed = 6, hidden = 10, data = 2, model = 3},
                              {.colours = false}),
            of_up);
  using Both = cleave::abstract<float, mesh(batch / data, embed / model)>;
  EXPECT_EQ(cleave::visualise<Both>({batch = 4, embed = 2, data = 2, model = 2}, {.colours = false}),
            "            embed 0:1   embed 1:2\n"
            "          +-----------+-----------+\n"
            "batch 0:2 | 0         | 1         |\n"
            "          +-----------+-----------+\n"
            "batch 2:4 | 2         | 3         |\n"
            "          +-----------+-----------+\n");
  using Whole = cleave::abstract<float, mesh(batch)>;
  EXPECT_EQ(cleave::visualise<Whole>({batch = 4, data = 2, model = 2}, {.colours = false}),
            "+-----+\n| 0-3 |\n+-----+\n");
  EXPECT_NE(cleave::visualise<Both>({batch = 4, embed = 2, data = 2, model = 2}, {.colours = true}).find("\x1b["),
            std::string::npos);
}
TEST(Show, three_sharded_dims_are_several_pictures_and_partial_values_are_named) {
  using Three = cleave::abstract<
      float, cleave::mesh{cleave::axis<"a", 2>{}, cleave::axis<"b", 2>{}, cleave::axis<"c", 2>{}}(
                 batch / cleave::axis<"a", 2>{}, embed / cleave::axis<"b", 2>{}, hidden / cleave::axis<"c", 2>{})>;
  const std::string drawn = cleave::visualise<Three>({batch = 2, embed = 2, hidden = 2}, {.colours = false});
  EXPECT_EQ(drawn.substr(0, 10), "batch 0:1\n");
  EXPECT_NE(drawn.find("\nbatch 1:2\n"), std::string::npos);
  EXPECT_NE(drawn.find("| 7"), std::string::npos);
  using Partial = cleave::abstract<float, mesh(batch, cleave::unreduced(model))>;
  EXPECT_NE(cleave::visualise<Partial>({batch = 2, data = 1, model = 2}).find("combined over model"),
            std::string::npos);
}
TEST(Show, a_layout_without_sizes_is_not_drawn) {
  EXPECT_THROW(cleave::visualise<X>({batch = 4, data = 2, model = 2}), cleave::shape_error);
  EXPECT_THROW(cleave::visualise<X>({batch = 4, embed = 2, data = 2}), cleave::shape_error);
}

} // namespace CLEAVE_SOURCE
