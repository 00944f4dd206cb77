// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/optim/leaves.hpp>

#include <cmath>

// Learning rates that follow the number of steps done, which counts from 0. A schedule is a value with a call operator:
// on the host it takes a number and gives a double, inside a function it takes a rank-0 value of any real type and
// gives one, which takes the element type of the tensor that it is combined with. No communication. Faults:
// not_floating for complex and bool steps.

namespace cleave { inline namespace v0 { namespace optim {

namespace detail {

// The few operations that differ between numbers and values.
template <class Step>
  requires is_number<Step>
constexpr double step_done(Step step) {
  return static_cast<double>(step);
}
constexpr value step_done(const value& step) {
  const element type = element_in(step);
  if (type == element::none) return step;
  if (type == element::boolean || is_complex(type))
    return step.in->fail(fault::not_floating, "schedule", step.in->at(step).where);
  return in_type(step, type == element::f64 ? type : element::f32);
}
constexpr double like(double, double number) { return number; }
constexpr value like(const value& step, double number) {
  return step.ok() ? step.in->constant(number, element_in(step), step.in->at(step).where) : step;
}
constexpr double rate_of(double rate) { return rate; }
constexpr value rate_of(const value& rate) { return as_number(rate); }
constexpr double least(double a, double b) { return b < a ? b : a; }
constexpr value least(const value& a, double b) { return minimum(a, b); }
constexpr double most(double a, double b) { return a < b ? b : a; }
constexpr value most(const value& a, double b) { return maximum(a, b); }

/// The part of a range of steps that is done, from 0 to 1. An empty range is done.
template <class Step>
constexpr Step part_done(const Step& step, double first, double length) {
  if (length <= 0) return like(step, 1);
  return most(least((step - first) / length, 1), 0);
}

} // namespace detail

/// A schedule with a constant rate.
struct constant_rate {
  double rate;

  /// The rate after this many steps, counted from 0. A number gives a double, on the host. Inside a function a rank-0
  /// value gives a rank-0 value, which takes the element type of the tensor that it is combined with. Fault:
  /// not_floating for complex and bool steps.
  template <class Step>
  constexpr auto operator()(const Step& step) const {
    return detail::rate_of(detail::like(detail::step_done(step), rate));
  }
};

/// A schedule: from 0 to the peak in equal steps, then constant.
struct linear_warmup {
  double peak;
  double warmup;

  /// The rate after this many steps; see `constant_rate`.
  template <class Step>
  constexpr auto operator()(const Step& step) const {
    return detail::rate_of(peak * detail::part_done(detail::step_done(step), 0, warmup));
  }
};

/// A schedule: from 0 to the peak in `warmup` equal steps, then in equal steps down to `end` at step `steps`, then
/// `end`.
struct linear_decay {
  double peak;
  double warmup;
  double steps;
  double end = 0;

  /// The rate after this many steps; see `constant_rate`.
  template <class Step>
  constexpr auto operator()(const Step& step) const {
    const auto at = detail::step_done(step);
    return detail::rate_of(detail::part_done(at, 0, warmup) *
                           (peak + (end - peak) * detail::part_done(at, warmup, detail::most(steps - warmup, 1))));
  }
};

/// A schedule: from 0 to the peak in `warmup` equal steps, then along half a period of a cosine down to `end` at step
/// `steps`, then `end` (Loshchilov and Hutter 2017, without restarts).
struct cosine_decay {
  double peak;
  double warmup;
  double steps;
  double end = 0;

  /// The rate after this many steps; see `constant_rate`.
  template <class Step>
  constexpr auto operator()(const Step& step) const {
    using std::cos;
    const auto at = detail::step_done(step);
    const auto wave = 0.5 +
                      0.5 * cos(3.141592653589793 * detail::part_done(at, warmup, detail::most(steps - warmup, 1)));
    return detail::rate_of(detail::part_done(at, 0, warmup) * (end + (peak - end) * wave));
  }
};

/// A schedule: from 0 to the peak in `warmup` equal steps, then falling as 1 / sqrt(step) (Vaswani et al. 2017, whose
/// peak is 1 / sqrt(width * warmup)).
struct inverse_square_root {
  double peak;
  double warmup;

  /// The rate after this many steps; see `constant_rate`.
  template <class Step>
  constexpr auto operator()(const Step& step) const {
    using std::sqrt;
    const auto at = detail::step_done(step);
    const double from = detail::most(warmup, 1);
    return detail::rate_of(peak * (detail::part_done(at, 0, warmup) * sqrt(from / detail::most(at, from))));
  }
};

}}} // namespace cleave::v0::optim
