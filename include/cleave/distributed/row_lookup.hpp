// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/distributed/row_routes.hpp>
#include <cleave/storage/convert.hpp>
#include <cleave/storage/fill.hpp>

namespace cleave::comm {

namespace detail {
/// A row that lies packed, against one in a tensor.
inline strided_dims packed_row(const strided_dims& row, int array, bool packed_is_target) {
  strided_dims d;
  std::int64_t next = row.size();
  for (int i = 0; i < row.rank; ++i) {
    next = row.extent[i] > 0 ? next / row.extent[i] : 0;
    const std::int64_t own = row.stride[array][i];
    d.add(row.extent[i], packed_is_target ? next : own, packed_is_target ? own : next);
  }
  return d;
}
inline strided_dims swapped(const strided_dims& row) {
  strided_dims d;
  for (int i = 0; i < row.rank; ++i) d.add(row.extent[i], row.stride[1][i], row.stride[0][i]);
  return d;
}
} // namespace detail

/// Rows of a table at places (gather), or rows added to a table of zeros at places (scatter).
/// Communication: where it is said over axes: an all-to-all of counts, one of places, one of rows. Places and routes are on the
/// host; rows are packed and added where kernels run.
template <class T>
class row_lookup final : public data_routed {
 public:
  /// Gather: over the axes that divide the table. Scatter: over those along which rows are sent.
  row_lookup(grid_state& grid, const row_tensors& t, axis_set over, bool scatters)
      : t_(t), here_(grid.here()), element_(t.rows.element), scatters_(scatters) {
    if (grid.sizes().product(over) > 1) group_ = grid.group_of(over);
    for (int r = 0; r < group_.size; ++r) members_.push_back(group_.size > 1 ? grid.member(over, r) : here_);
    places_ = t_.over_places(here_);
    row_ = t_.over_row(here_);
  }
  void run(const void* const* in, void* out) override {
    const std::vector<std::int64_t> at = places_on_host(in[1], places_.size(), t_.places.element);
    if (scatters_) scatter(static_cast<const T*>(in[0]), at, static_cast<T*>(out));
    else gather(static_cast<const T*>(in[0]), at, static_cast<T*>(out));
  }

 private:
  std::int64_t length() const { return row_.size(); }
  /// Where the row at a place is in the shard of a member, for the common dims of place number `p`; -1 where it is not there.
  std::int64_t in_shard(std::int64_t place, std::int64_t common, const coordinates& c) const {
    const range block = held(t_.extent(), t_.divided(), c, t_.at.axes);
    if (place < block.begin || place >= block.end) return -1;
    return common + (place - block.begin) * t_.stride_along(c);
  }
  void copy(const T* from, T* to, const std::vector<std::int64_t>& source, const std::vector<std::int64_t>& target, const strided_dims& row) {
    const auto rows = static_cast<std::int64_t>(source.size());
    if (rows * length() == 0) return;
    copy_rows(from, to, sources_.put(source), targets_.put(target), row, rows);
  }
  template <class U = T>
  static U* memory(std::shared_ptr<void>& kept, std::int64_t& bytes, std::int64_t elements) {
    const std::int64_t wanted = elements * static_cast<std::int64_t>(sizeof(U));
    if (wanted > bytes) kept = allocate(wanted), bytes = wanted;
    return static_cast<U*>(kept.get());
  }

  void gather(const T* table, const std::vector<std::int64_t>& places, T* out) {
    const auto n = static_cast<std::int64_t>(places.size());
    std::vector<std::int64_t> source, target;
    if (group_.size == 1) {
      for (std::int64_t p = 0; p < n; ++p) {
        source.push_back(in_shard(places[static_cast<std::size_t>(p)], places_.at(2, p), here_));
        target.push_back(places_.at(1, p));
      }
      copy(table, out, source, target, row_);
      wait_for_kernels();
      return;
    }
    // Requests by member: which row of its shard, for which place here.
    std::vector<std::vector<std::int64_t>> asked(members_.size()), mine(members_.size());
    for (std::int64_t p = 0; p < n; ++p) {
      const std::int64_t place = places[static_cast<std::size_t>(p)];
      bool found = false;
      for (std::size_t m = 0; m < members_.size() && !found && place >= 0 && place < t_.extent(); ++m) {
        const std::int64_t row = in_shard(place, common_of(p, members_[m]), members_[m]);
        if (row < 0) continue;
        asked[m].push_back(row);
        mine[m].push_back(places_.at(1, p));
        found = true;
      }
      if (found) continue;
      source.push_back(-1);
      target.push_back(places_.at(1, p));
    }
    copy(table, out, source, target, row_);
    wait_for_kernels();
    std::vector<std::int64_t> to(members_.size(), 0);
    std::vector<std::int32_t> requests;
    target.clear();
    for (std::size_t m = 0; m < members_.size(); ++m) {
      to[m] = static_cast<std::int64_t>(asked[m].size());
      for (std::int64_t row : asked[m]) requests.push_back(static_cast<std::int32_t>(row));
      target.insert(target.end(), mine[m].begin(), mine[m].end());
    }
    const std::vector<std::int64_t> from = exchange_.counts_from(to, group_);
    std::int64_t total = 0;
    for (std::int64_t c : from) total += c;
    std::vector<std::int32_t> wanted(static_cast<std::size_t>(total));
    host_.template run<Kokkos::HostSpace>(requests.data(), to, wanted.data(), from, 1, element::i32, group_);

    T* const sending = memory(sending_, sending_bytes_, total * length());
    T* const receiving = memory(receiving_, receiving_bytes_, static_cast<std::int64_t>(target.size()) * length());
    source.clear();
    std::vector<std::int64_t> packed;
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      source.push_back(wanted[r]);
      packed.push_back(static_cast<std::int64_t>(r) * length());
    }
    copy(table, sending, source, packed, detail::packed_row(row_, 1, true));
    wait_for_kernels();
    exchange_.run(sending, from, receiving, to, length(), element_, group_);
    source.clear();
    for (std::size_t r = 0; r < target.size(); ++r) source.push_back(static_cast<std::int64_t>(r) * length());
    copy(receiving, out, source, target, detail::packed_row(row_, 0, false));
    wait_for_kernels();
  }

