// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/node_group.hpp>
#include <cleave/storage/exposed.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

namespace cleave::inline v0::comm {

/// One array of each rank of a group that shares memory, which all ranks of the group read where it is. All ranks keep
/// the same account of what they have seen, so that they decide alike.
class peer_arrays {
 public:
  /// `patient`: an array is exposed only when it is given again before memory was taken or given back. What is used
  /// once, or lives for one call, is not worth it.
  explicit peer_arrays(const group& g, bool patient = false) : group_(g), patient_(patient) {
    now_.resize(as_size(g.size));
    known_.resize(as_size(g.size));
  }

  /// Until `close`, all ranks may read the array of each rank, and nobody writes it. An array that is in memory of
  /// others is copied, if it may be. False on all ranks if one of them cannot give its array, or cannot read that of
  /// another. Collective over the group.
  bool open(const void* mine, std::int64_t bytes, bool may_copy) {
    if (!possible_) return false;
    exchange(given(mine, bytes, may_copy));
    bool all = true, known = true;
    for (int r = 0; r < group_.size; ++r) {
      all = all && now_[r].usable;
      known = known && find(r) != nullptr;
    }
    if (all && !known) all = possible_ = map();
    return all;
  }
  const void* of(int r) const { return now_[r].bytes == 0 ? nullptr : now_[r].at; }
  /// Waits until all ranks have read what they need. Collective over the group.
  void close() { group_.together->meet(); }

 private:
  /// Files of each rank that are kept, beside the one that is used.
  static constexpr std::size_t most_kept = 7;

  struct array {
    exposed_array where{};
    std::int64_t bytes = 0;
    bool usable = false;
    /// Where it is in this process.
    const void* at = nullptr;
  };
  struct file {
    exposed_array where{};
    mapped_array memory{};
  };

  /// The array of this rank, exposed if need be. An array is looked up again only if memory was taken or given back.
  const array& given(const void* mine, std::int64_t bytes, bool may_copy) {
    const auto& changes = cleave::detail::live_memory<Kokkos::HostSpace>::get().changes;
    const bool same = mine_.at == mine && mine_.bytes == bytes && changes_ == changes;
    if (!same || put_off_) {
      put_off_ = (patient_ && !was_given(mine, changes)) || receives_under_way() != 0;
      const exposing when = put_off_ ? exposing::done_before : exposing::now;
      mine_ = {bytes == 0 ? exposed_array{} : expose(mine, bytes, when), bytes, false, mine};
      copied_ = bytes != 0 && !mine_.where.given() && may_copy && has_room(bytes);
      if (copied_) mine_.where = expose(copy_.get(), bytes);
      mine_.usable = bytes == 0 || mine_.where.given();
      changes_ = changes;
    }
    if (copied_) std::memcpy(copy_.get(), mine, as_size(bytes));
    return mine_;
  }
  /// Whether an array was given before, since the last change of memory. Loops give two of them in turn.
  bool was_given(const void* mine, std::int64_t changes) {
    for (const auto& [at, then] : given_before_)
      if (at == mine && then == changes) return true;
    given_before_[next_given_++ % std::size(given_before_)] = {mine, changes};
    return false;
  }
  bool has_room(std::int64_t bytes) {
    const std::int64_t wanted = std::max(bytes, least_paged);
    if (wanted > room_) room_ = try_allocate<Kokkos::HostSpace>(wanted, copy_) ? wanted : 0;
    return bytes <= room_;
  }
  void exchange(const array& mine) {
    group_.together->tell(&mine, sizeof mine, [&](int r, const void* from) {
      std::memcpy(static_cast<void*>(&now_[r]), from, sizeof mine);
      if (r == group_.rank) return;
      now_[r].at = nullptr;
      if (const file* f = find(r)) now_[r].at = f->memory.get() + now_[r].where.offset;
    });
  }
  /// The file of a rank's array among those that were seen before. An empty array needs none.
  const file* find(int r) const {
    static const file none{};
    if (!now_[r].where.given()) return &none;
    for (const file& f : known_[r])
      if (f.where.same_file(now_[r].where)) return &f;
    return nullptr;
  }
  /// Maps what was not seen before. False on all ranks if one of them cannot.
  [[gnu::cold]] bool map() {
    char mapped = 1;
    for (int r = 0; r < group_.size; ++r) {
      if (find(r) != nullptr) continue;
      indexed_vector<file>& files = known_[r];
      if (files.size() > most_kept) files.erase(files.begin());
      files.push_back({now_[r].where, {}});
      if (r == group_.rank) continue;
      files.back().memory = mapped_array(now_[r].where);
      if (files.back().memory.get() == nullptr) mapped = 0;
      else now_[r].at = files.back().memory.get() + now_[r].where.offset;
    }
    bool all = true;
    group_.together->tell(&mapped, 1, [&](int, const char* from) { all = all && *from != 0; });
    return all;
  }

  group group_;
  /// Whether exposing may be put off, and whether it was for the array at hand.
  bool patient_, put_off_ = false;
  std::pair<const void*, std::int64_t> given_before_[4] = {};
  std::size_t next_given_ = 0;
  array mine_{};
  std::int64_t changes_ = -1;
  /// Memory that this rank's array is copied to, and whether it is.
  std::shared_ptr<void> copy_{};
  std::int64_t room_ = 0;
  bool copied_ = false;
  indexed_vector<array> now_{};
  indexed_vector<indexed_vector<file>> known_{};
  bool possible_ = true;
};

} // namespace cleave::inline v0::comm
