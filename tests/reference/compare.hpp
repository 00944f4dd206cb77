// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training with one layout, beside what a file of a run of JAX has.
#pragma once

#include "../../examples/decoder_training.hpp"
#include "../../examples/hdf5_file.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/optim/adam.hpp>

#include <cmath>
#include <limits>
#include <numeric>

namespace reference {

using namespace decoder;
using examples::hdf5_file;

struct configuration {
  std::int64_t batch, position, layers, embed, heads, head, hidden, vocabulary, steps;
  float rate;
  cleave::optim::adam_numbers<float> adam;

  explicit configuration(const hdf5_file& f)
      : batch(whole(f, "batch")), position(whole(f, "seq")), layers(whole(f, "layers")), embed(whole(f, "d_model")),
        heads(whole(f, "heads")), head(whole(f, "d_head")), hidden(whole(f, "d_ff")), vocabulary(whole(f, "vocab")),
        steps(whole(f, "steps")), rate(number(f, "learning_rate")),
        adam{number(f, "beta1"), number(f, "beta2"), number(f, "epsilon"), 0} {
    if (number(f, "layer_norm_epsilon") != 1e-5f)
      throw std::runtime_error("layer_norm_epsilon is not 1e-5, which the decoder has as a constant");
  }

 private:
  static std::int64_t whole(const hdf5_file& f, const std::string& name) {
    const std::int64_t n = f.attribute<std::int64_t>(name);
    if (n < 1) throw std::runtime_error("attribute " + name + " is " + std::to_string(n));
    return n;
  }
  static float number(const hdf5_file& f, const std::string& name) {
    return static_cast<float>(f.attribute<double>(name));
  }
};

/// What a parameter is called in a group of the file, in the order of the fields of `decoder::parameters`; those of
/// layers have one data set a layer.
struct name {
  std::string path;
  bool of_layer = true;
};
inline const name names[] = {{"embedding", false},
                             {"position", false},
                             {"norm1/scale"},
                             {"norm1/bias"},
                             {"query"},
                             {"key"},
                             {"value"},
                             {"out"},
                             {"norm2/scale"},
                             {"norm2/bias"},
                             {"up/kernel"},
                             {"up/bias"},
                             {"down/kernel"},
                             {"down/bias"},
                             {"final_norm/scale", false},
                             {"final_norm/bias", false}};

/// The elements of a parameter of these extents. Those of layers have dim `layer` in front, and in a pipeline `stage`
/// behind it: stage s has layers s * layers of a stage + l.
inline std::vector<float> read(const hdf5_file& f, const std::string& group, const name& n,
                               std::vector<std::int64_t> extents, bool staged) {
  if (!n.of_layer) {
    // Of a sequence in chunks, the file has the whole.
    if (extents.size() == 3) extents = {extents[0] * extents[1], extents[2]};
    return f.read<float>(group + "/" + n.path, extents);
  }
  const std::int64_t layers = extents[0], stages = staged ? extents[1] : 1;
  extents.erase(extents.begin(), extents.begin() + (staged ? 2 : 1));
  std::vector<float> all;
  for (std::int64_t l = 0; l < layers; ++l)
    for (std::int64_t s = 0; s < stages; ++s) {
      const std::vector<float> one = f.read<float>(group + "/layer" + std::to_string(s * layers + l) + "/" + n.path,
                                                   extents);
      all.insert(all.end(), one.begin(), one.end());
    }
  return all;
}
/// Where an element is in C order.
inline std::size_t place(const auto& at, const std::vector<std::int64_t>& extents) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) index = index * extents[d] + at[d];
  return static_cast<std::size_t>(index);
}

/// What a pipeline cuts: layers into as many stages of equal length as the devices of its axis allow, and batches into
/// a few microbatches of as many sentences; and a ring, sequences into chunks.
struct cut {
  std::int64_t stages = 1, microbatches = 1, chunks = 1;
};
template <auto Layout>
cut cut_for(const configuration& c, const cleave::grid& grid) {
  if (staged<Layout>)
    return {std::gcd(c.layers, grid.size(model)),
            std::gcd(c.batch / std::gcd(c.batch, grid.size(data)), std::int64_t{4}), 1};
  if (rings<Layout>) return {1, 1, std::gcd(c.position, grid.size(model))};
  return {};
}

