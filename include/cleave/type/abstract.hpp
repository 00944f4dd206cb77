// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/sharding.hpp>
#include <cleave/type/narrow.hpp>

namespace cleave {

/// Element type, dims and layout without data: what a plan needs to know of a tensor (JAX's ShapeDtypeStruct).
template <class T, auto Layout>
struct abstract {
  using element_type = T;
  using sharding_type = std::remove_cvref_t<decltype(Layout)>;
  static_assert(sizeof(detail::element_said<T>) != 0);
};

/// A tensor type: with or without data, it knows its element type and sharding.
template <class A>
concept TensorType = requires {
  typename std::remove_cvref_t<A>::element_type;
  typename std::remove_cvref_t<A>::sharding_type;
};

template <class A>
concept Number = is_number<std::remove_cvref_t<A>>;

} // namespace cleave
