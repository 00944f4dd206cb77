// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/simulate/evaluate.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace support {

/// Smooth numbers in [-1/2, 1/2] that differ from index to index.
template <class Tensor>
void fill(Tensor& t, double phase) {
  t.fill_by([&](const auto& at) {
    double sum = phase;
    for (std::size_t i = 0; i < at.size(); ++i) sum += static_cast<double>(at[i]) * (0.7 + static_cast<double>(i));
    return std::sin(sum) / 2;
  });
}

/// Runs a function into the results given, twice, and compares each with the evaluator, up to a tolerance.
template <class F, class... Results, class... Args>
void check(const F& f, std::tuple<Results&...> results, double tolerance, const Args&... args) {
  using signature = std::tuple<Results...>(Args...);
  const cleave::graph g = cleave::recording<typename F::body_type, signature>::record();
  // Extents that no tensor has follow from the others.
  std::vector<cleave::named_size> named;
  const auto note = [&](const cleave::tensor_type& type, const auto& t) {
    for (int i = 0; i < type.rank; ++i)
      named.push_back({g.dims[type[i]].name, t.extents()[static_cast<std::size_t>(i)]});
  };
  std::size_t a = 0, r = 0;
  (note(g.nodes[g.inputs[a++]].type, args), ...);
  std::apply([&](auto&... t) { (note(g.output_types[r++], t), ...); }, results);
  cleave::sizes at = sizes_for(g, named);
  std::vector<cleave::host_array> in;
  const auto take = [&](const auto& t) {
    cleave::host_array values(cleave::shape_of(g.nodes[g.inputs[in.size()]].type, at));
    const auto whole = t.to_global();
    for (std::size_t i = 0; i < whole.size(); ++i) values.data[i] = static_cast<double>(whole[i]);
    in.push_back(values);
  };
  (take(args), ...);
  for (auto& size : at.axes.of) size = 1;
  const std::vector<cleave::host_array> wanted = evaluate(g, at, in);
  for (int times = 0; times < 2; ++times) {
    std::apply([&](auto&... t) { f(args...).into(t...); }, results);
    r = 0;
    std::apply(
        [&](auto&... t) {
          const auto same = [&](const auto& tensor) {
            const auto got = tensor.to_global();
            EXPECT_EQ(cleave::first_difference(wanted[r].data, std::vector<double>(got.begin(), got.end()), tolerance),
                      -1)
                << "result " << r;
            ++r;
          };
          (same(t), ...);
        },
        results);
  }
}

template <class F, class... Results, class First, class... Args>
  requires(!std::is_arithmetic_v<First>)
void check(const F& f, std::tuple<Results&...> results, const First& first, const Args&... args) {
  check(f, results, 1e-12, first, args...);
}

} // namespace support
