// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "check_function.hpp"

#include <cleave/optim/leaves.hpp>

// What can be planned must compile and run: every operation with every element type that the recorder takes it with,
// and its derivative. Which those are is asked of the recorder, so that an operation that is added to the table is
// compiled here too.

namespace every_element {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row", 6> row;
inline constexpr cleave::dim<"col", 4> col;
inline constexpr cleave::dim<"sliced"> sliced;
inline constexpr cleave::dim<"padded"> padded;
inline constexpr cleave::dim<"repeated"> repeated;
inline constexpr cleave::dim<"tiled"> tiled;
inline constexpr cleave::dim<"joined"> joined;
inline constexpr cleave::dim<"third"> third;
inline constexpr cleave::dim<"part", 2> part;
inline constexpr cleave::dim<"half", 3> half;
inline constexpr cleave::dim<"many", 5> many;
inline constexpr cleave::dim<"class", 3> classes;
inline constexpr cleave::dim<"all", 24> all_of_them;

template <class T>
using X = cleave::tensor<T, mesh(row / data, col)>;
template <class T>
using Y = cleave::tensor<T, mesh(row, col / model)>;
using Indices = cleave::tensor<std::int32_t, mesh(many / data)>;
template <class T>
using Number = cleave::tensor<T, mesh()>;

/// An operation of the table, applied to x and y, and to x < y where it selects.
template <cleave::op Code>
struct table_operation {
  template <class A, class B, class I>
  constexpr cleave::value operator()(const A& x, const B& y, const I&) const {
    if constexpr (Code == cleave::op::select) return select(x == y, x, y);
    else if constexpr (cleave::entry_of(Code).arity == 1) return cleave::detail::record(Code, x);
    else return cleave::detail::record(Code, x, y);
  }
};
/// Those that are elementwise and that functions have under their own name.
constexpr bool is_plain(cleave::op code) {
  using cleave::op;
  return cleave::class_of(code) == cleave::op_class::elementwise && code != op::cast && code != op::user &&
         code != op::random && code != op::normal;
}
template <std::size_t... Code>
constexpr auto plain_operations(std::index_sequence<Code...>) {
  const auto one = []<std::size_t C>(std::integral_constant<std::size_t, C>) {
    constexpr auto code = static_cast<cleave::op>(C);
    if constexpr (is_plain(code)) return std::tuple<table_operation<code>>{};
    else return std::tuple<>{};
  };
  return std::tuple_cat(one(std::integral_constant<std::size_t, Code>{})...);
}
inline constexpr auto elementwise = plain_operations(std::make_index_sequence<std::size(cleave::op_table)>{});

template <class To>
struct cast_to {
  template <class A, class B, class I>
  constexpr cleave::value operator()(const A& x, const B&, const I&) const {
    return cast<To>(x);
  }
};
/// Of every other class at least one way in which elements of a type are moved, compared or added up.
inline constexpr std::tuple others{
    cast_to<bool>{},
    cast_to<std::int8_t>{},
    cast_to<std::uint8_t>{},
    cast_to<std::int32_t>{},
    cast_to<std::uint32_t>{},
    cast_to<std::int64_t>{},
    cast_to<std::uint64_t>{},
    cast_to<cleave::bfloat16>{},
    cast_to<cleave::half>{},
    cast_to<float>{},
    cast_to<double>{},
    cast_to<Kokkos::complex<float>>{},
    cast_to<Kokkos::complex<double>>{},
    [](auto x, auto, auto) { return sum(x, row); },
    [](auto x, auto, auto) { return prod(x, row); },
    [](auto x, auto, auto) { return max(x, row); },
    [](auto x, auto, auto) { return min(x, row); },
    [](auto x, auto, auto) { return mean(x, row); },
    [](auto x, auto, auto) { return any(x, row); },
    [](auto x, auto, auto) { return all(x, row); },
    [](auto x, auto, auto) { return variance(x, row); },
    [](auto x, auto, auto) { return argmax(x, row); },
    [](auto x, auto, auto) { return argmin(x, row); },
    [](auto x, auto, auto) { return softmax(x, row); },
    [](auto x, auto, auto) { return logsumexp(x, row); },
    [](auto x, auto, auto) { return cleave::top_k(x, row, classes).first; },
    [](auto x, auto, auto) { return cleave::cumulative_sum(x, row); },
    [](auto x, auto, auto) { return cleave::cumulative_prod(x, row, cleave::running::backward); },
    [](auto x, auto, auto) { return cleave::cumulative_max(x, row, cleave::running::forward_exclusive); },
    [](auto x, auto, auto) { return cleave::cumulative_min(x, row); },
    [](auto x, auto, auto) { return cleave::sort(x, row); },
    [](auto x, auto, auto) { return cleave::sort(x, col, cleave::order::descending); },
    [](auto x, auto, auto) { return cleave::argsort(x, row); },
    [](auto x, auto, auto) { return cleave::searchsorted(cleave::sort(x, row), max(x, row), row); },
    [](auto x, auto, auto i) { return gather(x, row, i); },
    [](auto x, auto, auto i) { return gather(x, col, i); },
    [](auto x, auto, auto i) { return cleave::scatter_add(gather(x, row, i), i, classes); },
    [](auto x, auto, auto) { return cleave::take_along(x, cleave::argsort(x, row), row); },
    [](auto x, auto, auto) { return one_hot(x, classes); },
    [](auto x, auto y, auto) { return dot(x, y, row, col); },
    [](auto x, auto y, auto) { return dot(x, rename(y, row, third), col); },
    [](auto x, auto y, auto) { return dot(x, y, col); },
    [](auto x, auto, auto) { return cleave::slice(x, row, sliced, 1, -1, 2); },
    [](auto x, auto, auto) { return cleave::pad(x, row, padded, 1, 2, 1); },
    [](auto x, auto, auto) { return cleave::shift(x, row, 1); },
    [](auto x, auto, auto) { return cleave::roll(x, row, 2); },
    [](auto x, auto, auto) { return cleave::flip(x, row); },
    [](auto x, auto, auto) { return cleave::rotate_halves(x, row); },
    [](auto x, auto, auto) { return cleave::repeat(x, row, repeated, 2); },
    [](auto x, auto, auto) { return cleave::tile(x, row, tiled, 2); },
    [](auto x, auto y, auto) { return cleave::concat(joined, cleave::piece(x, row), cleave::piece(y, row)); },
    [](auto x, auto y, auto) { return cleave::stack(part, x, y); },
    [](auto x, auto, auto) { return cleave::windows(x, cleave::window{row, row, classes, 1, 1, 1, 1}); },
    [](auto x, auto, auto) { return cleave::dynamic_slice(x, row, part, 3); },
    [](auto x, auto y, auto) { return cleave::dynamic_update(x, row, cleave::slice(y, row, part, 0, 2), part, 1); },
    [](auto x, auto, auto) { return cleave::interior(x, 1, 1, row); },
    [](auto x, auto, auto) { return split(x, row, half, part); },
    [](auto x, auto, auto) { return merge(x, row, col, all_of_them); },
    [](auto x, auto, auto) { return rename(x, row, third); },
    [](auto x, auto, auto) { return cleave::broadcast(sum(x, row), row, col); },
    [](auto x, auto, auto) { return reshard(x, mesh(row, col / data)); },
    [](auto x, auto y, auto) { return reshard(dot(x, rename(y, row, third), col), mesh(row / model, third)); },
    [](auto x, auto y, auto) {
      return cleave::scan(row, sum(y, row), x,
                          [](auto carry, auto each) { return std::pair(carry + each, carry * each); })
          .second;
    },
    [](auto x, auto, auto) { return cleave::repeat_times(3, x, [](auto v) { return v + 1; }); },
    [](auto x, auto y, auto) {
      return cleave::cond(
          sum(x) == sum(y), [](auto a, auto b) { return a + b; }, [](auto a, auto b) { return a * b; }, x, y);
    },
};

/// What an operation comes to, as one number of the type in which it came out: how it is summed does not matter here.
constexpr cleave::value summed(const cleave::value& v) {
  return v.ok() && v.in->at(v).type.element == cleave::element::boolean ? any(v) : sum(v);
}
/// Its derivative by x, likewise.
template <class F>
struct derivative_of {
  template <class A, class B, class I>
  constexpr cleave::value operator()(const A& x, const B& y, const I& i) const {
    const auto f = [&](const auto& at) { return F{}(at, y, i); };
    const auto [result, pullback] = cleave::vjp(f, x);
    const cleave::value seed = cleave::zeros_like(result) + 1;
    return pullback(seed);
  }
};

template <class F, class T>
struct trial {
  struct outcome {
    bool taken = false;
    cleave::element result = cleave::element::none;
  };
  static constexpr outcome found = [] {
    cleave::recorder in(mesh.value);
    const cleave::value x = in.input(cleave::element_of<T>, typename X<T>::sharding_type{}),
                        y = in.input(cleave::element_of<T>, typename Y<T>::sharding_type{}),
                        i = in.input(cleave::element::i32, typename Indices::sharding_type{});
    const cleave::value v = summed(F{}(x, y, i));
    return v.ok() && in.made().found.ok() ? outcome{true, in.at(v).type.element} : outcome{};
  }();
};

/// All operations of a list that are taken with elements of a type and give complex numbers, or others, as one
/// function, and its results.
template <class T, bool Complex, class... F>
struct all_taken {
  template <class G>
  static constexpr bool has = trial<G, T>::found.taken && cleave::is_complex(trial<G, T>::found.result) == Complex;

