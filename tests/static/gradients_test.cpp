// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the gradients of a model move, under the layouts in which models are trained. Checked by compiling.
#include <cleave/expr/gradient.hpp>
#include <cleave/plan/plan.hpp>

namespace {

using cleave::kind;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

template <auto Layout>
using f32 = cleave::abstract<float, Layout>;
using Batch = f32<mesh(batch / data, embed)>;
using Number = f32<mesh()>;

constexpr cleave::function layer([](auto x, auto up, auto bias, auto down) {
  return dot(gelu(dot(x, up, embed) + bias), down, hidden);
});
constexpr cleave::function loss([](auto w, auto x, auto y) {
  const auto off = layer(x, w.up, w.bias, w.down) - y;
  return mean(off * off);
});
constexpr cleave::function step([](auto w, auto x, auto y) {
  const auto [value, slope] = cleave::value_and_grad(loss)(w, x, y);
  w.up = w.up - 0.1 * slope.up;
  w.bias = w.bias - 0.1 * slope.bias;
  w.down = w.down - 0.1 * slope.down;
  return std::tuple(w, value);
});

// Data parallelism: one all-reduce a parameter, and one of the loss. Only its bytes.
template <template <class, auto> class Tensor = cleave::abstract>
struct replicated {
  Tensor<float, mesh(embed, hidden)> up;
  Tensor<float, mesh(hidden)> bias;
  Tensor<float, mesh(hidden, embed)> down;
};
constexpr cleave::expect<model, 1> no_model;
// Many more tokens than a layer is wide, so that moving parameters is cheaper than moving activations.
constexpr cleave::expect<batch, 65536> many;
constexpr auto data_parallel =
    cleave::plan<std::tuple<Number, replicated<>>(replicated<>, Batch, Batch)>(cleave::value_and_grad(loss), no_model);
static_assert(data_parallel.collectives() == 4 && data_parallel.count(kind::all_reduce) == 4);
static_assert(data_parallel.bytes({data = 4, model = 1, batch = 64, embed = 16, hidden = 32}) ==
              2 * 3 * 4 * (16 * 32 + 32 + 32 * 16 + 1) / 4);

// ZeRO: the parameters sharded over data. Each gradient is reduce-scattered once, straight to its parameter; each
// parameter is gathered once, and kept for the backward pass.
template <template <class, auto> class Tensor = cleave::abstract>
struct scattered {
  Tensor<float, mesh(embed / data, hidden)> up;
  Tensor<float, mesh(hidden / data)> bias;
  Tensor<float, mesh(hidden / data, embed)> down;
};
constexpr auto zero = cleave::plan<std::tuple<scattered<>, Number>(scattered<>, Batch, Batch)>(step, no_model, many);
static_assert(zero.count(kind::reduce_scatter) == 3 && zero.count(kind::all_gather) == 3 &&
              zero.count(kind::all_reduce) == 1 && zero.collectives() == 7);

// ZeRO-1: replicated parameters whose update is sharded: reduce-scatter, update, gather.
constexpr cleave::function divided_update([](auto w, auto x, auto y) {
  const auto [value, slope] = cleave::value_and_grad(loss)(w, x, y);
  w.up = w.up - 0.1 * constrain(slope.up, mesh(embed / data));
  w.bias = w.bias - 0.1 * slope.bias;
  w.down = w.down - 0.1 * constrain(slope.down, mesh(hidden / data));
  return std::tuple(w, value);
});
constexpr auto zero1 = cleave::plan<std::tuple<replicated<>, Number>(replicated<>, Batch, Batch)>(divided_update,
                                                                                                  no_model);
static_assert(zero1.count(kind::reduce_scatter) == 2 && zero1.count(kind::all_gather) == 2 &&
              zero1.count(kind::all_reduce) == 2);

// Recomputing the layer gathers its parameters again.
constexpr cleave::function cheap_loss([](auto w, auto x, auto y) {
  const auto off = remat(layer)(x, w.up, w.bias, w.down) - y;
  return mean(off * off);
});
constexpr auto recomputed =
    cleave::plan<std::tuple<Number, scattered<>>(scattered<>, Batch, Batch)>(cleave::value_and_grad(cheap_loss),
                                                                             no_model, many);
static_assert(recomputed.count(kind::all_gather) == 6 && recomputed.count(kind::reduce_scatter) == 3);

// Tensor parallelism: the activations are reduced once forward; the input has no gradient here, so nothing backward but
// the data-parallel all-reduces of the shards.
template <template <class, auto> class Tensor = cleave::abstract>
struct megatron {
  Tensor<float, mesh(embed, hidden / model)> up;
  Tensor<float, mesh(hidden / model)> bias;
  Tensor<float, mesh(hidden / model, embed)> down;
};
constexpr auto tensor_parallel = cleave::plan<std::tuple<megatron<>, Number>(megatron<>, Batch, Batch)>(step);
static_assert(tensor_parallel.collectives() == 5 && tensor_parallel.count(kind::all_reduce) == 5);
static_assert(tensor_parallel.bytes({data = 1, model = 4, batch = 64, embed = 16, hidden = 32}) ==
              2 * 3 * (64 * 16 * 4) / 4);
// With the gradient of its input, one more: of the cotangent, where the layer begins.
constexpr auto with_input =
    cleave::plan<std::tuple<megatron<>, Batch>(megatron<>, Batch, Batch)>(cleave::grad<0, 1>(loss),
                                                                          cleave::expect<data, 1>{});
static_assert(with_input.bytes({data = 1, model = 4, batch = 64, embed = 16, hidden = 32}) ==
              2 * 2 * 3 * (64 * 16 * 4) / 4);

// Unreduced and replicated are each other's duals: the gradient by a partial value needs no communication, that of a
// replicated one is partial.
using Partial = f32<mesh(batch, embed, cleave::unreduced(data))>;
constexpr cleave::function linear([](auto x, auto w) { return sum(x * w); });
static_assert(
    cleave::plan<f32<mesh(batch, embed)>(Partial, f32<mesh(batch, embed)>)>(cleave::grad(linear)).collectives() == 0);
constexpr cleave::function weighted([](auto w, auto x) { return sum(x * w); });
static_assert(cleave::plan<f32<mesh(embed, cleave::unreduced(data))>(f32<mesh(embed)>, Batch)>(cleave::grad(weighted))
                  .collectives() == 0);
static_assert(cleave::plan<f32<mesh(embed)>(f32<mesh(embed)>, Batch)>(cleave::grad(weighted)).count(kind::all_reduce) ==
              1);

// Gradients of sums of losses meet before they are reduced.
constexpr cleave::function two_losses([](auto w, auto x, auto y) { return loss(w, x, y) + loss(w, y, x); });
constexpr auto joined =
    cleave::plan<std::tuple<Number, replicated<>>(replicated<>, Batch, Batch)>(cleave::value_and_grad(two_losses),
                                                                               no_model);
static_assert(joined.count(kind::all_reduce) == 4);

// Nothing flows through stop_gradient, and what no gradient needs is not computed.
constexpr cleave::function stopped([](auto w, auto x) { return sum(stop_gradient(w) * x); });
static_assert(cleave::plan<f32<mesh(embed)>(f32<mesh(embed)>, Batch)>(cleave::grad(stopped)).collectives() == 0);

} // namespace
