// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/as_size.hpp>
#include <cleave/expr/values.hpp>
#include <cleave/stencil/field.hpp>

// Several steps for one exchange of halos: what lies around a shard is computed again by each device that needs it.

namespace cleave::inline v0::stencil {

namespace detail {

/// Calls f(offset) for all offsets that so many stencils reach.
template <std::size_t Rank, class F>
constexpr void for_each_reached(std::int64_t steps, std::int64_t width, neighbourhood which, const F& f) {
  const std::int64_t reach = steps * width;
  offsets<Rank> o{};
  for (std::int64_t& n : o) n = -reach;
  for (std::size_t d = 0; d < Rank;) {
    if (steps_to(o, width, which) <= steps) f(std::as_const(o));
    for (d = 0; d < Rank && ++o[d] > reach; ++d) o[d] = -reach;
  }
}

/// The fields of a step: what it computes anew, and what stays.
template <int Steps, neighbourhood Which, int Width, Dim... D>
class stepper {
 public:
  static constexpr std::size_t rank = sizeof...(D);
  using field_type = field<Which, Width, D...>;

  template <class F, class... Fields>
  static constexpr auto run(const F& f, const Fields&... given) {
    constexpr std::size_t count = sizeof...(Fields);
    if constexpr (Steps == 1) return f(given...);
    else {
      // No std::array: of its elements nvcc destroys the first alone in constant evaluation.
      indexed_vector<level<rank>> before(count), after(count);
      std::array<bool, count> moves{};
      const auto step_at = [&](const offsets<rank>& o, bool first) {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
          return f(field_type(given, !first && moves[I] ? &before[I] : nullptr, o)...);
        }(std::make_index_sequence<count>{});
      };
      for (int done = 1; done < Steps; ++done) {
        for (level<rank>& l : after) {
          l.reach = std::int64_t{Steps - done} * Width;
          l.at.clear();
          std::size_t places = 1;
          for (std::size_t d = 0; d < rank; ++d) places *= as_size(2 * l.reach + 1);
          l.at.resize(places, value{});
        }
        std::size_t results = 0;
        for_each_reached<rank>(Steps - done, Width, Which, [&](const offsets<rank>& o) {
          const indexed_vector<value> made = values_of(step_at(o, done == 1));
          results = made.size();
          for (std::size_t i = 0; i < made.size() && i < count; ++i) after[i].at[after[i].place(o)] = made[i];
        });
        for (std::size_t i = 0; i < count; ++i) moves[i] = i < results;
        before.swap(after);
      }
      return step_at(offsets<rank>{}, false);
    }
  }
};

} // namespace detail

/// `Steps` steps of f for one exchange of halos (temporal blocking): `advance<2>(f, star<1>(u, along(row, periodic)))`.
/// f takes the fields, all with the same dims and the same neighbourhood, and returns the new values of the first of
/// them, or of all: a value, or an aggregate of values in their order. The remaining fields stay the same in all steps:
/// coefficients. Whatever f reads with dims of the domain must be one of the fields.
///
/// The result is that of `Steps` single steps, bit for bit. Communication: one exchange, of halos that are `Steps *
/// Width` wide. A step is computed again at each offset that later steps read: f is evaluated 6 times for two steps of
/// a star in two dims, 44 times for four steps. That pays where messages cost more than elements. Domains are at least
/// `Steps * Width + 1` elements long. Faults: neighbour_too_far, and those of f.
template <int Steps, class F, neighbourhood Which, int Width, Dim... D, std::same_as<field<Which, Width, D...>>... Rest>
  requires(Steps > 0)
constexpr auto advance(const F& f, const field<Which, Width, D...>& first, const Rest&... rest) {
  return detail::stepper<Steps, Which, Width, D...>::run(f, first, rest...);
}

} // namespace cleave::inline v0::stencil
