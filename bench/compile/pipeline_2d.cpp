// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What compile_time.py compiles: the plan of a training step of the 2-D sharded Transformer of GSPMD's paper (Xu et al.
// 2021, table 1), in a pipeline of stages, with mixed precision and Adafactor.
#include <cleave/cleave.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/optim/adafactor.hpp>
#include <cleave/optim/mixed.hpp>

namespace pipelined {

namespace nn = cleave::nn;
using Element = cleave::bfloat16;

inline constexpr cleave::axis<"p"> p;
inline constexpr cleave::axis<"x"> x;
inline constexpr cleave::axis<"y"> y;
inline constexpr cleave::mesh mesh{p, x, y};
inline constexpr cleave::dim<"stage"> stage;
inline constexpr cleave::dim<"microbatch"> microbatch;
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"position"> position;
inline constexpr cleave::dim<"source"> source;
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"heads", cleave::dynamic, cleave::promise::divisible> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr auto layout =
    nn::model_layout{nn::layout_rules{mesh, nn::after(layer, stage / p), embed / x, heads / y, hidden / y},
                     nn::layout_rules{mesh, stage / p, nn::before(batch, microbatch), batch / x, heads / y, hidden / y,
                                      embed / y}}
        .scheduled(nn::pipelined<cleave::dim<"stage">, cleave::dim<"microbatch">, 1, cleave::dim<"round", 1>, true>{});

template <template <class, auto> class Tensor>
struct weights {
  Tensor<float, layout.parameters(layer, embed, heads, head)> query, key, value, out;
  Tensor<float, layout.parameters(layer, embed, hidden)> up, down;
};
using Weights = weights<cleave::abstract>;
using Activations = cleave::abstract<Element, layout.activations(batch, position, embed)>;
using Number = cleave::abstract<float, mesh()>;
using State = cleave::optim::adafactor_state<Weights, Number>;

constexpr auto pin = [](const auto& v) { return constrain(v, layout.activations); };
constexpr auto block = [](const auto& h, const auto& stored) {
  const auto w = cleave::optim::lowered<Element>(stored);
  const auto sources = rename(h, position, source);
  const auto q = pin(dot(h, w.query, embed)), k = pin(dot(sources, w.key, embed)),
             v = pin(dot(sources, w.value, embed));
  const auto seen = pin(dot(softmax(dot(q, k, head), source), v, source));
  const auto m = pin(h + dot(seen, w.out, heads, head));
  return pin(m + dot(pin(relu(dot(m, w.up, embed))), w.down, hidden));
};
constexpr cleave::function loss([](const auto& w, const auto& in) {
  const auto out = cast<float>(nn::blocks(layout, layer, in, w, block));
  return mean(out * out);
});
constexpr cleave::function step([](const auto& w, const auto& s, const auto& in) {
  const auto [value, slope] = cleave::value_and_grad(loss)(w, in);
  return std::tuple_cat(cleave::optim::adafactor(w, s, slope), std::tuple(value));
});
constexpr auto sized = cleave::with(step, cleave::expect<batch, 8>{}, cleave::expect<position, 1024>{},
                                    cleave::expect<source, 1024>{}, cleave::expect<layer, 16>{},
                                    cleave::expect<stage, 4>{}, cleave::expect<microbatch, 32>{},
                                    cleave::expect<embed, 8192>{}, cleave::expect<heads, 128>{},
                                    cleave::expect<head, 256>{}, cleave::expect<hidden, 65536>{},
                                    cleave::expect<p, 4>{}, cleave::expect<x, 4>{}, cleave::expect<y, 8>{});
constexpr auto plan = cleave::plan<std::tuple<Weights, State, Number>(Weights, State, Activations)>(sized);
static_assert(plan.collectives() > 0);

} // namespace pipelined
