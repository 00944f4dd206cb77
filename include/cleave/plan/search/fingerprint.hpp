// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/assignment.hpp>

namespace cleave::inline v0::planner {

/// Hashes of nodes and what is around them, and those for which nothing better was found: layers are alike, so most of
/// a deep model need not be searched again.
struct fingerprints {
  indexed_vector<std::uint64_t> of{};
  /// Reused space.
  indexed_vector<std::uint64_t> next{};
  /// Whether it is that of the present assignment.
  indexed_vector<std::uint8_t> valid{};
  indexed_vector<indexed_vector<std::uint64_t>> searched =
      indexed_vector<indexed_vector<std::uint64_t>>(bucket_count, indexed_vector<std::uint64_t>{});

  /// Part of all of them: what was searched with another one is searched again.
  std::uint64_t salt = 0;

  static constexpr std::size_t bucket_count = 64;
  static constexpr int bucket_shift = 58;

  constexpr explicit fingerprints(const cost_model& m) {
    of.assign(m.count, 0);
    next.assign(m.count, 0);
    valid.assign(m.count, 0);
  }

  constexpr bool searched_before(std::size_t v) const {
    if (valid.at[v] == 0) return false;
    const std::uint64_t own = of.at[v];
    for (std::uint64_t known : searched[own >> bucket_shift])
      if (known == own) return true;
    return false;
  }
  constexpr void searched_in_vain(std::size_t v) {
    if (valid.at[v] != 0) searched[of.at[v] >> bucket_shift].push_back(of.at[v]);
  }
};

/// Hashes the neighbourhoods of all nodes.
constexpr void hash_neighbourhoods(const cost_model& m, const assignment& a, fingerprints& f) {
  f.valid.assign(m.count, 1);
  std::uint64_t* of = f.of.at;
  for (std::size_t v = 0; v < m.count; ++v) {
    const strategy& s = a.chosen.at[v];
    const std::uint64_t h = mixed(m.own_fingerprint.at[v] ^ f.salt, s.out.word);
    of[v] = mixed(h, s.over.word + (std::uint64_t{s.forwarded.word} << 49) + (std::uint64_t{s.partial_operands} << 56));
  }
  for (std::size_t r = 0; r < m.g.outputs.size(); ++r) {
    const std::size_t v = m.g.outputs[r];
    of[v] = mixed(of[v], (asked_of(m, a, r).word & layout::dims_mask) + 7u);
  }
  for (int distance = 0; distance < m.limits.fingerprint_radius; ++distance) {
    f.of.swap(f.next);
    const std::uint64_t* before = f.next.at;
    of = f.of.at;
    // As mixed() does, without a call for each operand and each reader.
    for (std::size_t v = 0; v < m.count; ++v) {
      std::uint64_t h = before[v], readers = 0;
      const std::uint32_t last_slot = m.first_slot.at[v + 1], last_edge = m.first_edge.at[v + 1];
      for (std::uint32_t slot = m.first_slot.at[v]; slot < last_slot; ++slot)
        h = (h ^ before[m.operand.at[slot]]) * hash_factor + (h >> 29);
      for (std::uint32_t e = m.first_edge.at[v]; e < last_edge; ++e) {
        const std::uint64_t reader = before[m.edges.at[e].to];
        readers += (reader ^ m.edges.at[e].number) * hash_factor + (reader >> 29);
      }
      of[v] = (h ^ readers) * hash_factor + (h >> 29);
    }
  }
}

} // namespace cleave::inline v0::planner