  template <class A, class B, class I>
  constexpr auto operator()(const A& x, const B& y, const I& i) const {
    const auto one = [&]<class G>(const G& f) {
      if constexpr (has<G>) return std::tuple(summed(f(x, y, i)));
      else return std::tuple<>();
    };
    return std::tuple_cat(one(F{})...);
  }
  static auto results(const cleave::grid& g) {
    const auto one = [&]<class G>(const G&) {
      if constexpr (has<G>)
        return std::tuple(Number<typename cleave::element_type<trial<G, T>::found.result>::type>(g, {}));
      else return std::tuple<>();
    };
    return std::tuple_cat(one(F{})...);
  }
};

template <class T>
void fill(T& t) {
  using E = typename T::element_type;
  t.fill_by([](const auto& at) {
    double sum = 1;
    for (std::size_t i = 0; i < at.size(); ++i)
      sum += static_cast<double>(at[i] * static_cast<std::int64_t>(2 * i + 1));
    // Small integers, so that sums and products of them are exact in every type; fractions where the type has them.
    const double small = static_cast<double>(static_cast<std::int64_t>(sum) % 3) + 1;
    if constexpr (cleave::is_complex(cleave::element_of<E>)) return E(static_cast<typename E::value_type>(small));
    else return static_cast<E>(cleave::is_floating(cleave::element_of<E>) ? small / 4 : small);
  });
}

/// How far the results may be from those computed in double: a few units in the last place, times the number of
/// elements.
template <class T>
constexpr double tolerance() {
  constexpr cleave::element e = cleave::element_of<T>;
  return e == cleave::element::bf16 ? 0.1 : e == cleave::element::f16 ? 0.02 : e == cleave::element::f32 ? 1e-4 : 1e-9;
}

template <class T, bool Complex, class... F>
void run_some(const std::tuple<F...>&) {
  using functions = all_taken<T, Complex, F...>;
  constexpr cleave::function f(functions{});
  for (const cleave::grid& g : support::grids(mesh)) {
    X<T> x(g, {6, 4});
    Y<T> y(g, {6, 4});
    Indices i(g, {5});
    fill(x);
    fill(y);
    i.fill_by([](const auto& at) { return static_cast<std::int32_t>(at[0] % 3); });
    auto results = functions::results(g);
    if constexpr (Complex || cleave::is_complex(cleave::element_of<T>)) {
      // The evaluator has no complex numbers.
      f(x, y, i).into(results);
    } else {
      std::apply([&](auto&... t) { support::check(f, std::tie(t...), tolerance<T>(), x, y, i); }, results);
    }
  }
}
template <class T, class... F>
void run(const std::tuple<F...>& list) {
  constexpr std::size_t real = std::tuple_size_v<decltype(all_taken<T, false, F...>::results({}))>,
                        complex = std::tuple_size_v<decltype(all_taken<T, true, F...>::results({}))>;
  static_assert(real + complex > 0);
  if constexpr (real > 0) run_some<T, false>(list);
  if constexpr (complex > 0) run_some<T, true>(list);
}
template <class... F>
constexpr std::tuple<derivative_of<F>...> derivatives_of(const std::tuple<F...>&) {
  return {};
}

template <class T>
void run_all() {
  run<T>(elementwise);
  run<T>(others);
  if constexpr (cleave::is_floating(cleave::element_of<T>)) {
    run<T>(derivatives_of(elementwise));
    run<T>(derivatives_of(others));
  }
}

} // namespace every_element
