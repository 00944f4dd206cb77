// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/distributed/row_lookup.hpp>
#include <cleave/execute/steps/routed.hpp>

// Rows of a table at indices, and rows added to a table at indices.

namespace cleave::inline v0 {

namespace detail {

template <class T, class I, bool Scatters>
[[gnu::cold]] std::unique_ptr<bound_step> bind_rows(const binder& b, const step& s, const void*) {
  using lookup = std::conditional_t<Scatters, comm::row_scatter<T, I>, comm::row_gather<T, I>>;
  const buffer &first = b.operand(s, 0), &indices = b.operand(s, 1), &out = b.result(s);
  const buffer &table = Scatters ? out : first, &rows = Scatters ? first : out;
  const comm::row_tensors t{table.type, rows.type,     indices.type, table.where,
                            rows.where, indices.where, dim_along(s), b.at};
  return make_step<routed_step<>>(s, std::unique_ptr<comm::data_routed>(new lookup(b.grid, t, s.axes)));
}
template <bool Scatters>
struct rows_code {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    return {&bind_rows<element_at<Plan, Plan::frozen.steps[I].out>, element_at<Plan, Plan::frozen.steps[I].in[1]>,
                       Scatters>,
            nullptr};
  }
};

} // namespace detail

template <>
struct step_code<step_kind::gather> : detail::rows_code<false> {};
template <>
struct step_code<step_kind::scatter> : detail::rows_code<true> {};

} // namespace cleave::inline v0
