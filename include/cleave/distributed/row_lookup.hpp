// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/distributed/row_routes.hpp>
#include <cleave/storage/convert.hpp>
#include <cleave/storage/fill.hpp>

namespace cleave::comm {

namespace detail {
/// A packed row beside a row of a tensor: extents, and strides in both.
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

/// The most elements of a shard of a table whose offsets travel as 32-bit numbers. Tests set it low.
inline std::int64_t& narrow_offsets_limit() {
  static std::int64_t limit = most_narrow_offsets;
  return limit;
}

/// Rows of a table at indices (gather), or rows added to a table of zeros at indices (scatter).
/// Communication: over the axes that are given, an all-to-all of counts, one of indices, one of rows. Indices and
/// routes are on the host; rows are packed and added where kernels run. Indices travel as offsets in a shard: 32-bit
/// numbers where the largest shard allows it, which all ranks know, else 64-bit ones.
template <class T>
class row_lookup final : public data_routed {
  using offsets = indexed_vector<std::int64_t>;

 public:
  /// Gather: over the axes that shard the table. Scatter: over those along which rows are sent.
  row_lookup(grid_state& grid, const row_tensors& t, axis_set over, bool scatters)
      : t_(t), here_(grid.here()), element_(t.rows.element), scatters_(scatters),
        wide_(t.largest_table_shard() > narrow_offsets_limit()), indices_(t.over_indices(here_, here_)),
        row_(t.over_row(here_)) {
    if (grid.sizes().product(over) > 1) group_ = grid.group_of(over);
    for (int r = 0; r < group_.size; ++r)
      owners_.push_back(owner(t_, here_, group_.size > 1 ? grid.member(over, r) : here_));
  }
  void run(const void* const* in, void* out) override {
    const offsets indices = indices_on_host(in[1], indices_.size(), t_.indices.element);
    const T* const from = as<T>(in[0]);
    if (scatters_) scatter(from, indices, as<T>(out));
    else gather(from, indices, as<T>(out));
  }

 private:
  /// A device that has a block of the table.
  struct owner {
    range block;
    std::int64_t stride;
    strided_dims indices;

    owner(const row_tensors& t, const coordinates& here, const coordinates& at)
        : block(t.block(at)), stride(t.stride_along(at)), indices(t.over_indices(here, at)) {}
    /// Where the row at an index is in the owner's shard, for number `n` of the indices here; -1 if it is not there.
    std::int64_t row_at(std::int64_t index, std::int64_t n) const {
      return index < block.begin || index >= block.end ? -1 : indices.at(2, n) + (index - block.begin) * stride;
    }
  };
  /// Rows that travel between this device and the owners, by owner: how many, where each is in the owner's shard, and
  /// where in the rows here.
  struct routes {
    offsets count{}, here{}, there{};
  };

  std::int64_t length() const { return row_.size(); }
  /// Where index number n has its row among the rows here.
  std::int64_t row_here(std::int64_t n) const { return indices_.at(1, n); }
  /// Offsets of so many packed rows.
  offsets packed(std::int64_t rows) const {
    offsets at;
    for (std::int64_t r = 0; r < rows; ++r) at.push_back(r * length());
    return at;
  }
  /// Finds the rows of all owners at the indices, or, for replicas that need be asked but once, of the first one.
  /// `missing` receives the rows here that no owner has.
  routes routes_to(bool all_owners, const offsets& indices, offsets& missing) const {
    std::vector<routes> by_owner(owners_.size());
    for (std::int64_t n = 0; n < std::ssize(indices); ++n) {
      bool found = false;
      for (std::size_t o = 0; o < owners_.size() && (all_owners || !found); ++o) {
        const std::int64_t row = owners_[o].row_at(indices[n], n);
        if (row < 0) continue;
        by_owner[o].there.push_back(row);
        by_owner[o].here.push_back(row_here(n));
        found = true;
      }
      if (!found) missing.push_back(row_here(n));
    }
    routes all;
    for (const routes& r : by_owner) {
      all.count.push_back(std::ssize(r.here));
      all.here.insert(all.here.end(), r.here.begin(), r.here.end());
      all.there.insert(all.there.end(), r.there.begin(), r.there.end());
    }
    return all;
  }
  void copy(const T* from, T* to, const offsets& source, const offsets& target, const strided_dims& row) {
    if (source.empty() || length() == 0) return;
    copy_rows(from, to, sources_.put(source), targets_.put(target), row, std::ssize(source));
  }

