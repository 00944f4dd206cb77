// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "in_layout.hpp"

template struct decoder::trainer<decoder::ring_attention>;
template struct decoder::trainer<decoder::ring_attention, cleave::bfloat16>;

lm::made lm::ring_attention(const cleave::grid& grid, const settings& s) {
  return std::make_unique<in_layout<decoder::ring_attention>>(grid, s);
}