  /// Offset of the common dims of a place in the shard of a member, whose strides differ where its block is shorter.
  std::int64_t common_of(std::int64_t p, const coordinates& c) const {
    const shape mine = t_.shard(t_.places, t_.places_where, here_).extents(), table = t_.shard(t_.table, t_.table_where, c).extents();
    const auto stride = strides_of(table);
    std::int64_t offset = 0;
    for (int i = t_.places.rank; i-- > 0; p /= mine[i]) {
      const int in_table = t_.table.find(t_.places[i]);
      if (in_table >= 0) offset += p % mine[i] * stride[static_cast<std::size_t>(in_table)];
    }
    return offset;
  }

  /// 16-bit numbers are added up in float, in a table beside the result.
  static constexpr bool adds_wider = !std::is_same_v<computed<T>, T>;
  computed<T>* sums_for(T* out, std::int64_t elements) {
    if constexpr (!adds_wider) return out;
    else return memory<computed<T>>(sums_, sums_bytes_, elements);
  }
  void add(const T* from, computed<T>* to, const std::vector<std::int64_t>& source, const std::vector<std::int64_t>& target, const strided_dims& row) {
    if (source.empty()) return;
    add_rows(from, to, sources_.put(source), targets_.put(target), row, static_cast<std::int64_t>(source.size()));
  }
  void scatter(const T* rows, const std::vector<std::int64_t>& places, T* out) {
    const std::int64_t elements = t_.shard(t_.table, t_.table_where, here_).elements();
    computed<T>* const sums = sums_for(out, elements);
    fill_elements(sums, elements, computed<T>{});
    add_all(rows, places, sums);
    if constexpr (adds_wider) convert_elements(sums, out, elements);
    wait_for_kernels();
  }
  void add_all(const T* rows, const std::vector<std::int64_t>& places, computed<T>* out) {
    const auto n = static_cast<std::int64_t>(places.size());
    std::vector<std::int64_t> source, target;
    if (group_.size == 1) {
      for (std::int64_t p = 0; p < n; ++p) {
        const std::int64_t row = in_shard(places[static_cast<std::size_t>(p)], places_.at(2, p), here_);
        if (row < 0) continue;
        source.push_back(places_.at(1, p));
        target.push_back(row);
      }
      add(rows, out, source, target, detail::swapped(row_));
      return;
    }
    std::vector<std::int64_t> to(members_.size(), 0), packed;
    std::vector<std::int32_t> where;
    for (std::size_t m = 0; m < members_.size(); ++m)
      for (std::int64_t p = 0; p < n; ++p) {
        const std::int64_t row = in_shard(places[static_cast<std::size_t>(p)], common_of(p, members_[m]), members_[m]);
        if (row < 0) continue;
        ++to[m];
        where.push_back(static_cast<std::int32_t>(row));
        packed.push_back(static_cast<std::int64_t>(source.size()) * length());
        source.push_back(places_.at(1, p));
      }
    T* const sending = memory(sending_, sending_bytes_, static_cast<std::int64_t>(source.size()) * length());
    copy(rows, sending, source, packed, detail::packed_row(row_, 0, true));
    wait_for_kernels();
    const std::vector<std::int64_t> from = exchange_.counts_from(to, group_);
    std::int64_t total = 0;
    for (std::int64_t c : from) total += c;
    std::vector<std::int32_t> landed(static_cast<std::size_t>(total));
    host_.template run<Kokkos::HostSpace>(where.data(), to, landed.data(), from, 1, element::i32, group_);
    T* const receiving = memory(receiving_, receiving_bytes_, total * length());
    exchange_.run(sending, to, receiving, from, length(), element_, group_);
    source.clear();
    for (std::size_t r = 0; r < landed.size(); ++r) {
      source.push_back(static_cast<std::int64_t>(r) * length());
      target.push_back(landed[r]);
    }
    add(receiving, out, source, target, detail::swapped(detail::packed_row(row_, 1, true)));
  }

  row_tensors t_;
  coordinates here_;
  element element_;
  bool scatters_;
  group group_{};
  std::vector<coordinates> members_{};
  strided_dims places_{}, row_{};
  row_exchange exchange_{}, host_{};
  device_numbers sources_{}, targets_{};
  std::shared_ptr<void> sending_{}, receiving_{}, sums_{};
  std::int64_t sending_bytes_ = 0, receiving_bytes_ = 0, sums_bytes_ = 0;
};

} // namespace cleave::comm
