// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine of SimuMax's measurements: 8 B200, which did not overlap communication with computation. The rates are
// those that its authors measured of single kernels and collectives (configs/system/b200_bf16_ceperm.json of its
// repository).
#pragma once

#include <cleave/study/machine.hpp>

namespace b200_node {

/// The parts of the peak that products reach, of the memory's bandwidth that passes do, and of 900 GB/s that
/// all-gathers do. Attention was FlashAttention's, for heads of up to 256 features (Dao 2023, arXiv 2307.08691). Their
/// times of its kernels grow with the heads, from 16 to 128 of them, by 1.11 of the peak forward and 0.68 backward, if
/// masked scores are counted and those that are computed again are not: 0.78 of both. Grouped products of 128 to 9,832
/// tokens for each expert, 60 of them, reach the same part of the peak times n / (n + 335) of n tokens (least squares
/// of logarithms; 22 % off on average). Products add to the gradients of earlier microbatches.
inline constexpr cleave::machine machine = [] {
  cleave::machine m = cleave::machines::b200.without_overlap();
  m.efficiency = 0.488;
  m.half_width = 0;
  m.half_width_of_batches = 335;
  m.memory_efficiency = 0.666;
  m.every_axis.bandwidth = 0.6735 * 900e9;
  m.fused_features = 256;
  m.sums = cleave::sums_in_loops::in_products;
  m.fused_efficiency = 0.78;
  return m;
}();

} // namespace b200_node
