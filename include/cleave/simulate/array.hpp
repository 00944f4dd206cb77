// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace cleave {

/// A tensor on the host, row-major in the order of its dims. All element types are kept as doubles; integers are whole.
struct host_array {
  shape extents{};
  std::vector<double> data{};

  host_array() = default;
  explicit host_array(const shape& s, double fill = 0) : extents(s), data(static_cast<std::size_t>(s.elements()), fill) {}
};

namespace simulation {

using index = std::array<std::int64_t, 2 * max_rank>;

inline std::array<std::int64_t, max_rank> row_major(const shape& s) {
  std::array<std::int64_t, max_rank> strides{};
  std::int64_t next = 1;
  for (int i = s.rank - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = next;
    next *= s[i];
  }
  return strides;
}

/// Calls f(index) for every index below the extents, last dim fastest.
template <class F>
void for_each_index(const shape& extents, F&& f) {
  if (extents.elements() == 0) return;
  index at{};
  while (true) {
    f(at);
    int i = extents.rank - 1;
    for (; i >= 0; --i) {
      if (++at[static_cast<std::size_t>(i)] < extents[i]) break;
      at[static_cast<std::size_t>(i)] = 0;
    }
    if (i < 0) return;
  }
}

/// Strides of a tensor along the dims of a loop, 0 where it does not have the dim.
inline index along(const tensor_type& loop, const tensor_type& type, const shape& extents) {
  const auto strides = row_major(extents);
  index s{};
  for (int i = 0; i < loop.rank; ++i) {
    const int position = type.find(loop[i]);
    s[static_cast<std::size_t>(i)] = position < 0 ? 0 : strides[static_cast<std::size_t>(position)];
  }
  return s;
}

inline std::size_t offset(const index& at, const index& strides, int rank) {
  std::int64_t o = 0;
  for (int i = 0; i < rank; ++i) o += at[static_cast<std::size_t>(i)] * strides[static_cast<std::size_t>(i)];
  return static_cast<std::size_t>(o);
}

inline double identity(reduction r) {
  switch (r) {
    case reduction::sum: return 0;
    case reduction::prod: return 1;
    case reduction::max: return -std::numeric_limits<double>::infinity();
    case reduction::min: return std::numeric_limits<double>::infinity();
  }
  return 0;
}
inline double combine(reduction r, double a, double b) {
  switch (r) {
    case reduction::sum: return a + b;
    case reduction::prod: return a * b;
    case reduction::max: return a > b ? a : b;
    case reduction::min: return a < b ? a : b;
  }
  return 0;
}

/// One elementwise op, straight from its definition; the reference for the kernels.
inline double scalar(op code, element type, double a, double b, double c) {
  const auto whole = [&](double x) { return is_floating(type) ? x : std::trunc(x); };
  switch (code) {
    case op::neg: return -a;
    case op::abs: return std::fabs(a);
    case op::sign: return a > 0 ? 1 : a < 0 ? -1 : a;
    case op::exp: return whole(std::exp(a));
    case op::log: return whole(std::log(a));
    case op::tanh: return whole(std::tanh(a));
    case op::sqrt: return whole(std::sqrt(a));
    case op::rsqrt: return whole(1 / std::sqrt(a));
    case op::erf: return whole(std::erf(a));
    case op::gelu: return whole(0.5 * a * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (a + 0.044715 * a * a * a))));
    case op::relu: return a > 0 ? a : 0;
    case op::sigmoid: return whole(1 / (1 + std::exp(-a)));
    case op::sin: return whole(std::sin(a));
    case op::cos: return whole(std::cos(a));
    case op::floor: return std::floor(a);
    case op::logical_not: return a == 0;
    case op::cast: return type == element::boolean ? a != 0 : whole(a);
    case op::add: return a + b;
    case op::sub: return a - b;
    case op::mul: return a * b;
    case op::div: return whole(a / b);
    case op::pow: return whole(std::pow(a, b));
    case op::maximum: return a > b ? a : b;
    case op::minimum: return a < b ? a : b;
    case op::equal: return a == b;
    case op::not_equal: return a != b;
    case op::less: return a < b;
    case op::less_equal: return a <= b;
    case op::greater: return a > b;
    case op::greater_equal: return a >= b;
    case op::logical_and: return a != 0 && b != 0;
    case op::logical_or: return a != 0 || b != 0;
    case op::select: return a != 0 ? b : c;
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

inline double product_of(dim_set dims, const sizes& at) {
  double n = 1;
  for (int d = 0; d < max_dims; ++d)
    if ((dims >> d & 1) != 0) n *= static_cast<double>(at[static_cast<dim_id>(d)]);
  return n;
}

/// out[kept] = sum over k of a * b, any memory order.
inline void contract(const tensor_type& kept, const shape& kept_extents, const tensor_type& over, const shape& over_extents,
                     const tensor_type& ta, const shape& ea, const double* a, const tensor_type& tb, const shape& eb,
                     const double* b, const tensor_type& tc, const shape& ec, double* c) {
  const index ka = along(kept, ta, ea), kb = along(kept, tb, eb), kc = along(kept, tc, ec);
  const index oa = along(over, ta, ea), ob = along(over, tb, eb);
  for_each_index(kept_extents, [&](const index& at) {
    const std::size_t ia = offset(at, ka, kept.rank), ib = offset(at, kb, kept.rank);
    double sum = 0;
    for_each_index(over_extents, [&](const index& k) {
      sum += a[ia + offset(k, oa, over.rank)] * b[ib + offset(k, ob, over.rank)];
    });
    c[offset(at, kc, kept.rank)] = sum;
  });
}

} // namespace simulation

} // namespace cleave
