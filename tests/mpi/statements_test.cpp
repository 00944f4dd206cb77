// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What functions offer, statements offer too: each lambda below is run once on tensors, as a statement, and once as the
// body of a function.
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/attention.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/rotary.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"third"> third;
inline constexpr cleave::dim<"part", 2> part;
inline constexpr cleave::dim<"half", 3> half;
inline constexpr cleave::dim<"many"> many;
inline constexpr cleave::dim<"around", 3> around;
inline constexpr cleave::dim<"all"> whole;
using cleave::constant;

using X = cleave::tensor<double, mesh(row / data, col)>;
using Y = cleave::tensor<double, mesh(row, col / model)>;
using Indices = cleave::tensor<int, mesh(many / data)>;
using Number = cleave::tensor<double, mesh()>;
using Flag = cleave::tensor<bool, mesh()>;

/// A number that depends on every element and on where it is; of a pair, on both values.
constexpr auto weighted = [](const auto& v) { return sum(cast<double>(v)) + sum(cast<double>(v) * cast<double>(v)); };

inline constexpr std::tuple operations{
    [](const auto& x, const auto& y, const auto&) { return tanh(x) + gelu(y) * sigmoid(-x); },
    [](const auto& x, const auto& y, const auto&) { return select(!(x < y), maximum(x, 0.25), pow(abs(y), 2)); },
    [](const auto& x, const auto&, const auto&) { return cleave::shift(x, row, constant<1>{}); },
    [](const auto& x, const auto&, const auto&) {
      return cleave::shift(x, row, constant<std::int64_t{-2}>{}, constant<cleave::border::edge>{});
    },
    [](const auto& x, const auto&, const auto&) { return cleave::roll(x, row, 2); },
    [](const auto& x, const auto&, const auto&) { return cleave::roll(x, row, constant<2>{}); },
    [](const auto& x, const auto&, const auto&) {
      return cleave::slice(x, row, third, constant<1>{}, constant<-1>{}, constant<2>{});
    },
    [](const auto& x, const auto&, const auto&) { return cleave::pad(x, row, third, constant<1>{}, constant<2>{}); },
    [](const auto& x, const auto&, const auto&) { return cleave::flip(x, row); },
    [](const auto& x, const auto&, const auto&) { return cleave::repeat(x, row, third, constant<2>{}); },
    [](const auto& x, const auto&, const auto&) { return cleave::tile(x, row, third, constant<2>{}); },
    [](const auto& x, const auto& y, const auto&) {
      return cleave::concat(third, cleave::piece(x, row), cleave::piece(2.0 * y, row));
    },
    [](const auto& x, const auto& y, const auto&) { return cleave::stack(part, x, y); },
    [](const auto& x, const auto&, const auto&) {
      return sum(cleave::windows(x, cleave::window_c<row, row, around, 1, 1, 1, 1>), around);
    },
    [](const auto& x, const auto&, const auto&) { return cleave::dynamic_slice(x, row, part, 3); },
    [](const auto& x, const auto& y, const auto&) {
      return cleave::dynamic_update(x, row, cleave::slice(y, row, part, constant<0>{}, constant<2>{}), part, 3);
    },
    [](const auto& x, const auto& y, const auto&) { return cleave::interior(x, y, constant<1>{}, row, col); },
    [](const auto& x, const auto&, const auto& i) { return gather(x, row, i); },
    [](const auto& x, const auto&, const auto&) { return gather(x, row, 3); },
    [](const auto& x, const auto&, const auto& i) { return cleave::scatter_add(gather(x, row, i), i, around); },
    [](const auto& x, const auto&, const auto&) { return cleave::take_along(x, cleave::argsort(x, row), row); },
    [](const auto& x, const auto&, const auto&) { return cleave::sort(x, row, constant<cleave::order::descending>{}); },
    [](const auto& x, const auto&, const auto&) { return cleave::cumulative_prod(x, row); },
    [](const auto& x, const auto&, const auto&) {
      return cleave::cumulative_max(x, row, constant<cleave::running::backward>{});
    },
    [](const auto& x, const auto&, const auto&) { return cleave::cumulative_min(x, row); },
    [](const auto& x, const auto&, const auto&) { return argmax(x, row); },
    [](const auto& x, const auto& y, const auto&) { return dot(x, rename(y, row, third), col); },
    [](const auto& x, const auto&, const auto&) { return softmax(x, row) + logsumexp(x, col); },
    [](const auto& x, const auto&, const auto&) { return x / cast<double>(count(x, row, col)); },
    [](const auto& x, const auto&, const auto&) { return broadcast(sum(x, row), row, col); },
    [](const auto& x, const auto&, const auto&) { return zeros_like(x) + stop_gradient(x); },
    [](const auto& x, const auto&, const auto&) { return x * cast<double>(iota(x, row)); },
    [](const auto&, const auto&, const auto& i) { return one_hot<double>(i, around); },
    [](const auto& x, const auto&, const auto&) { return merge(x, row, col, whole); },
    [](const auto& x, const auto&, const auto&) { return reshard(x, mesh(row, col / data)); },
    [](const auto& x, const auto&, const auto&) { return cleave::dropout(x, 0.25, 7); },
    [](const auto& x, const auto&, const auto&) {
      return cleave::repeat_times(3, x, [](const auto& v) { return v * 0.5 + 1; });
    },
    [](const auto& x, const auto&, const auto&) {
      return cleave::repeat_until(
          x, [](const auto& v) { return v * 0.5; }, [](const auto& v) { return max(abs(v)) < 0.01; }, 100);
    },
    [](const auto& x, const auto& y, const auto&) {
      return cleave::scan(row, sum(y, row), x, [](const auto& carry, const auto& each) { return carry * 0.5 + each; });
    },
    [](const auto& x, const auto& y, const auto&) { return cleave::nn::silu(x) + cleave::nn::gelu_exact(y); },
    [](const auto& x, const auto& y, const auto&) {
      return cleave::nn::rms_norm(x, sum(y, row), col, constant<0.5>{});
    },
    [](const auto& x, const auto& y, const auto&) {
      return cleave::nn::linear(x, cleave::nn::linear_weights{y, x}, row, col);
    },
    [](const auto& x, const auto& y, const auto&) {
      return cleave::nn::gated_feed_forward(x, rename(y, row, third), rename(x, row, third), rename(y, row, third), col,
                                            third, [](const auto& v) { return cleave::nn::silu(v); });
    },
    [](const auto& x, const auto& y, const auto& i) {
      return cleave::nn::unembedding(cleave::nn::embedding(x, i, row), y, col);
    },
    [](const auto& x, const auto&, const auto&) {
      return cleave::nn::cross_entropy(x, argmax(x, col), col, constant<0.25>{});
    },
    [](const auto& x, const auto&, const auto&) {
      return cleave::nn::rotary(cleave::slice(x, col, third, constant<0>{}, constant<2>{}), iota(x, row), third);
    },
    [](const auto& x, const auto& y, const auto&) {
      return cleave::nn::attention(x, rename(y, row, third), rename(x, row, third),
                                   cleave::nn::attention_dims_c<row, third, col>, cleave::nn::causal{});
    },
    [](const auto& x, const auto& y, const auto&) {
      return cleave::cond(
          sum(x) < sum(y), [](const auto& a, const auto& b) { return a + b; },
          [](const auto& a, const auto& b) { return a * b; }, x, y);
    },
};
/// These give several tensors.
inline constexpr auto two_largest = [](const auto& x, const auto&, const auto&) { return cleave::top_k(x, row, part); };
inline constexpr auto mean_and_variance = [](const auto& x, const auto&, const auto&) { return moments(x, row); };

