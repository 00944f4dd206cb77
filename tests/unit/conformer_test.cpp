// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layers of examples/speech.cpp in two stages: values and gradients of JAX (tests/reference), on one device and on
// four.
#include "../../examples/conformer.hpp"
#include "../differences.hpp"
#include "../reference/layers_jax.hpp"

#include <cleave/expr/gradient.hpp>
#include <cleave/plan/hints.hpp>
#include <cleave/plan/partition.hpp>
#include <cleave/simulate/simulate.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <tuple>
#include <vector>

namespace CLEAVE_SOURCE {

using namespace cleave;
using namespace conformers;

constexpr axis<"pipe"> pipe;
constexpr axis<"model"> model;
constexpr cleave::mesh devices{pipe, model};
constexpr auto layout = nn::model_layout{nn::layout_rules{devices, nn::after(layer, stage / pipe), heads / model,
                                                          hidden / model, inner / model},
                                         nn::layout_rules{devices, stage / pipe, nn::before(batch, microbatch),
                                                          heads / model, hidden / model, inner / model}}
                            .scheduled(nn::pipelined{stage, microbatch});
using X = abstract<float, layout.activations(batch, position, embed)>;
template <template <class, auto> class Tensor>
struct given {
  Tensor<float, layout.activations(batch, position, embed)> x;
  typename conformer<layout.parameters>::template in<Tensor> layers;
};
struct slopes {
  template <class G>
  constexpr auto operator()(const G& g) const {
    const auto loss = [](const auto& of) { return sum(sin(encoded<layout>(of.x, of.layers))); };
    const auto slope = grad(function(loss))(g);
    return std::tuple(encoded<layout>(g.x, g.layers), slope.x, slope.layers.depthwise);
  }
};
using asked = std::tuple<X, X, abstract<float, layout.parameters(layer, kernel, inner)>>(given<abstract>);

TEST(Conformer, LayersInStagesAreThoseOfJax) {
  const graph g = recording<slopes, asked>::record();
  ASSERT_TRUE(g.found.ok()) << g.found.op << " " << g.found.dim;
  for (const std::int64_t devices : {1, 2}) {
    const cleave::sizes at = sizes_for(g, std::vector<named_size>{{"microbatch", 3},
                                                                  {"batch", 1},
                                                                  {"position", 4},
                                                                  {"layer", 2},
                                                                  {"stage", 2},
                                                                  {"embed", 4},
                                                                  {"hidden", 6},
                                                                  {"heads", 2},
                                                                  {"head", 2},
                                                                  {"inner", 3},
                                                                  {"source", 4},
                                                                  {"pipe", devices},
                                                                  {"model", devices}});
    std::vector<host_array> data;
    for (std::size_t a = 0; a < g.inputs.size(); ++a) {
      data.emplace_back(shape_of(g.nodes[g.inputs[a]].type, at));
      for (std::size_t i = 0; i < data[a].data.size(); ++i)
        data[a].data[i] = std::sin(0.7 * static_cast<double>(i) + 1.1 * static_cast<double>(a));
    }
    const program p = partition(g, at);
    ASSERT_TRUE(p.found.ok()) << p.found.op << " " << p.found.dim;
    const simulated many = simulate(p, at, data);
    ASSERT_EQ(many.problem, "");
    for (const auto& results : std::array{evaluate(g, at, data), many.results}) {
      std::vector<double> got;
      for (const host_array& r : results) got.insert(got.end(), r.data.begin(), r.data.end());
      ASSERT_EQ(got.size(), recorded::conformer.size());
      EXPECT_EQ(first_difference(recorded::conformer, got, 1e-9), -1);
    }
  }
}

} // namespace CLEAVE_SOURCE
