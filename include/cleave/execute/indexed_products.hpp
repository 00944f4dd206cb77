// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/steps/gemm.hpp>
#include <cleave/execute/steps/rows.hpp>

// A look-up and the small products that read it, such as a sparse matrix and a vector, are one pass: the products read
// the table at the indices, and the rows are not stored. Both orders of summation are the same.

namespace cleave { inline namespace v0 { namespace detail {

template <class = void>
class looked_up_products final : public step_group {
 public:
  /// Steps `i` and `i + 1` of a program, of which the first feeds the other (step::feeds_product).
  [[gnu::cold]] looked_up_products(const binder& b, const bound_step& rows, const bound_step& products, std::size_t i)
      : rows_(static_cast<const gather_step<>&>(rows).rows()), products_(static_cast<const gemm_step<>&>(products)),
        gather_(b.program.steps[i]), gemm_(b.program.steps[i + 1]), looked_up_(gemm_.in[0] == gather_.out ? 0 : 1) {
    first = i;
    last = i + 2;
    for (int k = 0; k < 2; ++k) bytes_[k] = b.bytes(b.operand(gather_, as_size(k)));
    bytes_[2] = b.bytes(b.result(gemm_));
  }
  /// On this device. A profiler sees each step.
  bool possible() const { return rows_.feeds(products_.small(), looked_up_) && !Kokkos::Tools::profileLibraryLoaded(); }

  bool run(run_state& r) override {
    if (r.checks != nullptr) return false;
    void* const result = r.at[gemm_.out];
    const operand_addresses in(r, gather_);
    // From here on all devices make the same communication calls, whatever their addresses are.
    rows_.fetch(in.from);
    const void* const values = r.at[gemm_.in[1 - as_size(looked_up_)]];
    if (!overwrites(r, result) && rows_.run_products(products_.small(), looked_up_, in.from, values, result))
      return true;
    rows_.put_rows(in.from, r.at[gather_.out]);
    r.steps[first + 1]->run(r);
    return true;
  }

 private:
  /// Whether the result overwrites the table or the indices, which are free once the rows are stored.
  bool overwrites(const run_state& r, const void* result) const {
    return share_bytes(r.at[gather_.in[0]], bytes_[0], result, bytes_[2]) ||
           share_bytes(r.at[gather_.in[1]], bytes_[1], result, bytes_[2]);
  }

  comm::row_lookup& rows_;
  const gemm_step<>& products_;
  const step &gather_, &gemm_;
  int looked_up_;
  /// Of the table, of the indices, of the result.
  std::int64_t bytes_[3]{};
};

template <class = void>
[[gnu::cold]] void find_indexed_products(const binder& b, const indexed_vector<owned<bound_step>>& steps,
                                         indexed_vector<owned<step_group>>& groups) {
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (!b.program.steps[i].feeds_product) continue;
    owned<looked_up_products<>> group(new looked_up_products<>(b, *steps[i], *steps[i + 1], i));
    // A device with few rows would leave them to the library. The steps of a group communicate otherwise than alone.
    if (b.grid.holds_everywhere(group->possible())) groups.push_back(std::move(group));
  }
}

}}} // namespace cleave::v0::detail
