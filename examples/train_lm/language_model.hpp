// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decoder in some layout, as the program sees it, which chooses the layout per run. Each layout is compiled by a
// source of its own.
#pragma once

#include <cleave/grid.hpp>
#include <cleave/io/checkpoints.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lm {

struct settings {
  std::int64_t batch, positions, layers, embed, heads, hidden, microbatches;
  std::uint32_t seed;
  float weight_decay, limit;
  /// Products of a step in bfloat16, with float parameters and state.
  bool in_bf16;
};

/// All calls are collective.
class language_model {
 public:
  /// The byte of a sentence at a position; the byte at position + 1 is the one to be foretold.
  using bytes = std::function<std::int32_t(std::int64_t sentence, std::int64_t position)>;

  virtual ~language_model() = default;
  virtual std::int64_t parameters() const = 0;
  /// What a step communicates, collective by collective.
  virtual std::string plan() const = 0;
  /// The mean loss of a batch; a step then learns from it.
  virtual double step(const bytes& batch, float rate) = 0;
  virtual double loss(const bytes& batch) = 0;
  /// Parameters and the state of the optimizer after so many steps, with the loss of the held-out text.
  virtual void save(cleave::io::checkpoints& saved, std::int64_t step, double loss) const = 0;
  /// Those of the latest checkpoint: its step.
  virtual std::int64_t restore(cleave::io::checkpoints& saved) = 0;
  /// The scores of the byte that follows `at` in one sentence, the same on every rank. What lies behind `at` plays no
  /// part.
  virtual std::vector<float> scores(const bytes& sentence, std::int64_t at) = 0;
};

using made = std::unique_ptr<language_model>;
made tensor_parallel(const cleave::grid&, const settings&);
made finalized(const cleave::grid&, const settings&);
made sequence_parallel(const cleave::grid&, const settings&);
made fully_sharded(const cleave::grid&, const settings&);
made zero1(const cleave::grid&, const settings&);
made pipeline_parallel(const cleave::grid&, const settings&);
made ring_attention(const cleave::grid&, const settings&);

} // namespace lm
