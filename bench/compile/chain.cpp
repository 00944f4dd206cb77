// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What compile_time.py compiles: the plan of a chain of LINKS links of four nodes each, two products and two
// elementwise operations, on a mesh of two axes. Its cost tells how planning grows with the number of nodes. It
// compiles no kernel.
#include <cleave/cleave.hpp>

namespace chain {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
using Activations = cleave::abstract<float, mesh(batch / data, embed)>;
using Up = cleave::abstract<float, mesh(embed, hidden / model)>;
using Down = cleave::abstract<float, mesh(hidden / model, embed)>;

constexpr cleave::function links([](auto x, auto up, auto down) {
  for (int i = 0; i < LINKS; ++i) x = dot(gelu(dot(x, up, embed)), down, hidden) + x;
  return x;
});
constexpr auto plan = cleave::plan<Activations(Activations, Up, Down)>(links);
static_assert(plan.count(cleave::kind::all_reduce) == LINKS && plan.collectives() == LINKS);

} // namespace chain