template <class A, class F>
void for_each_named(A& all, F&& f) {
  std::size_t next = 0;
  cleave::nn::for_each_tensor(all, [&](auto& t) {
    const auto extents = t.extents();
    f(t, names[next++], std::vector<std::int64_t>(extents.begin(), extents.end()));
  });
}

struct errors {
  double loss = 0, gradient = 0;
};

inline constexpr float no_limit = std::numeric_limits<float>::infinity();

template <auto Layout>
errors compare(const hdf5_file& f, const configuration& c, const cleave::grid& grid) {
  using types = decoder::of<Layout>;
  using Parameters = typename types::Parameters;
  using Averages = typename types::Averages;
  using Scalar = typename types::Scalar;
  using Words = typename types::Words;
  const cut parts = cut_for<Layout>(c, grid);
  const auto made = [&]<class A>(A) {
    return cleave::nn::make_parameters<A>(grid, {batch = c.batch / parts.microbatches, microbatch = parts.microbatches,
                                                 ring = parts.chunks, position = c.position / parts.chunks,
                                                 layer = c.layers / parts.stages, stage = parts.stages, embed = c.embed,
                                                 heads = c.heads, head = c.head, hidden = c.hidden,
                                                 vocabulary = c.vocabulary});
  };
  Parameters p = made(Parameters{});
  for_each_named(p, [&](auto& t, const name& n, const std::vector<std::int64_t>& extents) {
    const std::vector<float> values = read(f, "initial", n, extents, staged<Layout>);
    t.fill_by([&](const auto& at) { return values[place(at, extents)]; });
  });
  cleave::optim::adam_state<Averages, Scalar> state{made(Averages{}), made(Averages{}), Scalar(grid, {}),
                                                    Scalar(grid, {})};
  const std::vector<double> wanted = f.read<double>("losses", {c.steps});
  const std::vector<std::int32_t> all = f.read<std::int32_t>("tokens", {c.steps, c.batch, c.position + 1});

  Words words = made(Words{}), next = made(Words{});
  Scalar value(grid, {});
  errors worst;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const auto word = [&](const auto& at, std::int64_t later) {
      const std::int64_t sentence = staged<Layout> ? at[0] * (c.batch / parts.microbatches) + at[1] : at[0];
      const std::int64_t where = rings<Layout> ? at[1] * (c.position / parts.chunks) + at[2] : at.back();
      return all[static_cast<std::size_t>((s * c.batch + sentence) * (c.position + 1) + where + later)];
    };
    words.fill_by([&](const auto& at) { return word(at, 0); });
    next.fill_by([&](const auto& at) { return word(at, 1); });
    decoder::trainer<Layout>::step(p, state, words, next, c.rate, no_limit, c.adam, value);
    const double expected = wanted[static_cast<std::size_t>(s)];
    const double relative = std::fabs(static_cast<double>(value.item()) - expected) / std::fabs(expected);
    // A loss that is no number is as wrong as can be; std::max would pass over it.
    worst.loss = std::isnan(relative) ? std::numeric_limits<double>::infinity() : std::max(worst.loss, relative);
    if (s == 0) {
      // The average of one gradient, which is the gradient.
      const auto weight = static_cast<double>(state.mean_weight.item());
      double off = 0, norm = 0;
      for_each_named(state.mean, [&](auto& t, const name& n, const std::vector<std::int64_t>& extents) {
        const std::vector<float> values = read(f, "first_gradient", n, extents, staged<Layout>), got = t.to_global();
        for (std::size_t i = 0; i < values.size(); ++i) {
          off += std::pow(static_cast<double>(got[i]) / weight - static_cast<double>(values[i]), 2);
          norm += std::pow(static_cast<double>(values[i]), 2);
        }
      });
      worst.gradient = std::sqrt(off / norm);
    }
  }
  return worst;
}

} // namespace reference
