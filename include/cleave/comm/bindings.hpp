// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <functional>
#include <memory>

namespace cleave { inline namespace v0 {

/// The objects that a grid has made for a key (a plan) and extents, such as executors. For each key, the least recently
/// used extents are dropped above a limit.
class bindings {
 public:
  /// The object for a key and extents, or null. This is the cost of a plan look-up in a warm call: one search by
  /// address and one comparison of extents.
  void* find(const void* key, indexed_span<const std::int64_t> extents) {
    const std::size_t k = position_of(key);
    if (k == keys_.size() || keys_[k].key != key) return nullptr;
    for (binding& entry : keys_[k].all)
      if (are_equal(entry.extents, extents)) {
        entry.used = ++uses_;
        return entry.made.get();
      }
    return nullptr;
  }
  /// Drops the least recently used object of a key before a new one is made, if the limit is reached. All devices then
  /// make it again together.
  [[gnu::cold]] void make_room(const void* key) {
    const std::size_t k = position_of(key);
    if (k != keys_.size() && keys_[k].key == key) keep_at_most(kept_extents_ - 1, keys_[k].all);
  }
  [[gnu::cold]] void* keep(const void* key, indexed_span<const std::int64_t> extents, std::shared_ptr<void> made) {
    const std::size_t k = position_of(key);
    if (k == keys_.size() || keys_[k].key != key) keys_.insert(keys_.begin() + k, of_key{key, {}});
    auto& entries = keys_[k].all;
    entries.push_back(
        {indexed_vector<std::int64_t>(extents.data(), extents.data() + extents.size()), std::move(made), ++uses_});
    ++times_made_;
    return entries.back().made.get();
  }
  /// The limit of extents per key, from now on.
  [[gnu::cold]] void keep_extents(std::int64_t most) {
    kept_extents_ = most;
    for (of_key& key : keys_) keep_at_most(kept_extents_, key.all);
  }
  /// How often an object was made: constant while calls are warm.
  std::int64_t times_made() const { return times_made_; }

  /// A run of a kept object. Objects that are dropped meanwhile are freed when the last run ends, since a run may call
  /// the user, who calls plans.
  class running {
   public:
    explicit running(bindings& all) : all_(all) { ++all_.running_; }
    ~running() {
      if (--all_.running_ == 0 && !all_.dropped_.empty()) all_.free_dropped();
    }
    running(const running&) = delete;
    running& operator=(const running&) = delete;

   private:
    bindings& all_;
  };

  /// How many runs are nested now.
  std::size_t depth() const { return as_size(running_); }

  /// Frees everything, without a wait for kernels.
  void clear() {
    keys_.clear();
    dropped_.clear();
  }

 private:
  struct binding {
    indexed_vector<std::int64_t> extents;
    std::shared_ptr<void> made;
    std::int64_t used = 0;
  };
  struct of_key {
    const void* key;
    indexed_vector<binding> all;
  };

  /// A loop, since a call of memcmp takes longer than the comparison itself.
  static bool are_equal(const indexed_vector<std::int64_t>& kept, indexed_span<const std::int64_t> extents) {
    if (kept.size() != extents.size()) return false;
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i] != extents[i]) return false;
    return true;
  }
  [[gnu::cold]] void keep_at_most(std::int64_t count, indexed_vector<binding>& entries) {
    while (std::ssize(entries) > count) {
      binding* const last = std::min_element(entries.begin(), entries.end(),
                                             [](const binding& x, const binding& y) { return x.used < y.used; });
      dropped_.push_back(std::move(last->made));
      entries.erase(last);
    }
    free_dropped();
  }
  [[gnu::cold]] void free_dropped() {
    if (running_ > 0 || dropped_.empty()) return;
    // Kernels of any instance may still be at work in its memory.
    if (!on_host && Kokkos::is_initialized()) Kokkos::fence("cleave: what was bound");
    dropped_.clear();
  }
  /// The position of a key in the sorted keys, or the position where it would be inserted.
  std::size_t position_of(const void* key) const {
    const auto comes_before = [](const of_key& known, const void* k) { return std::less<>()(known.key, k); };
    return as_size(std::lower_bound(keys_.begin(), keys_.end(), key, comes_before) - keys_.begin());
  }

  indexed_vector<of_key> keys_{};
  indexed_vector<std::shared_ptr<void>> dropped_{};
  std::int64_t times_made_ = 0, uses_ = 0, kept_extents_ = 32, running_ = 0;
};

}} // namespace cleave::v0
