// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "in_layout.hpp"

template struct decoder::trainer<decoder::pipeline_parallel>;
template struct decoder::trainer<decoder::pipeline_parallel, cleave::bfloat16>;

lm::made lm::pipeline_parallel(const cleave::grid& grid, const settings& s) {
  return std::make_unique<in_layout<decoder::pipeline_parallel>>(grid, s);
}
