// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/attention.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/optim/clip.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

// Bugs of other systems that were silent (docs/24-bugs-you-cannot-write.md): the same program in several layouts, on
// all meshes, has the values and gradients of one device. Extents are uneven on purpose.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"position"> position;
inline constexpr cleave::dim<"source"> source_dim;
inline constexpr cleave::dim<"chunk"> chunk;
inline constexpr cleave::dim<"heads"> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"expert"> expert;
inline constexpr cleave::dim<"vocabulary"> vocabulary;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
using Number = f64<mesh()>;

/// Tensors of all types of a call, each filled with smooth numbers of its own, or with labels.
template <class Tensors>
Tensors made(const cleave::grid& g) {
  auto all = cleave::nn::make_parameters<Tensors>(g, {batch = 3, position = 5, source_dim = 5, chunk = 2, heads = 3,
                                                      head = 2, embed = 4, hidden = 6, expert = 3, vocabulary = 7});
  double phase = 0;
  cleave::nn::for_each_tensor(all, [&]<class Tensor>(Tensor& t) {
    using number = typename Tensor::element_type;
    phase += 0.4;
    t.fill_by([&](const auto& at) {
      double sum = phase;
      for (std::size_t i = 0; i < at.size(); ++i) sum += static_cast<double>(at[i]) * (0.7 + static_cast<double>(i));
      if constexpr (std::is_integral_v<number>) return static_cast<number>(std::abs(std::sin(sum)) * 6.99);
      else return std::sin(sum);
    });
  });
  return all;
}

/// A function with the types of its results and arguments, whose layouts are all in `Signature`.
template <class Signature>
struct call;
template <class... R, class... A>
struct call<std::tuple<R...>(A...)> {
  template <class F>
  static std::vector<double> on(const cleave::grid& g, const F& f) {
    auto arguments = made<std::tuple<A...>>(g);
    auto results = made<std::tuple<R...>>(g);
    std::apply([&](auto&... a) { std::apply([&](auto&... r) { f(a...).into(r...); }, results); }, arguments);
    std::vector<double> all;
    cleave::nn::for_each_tensor(results, [&](const auto& r) {
      for (const double x : r.to_global()) all.push_back(x);
    });
    return all;
  }
};

void expect_equal(const std::vector<double>& got, const std::vector<double>& wanted, std::size_t layouts) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], 1e-12) << "element " << i << " of the results in layouts " << layouts;
}

/// The results in all layouts and on all meshes are those of the first layouts on one device, which are returned.
template <class First, class... Others, class F>
std::vector<double> expect_as_on_one_device(const F& f) {
  const auto wanted = call<First>::on(cleave::grid(mesh, MPI_COMM_SELF, {1, 1}), f);
  EXPECT_GT(std::count_if(wanted.begin(), wanted.end(), [](double x) { return std::fabs(x) > 1e-6; }), 0);
  for (const cleave::grid& g : support::grids(mesh)) {
    std::size_t layouts = 0;
    expect_equal(call<First>::on(g, f), wanted, layouts);
    (expect_equal(call<Others>::on(g, f), wanted, ++layouts), ...);
  }
  return wanted;
}

// The weight of a norm is replicated, and each device sees other tokens.
constexpr auto norm_weight = cleave::value_and_grad<1>(cleave::function(
    [](auto x, auto scale, auto w) { return mean(sin(dot(cleave::nn::rms_norm(x, scale, embed), w, embed))); }));
TEST(impossible_bugs, gradient_of_a_replicated_norm_weight) {
  using whole = f64<mesh(batch, position, embed)>;
  using tokens = f64<mesh(batch / data, position / model, embed)>;
  using scale = f64<mesh(embed)>;
  using scattered = f64<mesh(embed / data)>;
  using columns = f64<mesh(embed, hidden / model)>;
  expect_as_on_one_device<std::tuple<Number, scale>(whole, scale, f64<mesh(embed, hidden)>),
                          std::tuple<Number, scale>(tokens, scale, columns),
                          std::tuple<Number, scattered>(tokens, scattered, columns)>(norm_weight);
}

// The mean over a sequence that is sharded: no factor for the number of devices.
constexpr auto sequence_loss = cleave::value_and_grad<0>(cleave::function([](auto w, auto x) {
  const auto y = dot(x, w, embed);
  return mean(y * y);
}));
TEST(impossible_bugs, loss_of_a_sharded_sequence) {
  using w = f64<mesh(embed, hidden)>;
  using sharded = f64<mesh(embed / data, hidden)>;
  expect_as_on_one_device<std::tuple<Number, w>(w, f64<mesh(batch, position, embed)>),
                          std::tuple<Number, w>(w, f64<mesh(batch, position / model, embed)>),
                          std::tuple<Number, sharded>(sharded, f64<mesh(batch / data, position / model, embed)>)>(
      sequence_loss);
}

// A bias after a product whose partial sums are reduced: it is added once.
constexpr auto row_parallel = cleave::value_and_grad<1, 2>(
    cleave::function([](auto h, auto down, auto bias) { return sum(sin(dot(h, down, hidden) + bias)); }));
