// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/distributed/errors.hpp>
#include <cleave/distributed/scan.hpp>
#include <cleave/distributed/sort.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/steps/rows.hpp>

// Sorting along a dim, and searching in sorted values.

namespace cleave { inline namespace v0 {

/// Counts in this device's block of sorted slices.
template <class T>
class search_step final : public bound_step {
 public:
  search_step(const binder& b, const step& s) : step_(s) {
    const buffer &sorted = b.operand(s, 0), &values = b.operand(s, 1), &out = b.result(s);
    const dim_id along = dim_along(s);
    if (b.at[along] > std::numeric_limits<std::int32_t>::max())
      raise<shape_error>(wording::too_long_to_index(b.at[along]));
    const addressing in_sorted = b.addresses(sorted), in_values = b.addresses(values);
    const shape extents = b.local(out);
    for (int i = 0; i < out.type.rank; ++i)
      count_.over.add(extents[i], stride_along(values, in_values, out.type[i]),
                      stride_along(sorted, in_sorted, out.type[i]));
    count_.length = b.local(sorted)[sorted.type.find(along)];
    count_.stride = stride_along(sorted, in_sorted, along);
    count_.right = s.backwards;
  }
  void run(run_state& r) override {
    count_in_slices<T> count = count_;
    count.sorted = as<T>(r.at[step_.in[0]]);
    count.values = as<T>(r.at[step_.in[1]]);
    count.counts = as<std::int32_t>(r.at[step_.out]);
    launch("cleave search", count.over.size(), count);
  }

 private:
  const step& step_;
  count_in_slices<T> count_{};
};

namespace detail {
template <class T>
owned<bound_step> bind_sort(const binder& b, const step& s, const void*) {
  const buffer& in = b.operand(s, 0);
  const sorted_tensor t{in.type, in.where, dim_along(s), s.backwards, s.what == op::argsort, b.at};
  return make_step<routed_step<>>(s, owned<comm::data_routed>(new bound_sort<T>(b.grid, t)));
}
} // namespace detail

template <>
struct step_code<step_kind::sort> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    using T = detail::element_at<Plan, Plan::frozen.steps[I].in[0]>;
    if constexpr (Plan::frozen.steps[I].what == op::searchsorted) return {&detail::bind_as<search_step<T>>};
    else return {&detail::bind_sort<T>};
  }
};

// Running totals and recurrences along a dim.

template <class = void>
class scan_step final : public bound_step {
 public:
  using runner = void (*)(const bound_scan&, const void* in, const void* factors, void* out, const comm::scratch&);

  scan_step(const binder& b, const step& s, runner run) : step_(s), run_(run) {
    const buffer& out = b.result(s);
    const shape extents = b.local(out);
    const int along = out.type.find(dim_along(s));
    scan_.outer = scan_.inner = 1;
    for (int i = 0; i < extents.rank; ++i)
      if (i != along) (i < along ? scan_.outer : scan_.inner) *= extents[i];
    scan_.length = extents[along];
    scan_.backwards = s.backwards;
    scan_.exclusive = s.exclusive;
    const element e = out.type.element;
    const bool recurs = s.what == op::recurrence;
    scan_.kept = recurs ? comm::affine_element(e) : e;
    scan_.over = owned<comm::prefix_scan>(
        recurs ? comm::prefix_scan::of_recurrence(b.grid, out.where[along], s.backwards, e, scan_.slices())
               : new comm::prefix_scan(b.grid, out.where[along], s.backwards, s.combine, e, scan_.slices()));
  }
  comm::scratch_bytes shared_bytes() const override { return scan_.needs(); }
  void run(run_state& r) override {
    run_(scan_, r.at[step_.in[0]], r.at[step_.in[step_.in.size() - 1]], r.at[step_.out], r.scratch);
  }

 private:
  const step& step_;
  runner run_;
  bound_scan scan_{};
};

namespace detail {
template <class T, op What, reduction How>
owned<bound_step> bind_scan(const binder& b, const step& s, const void*) {
  if constexpr (What == op::recurrence) return make_step<scan_step<>>(b, s, &run_recurrence<T>);
  else return make_step<scan_step<>>(b, s, &run_scan<T, How>);
}
} // namespace detail

template <>
struct step_code<step_kind::scan> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    return {&detail::bind_scan<detail::element_at<Plan, Plan::frozen.steps[I].out>, Plan::frozen.steps[I].what,
                               Plan::frozen.steps[I].combine>};
  }
};

}} // namespace cleave::v0
