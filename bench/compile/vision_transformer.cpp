// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What compile_time.py compiles: the training step of vision_model.hpp. With PLAN_ONLY the plan is made and nothing is
// compiled that runs.
#include "vision_model.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/parameters.hpp>

namespace vision {

using Network = types<cleave::tensor>::Network;
using Images = types<cleave::tensor>::Images;
using Labels = types<cleave::tensor>::Labels;
using Number = types<cleave::tensor>::Number;
using State = types<cleave::tensor>::State;

constexpr auto sized = cleave::with(step, cleave::expect<batch, 48>{}, cleave::expect<layer, 2>{},
                                    cleave::expect<embed, 32>{}, cleave::expect<heads, 4>{}, cleave::expect<head, 8>{},
                                    cleave::expect<hidden, 64>{}, cleave::expect<data, 2>{},
                                    cleave::expect<model, 2>{});

#ifdef PLAN_ONLY
constexpr auto plan = cleave::plan<std::tuple<Network, State, Number>(Network, State, Images, Labels, float)>(sized);
static_assert(plan.count(cleave::kind::all_reduce) > 0);
#else
constexpr cleave::function right([](auto p, auto images, auto labels) {
  return mean(cast<float>(argmax(scores(p, images), digit) == labels));
});
void run(Network& p, State& s, const Images& images, const Labels& labels, Number& value) {
  sized(p, s, images, labels, 0.001f).into(p, s, value);
  value = right(p, images, labels);
}
#endif

} // namespace vision
