// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Megatron-LM's models at their published sizes, with the published numbers of devices for tensors, pipeline stages and
// batches, on A100; each layer is computed again for its gradient, or only its scores. The last run is on 1,048,576
// devices, and was never made. Published: Narayanan et al. 2021 (arXiv 2104.04473, tables 1 and 2), Korthikanti et al.
// 2022 (arXiv 2205.05198, table 5). --measured FILE compares the configurations of a table of vTrain's measurements.

#include "published.hpp"
#include "training.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace scale_megatron {

using namespace training;

constexpr cleave::axis<"pipe"> pipe;
constexpr cleave::axis<"data"> data;
constexpr cleave::axis<"tensor"> tensor_axis;
constexpr cleave::mesh mesh{pipe, data, tensor_axis};
constexpr cleave::dim<"microbatch"> microbatch;
constexpr cleave::dim<"stage"> stage;

/// How a published run was made.
struct technique {
  /// Above 1 the stages are interleaved.
  int rounds = 1;
  /// Whether the devices for tensors share the values that go from stage to stage (section 4.1 of the first paper).
  bool shares_messages = false;
  /// Whether activations between the parts of a layer are sharded along positions, and only scores are computed again
  /// (the second paper). Otherwise whole layers are.
  bool selective = false;
};
template <technique How>
using schedule = nn::pipelined<cleave::dim<"stage">, cleave::dim<"microbatch">, How.rounds,
                               cleave::dim<"round", How.rounds>, !How.selective>;
constexpr nn::layout_rules whole{mesh,
                                 stage / pipe,
                                 nn::before(batch, microbatch),
                                 batch / data,
                                 heads / tensor_axis,
                                 hidden / tensor_axis,
                                 vocabulary / tensor_axis};
template <bool AlongPositions>
constexpr auto activations = whole;
template <>
constexpr nn::layout_rules activations<true>{mesh,
                                             stage / pipe,
                                             nn::before(batch, microbatch),
                                             batch / data,
                                             heads / tensor_axis,
                                             hidden / tensor_axis,
                                             vocabulary / tensor_axis,
                                             position / tensor_axis};
template <int Rounds>
constexpr cleave::dim<"round", Rounds> round_of;
template <int Rounds>
constexpr nn::layout_rules parameters{mesh,
                                      nn::before(layer, round_of<Rounds>),
                                      nn::after(layer, stage / pipe),
                                      heads / tensor_axis,
                                      hidden / tensor_axis,
                                      vocabulary / tensor_axis};
template <>
constexpr nn::layout_rules parameters<1>{mesh, nn::after(layer, stage / pipe), heads / tensor_axis,
                                         hidden / tensor_axis, vocabulary / tensor_axis};
template <technique How>
constexpr auto within_layers = nn::model_layout{parameters<How.rounds>, activations<How.selective>};
template <technique How>
constexpr auto between_stages =
    nn::model_layout{parameters<How.rounds>, activations<(How.selective || How.shares_messages)>}.scheduled(
        schedule<How>{});

/// Megatron-LM stores the products of queries and keys with 16 bits. One kernel scales and masks them and computes
/// their softmax in float. Normalizations are kernels too, which keep their arguments alone for the gradient.
constexpr cleave::function weights_of_scores([](const auto& products, const auto& q) {
  const auto seen = broadcast(iota(products, position), position, source) >= iota(products, source);
  const auto scaled = cleave::cast<float>(products) * rsqrt(count<float>(q, head));
  return cleave::cast<cleave::bfloat16>(softmax(select(seen, scaled, -1e4), source));
});
constexpr cleave::function attention_of([](const auto& q, const auto& k, const auto& v) {
  return dot(remat(weights_of_scores)(dot(q, k, head), q), v, source);
});
constexpr cleave::function kernel_of_norm([](const auto& x, const auto& scale, const auto& bias) {
  return nn::layer_norm(x, nn::norm_weights{scale, bias}, embed);
});
template <technique How>
constexpr auto one_layer = [](const auto& x, const auto& w) {
  constexpr auto pin = [](const auto& v) { return constrain(v, within_layers<How>.activations); };
  const auto norm = [](const auto& v, const auto& by) { return remat(kernel_of_norm)(v, by.scale, by.bias); };
  const auto a = norm(x, w.before_attention), other = rename(a, position, source);
  const auto q = pin(dot(a, w.attention.query, embed)), k = pin(dot(other, w.attention.key, embed)),
             v = pin(dot(other, w.attention.value, embed));
  const auto mixed = [&] {
    if constexpr (How.selective) return remat(attention_of)(q, k, v);
    else return attention_of(q, k, v);
  }();
  const auto b = pin(x + dot(pin(mixed), w.attention.out, heads, head));
  return pin(
      b + nn::feed_forward(
              norm(b, w.before_feed_forward), w.up, w.down, embed, hidden, [](const auto& h) { return gelu(h); }, pin));
};
template <technique How>
constexpr cleave::function of_text([](const auto& p, const auto& words, const auto& next) {
  constexpr auto pin = [](const auto& v) { return constrain(v, within_layers<How>.activations); };
  const auto begin = pin(nn::embedding(p.embedding, words, vocabulary));
  const auto end = normed(nn::blocks(between_stages<How>, layer, begin, p.layers, one_layer<How>), p.at_the_end);
  const auto scores = pin(nn::unembedding(end, p.embedding, embed));
  return mean(nn::cross_entropy(cleave::cast<float>(scores), next, vocabulary));
});