template <class F>
struct body {
  template <class... A>
  constexpr auto operator()(const A&... a) const {
    return weighted(F{}(a...));
  }
};

struct arguments {
  X x;
  Y y;
  Indices i;
  explicit arguments(const cleave::grid& g) : x(g, {6, 4}), y(g, {6, 4}), i(g, {5}) {
    const auto wave = [](double phase) {
      return [phase](const auto& at) {
        return std::sin(phase + 1.7 * static_cast<double>(at[0]) + 0.9 * static_cast<double>(at[1]));
      };
    };
    x.fill_by(wave(0.3));
    y.fill_by(wave(1.1));
    i.fill_by([](const auto& at) { return static_cast<int>(at[0] * 2 % 3); });
  }
};

TEST(statements, mean_what_functions_mean) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const arguments a(g);
    Number in_statement(g, {}), in_function(g, {});
    int which = 0;
    const auto compare = [&]<class F>(const F&) {
      in_statement = weighted(F{}(a.x, a.y, a.i));
      in_function = cleave::function(body<F>{})(a.x, a.y, a.i);
      EXPECT_NEAR(in_statement.item(), in_function.item(), 1e-12) << "operation " << which;
      EXPECT_NE(in_function.item(), 0) << "operation " << which;
      ++which;
    };
    std::apply([&](const auto&... f) { (compare(f), ...); }, operations);
  }
}
TEST(statements, give_several_tensors) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const arguments a(g);
    cleave::tensor<double, mesh(part, col)> largest(g, {2, 4});
    cleave::tensor<int, mesh(part, col)> at(g, {2, 4});
    two_largest(a.x, a.y, a.i).into(largest, at);
    const auto x = a.x.to_global(), values = largest.to_global();
    const auto indices = at.to_global();
    for (std::size_t c = 0; c < 4; ++c) EXPECT_EQ(values[c], x[static_cast<std::size_t>(indices[c]) * 4 + c]);
    cleave::tensor<double, mesh(col)> mean_of(g, {4}), variance_of(g, {4});
    mean_and_variance(a.x, a.y, a.i).into(mean_of, variance_of);
    double total = 0;
    for (std::size_t r = 0; r < 6; ++r) total += x[r * 4];
    EXPECT_NEAR(mean_of.to_global()[0], total / 6, 1e-14);
    cleave::tensor<int, mesh()> iterations(g, {});
    Flag converged(g, {});
    X halved(g, {6, 4});
    cleave::repeat_until_reported(
        a.x, [](const auto& v) { return v * 0.5; }, [](const auto& v) { return max(abs(v)) < 0.2; }, 100)
        .into(halved, iterations, converged);
    EXPECT_EQ(iterations.item(), 3);
    EXPECT_TRUE(converged.item());
  }
}

