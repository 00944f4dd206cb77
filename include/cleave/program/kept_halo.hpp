// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/cost/region.hpp>
#include <cleave/program/program_view.hpp>

#include <cstddef>
#include <cstdint>

// Halos of arguments that tensors keep between calls.

namespace cleave { inline namespace v0 {

/// The exchange that fills the only halo of an argument that a program reads: the halo may stay in the ghosts of the
/// argument. Null if there are several, or a loop, which exchanges the memory of carried values.
[[gnu::cold]] constexpr const step* exchange_of_only_halo(const program_view& p, std::size_t argument) {
  const step* found = nullptr;
  for (const step& s : p.steps) {
    if (s.kind == step_kind::loop_begin) return nullptr;
    if (s.kind != step_kind::exchange || p.buffers[s.out].form != form::halo) continue;
    const buffer& shard = p.buffers[p.buffers[s.out].of];
    if (shard.role != role::input || shard.form != form::shard || shard.index != argument) continue;
    if (found != nullptr) return nullptr;
    found = &s;
  }
  return found;
}

/// The elements around a shard that its ghosts have. Facts of plans, so that all devices have the same.
class kept_elements {
 public:
  kept_elements() = default;
  /// Those of a halo. None if it does not surround blocks of the shard's own dims.
  [[gnu::cold]] kept_elements(const program_view& p, const buffer& halo) : parts_(halo.parts) {
    for (dim_map m : p.maps.subspan(halo.first_map, halo.maps)) {
      if (!surrounds(m)) parts_ = 0;
      m.from = dim_id(halo.type.find(m.from));
      maps_.push_back(m);
    }
  }
  bool empty() const { return parts_ == 0; }
  /// Whether the elements of another halo of the shard are among them.
  bool have(const kept_elements& other) const {
    for (dim_id i = 0; i < max_rank; ++i) {
      const dim_map own = along(i), its = other.along(i);
      const std::int64_t first = its.offset.constant, last = first + its.dilation;
      if (first < own.offset.constant || last > own.offset.constant + own.dilation) return false;
      if (its.outside != own.outside && (first < 0 || last > 0)) return false;
    }
    for (std::uint32_t part = 0; part < parts_of(other.maps_.size()); ++part) {
      std::uint32_t number = 0;
      for (std::size_t m = maps_.size(); m-- > 0;) number = 3 * number + other.digit_along(maps_[m].from, part);
      if ((other.parts_ >> part & 1) != 0 && (parts_ >> number & 1) == 0) return false;
    }
    return !other.empty();
  }

 private:
  /// The map of a dim, by its position.
  dim_map along(dim_id i) const {
    for (const dim_map& m : maps_)
      if (m.from == i) return m;
    return {};
  }
  std::uint32_t digit_along(dim_id i, std::uint32_t part) const {
    for (std::size_t m = 0; m < maps_.size(); ++m)
      if (maps_[m].from == i) return static_cast<std::uint32_t>(digit_of(part, m));
    return 1;
  }

  static_vector<dim_map, 3> maps_{};
  std::uint32_t parts_ = 0;
};

}} // namespace cleave::v0
