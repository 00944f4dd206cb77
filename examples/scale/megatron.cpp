// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans training steps of Megatron-LM at their published sizes, with the published numbers of devices for tensors,
// pipeline stages and batches, and predicts their step times on A100. No device, no MPI. Writes a table; with --csv its
// lines with commas; with --report NAME all of one run, with --timeline NAME its steps as lines with commas. Published
// runs whose stages are interleaved are not among them. The last run is on 1,048,576 devices, and was never made.
// Published: Narayanan et al. 2021 (arXiv 2104.04473, tables 1 and 2), Korthikanti et al. 2022 (arXiv 2205.05198,
// table 5, full recomputation).

#include <cleave/expr/gradient.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/self_attention.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/mixed.hpp>
#include <cleave/study/study.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace {

namespace nn = cleave::nn;

constexpr cleave::axis<"pipe"> pipe;
constexpr cleave::axis<"data"> data;
constexpr cleave::axis<"tensor"> tensor_axis;
constexpr cleave::mesh mesh{pipe, data, tensor_axis};
constexpr cleave::dim<"batch"> batch;
constexpr cleave::dim<"microbatch"> microbatch;
constexpr cleave::dim<"position"> position;
constexpr cleave::dim<"source"> source; // a position that is looked at
constexpr cleave::dim<"layer"> layer;
constexpr cleave::dim<"stage"> stage;
constexpr cleave::dim<"embed"> embed;
constexpr cleave::dim<"heads"> heads;
constexpr cleave::dim<"head"> head;
constexpr cleave::dim<"hidden"> hidden;
constexpr cleave::dim<"vocabulary"> vocabulary;

constexpr auto megatron =
    nn::model_layout{nn::layout_rules{mesh, nn::after(layer, stage / pipe), heads / tensor_axis, hidden / tensor_axis,
                                      vocabulary / tensor_axis},
                     nn::layout_rules{mesh, stage / pipe, nn::before(batch, microbatch), batch / data,
                                      heads / tensor_axis, hidden / tensor_axis, vocabulary / tensor_axis}}
        .scheduled(nn::pipelined<cleave::dim<"stage">, cleave::dim<"microbatch">, 1, cleave::dim<"round", 1>, true>{});
constexpr auto& rules = megatron.parameters;

template <template <class, auto> class Tensor>
struct gpt_block {
  nn::norm_weights<Tensor<float, rules(layer, embed)>> before_attention;
  nn::attention_weights<Tensor<float, rules(layer, embed, heads, head)>,
                        Tensor<float, rules(layer, embed, heads, head)>,
                        Tensor<float, rules(layer, heads, head, embed)>>
      attention;
  nn::norm_weights<Tensor<float, rules(layer, embed)>> before_feed_forward;
  nn::linear_weights<Tensor<float, rules(layer, embed, hidden)>, Tensor<float, rules(layer, hidden)>> up;
  nn::linear_weights<Tensor<float, rules(layer, hidden, embed)>, Tensor<float, rules(layer, embed)>> down;
};
template <template <class, auto> class Tensor>
struct gpt {
  Tensor<float, rules(vocabulary, embed)> embedding;
  gpt_block<Tensor> layers;
  nn::norm_weights<Tensor<float, rules(embed)>> at_the_end;
};

