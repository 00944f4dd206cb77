// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans training steps of the dense decoders of GSPMD at their published sizes, and predicts their step times on TPU v3
// and v4 with one set of rates for each machine (study/machine.hpp). No device, no MPI. Writes a table; with --csv its
// lines with commas; with --report NAME all of one run; with --search NAME the layout that a search finds for it from
// "everything replicated". Published times: tokens a second in the comments of
// Lingvo's lm/params/synthetic_packed_input.py, and the utilization of Pax's chart of weak scaling (paxml README).

#include "dense_decoder.hpp"

#include <cleave/study/search.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace dense_decoder;

enum class recipe { gated_adafactor, plain_adafactor, plain_adam };

struct run {
  const char* name;
  recipe how;
  const cleave::machine& on;
  std::int64_t layers, sequences, length, width, inner, head_count, x, y;
  double published; // seconds of a step
};
const cleave::machine &v3 = cleave::machines::tpu_v3, &v4 = cleave::machines::tpu_v4;
const run runs[] = {
    {"128B on 8x16", recipe::gated_adafactor, v3, 64, 16, 1024, 8192, 65536, 128, 8, 16, 16 * 1024 / 3700.0},
    {"128B on 16x32", recipe::gated_adafactor, v3, 64, 128, 1024, 8192, 65536, 128, 16, 32, 128 * 1024 / 18000.0},
    {"128B on 32x64", recipe::gated_adafactor, v3, 64, 512, 1024, 8192, 65536, 128, 32, 64, 512 * 1024 / 62000.0},
    {"175B on 64x32", recipe::plain_adafactor, v3, 96, 1024, 2048, 12288, 49152, 96, 64, 32, 1024 * 2048 / 51530.0},
    {"1T on 16x32", recipe::gated_adafactor, v3, 128, 16, 512, 16384, 131072, 256, 16, 32, 16 * 512 / 1400.0},
    {"41B on 16x32", recipe::plain_adam, v3, 24, 256, 2048, 12288, 49152, 96, 16, 32, 256 * 2048 / 53800.0},
    {"162B on 16x32", recipe::plain_adam, v3, 96, 64, 2048, 12288, 49152, 96, 16, 32, 64 * 2048 / 12500.0},
    {"128B on v4 64x4", recipe::plain_adam, v4, 71, 1024, 1024, 12288, 49152, 96, 64, 4, 24.1},
    {"256B on v4 64x8", recipe::plain_adam, v4, 80, 2048, 1024, 16384, 65536, 128, 64, 8, 43.8},
    {"512B on v4 64x16", recipe::plain_adam, v4, 102, 4096, 1024, 20480, 81920, 160, 64, 16, 94.5},
    {"1T on v4 256x8", recipe::plain_adam, v4, 142, 4096, 1024, 24576, 98304, 192, 256, 8, 86.5},
};

