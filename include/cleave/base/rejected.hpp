// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/fault.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 {

/// The facts of an error, as types, so that every compiler prints them with the sentence.
template <unsigned Line>
struct line {};
template <text Name>
struct in_file {};
template <text Name>
struct op_named {};
template <text Name>
struct written_as {};
template <text Name>
struct dim_named {};
template <text Name>
struct axis_named {};
template <text Name>
struct collective_named {};
/// A repair for the operation with operands a, b, c: text in pieces, since clang prints no long ones.
/// After it the bytes that this moves, at the sizes that the plan expects.
template <text... Pieces>
struct repaired_by {};
template <std::int64_t Bytes>
struct moved_bytes {};
template <std::int64_t Number>
struct expected {};
template <std::int64_t Number>
struct got {};

/// Compared by name: in the message of a failed `!=` compilers would add the numbers of the two faults.
template <fault Found, fault Other>
inline constexpr bool is_not = Found != Other;

/// Every compile error of the library: the sentence of the fault in base/fault_list.hpp, and the facts in the template
/// arguments. No other header words faults for the compiler.
template <fault Fault, class... Facts>
struct rejected {
#define CLEAVE_FAULT(code, sentence) static_assert(is_not<Fault, fault::code>, "cleave: " sentence);
#include <cleave/base/fault_list.hpp>
};

/// Says a fault from within a function: `say(rejection<fault::name, facts...>)`. The lookup of `say` completes the
/// class. If an expression needed it complete, clang would have no constant expression any more.
constexpr void say(const void*) {}
template <fault Fault, class... Facts>
inline constexpr rejected<Fault, Facts...>* rejection = nullptr;

/// The return type of functions of a rejected plan. It satisfies every comparison, so that one fault gives one error.
struct absorbed {
  template <class T>
  constexpr operator T() const {
    return T{};
  }
  template <class T>
  friend constexpr bool operator==(absorbed, const T&) {
    return true;
  }
  template <class T>
  friend constexpr bool operator<=(absorbed, const T&) {
    return true;
  }
  template <class T>
  friend constexpr bool operator>=(absorbed, const T&) {
    return true;
  }
  template <class T>
  friend constexpr bool operator<(absorbed, const T&) {
    return true;
  }
  template <class T>
  friend constexpr bool operator>(absorbed, const T&) {
    return true;
  }
};

namespace detail {

template <std::size_t N>
constexpr text<N + 1> text_of(std::string_view before, std::string_view from = {}) {
  char chars[N + 1]{};
  for (std::size_t i = 0; i < N; ++i) chars[i] = i < before.size() ? before[i] : from[i - before.size()];
  return text<N + 1>(chars);
}

/// `Rejected` with one more fact, if it is known: the compiler prints no empty facts.
template <class Rejected, bool Known, class Fact>
struct with_fact {
  using type = Rejected;
};
template <fault Fault, class... Facts, class Fact>
struct with_fact<rejected<Fault, Facts...>, true, Fact> {
  using type = rejected<Fault, Facts..., Fact>;
};

/// Where a text is cut into pieces of at most 30 characters, after a space if there is one.
struct text_cuts {
  std::size_t at[16]{};
  std::size_t pieces = 0;

  constexpr explicit text_cuts(std::string_view all) {
    while (at[pieces] < all.size() && pieces < 15) {
      const std::size_t from = at[pieces], space = all.substr(from, 30).rfind(' ');
      const bool rest = all.size() - from <= 30;
      at[++pieces] = rest ? all.size() : from + (space == std::string_view::npos ? 30 : space + 1);
    }
  }
};
template <class Source, std::size_t Which>
struct repair_fact {
  static constexpr auto& one = Source::repaired::all.of[Which];
  static constexpr text_cuts cuts{one.view()};
  template <std::size_t... I>
  static repaired_by<text_of<cuts.at[I + 1] - cuts.at[I]>(one.view().substr(cuts.at[I]))...> joined(
      std::index_sequence<I...>);
  using type = decltype(joined(std::make_index_sequence<cuts.pieces>{}));
};
/// `Rejected` with the repairs that Source computes, if it does.
template <class Rejected, class Source, std::size_t From = 0>
struct with_repairs {
  using type = Rejected;
};
template <fault Fault, class... Facts, class Source, std::size_t From>
  requires(Fault != fault::already_reported && From < Source::repaired::all.count)
struct with_repairs<rejected<Fault, Facts...>, Source, From> {
  static constexpr std::int64_t bytes = Source::repaired::all.of[From].bytes;
  using text = rejected<Fault, Facts..., typename repair_fact<Source, From>::type>;
  using priced = typename with_fact<text, bytes >= 0, moved_bytes<bytes>>::type;
  using type = typename with_repairs<priced, Source, From + 1>::type;
};

/// `rejected` with the facts of Source::found, a static constexpr verdict.
template <class Source>
struct reject {
  static constexpr verdict found = Source::found;
  static constexpr std::size_t prefix = found.gradient ? std::string_view("gradient of ").size() : 0;
  static constexpr auto op = text_of<prefix + found.op.size()>(prefix > 0 ? "gradient of " : "", found.op);
  static constexpr auto dim = text_of<found.dim.size()>(found.dim);
  static constexpr auto axis = text_of<found.axis.size()>(found.axis);
  // If a contract forbids a collective, `dim` has its name.
  using about = std::conditional_t<found.fault == fault::contract_broken, collective_named<dim>, dim_named<dim>>;
  static constexpr bool sized = found.expected != found.got;
  static constexpr auto file = text_of<found.where.name().size()>(found.where.name());
  using line_of = typename with_fact<rejected<found.fault>, found.where.line != 0, line<found.where.line>>::type;
  using where = typename with_fact<line_of, found.where.line != 0, in_file<file>>::type;
  using what = typename with_fact<where, !found.op.empty(), op_named<op>>::type;
  using which = typename with_fact<what, !found.dim.empty(), about>::type;
  using over = typename with_fact<which, !found.axis.empty(), axis_named<axis>>::type;
  using due = typename with_fact<over, sized, expected<found.expected>>::type;
  using known = typename with_fact<due, sized, got<found.got>>::type;
  using type = typename with_repairs<known, Source>::type;
};

/// Reports the fault of Source, if it has one, when the member `type` is completed.
template <class Source, bool Ok = Source::found.ok()>
struct rejection_of {
  using type = rejected<fault::none>;
};
template <class Source>
struct rejection_of<Source, false> : reject<Source> {};

} // namespace detail

}} // namespace cleave::v0
