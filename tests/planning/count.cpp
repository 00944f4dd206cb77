// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the calls and allocations of planning: the compiler pays for each of them, some 7,000 times more than a
// compiled planner does. The program is the training step of bench/compile/vision_transformer.cpp on abstract tensors.
// It is compiled without optimisation, and each function of the library counts its calls (-finstrument-functions), so
// the numbers are the same on every machine. A pass that copies the assignment for each change that it tries, or that
// calls a function for each word of it, exceeds the limits.
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/self_attention.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/clip.hpp>
#include <cleave/plan/plan.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace vision {

namespace nn = cleave::nn;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"row", 8> row;
inline constexpr cleave::dim<"col", 8> col;
inline constexpr cleave::dim<"patch row", 4> patch_row;
inline constexpr cleave::dim<"patch col", 4> patch_col;
inline constexpr cleave::dim<"row in patch", 2> row_in_patch;
inline constexpr cleave::dim<"col in patch", 2> col_in_patch;
inline constexpr cleave::dim<"patch", 16> patch;
inline constexpr cleave::dim<"source", 16> source;
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"heads"> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"digit", 10> digit;
inline constexpr nn::model_layout layout{nn::layout_rules{mesh, heads / model, hidden / model},
                                         nn::layout_rules{mesh, batch / data, heads / model, hidden / model}};

template <template <class, auto> class Tensor>
struct block_weights {
  nn::norm_weights<Tensor<float, layout.parameters(layer, embed)>, Tensor<float, layout.parameters(layer, embed)>>
      before_attention;
  nn::attention_weights<Tensor<float, layout.parameters(layer, embed, heads, head)>,
                        Tensor<float, layout.parameters(layer, embed, heads, head)>,
                        Tensor<float, layout.parameters(layer, heads, head, embed)>>
      attention;
  nn::norm_weights<Tensor<float, layout.parameters(layer, embed)>, Tensor<float, layout.parameters(layer, embed)>>
      before_feed_forward;
  nn::linear_weights<Tensor<float, layout.parameters(layer, embed, hidden)>,
                     Tensor<float, layout.parameters(layer, hidden)>>
      up;
  nn::linear_weights<Tensor<float, layout.parameters(layer, hidden, embed)>,
                     Tensor<float, layout.parameters(layer, embed)>>
      down;
};
template <template <class, auto> class Tensor>
struct network {
  Tensor<float, mesh(row_in_patch, col_in_patch, embed)> patches;
  Tensor<float, mesh(patch, embed)> positions;
  block_weights<Tensor> layers;
  nn::norm_weights<Tensor<float, mesh(embed)>, Tensor<float, mesh(embed)>> end;
  nn::linear_weights<Tensor<float, mesh(embed, digit)>, Tensor<float, mesh(digit)>> classes;
};
using Network = network<cleave::abstract>;
using Images = cleave::abstract<float, mesh(batch / data, row, col)>;
using Labels = cleave::abstract<int, mesh(batch / data)>;
using Number = cleave::abstract<float, mesh()>;
using State = cleave::optim::adam_state<Network, Number>;

constexpr auto patched = [](auto images) {
  const auto seen = windows(images, cleave::window{row, patch_row, row_in_patch, 2},
                            cleave::window{col, patch_col, col_in_patch, 2});
  return merge(seen, patch_row, patch_col, patch);
};
constexpr cleave::function scores([](auto p, auto images) {
  constexpr auto pin = [](const auto& v) { return constrain(v, layout.activations); };
  const auto x = dot(patched(images), p.patches, row_in_patch, col_in_patch) + p.positions;
  const auto y = nn::blocks(layout, layer, x, p.layers, [=](const auto& h, const auto& w) {
    const auto normed = nn::layer_norm(h, w.before_attention, embed);
    const auto m = h + nn::self_attention(normed, w.attention, embed, {patch, source, head}, layout.attention, {},
                                          nn::no_mask{}, pin, heads);
    return m + nn::feed_forward(
                   nn::layer_norm(m, w.before_feed_forward, embed), w.up, w.down, embed, hidden,
                   [](const auto& v) { return gelu(v); }, pin);
  });
  return nn::linear(mean(nn::layer_norm(y, p.end, embed), patch), p.classes, embed);
});
constexpr cleave::function loss([](auto p, auto images, auto labels) {
  return mean(nn::cross_entropy(scores(p, images), labels, digit));
});
constexpr cleave::function step([](auto p, auto s, auto images, auto labels, auto rate) {
  const auto [value, slope] = cleave::value_and_grad(loss)(p, images, labels);
  return std::tuple_cat(cleave::optim::adam(p, s, cleave::optim::clip_by_global_norm(slope, 1.0), rate),
                        std::tuple(value));
});
} // namespace vision

namespace {

std::size_t calls = 0, allocations = 0;

} // namespace

extern "C" {
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void*, void*) { ++calls; }
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void*, void*) {}
}
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  std::abort();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

bool all_within = true;

/// Runs a pass, says what it took, and whether that is at most what the pass may take.
template <class Pass>
auto counted(const char* name, std::size_t most_calls, std::size_t most_allocations, const Pass& pass) {
  const std::size_t calls_before = calls, allocations_before = allocations;
  auto made = pass();
  const std::size_t c = calls - calls_before, a = allocations - allocations_before;
  const bool ok = c <= most_calls && a <= most_allocations;
  std::printf("%-10s %8zu calls (at most %zu), %5zu allocations (at most %zu)%s\n", name, c, most_calls, a,
              most_allocations, ok ? "" : ": TOO MANY");
  all_within = all_within && ok;
  return made;
}

} // namespace

int main() {
  using namespace cleave;
  using signature = std::tuple<vision::Network, vision::State, vision::Number>(vision::Network, vision::State,
                                                                               vision::Images, vision::Labels, float);
  using body = std::remove_cvref_t<decltype(vision::step)>;
  const policy rule = policy::time();
  const graph recorded = counted("record", 58000, 330, [] { return recording<body, signature>::record(); });
  const named_size expected[] = {vision::batch = 48, vision::layer = 2,   vision::embed = 32, vision::heads = 4,
                                 vision::head = 8,   vision::hidden = 64, vision::data = 2,   vision::model = 2};
  const sizes at = sizes_for(recorded, expected);
  graph g = counted("simplify", 10500, 34, [&] { return simplify(recorded); });
  const choice chosen = counted("choose", 620000, 180, [&] { return choose(g, at, rule); });
  const program made = counted("lower", 160000, 105, [&] { return lower(g, chosen, at, rule); });
  std::printf("nodes %zu, steps %zu\n", g.nodes.size(), made.steps.size());
  if (!made.found.ok() || g.nodes.size() < 500) {
    std::puts("this is not the program that was counted");
    return 1;
  }
  return all_within ? 0 : 1;
}