  /// Without communication: where each row is in the table here, -1 if it has none, and among the rows.
  std::pair<offsets, offsets> rows_of_one_owner(const offsets& indices) const {
    offsets in_table, in_rows;
    for (std::int64_t n = 0; n < std::ssize(indices); ++n) {
      in_table.push_back(owners_.front().row_at(indices[n], n));
      in_rows.push_back(row_here(n));
    }
    return {std::move(in_table), std::move(in_rows)};
  }

  void gather(const T* table, const offsets& indices, T* out) {
    if (group_.size == 1) {
      const auto [in_table, in_rows] = rows_of_one_owner(indices);
      copy(table, out, in_table, in_rows, row_);
      return wait_for_kernels();
    }
    offsets missing;
    const routes asked = routes_to(false, indices, missing);
    // Indices that no table has give zeros.
    copy(table, out, offsets(missing.size(), -1), missing, row_);
    wait_for_kernels();
    const offsets wanted_by = exchange_.counts_from(asked.count, group_);
    answer(table, exchanged(asked.there, asked.count, wanted_by), wanted_by, asked, out);
  }
  /// Offsets that go to the owners, for those that come to this device.
  offsets exchanged(const offsets& there, const offsets& to, const offsets& from) {
    if (wide_) return host_.exchanged(there, to, from, group_);
    const auto came = host_.exchanged(std::vector<std::int32_t>(there.begin(), there.end()), to, from, group_);
    return offsets(came.begin(), came.end());
  }
  /// Sends the rows that other devices asked for, and puts the received rows where they belong.
  void answer(const T* table, const offsets& wanted, const offsets& wanted_by, const routes& asked, T* out) {
    const std::int64_t sent = std::ssize(wanted), received = std::ssize(asked.here);
    T* const sending = sending_.at_least(sent * length());
    T* const receiving = receiving_.at_least(received * length());
    copy(table, sending, wanted, packed(sent), detail::packed_row(row_, 1, true));
    wait_for_kernels();
    exchange_.run(sending, wanted_by, receiving, asked.count, length(), element_, group_);
    copy(receiving, out, packed(received), asked.here, detail::packed_row(row_, 0, false));
    wait_for_kernels();
  }

  /// 16-bit numbers are added up in float, in a table beside the result.
  static constexpr bool adds_wider = !std::is_same_v<computed<T>, T>;
  computed<T>* sums_for(T* out, std::int64_t elements) {
    if constexpr (!adds_wider) return out;
    else return sums_.at_least(elements);
  }
  void add(const T* from, computed<T>* to, const offsets& source, const offsets& target, const strided_dims& row) {
    if (source.empty()) return;
    add_rows(from, to, sources_.put(source), targets_.put(target), row, std::ssize(source));
  }
  void scatter(const T* rows, const offsets& indices, T* out) {
    const std::int64_t elements = t_.table_shard(here_).elements();
    computed<T>* const sums = sums_for(out, elements);
    fill_elements(sums, elements, computed<T>{});
    add_all(rows, indices, sums);
    if constexpr (adds_wider) convert_elements(sums, out, elements);
    wait_for_kernels();
  }
  void add_all(const T* rows, const offsets& indices, computed<T>* out) {
    if (group_.size == 1) {
      const auto [in_table, in_rows] = rows_of_one_owner(indices);
      return add(rows, out, in_rows, in_table, detail::swapped(row_));
    }
    offsets missing;
    const routes to = routes_to(true, indices, missing);
    const std::int64_t sent = std::ssize(to.here);
    T* const sending = sending_.at_least(sent * length());
    copy(rows, sending, to.here, packed(sent), detail::packed_row(row_, 0, true));
    wait_for_kernels();
    const offsets from = exchange_.counts_from(to.count, group_);
    const offsets landed = exchanged(to.there, to.count, from);
    const std::int64_t received = std::ssize(landed);
    T* const receiving = receiving_.at_least(received * length());
    exchange_.run(sending, to.count, receiving, from, length(), element_, group_);
    add(receiving, out, packed(received), landed, detail::swapped(detail::packed_row(row_, 1, true)));
  }

  row_tensors t_;
  coordinates here_;
  element element_;
  bool scatters_, wide_;
  strided_dims indices_, row_;
  group group_{};
  std::vector<owner> owners_{};
  row_exchange exchange_{}, host_{};
  device_numbers sources_{}, targets_{};
  kept_memory<T> sending_{}, receiving_{};
  kept_memory<computed<T>> sums_{};
};

} // namespace cleave::comm
