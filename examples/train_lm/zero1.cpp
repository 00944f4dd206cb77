// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "in_layout.hpp"

template struct decoder::trainer<decoder::zero1>;
template struct decoder::trainer<decoder::zero1, cleave::bfloat16>;

lm::made lm::zero1(const cleave::grid& grid, const settings& s) {
  return std::make_unique<in_layout<decoder::zero1>>(grid, s);
}
