// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/expr/values.hpp>
#include <cleave/stencil/field.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>

// Several steps for one exchange of halos: each device computes the neighbours that later steps read around its shard.

namespace cleave { inline namespace v0 { namespace stencil {

namespace detail {

template <class T>
inline constexpr bool is_field = false;
template <neighbourhood Which, int Width, Dim... D>
inline constexpr bool is_field<field<Which, Width, D...>> = true;

} // namespace detail

/// A field that is read around an element: the result of `star` and `box`.
template <class T>
concept Field = detail::is_field<std::remove_cvref_t<T>>;

/// `Steps` steps of f for one exchange of halos (temporal blocking): `advance<2>(f, star<1>(u, along(row, periodic)))`.
/// f takes the fields and returns the new values of the first of them, or of all: a value, or an aggregate of values in
/// their order. The remaining fields stay the same in all steps: coefficients.
///
/// The result is that of `Steps` single steps, bit for bit. Communication: one exchange, of halos that are as wide as
/// all steps reach. In each step but the last one a device also computes the elements around its shard that later steps
/// read, which pays if messages take longer. A halo is fetched instead if f is not elementwise, if it reads more than
/// five arrays, or if the halo would reach more than 64 elements in total along a dim. Faults: neighbour_too_far, and
/// those of f.
template <int Steps, class F, Field... Fields>
  requires(Steps > 0 && sizeof...(Fields) > 0)
constexpr auto advance(const F& f, const Fields&... fields) {
  indexed_vector<value> made;
  const auto step = [&] {
    std::size_t i = 0;
    const auto now = [&]<Field Own>(const Own& first) {
      const std::size_t own = i++;
      return own < made.size() ? Own(first, made[own]) : first;
    };
    // In braces: from the first to the last.
    return std::apply(f, std::tuple<Fields...>{now(fields)...});
  };
  for (int done = 1; done < Steps; ++done) {
    made = values_of(step());
    for (const value& v : made)
      if (v.ok()) v.in->compute_halo(v);
  }
  return step();
}

}}} // namespace cleave::v0::stencil
