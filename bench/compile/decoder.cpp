// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What compile_time.py compiles: a training step of a Transformer of LAYERS layers, planned for DATA x MODEL devices,
// with Adam, and what it takes to call it. Layers are one loop.
#include "../../examples/decoder_training.hpp"

namespace decoder {

constexpr auto step_of_many = [] {
  using cleave::expect;
  return cleave::with(cleave::function{step_body<tensor_parallel>{}}, expect<batch, 64>{}, expect<position, 2048>{},
                      expect<layer, LAYERS>{}, expect<embed, 8192>{}, expect<heads, 64>{}, expect<head, 128>{},
                      expect<hidden, 32768>{}, expect<vocabulary, 32768>{}, expect<data, DATA>{},
                      expect<model, MODEL>{});
}();
using types = of<tensor_parallel>;

void run(types::Parameters& p, types::State& state, const types::Words& words, types::Scalar& value) {
  step_of_many(p, state, words, words, 0.001f, 1.0f, cleave::optim::adam_numbers<float>{}).into(p, state, value);
}

} // namespace decoder
