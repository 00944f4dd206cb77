// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/distributed/kept_routes.hpp>
#include <cleave/kernels/indexed_products.hpp>
#include <cleave/kernels/indexed_rows.hpp>
#include <cleave/storage/element_type.hpp>

#include <algorithm>
#include <numeric>

namespace cleave { inline namespace v0 { namespace comm {

namespace detail {
/// A packed row and a row of a tensor, the packed one first or second: extents, and strides in both.
inline strided_dims packed_with(const strided_dims& row, int array, bool first) {
  strided_dims d;
  std::int64_t next = row.size();
  for (int i = 0; i < row.rank; ++i) {
    next = row.extent[i] > 0 ? next / row.extent[i] : 0;
    const std::int64_t own = row.stride[array][i];
    d.add(row.extent[i], first ? next : own, first ? own : next);
  }
  return d;
}
} // namespace detail

/// The common part of look-ups and sums by index: rows whose table is on this device are read or added by one kernel,
/// the others travel by routes that are kept while the indices stay the same.
template <class T, class I>
class row_transport {
 protected:
  [[gnu::cold]] row_transport(grid_state& grid, const row_tensors& t, axis_set over, bool to_all)
      : element_(t.rows.element), grid_(grid), row_(t.over_row(grid.here(), grid.here())),
        here_(t.over_indices(grid.here(), grid.here()), row_, row_owner::block_of(t, grid.here())),
        group_(grid.sizes().product(over) > 1 ? grid.connected(over) : group{}),
        routes_(t, owners(grid, t, over, group_.size), here_.count, to_all, group_) {}

  std::int64_t length() const { return here_.length; }
  bool alone() const { return group_.size == 1; }
  /// Sends packed rows to all peers and receives theirs.
  const T* exchange(const row_list& to, const row_list& from, const T* rows, const strided_dims& packed) {
    const std::int64_t sent = to.rows() * length(), received = from.rows() * length();
    allocate_everywhere(grid_, bytes_of<T>(sent + received), [&] {
      sending_.at_least(sent);
      receiving_.at_least(received);
    });
    T *const sending = sending_.get(), *const receiving = receiving_.get();
    copy_rows(rows, sending, to.offsets, nullptr, packed, to.rows());
    wait_for_kernels();
    exchange_.run(sending, to.count, receiving, from.count, length(), element_, group_);
    return receiving;
  }

  element element_;
  grid_state& grid_;
  strided_dims row_;
  indexed_rows here_;
  group group_;
  kept_routes<I> routes_;

 private:
  static indexed_vector<row_owner> owners(const grid_state& grid, const row_tensors& t, axis_set over, int size) {
    indexed_vector<row_owner> all;
    for (int r = 0; r < size && size > 1; ++r) all.emplace_back(t, grid.here(), grid.member(over, r));
    return all;
  }

  row_exchange exchange_{};
  kept_memory<T> sending_{}, receiving_{};
};

/// A look-up whose rows may be read where they are by small products.
class row_lookup : public data_routed {
 public:
  /// Whether these products may take their operand `looked_up` from it.
  virtual bool feeds(const small_gemm& g, int looked_up) const = 0;
  /// Fetches the rows of other devices. Communication: all of that of `run`.
  virtual void fetch(const void* const* in) = 0;
  /// After `fetch`: the rows at all indices.
  virtual void put_rows(const void* const* in, void* out) = 0;
  /// After `fetch`: the products for which `feeds` holds. False if too many rows came from other devices.
  virtual bool run_products(const small_gemm& g, int looked_up, const void* const* in, const void* values,
                            void* result) = 0;
};

/// Rows of a table at indices. `InProducts`: products may read them.
/// Communication: over the axes that shard the table, an all-to-all of counts, one of indices if they changed, one of
/// rows.
template <class T, class I, bool InProducts>
class row_gather final : public row_lookup, row_transport<T, I> {
 public:
  row_gather(grid_state& grid, const row_tensors& t, axis_set over) : row_transport<T, I>(grid, t, over, false) {}
  void run(const void* const* in, void* out) override {
    fetch(in);
    put_rows(in, out);
  }
  void fetch(const void* const* in) override {
    if (this->alone()) return;
    this->routes_.update(as<I>(in[1]));
    const row_list &asked = this->routes_.asked(), &named = this->routes_.named();
    fetched_ = this->exchange(named, asked, as<T>(in[0]), detail::packed_with(this->row_, 1, true));
  }
  void put_rows(const void* const* in, void* out) override {
    // Rows of other devices are 0 at first.
    gather_rows(this->here_, as<T>(in[0]), as<I>(in[1]), as<T>(out));
    if (this->alone()) return;
    const row_list& asked = this->routes_.asked();
    copy_rows(fetched_, as<T>(out), nullptr, asked.offsets, detail::packed_with(this->row_, 0, false), asked.rows());
  }
  bool feeds(const small_gemm& g, int looked_up) const override {
    return InProducts && on_host && indexed_products(g, looked_up, this->here_).k > 0;
  }
  bool run_products([[maybe_unused]] const small_gemm& g, [[maybe_unused]] int looked_up,
                    [[maybe_unused]] const void* const* in, [[maybe_unused]] const void* values,
                    [[maybe_unused]] void* result) override {
    if constexpr (InProducts) {
      if (!this->alone() && !find_far_rows()) return false;
      run_indexed_products(indexed_products(g, looked_up, this->here_), this->here_.block, as<T>(values), as<I>(in[1]),
                           as<T>(in[0]), as<T>(result), fetched_, far_);
      return true;
    }
    return false;
  }

