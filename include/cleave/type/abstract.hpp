// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/sharding.hpp>
#include <cleave/type/narrow.hpp>

namespace cleave { inline namespace v0 {

/// A tensor type without data: element type, dims and layout, which is all that a plan needs (JAX's ShapeDtypeStruct).
/// Use it to plan without Kokkos and MPI.
template <class T, auto Layout>
struct abstract {
  using element_type = T;
  using sharding_type = typename detail::sharding_of_layout<std::remove_cvref_t<decltype(Layout)>>::type;
  static_assert(sizeof(detail::checked_element<T>) != 0);
};

/// A tensor type, with or without data: it has an element type and a sharding.
template <class A>
concept TensorType = requires {
  typename std::remove_cvref_t<A>::element_type;
  typename std::remove_cvref_t<A>::sharding_type;
};

/// A number that may be an argument together with tensors.
template <class A>
concept Number = is_number<std::remove_cvref_t<A>>;

namespace detail {
/// The type in which a statement keeps a number or a tensor: a std::complex as the element type that it means.
template <class A>
struct kept_as {
  using type = A;
};
} // namespace detail

}} // namespace cleave::v0