constexpr auto pin = [](const auto& v) { return constrain(v, megatron.activations); };
constexpr auto block = [](const auto& x, const auto& w) {
  const auto a = nn::layer_norm(x, w.before_attention, embed);
  const auto mixed = pin(x + nn::self_attention(a, w.attention, embed, {position, source, head},
                                                nn::self_attention_options{nn::all_scores{}, nn::causal{}, pin},
                                                heads));
  const auto b = nn::layer_norm(mixed, w.before_feed_forward, embed);
  return pin(mixed +
             nn::feed_forward(b, w.up, w.down, embed, hidden, [](const auto& h) { return cleave::gelu(h); }, pin));
};
constexpr cleave::function loss([](const auto& p, const auto& words, const auto& next) {
  const auto begin = pin(nn::embedding(p.embedding, words, vocabulary));
  const auto end = nn::layer_norm(nn::blocks(megatron, layer, begin, p.layers, block), p.at_the_end, embed);
  const auto scores = pin(nn::unembedding(end, p.embedding, embed));
  return mean(nn::cross_entropy(cleave::cast<float>(scores), next, vocabulary));
});
constexpr cleave::function step([](const auto& p, const auto& state, const auto& words, const auto& next) {
  auto [value, slope] = cleave::optim::mixed_value_and_grad<cleave::bfloat16>(loss, 1.0, p, words, next);
  auto [updated, after] = cleave::optim::adam(p, state, slope, 0.001);
  return std::tuple(updated, after, value);
});
using number = cleave::abstract<float, mesh()>;
using words = cleave::abstract<int, megatron.activations(batch, position)>;
using model = gpt<cleave::abstract>;
using state = cleave::optim::adam_state<model, number>;
using training = std::tuple<model, state, number>(model, state, words, words);

struct run {
  const char* name;
  std::int64_t layers, width, head_count, micro, sequences, t, p, d;
  /// Published: operations of a device in a second, in 1e12, by the paper's formula; or the seconds of a step. Or
  /// neither.
  double teraflops, seconds;

  std::int64_t devices() const { return t * p * d; }
  /// As the paper counts them (section 5.1), with the forward pass computed twice.
  double flops() const {
    const auto l = static_cast<double>(layers), h = static_cast<double>(width), s = 2048.0, v = 51200.0;
    return 96 * static_cast<double>(sequences) * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  }
  double published() const {
    if (teraflops == 0) return seconds;
    return flops() / static_cast<double>(devices()) / teraflops / 1e12;
  }
};
const run runs[] = {
    {"1.7B", 24, 2304, 24, 16, 512, 1, 1, 32, 137, 0},
    {"3.6B", 30, 3072, 32, 16, 512, 2, 1, 32, 138, 0},
    {"7.5B", 36, 4096, 32, 16, 512, 4, 1, 32, 142, 0},
    {"18B", 40, 6144, 48, 8, 1024, 8, 1, 32, 135, 0},
    {"39B", 48, 8192, 64, 4, 1536, 8, 2, 32, 138, 0},
    {"1T", 128, 25600, 160, 1, 3072, 8, 64, 6, 163, 0},
    {"175B on 384", 96, 12288, 96, 1, 1536, 8, 12, 4, 153, 0},
    {"175B on 768", 96, 12288, 96, 1, 1536, 8, 12, 8, 149, 0},
    {"175B on 1536", 96, 12288, 96, 1, 1536, 8, 12, 16, 141, 0},
    {"530B on 560", 105, 20480, 128, 1, 2240, 8, 35, 2, 171, 0},
    {"530B on 1120", 105, 20480, 128, 1, 2240, 8, 35, 4, 167, 0},
    {"530B on 2240", 105, 20480, 128, 1, 2240, 8, 35, 8, 159, 0},
    {"22B on 8", 48, 6144, 64, 4, 4, 8, 1, 1, 0, 1.42},
    {"1T on 512", 128, 25600, 160, 1, 512, 8, 64, 1, 0, 94.42},
    {"1T on 1048576", 128, 25600, 160, 1, 1 << 20, 8, 64, 2048, 0, 0},
};

