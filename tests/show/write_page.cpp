// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the page of a plan with a loop, collectives and times to standard output.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/show/plan_page.hpp>

#include <cstdio>

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

int main() {
  const auto s = cleave::study::of<X(X, Weights)>(layers, {"x", "weights"});
  const auto plan = s.plan({batch = 4096, embed = 512, copy = 512, data = 4, model = 8});
  std::puts(plan_page(record_of(plan, cleave::machines::a100), "Six <layers>").c_str());
}
