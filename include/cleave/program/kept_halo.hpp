// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/cost/region.hpp>
#include <cleave/program/addressing.hpp>
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

/// Whether a program reads one of its arguments, or writes one of its results, only in steps whose loops take any
/// strides. The others get a contiguous copy.
class strided_access {
 public:
  /// `number`: of an argument, or, past those, of a result.
  strided_access(const program_view& p, std::size_t number, const sizes& at, const coordinates& here)
      : p_(p), at_(at), here_(here), given_(p.buffers[number]),
        role_(number < p.arguments ? role::input : role::output),
        index_(number < p.arguments ? number : number - p.arguments) {}

  bool possible() const {
    for (const buffer& b : p_.buffers)
      if (is_own(b) && b.form != form::view && (b.form != form::shard || !has_given_extents(b))) return false;
    for (const step& s : p_.steps) {
      // Loops exchange the memory of carried values.
      if (role_ == role::output && s.kind == step_kind::loop_begin) return false;
      for (std::uint16_t b : s.in)
        if (reaches(p_.buffers[b]) && !reads_any_strides(s, p_.buffers[b])) return false;
      if (writes(s) && is_own(p_.buffers[s.out]) && s.kind != step_kind::map && !is_blas_product(s)) return false;
    }
    return true;
  }

 private:
  /// Renamed dims leave the strides as they are; split and merged ones do not.
  bool has_given_extents(const buffer& b) const { return extents_of(b) == extents_of(given_); }
  shape extents_of(const buffer& b) const { return indices_of(b, p_.maps, at_, here_).extents(); }
  bool is_own(const buffer& b) const { return b.role == role_ && b.index == index_; }
  /// Whether a buffer is the shard, or a view of it and perhaps of its halo.
  bool reaches(const buffer& b) const {
    if (is_own(b)) return true;
    if (b.form == form::halo) return false;
    if (b.form != form::view && b.form != form::slice) return false;
    const buffer& of = p_.buffers[b.of];
    return is_own(of) || (of.form == form::halo && is_own(p_.buffers[of.of])) || (of.form == form::view && reaches(of));
  }
  bool is_blas_product(const step& s) const {
    const element e = s.kind == step_kind::gemm ? p_.buffers[s.out].type.element : element::none;
    return e == element::f32 || e == element::f64;
  }
  bool reads_any_strides(const step& s, const buffer& b) const {
    if (s.kind == step_kind::exchange) return b.form == form::shard;
    if (s.kind == step_kind::wait) return true;
    return s.kind == step_kind::map || s.kind == step_kind::fold || is_blas_product(s);
  }

  const program_view& p_;
  const sizes& at_;
  const coordinates& here_;
  const buffer& given_;
  role role_;
  std::size_t index_;
};

/// Whether an exchange fills a halo that its argument may keep: no step needs a contiguous copy of the argument.
[[gnu::cold]] inline bool may_keep_halo(const program_view& p, const step& s, const sizes& at) {
  const buffer &from = p.buffers[s.in[0]], &to = p.buffers[s.out];
  return from.role == role::input && exchange_of_only_halo(p, from.index) == &s && !kept_elements(p, to).empty() &&
         strided_access(p, from.index, at, coordinates{}).possible();
}

}} // namespace cleave::v0
