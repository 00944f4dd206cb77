// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/mpi.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <cstdint>
#include <mutex>

// The MPI operations that combine partial values. All operations of reductions are commutative bit by bit: if an
// all-reduce pairs values in different orders on different ranks, all ranks still hold the same bits.

namespace cleave { inline namespace v0 { namespace comm {

/// The affine map x -> total + factor * x of a segment of a linear recurrence.
template <class T>
struct affine {
  T factor, total;
};
/// The MPI element of such a map, by its size.
constexpr element affine_element(element e) {
  return e == element::f64 ? element::c128 : e == element::f32 ? element::u64 : element::u32;
}

namespace detail {

/// Of two zeros +0 is greater; NaN wins, and has one bit pattern. With a plain comparison the order of the operands
/// would decide, which differs between ranks.
template <reduction How, class T>
T agreed(T a, T b) {
  const computed<T> x = a, y = b;
  if (x != x || y != y) return T(std::numeric_limits<computed<T>>::quiet_NaN());
  if (x == y) return std::signbit(x) == (How == reduction::max) ? b : a;
  return (x > y) == (How == reduction::max) ? a : b;
}

/// A logarithm of a sum, compiled once for float and the 16-bit types.
template <class Computed>
[[gnu::noinline]] Computed log_of_two(Computed a, Computed b) {
  return combined<reduction::logsumexp>(a, b);
}
/// The function for MPI: inout[i] = in[i] (How) inout[i].
template <reduction How, class T>
void combine(void* in, void* inout, int* count, MPI_Datatype*) {
  const T* from = as<T>(in);
  T* into = as<T>(inout);
  for (int i = 0; i < *count; ++i) {
    if constexpr (How == reduction::max || How == reduction::min) into[i] = agreed<How>(from[i], into[i]);
    else if constexpr (How == reduction::logsumexp) into[i] = T(log_of_two<computed<T>>(from[i], into[i]));
    else into[i] = combined<How>(from[i], into[i]);
  }
}

template <class T>
MPI_User_function* sum_or_product(reduction r) {
  return r == reduction::sum    ? &combine<reduction::sum, T>
         : r == reduction::prod ? &combine<reduction::prod, T>
                                : nullptr;
}
template <class T>
MPI_User_function* floating_function(reduction r) {
  switch (r) {
    case reduction::max: return &combine<reduction::max, T>;
    case reduction::min: return &combine<reduction::min, T>;
    case reduction::logsumexp: return &combine<reduction::logsumexp, T>;
    default: return std::is_same_v<T, computed<T>> ? nullptr : sum_or_product<T>(r);
  }
}
/// Null if MPI has the operation. 16-bit numbers are added in float and rounded. Integers of one byte wrap; the vector
/// code of Open MPI saturates their sums (open-mpi/ompi#8045).
inline MPI_User_function* own_function(reduction r, element e) {
  switch (e) {
    case element::i8: return sum_or_product<std::int8_t>(r);
    case element::u8: return sum_or_product<std::uint8_t>(r);
    case element::bf16: return floating_function<bfloat16>(r);
    case element::f16: return floating_function<half>(r);
    case element::f32: return floating_function<float>(r);
    case element::f64: return floating_function<double>(r);
    default: return nullptr;
  }
}

/// The function for MPI: inout[i] = in[i], and then inout[i].
template <class T>
void join_affine(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* from = as<affine<T>>(in);
  auto* into = as<affine<T>>(inout);
  for (int i = 0; i < *count; ++i) {
    const computed<T> factor = into[i].factor, total = into[i].total;
    into[i] = {T(factor * static_cast<computed<T>>(from[i].factor)),
               T(total + factor * static_cast<computed<T>>(from[i].total))};
  }
}
inline MPI_User_function* affine_function(element e) {
  switch (e) {
    case element::bf16: return &join_affine<bfloat16>;
    case element::f16: return &join_affine<half>;
    case element::f32: return &join_affine<float>;
    default: return &join_affine<double>;
  }
}

/// The MPI operation of a function. It is created at the first use and kept until MPI ends; each rank may create it at
/// any time, without communication.
[[gnu::cold]] inline MPI_Op own_operation(MPI_User_function* function, bool commutes) {
  struct kept_operation {
    MPI_User_function* function;
    MPI_Op operation;
  };
  static std::mutex one_at_a_time;
  static indexed_vector<kept_operation> kept;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  for (const kept_operation& k : kept)
    if (k.function == function) return k.operation;
  kept_operation made{function, MPI_OP_NULL};
  check(MPI_Op_create(function, commutes ? 1 : 0, &made.operation), "MPI_Op_create");
  kept.push_back(made);
  return made.operation;
}

} // namespace detail

/// The operation of a reduction. Sum and product of bool are "any" and "all".
[[gnu::cold]] inline MPI_Op operation_of(reduction r, element e) {
  if (MPI_User_function* const own = detail::own_function(r, e)) return detail::own_operation(own, true);
  switch (r) {
    case reduction::sum: return e == element::boolean ? MPI_MAX : MPI_SUM;
    case reduction::max: return MPI_MAX;
    case reduction::min: return MPI_MIN;
    case reduction::prod: return e == element::boolean ? MPI_MIN : MPI_PROD;
    // Only floating-point numbers have it.
    case reduction::logsumexp: return MPI_OP_NULL;
  }
  return MPI_SUM;
}

/// The operation that composes segments of recurrences, in the order of the ranks.
inline MPI_Op operation_of_recurrence(element e) { return detail::own_operation(detail::affine_function(e), false); }

/// The datatype of an element in a reduction. Sums and products of signed integers wrap, which the language defines for
/// unsigned ones only; the bits are the same.
inline MPI_Datatype reduced_datatype_of(reduction r, element e) {
  if (r == reduction::sum || r == reduction::prod) {
    if (e == element::i32) return MPI_UINT32_T;
    if (e == element::i64) return MPI_UINT64_T;
  }
  return datatype_of(e);
}

/// Combines partial values on all ranks by MPI. `from` may be `into`.
inline void all_reduce_by_mpi(const void* from, void* into, std::int64_t elements, element e, reduction how,
                              MPI_Comm among) {
  for_each_call(elements, [&](std::int64_t first, call_count n) {
    check(CLEAVE_MPI_CALL(MPI_Allreduce)(from == into ? MPI_IN_PLACE : element_at(from, first, e),
                                         element_at(into, first, e), n, reduced_datatype_of(how, e),
                                         operation_of(how, e), among),
          "MPI_Allreduce");
  });
}
/// Combines values on this rank, as MPI does. Its call has counts of type int only.
inline void combine_here(const void* from, void* into, std::int64_t elements, element e, reduction how) {
  constexpr std::int64_t most = 1 << 30;
  for (std::int64_t first = 0; first < elements; first += most)
    check(MPI_Reduce_local(element_at(from, first, e), element_at(into, first, e),
                           as_int(std::min(elements - first, most)), reduced_datatype_of(how, e), operation_of(how, e)),
          "MPI_Reduce_local");
}

}}} // namespace cleave::v0::comm
