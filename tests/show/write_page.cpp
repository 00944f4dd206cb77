// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes to standard output the page of a plan with a loop, collectives and times, its record as JSON (`--json`), or
// the picture of a layout (`--layout`).
#include <cleave/expr/functions.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/show/plan_page.hpp>
#include <cleave/show/visualise.hpp>

#include <cstdio>
#include <string>

namespace {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"copy"> copy;
inline constexpr cleave::dim<"layer", 6> layer;
using X = cleave::abstract<float, mesh(batch / data, embed)>;
using Weights = cleave::abstract<float, mesh(layer, embed / model, copy)>;

constexpr cleave::function layers([](auto x, const auto& weights) {
  return scan(layer, x, weights, [](auto v, auto w) { return rename(relu(dot(v, w, embed)), copy, embed); });
});

} // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "--page";
  if (what == "--layout") {
    std::printf("%s",
                cleave::visualise(mesh(batch / data, embed), {batch = 4, embed = 2, data = 2, model = 2}).c_str());
    return 0;
  }
  const auto s = cleave::study::of<X(X, Weights)>(layers, {"x", "weights"});
  const auto plan = s.plan({batch = 4096, embed = 512, copy = 512, data = 4, model = 8});
  const cleave::plan_record record = record_of(plan, cleave::machines::a100);
  std::puts((what == "--json" ? to_json(record) : plan_page(record, "Six <layers>")).c_str());
}
