// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "in_layout.hpp"

template struct decoder::trainer<decoder::finalized>;
template struct decoder::trainer<decoder::finalized, cleave::bfloat16>;

lm::made lm::finalized(const cleave::grid& grid, const settings& s) {
  return std::make_unique<in_layout<decoder::finalized>>(grid, s);
}
