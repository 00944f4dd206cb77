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

/// Van der Vorst 1992.
inline serial_result serial_bicgstab(const serial_operator& a, const serial_operator& m, const serial_vector& b,
                                     double tolerance, int most) {
  serial_result out{serial_vector(b.size()), {serial_norm(b)}};
  serial_vector r = b, p = b;
  const double limit = tolerance * serial_norm(b);
  double rho = serial_dot(b, r);
  while (!(out.converged = out.history.back() <= limit) && out.iterations < most) {
    const serial_vector y = m ? m(p) : p, v = a(y);
    const double alpha = rho / serial_dot(b, v);
    const serial_vector s = serial_sum(r, -alpha, v), z = m ? m(s) : s, t = a(z);
    const double omega = serial_dot(t, s) / serial_dot(t, t);
    out.solution = serial_sum(serial_sum(out.solution, alpha, y), omega, z);
    r = serial_sum(s, -omega, t);
    const double next = serial_dot(b, r);
    p = serial_sum(r, next / rho * alpha / omega, serial_sum(p, -omega, v));
    rho = next;
    out.history.push_back(serial_norm(r));
    ++out.iterations;
  }
  return out;
}

/// Saad and Schultz 1986: modified Gram-Schmidt and Givens rotations; preconditioned on the right.
inline serial_result serial_gmres(const serial_operator& a, const serial_operator& m, const serial_vector& b,
                                  double tolerance, int most, std::size_t restart) {
  serial_result out{serial_vector(b.size()), {serial_norm(b)}};
  const double limit = tolerance * serial_norm(b);
  serial_vector r = b;
  while (!(out.converged = out.history.back() <= limit) && out.iterations < most) {
    std::vector<serial_vector> basis{serial_sum(serial_vector(b.size()), 1 / serial_norm(r), r)}, h;
    serial_vector g{serial_norm(r)}, cosines, sines;
    while (h.size() < restart && out.iterations < most && out.history.back() > limit) {
      serial_vector w = a(m ? m(basis.back()) : basis.back()), column;
      for (const serial_vector& v : basis) {
        column.push_back(serial_dot(w, v));
        w = serial_sum(w, -column.back(), v);
      }
      const double below = serial_norm(w);
      basis.push_back(serial_sum(serial_vector(b.size()), 1 / below, w));
      for (std::size_t i = 0; i < cosines.size(); ++i) {
        const double one = cosines[i] * column[i] + sines[i] * column[i + 1];
        column[i + 1] = cosines[i] * column[i + 1] - sines[i] * column[i];
        column[i] = one;
      }
      const double length = std::hypot(column.back(), below);
      cosines.push_back(column.back() / length);
      sines.push_back(below / length);
      column.back() = length;
      g.push_back(-sines.back() * g.back());
      g[g.size() - 2] *= cosines.back();
      h.push_back(column);
      out.history.push_back(std::abs(g.back()));
      ++out.iterations;
    }
    serial_vector weights(h.size()), direction(b.size());
    for (std::size_t k = h.size(); k-- > 0;) {
      weights[k] = g[k];
      for (std::size_t i = k + 1; i < h.size(); ++i) weights[k] -= h[i][k] * weights[i];
      weights[k] /= h[k][k];
    }
    for (std::size_t k = 0; k < h.size(); ++k) direction = serial_sum(direction, weights[k], basis[k]);
    out.solution = serial_sum(out.solution, 1, m ? m(direction) : direction);
    r = serial_sum(b, -1, a(out.solution));
    out.history.back() = serial_norm(r);
  }
  return out;
}

/// Saad 2003, algorithm 12.1.
inline serial_result serial_chebyshev(const serial_operator& a, const serial_vector& b, double low, double high,
                                      double tolerance, int most) {
  serial_result out{serial_vector(b.size()), {serial_norm(b)}};
  const double limit = tolerance * serial_norm(b), theta = (high + low) / 2, delta = (high - low) / 2;
  serial_vector r = b, d = serial_sum(serial_vector(b.size()), 1 / theta, b);
  double rho = delta / theta;
  while (!(out.converged = out.history.back() <= limit) && out.iterations < most) {
    out.solution = serial_sum(out.solution, 1, d);
    r = serial_sum(r, -1, a(d));
    const double next = 1 / (2 * theta / delta - rho);
    serial_vector scaled(b.size());
    d = serial_sum(serial_sum(scaled, next * rho, d), 2 * next / delta, r);
    rho = next;
    out.history.push_back(serial_norm(r));
    ++out.iterations;
  }
  return out;
}

} // namespace support
