// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/distributed/row_routes.hpp>
#include <cleave/kernels/indexed_rows.hpp>

#include <algorithm>
#include <utility>

// Which rows travel between devices for given indices. Routes are found on the host and kept: with the same indices as
// in the last run, devices only tell each other so.

namespace cleave { inline namespace v0 { namespace comm {

/// The most elements of a shard of a table whose offsets travel as 32-bit numbers. Tests set it low.
inline std::int64_t& narrow_offsets_limit() {
  static std::int64_t limit = most_narrow_offsets;
  return limit;
}

/// A device that has a block of the table.
struct row_owner {
  index_block block{};
  /// Over the indices of the device that asks; array 2: strides in the owner's shard.
  strided_dims indices{};

  row_owner(const row_tensors& t, const coordinates& here, const coordinates& at)
      : block(block_of(t, at)), indices(t.over_indices(here, at)) {}
  static index_block block_of(const row_tensors& t, const coordinates& at) {
    const range held = t.block(at);
    return {held.begin, held.end - held.begin, t.stride_along(at)};
  }
};

/// One part of the indices on the host: counts the rows that travel to each owner, or notes where they are.
template <class I>
struct find_routes_functor {
  const I* indices;
  std::int64_t count, parts;
  const indexed_vector<row_owner>* owners;
  int self;
  /// Rows go to all owners of their index; else they are asked of one, and this device asks itself first.
  bool to_all;
  /// For each part and owner: how many rows, then where the next one is noted.
  std::int64_t* next;
  /// Where rows are here and in the owner's shard; null while they are counted.
  std::int64_t* here;
  std::int64_t* there;

  void operator()(std::int64_t part) const {
    const auto size = as_int(owners->size());
    std::int64_t* const next_of = next + part * size;
    for (std::int64_t n = count * part / parts; n < count * (part + 1) / parts; ++n) {
      if (!to_all && has(self, n)) continue;
      for (int o = 0; o < size; ++o) {
        if (o == self || !has(o, n)) continue;
        note(o, n, next_of[o]++);
        if (!to_all) break;
      }
    }
  }

 private:
  const row_owner& owner(int o) const { return (*owners)[as_size(o)]; }
  bool has(int o, std::int64_t n) const { return owner(o).block.has(owner(o).block.row_of(indices[n])); }
  void note(int o, std::int64_t n, std::int64_t at) const {
    if (here == nullptr) return;
    const row_owner& to = owner(o);
    here[at] = to.indices.at(1, n);
    there[at] = to.indices.at(2, n) + to.block.offset(to.block.row_of(indices[n]));
  }
};

/// Counts the indices of a part that are outside of a block.
template <class I>
struct count_outside_functor {
  const I* indices;
  std::int64_t count, parts;
  index_block block;
  std::int64_t* outside;

  void operator()(std::int64_t part) const {
    std::int64_t n = 0;
    const std::int64_t end = count * (part + 1) / parts;
    for (std::int64_t i = count * part / parts; i < end; ++i) n += block.has(block.row_of(indices[i])) ? 0 : 1;
    outside[part] = n;
  }
};

/// The indices for which routes were found. If few of them are outside of this device's block, and only those have
/// routes, these are kept alone: all others may change to any index of the block.
template <class I>
class last_indices {
 public:
  explicit last_indices(std::int64_t count) : count_(count) {}

  /// `block`: that of this device if only indices outside of it have routes, and the host can read them; else null.
  void keep(const I* indices, const index_block* block, std::int64_t parts) {
    sparse_ = false;
    if (block != nullptr && count_outside(indices, *block, parts) <= count_ / least_share) {
      sparse_ = true;
      outside_.clear();
      for (std::int64_t n = 0; n < count_; ++n)
        if (!block->has(block->row_of(indices[n]))) outside_.push_back({n, indices[n]});
    } else {
      copy_bytes(all_.at_least(count_), indices, bytes_of<I>(count_));
    }
  }
  bool are(const I* indices, const index_block* block, std::int64_t parts) {
    if (!sparse_) return same_elements(indices, all_.get(), count_, on_host ? nullptr : flag_.at_least(1));
    if (count_outside(indices, *block, parts) != std::ssize(outside_)) return false;
    for (const one& o : outside_)
      if (indices[o.at] != o.index) return false;
    return true;
  }

 private:
  /// Which share of the indices may be outside of the block for them to be kept alone.
  static constexpr std::int64_t least_share = 16;
  struct one {
    std::int64_t at;
    I index;
  };

  std::int64_t count_outside(const I* indices, const index_block& block, std::int64_t parts) {
    found_.resize(as_size(parts));
    if constexpr (on_host)
      launch("cleave routes", parts, count_outside_functor<I>{indices, count_, parts, block, found_.data()});
    return total_of(found_);
  }

  std::int64_t count_;
  bool sparse_ = false;
  kept_memory<I> all_{};
  kept_memory<int> flag_{};
  indexed_vector<one> outside_{};
  indexed_vector<std::int64_t> found_{};
};

/// Rows of one direction, by peer in the order of a group: how many, and where each is in the shard of this device.
struct row_list {
  indexed_vector<std::int64_t> count{}, at{};
  device_numbers copy{};
  /// The offsets where kernels can read them.
  const std::int64_t* offsets = nullptr;

