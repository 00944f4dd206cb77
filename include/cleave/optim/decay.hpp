// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/tree_by_name.hpp>
#include <cleave/optim/leaves.hpp>

#include <initializer_list>
#include <string_view>

namespace cleave { inline namespace v0 { namespace optim {

/// Weights after decoupled decay (Loshchilov and Hutter 2019): weights - by * weights, except for leaves whose names
/// fit one of the patterns, in which `*` stands for any letters: `decayed(w, rate * 0.1, {"*.bias", "*norm*"})`. `by`
/// is a number or a rank-0 value. The step of an optimizer without decay follows: that of AdamW, Lion or SGD. 16-bit
/// leaves are computed in float and rounded once. No communication.
template <class Weights, class By>
constexpr Weights decayed(const Weights& weights, const By& by, std::initializer_list<std::string_view> except,
                          source where = source::here()) {
  const called_at user(operand(values_of(weights).front(), where.file, where.line), "decayed");
  const auto share = detail::widened_number(by);
  return tree_map_by_name(
      [&](std::string_view name, const value& w) {
        for (const std::string_view pattern : except)
          if (fits(name, pattern)) return w;
        const value wide = widened(w);
        return in_type(wide - share * wide, element_in(w));
      },
      weights);
}

}}} // namespace cleave::v0::optim
