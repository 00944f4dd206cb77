// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/layout/box.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace cleave { inline namespace v0 {

/// A whole tensor in host memory, with the last dim fastest. Elements of every type are held as double.
struct host_array {
  shape extents{};
  indexed_vector<double> data{};

  host_array() = default;
  /// An array of these extents, filled with one value.
  explicit host_array(const shape& s, double fill = 0)
      : extents(s), data(indexed_vector<double>::filled(s.elements(), fill)) {}
};

namespace simulation {

/// Elements of a tensor, or of a shard.
using elements = indexed_vector<double>;

/// A loop nest over several streams, each a counter that every loop moves by a step of its own: the offset in an array,
/// or an index.
class streamed_loops {
 public:
  explicit streamed_loops(std::size_t streams) : streams_(streams) {}

  /// Adds a loop inside the ones there are.
  void add(std::int64_t extent, indexed_span<const std::int64_t> steps) {
    extent_.push_back(extent);
    step_.append(steps.data(), steps.data() + steps.size());
  }

  /// Calls row(counters, n, steps) for each row of the innermost loop: its n positions are counters + i * steps.
  template <class Row>
  void run(indexed_vector<std::int64_t> at, Row&& row) const {
    for (std::int64_t e : extent_)
      if (e == 0) return;
    static constexpr std::array<std::int64_t, 64> still{};
    if (extent_.empty()) return row(at.data(), std::int64_t{1}, still.data());
    const std::size_t inner = extent_.size() - 1;
    indexed_vector<std::int64_t> index(inner, 0);
    while (true) {
      row(at.data(), extent_[inner], &step_[inner * streams_]);
      std::size_t loop = inner;
      for (; loop > 0; --loop) {
        const std::size_t l = loop - 1;
        const bool wraps = ++index[l] == extent_[l];
        for (std::size_t s = 0; s < streams_; ++s) at[s] += step_[l * streams_ + s] * (wraps ? 1 - extent_[l] : 1);
        if (!wraps) break;
        index[l] = 0;
      }
      if (loop == 0) return;
    }
  }

 private:
  std::size_t streams_;
  indexed_vector<std::int64_t> extent_{};
  indexed_vector<std::int64_t> step_{};
};

/// Where the elements of a tensor are, dim by dim of the graph.
struct placed {
  tensor_type type{};
  shape extents{};
  strides stride{};

  placed(const tensor_type& t, const shape& local) : type(t), extents(local), stride(strides_of(local)) {}
  /// The step along a dim, 0 if the tensor does not have it.
  std::int64_t step(dim_id d) const {
    // Bounded twice, since g++ -O3 does not know that no rank is larger.
    for (int i = 0; i < max_rank && i < type.rank; ++i)
      if (type[i] == d) return stride[i];
    return 0;
  }
};

} // namespace simulation

/// The same tensor with its dims in another memory order.
inline host_array reordered(const host_array& from, const tensor_type& have, const tensor_type& want) {
  host_array to;
  to.extents.rank = want.rank;
  for (int i = 0; i < want.rank; ++i) to.extents[i] = from.extents[have.find(want[i])];
  to.data.resize(from.data.size());
  const simulation::placed source(have, from.extents), target(want, to.extents);
  simulation::streamed_loops loops(2);
  for (int i = 0; i < want.rank; ++i) loops.add(to.extents[i], std::array{source.step(want[i]), target.step(want[i])});
  loops.run({0, 0}, [&](const std::int64_t* at, std::int64_t n, const std::int64_t* step) {
    for (std::int64_t i = 0; i < n; ++i) to.data[at[1] + i * step[1]] = from.data[at[0] + i * step[0]];
  });
  return to;
}

/// The first element at which two arrays differ by more than `tolerance` times the larger magnitude (or 1); -1 if none
/// does. NaN equals NaN; arrays of other lengths differ at the end of the shorter one.
inline std::int64_t first_difference(indexed_span<const double> a, indexed_span<const double> b, double tolerance) {
  const auto close = [tolerance](double x, double y) {
    if (x == y || (std::isnan(x) && std::isnan(y))) return true;
    const double scale = std::fmax(1.0, std::fmax(std::fabs(x), std::fabs(y)));
    return std::fabs(x - y) <= tolerance * scale && !std::isinf(scale);
  };
  const auto [in_a, in_b] = std::ranges::mismatch(a, b, close);
  return in_a == a.end() && in_b == b.end() ? -1 : in_a - a.begin();
}

}} // namespace cleave::v0