inline constexpr cleave::dim<"joined"> joined;
constexpr cleave::function flattened([](auto x) { return 2 * merge(x, row, col, joined); });
constexpr cleave::function of_a_number([](auto n) { return n * n; });
double fourth(const X& x) { return x.to_global()[3]; }

TEST(statements, make_tensors) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const arguments a(g);
    const auto values = a.x.to_global();
    const X twice = a.x + a.x;
    EXPECT_EQ(twice.extents(), a.x.extents());
    EXPECT_EQ(twice.to_global()[5], 2 * values[5]);
    // Extents that follow from others, in another layout.
    const cleave::tensor<double, mesh(joined)> flat = flattened(a.x);
    EXPECT_EQ(flat.extent(0), 24);
    EXPECT_EQ(flat.to_global()[23], 2 * values[23]);
    // Another layout of a tensor, and a statement where a tensor is expected.
    const cleave::tensor<double, mesh(col, row)> turned(a.x);
    EXPECT_EQ(turned.to_global()[1], values[4]);
    EXPECT_EQ(fourth(a.x * 3.0), 3 * values[3]);
    static_assert(!std::is_convertible_v<const X&, cleave::tensor<double, mesh(col, row)>>);
    try {
      const cleave::tensor<double, mesh()> none = of_a_number(2.0);
      ADD_FAILURE() << none.item();
    } catch (const cleave::grid_error& e) {
      EXPECT_NE(std::string(e.what()).find("this statement has none"), std::string::npos);
    }
  }
}

} // namespace CLEAVE_SOURCE
