// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

// Iterative methods as their papers state them, on one process and with ordinary loops: what solve_*_test.cpp compare
// with.

namespace support {

using serial_vector = std::vector<double>;
using serial_operator = std::function<serial_vector(const serial_vector&)>;

struct serial_result {
  serial_vector solution;
  /// The norm of the residual before the first iteration and after each.
  serial_vector history;
  int iterations = 0;
  bool converged = false;
};

inline double wave(std::int64_t i, std::int64_t j, std::int64_t k) {
  return std::sin(0.3 + 0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(j) + 0.9 * static_cast<double>(k));
}
inline double serial_dot(const serial_vector& a, const serial_vector& b) {
  double all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) all += a[i] * b[i];
  return all;
}
inline double serial_norm(const serial_vector& a) { return std::sqrt(serial_dot(a, a)); }
/// y + c x.
inline serial_vector serial_sum(const serial_vector& y, double c, const serial_vector& x) {
  serial_vector all(y);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] += c * x[i];
  return all;
}

/// 2 d u minus the neighbours in d directions, with zeros outside.
inline serial_operator serial_laplacian(std::vector<int> extents) {
  return [extents](const serial_vector& u) {
    serial_vector out(u.size());
    for (std::size_t e = 0; e < u.size(); ++e) {
      out[e] = 2 * static_cast<double>(extents.size()) * u[e];
      std::size_t step = 1, rest = e;
      for (std::size_t d = extents.size(); d-- > 0;) {
        const auto n = static_cast<std::size_t>(extents[d]);
        if (rest % n != 0) out[e] -= u[e - step];
        if (rest % n != n - 1) out[e] -= u[e + step];
        rest /= n;
        step *= n;
      }
    }
    return out;
  };
}

/// Hestenes and Stiefel 1952, with a preconditioner if there is one.
inline serial_result serial_cg(const serial_operator& a, const serial_operator& m, const serial_vector& b,
                               double tolerance, int most) {
  serial_result out{serial_vector(b.size()), {serial_norm(b)}};
  serial_vector r = b, z = m ? m(r) : r, p = z;
  double rz = serial_dot(r, z);
  const double limit = tolerance * serial_norm(b);
  while (!(out.converged = out.history.back() <= limit) && out.iterations < most) {
    const serial_vector q = a(p);
    const double alpha = rz / serial_dot(p, q);
    out.solution = serial_sum(out.solution, alpha, p);
    r = serial_sum(r, -alpha, q);
    z = m ? m(r) : r;
    const double next = serial_dot(r, z);
    p = serial_sum(z, next / rz, p);
    rz = next;
    out.history.push_back(serial_norm(r));
    ++out.iterations;
  }
  return out;
}

} // namespace support