/// Tensors are sharded within a node of 8. Stages and batches are sharded over nodes, unless tensors leave room.
cleave::machine machine_of(const run& r) {
  const cleave::link node{10e-6, 230e9}, far{20e-6, 22e9};
  const std::int64_t near = 8 / r.t;
  return cleave::machines::a100.with(tensor_axis, node)
      .with(data, near > 1 ? node.within(near, 20e-6, 22e9) : far)
      .with(pipe, far)
      .without_overlap();
}
cleave::studied_plan planned(const run& r) {
  static const auto recorded = cleave::study::of<training>(step, {"model", "state", "words", "next"});
  const std::vector<cleave::named_size> sizes{layer = r.layers / r.p,
                                              stage = r.p,
                                              batch = r.micro * r.d,
                                              position = 2048,
                                              source = 2048,
                                              microbatch = r.sequences / (r.micro * r.d),
                                              embed = r.width,
                                              hidden = 4 * r.width,
                                              heads = r.head_count,
                                              head = r.width / r.head_count,
                                              vocabulary = 51200,
                                              pipe = r.p,
                                              data = r.d,
                                              tensor_axis = r.t};
  return recorded.plan({sizes.data(), sizes.size()});
}
/// How well two orders agree (Spearman): 1 if they are the same.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto rank = [](const std::vector<double>& all, double x) {
    return static_cast<double>(std::count_if(all.begin(), all.end(), [&](double y) { return y < x; }));
  };
  double squares = 0;
  const auto n = static_cast<double>(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(rank(a, a[i]) - rank(b, b[i]), 2);
  return 1 - 6 * squares / (n * (n * n - 1));
}

} // namespace

int main(int count, char** given) {
  const std::string option = count > 1 ? given[1] : "";
  const bool csv = option == "--csv";
  if ((option == "--report" || option == "--timeline") && count > 2)
    for (const run& r : runs)
      if (std::string(r.name) == given[2]) {
        const cleave::studied_plan p = planned(r);
        const cleave::machine m = machine_of(r);
        std::printf("%s", (option == "--report" ? p.explain() + p.report(m) : p.timeline(m)).c_str());
        return 0;
      }
  if (count > 1 && !csv) {
    std::printf(
        "usage: scale_megatron [--csv | --report NAME | --timeline NAME]\nplans the models of Megatron-LM and "
        "predicts their step times; NAME is one of:\n");
    for (const run& r : runs) std::printf("  %s\n", r.name);
    return option == "--help" ? 0 : 2;
  }
  std::printf(csv ? "run,tensor,pipe,data,published_s,predicted_s,error_percent,utilization_percent,collectives,"
                    "received_GB,memory_GiB\n"
                  : "| run | tensor, pipe, data | published s | predicted s | error | utilization | collectives | GB "
                    "received | GiB |\n|---|---|---|---|---|---|---|---|---|\n");
  std::vector<double> published, predicted;
  double sum = 0, worst = 0;
  for (const run& r : runs) {
    const cleave::machine m = machine_of(r);
    const cleave::studied_plan p = planned(r);
    const cleave::prediction t = p.predict(m);
    if (r.published() > 0) {
      published.push_back(r.published());
      predicted.push_back(t.seconds);
    }
    const double error = r.published() > 0 ? t.seconds / r.published() - 1 : 0;
    sum += std::abs(error);
    worst = std::max(worst, std::abs(error));
    // Operations as the paper counts them, without those that a pipeline computes for nothing.
    const double used = r.flops() / static_cast<double>(r.devices()) / t.seconds / m.flops_of_2;
    char both[64] = "";
    if (r.published() > 0)
      std::snprintf(both, sizeof both, csv ? "%.2f,%.2f,%.1f" : "%.2f | %.2f | %+.1f %%", r.published(), t.seconds,
                    100 * error);
    else std::snprintf(both, sizeof both, csv ? ",%.2f," : " | %.2f | ", t.seconds);
    std::printf(csv ? "%s,%lld,%lld,%lld,%s,%.1f,%d,%.1f,%.1f\n"
                    : "| %s | %lld, %lld, %lld | %s | %.1f %% | %d | %.1f | %.1f |\n",
                r.name, static_cast<long long>(r.t), static_cast<long long>(r.p), static_cast<long long>(r.d), both,
                100 * used, p.collectives(), t.network_bytes / 1e9,
                static_cast<double>(p.memory().total()) / (1 << 30));
  }
  if (!csv)
    std::printf("A100: mean error %.1f %%, worst %.1f %%, rank correlation %.3f\n",
                100 * sum / static_cast<double>(published.size()), 100 * worst, rank_correlation(published, predicted));
  return 0;
}
