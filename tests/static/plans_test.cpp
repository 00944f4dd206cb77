// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the planner decides for the textbook cases, checked by compiling.
#include <cleave/expr/statement.hpp>
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
using X = f32<mesh(batch / data, embed)>;
using Up = f32<mesh(embed, hidden / model)>;
using Down = f32<mesh(hidden / model, embed)>;

constexpr cleave::function project([](auto h, auto w) { return dot(h, w, hidden); });

// Megatron's two products: one all-reduce, of the activations.
constexpr cleave::function mlp([](auto x, auto up, auto down) {
  return dot(gelu(dot(x, up, embed)), down, hidden) + x;
});
constexpr auto tensor_parallel = cleave::plan<X(X, Up, Down)>(mlp);
static_assert(tensor_parallel.collectives() == 1 && tensor_parallel.count(kind::all_reduce) == 1);
static_assert(tensor_parallel.bytes({data = 2, model = 4, batch = 64, embed = 16, hidden = 32}) ==
              2 * 3 * (32 * 16 * 4) / 4);
static_assert(tensor_parallel.bytes({data = 8, model = 1, batch = 64, embed = 16, hidden = 32}) == 0);
static_assert(tensor_parallel.flops({data = 2, model = 4, batch = 64, embed = 16, hidden = 32}) == 2 * 2 * 32 * 16 * 8);

// gelu is computed over the product that it reads, and the all-reduce in the result: one hidden layer of workspace.
constexpr cleave::function bare([](auto x, auto up, auto down) { return dot(gelu(dot(x, up, embed)), down, hidden); });
static_assert(cleave::plan<X(X, Up, Down)>(bare).workspace({data = 2, model = 4, batch = 64, embed = 16,
                                                            hidden = 32}) == 32 * 8 * 4);
// A contract allows just that much.
static_assert(cleave::plan<X(X, Up, Down)>(bare, cleave::at_most_workspace<32 * 8 * 4>{}, cleave::expect<data, 2>{},
                                           cleave::expect<model, 4>{}, cleave::expect<batch, 64>{},
                                           cleave::expect<embed, 16>{}, cleave::expect<hidden, 32>{})
                  .workspace() == 32 * 8 * 4);
// Sizes that are guessed can be forbidden.
static_assert(cleave::plan<X(X, Up, Down)>(bare, cleave::all_sizes_expected{}, cleave::expect<data, 2>{},
                                           cleave::expect<model, 4>{}, cleave::expect<batch, 64>{},
                                           cleave::expect<embed, 16>{}, cleave::expect<hidden, 32>{})
                  .collectives() == 1);
// A product that is read again is not written over.
constexpr cleave::function again([](auto x, auto up, auto down) {
  const auto h = dot(x, up, embed);
  return dot(gelu(h), down, hidden) + sum(h, hidden);
});
static_assert(cleave::plan<X(X, Up, Down)>(again).workspace({data = 2, model = 4, batch = 64, embed = 16,
                                                             hidden = 32}) >= 2 * 32 * 8 * 4);

// Sequence parallelism: the same with the activations sharded between: a gather and a reduce-scatter.
using XS = f32<mesh(batch / data / model, embed)>;
constexpr auto sequence_parallel = cleave::plan<XS(XS, Up, Down)>(mlp);
static_assert(sequence_parallel.collectives() == 2 && sequence_parallel.count(kind::all_gather) == 1 &&
              sequence_parallel.count(kind::reduce_scatter) == 1);

// Data parallelism moves nothing forward. (On a mesh that also has model devices, these would share the work.)
constexpr auto data_parallel =
    cleave::plan<X(X, f32<mesh(embed, hidden)>, f32<mesh(hidden, embed)>)>(mlp, cleave::expect<model, 1>{});
static_assert(data_parallel.collectives() == 0);

// A contracted sharded dim: all-reduce where the result is whole, reduce-scatter where it is sharded.
using H = f32<mesh(batch / data, hidden / model)>;
static_assert(cleave::plan<X(H, Down)>(project).count(kind::all_reduce) == 1);
constexpr auto scattered = cleave::plan<f32<mesh(batch / data, embed / model)>(H, Down)>(project);
static_assert(scattered.collectives() == 1 && scattered.count(kind::reduce_scatter) == 1);

// An unreduced result is left unreduced: nothing moves.
static_assert(cleave::plan<f32<mesh(batch / data, embed, cleave::unreduced(model))>(H, Down)>(project).collectives() ==
              0);

// Two partial products are added before one reduction; a factor passes through.
constexpr cleave::function two([](auto a, auto b, auto c) { return dot(a, b, hidden) + 2 * dot(a, c, hidden); });
static_assert(cleave::plan<X(H, Down, Down)>(two).collectives() == 1);

// A partial sum that a layer norm reads several times is reduced once, before it.
constexpr cleave::function normed([](auto h, auto w, auto x, auto scale, auto bias) {
  const auto y = dot(h, w, hidden) + x;
  return layer_norm(y, embed, scale, bias) + y;
});
static_assert(cleave::plan<X(H, Down, X, f32<mesh(embed)>, f32<mesh(embed)>)>(normed).collectives() == 1);

