// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/simulate/scalar.hpp>

namespace cleave::inline v0::detail {

/// The factors of a scaled product: alpha, and beta of the array that is added. Both may depend on numbers in memory.
class scaling {
 public:
  [[gnu::cold]] scaling(const binder& b, const step& s) {
    for (const fused_op& o : fused_ops_of(b.program, s)) {
      entry& made = entries_.emplace_back(entry{o, 0, 0});
      if (o.code != op::input) {
        made.number = role_of(o.code) == fused_role::operation ? 0 : literal_of(o, b.at);
      } else if (o.arg == 0) {
        made.of_product = 1;
      } else if (const buffer& x = b.operand(s, o.arg); x.type.rank > 0) {
        made.of_product = -1;
        addend_ = s.in[o.arg];
      } else {
        made.buffer = s.in[o.arg];
        read_ = true;
      }
    }
  }
  /// Whether an array is added; its buffer.
  bool adds() const { return addend_ != no_buffer; }
  std::size_t addend() const { return addend_; }
  /// Whether the factors depend on numbers in memory.
  bool reads_numbers() const { return read_; }

  double alpha(const indexed_vector<void*>& at) const { return factor(at, 1); }
  double beta(const indexed_vector<void*>& at) const { return adds() ? factor(at, -1) : 0; }

 private:
  static constexpr std::size_t no_buffer = ~std::size_t{0};
  struct entry {
    fused_op what;
    double number;
    /// 1: it stands for the product; -1: for the addend.
    int of_product;
    std::size_t buffer = no_buffer;
  };

  /// The expression is linear: its value for 1 in place of one array and 0 in place of the other.
  [[gnu::cold]] double factor(const indexed_vector<void*>& at, int of_product) const {
    double value[max_fused_ops] = {};
    for (std::size_t t = 0; t < entries_.size(); ++t) {
      const entry& e = entries_[t];
      const fused_op& o = e.what;
      if (e.of_product != 0) value[t] = e.of_product == of_product ? 1 : 0;
      else if (e.buffer != no_buffer) value[t] = host_number(at[e.buffer], o.type).floating();
      else if (role_of(o.code) != fused_role::operation) value[t] = e.number;
      else
        value[t] = rounded_to(o.type, simulation::applied(o.code, o.type, o.type, value[o.in[0]], value[o.in[1]], 0));
    }
    return value[entries_.size() - 1];
  }

  indexed_vector<entry> entries_{};
  std::size_t addend_ = no_buffer;
  bool read_ = false;
};

} // namespace cleave::inline v0::detail
