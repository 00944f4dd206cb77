// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../decoder_training.hpp"
#include "language_model.hpp"

namespace lm {

/// The decoder in one of its layouts: its plans (first parameters, steps in float and in bfloat16, forward) and the
/// tensors they work on.
template <auto Layout>
class in_layout final : public language_model {
  using types = decoder::of<Layout>;
  using Words = typename types::Words;
  using Scalar = typename types::Scalar;
  using Row = cleave::tensor<float, decoder::mesh(decoder::vocabulary)>;
  using Parameters = typename types::Parameters;
  using State = typename types::State;
  using Averages = typename types::Averages;
  using Numbers = cleave::optim::adam_numbers<float>;
  // What a call of the step is, to the compiler: so `plan` shows the plan that runs, and it is made once.
  using Step = std::tuple<Parameters, State, Scalar>(Parameters, State, Words, Words, float, float, Numbers);

 public:
  in_layout(const cleave::grid& grid, const settings& s)
      : grid_(grid), sizes_(sizes_of(grid, s)),
        // Runs are short: the average of the squares forgets in some hundred steps, not in a thousand.
        numbers_{0.9f, 0.99f, 1e-8f, s.weight_decay}, limit_(s.limit), in_bf16_(s.in_bf16),
        state_{decoder::initial<Layout>(grid, sizes_, s.seed),
               {decoder::made<Averages>(grid, sizes_), decoder::made<Averages>(grid, sizes_), Scalar(grid, {}),
                Scalar(grid, {})}},
        words_(decoder::made<Words>(grid, sizes_)), next_(decoder::made<Words>(grid, sizes_)),
        sentence_(decoder::made<Words>(grid, one_sentence())), row_(decoder::made<Row>(grid, sizes_)),
        value_(grid, {}) {}

  std::int64_t parameters() const override { return cleave::nn::count_parameters(state_.weights); }

  std::string plan() const override { return in_bf16_ ? plan_in<cleave::bfloat16>() : plan_in<float>(); }

  double step(const bytes& batch, float rate) override {
    fill(words_, batch, 0);
    fill(next_, batch, 1);
    const auto step = in_bf16_ ? decoder::trainer<Layout, cleave::bfloat16>::step : decoder::trainer<Layout>::step;
    step(state_.weights, state_.moments, words_, next_, rate, limit_, numbers_, value_);
    return static_cast<double>(value_.item());
  }

  double loss(const bytes& batch) override {
    fill(words_, batch, 0);
    fill(next_, batch, 1);
    decoder::forward<Layout>(state_.weights, words_, next_, std::int32_t{0}).into(value_, row_);
    return static_cast<double>(value_.item());
  }

  void save(cleave::io::checkpoints& saved, std::int64_t step, double loss) const override {
    saved.save(step, state_, loss);
  }
  std::int64_t restore(cleave::io::checkpoints& saved) override {
    return saved.restore(state_, {.stacks = {{"stage", "layer"}, {"ring", "position"}}});
  }

  std::vector<float> scores(const bytes& sentence, std::int64_t at) override {
    fill(sentence_, sentence, 0);
    decoder::forward<Layout>(state_.weights, sentence_, sentence_, static_cast<std::int32_t>(at)).into(value_, row_);
    return row_.to_global();
  }

 private:
  template <class T>
  std::string plan_in() const {
    constexpr auto step_plan = cleave::plan<Step>(decoder::step<Layout, T>);
    using namespace decoder;
    const decoder::sizes& s = sizes_;
    return explain(step_plan, {batch = s.sentences_of_a_microbatch(), microbatch = s.microbatches, ring = s.chunks,
                               position = s.positions_of_a_chunk(), source = s.positions_of_a_chunk(),
                               layer = s.layers_of_a_stage(), stage = s.stages, embed = s.embed, heads = s.heads,
                               head = s.embed / s.heads, hidden = s.hidden, vocabulary = s.vocabulary,
                               data = grid_.size(data), model = grid_.size(model)});
  }
  static decoder::sizes sizes_of(const cleave::grid& grid, const settings& s) {
    decoder::sizes sizes{s.batch, s.positions, s.layers, s.embed, s.heads, s.hidden};
    if (decoder::staged<Layout>) {
      sizes.stages = grid.size(decoder::model);
      sizes.microbatches = s.microbatches;
    }
    if (decoder::rings<Layout>) sizes.chunks = grid.size(decoder::model);
    check(sizes);
    return sizes;
  }
  /// The plans are for any sizes, so those of a batch also serve the single sentence of a sample.
  decoder::sizes one_sentence() const {
    decoder::sizes one = sizes_;
    one.batch = one.microbatches = 1;
    return one;
  }
  /// Microbatch m has the sentences from m * its size on; chunks of a ring have their positions likewise.
  void fill(const Words& words, const bytes& from, std::int64_t later) const {
    words.fill_by([&](const auto& at) {
      const std::int64_t sentence = decoder::staged<Layout>
                                        ? at[0] * sizes_.sentences_of_a_microbatch() + at[Words::rank - 2]
                                        : at[0];
      const std::int64_t position = decoder::rings<Layout>
                                        ? at[Words::rank - 2] * sizes_.positions_of_a_chunk() + at[Words::rank - 1]
                                        : at[Words::rank - 1];
      return from(sentence, position + later);
    });
  }

  cleave::grid grid_;
  decoder::sizes sizes_;
  cleave::optim::adam_numbers<float> numbers_;
  float limit_;
  bool in_bf16_;
  /// The members of a checkpoint.
  struct {
    Parameters weights;
    State moments;
  } state_;
  Words words_, next_, sentence_;
  Row row_;
  Scalar value_;
};

} // namespace lm
