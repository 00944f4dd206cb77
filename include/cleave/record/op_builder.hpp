// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/record/recorder.hpp>

namespace cleave { inline namespace v0 { namespace detail {

/// Records elementwise operations for one line of a program, for rules that are made of several. Operands broadcast in
/// the outer form: none needs to have all dims.
class op_builder {
 public:
  constexpr op_builder(recorder& in, source where) : in_(in), where_(where) {}

  template <class... Values>
  constexpr value operator()(op code, Values... operands) const {
    return in_.elementwise(code, std::array<value, sizeof...(Values)>{operands...}, where_, element::none, true);
  }
  constexpr value number(double x, element e) const { return in_.constant(x, e, where_); }
  constexpr value cast(value x, element to) const { return in_.elementwise(op::cast, std::array{x}, where_, to); }
  /// The index along a dim, in 64 bits.
  constexpr value index(dim_id d) const {
    const dim_info& i = in_.made().dims[d];
    return in_.iota(i.ref(), element::i64, where_);
  }

 private:
  recorder& in_;
  source where_;
};

}}} // namespace cleave::v0::detail
