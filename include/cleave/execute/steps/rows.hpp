// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/distributed/row_lookup.hpp>
#include <cleave/distributed/row_routes.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/steps/gemm.hpp>

#include <utility>

namespace cleave { inline namespace v0 {

/// A step whose routing depends on data.
template <class = void>
class routed_step final : public bound_step {
 public:
  routed_step(const step& s, owned<comm::data_routed> routed) : step_(s), routed_(std::move(routed)) {}
  void run(run_state& r) override { routed_->run(operand_addresses(r, step_).from, r.at[step_.out]); }

 private:
  const step& step_;
  owned<comm::data_routed> routed_;
};

}} // namespace cleave::v0

// Rows of a table at indices, and rows added to a table at indices.

namespace cleave { inline namespace v0 {

/// Rows of a table at indices.
template <class = void>
class gather_step final : public bound_step {
 public:
  gather_step(const step& s, owned<comm::row_lookup> rows) : step_(s), rows_(std::move(rows)) {}
  void run(run_state& r) override { rows_->run(operand_addresses(r, step_).from, r.at[step_.out]); }
  comm::row_lookup& rows() const { return *rows_; }

 private:
  const step& step_;
  owned<comm::row_lookup> rows_;
};

namespace detail {

template <class T, class I, bool Scatters, bool InProducts>
[[gnu::cold]] owned<bound_step> bind_rows(const binder& b, const step& s, const void*) {
  const buffer &first = b.operand(s, 0), &indices = b.operand(s, 1), &out = b.result(s);
  const buffer &table = Scatters ? out : first, &rows = Scatters ? first : out;
  const comm::row_tensors t{table.type, rows.type,     indices.type, table.where,
                            rows.where, indices.where, dim_along(s), b.at};
  if constexpr (Scatters) {
    using sums = comm::row_scatter<T, I>;
    return make_step<routed_step<>>(s, owned<comm::data_routed>(new sums(b.grid, t, s.axes)));
  } else {
    using lookup = comm::row_gather<T, I, InProducts>;
    return make_step<gather_step<>>(s, owned<comm::row_lookup>(new lookup(b.grid, t, s.axes)));
  }
}
template <bool Scatters>
struct rows_code {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    using T = element_at<Plan, Plan::frozen.steps[I].out>;
    constexpr bool in_products = !Scatters && Plan::frozen.steps[I].feeds_product;
    return {&bind_rows<T, element_at<Plan, Plan::frozen.steps[I].in[1]>, Scatters, in_products>};
  }
};

} // namespace detail

template <>
struct step_code<step_kind::gather> : detail::rows_code<false> {};
template <>
struct step_code<step_kind::scatter> : detail::rows_code<true> {};

// A look-up and the small products that read it, such as a sparse matrix and a vector, are one pass: the products read
// the table at the indices, and the rows are not stored. Both orders of summation are the same.

namespace detail {

template <class = void>
class looked_up_products final : public step_group {
 public:
  /// Steps `i` and `i + 1` of a program, of which the first feeds the other (step::feeds_product).
  [[gnu::cold]] looked_up_products(const binder& b, const bound_step& rows, const bound_step& products, std::size_t i)
      : rows_(static_cast<const gather_step<>&>(rows).rows()), products_(static_cast<const gemm_step<>&>(products)),
        gather_(b.program.steps[i]), gemm_(b.program.steps[i + 1]), looked_up_(gemm_.in[0] == gather_.out ? 0 : 1) {
    first = i;
    last = i + 2;
    for (int k = 0; k < 2; ++k) bytes_[k] = b.bytes(b.operand(gather_, as_size(k)));
    bytes_[2] = b.bytes(b.result(gemm_));
  }
  /// On this device. A profiler sees each step.
  bool possible() const { return rows_.feeds(products_.small(), looked_up_) && !Kokkos::Tools::profileLibraryLoaded(); }

  bool run(run_state& r) override {
    if (r.checks != nullptr) return false;
    void* const result = r.at[gemm_.out];
    const operand_addresses in(r, gather_);
    // From here on all devices make the same communication calls, whatever their addresses are.
    rows_.fetch(in.from);
    const void* const values = r.at[gemm_.in[1 - as_size(looked_up_)]];
    if (!overwrites(r, result) && rows_.run_products(products_.small(), looked_up_, in.from, values, result))
      return true;
    rows_.put_rows(in.from, r.at[gather_.out]);
    r.steps[first + 1]->run(r);
    return true;
  }

 private:
  /// Whether the result overwrites the table or the indices, which are free once the rows are stored.
  bool overwrites(const run_state& r, const void* result) const {
    return share_bytes(r.at[gather_.in[0]], bytes_[0], result, bytes_[2]) ||
           share_bytes(r.at[gather_.in[1]], bytes_[1], result, bytes_[2]);
  }

  comm::row_lookup& rows_;
  const gemm_step<>& products_;
  const step &gather_, &gemm_;
  int looked_up_;
  /// Of the table, of the indices, of the result.
  std::int64_t bytes_[3]{};
};

template <class = void>
[[gnu::cold]] void find_indexed_products(const binder& b, const indexed_vector<owned<bound_step>>& steps,
                                         indexed_vector<owned<step_group>>& groups) {
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (!b.program.steps[i].feeds_product) continue;
    owned<looked_up_products<>> group(new looked_up_products<>(b, *steps[i], *steps[i + 1], i));
    // A device with few rows would leave them to the library. The steps of a group communicate otherwise than alone.
    if (b.grid.holds_everywhere(group->possible())) groups.push_back(std::move(group));
  }
}

} // namespace detail

}} // namespace cleave::v0
