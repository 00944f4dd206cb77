// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/simulate/array.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

// The cases of tests/oracle/cases.json as programs. A line of the tables in cases_*_test.cpp is one case: its id, the
// tensors in the layouts that it gives, the function. The driver reads the rest from the file, so that no test drifts
// from it. Checked of every case:
//
//   the program is the case's: mesh, shapes, element types, layouts and allowed redundancy
//   its price at the case's sizes is within the recorded bound and not above what GSPMD moves
//   on 8 ranks its values are those of the plain evaluator, and MPI moves what the plan says for these sizes
//
// The plan is the compiler's, but for the fewest bytes, as the oracle plans; everything else plans for time.

namespace cases {

/// A dim whose extent comes from the run; the case has `Real`. Extents of a run are the least that divide alike.
template <cleave::text Name, std::int64_t Real>
struct dim : cleave::dim<Name> {
  static constexpr std::int64_t real = Real;
};

namespace on8 {
inline constexpr cleave::axis<"x", 8> x;
inline constexpr cleave::mesh mesh{x};
} // namespace on8
namespace on2x4 {
inline constexpr cleave::axis<"x", 2> x;
inline constexpr cleave::axis<"y", 4> y;
inline constexpr cleave::mesh mesh{x, y};
} // namespace on2x4
namespace on4x2 {
inline constexpr cleave::axis<"x", 4> x;
inline constexpr cleave::axis<"y", 2> y;
inline constexpr cleave::mesh mesh{x, y};
} // namespace on4x2
namespace on2x2x2 {
inline constexpr cleave::axis<"x", 2> x;
inline constexpr cleave::axis<"y", 2> y;
inline constexpr cleave::axis<"z", 2> z;
inline constexpr cleave::mesh mesh{x, y, z};
} // namespace on2x2x2

template <auto Layout>
using f32 = cleave::tensor_in<float, Layout>;
template <auto Layout>
using i32 = cleave::tensor_in<std::int32_t, Layout>;

/// A compiled program as data.
struct compiled {
  std::string id{};
  cleave::graph recorded{};
  cleave::program plan{};
  /// The case's sizes, as the compiler had them.
  cleave::sizes real{};
  /// How often products may be repeated; 0: without a limit.
  int repeat = 1;
};

/// Whole results from whole arguments, where the evaluator cannot compute them. Complex numbers are two elements, one
/// after the other.
using reference = std::function<std::vector<std::vector<double>>(const std::vector<cleave::host_array>&)>;

/// One case on the ranks.
class trial {
 public:
  /// Finds the case in the file, and expects the program to be its.
  trial(compiled program, reference serial);

  const cleave::mesh_value& mesh() const { return program_.plan.mesh; }
  const std::vector<std::int64_t>& mesh_sizes() const { return mesh_sizes_; }
  /// Of an argument or, counted after them, a result, for the run.
  std::vector<std::int64_t> extents(std::size_t tensor) const;
  /// Fills an argument and keeps it for the reference.
  void fill(const cleave::tensor_state& argument, const cleave::layout& where);
  /// Expects MPI to move what the plan says.
  void run(const std::function<void()>& program);
  void compare(std::size_t result, const cleave::tensor_state& got, const cleave::layout& where);

 private:
  /// Gives all ranks what rank 0 wants.
  void share_wanted();
  void price_at_most(double recorded, const char* whose) const;

  compiled program_;
  reference serial_;
  std::vector<std::int64_t> mesh_sizes_{};
  cleave::sizes small_{};
  std::vector<cleave::host_array> arguments_{};
  std::vector<std::vector<double>> wanted_{};
};

namespace detail {

using named_sizes = cleave::static_vector<cleave::named_size, cleave::max_dims>;

template <class D>
constexpr void add_size(named_sizes& to) {
  if constexpr (requires { D::real; }) {
    for (const cleave::named_size& n : to)
      if (n.name == D::ref.name) return;
    to.push_back(cleave::named_size{D::ref.name, D::real});
  }
}
template <class Sharding>
struct sizes_in;
template <class Mesh, class Unreduced, class... Placements>
struct sizes_in<cleave::sharding<Mesh, Unreduced, Placements...>> {
  static constexpr void add(named_sizes& to) { (add_size<typename Placements::dim_type>(to), ...); }
};

template <class R>
struct results_of {
  using type = std::tuple<R>;
};
template <class... R>
struct results_of<std::tuple<R...>> {
  using type = std::tuple<R...>;
};

template <class Signature>
struct tensors_of;
template <class R, class... Args>
struct tensors_of<R(Args...)> {
  using arguments = std::tuple<Args...>;
  using results = typename results_of<R>::type;
  static constexpr named_sizes real = [] {
    named_sizes all;
    const auto add = [&]<class... T>(std::type_identity<std::tuple<T...>>) {
      (sizes_in<typename T::sharding_type>::add(all), ...);
    };
    add(std::type_identity<arguments>{});
    add(std::type_identity<results>{});
    return all;
  }();
};

} // namespace detail

namespace detail {
/// The extent of a dim of the case, as cleave::expect gives one.
template <class Signature, std::size_t I>
struct real_size : cleave::option_tag {
  static constexpr cleave::named_size size = tensors_of<Signature>::real[I];
};
template <class Body, class Signature, class Policy, std::size_t... I>
auto plan_at(std::index_sequence<I...>) -> cleave::plan_of<Body, Signature, real_size<Signature, I>..., Policy>;
} // namespace detail

/// The plan of a case: for its sizes, and for the fewest bytes.
template <class Body, class Signature, int Repeat, int Effort>
using plan_of = decltype(detail::plan_at<Body, Signature, cleave::fewest_bytes<Repeat, Effort>>(
    std::make_index_sequence<detail::tensors_of<Signature>::real.size()>{}));

/// Compiles a function for the tensors of a case and runs it: `check<"mm/x.____.___to__x._/m8", Y(A, B)>(product)`.
/// `Effort` is that of cleave::policy: compilers are slow at looking far, and nearly all of these plans are found at
/// once.
template <cleave::text Id, class Signature, int Repeat = 1, int Effort = 0, class F>
void check(const cleave::function<F>&, const reference& serial = {}) {
  using plan = plan_of<F, Signature, Repeat, Effort>;
  using tensors = detail::tensors_of<Signature>;
  const testing::ScopedTrace trace(__FILE__, __LINE__, std::string(Id.view()));
  const cleave::graph recorded = cleave::recording<F, Signature>::record();
  trial t(compiled{std::string(Id.view()), recorded, cleave::planned<plan>{}.thawed(), plan::hints_for(recorded),
                   Repeat},
          serial);
  const cleave::grid grid(t.mesh(), MPI_COMM_WORLD, t.mesh_sizes());
  std::size_t next = 0;
  const auto make = [&]<class T>(T& tensor) { tensor = T(grid, std::span<const std::int64_t>(t.extents(next++))); };
  typename tensors::arguments arguments;
  typename tensors::results results;
  std::apply([&](auto&... each) { (make(each), ...); }, arguments);
  std::apply([&](auto&... each) { (make(each), ...); }, results);
  std::apply([&](const auto&... each) { (t.fill(each.state(), each.where), ...); }, arguments);
  t.run([&] { std::apply([&](auto&... each) { cleave::detail::run_plan<plan>(arguments, each...); }, results); });
  next = 0;
  std::apply([&](const auto&... each) { (t.compare(next++, each.state(), each.where), ...); }, results);
}

/// The cases have 8 devices.
class Cases : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(support::ranks(), 8) << "run with mpirun -n 8"; }
};

} // namespace cases
