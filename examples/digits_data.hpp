// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The digits: 1797 rows of 64 pixels (0 to 16) and a label, as comma-separated values without a header.
#pragma once

#include "digits_model.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace digits {

struct image {
  std::array<int, 64> pixels{};
  int label = 0;
};

struct data_set {
  std::vector<image> rows;

  /// Rows whose index is 4 modulo 5 are for testing, the others, in a fixed shuffled order, for training.
  std::vector<image> testing() const { return pick(true); }
  std::vector<image> training() const {
    std::vector<image> some = pick(false);
    std::mt19937 random(1);
    for (std::size_t i = some.size(); i > 1; --i) std::swap(some[i - 1], some[random() % i]);
    return some;
  }

 private:
  std::vector<image> pick(bool test) const {
    std::vector<image> some;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if ((i % 5 == 4) == test) some.push_back(rows[i]);
    return some;
  }
};

/// Reads the file; throws std::runtime_error with file and line where it is missing, short or malformed.
inline data_set read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("digits: cannot open '" + path + "'");
  data_set all;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const auto fault = [&](const std::string& what) {
      return std::runtime_error("digits: " + path + ", line " + std::to_string(number) + ": " + what);
    };
    // A header, if there is one, has no numbers.
    if (number == 1 && (line[0] < '0' || line[0] > '9')) continue;
    image one;
    const char *at = line.data(), *end = line.data() + line.size();
    for (int column = 0; column < 65; ++column) {
      int value = 0;
      const auto [next, code] = std::from_chars(at, end, value);
      if (code != std::errc() || (column < 64 ? next == end || *next != ',' : next != end))
        throw fault("expected 65 whole numbers separated by commas, column " + std::to_string(column + 1) +
                    " is wrong");
      if (value < 0 || value > (column < 64 ? 16 : 9))
        throw fault("column " + std::to_string(column + 1) + " is " + std::to_string(value) + ", out of range");
      (column < 64 ? one.pixels[static_cast<std::size_t>(column)] : one.label) = value;
      at = column < 64 ? next + 1 : next;
    }
    all.rows.push_back(one);
  }
  if (all.rows.size() < 10)
    throw std::runtime_error("digits: " + path + " has only " + std::to_string(all.rows.size()) + " rows");
  return all;
}

template <class Real>
struct batch_of {
  typename of<Real>::Images images;
  typename of<Real>::Labels labels;
};

/// The rows cut into `count` batches of nearly equal size, distributed over the grid.
template <class Real>
std::vector<batch_of<Real>> batches(const cleave::grid& grid, const std::vector<image>& rows, long count) {
  std::vector<batch_of<Real>> list;
  const long total = static_cast<long>(rows.size());
  for (long b = 0; b < count; ++b) {
    const long first = b * total / count, size = (b + 1) * total / count - first;
    batch_of<Real> one{{grid, {size, 64}}, {grid, {size}}};
    const auto row = [&](auto i) -> const image& {
      return rows[static_cast<std::size_t>(first + static_cast<long>(i))];
    };
    one.images.fill_by(
        [&](const auto& at) { return static_cast<Real>(row(at[0]).pixels[static_cast<std::size_t>(at[1])]) / 16; });
    one.labels.fill_by([&](const auto& at) { return row(at[0]).label; });
    list.push_back(one);
  }
  return list;
}

template <class Real>
struct state_of {
  typename of<Real>::Weights weights, momentum;
};

/// Small pseudo-random weights that depend on the position alone, so that every mesh starts from the same ones
/// (splitmix64, G. Steele et al. 2014).
template <class Real>
state_of<Real> start(const cleave::grid& grid, long hidden_extent) {
  const auto make = [&] {
    return typename of<Real>::Weights{{grid, {64, hidden_extent}},
                                      {grid, {hidden_extent}},
                                      {grid, {hidden_extent, 10}},
                                      {grid, {10}}};
  };
  state_of<Real> s{make(), make()};
  const auto noise = [](std::uint64_t key, double scale) {
    std::uint64_t z = (key + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<Real>(scale * (static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1));
  };
  s.weights.up.fill_by([&](const auto& at) {
    return noise(static_cast<std::uint64_t>(at[0]) * 100000 + static_cast<std::uint64_t>(at[1]), 0.25);
  });
  s.weights.down.fill_by([&](const auto& at) {
    return noise(10000000 + static_cast<std::uint64_t>(at[0]) * 10 + static_cast<std::uint64_t>(at[1]), 0.15);
  });
  return s;
}

} // namespace digits
