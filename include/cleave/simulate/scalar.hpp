// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/error.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/ops/meaning.hpp>
#include <cleave/simulate/errors.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

// Functions and kernels of users, and reductions, on doubles.

namespace cleave { inline namespace v0 { namespace simulation {

using plain::applied;
using plain::meaning_of;
using plain::random_number;
using plain::saturated;
using plain::stored;
using plain::wrapped;

/// A user's function.
inline double applied(const user_entry& user, element result, double a, double b, double c) {
  if (user.f64.given) return stored(result, user.f64.call(a, b, c));
  if (user.f32.given)
    return stored(result, static_cast<double>(
                              user.f32.call(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))));
  const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
  if (user.i64.given) return static_cast<double>(user.i64.call(whole(a), whole(b), whole(c)));
  return static_cast<double>(
      user.i32.call(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b), static_cast<std::int32_t>(c)));
}
/// A user's kernel on shards of doubles. In place it changes its first operand, which is then the result: the array
/// with a halo, which is its own, or a copy.
inline void run_reference(const user_entry& user, indexed_span<const reference_shard> in, const reference_shard& out) {
  if (user.reference == nullptr) raise<evaluation_error>(wording::reference_missing(user.name));
  if (!user.in_place) return user.reference(std::span(in.data(), in.size()), out);
  reference_shard changed = in[0];
  const shape all = detail::extents_with_halo(changed);
  std::vector<double> copy;
  if (all == changed.local) {
    copy.assign(changed.data, changed.data + all.elements());
    changed.data = copy.data();
  }
  indexed_vector<reference_shard> given(in.begin(), in.end());
  given[0] = changed;
  user.reference(std::span<const reference_shard>(given.data(), given.size()), changed);
  const strides step = strides_of(all), to = strides_of(out.local);
  for (std::int64_t n = 0; n < out.local.elements(); ++n) {
    std::int64_t from = 0, rest = n;
    for (int i = 0; i < all.rank; rest %= to[i], ++i) from += (rest / to[i] + changed.before[i]) * step[i];
    out.data[n] = changed.data[from];
  }
}

/// How two partial values combine.
inline double combined(reduction how, element e, double a, double b) {
  if (how == reduction::logsumexp) {
    const double most = a > b ? a : b;
    return stored(e, std::isinf(most) && a == a && b == b ? most
                                                          : most + std::log(std::exp(a - most) + std::exp(b - most)));
  }
  constexpr enum_table<reduction, op, 5> codes{{op::add, op::maximum, op::minimum, op::mul, op::input}};
  return applied(codes[how], e, a, b);
}

/// The result of a reduction over nothing.
inline double identity_of(reduction how, element e) {
  if (how == reduction::sum) return 0;
  if (how == reduction::prod) return 1;
  if (how == reduction::max || how == reduction::logsumexp) return lowest_of(e);
  if (is_floating(e)) return std::numeric_limits<double>::infinity();
  const std::int64_t width = e == element::boolean ? 1 : 8 * size_of(e);
  return std::exp2(is_signed_integer(e) ? width - 1 : width) - 1;
}

}}} // namespace cleave::v0::simulation
