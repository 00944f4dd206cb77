// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/distributed/row_lookup.hpp>
#include <cleave/distributed/row_routes.hpp>
#include <cleave/execute/bound_step.hpp>

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

}} // namespace cleave::v0
