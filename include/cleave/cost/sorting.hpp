// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/policy.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/layout/box.hpp>

namespace cleave { inline namespace v0 {

/// The sort of a sharded dim (regular sampling, Shi and Schaeffer 1992). Each device sorts its block of every slice. It
/// sends evenly spaced samples of the block to one device, which decides for the slice. From the samples follow the
/// elements at which the slice is cut into parts of about the size of a block. Parts are exchanged and merged. Elements
/// beyond a block are forwarded.
struct sorting {
  /// Samples of each block: the more, the closer the parts are to blocks.
  static constexpr std::int64_t samples = 24;

  std::int64_t devices = 1;
  /// Slices on each of them.
  std::int64_t slices = 0;
  dim_blocks dim{};
  std::int64_t extent = 0;
  /// The longest block.
  std::int64_t block = 0;

  constexpr sorting(std::int64_t n, std::int64_t of_slices, const dim_blocks& along)
      : devices(n), slices(of_slices), dim(along), extent(along.extent), block(along.longest(n)) {}

  constexpr range block_of(std::int64_t device) const { return dim.block(devices, device); }
  constexpr std::int64_t length_of(std::int64_t device) const { return block_of(device).size(); }
  /// The number of elements for which a sample stands, in whose middle it is; the last one of a block for fewer.
  constexpr std::int64_t stride() const { return block <= samples ? 1 : (block + samples - 1) / samples; }
  constexpr std::int64_t samples_of(std::int64_t length) const { return (length + stride() - 1) / stride(); }
  /// No device's part of a slice is longer, whatever is sorted. Between two samples of a device there is one stride, so
  /// each of them shifts a cut by half of that, and the cut itself is a sample.
  constexpr std::int64_t longest_part() const {
    const std::int64_t most = block + 2 * devices * (stride() / 2) + stride() + 1;
    return most < extent ? most : extent;
  }
  /// The number of slices for which a device decides; the last ones for fewer.
  constexpr std::int64_t decided() const { return (slices + devices - 1) / devices; }
  constexpr std::int64_t decided_by(std::int64_t device) const {
    const std::int64_t rest = slices - device * decided();
    return rest < 0 ? 0 : rest < decided() ? rest : decided();
  }
};

}} // namespace cleave::v0