  std::int64_t rows() const { return std::ssize(at); }
  void changed() { offsets = copy.put(at); }
};

/// The rows that travel between this device and those that have the table. Devices name them by offsets in a shard:
/// 32-bit numbers where the largest shard allows it, which all ranks know, else 64-bit ones.
template <class I>
class kept_routes {
 public:
  kept_routes(const row_tensors& t, indexed_vector<row_owner> owners, std::int64_t indices, bool to_all, const group& g)
      : owners_(std::move(owners)), count_(indices), to_all_(to_all),
        wide_(t.largest_table_shard() > narrow_offsets_limit()), group_(g), last_(indices) {}

  /// Collective over the group: an all-to-all of counts. A device whose indices changed sends them again.
  void update(const I* indices) {
    const bool same = found_ && last_.are(indices, own_block(), parts());
    if (!same) find(indices);
    const indexed_vector<std::int64_t> said =
        exchange_.counts_from(same ? indexed_vector<std::int64_t>(owners_.size(), unchanged) : asked_.count, group_);
    bool all_same = same;
    for (const std::int64_t n : said) all_same = all_same && n == unchanged;
    if (!all_same) take(same, said);
    found_ = true;
  }
  /// Rows here that belong to indices of other owners.
  const row_list& asked() const { return asked_; }
  /// How often `asked` has changed.
  std::int64_t changes() const { return changes_; }
  /// Rows of the table here that other devices named.
  const row_list& named() const { return named_; }

 private:
  /// The message of a device whose indices are those of the last run.
  static constexpr std::int64_t unchanged = -1;
  /// How many indices a thread takes at a time.
  static constexpr std::int64_t part_of_indices = tuned_size(1 << 13, 8);

  std::int64_t parts() const { return (count_ + part_of_indices - 1) / part_of_indices; }
  /// The block whose indices have no routes; null: all indices may have some.
  const index_block* own_block() const {
    return on_host && !to_all_ && !owners_.empty() ? &owners_[as_size(group_.rank)].block : nullptr;
  }

  void find(const I* indices) {
    found_ = false;
    ++changes_;
    last_.keep(indices, own_block(), parts());
    indexed_vector<I> on_the_host(on_host ? 0 : as_size(count_));
    if constexpr (!on_host) {
      wait_for_kernels();
      copy_bytes<Kokkos::HostSpace, memory_space>(on_the_host.data(), indices, bytes_of<I>(count_));
      indices = on_the_host.data();
    }
    const std::int64_t parts = this->parts();
    auto next = indexed_vector<std::int64_t>::filled(parts * std::ssize(owners_));
    const find_routes_functor<I> counts{indices, count_,      parts,   &owners_, group_.rank,
                                        to_all_, next.data(), nullptr, nullptr};
    for_each_part(parts, counts);
    asked_.count.assign(owners_.size(), 0);
    std::int64_t all = 0;
    for (std::size_t o = 0; o < owners_.size(); ++o)
      for (std::size_t p = o; p < next.size(); p += owners_.size()) {
        asked_.count[o] += next[p];
        all += std::exchange(next[p], all);
      }
    asked_.at.resize(as_size(all));
    there_.resize(as_size(all));
    find_routes_functor<I> notes = counts;
    notes.here = asked_.at.data();
    notes.there = there_.data();
    for_each_part(parts, notes);
    asked_.changed();
  }
  static void for_each_part(std::int64_t parts, const find_routes_functor<I>& f) {
    if constexpr (on_host) launch("cleave routes", parts, f);
    else
      for (std::int64_t i = 0; i < parts; ++i) f(i);
  }

  /// The offsets of asked rows go to their owners, for those that come to this device.
  indexed_vector<std::int64_t> exchanged(const indexed_vector<std::int64_t>& to,
                                         const indexed_vector<std::int64_t>& from) {
    if (wide_) return exchange_.exchanged(there_, to, from, group_);
    indexed_vector<std::int32_t> narrow(there_.size());
    for (std::size_t k = 0; k < there_.size(); ++k) narrow[k] = static_cast<std::int32_t>(there_[k]);
    const auto came = exchange_.exchanged(narrow, to, from, group_);
    indexed_vector<std::int64_t> wide(came.size());
    for (std::size_t k = 0; k < came.size(); ++k) wide[k] = came[k];
    return wide;
  }
  /// Takes the indices of the peers that changed theirs.
  void take(bool same, const indexed_vector<std::int64_t>& said) {
    const indexed_vector<std::int64_t> none(owners_.size(), 0);
    indexed_vector<std::int64_t> received = said;
    for (std::int64_t& n : received) n = std::max<std::int64_t>(n, 0);
    const indexed_vector<std::int64_t> news = exchanged(same ? none : asked_.count, received);
    if (named_.count.empty()) named_.count = none;
    indexed_vector<std::int64_t> at;
    auto kept = named_.at.begin();
    auto fresh = news.begin();
    for (std::size_t r = 0; r < said.size(); ++r) {
      const auto of_last = std::exchange(kept, kept + named_.count[r]);
      if (said[r] == unchanged) {
        at.append(of_last, kept);
      } else {
        at.append(fresh, fresh + said[r]);
        fresh += said[r];
        named_.count[r] = said[r];
      }
    }
    named_.at = std::move(at);
    named_.changed();
  }

  indexed_vector<row_owner> owners_;
  std::int64_t count_;
  bool to_all_, wide_, found_ = false;
  group group_;
  row_exchange exchange_{};
  last_indices<I> last_;
  std::int64_t changes_ = 0;
  row_list asked_{}, named_{};
  /// Where asked rows are in the shards of their owners.
  indexed_vector<std::int64_t> there_{};
};

}}} // namespace cleave::v0::comm