TEST(impossible_bugs, bias_of_partial_sums) {
  using bias = f64<mesh(embed)>;
  using down = f64<mesh(hidden, embed)>;
  using rows = f64<mesh(hidden / model, embed)>;
  using zero3 = f64<mesh(hidden / model, embed / data)>;
  using scattered = f64<mesh(embed / data / model)>;
  using h = f64<mesh(batch / data, hidden / model)>;
  expect_as_on_one_device<std::tuple<Number, down, bias>(f64<mesh(batch, hidden)>, down, bias),
                          std::tuple<Number, rows, bias>(h, rows, bias),
                          std::tuple<Number, zero3, scattered>(h, zero3, scattered)>(row_parallel);
}

// The router is replicated, the experts are sharded.
constexpr auto routed = cleave::value_and_grad<1, 2>(cleave::function([](auto x, auto router, auto up) {
  const auto gates = softmax(dot(x, router, embed), expert);
  return sum(dot(gates, tanh(dot(x, up, embed)), expert));
}));
TEST(impossible_bugs, gradient_of_a_router) {
  using router = f64<mesh(embed, expert)>;
  using up = f64<mesh(expert, embed, hidden)>;
  using owned = f64<mesh(expert / model, embed, hidden)>;
  using x = f64<mesh(batch / data, embed)>;
  expect_as_on_one_device<std::tuple<Number, router, up>(f64<mesh(batch, embed)>, router, up),
                          std::tuple<Number, router, owned>(x, router, owned),
                          std::tuple<Number, f64<mesh(embed, expert / model)>, owned>(
                              f64<mesh(batch / data / model, embed)>, f64<mesh(embed, expert / model)>, owned)>(routed);
}

// The norm of all gradients counts replicated ones once and sharded ones completely.
constexpr cleave::function clipped([](auto x, auto scale, auto up) {
  constexpr cleave::function loss(
      [](auto s, auto w, auto y) { return sum(sin(dot(cleave::nn::rms_norm(y, s, embed), w, embed))); });
  const auto [value, slopes] = cleave::value_and_grad<0, 1>(loss)(scale, up, x);
  const auto [of_scale, of_up] = cleave::optim::clip_by_global_norm(slopes, 0.25);
  return std::tuple(value, cleave::optim::global_norm(slopes), of_scale, of_up);
});
TEST(impossible_bugs, norm_of_gradients_in_several_layouts) {
  using scale = f64<mesh(embed)>;
  using up = f64<mesh(embed, expert, hidden)>;
  using owned = f64<mesh(embed, expert / model, hidden)>;
  using zero = f64<mesh(embed, expert / model, hidden / data)>;
  using x = f64<mesh(batch / data, embed)>;
  const auto wanted = expect_as_on_one_device<
      std::tuple<Number, Number, scale, up>(f64<mesh(batch, embed)>, scale, up),
      std::tuple<Number, Number, scale, owned>(x, scale, owned),
      std::tuple<Number, Number, f64<mesh(embed / data)>, zero>(x, f64<mesh(embed / data)>, zero)>(clipped);
  double squares = 0;
  for (std::size_t i = 2; i < wanted.size(); ++i) squares += wanted[i] * wanted[i];
  EXPECT_NEAR(std::sqrt(squares), 0.25, 1e-12);
}

// The divisor is the number of all tokens that count, wherever they are.
constexpr auto masked = cleave::value_and_grad<0>(cleave::function([](auto scores, auto labels) {
  const auto counts = labels != 0;
  const auto loss = cleave::nn::cross_entropy(scores, labels, vocabulary);
  return sum(select(counts, loss, 0)) / sum(select(counts, cast<double>(labels * 0 + 1), 0));
}));
TEST(impossible_bugs, divisor_of_a_masked_loss) {
  using whole = f64<mesh(batch, position, vocabulary)>;
  using tokens = f64<mesh(batch / data, position / model, vocabulary)>;
  using classes = f64<mesh(batch / data, position, vocabulary / model)>;
  using labels = cleave::tensor<int, mesh(batch, position)>;
  using sharded = cleave::tensor<int, mesh(batch / data, position / model)>;
  expect_as_on_one_device<std::tuple<Number, whole>(whole, labels), std::tuple<Number, tokens>(tokens, sharded),
                          std::tuple<Number, classes>(classes, labels)>(masked);
}

