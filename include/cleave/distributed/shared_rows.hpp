// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/peer_arrays.hpp>
#include <cleave/distributed/kept_routes.hpp>
#include <cleave/kernels/indexed_rows.hpp>

#include <algorithm>

namespace cleave::inline v0::comm {

/// Blocks of a table on devices that share memory. A look-up reads each row where it is, so nothing travels, and no
/// device needs to know the indices of another.
template <class T>
class shared_table {
 public:
  /// `g`: the group over the axes that shard the table along the dim that is looked up.
  [[gnu::cold]] shared_table(const grid_state& grid, const row_tensors& t, axis_set over, const group& g)
      : peers_(g), bytes_(bytes_of<T>(t.table_shard(grid.here()).elements())) {
    if (!on_host || g.together == nullptr) return;
    const std::int64_t rows = largest_shape(shape_of(t.rows, t.at), t.rows_where, t.at.axes).elements(),
                       shard = t.largest_table_shard();
    may_copy_ = bytes_of<T>(shard) <= std::max(bytes_of<T>(rows), least_paged);
    find_blocks(grid, t, over, g.size);
  }

  /// Until `close`, all devices may read all blocks. False on all devices of the group if one of them keeps its block
  /// where others cannot read it. Collective over the group.
  bool open(const T* mine) {
    if (!possible_ || !peers_.open(mine, bytes_, may_copy_)) return false;
    const auto place = [&](std::size_t b) {
      return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(peers_.of(owner_[b]))) / bytes_of<T>(1);
    };
    for (std::size_t b = 0; b < owner_.size(); ++b)
      at_[b] = place(b) - place(0) - static_cast<std::int64_t>(b) * block_ * blocks_.stride;
    return true;
  }
  void close() { peers_.close(); }

  /// Between `open` and `close`: the rows at the indices.
  template <class I>
  void gather(const I* indices, T* rows) const {
    index_blocks b = blocks_;
    b.at = at_.data();
    gather_rows(rows_, b, owner_.empty() ? nullptr : as<T>(peers_.of(owner_[0])), indices, rows);
  }

 private:
  /// Which rank has each block. Blocks must differ in nothing but their place and the length of the last one.
  void find_blocks(const grid_state& grid, const row_tensors& t, axis_set over, int ranks) {
    const coordinates here = grid.here();
    coordinates first = here;
    possible_ = true;
    for (int r = 0; r < ranks; ++r)
      if (const coordinates c = grid.member(over, r); t.block(c).begin == 0 && t.block(c).end > 0) first = c;
    block_ = t.block(first).size();
    const strides at_first = strides_of(t.table_shard(first).extents());
    const std::int64_t extent = t.at.dims[t.along];
    owner_ = indexed_vector<int>::filled(block_ == 0 ? 0 : (extent + block_ - 1) / block_, -1);
    for (int r = 0; r < ranks; ++r) {
      const coordinates c = grid.member(over, r);
      const range held = t.block(c);
      if (held.size() == 0) continue;
      int& owner = owner_[held.begin / block_];
      if (owner < 0 || c == here) owner = r;
      possible_ = possible_ && strides_of(t.table_shard(c).extents()) == at_first;
    }
    for (const int owner : owner_) possible_ = possible_ && owner >= 0;
    at_.resize(owner_.size());
    blocks_.extent = extent;
    blocks_.stride = t.stride_along(first);
    blocks_.blocks = 1 / static_cast<double>(std::max<std::int64_t>(block_, 1));
    rows_ = indexed_rows(t.over_indices(here, first), t.over_row(here, first), {0, extent, blocks_.stride});
  }

  peer_arrays peers_;
  std::int64_t bytes_, block_ = 0;
  bool may_copy_ = false, possible_ = false;
  /// By block: which rank has it, and where it is (see index_blocks).
  indexed_vector<int> owner_{};
  indexed_vector<std::int64_t> at_{};
  index_blocks blocks_{};
  indexed_rows rows_{};
};

/// Rows and their indices on devices that share memory. A device that adds up a part of a table reads all indices, and
/// its rows where they are.
template <class T, class I>
class shared_rows {
 public:
  /// `g`: the group over the axes along which rows would be sent.
  [[gnu::cold]] shared_rows(const grid_state& grid, const row_tensors& t, axis_set over, const group& g)
      : rows_(g), indices_(g), rows_bytes_(bytes_of<T>(t.rows_shard(grid.here()).elements())),
        indices_bytes_(bytes_of<I>(t.indices_shard(grid.here()).elements())) {
    const coordinates here = grid.here();
    possible_ = on_host && g.together != nullptr && g.size <= indices_for_a_row(t.over_row(here, here).size());
    for (int r = 0; r < g.size && possible_; ++r) {
      const coordinates c = grid.member(over, r);
      at_.emplace_back(t.over_indices(c, here), t.over_row(c, here), row_owner::block_of(t, here));
    }
  }

  /// Until `close`, all devices may read all rows and indices. False on all devices of the group if one of them keeps
  /// its own where others cannot read them, which copies would be. Collective over the group.
  bool open(const T* rows, const I* indices) {
    if (!possible_ || !indices_.open(indices, indices_bytes_, true)) return false;
    if (rows_.open(rows, rows_bytes_, true)) return true;
    indices_.close();
    return false;
  }
  void close() { rows_.close(); }

  /// Between `open` and `close`, which is on the host: adds the rows of all devices, in the order of the devices.
  template <class To>
  void add(To* table) const {
    for (int r = 0; r < std::ssize(at_); ++r)
      scatter_rows(at_[r], as<T>(rows_.of(r)), as<I>(indices_.of(r)), table, nullptr);
  }

 private:
  /// For each row that is not packed, sent and unpacked, each device reads an index. So many of them take about as long
  /// as a row of so many elements does.
  static std::int64_t indices_for_a_row(std::int64_t length) { return 2 * (length + 1); }

  peer_arrays rows_, indices_;
  std::int64_t rows_bytes_, indices_bytes_;
  bool possible_ = false;
  /// By rank of the group.
  indexed_vector<indexed_rows> at_{};
};

} // namespace cleave::inline v0::comm