using number = cleave::abstract<float, mesh()>;
using words = cleave::abstract<int, whole(batch, position)>;
template <technique How>
const cleave::study& recorded() {
  static constexpr auto& rules = parameters<How.rounds>;
  using with_layouts = weights<rules>;
  using gpt = typename model<with_layouts::template biased, with_layouts::template scale_and_bias,
                             rules>::template in<cleave::abstract>;
  static const auto made = cleave::study::of<adam_step<gpt, number, words, words>>(with_adam<of_text<How>>,
                                                                                   {"model", "state"});
  return made;
}
/// The recorded step of a number of rounds, of one or of several stages.
const cleave::study& training_step(int rounds, bool stages, bool selective) {
  if (selective) return rounds == 1 ? recorded<{1, true, true}>() : recorded<{3, true, true}>();
  if (rounds > 1) return rounds == 2 ? recorded<{2, true}>() : recorded<{3, true}>();
  return stages ? recorded<{1, true}>() : recorded<{}>();
}

struct configuration {
  const char* name;
  std::int64_t layers, width, head_count, micro, sequences, t, p, d;
  /// Published: operations of a device in a second, in 1e12, by the paper's formula; or the seconds of a step. Or
  /// neither.
  double teraflops, seconds;
  const char* collectives;
  /// How many parts of a stage a device has.
  int rounds = 1;
  /// Whether only scores are computed again.
  bool selective = false;
  /// Whether products add to gradients of earlier microbatches, as in the software of the second paper.
  bool adds_in_products = false;

  /// Of a device, as the paper counts them (section 5.1): with the forward pass computed twice, and none that a
  /// pipeline computes for nothing.
  double flops() const {
    const auto l = static_cast<double>(layers), h = static_cast<double>(width), s = 2048.0, v = 51200.0;
    return 96 * static_cast<double>(sequences) * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)) /
           static_cast<double>(t * p * d);
  }
};
constexpr const char *in_tensors = "all_gather 4, all_reduce 23, all_to_all 2, exchange 1",
                     *in_few_stages = "all_gather 9, all_reduce 21, exchange 4, reduce_scatter 4",
                     *in_some_stages =
                         "all_gather 8, all_reduce 22, collective_permute 2, exchange 4, "
                         "reduce_scatter 3",
                     *in_stages = "all_gather 10, all_reduce 21, all_to_all 2, exchange 2, reduce_scatter 3",
                     *in_one_batch = "all_gather 10, all_reduce 10, all_to_all 2, exchange 2, reduce_scatter 3",
                     *selective =
                         "all_gather 11, all_reduce 11, all_to_all 2, collective_permute 1, exchange 2, "
                         "reduce_scatter 5";
