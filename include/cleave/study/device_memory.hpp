// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/workspace.hpp>
#include <cleave/study/device_classes.hpp>

#include <algorithm>

// The workspace on the device that needs most, of a mesh of any size.

namespace cleave { inline namespace v0 {

/// The workspace on the device that needs most, and whether this is known. If too many devices differ, some are
/// compared, and another one may need more.
struct compared_workspace {
  workspace_parts parts{};
  bool exact = true;
};

namespace detail {

/// Up to this many classes of devices are compared for the program, or for one of its steps.
inline constexpr std::int64_t compared_classes = 512;

/// A step whose scratch memory depends on a device's place, and not only on the length of its shards.
struct step_by_place {
  const step* of = nullptr;
  device_classes classes;
  /// The axes along which devices differ.
  axis_set along{};
  /// No device needs more; -1: unknown.
  std::int64_t bound = -1;
  /// The most of the devices of each class of the program, along these axes.
  indexed_vector<std::int64_t> most{};
};

/// Finds the workspace on the device that needs most.
class workspace_search {
 public:
  constexpr workspace_search(const program_view& p, const sizes& at, std::int64_t limit)
      : p_(p), at_(at), limit_(limit), by_length_(at.axes), shared_(at.axes), separate_(p.steps.size(), false) {
    tell_lengths_apart(p, at, by_length_);
    shared_ = by_length_;
    for (int a = 0; a < max_axes; ++a)
      if (at.axes[a] > 1) all_ = all_.with(a);
    for (std::size_t i = 0; i < p.steps.size(); ++i) add(i);
    // Those in flight hold memory together.
    if (shared_.count(all_) > limit_) {
      shared_ = some_devices();
      found_.exact = false;
    }
    for (step_by_place& s : own_) compare(s);
    shared_.for_each(all_, [&](const coordinates& here) { compare(here); });
    if (bounded_ > found_.parts.total()) found_.exact = false;
  }
  constexpr const compared_workspace& result() const { return found_; }

 private:
  constexpr void add(std::size_t i) {
    const step& s = p_.steps[i];
    if (!differs_by_place(p_, s, at_)) return;
    if (s.kind == step_kind::move && (is_in_panels(p_, s, at_) || at_.axes.product(s.axes) == 1)) return;
    step_by_place one{&s, device_classes(at_.axes), all_, -1, {}};
    if (s.kind == step_kind::exchange) {
      if (first_joined(p_.steps, i) != i) return;
      one.along = all_ & ~axes_without_effect(p_, s);
      for (std::size_t k = i; k < end_of_joined(p_.steps, i); ++k)
        classes_of_exchange(comm::exchange_of(p_, p_.steps[k], at_), by_length_, one.classes);
    } else {
      one.classes.each(all_);
    }
    if (s.kind == step_kind::move) {
      const comm::transfer t = comm::transfer_of(p_, s, at_);
      one.bound = most_scratch_of_permute(t, at_.axes);
      if (one.bound == 0) return;
      if (s.move == kind::reduce_scatter)
        one.bound += aligned(largest_shape(t.global, t.from, at_.axes).elements() * size_of(t.element));
    }
    if (s.in_flight) {
      shared_.refine(one.classes, one.along);
    } else {
      separate_[i] = true;
      own_.push_back(std::move(one));
    }
  }
  /// At the ends and in the middle of each axis.
  constexpr device_classes some_devices() const {
    device_classes some(at_.axes);
    for (int a : all_) some.begin_at(a, at_.axes[a] - 1);
    if (some.count(all_) > 16) return some;
    for (int a : all_)
      for (const std::int64_t c : {std::int64_t{1}, at_.axes[a] / 2, at_.axes[a] - 2}) some.begin_at(a, c);
    return some;
  }
  constexpr void compare(step_by_place& s) {
    s.classes.refine(shared_, s.along);
    s.most.resize(as_size(shared_.count(s.along)), 0);
    const std::int64_t count = s.classes.count(s.along);
    if (s.bound >= 0 && count > 32) {
      // Some devices may need as much as any can.
      device_classes some = some_devices();
      some.refine(shared_, s.along);
      compare(s, some);
      if (std::all_of(s.most.begin(), s.most.end(), [&](std::int64_t n) { return n == s.bound; })) return;
    }
    if (count <= limit_) {
      compare(s, s.classes);
      s.bound = 0;
    } else if (s.bound < 0) {
      device_classes some = some_devices();
      some.refine(shared_, s.along);
      compare(s, some);
      found_.exact = false;
    }
  }
  constexpr void compare(step_by_place& s, const device_classes& all) const {
    all.for_each(s.along, [&](const coordinates& here) {
      workspace_parts w;
      add_scratch(w, p_, *s.of, at_, here);
      std::int64_t& most = s.most[shared_.number_of(s.along, here)];
      most = std::max(most, w.scratch());
    });
  }
  /// The devices of one class.
  constexpr void compare(const coordinates& here) {
    workspace_parts w;
    for (std::int64_t bytes : slot_bytes(p_, at_, here)) w.values += aligned(bytes);
    w.held = held_by_buckets(p_, at_, here) + held_by_moves(p_, at_, here);
    for (std::size_t i = 0; i < p_.steps.size(); ++i)
      if (!separate_[i]) add_scratch(w, p_, p_.steps[i], at_, here);
    w.passes = std::max(w.passes, scratch_of_bands(p_, at_, here));
    std::int64_t bound = 0;
    for (const step_by_place& s : own_) {
      std::int64_t& part = s.of->kind == step_kind::call ? w.kernels : w.moves;
      part = std::max(part, s.most[shared_.number_of(s.along, here)]);
      bound = std::max(bound, s.bound);
    }
    if (w.total() > found_.parts.total()) found_.parts = w;
    bounded_ = std::max(bounded_, w.values + w.held + bound);
  }

  const program_view& p_;
  const sizes& at_;
  std::int64_t limit_;
  axis_set all_{};
  /// Classes of devices with equally large shards, and for all that is not separate.
  device_classes by_length_, shared_;
  indexed_vector<step_by_place> own_{};
  indexed_vector<bool> separate_;
  /// A bound that no device exceeds.
  std::int64_t bounded_ = 0;
  compared_workspace found_{};
};

} // namespace detail

/// The workspace on the device that needs most, by purpose, and whether it is exact. Up to `limit` classes of devices
/// are compared for the program and for each step.
constexpr compared_workspace find_workspace(const program_view& p, const sizes& at,
                                            std::int64_t limit = detail::compared_classes) {
  return detail::workspace_search(p, at, limit).result();
}

}} // namespace cleave::v0
