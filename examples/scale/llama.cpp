// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers of Llama 3 (70 B and 405 B) as Megatron-LM trains them on 8 B200: grouped heads, gated feed-forward parts,
// Adam, gradients over 4 to 32 microbatches of one sequence. Between layers positions are sharded over the devices for
// tensors, and long sequences over those of an axis of their own. Published: the dense models among the measurements
// of SimuMax (see NOTICE). The last run is the whole 405B on 1,048,576 devices, and was never made.

#include "b200_node.hpp"
#include "llama.hpp"
#include "published.hpp"

namespace scale_llama {

using namespace llama;

/// The sizes of a model, and the names of its runs.
struct model_sizes {
  const char* name;
  std::int64_t layers, width, inner, queries;
};
constexpr model_sizes small{"70B, 12 layers", 12, 8192, 28672, 64}, large{"405B, 4 layers", 4, 16384, 53248, 128},
    whole{"405B", 126, 16384, 53248, 128};
/// Devices for tensors, parts of sequences, stages and batches.
struct devices {
  std::int64_t t, c, p, d;
};
published::run run(const std::string& name, const model_sizes& m, const devices& n, std::int64_t length,
                   std::int64_t microbatches, double seconds, const char* collectives) {
  return {name,
          training_step<technique{}>(),
          {layer = m.layers / n.p, stage = n.p, batch = n.d, position = length, source = length,
           microbatch = microbatches, embed = m.width, hidden = m.inner, heads = 8, group = m.queries / 8, head = 128,
           vocabulary = 128256, pipe_axis = n.p, data = n.d, context = n.c, tensor_axis = n.t},
          b200_node::machine,
          seconds,
          collectives};
}
std::vector<published::run> runs() {
  struct measured {
    std::int64_t t, p, d, microbatches;
    double of_70b, of_405b;
    const char* collectives;
  };
  constexpr const char *in_stages = "all_gather 2, all_reduce 13, exchange 4",
                       *with_batches = "all_gather 10, all_reduce 15, all_to_all 2, exchange 2, reduce_scatter 7",
                       *in_tensors = "all_gather 10, all_reduce 6, all_to_all 2, exchange 2, reduce_scatter 7";
  constexpr measured all[] = {
      {1, 2, 4, 4, 0.8430, 1.0746, in_stages},
      {2, 1, 4, 4, 0.7255, 0.9073, with_batches},
      {4, 1, 2, 4, 0.4098, 0.4760, with_batches},
      {8, 1, 1, 4, 0.2809, 0.2588, in_tensors},
      {1, 2, 4, 8, 1.4768, 1.9354, in_stages},
      {2, 1, 4, 8, 1.3870, 1.7168, with_batches},
      {4, 1, 2, 8, 0.7656, 0.8996, with_batches},
      {8, 1, 1, 8, 0.5567, 0.4881, in_tensors},
      {1, 2, 4, 32, 5.4365, 7.0464, "all_gather 2, all_reduce 13, exchange 3"},
      {2, 1, 4, 32, 5.3765, 6.6041,
       "all_gather 10, all_reduce 16, all_to_all 2, collective_permute 1, exchange 1, reduce_scatter 8"},
      {4, 1, 2, 32, 2.9646, 3.4554, with_batches},
      {8, 1, 1, 32, 2.0737, 1.9018, in_tensors}};
  std::vector<published::run> made;
  for (const model_sizes& of : {small, large})
    for (const measured& m : all) {
      const bool is_large = of.width == large.width;
      const std::string name = std::string(of.name) + ", " + std::to_string(m.microbatches) + " microbatches, " +
                               std::to_string(m.t) + " x " + std::to_string(m.p) + " x " + std::to_string(m.d);
      // Of the 405B, each stage gathers one value more with 4 microbatches, and other values move with 8 devices for
      // tensors.
      const char* expected = m.collectives;
      if (is_large && m.p == 2 && m.microbatches == 4) expected = "all_gather 3, all_reduce 13, exchange 4";
      if (is_large && m.t == 8)
        expected = "all_gather 12, all_reduce 6, all_to_all 1, collective_permute 2, exchange 2, reduce_scatter 5";
      made.push_back(
          run(name, of, {m.t, 1, m.p, m.d}, 4096, m.microbatches, is_large ? m.of_405b : m.of_70b, expected));
    }
  struct measured_long {
    const model_sizes& of;
    std::int64_t t, c, length;
    double seconds;
    const char* collectives;
  };
  constexpr const char *in_fours = "all_gather 22, all_reduce 11, all_to_all 9, exchange 2, reduce_scatter 9",
                       *large_in_fours = "all_gather 22, all_reduce 11, all_to_all 7, exchange 2, reduce_scatter 8",
                       *in_longer_fours =
                           "all_gather 25, all_reduce 11, all_to_all 9, collective_permute 1, exchange 2, "
                           "reduce_scatter 7",
                       *in_eights =
                           "all_gather 4, all_reduce 8, all_to_all 9, collective_permute 4, exchange 1, "
                           "reduce_scatter 4",
                       *in_longer_eights =
                           "all_gather 4, all_reduce 8, all_to_all 9, collective_permute 5, exchange 1, "
                           "reduce_scatter 4";
  const measured_long all_long[] = {{small, 2, 4, 32768, 1.7580, in_fours},
                                    {small, 1, 8, 32768, 1.7681, in_eights},
                                    {large, 2, 4, 32768, 1.9847, large_in_fours},
                                    {large, 1, 8, 32768, 2.0036, in_eights},
                                    {small, 2, 4, 131072, 11.3157, in_longer_fours},
                                    {small, 1, 8, 131072, 11.3019, in_longer_eights},
                                    {large, 2, 4, 131072, 10.5776, in_longer_fours}};
  for (const measured_long& m : all_long)
    made.push_back(run(std::string(m.of.name) + ", " + std::to_string(m.length) + " positions, " + std::to_string(m.t) +
                           " x " + std::to_string(m.c),
                       m.of, {m.t, m.c, 1, 1}, m.length, 4, m.seconds, m.collectives));
  made.push_back(run("405B on 1048576", whole, {8, 1, 2, 1 << 16}, 4096, 8, 0,
                     "all_gather 16, all_reduce 16, all_to_all 1, collective_permute 2, exchange 4, reduce_scatter 5"));
  return made;
}

const published::program here{"llama", runs};

} // namespace scale_llama
