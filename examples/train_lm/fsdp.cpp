// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "in_layout.hpp"

template struct decoder::trainer<decoder::fully_sharded>;
template struct decoder::trainer<decoder::fully_sharded, cleave::bfloat16>;

lm::made lm::fully_sharded(const cleave::grid& grid, const settings& s) {
  return std::make_unique<in_layout<decoder::fully_sharded>>(grid, s);
}
