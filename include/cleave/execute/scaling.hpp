// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/ops/meaning.hpp>

#include <cmath>

namespace cleave { inline namespace v0 { namespace detail {

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
    numbers_.resize(entries_.size());
    value_.resize(entries_.size());
  }
  /// Whether an array is added; its buffer.
  bool adds() const { return addend_ != no_buffer; }
  std::size_t addend() const { return addend_; }
  /// Whether the factors depend on numbers in memory.
  bool reads_numbers() const { return read_; }

  /// Of the product and of the array that is added.
  struct factors {
    double alpha = 1, beta = 0;
    /// Whether a library may multiply by them. Its order of the multiplications is another one, so factors must be far
    /// from the ends of the range of float; 0 is a factor if a number is 0.
    bool moderate = true;
  };
  [[gnu::cold]] factors factors_for(const indexed_vector<void*>& at) const {
    const double* const numbers = read_numbers(at);
    bool any_zero = false;
    for (std::size_t t = 0; t < entries_.size(); ++t)
      any_zero = any_zero || (entries_[t].buffer != no_buffer && numbers[t] == 0);
    const auto is_moderate = [&](double f) {
      const double size = std::fabs(f);
      return (size >= 0x1p-60 && size <= 0x1p60) || (f == 0 && any_zero);
    };
    const double alpha = evaluated<double>(numbers, 1, 0), beta = adds() ? evaluated<double>(numbers, 0, 1) : 0;
    return {alpha, beta, !read_ || (is_moderate(alpha) && (!adds() || is_moderate(beta)))};
  }
  /// Numbers in memory, and literals; by entry.
  [[gnu::cold]] const double* read_numbers(const indexed_vector<void*>& at) const {
    for (std::size_t t = 0; t < entries_.size(); ++t) {
      const entry& e = entries_[t];
      numbers_[t] = e.buffer == no_buffer ? e.number : host_number(at[e.buffer], e.what.type).floating();
    }
    return numbers_.data();
  }
  /// The expression, for an element of the product and one of the array that is added. Each operation is rounded to T.
  template <class T>
  [[gnu::cold]] T evaluated(const double* numbers, T product, T addend) const {
    indexed_vector<double>& value = value_;
    const auto rounded = [](double x) { return static_cast<double>(static_cast<T>(x)); };
    for (std::size_t t = 0; t < entries_.size(); ++t) {
      const entry& e = entries_[t];
      const fused_op& o = e.what;
      if (e.of_product != 0) value[t] = static_cast<double>(e.of_product == 1 ? product : addend);
      else if (e.buffer != no_buffer || role_of(o.code) != fused_role::operation) value[t] = rounded(numbers[t]);
      else
        value[t] = rounded(
            rounded_to(o.type, plain::applied(o.code, o.type, o.type, value[o.in[0]], value[o.in[1]], 0)));
    }
    return static_cast<T>(value.back());
  }

 private:
  static constexpr std::size_t no_buffer = ~std::size_t{0};
  struct entry {
    fused_op what;
    double number;
    /// 1: it stands for the product; -1: for the addend.
    int of_product;
    std::size_t buffer = no_buffer;
  };

  indexed_vector<entry> entries_{};
  /// Of each entry the number that it reads, and its value: kept, since calls allocate nothing.
  mutable indexed_vector<double> numbers_{}, value_{};
  std::size_t addend_ = no_buffer;
  bool read_ = false;
};

}}} // namespace cleave::v0::detail
