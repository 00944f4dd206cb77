// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/fields.hpp>

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

// The names of the fields of aggregates, which C++20 has no other way to ask for: the compiler prints a template
// argument that points to a field. (Boost.PFR, A. Polukhin.)

namespace cleave { inline namespace v0 {
namespace detail {

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif

/// An aggregate that is declared and never defined: only the names of its fields are asked for.
template <class A>
struct declared_alone {
  A value;
};
template <class A>
extern const declared_alone<A> named_object;

/// clang takes a pointer to a field as a template argument only within a class.
template <class T>
struct field_pointer {
  const T* to;
};
template <class T>
field_pointer(const T*) -> field_pointer<T>;
// `auto`: g++ would print an alias of the return type behind the field.
template <field_pointer Field>
consteval auto name_of_field() {
  const std::string_view text = __PRETTY_FUNCTION__;
  std::size_t end = text.rfind(']');
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  while (end > 0 && !is_part(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_part(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

template <class A>
struct fields_of {
  static constexpr std::size_t count = field_count<A>;
  /// A function: as a constant it would be data that refers to the object.
  static consteval auto pointers() {
    return bind_fields<count>(named_object<A>.value, [](auto&... f) { return std::tuple(&f...); });
  }
  static constexpr auto names = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<std::string_view, count>{name_of_field<field_pointer{std::get<I>(pointers())}>()...};
  }(std::make_index_sequence<count>{});
  template <std::size_t I>
  using type = std::remove_cvref_t<decltype(*std::get<I>(pointers()))>;
};

#ifdef __clang__
#pragma clang diagnostic pop
#endif

} // namespace detail

/// Calls `f.operator()<Leaf>(name)` for each leaf of nested aggregates, std::array, std::tuple and std::pair, in
/// the order of `for_each_leaf`: `layers.attention.query`, `weights[2]`, `1.bias` of a tuple.
template <template <class> class Leaf, class A, class F>
void for_each_named_leaf(const std::string& name, F&& f) {
  const std::string before = name.empty() ? name : name + ".";
  if constexpr (Leaf<A>::value) {
    f.template operator()<A>(name);
  } else if constexpr (detail::is_std_array<A>) {
    for (std::size_t i = 0; i < std::tuple_size_v<A>; ++i)
      for_each_named_leaf<Leaf, typename A::value_type>(name + "[" + std::to_string(i) + "]", f);
  } else if constexpr (detail::is_tuple<A>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (for_each_named_leaf<Leaf, std::tuple_element_t<I, A>>(before + std::to_string(I), f), ...);
    }(std::make_index_sequence<std::tuple_size_v<A>>{});
  } else if constexpr (!std::is_empty_v<A>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (for_each_named_leaf<Leaf, typename detail::fields_of<A>::template type<I>>(
           before + std::string(detail::fields_of<A>::names[I]), f),
       ...);
    }(std::make_index_sequence<detail::fields_of<A>::count>{});
  }
}

}} // namespace cleave::v0
