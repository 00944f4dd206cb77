// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A Transformer layer, forward and with the gradients of all weights and of its operand, against the same by hand, both
// in this process. Sharded over the batch (2x1), or over heads and hidden units (1x2).
//
//   mpirun -n 2 layer_time RESULTS.jsonl [seconds for each measurement]
#include "by_hand_layer.hpp"
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/self_attention.hpp>

#include <cmath>
#include <stdexcept>

namespace {

namespace nn = cleave::nn;
inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"position"> position;
inline constexpr cleave::dim<"source"> source;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"heads"> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr nn::layout_rules by_parameter{mesh, heads / model, hidden / model};
inline constexpr nn::layout_rules by_activation{mesh, batch / data, heads / model, hidden / model};

using X = cleave::tensor<float, mesh(batch / data, position, embed)>;
template <template <class, auto> class Tensor>
struct weights_in {
  nn::attention_weights<Tensor<float, by_parameter(embed, heads, head)>,
                        Tensor<float, by_parameter(embed, heads, head)>,
                        Tensor<float, by_parameter(heads, head, embed)>>
      attention;
  Tensor<float, by_parameter(embed, hidden)> up;
  Tensor<float, by_parameter(hidden, embed)> down;
  Tensor<float, by_parameter(embed)> gain1, gain2;
};
using weights = weights_in<cleave::tensor>;

constexpr auto norm = [](const auto& x, const auto& gain) {
  const auto centred = x - mean(x, embed);
  return centred * rsqrt(mean(centred * centred, embed) + 1e-5) * gain;
};
constexpr cleave::function layer([](auto w, auto x) {
  constexpr auto pin = [](const auto& v) { return constrain(v, by_activation); };
  const auto mixed = nn::self_attention(norm(x, w.gain1), w.attention, embed, {position, source, head},
                                        nn::self_attention_options{nn::all_scores{}, nn::no_mask{}, pin}, heads);
  const auto y = x + mixed;
  return y + dot(gelu(dot(norm(y, w.gain2), w.up, embed)), w.down, hidden);
});
constexpr cleave::function loss([](auto w, auto x) {
  const auto y = layer(w, x);
  return mean(y * y);
});

constexpr long sequences = 8, positions = 256, width = 512, all_heads = 8, head_size = 64, units = 2048;
template <int Data, int Model, class F>
constexpr auto sized(F f) {
  return cleave::with(f, cleave::expect<batch, sequences>{}, cleave::expect<position, positions>{},
                      cleave::expect<source, positions>{}, cleave::expect<embed, width>{},
                      cleave::expect<heads, all_heads>{}, cleave::expect<head, head_size>{},
                      cleave::expect<hidden, units>{}, cleave::expect<data, Data>{}, cleave::expect<model, Model>{});
}
template <int Data, int Model>
inline constexpr cleave::function forward_on = sized<Data, Model>(layer);
template <int Data, int Model>
inline constexpr cleave::function gradients_on = sized<Data, Model>(cleave::grad<0, 1>(loss));

/// A number between -0.5 and 0.5 for a position.
float number(long i, long seed) {
  auto x = static_cast<unsigned long>(i + 1) * 0x9e3779b97f4a7c15ul + static_cast<unsigned long>(seed);
  x ^= x >> 31;
  x *= 0x94d049bb133111ebul;
  return static_cast<float>(x >> 40) * (1.0f / 16777216.0f) - 0.5f;
}
template <class Tensor>
void fill(const Tensor& t, long seed, float scale) {
  t.fill_by([&](const auto& at) {
    long flat = 0;
    for (const auto i : at) flat = flat * 4099 + static_cast<long>(i);
    return scale * number(flat, seed);
  });
}
void expect_same(const float* ours, const float* theirs, long n, const char* what) {
  double off = 0, size = 0;
  for (long i = 0; i < n; ++i) {
    off = std::max(off, std::fabs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])));
    size = std::max(size, std::fabs(static_cast<double>(theirs[i])));
  }
  if (!(off <= 1e-4 * size)) throw std::runtime_error(std::string("the two programs differ in ") + what);
}