 private:
  /// Products with rows of other devices are computed twice, so only a small share of the indices may be of such.
  static constexpr std::int64_t least_near = 16;

  bool find_far_rows() {
    const row_list& asked = this->routes_.asked();
    if (asked.rows() > this->here_.count / least_near) return false;
    if (far_of_ == this->routes_.changes()) return true;
    far_of_ = this->routes_.changes();
    far_.clear();
    for (std::int64_t row = 0; row < asked.rows(); ++row)
      far_.push_back({asked.at[as_size(row)] / this->length(), row});
    std::sort(far_.begin(), far_.end());
    return true;
  }

  const T* fetched_ = nullptr;
  /// In the order of the indices; and for which routes.
  indexed_vector<cleave::detail::far_row> far_{};
  std::int64_t far_of_ = 0;
};

/// Rows added to a table of zeros at indices.
/// Communication: over the axes along which rows are sent, an all-to-all of counts, one of indices if they changed, one
/// of rows.
template <class T, class I>
class row_scatter final : public data_routed, row_transport<T, I> {
 public:
  row_scatter(grid_state& grid, const row_tensors& t, axis_set over)
      : row_transport<T, I>(grid, t, over, true), elements_(t.table_shard(grid.here()).elements()) {
    if constexpr (!on_host) keys_.at_least(this->here_.count);
  }
  void run(const void* const* in, void* out) override {
    computed<T>* const sums = sums_for(as<T>(out));
    fill_elements(sums, elements_, computed<T>{});
    add_all(as<T>(in[0]), as<I>(in[1]), sums);
    if constexpr (adds_wider) convert_elements(sums, as<T>(out), elements_);
  }

 private:
  /// 16-bit numbers are added up in float, in a table beside the result.
  static constexpr bool adds_wider = !std::is_same_v<computed<T>, T>;
  computed<T>* sums_for(T* out) {
    if constexpr (!adds_wider) return out;
    else return first_sums(), sums_.get();
  }
  /// In the first run all devices learn whether each of them has memory for it. Collective over the grid then.
  void first_sums() {
    if (has_sums_) return;
    this->grid_.agree_on_memory(finds_memory([&] { sums_.at_least(elements_); }), bytes_of<computed<T>>(elements_),
                                "sums of 16-bit rows");
    has_sums_ = true;
  }
  /// Adds the rows of all devices, in the order of the devices.
  void add_all(const T* rows, const I* indices, computed<T>* sums) {
    if (this->alone()) return scatter_rows(this->here_, rows, indices, sums, keys_.get());
    this->routes_.update(indices);
    const row_list& named = this->routes_.named();
    const T* const received = this->exchange(this->routes_.asked(), named, rows,
                                             detail::packed_with(this->row_, 0, true));
    const auto middle = named.count.begin() + this->group_.rank;
    const std::int64_t before = std::accumulate(named.count.begin(), middle, std::int64_t{0});
    add(received, named.offsets, before, sums);
    scatter_rows(this->here_, rows, indices, sums, keys_.get());
    // No row travels from this device to itself.
    add(received + before * this->length(), named.offsets + before, named.rows() - before, sums);
  }
  void add(const T* rows, const std::int64_t* targets, std::int64_t n, computed<T>* sums) const {
    add_rows(rows, sums, nullptr, targets, detail::packed_with(this->row_, 1, false), n);
  }

  std::int64_t elements_;
  kept_memory<computed<T>> sums_{};
  bool has_sums_ = false;
  /// On a device.
  kept_memory<std::uint64_t> keys_{};
};

}}} // namespace cleave::v0::comm
