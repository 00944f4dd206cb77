// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/fields.hpp>
#include <cleave/base/indexed_vector.hpp>

#include <array>
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
#pragma clang diagnostic ignored "-Wundefined-internal"
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

namespace detail {
/// A name to which parts are added: clang's constants have no std::string.
class growing_name {
 public:
  constexpr explicit growing_name(std::string_view text) { add(text); }
  constexpr std::string_view view() const { return {letters_.data(), letters_.size()}; }
  constexpr growing_name with_field(std::string_view name) const {
    growing_name made = *this;
    if (!made.view().empty()) made.add(".");
    made.add(name);
    return made;
  }
  constexpr growing_name with_number(std::size_t number, bool in_brackets) const {
    growing_name digits("");
    for (std::size_t rest = number; rest != 0 || digits.view().empty(); rest /= 10)
      digits.letters_.insert(digits.letters_.begin(), static_cast<char>('0' + rest % 10));
    if (!in_brackets) return with_field(digits.view());
    growing_name made = *this;
    made.add("[");
    made.add(digits.view());
    made.add("]");
    return made;
  }

 private:
  constexpr void add(std::string_view text) {
    for (const char c : text) letters_.push_back(c);
  }
  indexed_vector<char> letters_{};
};

template <template <class> class Leaf, class A, class F>
constexpr void visit_named_leaves(const growing_name& name, F& f) {
  if constexpr (Leaf<A>::value) {
    f.template operator()<A>(name.view());
  } else if constexpr (is_std_array<A>) {
    for (std::size_t i = 0; i < std::tuple_size_v<A>; ++i)
      visit_named_leaves<Leaf, typename A::value_type>(name.with_number(i, true), f);
  } else if constexpr (is_tuple<A>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (visit_named_leaves<Leaf, std::tuple_element_t<I, A>>(name.with_number(I, false), f), ...);
    }(std::make_index_sequence<std::tuple_size_v<A>>{});
  } else if constexpr (!std::is_empty_v<A>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (visit_named_leaves<Leaf, typename fields_of<A>::template type<I>>(name.with_field(fields_of<A>::names[I]), f),
       ...);
    }(std::make_index_sequence<fields_of<A>::count>{});
  }
}
} // namespace detail

/// Calls `f.operator()<Leaf>(name)` for each leaf of nested aggregates, std::array, std::tuple and std::pair, in
/// the order of `for_each_leaf`: `layers.attention.query`, `weights[2]`, `1.bias` of a tuple. `before` is the name of
/// the whole.
template <template <class> class Leaf, class A, class F>
constexpr void for_each_named_leaf(std::string_view before, F&& f) {
  detail::visit_named_leaves<Leaf, A>(detail::growing_name(before), f);
}

/// Whether a name fits a pattern in which `*` stands for any letters.
constexpr bool fits(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*')
    return !name.empty() && name.front() == pattern.front() && fits(name.substr(1), pattern.substr(1));
  for (std::size_t skipped = 0; skipped <= name.size(); ++skipped)
    if (fits(name.substr(skipped), pattern.substr(1))) return true;
  return false;
}

}} // namespace cleave::v0