weights made(const cleave::grid& g) {
  return {{{g, {width, all_heads, head_size}},
           {g, {width, all_heads, head_size}},
           {g, {width, all_heads, head_size}},
           {g, {all_heads, head_size, width}}},
          {g, {width, units}},
          {g, {units, width}},
          {g, {width}},
          {g, {width}}};
}
/// Calls f with each of the three projections, and where it is in a row of queries, keys and values.
template <class F>
void for_projections(const weights& w, F f) {
  f(w.attention.query, 0);
  f(w.attention.key, 1);
  f(w.attention.value, 2);
}

template <int Data, int Model>
void run(const measure::task& t) {
  const cleave::grid grid(mesh, t.comm, {Data, Model});
  const weights w = made(grid);
  weights slopes = made(grid);
  X x(grid, {sequences, positions, width}), y(grid, {sequences, positions, width}),
      x_slope(grid, {sequences, positions, width});
  long seed = 1;
  for_projections(w, [&](const auto& p, int) { fill(p, seed++, 0.1f); });
  fill(w.attention.out, seed++, 0.1f);
  fill(w.up, seed++, 0.1f);
  fill(w.down, seed++, 0.1f);
  w.gain1.fill(1);
  w.gain2.fill(1);
  fill(x, seed, 3);

  const by_hand::ranks on(t.comm, Data, Model);
  constexpr by_hand::layer_extents mine{sequences / Data,  positions, width,
                                        all_heads / Model, head_size, units / Model};
  constexpr long columns = mine.heads * head_size;
  by_hand::layer hand(on, mine, static_cast<double>(sequences * positions * width));
  std::copy_n(x.data(), x.local_size(), hand.x.data());
  for_projections(w, [&](const auto& p, int part) {
    for (long i = 0; i < width; ++i)
      std::copy_n(p.data() + i * columns, columns, hand.w.qkv + (3 * i + part) * columns);
  });
  const auto copy = [](const auto& from, float* to) { std::copy_n(from.data(), from.local_size(), to); };
  copy(w.attention.out, hand.w.out);
  copy(w.up, hand.w.up);
  copy(w.down, hand.w.down);
  copy(w.gain1, hand.w.gain1);
  copy(w.gain2, hand.w.gain2);

  const auto forward = [&] { y = forward_on<Data, Model>(w, x); };
  const auto both = [&] { gradients_on<Data, Model>(w, x).into(slopes, x_slope); };
  forward();
  both();
  hand.forward_and_backward();
  const auto compare = [](const auto& ours, const float* theirs, const char* what) {
    expect_same(ours.data(), theirs, static_cast<long>(ours.local_size()), what);
  };
  compare(y, hand.y.data(), "the layer");
  compare(x_slope, hand.x_gradient.data(), "the gradient by the operand");
  std::vector<float> part(static_cast<std::size_t>(width * columns));
  for_projections(slopes, [&](const auto& p, int number) {
    for (long i = 0; i < width; ++i)
      std::copy_n(hand.gradients.qkv + (3 * i + number) * columns, columns, part.data() + i * columns);
    compare(p, part.data(), "the gradients of projections");
  });
  compare(slopes.attention.out, hand.gradients.out, "the gradient of the output of attention");
  compare(slopes.up, hand.gradients.up, "the gradient of the first product");
  compare(slopes.down, hand.gradients.down, "the gradient of the second product");
  compare(slopes.gain1, hand.gradients.gain1, "the gradients of gains");
  compare(slopes.gain2, hand.gradients.gain2, "the gradients of gains");

  const double tokens = static_cast<double>(sequences * positions);
  const double flops = 8 * tokens * width * (all_heads * head_size) + 4 * tokens * positions * (all_heads * head_size) +
                       4 * tokens * width * units;
  const std::string where = " on " + std::to_string(Data) + "x" + std::to_string(Model);
  t.out.factor("Transformer layer, forward" + where,
               measure::compare(t.comm, 1, t.seconds, forward, [&] { hand.forward(); }), 1.03,
               measure::work::products(flops));
  t.out.factor("Transformer layer, forward and backward" + where,
               measure::compare(t.comm, 1, t.seconds, both, [&] { hand.forward_and_backward(); }), 1.03,
               measure::work::products(3 * flops));
}

} // namespace

int main(int argc, char** argv) {
  return measure::run(argc, argv, 8, [](const measure::task& t) {
    if (t.ranks == 1) run<1, 1>(t);
    if (t.ranks != 2) return;
    run<2, 1>(t);
    run<1, 2>(t);
  });
}
