// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

// Stencils whose results are larger than the caches, so that they are stored past them in blocks. Lines have an odd
// number of elements, so they begin at every possible place in a line of the cache. All values are small integers.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
template <class T>
using Rows = cleave::tensor<T, mesh(row / line, col)>;
template <class T>
using Columns = cleave::tensor<T, mesh(row, col / line)>;

int ranks() {
  int n = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}

/// The element of the field, and 0 outside of it.
struct field {
  std::int64_t rows, columns;
  std::int64_t operator()(std::int64_t i, std::int64_t j) const {
    return i < 0 || j < 0 || i >= rows || j >= columns ? 0 : (i * 7 + j * 3 + i * j % 5) % 32;
  }
  std::int64_t on_ring(std::int64_t i, std::int64_t j) const {
    return (*this)((i + rows) % rows, (j + columns) % columns);
  }
};

template <class V>
constexpr auto around(V u) {
  return shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) + shift(u, col, -2);
}
constexpr cleave::function with_zeros([](auto u) { return around(u) - u; });
constexpr cleave::function on_ring([](auto u) { return roll(u, row, 1) + roll(u, row, -1) + roll(u, col, 1) - u; });
constexpr cleave::function in_the_interior([](auto u) { return cleave::interior(around(u), u, 2, row, col); });
constexpr cleave::function along_rows([](auto u) { return shift(u, row, 1) + shift(u, row, -2); });
// Lines in more parts than are stored together.
constexpr cleave::function many_ends([](auto u) {
  auto sum = u;
  for (std::int64_t by = 1; by <= 7; ++by) sum = sum + shift(u, col, by) + shift(u, col, -2 * by);
  return sum;
});
constexpr cleave::function beside_own([](auto u, auto w) { return around(u) + w; });
constexpr cleave::function of_two([](auto u, auto w) { return around(u) + shift(w, col, 3) * u; });

template <class T, template <class> class Tensor>
class larger_than_caches {
 public:
  larger_than_caches(std::int64_t rows, std::int64_t columns)
      : g_(mesh, MPI_COMM_WORLD, {ranks()}), at_{rows, columns}, u_(g_, {rows, columns}), result_(g_, {rows, columns}),
        wanted_(g_, {rows, columns}) {
    u_.fill_by([&](const auto& at) { return static_cast<T>(at_(at[0], at[1])); });
    EXPECT_GE(u_.local_size() * static_cast<std::int64_t>(sizeof(T)), cleave::non_temporal_bytes);
  }
  void run() {
    const auto cross = [&](std::int64_t i, std::int64_t j) {
      return at_(i - 1, j) + at_(i + 1, j) + at_(i, j - 1) + at_(i, j + 2);
    };
    expect("zeros", [&] { result_ = with_zeros(u_); }, [&](auto i, auto j) { return cross(i, j) - at_(i, j); });
    expect(
        "ring", [&] { result_ = on_ring(u_); },
        [&](auto i, auto j) {
          return at_.on_ring(i - 1, j) + at_.on_ring(i + 1, j) + at_.on_ring(i, j - 1) - at_(i, j);
        });
    expect(
        "interior", [&] { result_ = in_the_interior(u_); },
        [&](auto i, auto j) {
          const bool inside = i >= 2 && j >= 2 && i < at_.rows - 2 && j < at_.columns - 2;
          return inside ? cross(i, j) : at_(i, j);
        });
    Tensor<T> other(g_, {at_.rows, at_.columns});
    other.fill_by([&](const auto& at) { return static_cast<T>(at[1] % 3); });
    expect(
        "two arrays", [&] { result_ = of_two(u_, other); },
        [&](auto i, auto j) { return cross(i, j) + (j < 3 ? 0 : (j - 3) % 3) * at_(i, j); });
    expect(
        "rows alone", [&] { result_ = along_rows(u_); }, [&](auto i, auto j) { return at_(i - 1, j) + at_(i + 2, j); });
    expect(
        "many ends", [&] { result_ = many_ends(u_); },
        [&](auto i, auto j) {
          std::int64_t sum = at_(i, j);
          for (std::int64_t by = 1; by <= 7; ++by) sum += at_(i, j - by) + at_(i, j + 2 * by);
          return sum;
        });
    // Where the result has the memory of an operand, it stays in the caches: with the same index, and at a distance.
    const auto two = [&](auto i, auto j) { return cross(i, j) + (j < 3 ? 0 : (j - 3) % 3) * at_(i, j); };
    result_ = of_two(u_, other);
    expect(
        "in place", [&] { result_ = beside_own(u_, result_); }, [&](auto i, auto j) { return cross(i, j) + two(i, j); },
        false);
    result_ = of_two(u_, other);
    expect(
        "rolling over the operand", [&] { result_ = of_two(u_, result_); },
        [&](auto i, auto j) { return cross(i, j) + (j < 3 ? 0 : two(i, j - 3)) * at_(i, j); }, false);
  }

 private:
  template <class Run, class Value>
  void expect(const char* what, const Run& run, const Value& value, bool blank = true) {
    if (blank) result_.fill(static_cast<T>(-1));
    run();
    wanted_.fill_by([&](const auto& at) { return static_cast<T>(value(at[0], at[1])); });
    std::int64_t wrong = 0, first = 0;
    for (std::int64_t i = wanted_.local_size(); i-- > 0;)
      if (result_.data()[i] != wanted_.data()[i]) {
        ++wrong;
        first = i;
      }
    EXPECT_EQ(wrong, 0) << what << ": the first is element " << first << " of the shard, "
                        << static_cast<double>(result_.data()[first]) << " instead of "
                        << static_cast<double>(wanted_.data()[first]);
  }

  cleave::grid g_;
  field at_;
  Tensor<T> u_, result_, wanted_;
};

TEST(large_fields, of_sharded_rows) {
  static_assert(4099 * sizeof(double) >= cleave::non_temporal_line);
  larger_than_caches<double, Rows>(515 * ranks(), 4099).run();
  larger_than_caches<float, Rows>(515 * ranks(), 8203).run();
}
// Lines are shorter than those that are stored past the caches.
TEST(large_fields, of_short_lines) { larger_than_caches<double, Rows>(17000 * ranks(), 131).run(); }
TEST(large_fields, that_wait_before_they_begin) {
  cleave::comm::overlap_mode() = false;
  larger_than_caches<double, Rows>(515 * ranks(), 4099).run();
  cleave::comm::overlap_mode() = true;
}
// Only the ends of lines wait for the halo.
TEST(large_fields, of_sharded_columns) { larger_than_caches<double, Columns>(515, 4099 * ranks()).run(); }

} // namespace CLEAVE_SOURCE
