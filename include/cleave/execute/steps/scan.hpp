// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/distributed/scan.hpp>
#include <cleave/execute/bound_step.hpp>

// Running totals and recurrences along a dim.

namespace cleave { inline namespace v0 {

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
