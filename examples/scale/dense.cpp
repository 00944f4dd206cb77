// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dense decoders of GSPMD (Xu et al. 2021, "GSPMD: General and Scalable Parallelization for ML Computation Graphs",
// section 5.1) as their public configurations train them on TPU v3 and v4: 16-bit products of 32-bit weights, gated or
// plain feed-forward layers, Adafactor or Adam, each layer computed again for its gradient. Published times: tokens a
// second in the comments of Lingvo's lm/params/synthetic_packed_input.py, and the utilization of Pax's chart of weak
// scaling (paxml README). --search NAME searches the layout from "everything replicated".

#include "published.hpp"
#include "training.hpp"

namespace scale_dense {

using namespace training;

constexpr cleave::axis<"X"> X;
constexpr cleave::axis<"Y"> Y;
constexpr cleave::mesh mesh{X, Y};

/// The 2-D layout that the paper calls finalized: weights over both axes, activations between layers too.
constexpr auto finalized = nn::model_layout{nn::layout_rules{mesh, heads / Y, hidden / Y, embed / X},
                                            nn::layout_rules{mesh, batch / X, heads / Y, hidden / Y, vocabulary / Y,
                                                             embed / Y}}
                               .scheduled(nn::layer_by_layer<true>{});
constexpr nn::layout_rules table{mesh, embed / Y};
constexpr auto& of_text = loss<finalized, nn::causal>;
constexpr auto& of_encoder = loss<finalized, nn::no_mask>;
/// The same, if all values are kept for the gradient.
constexpr auto kept = finalized.scheduled(nn::layer_by_layer<>{});

using number = cleave::abstract<float, mesh()>;
using words = cleave::abstract<int, mesh(batch / X, position)>;
using with_layouts = weights<finalized.parameters>;
using gated_model = model<with_layouts::gated, with_layouts::scale, table>::in<cleave::abstract>;
using plain_model = model<with_layouts::plain, with_layouts::scale, table>::in<cleave::abstract>;

// Each function is recorded once, for all sizes.
const auto gated_adafactor =
    cleave::study::of<adafactor_step<gated_model, number, words, words>>(with_adafactor<of_text>, {"model", "state"});
const auto plain_adafactor =
    cleave::study::of<adafactor_step<plain_model, number, words, words>>(with_adafactor<of_text>, {"model", "state"});
const auto plain_adam = cleave::study::of<adam_step<plain_model, number, words, words>>(with_adam<of_text>,
                                                                                        {"model", "state"});
const auto encoder_adam = cleave::study::of<adam_step<plain_model, number, words, words>>(with_adam<of_encoder>,
                                                                                          {"model", "state"});

const cleave::machine &v3 = cleave::machines::tpu_v3, &v4 = cleave::machines::tpu_v4;

published::run run(const char* name, const cleave::study& how, const cleave::machine& on, std::int64_t layers,
                   std::int64_t sequences, std::int64_t length, std::int64_t width, std::int64_t inner,
                   std::int64_t head_count, std::int64_t x, std::int64_t y, double seconds, const char* collectives,
                   double utilization = 0) {
  return {name,
          how,
          {layer = layers, batch = sequences, position = length, source = length, embed = width, hidden = inner,
           heads = head_count, head = 128, vocabulary = 32000, X = x, Y = y},
          on,
          seconds,
          collectives,
          utilization};
}
std::vector<published::run> runs() {
  return {
      run("128B on 8x16", gated_adafactor, v3, 64, 16, 1024, 8192, 65536, 128, 8, 16, 16 * 1024 / 3700.0,
          "all_gather 23, all_reduce 56, all_to_all 1, collective_permute 11, reduce_scatter 12"),
      run("128B on 16x32", gated_adafactor, v3, 64, 128, 1024, 8192, 65536, 128, 16, 32, 128 * 1024 / 18000.0,
          "all_gather 22, all_reduce 56, collective_permute 26, reduce_scatter 12"),
      run("128B on 32x64", gated_adafactor, v3, 64, 512, 1024, 8192, 65536, 128, 32, 64, 512 * 1024 / 62000.0,
          "all_gather 21, all_reduce 56, collective_permute 34, reduce_scatter 12"),
      run("175B on 64x32", plain_adafactor, v3, 96, 1024, 2048, 12288, 49152, 96, 64, 32, 1024 * 2048 / 51530.0,
          "all_gather 24, all_reduce 51, all_to_all 11, collective_permute 11, reduce_scatter 8"),
      run("1T on 16x32", gated_adafactor, v3, 128, 16, 512, 16384, 131072, 256, 16, 32, 16 * 512 / 1400.0,
          "all_gather 18, all_reduce 57, all_to_all 1, collective_permute 17, reduce_scatter 14"),
      run("41B on 16x32", plain_adam, v3, 24, 256, 2048, 12288, 49152, 96, 16, 32, 256 * 2048 / 53800.0,
          "all_gather 22, all_reduce 16, all_to_all 12, collective_permute 19, reduce_scatter 8"),
      run("162B on 16x32", plain_adam, v3, 96, 64, 2048, 12288, 49152, 96, 16, 32, 64 * 2048 / 12500.0,
          "all_gather 21, all_reduce 16, collective_permute 28, reduce_scatter 8"),
      run("128B on v4 64x4", plain_adam, v4, 71, 1024, 1024, 12288, 49152, 96, 64, 4, 24.1,
          "all_gather 25, all_reduce 13, all_to_all 1, collective_permute 3, reduce_scatter 14"),
      run("256B on v4 64x8", plain_adam, v4, 80, 2048, 1024, 16384, 65536, 128, 64, 8, 43.8,
          "all_gather 28, all_reduce 16, all_to_all 11, collective_permute 3, reduce_scatter 8"),
      run("512B on v4 64x16", plain_adam, v4, 102, 4096, 1024, 20480, 81920, 160, 64, 16, 94.5,
          "all_gather 24, all_reduce 16, all_to_all 12, collective_permute 8, reduce_scatter 8"),
      run("1T on v4 256x8", plain_adam, v4, 142, 4096, 1024, 24576, 98304, 192, 256, 8, 86.5,
          "all_gather 25, all_reduce 13, all_to_all 1, collective_permute 3, reduce_scatter 14"),
      // LaMDA (Thoppilan et al. 2022, arXiv 2201.08239, section 3): 256K tokens a batch, 56.5 % of the peak.
      run("LaMDA 137B on 32x64", gated_adafactor, v3, 64, 256, 1024, 8192, 65536, 128, 32, 64, 0,
          "all_gather 21, all_reduce 56, collective_permute 34, reduce_scatter 12", 0.565),
      // Google's encoder of 480 billion weights in MLPerf Training 1.1: 63 % of the peak with recomputed work. Its
      // dims and its batch were not announced; these are ours.
      run("encoder 480B on v4 64x32", encoder_adam, v4, 96, 2048, 512, 20480, 81920, 160, 64, 32, 0,
          "all_gather 20, all_reduce 16, all_to_all 1, collective_permute 10, reduce_scatter 11", 0.63),
      // Never made: as many sequences for a device as on 2,048.
      run("1T on 1048576", gated_adafactor, v3, 128, 16384, 512, 16384, 131072, 256, 1024, 1024, 0,
          "all_gather 23, all_reduce 56, all_to_all 1, collective_permute 11, reduce_scatter 12"),
  };
}

/// Searches the shape of the mesh, whether layers are computed again, and the layouts of the weights, with the
/// optimizer's state, and of the activations.
void search(const published::run& r) {
  std::vector<cleave::searched_variant> variants{{"layers computed again", r.of, {}}};
  if (&r.of == &gated_adafactor)
    variants.push_back(
        {"all values kept",
         cleave::study::of<adafactor_step<gated_model, number, words, words>>(with_adafactor<loss<kept, nn::causal>>,
                                                                              {"model", "state"}),
         {}});
  std::vector<cleave::named_size> sizes = r.sizes;
  std::erase_if(sizes, [](const cleave::named_size& n) { return n.name == "X" || n.name == "Y"; });
  const std::vector<cleave::searched_group> groups{
      {{"model.*", "state.*", "result.0.*", "result.1.*"}, false, {"heads", "hidden", "vocabulary", "embed"}},
      {{"arg 2", "arg 3"}, true, {"batch", "heads", "hidden", "vocabulary", "embed", "position"}}};
  cleave::search_options options;
  options.devices = published::planned(r).planned_for().axes.devices();
  options.progress = [](const cleave::searched_layout& found, std::int64_t plans) {
    std::printf("%5lld plans: %8.3f s, %6.1f GiB; %s, %s; weights {%s}, activations {%s}\n",
                static_cast<long long>(plans), found.seconds, found.memory / (1 << 30), found.variant.c_str(),
                found.mesh_text().c_str(), found.tables[0].text().c_str(), found.tables[1].text().c_str());
    std::fflush(stdout);
  };
  const cleave::search_result found = cleave::search(variants, groups, sizes, r.on, options);
  std::printf("%lld plans, %lld layouts without one; the published layout: %.3f s\n%s",
              static_cast<long long>(found.plans), static_cast<long long>(found.refused),
              published::planned_as_searched(r).predict(r.on).seconds, found.cpp("step", "signature", "rates").c_str());
  std::printf("time against memory, of weights and activations:\n%s", found.table().c_str());
}

const published::program here{"dense", runs, search};

} // namespace scale_dense
