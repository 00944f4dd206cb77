// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/rejected.hpp>
#include <cleave/mesh/mesh_value.hpp>

#include <concepts>
#include <type_traits>

namespace cleave::inline v0 {

struct axis_tag {};

namespace detail {
template <text Name, std::int64_t Size>
struct axis_verdict {
  static constexpr verdict found = Name.view().empty() ? verdict{fault::name_missing, {}, "axis"}
                                   : Size == dynamic || Size > 0
                                       ? verdict{}
                                       : verdict{fault::axis_empty, {}, "axis", {}, Name.view(), 1, Size};
};
} // namespace detail

/// A mesh axis by name. Its size is given at run time or fixed in the type: `axis<"data", 8>`.
template <text Name, std::int64_t Size = dynamic>
struct axis : axis_tag {
  static_assert(sizeof(typename detail::rejection_of<detail::axis_verdict<Name, Size>>::type) != 0);
  constexpr axis() = default;
  /// A mistake: `axis data("data")`. Fault: name_missing.
  explicit constexpr axis(const char*) {}
  // A rejected size is replaced, so that it is reported once.
  static constexpr axis_info info{Name.view(), Size > 0 ? Size : dynamic};
  /// `data = 8`: a size by name, for the price of a plan.
  constexpr named_size operator=(std::int64_t size) const { return {Name.view(), size, sized_by::axis}; }
  /// A mistake: sizes are whole. Fault: not_a_whole_number.
  template <std::floating_point N>
  constexpr named_size operator=(N) const {
    return say(rejection<fault::not_a_whole_number, axis_named<Name>, N>), named_size{Name.view(), 1};
  }
};

axis(const char*) -> axis<no_name>;

/// A type derived from `axis<...>`.
template <class A>
concept MeshAxis = std::derived_from<std::remove_cvref_t<A>, axis_tag>;

} // namespace cleave::inline v0