/// Each function is recorded once, for all sizes.
const cleave::study& recorded(recipe r) {
  static const auto gated = cleave::study::of<adafactor_training<gated_block>>(step_adafactor, {"model", "state"});
  static const auto plain = cleave::study::of<adafactor_training<plain_block>>(step_adafactor, {"model", "state"});
  static const auto adam = cleave::study::of<adam_training<plain_block>>(step_adam, {"model", "state"});
  return r == recipe::gated_adafactor ? gated : r == recipe::plain_adafactor ? plain : adam;
}
std::vector<cleave::named_size> sizes_of(const run& r) {
  return {layer = r.layers, batch = r.sequences,  position = r.length, source = r.length,  embed = r.width,
          hidden = r.inner, heads = r.head_count, head = 128,          vocabulary = 32000, X = r.x,
          Y = r.y};
}
cleave::studied_plan planned(const run& r) {
  const std::vector<cleave::named_size> sizes = sizes_of(r);
  return recorded(r.how).plan({sizes.data(), sizes.size()});
}
/// Searches the layouts of the weights, with the optimizer's state, and of the activations.
void search(const run& r) {
  const std::vector<cleave::searched_group> groups{
      {{"model.*", "state.*", "result.0.*", "result.1.*"}, false, {"heads", "hidden", "vocabulary", "embed"}},
      {{"arg 2", "arg 3"}, true, {"batch", "heads", "hidden", "vocabulary", "embed", "position"}}};
  cleave::search_options options;
  options.progress = [](const cleave::searched_layout& found, std::int64_t plans) {
    std::printf("%5lld plans: %8.3f s, %6.1f GiB; weights {%s}, activations {%s}\n", static_cast<long long>(plans),
                found.seconds, found.memory / (1 << 30), found.tables[0].text().c_str(),
                found.tables[1].text().c_str());
    std::fflush(stdout);
  };
  const cleave::search_result found = cleave::search(recorded(r.how), groups, sizes_of(r), r.on, options);
  std::printf("%lld plans, %lld layouts without one; the published layout: %.3f s\n",
              static_cast<long long>(found.plans), static_cast<long long>(found.refused),
              planned(r).predict(r.on).seconds);
  std::printf("inline constexpr cleave::nn::model_layout found{\n    %s,\n    %s};\n",
              found.best.tables[0].cpp().c_str(), found.best.tables[1].cpp().c_str());
  std::printf("time against memory:\n");
  for (const cleave::searched_layout& l : found.front)
    std::printf("  %8.3f s %8.1f GiB  weights {%s}, activations {%s}\n", l.seconds, l.memory / (1 << 30),
                l.tables[0].text().c_str(), l.tables[1].text().c_str());
}

} // namespace

int main(int count, char** words) {
  const std::string option = count > 1 ? words[1] : "";
  const bool csv = option == "--csv";
  if ((option == "--report" || option == "--search") && count > 2) {
    for (const run& r : runs)
      if (std::string(r.name) == words[2]) {
        if (option == "--search") search(r);
        else std::printf("%s%s", planned(r).explain().c_str(), planned(r).report(r.on).c_str());
        return 0;
      }
  }
  if (count > 1 && !csv) {
    std::printf(
        "usage: scale_dense [--csv | --report NAME | --search NAME]\nplans the dense decoders of GSPMD and predicts "
        "their step times; NAME is one of:\n");
    for (const run& r : runs) std::printf("  %s\n", r.name);
    return option == "--help" ? 0 : 2;
  }
  std::printf(
      csv ? "run,devices,published_s,predicted_s,error_percent,utilization_percent,collectives,received_GB,memory_GiB\n"
          : "| run | devices | published s | predicted s | error | utilization | collectives | GB received | GiB |\n"
            "|---|---|---|---|---|---|---|---|---|\n");
  double sum[2] = {}, worst[2] = {};
  int number[2] = {};
  for (const run& r : runs) {
    const cleave::studied_plan p = planned(r);
    const cleave::prediction t = p.predict(r.on);
    const double error = t.seconds / r.published - 1;
    const int which = &r.on == &v4;
    sum[which] += std::abs(error);
    worst[which] = std::max(worst[which], std::abs(error));
    ++number[which];
    const double memory = static_cast<double>(p.memory().total()) / (1 << 30);
    std::printf(csv ? "%s,%lld,%.3f,%.3f,%.1f,%.1f,%d,%.1f,%.1f\n"
                    : "| %s | %lld | %.2f | %.2f | %+.1f %% | %.1f %% | %d | %.1f | %.1f |\n",
                r.name, static_cast<long long>(r.x * r.y), r.published, t.seconds, 100 * error, 100 * t.utilization(),
                p.collectives(), t.network_bytes / 1e9, memory);
  }
  if (!csv)
    for (int i = 0; i < 2; ++i)
      std::printf("%s: mean error %.1f %%, worst %.1f %%\n", i == 0 ? "TPU v3" : "TPU v4", 100 * sum[i] / number[i],
                  100 * worst[i]);
  return 0;
}
