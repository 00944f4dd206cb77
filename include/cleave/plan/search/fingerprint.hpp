// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/cost/assignment.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// Hashes of nodes and their neighbourhoods, and those for which nothing better was found: layers look the same, so
/// most of a deep model need not be searched again.
struct fingerprints {
  /// Hashes of nodes with all that is at most so far from them, by distance and node.
  indexed_vector<std::uint64_t> by_distance{};
  /// Those of the greatest distance, by node.
  const std::uint64_t* of = nullptr;
  /// Whether it is that of the present assignment.
  indexed_vector<std::uint8_t> valid{};
  indexed_vector<indexed_vector<std::uint64_t>> searched =
      indexed_vector<indexed_vector<std::uint64_t>>(bucket_count, indexed_vector<std::uint64_t>{});

  /// Part of all of them: nodes that were searched with another one are searched again.
  std::uint64_t salt = 0;

  /// Reused space: nodes whose hashes changed, and the number of the last pass that hashes a node again.
  indexed_vector<std::uint32_t> changed{}, hashed_in{};
  std::uint32_t pass = 0;

  static constexpr std::size_t bucket_count = 64;
  static constexpr int bucket_shift = 58;

  constexpr explicit fingerprints(const cost_model& m) {
    const std::size_t distances = as_size(m.limits.fingerprint_radius) + 1;
    by_distance.assign(distances * m.count, 0);
    of = by_distance.at + (distances - 1) * m.count;
    valid.assign(m.count, 0);
    changed.assign(m.count, 0);
    hashed_in.assign(m.count, 0);
  }
  fingerprints(const fingerprints&) = delete;
  fingerprints& operator=(const fingerprints&) = delete;

  constexpr bool searched_before(std::size_t v) const {
    if (valid.at[v] == 0) return false;
    const std::uint64_t own = of[v];
    const indexed_vector<std::uint64_t>& list = searched.at[own >> bucket_shift];
    const std::size_t count = list.size();
    for (std::size_t i = 0; i < count; ++i)
      if (list.at[i] == own) return true;
    return false;
  }
  constexpr void searched_in_vain(std::size_t v) {
    if (valid.at[v] != 0) searched.at[of[v] >> bucket_shift].push_back(of[v]);
  }
};

/// Hashes the nodes by themselves. Those whose hash is another one than before are f.changed; returns how many.
constexpr std::size_t hash_nodes(const cost_model& m, const assignment& a, fingerprints& f) {
  std::size_t changed = 0;
  std::uint64_t* own = f.by_distance.at;
  for (std::size_t v = 0; v < m.count; ++v) {
    f.valid.at[v] = 1;
    const strategy& s = a.chosen.at[v];
    // As mixed() does, without a call.
    std::uint64_t h = m.own_fingerprint.at[v] ^ f.salt;
    h = (h ^ s.out.word) * hash_factor + (h >> 29);
    h = (h ^ (s.over.word + (std::uint64_t{s.forwarded.word} << 49) + (std::uint64_t{s.partial_operands} << 56))) *
            hash_factor +
        (h >> 29);
    for (std::uint32_t result = m.last_output.at[v]; result != 0; result = m.other_output.at[result - 1])
      h = mixed(h, (asked_of(m, a, result - 1).word & layout::dims_mask) + 7u);
    if (h == own[v]) continue;
    own[v] = h;
    f.changed.at[changed++] = static_cast<std::uint32_t>(v);
  }
  return changed;
}

/// Marks the nodes whose hash takes in that of a changed node: itself, its operands and its readers.
constexpr void mark_neighbours(const cost_model& m, fingerprints& f, std::size_t changed) {
  std::uint32_t* in = f.hashed_in.at;
  for (std::size_t i = 0; i < changed; ++i) {
    const std::size_t u = f.changed.at[i];
    in[u] = f.pass;
    const std::uint32_t last_slot = m.first_slot.at[u + 1], last_edge = m.first_edge.at[u + 1];
    for (std::uint32_t slot = m.first_slot.at[u]; slot < last_slot; ++slot) in[m.operand.at[slot]] = f.pass;
    for (std::uint32_t e = m.first_edge.at[u]; e < last_edge; ++e) in[m.edges.at[e].to] = f.pass;
  }
}

/// Hashes the neighbourhoods of all nodes. Only those are hashed again in which something changed.
constexpr void hash_neighbourhoods(const cost_model& m, const assignment& a, fingerprints& f) {
  std::size_t changed = hash_nodes(m, a, f);
  std::uint64_t* of = f.by_distance.at;
  for (int distance = 0; distance < m.limits.fingerprint_radius && changed != 0; ++distance) {
    const std::uint64_t* before = of;
    of += m.count;
    // If many changed, it takes longer to find those that did not.
    const bool all = changed > m.count / 4;
    ++f.pass;
    if (!all) mark_neighbours(m, f, changed);
    changed = 0;
    for (std::size_t v = 0; v < m.count; ++v) {
      if (!all && f.hashed_in.at[v] != f.pass) continue;
      std::uint64_t h = before[v], readers = 0;
      const std::uint32_t last_slot = m.first_slot.at[v + 1], last_edge = m.first_edge.at[v + 1];
      for (std::uint32_t slot = m.first_slot.at[v]; slot < last_slot; ++slot)
        h = (h ^ before[m.operand.at[slot]]) * hash_factor + (h >> 29);
      for (std::uint32_t e = m.first_edge.at[v]; e < last_edge; ++e) {
        const std::uint64_t reader = before[m.edges.at[e].to];
        readers += (reader ^ m.edges.at[e].number) * hash_factor + (reader >> 29);
      }
      h = (h ^ readers) * hash_factor + (h >> 29);
      if (h == of[v]) continue;
      of[v] = h;
      f.changed.at[changed++] = static_cast<std::uint32_t>(v);
    }
  }
}

}}} // namespace cleave::v0::planner