// The scores of a chunk are sharded along the vocabulary, so the gradient of the hidden values is a partial sum.
constexpr auto chunked = cleave::value_and_grad<0, 1>(cleave::function([](auto h, auto weights, auto labels) {
  return sum(scan(chunk, zeros_like(sum(h)), std::tuple(cleave::value(h), cleave::value(labels)),
                  [&](const cleave::value& total, const std::tuple<cleave::value, cleave::value>& one) {
                    const auto scores = dot(std::get<0>(one), weights, embed);
                    return total + sum(cleave::nn::cross_entropy(scores, std::get<1>(one), vocabulary));
                  }));
}));
TEST(impossible_bugs, cross_entropy_in_chunks) {
  using h = f64<mesh(chunk, position, embed)>;
  using sequence = f64<mesh(chunk, position / data, embed)>;
  using w = f64<mesh(embed, vocabulary)>;
  using columns = f64<mesh(embed, vocabulary / model)>;
  using labels = cleave::tensor<int, mesh(chunk, position)>;
  expect_as_on_one_device<std::tuple<Number, h, w>(h, w, labels), std::tuple<Number, h, columns>(h, columns, labels),
                          std::tuple<Number, sequence, columns>(sequence, columns, labels)>(chunked);
}

// Five rows over two axes: the blocks of both axes do not nest, and nothing is lost.
constexpr auto gathered = cleave::value_and_grad<0>(
    cleave::function([](auto x, auto w) { return sum(sin(dot(reshard(x, mesh(position, embed)), w, position))); }));
TEST(impossible_bugs, uneven_gather_over_two_axes) {
  using w = f64<mesh(position, hidden)>;
  using rows = f64<mesh(position / data / model, embed)>;
  using turned = f64<mesh(position / model / data, embed)>;
  expect_as_on_one_device<std::tuple<Number, f64<mesh(position, embed)>>(f64<mesh(position, embed)>, w),
                          std::tuple<Number, rows>(rows, w), std::tuple<Number, turned>(turned, w)>(gathered);
}

// The mean of uneven blocks is no mean of means, and a number is added to a sum once.
constexpr auto uneven = cleave::value_and_grad<0>(cleave::function([](auto x) {
  const auto total = sum(x, batch) + 10.0;
  return mean(x * x) + max(total) / (sqrt(sum(total * total)) + 1e-6);
}));
TEST(impossible_bugs, mean_norm_and_maximum_of_sums) {
  using x = f64<mesh(batch, embed)>;
  using rows = f64<mesh(batch / data / model, embed)>;
  using both = f64<mesh(batch / data, embed / model)>;
  expect_as_on_one_device<std::tuple<Number, x>(x), std::tuple<Number, rows>(rows), std::tuple<Number, both>(both)>(
      uneven);
}

// One head of keys and values for sharded heads of queries; the queries are sharded along the sequence too.
constexpr auto shared_keys = cleave::value_and_grad<0, 1, 2>(cleave::function([](auto q, auto k, auto v) {
  return sum(sin(cleave::nn::attention(q, k, v, {position, source_dim, head}, cleave::nn::causal{})));
}));
TEST(impossible_bugs, gradient_of_shared_keys) {
  using q = f64<mesh(position, heads, head)>;
  using k = f64<mesh(source_dim, head)>;
  using by_head = f64<mesh(position, heads / model, head)>;
  using by_both = f64<mesh(position / data, heads / model, head)>;
  using sources = f64<mesh(source_dim / data, head)>;
  expect_as_on_one_device<std::tuple<Number, q, k, k>(q, k, k), std::tuple<Number, by_head, k, k>(by_head, k, k),
                          std::tuple<Number, by_both, sources, sources>(by_both, sources, sources)>(shared_keys);
}

// The logarithm of a softmax along a sharded dim, in a loss that is no cross entropy.
constexpr auto distilled = cleave::value_and_grad<0>(cleave::function(
    [](auto scores, auto teacher) { return sum(softmax(teacher, vocabulary) * log_softmax(scores, vocabulary)); }));
TEST(impossible_bugs, log_softmax_of_a_sharded_vocabulary) {
  using x = f64<mesh(position, vocabulary)>;
  using classes = f64<mesh(position / data, vocabulary / model)>;
  using over_both = f64<mesh(position, vocabulary / data / model)>;
  expect_as_on_one_device<std::tuple<Number, x>(x, x), std::tuple<Number, classes>(classes, classes),
                          std::tuple<Number, over_both>(over_both, x)>(distilled);
}

// Partial sums that the program holds back: their cotangent is replicated, and is not divided.
template <auto Held>
constexpr auto held_back = cleave::value_and_grad<0, 1>(cleave::function([](auto x, auto w) {
  const auto partial = 3.0 * constrain(dot(x, w, embed), Held);
  return sum(sin(reshard(partial, mesh(batch, hidden))));
}));
TEST(impossible_bugs, gradient_through_partial_sums) {
  using x = f64<mesh(batch, embed)>;
  using w = f64<mesh(embed, hidden)>;
  using columns = f64<mesh(batch, embed / model)>;
  using rows = f64<mesh(embed / model, hidden)>;
  const auto wanted = expect_as_on_one_device<std::tuple<Number, x, w>(x, w)>(held_back<mesh(batch, hidden)>);
  for (const cleave::grid& g : support::grids(mesh))
    expect_equal(call<std::tuple<Number, columns, rows>(columns, rows)>::on(
                     g, held_back<mesh(batch, hidden, cleave::unreduced(model))>),
                 wanted, 1);
}

} // namespace CLEAVE_SOURCE