constexpr configuration configurations[] = {
    {"1.7B", 24, 2304, 24, 16, 512, 1, 1, 32, 137, 0, "all_reduce 16"},
    {"3.6B", 30, 3072, 32, 16, 512, 2, 1, 32, 138, 0, in_tensors},
    {"7.5B", 36, 4096, 32, 16, 512, 4, 1, 32, 142, 0, in_tensors},
    {"18B", 40, 6144, 48, 8, 1024, 8, 1, 32, 135, 0, in_tensors},
    {"39B", 48, 8192, 64, 4, 1536, 8, 2, 32, 138, 0, in_few_stages},
    {"1T", 128, 25600, 160, 1, 3072, 8, 64, 6, 163, 0, in_stages},
    {"76B, 3 rounds", 60, 10240, 80, 2, 1792, 8, 4, 32, 140, 0, in_few_stages, 3},
    {"145B, 2 rounds", 80, 12288, 96, 2, 2304, 8, 8, 24, 148, 0, in_some_stages, 2},
    {"310B, 2 rounds", 96, 16384, 128, 1, 2160, 8, 16, 15, 155, 0, in_some_stages, 2},
    {"530B, 3 rounds", 105, 20480, 128, 1, 2520, 8, 35, 9, 163, 0, in_stages, 3},
    {"175B on 384", 96, 12288, 96, 1, 1536, 8, 12, 4, 153, 0, in_stages},
    {"175B on 768", 96, 12288, 96, 1, 1536, 8, 12, 8, 149, 0, in_stages},
    {"175B on 1536", 96, 12288, 96, 1, 1536, 8, 12, 16, 141, 0, in_some_stages},
    {"530B on 560", 105, 20480, 128, 1, 2240, 8, 35, 2, 171, 0, in_stages},
    {"530B on 1120", 105, 20480, 128, 1, 2240, 8, 35, 4, 167, 0, in_stages},
    {"530B on 2240", 105, 20480, 128, 1, 2240, 8, 35, 8, 159, 0, in_stages},
    {"22B on 8", 48, 6144, 64, 4, 4, 8, 1, 1, 0, 1.42, "all_gather 4, all_reduce 7, all_to_all 2, exchange 1", 1, false,
     true},
    {"175B on 64, 3 rounds", 96, 12288, 96, 1, 64, 8, 8, 1, 0, 18.13,
     "all_gather 8, all_reduce 11, collective_permute 2, exchange 4, reduce_scatter 3", 3, false, true},
    {"530B on 280, 3 rounds", 105, 20480, 128, 1, 280, 8, 35, 1, 0, 49.05, in_one_batch, 3, false, true},
    {"1T on 512", 128, 25600, 160, 1, 512, 8, 64, 1, 0, 94.42, in_one_batch, 1, false, true},
    {"22B on 8, selective", 48, 6144, 64, 4, 4, 8, 1, 1, 0, 1.10,
     "all_gather 11, all_reduce 10, all_to_all 4, exchange 2, reduce_scatter 4", 1, true, true},
    {"175B on 64, 3 rounds, selective", 96, 12288, 96, 1, 64, 8, 8, 1, 0, 13.75,
     "all_gather 9, all_reduce 12, collective_permute 2, exchange 5, reduce_scatter 4", 3, true, true},
    {"530B on 280, 3 rounds, selective", 105, 20480, 128, 1, 280, 8, 35, 1, 0, 37.83, selective, 3, true, true},
    {"1T on 512, selective", 128, 25600, 160, 1, 512, 8, 64, 1, 0, 71.49, selective, 1, true, true},
    {"1T on 1048576", 128, 25600, 160, 1, 1 << 20, 8, 64, 2048, 0, 0, in_stages},
};

/// Nodes of 8: tensors are sharded within one, batches and stages over the rest of it and over nodes. A kernel fuses
/// the softmax of attention (section 4.2 of the first paper). PyTorch starts each pass from the host: its time, of 10,
/// 15, 20 and so on microseconds, was chosen to fit every other one of vTrain's runs within a node. It changes none of
/// the published runs. The weights of a round are read in place, and their gradients are added to those of earlier
/// microbatches without the other rounds.
constexpr cleave::machine node_by_node = [] {
  cleave::machine m = cleave::machines::a100.without_overlap();
  m.issue = 25e-6;
  m.fused_features = 256;
  m.fused_products = false;
  m.sums = cleave::sums_in_loops::in_entries;
  return m;
}();
constexpr cleave::machine later_node_by_node = [] {
  cleave::machine m = node_by_node;
  m.sums = cleave::sums_in_loops::in_products;
  return m;
}();
/// With the vocabulary and the sequences of GPT-3, unless something else is said.
published::run run_of(const configuration& c, std::int64_t length = 2048) {
  const std::vector<cleave::named_size> sizes{layer = c.layers / c.p / c.rounds,
                                              stage = c.p,
                                              batch = c.micro * c.d,
                                              position = length,
                                              source = length,
                                              microbatch = c.sequences / (c.micro * c.d),
                                              embed = c.width,
                                              hidden = 4 * c.width,
                                              heads = c.head_count,
                                              head = c.width / c.head_count,
                                              vocabulary = 51200,
                                              pipe = c.p,
                                              data = c.d,
                                              tensor_axis = c.t};
  return {c.name,
          training_step(c.rounds, c.p > 1, c.selective),
          sizes,
          c.adds_in_products ? later_node_by_node : node_by_node,
          c.teraflops > 0 ? c.flops() / c.teraflops / 1e12 : c.seconds,
          c.collectives,
          0,
          c.selective    ? "only scores computed again"
          : c.rounds > 1 ? "interleaved"
                         : ""};
}
/// Searches the devices for tensors, stages and batches, and the microbatches, for the model, the sequences and the
/// number of devices of a run.
void search(const published::run& r) {
  const configuration c = *std::find_if(std::begin(configurations), std::end(configurations),
                                        [&](const configuration& one) { return one.name == r.name; });
  const std::int64_t devices = c.t * c.p * c.d;
  std::vector<cleave::searched_variant> variants;
  for (std::int64_t p = 1; p <= c.layers; ++p)
    for (std::int64_t t = 1; t <= 8; t *= 2)
      for (std::int64_t micro = 1; micro <= 16; micro *= 2) {
        const std::int64_t d = devices / t / p;
        if (c.layers % (p * c.rounds) != 0 || devices % (t * p) != 0 || c.sequences % (micro * d) != 0) continue;
        // Stages that are interleaved take groups of microbatches.
        if (c.rounds > 1 && c.sequences / (micro * d) % p != 0) continue;
        configuration other = c;
        other.t = t, other.p = p, other.d = d, other.micro = micro;
        const published::run one = run_of(other);
        variants.push_back({std::to_string(micro) + " sequences in a microbatch", one.of, one.sizes});
      }
  const cleave::search_result found = cleave::search(variants, {}, {}, r.on);
  const auto whole = published::planned_as_searched(r);
  std::printf("%lld plans%s; as published: %.3f s, %.1f GiB\n%s", static_cast<long long>(found.plans),
              found.exact ? ", of all" : "", whole.predict(r.on).seconds,
              static_cast<double>(whole.memory().total()) / (1 << 30), found.table().c_str());
  std::printf("%s", found.cpp("step", "signature", "node_by_node").c_str());
}
std::vector<published::run> runs() {
  std::vector<published::run> all;
  for (const configuration& c : configurations) all.push_back(run_of(c));
  return all;
}

