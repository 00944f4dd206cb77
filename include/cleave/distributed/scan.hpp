// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/operation.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/storage/memory.hpp>

namespace cleave { inline namespace v0 {

namespace comm {

/// The reduction of each device's values over the devices whose blocks of a sharded dim come before its own, or after
/// it; the identity if there is none. The values of recurrences are segments; all zeros if there is none.
/// Communication: MPI_Exscan of the values; nothing over axes of size 1.
class prefix_scan {
 public:
  /// Collective over the grid when these axes are requested in this order for the first time.
  prefix_scan(grid_state& grid, axis_list list, bool backwards, reduction how, element e, std::int64_t elements)
      : prefix_scan(grid, list, backwards, how, e, elements, reduced_datatype_of(how, e), operation_of(how, e)) {}
  static prefix_scan* of_recurrence(grid_state& grid, axis_list list, bool backwards, element e,
                                    std::int64_t elements) {
    const element pair = affine_element(e);
    return new prefix_scan(grid, list, backwards, reduction::sum, pair, elements, datatype_of(pair),
                           operation_of_recurrence(e));
  }
  bool communicates() const { return group_.size > 1; }
  std::int64_t host_bytes() const { return communicates() ? port_.host_bytes(bytes(), bytes()) : 0; }

  void run(const void* in, void* out, char* host) const {
    port_.call(in, bytes(), out, bytes(), host, [&](const void* from, void* into) {
      for_each_call(elements_, [&](std::int64_t first, call_count n) {
        check(CLEAVE_MPI_CALL(MPI_Exscan)(element_at(from, first, element_), element_at(into, first, element_), n,
                                          datatype_, operation_, group_.handle),
              "MPI_Exscan");
      });
    });
    if (group_.rank == 0) fill_identity(out, elements_, element_, combine_);
  }

 private:
  prefix_scan(grid_state& grid, axis_list list, bool backwards, reduction how, element e, std::int64_t elements,
              MPI_Datatype datatype, MPI_Op operation)
      : element_(e), combine_(how), elements_(elements), datatype_(datatype), operation_(operation) {
    if (grid.sizes().product(list) > 1) group_ = grid.in_order(list, backwards);
  }
  std::int64_t bytes() const { return elements_ * size_of(element_); }

  element element_;
  reduction combine_;
  std::int64_t elements_;
  MPI_Datatype datatype_;
  MPI_Op operation_;
  port port_{};
  group group_{};
};

} // namespace comm

/// Running totals along the middle dim of an array [outer][length][inner], and the total of each slice.
template <reduction How, class T>
struct scan_block {
  const T* from;
  T* to;
  T* totals;
  std::int64_t length, inner;
  bool backwards, exclusive;

  CLEAVE_FUNCTION void operator()(std::int64_t slice) const {
    const std::int64_t start = slice / inner * length * inner + slice % inner;
    computed<T> total = identity_of<How, computed<T>>;
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t at = start + (backwards ? length - 1 - k : k) * inner;
      const computed<T> before = total;
      total = combined<How, computed<T>>(total, static_cast<computed<T>>(from[at]));
      to[at] = T(exclusive ? before : total);
    }
    totals[slice] = T(total);
  }
};
/// Combines the total of the devices before with every element of a slice.
template <reduction How, class T>
struct scan_continue {
  T* to;
  const T* before;
  std::int64_t length, inner;

  CLEAVE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t slice = i / (length * inner) * inner + i % inner;
    to[i] = combined<How, T>(before[slice], to[i]);
  }
};

/// Linear recurrences w_k = x_k + f_k w_(k-1) along the middle dim of arrays [outer][length][inner]: each slice goes on
/// from the elements before it, if there are any.
template <class T>
struct recurrence_block {
  const T *from, *factors;
  T* to;
  const comm::affine<T>* before;
  std::int64_t length, inner;
  bool backwards, exclusive;

  CLEAVE_FUNCTION void operator()(std::int64_t slice) const {
    const std::int64_t start = slice / inner * length * inner + slice % inner;
    computed<T> total = before != nullptr ? static_cast<computed<T>>(before[slice].total) : computed<T>(0);
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t at = start + (backwards ? length - 1 - k : k) * inner;
      const computed<T> so_far = total;
      total = static_cast<computed<T>>(from[at]) + static_cast<computed<T>>(factors[at]) * total;
      to[at] = T(exclusive ? so_far : total);
    }
  }
};
/// The function of each slice of the elements before it.
template <class T>
struct recurrence_stretch {
  const T *from, *factors;
  comm::affine<T>* made;
  std::int64_t length, inner;
  bool backwards;

  CLEAVE_FUNCTION void operator()(std::int64_t slice) const {
    const std::int64_t start = slice / inner * length * inner + slice % inner;
    computed<T> factor(1), total(0);
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t at = start + (backwards ? length - 1 - k : k) * inner;
      const computed<T> f = static_cast<computed<T>>(factors[at]);
      total = static_cast<computed<T>>(from[at]) + f * total;
      factor = f * factor;
    }
    made[slice] = {T(factor), T(total)};
  }
};

/// Running totals bound to sizes.
struct bound_scan {
  std::int64_t outer = 0, length = 0, inner = 0;
  bool backwards = false, exclusive = false;
  /// The numbers that are kept of each slice.
  element kept = element::none;
  owned<comm::prefix_scan> over{};

  std::int64_t slices() const { return outer * inner; }
  std::int64_t kept_bytes() const { return comm::aligned(slices() * size_of(kept)); }
  /// The totals of this device, and those of the devices before it.
  comm::scratch_bytes needs() const { return {(over->communicates() ? 2 : 1) * kept_bytes(), over->host_bytes()}; }
};

template <class T, reduction How>
void run_scan(const bound_scan& b, const void* in, const void*, void* out, const comm::scratch& s) {
  T* const totals = reinterpret_cast<T*>(s.memory);
  T* const before = reinterpret_cast<T*>(s.memory + b.kept_bytes());
  launch("cleave scan", b.slices(),
         scan_block<How, T>{as<T>(in), as<T>(out), totals, b.length, b.inner, b.backwards, b.exclusive});
  if (!b.over->communicates()) return;
  b.over->run(totals, before, s.host);
  launch("cleave scan", b.slices() * b.length, scan_continue<How, T>{as<T>(out), before, b.length, b.inner});
}
template <class T>
void run_recurrence(const bound_scan& b, const void* in, const void* factors, void* out, const comm::scratch& s) {
  auto* const made = reinterpret_cast<comm::affine<T>*>(s.memory);
  auto* before = reinterpret_cast<comm::affine<T>*>(s.memory + b.kept_bytes());
  if (b.over->communicates()) {
    launch("cleave recurrence", b.slices(),
           recurrence_stretch<T>{as<T>(in), as<T>(factors), made, b.length, b.inner, b.backwards});
    b.over->run(made, before, s.host);
  } else {
    before = nullptr;
  }
  launch("cleave recurrence", b.slices(),
         recurrence_block<T>{as<T>(in), as<T>(factors), as<T>(out), before, b.length, b.inner, b.backwards,
                             b.exclusive});
}

}} // namespace cleave::v0