// The same gather is made once for two readers, and equal operations are computed once.
constexpr cleave::function twice([](auto x, auto a, auto b) {
  return dot(x, a, embed) * dot(x, b, embed) + dot(x, a, embed);
});
constexpr auto shared =
    cleave::plan<f32<mesh(batch / data, hidden / model)>(f32<mesh(batch / data, embed / model)>, Up, Up)>(twice);
static_assert(shared.collectives() == 1 && shared.count(kind::all_gather) == 1);
static_assert([] {
  int products = 0;
  for (const cleave::step& s : decltype(shared)::plan_type::steps) products += s.kind == cleave::step_kind::gemm;
  return products;
}() == 2);

// Resharding: a slice is free, a change of dim is one all-to-all, a gather only where it is asked for.
constexpr cleave::function same([](auto x) { return x * 1; });
static_assert(cleave::plan<f32<mesh(batch / data, embed)>(f32<mesh(batch, embed)>)>(same).collectives() == 0);
constexpr auto turned = cleave::plan<f32<mesh(batch, embed / data)>(X)>(same);
static_assert(turned.collectives() == 1 && turned.count(kind::all_to_all) == 1);
static_assert(turned.bytes({data = 4, batch = 16, embed = 16}) == 16 * 16 * 4 / 4 * 3 / 4);

// softmax over a sharded dim: two small all-reduces, of the maximum and of the sum.
constexpr cleave::function attend([](auto x) { return softmax(x, embed); });
using Sharded = f32<mesh(batch / data, embed / model)>;
constexpr auto soft = cleave::plan<Sharded(Sharded)>(attend);
static_assert(soft.collectives() == 2 && soft.count(kind::all_reduce) == 2);
static_assert(soft.bytes({data = 1, model = 2, batch = 8, embed = 64}) == 2 * 8 * 4);

// A dim sharded over two axes is split into two dims sharded over one each, and merged again, without a move.
inline constexpr cleave::axis<"row", 2> rows;
inline constexpr cleave::axis<"column", 4> columns;
inline constexpr cleave::mesh board{rows, columns};
inline constexpr cleave::dim<"whole", 64> whole;
inline constexpr cleave::dim<"major", 2> major;
inline constexpr cleave::dim<"minor", 32> minor;
using Whole = f32<board(whole / rows / columns, embed)>;
using Parts = f32<board(major / rows, minor / columns, embed)>;
static_assert(cleave::plan<Parts(Whole)>(cleave::function([](auto x) {
                return split(x, whole, major, minor);
              })).collectives() == 0);
static_assert(cleave::plan<Whole(Parts)>(cleave::function([](auto x) {
                return merge(x, major, minor, whole);
              })).collectives() == 0);

// The plan depends on no size: the same steps whatever the mesh.
inline constexpr cleave::axis<"data", 1024> wide_data;
inline constexpr cleave::axis<"model", 1024> wide_model;
inline constexpr cleave::mesh wide{wide_data, wide_model};
constexpr auto large = cleave::plan<f32<wide(batch / wide_data, embed)>(
    f32<wide(batch / wide_data, embed)>, f32<wide(embed, hidden / wide_model)>, f32<wide(hidden / wide_model, embed)>)>(
    mlp);
static_assert(large.collectives() == 1 && large.count(kind::all_reduce) == 1);

// Aggregates, arrays of them, loops over layers, numbers as arguments.
template <template <class, auto> class Tensor = cleave::abstract>
struct layer {
  Tensor<float, mesh(embed, hidden / model)> up;
  Tensor<float, mesh(hidden / model, embed)> down;
};
template <template <class, auto> class Tensor = cleave::abstract>
struct network {
  std::array<layer<Tensor>, 3> layers;
  Tensor<float, mesh(embed)> bias;
};
constexpr cleave::function forward([](auto net, auto x, auto scale) {
  cleave::value y = x;
  for (const auto& l : net.layers) y = dot(gelu(dot(y, l.up, embed)), l.down, hidden) + y;
  return (y + net.bias) * scale;
});
static_assert(cleave::plan<X(network<>, X, float)>(forward).count(kind::all_reduce) == 3);

// Parts whose blocks do not nest in those of the whole are merged by taking elements from where they are.
namespace merging {
inline constexpr cleave::axis<"x", 8> x;
inline constexpr cleave::mesh line{x};
inline constexpr cleave::dim<"major", 4> major;
inline constexpr cleave::dim<"minor", 1600> minor;
inline constexpr cleave::dim<"whole", 6400> whole;
inline constexpr cleave::dim<"other", 3200> other;
constexpr cleave::function merged([](auto u) { return merge(u, major, minor, whole); });
constexpr auto plan = cleave::plan<f32<line(whole / x, other)>(f32<line(major, minor / x, other)>)>(merged);
static_assert(plan.count(kind::exchange) == 1 && plan.collectives() == 1);
} // namespace merging

} // namespace
