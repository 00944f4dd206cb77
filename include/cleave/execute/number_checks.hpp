// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>
#include <cstring>

namespace cleave { inline namespace v0 {

/// The numbers of a statement that take the element type of a tensor, which has to hold them.
class number_checks {
 public:
  [[gnu::cold]] explicit number_checks(const program_view& p) {
    for (const step& s : p.steps) {
      const indexed_span<const fused_op> all = fused_ops_of(p, s);
      for (const fused_op& o : all) {
        if (role_of(o.code) != fused_role::operation || o.scalar != is_number_that_fits) continue;
        const fused_op& given = all[o.in[0]];
        if (given.code == op::input && s.in[given.arg] < p.arguments)
          numbers_.push_back({s.in[given.arg], given.type, o.type});
      }
    }
  }
  /// `data` gives the address of an argument that is a number in memory of the host; null of a tensor. Throws
  /// number_error if the type of a tensor cannot hold the number, on all ranks, since they have the same number.
  template <class Data>
  void check(const Data& data) const {
    for (const number& n : numbers_) {
      const void* const at = data(n.argument);
      if (at == nullptr) continue;
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, at, std::min(sizeof bytes, as_size(size_of(n.given))));
      const host_number given(bytes, n.given);
      if (is_floating(n.given) ? !has_number(n.type, given.floating())
                               : !has_integer(n.type, given.integer(), n.given == element::u64))
        raise<number_error>(wording::number_does_not_fit(given.text(), name_of(n.type)));
    }
  }

 private:
  struct number {
    std::size_t argument;
    element given, type;
  };
  indexed_vector<number> numbers_{};
};

}} // namespace cleave::v0