/// The measured configurations of vTrain (Bang et al. 2023, arXiv 2312.12391), from the tables of its repository:
/// devices, batch, microbatch, width, heads, layers, length, tensor, data and pipe devices, and milliseconds.
struct measured {
  std::int64_t devices;
  std::string model;
  published::run run;
};
/// A word as a number. Throws std::runtime_error.
double number_in(const std::string& word, const char* file) {
  try {
    return std::stod(word);
  } catch (const std::logic_error&) {
    throw std::runtime_error(std::string(file) + " has '" + word + "' where a number was expected");
  }
}
/// Lines with a number that no run can have are left out.
std::vector<measured> read(const char* file) {
  std::vector<measured> all;
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  const bool has_weights = line.find("Parameters") != line.npos;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::vector<double> n;
    for (std::string word; std::getline(words, word, ',');) n.push_back(number_in(word, file));
    if (has_weights && !n.empty()) n.erase(n.begin());
    if (n.size() != 11) continue;
    // Counts become whole numbers and divide each other; times divide.
    const bool counts = std::all_of(n.begin(), n.end() - 1, [](double x) { return x >= 1 && x <= 1e6; });
    if (!counts || !(n[10] > 0 && n[10] <= 1e12)) continue;
    const auto at = [&](std::size_t i) { return static_cast<std::int64_t>(n[i]); };
    const configuration c{"", at(5), at(3), at(4), at(2), at(1), at(7), at(9), at(8), 0, n[10] / 1e3, ""};
    if (c.micro * c.d > c.sequences || c.p > c.layers || c.head_count > c.width) continue;
    const std::string model = std::to_string(at(5)) + " x " + std::to_string(at(3));
    all.push_back({at(0), model, run_of(c, at(6))});
  }
  return all;
}
std::int64_t tensors_of(const published::run& r) { return r.sizes.back().size; }
/// How far the predictions are off, and how much slower the configuration is that they choose for a model and a number
/// of devices than the fastest one that was measured.
int compare_with(const char* file) {
  struct choice {
    double least = 0, predicted = 0, measured = 0;
    int number = 0;
  };
  published::errors all, within_nodes;
  std::map<std::pair<std::string, std::int64_t>, choice> choices;
  for (const measured& m : read(file)) {
    const double t = published::planned(m.run).predict(m.run.on).seconds, was = m.run.seconds;
    all.add(was, t);
    if (tensors_of(m.run) <= 8) within_nodes.add(was, t);
    choice& c = choices[{m.model, m.devices}];
    if (c.number == 0 || was < c.least) c.least = was;
    if (c.number == 0 || t < c.predicted) c.predicted = t, c.measured = was;
    ++c.number;
  }
  if (all.published.empty()) return std::fprintf(stderr, "%s has no configurations\n", file), 1;
  all.print("all " + std::to_string(all.published.size()));
  if (!within_nodes.published.empty())
    within_nodes.print("tensors within a node, " + std::to_string(within_nodes.published.size()));
  double sum = 0, worst = 0;
  int several = 0;
  for (const auto& [what, c] : choices) {
    if (c.number < 2) continue;
    ++several;
    sum += c.measured / c.least - 1;
    worst = std::max(worst, c.measured / c.least - 1);
  }
  if (several > 0)
    std::printf("choices of %d models and numbers of devices: %.1f %% slower than the fastest, at worst %.1f %%\n",
                several, 100 * sum / several, 100 * worst);
  return 0;
}

const published::program here{"megatron", runs, search, compare_with};

} // namespace scale_megatron
