// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "evaluated.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

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

/// A tensor with the values of another one, in a View with gaps between its rows.
template <class Tensor>
struct with_gaps {
  using number = typename Tensor::element_type;
  std::vector<std::int64_t> stride{};
  std::shared_ptr<void> memory{};
  std::int64_t size = 0;
  Tensor tensor{};

  explicit with_gaps(const Tensor& from) : tensor(from) {
    if constexpr (Tensor::rank > 0) {
      const auto local = from.local_extents();
      Kokkos::LayoutStride layout;
      std::int64_t apart = 1;
      for (std::size_t i = local.size(); i-- > 0;) {
        layout.dimension[i] = static_cast<std::size_t>(local[i]);
        layout.stride[i] = static_cast<std::size_t>(apart);
        stride.insert(stride.begin(), apart);
        apart = (apart + (i + 1 == local.size() ? 0 : 1)) * local[i] + (i + 1 == local.size() ? 3 : 0);
      }
      size = apart + 1;
      memory = cleave::allocate(cleave::bytes_of<number>(size));
      cleave::zero_bytes(memory.get(), cleave::bytes_of<number>(size));
      using view = typename Tensor::strided_view_type;
      tensor.rebind(Tensor(from.get_grid(), from.extents(), view(static_cast<number*>(memory.get()), layout)));
      tensor = from;
    }
  }
  /// How many numbers outside the tensor were written.
  int gaps_written() const {
    if (Tensor::rank == 0) return 0;
    std::vector<bool> inside(static_cast<std::size_t>(size));
    const auto local = tensor.local_extents();
    const std::int64_t n = tensor.local_size();
    for (std::int64_t flat = 0; flat < n; ++flat) {
      std::int64_t rest = flat, at = 0;
      for (std::size_t i = local.size(); i-- > 0; rest /= local[i]) at += rest % local[i] * stride[i];
      inside[static_cast<std::size_t>(at)] = true;
    }
    int written = 0;
    const number zero{};
    const std::unique_ptr<number[]> all(new number[static_cast<std::size_t>(size)]);
    cleave::copy_bytes<Kokkos::HostSpace, cleave::memory_space>(all.get(), memory.get(),
                                                                cleave::bytes_of<number>(size));
    for (std::int64_t i = 0; i < size; ++i)
      written += !inside[static_cast<std::size_t>(i)] &&
                         std::memcmp(&all[static_cast<std::size_t>(i)], &zero, sizeof zero) != 0
                     ? 1
                     : 0;
    return written;
  }
};
template <class Argument>
struct argument_with_gaps {
  Argument tensor;
  static int gaps_written() { return 0; }
};
template <class T, auto Layout>
struct argument_with_gaps<cleave::tensor<T, Layout>> : with_gaps<cleave::tensor<T, Layout>> {
  using with_gaps<cleave::tensor<T, Layout>>::with_gaps;
};

/// Runs a function into the results given, twice, and once more with Views that have gaps; compares each with the
/// evaluator, up to a tolerance.
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
  const std::vector<cleave::host_array> wanted = evaluated(std::get<0>(results).get_grid(), g, at, in);
  const auto same = [&](const char* how, const auto&... t) {
    r = 0;
    const auto compare = [&](const auto& tensor) {
      const auto got = tensor.to_global();
      EXPECT_EQ(cleave::first_difference(wanted[r].data, std::vector<double>(got.begin(), got.end()), tolerance), -1)
          << "result " << r << how;
      ++r;
    };
    (compare(t), ...);
  };
  for (int times = 0; times < 2; ++times)
    std::apply(
        [&](auto&... t) {
          f(args...).into(t...);
          same("", t...);
        },
        results);
  const std::tuple<argument_with_gaps<Args>...> spread{argument_with_gaps<Args>{args}...};
  std::tuple<with_gaps<Results>...> into =
      std::apply([](auto&... t) { return std::tuple<with_gaps<Results>...>(with_gaps<Results>(t)...); }, results);
  std::apply(
      [&](auto&... to) {
        std::apply([&](const auto&... x) { f(x.tensor...).into(to.tensor...); }, spread);
        same(", in Views with gaps", to.tensor...);
        EXPECT_EQ((to.gaps_written() + ...), 0);
      },
      into);
  std::apply([&](const auto&... x) { EXPECT_EQ((x.gaps_written() + ... + 0), 0); }, spread);
}

template <class F, class... Results, class First, class... Args>
  requires(!std::is_arithmetic_v<First>)
void check(const F& f, std::tuple<Results&...> results, const First& first, const Args&... args) {
  check(f, results, 1e-12, first, args...);
}

} // namespace support
