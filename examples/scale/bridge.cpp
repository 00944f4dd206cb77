// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Llama 3 (8 B, 70 B and 405 B) as Megatron-Bridge trains it on H100, B200, GB200 and GB300 with products of 8-bit and
// 4-bit elements: stages in rounds, weights sharded over all devices, or both. Published: the summary of performance of
// Megatron-Bridge (see NOTICE), of each configuration its latest release. The last run is on 1,048,576 devices, and was
// never made.

#include "llama.hpp"
#include "published.hpp"

namespace scale_bridge {

using namespace llama;

/// The elements of products: 8 bits with a scale for each tensor, or for each 32 of them, or 4 bits.
enum numbers { fp8, mxfp8, nvfp4 };
constexpr const char* names_of_numbers[] = {"FP8", "MXFP8", "NVFP4"};
enum systems { h100, b200, gb200, gb300 };
constexpr const char* names_of_systems[] = {"H100", "B200", "GB200", "GB300"};

/// The fitted constants: parts of the peak of 8-bit products on each system, those of products of the two other kinds
/// of elements in relation to it, and parts of the bandwidths of memory and of links. The first ones are where the fit
/// begins, the others fit every other run best.
const std::vector<std::string> constants{
    "H100", "B200", "GB200", "GB300", "MXFP8", "NVFP4", "of the memory's bandwidth", "of the links'"};
const std::vector<double> start{0.8, 0.8, 0.7, 0.8, 0.9, 0.75, 0.8, 1}, most{1, 1, 1, 1, 1, 1, 1, 1.2},
    reached{1, 0.86, 0.85, 1, 0.91, 0.88, 0.9, 1.2};

/// Rates of data sheets. The rate of 16-bit products of the machine is that of 8-bit or 4-bit ones, to which the
/// programs round. Attention has 16-bit elements; SimuMax's authors measured the rate of its kernel on B200.
cleave::machine machine_of(systems s, numbers n, const std::vector<double>& c) {
  cleave::machine m = s == h100 ? cleave::machines::h100 : s == b200 ? cleave::machines::b200 : cleave::machines::gb200;
  const double of_16 = m.flops_of_2;
  constexpr double peaks_of_4[] = {0, 9000e12, 10000e12, 15000e12};
  m.name = "H100 to GB300";
  m.flops_of_2 = n == nvfp4 ? peaks_of_4[s] : 2 * of_16;
  m.efficiency = c[s] * (n == fp8 ? 1 : n == mxfp8 ? c[4] : c[5]);
  m.half_width = 0;
  m.memory_efficiency = c[6];
  m.every_axis.bandwidth *= c[7];
  m.every_axis.far_bandwidth *= c[7];
  m.sums = cleave::sums_in_loops::in_products;
  m.fused_features = 256;
  m.fused_efficiency = 0.78 * of_16 / m.flops_of_2;
  return m;
}

struct model_sizes {
  const char* name;
  std::int64_t layers, width, inner, queries;
};
/// The pipelines of the 405B count the embedding and the output as layers: 128.
constexpr model_sizes small{"8B", 32, 4096, 14336, 32}, medium{"70B", 80, 8192, 28672, 64},
    large{"405B", 128, 16384, 53248, 128};

const cleave::study& step_of(int rounds, bool sharded) {
  switch (rounds) {
    case 4: return training_step<technique{4, false, false}>();
    case 5: return training_step<technique{5, false, false}>();
    case 8: return training_step<technique{8, false, false}>();
    default: return sharded ? training_step<technique{1, true, false}>() : training_step<technique{1, false, false}>();
  }
}
struct configuration {
  const model_sizes& of;
  systems system;
  numbers elements;
  std::int64_t devices, sequences, micro, t, p, c;
  int rounds;
  bool sharded;
  /// Published: tokens of a device in a second.
  double tokens;
  const char* collectives;
};
constexpr const char *
    replicated = "all_reduce 13",
   *in_rounds = "all_gather 13, all_reduce 15, all_to_all 2, exchange 4, reduce_scatter 8",
   *sharded = "all_gather 21, all_reduce 1, all_to_all 2, reduce_scatter 11",
   *in_stages = "all_gather 2, all_reduce 13, exchange 3",
   *in_contexts = "all_gather 17, all_reduce 15, all_to_all 3, exchange 4, reduce_scatter 8",
   *in_pairs = "all_gather 15, all_reduce 15, all_to_all 2, exchange 4, reduce_scatter 10",
   *in_few_contexts = "all_gather 14, all_reduce 15, all_to_all 2, collective_permute 1, exchange 5, reduce_scatter 10";
constexpr configuration configurations[] = {
    {small, h100, fp8, 8, 128, 1, 1, 1, 1, 1, true, 14451,
     "all_gather 21, all_reduce 1, collective_permute 1, reduce_scatter 12"},
    {small, b200, fp8, 8, 128, 2, 1, 1, 1, 1, false, 30624, replicated},
    {small, b200, mxfp8, 8, 128, 2, 1, 1, 1, 1, false, 29521, replicated},
    {small, gb200, fp8, 8, 128, 2, 1, 1, 1, 1, false, 31508, replicated},
    {small, gb200, mxfp8, 8, 128, 2, 1, 1, 1, 1, false, 29789, replicated},
    {small, gb300, fp8, 8, 128, 2, 1, 1, 1, 1, false, 37556, replicated},
    {small, gb300, mxfp8, 8, 128, 2, 1, 1, 1, 1, false, 36108, replicated},
    {medium, h100, fp8, 64, 128, 1, 4, 8, 1, 5, false, 1602, in_rounds},
    {medium, h100, fp8, 64, 256, 1, 4, 8, 1, 5, false, 1664, in_rounds},
    {medium, gb200, fp8, 64, 256, 2, 1, 1, 1, 1, true, 4224, sharded},
    {medium, gb200, mxfp8, 64, 256, 1, 2, 4, 1, 5, false, 3712, in_rounds},
    {medium, gb200, nvfp4, 64, 256, 1, 2, 4, 1, 5, false, 4864, in_rounds},
    {medium, gb300, fp8, 64, 256, 2, 1, 1, 1, 1, true, 5248, sharded},
    {medium, gb300, mxfp8, 64, 256, 1, 1, 4, 1, 5, false, 4864, in_stages},
    {medium, gb300, mxfp8, 64, 256, 2, 1, 4, 1, 1, false, 4798, in_stages},
    {medium, gb300, nvfp4, 64, 256, 1, 1, 4, 1, 5, false, 7296, in_stages},
    {medium, gb300, nvfp4, 64, 256, 2, 1, 1, 1, 1, false, 7002, "all_reduce 12, collective_permute 1, exchange 1"},
    {large, h100, fp8, 1024, 512, 1, 8, 8, 2, 8, false, 292, in_contexts},
    {large, h100, fp8, 1024, 1536, 1, 8, 8, 2, 8, false, 326, in_contexts},
    {large, b200, fp8, 128, 64, 1, 4, 8, 2, 8, false, 661, in_few_contexts},
    {large, b200, mxfp8, 128, 64, 1, 4, 8, 2, 8, false, 624, in_few_contexts},
    {large, gb200, fp8, 256, 1536, 1, 4, 16, 1, 4, false, 843, in_rounds},
    {large, gb200, mxfp8, 256, 1536, 1, 4, 16, 1, 8, false, 783, in_rounds},
    {large, gb200, nvfp4, 256, 1536, 1, 4, 16, 1, 4, false, 1083, in_rounds},
    {large, gb200, nvfp4, 256, 1536, 1, 4, 16, 1, 8, false, 1166, in_rounds},
    {large, gb300, fp8, 256, 1536, 1, 2, 8, 2, 4, false, 1024, in_pairs},
    {large, gb300, fp8, 256, 1536, 1, 4, 8, 1, 4, false, 1048, in_rounds},
    {large, gb300, mxfp8, 256, 1536, 1, 2, 8, 2, 4, false, 952, in_pairs},
    {large, gb300, nvfp4, 256, 1536, 1, 4, 8, 1, 4, false, 1413, in_rounds},
    {large, gb200, fp8, 1 << 20, 1 << 19, 1, 4, 16, 1, 4, false, 0,
     "all_gather 13, all_reduce 16, all_to_all 2, exchange 4, reduce_scatter 8"},
};

published::run run_of(const configuration& c) {
  const std::int64_t length = 8192, d = c.devices / (c.t * c.p * c.c);
  const std::string name = std::string(c.of.name) + " on " + std::to_string(c.devices) + " " +
                           names_of_systems[c.system] + ", " + names_of_numbers[c.elements] + ", " +
                           std::to_string(c.sequences) + " sequences, " + std::to_string(c.t) + " x " +
                           std::to_string(c.p) + " x " + std::to_string(d) +
                           (c.rounds > 1 ? ", " + std::to_string(c.rounds) + " rounds" : "");
  return {name,
          step_of(c.rounds, c.sharded),
          {layer = c.of.layers / c.p / c.rounds, stage = c.p, batch = c.micro * d, position = length, source = length,
           microbatch = c.sequences / (c.micro * d), embed = c.of.width, hidden = c.of.inner, heads = 8,
           group = c.of.queries / 8, head = 128, vocabulary = 128256, pipe_axis = c.p, data = d, context = c.c,
           tensor_axis = c.t},
          machine_of(c.system, c.elements, reached),
          c.tokens > 0 ? static_cast<double>(c.sequences * length) / (c.tokens * static_cast<double>(c.devices)) : 0,
          c.collectives};
}
std::vector<published::run> runs() {
  std::vector<published::run> all;
  for (const configuration& c : configurations) all.push_back(run_of(c));
  return all;
}
cleave::machine with_constants(const published::run& r, const std::vector<double>& c) {
  for (const configuration& one : configurations)
    if (run_of(one).name == r.name) return machine_of(one.system, one.elements, c);
  return r.on;
}
const published::program here{"bridge", runs, nullptr, nullptr, {constants, start, most, with_constants}};

} // namespace scale_bridge
