// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/mpi.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/storage/memory.hpp>

#include <cstdint>
#include <type_traits>

// How MPI combines partial values. All operations are commutative bit by bit, for in whatever order an all-reduce meets
// the partial values on different ranks, its pairs are the same: so all ranks hold the same bits.

namespace cleave::inline v0::comm {

namespace detail {

/// Of two zeros the greatest is +0; NaN wins, and has one bit pattern. A plain comparison would let the order of the
/// operands decide, which differs between ranks.
template <reduction How, class T>
T agreed(T a, T b) {
  const computed<T> x = a, y = b;
  if (x != x || y != y) return T(std::numeric_limits<computed<T>>::quiet_NaN());
  if (x == y) return std::signbit(x) == (How == reduction::max) ? b : a;
  return (x > y) == (How == reduction::max) ? a : b;
}

/// What MPI calls: inout[i] = in[i] (How) inout[i].
template <reduction How, class T>
void combine(void* in, void* inout, int* count, MPI_Datatype*) {
  const T* from = as<T>(in);
  T* into = as<T>(inout);
  for (int i = 0; i < *count; ++i) {
    if constexpr (How == reduction::max || How == reduction::min) into[i] = agreed<How>(from[i], into[i]);
    else into[i] = combined<How>(from[i], into[i]);
  }
}

/// Made at the first use and kept until MPI ends, which every rank may do when it likes: making one communicates
/// nothing.
template <reduction How, class T>
MPI_Op own_operation() {
  static const MPI_Op operation = [] {
    MPI_Op made = MPI_OP_NULL;
    check(MPI_Op_create(&combine<How, T>, 1, &made), "MPI_Op_create");
    return made;
  }();
  return operation;
}
template <class T>
MPI_Op own_operation(reduction r) {
  switch (r) {
    case reduction::sum: return own_operation<reduction::sum, T>();
    case reduction::max: return own_operation<reduction::max, T>();
    case reduction::min: return own_operation<reduction::min, T>();
    case reduction::prod: return own_operation<reduction::prod, T>();
  }
  return MPI_OP_NULL;
}

} // namespace detail

/// The operation of a reduction. Sum and product of bool are "any" and "all". 16-bit numbers are added in float and
/// rounded. Integers of one byte wrap. The vector code of Open MPI saturates their sums (open-mpi/ompi#8045), so they
/// have an operation of their own.
inline MPI_Op operation_of(reduction r, element e) {
  const bool chooses = r == reduction::max || r == reduction::min;
  switch (e) {
    case element::i8:
      if (!chooses) return detail::own_operation<std::int8_t>(r);
      break;
    case element::u8:
      if (!chooses) return detail::own_operation<std::uint8_t>(r);
      break;
    case element::bf16: return detail::own_operation<bfloat16>(r);
    case element::f16: return detail::own_operation<half>(r);
    case element::f32:
      if (chooses) return detail::own_operation<float>(r);
      break;
    case element::f64:
      if (chooses) return detail::own_operation<double>(r);
      break;
    default: break;
  }
  switch (r) {
    case reduction::sum: return e == element::boolean ? MPI_MAX : MPI_SUM;
    case reduction::max: return MPI_MAX;
    case reduction::min: return MPI_MIN;
    case reduction::prod: return e == element::boolean ? MPI_MIN : MPI_PROD;
  }
  return MPI_SUM;
}

/// The datatype in which a reduction sees an element. Sums and products of signed integers wrap, which only unsigned
/// ones do by rule; the bits are the same.
inline MPI_Datatype reduced_datatype_of(reduction r, element e) {
  if (r == reduction::sum || r == reduction::prod) {
    if (e == element::i32) return MPI_UINT32_T;
    if (e == element::i64) return MPI_UINT64_T;
  }
  return datatype_of(e);
}

} // namespace cleave::inline v0::comm
