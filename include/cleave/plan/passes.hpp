// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/price.hpp>
#include <cleave/plan/workspace.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 {

/// The arrays that a step reads, each once: of a region's view the region, of a halo's view the halo and its shard.
constexpr indexed_vector<std::uint16_t> arrays_read(const program_view& p, const step& s) {
  indexed_vector<std::uint16_t> arrays;
  const auto add = [&](std::uint16_t array) {
    if (std::find(arrays.begin(), arrays.end(), array) == arrays.end()) arrays.push_back(array);
  };
  for (std::uint16_t in : s.in) {
    const buffer& b = p.buffers[in];
    if (is_around_shard(p, b)) add(p.buffers[b.of].of);
    add(b.form == form::view ? b.of : in);
  }
  return arrays;
}

/// The bytes of one pass on the busiest device.
struct pass_bytes {
  std::int64_t read = 0, written = 0, moved = 0;
};
constexpr pass_bytes bytes_of_pass(const program_view& p, const step& s, const sizes& at) {
  const auto bytes_of = [&](const buffer& b) { return largest_elements(b, p.maps, at) * size_of(b.type.element); };
  const buffer& to = p.buffers[s.out];
  // An update writes the block that it has.
  pass_bytes all{0, bytes_of(s.keeps ? p.buffers[s.in[0]] : to), step_bytes(p, s, at)};
  // A step that fills a halo reads as much as it writes.
  if (has_neighbours(to)) {
    all.read = all.written;
    return all;
  }
  // An operand that is gathered panel by panel has no memory: the product reads its source.
  if (s.kind == step_kind::move && is_in_panels(p, s, at)) return {0, 0, all.moved};
  const bool takes = s.kind == step_kind::exchange || s.kind == step_kind::gather;
  const bool in_panels = is_in_panels(p, s, at);
  const product_panels panels = in_panels ? panels_of(p, s, at, coordinates{}) : product_panels{};
  for (std::uint16_t array : arrays_read(p, s)) {
    if ((panels.gathers(0) && array == s.in[0]) || (panels.gathers(1) && array == s.in[1])) continue;
    const std::int64_t whole = bytes_of(p.buffers[array]);
    // It reads an element of its operand for each one that it writes.
    all.read += takes && array == s.in[0] ? std::min(whole, all.written) : whole;
  }
  return all;
}

}} // namespace cleave::v0
