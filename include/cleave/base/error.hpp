// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/language.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cleave { inline namespace v0 {

/// The base of all exceptions of Cleave. Faults of a program are found at compile time (base/rejected.hpp); exceptions
/// are faults that are visible only at run time. The sentences of a room are in its errors.hpp, each with its remedy;
/// those of several rooms are in this file. tests/fail/catalogue.py makes docs/errors.md from all of them.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The sizes of the mesh do not fit the communicator, the mesh type, or each other.
struct mesh_error : error {
  using error::error;
};
/// An extent of a tensor has a wrong value.
struct shape_error : error {
  using error::error;
};
/// A View of the user does not fit the shard that it should become.
struct view_error : error {
  using error::error;
};
/// A call of MPI failed. The grid in which it happened cannot be used any more.
struct mpi_error : error {
  /// Made with the error code that MPI returned.
  mpi_error(const std::string& what, int mpi_code) : error(what), code(mpi_code) {}
  int code;
};
/// FFTW or cuFFT refused a transform.
struct transform_error : error {
  using error::error;
};
/// A tensor was used that has no grid, or on a rank that is not a device of its grid; or tensors of two grids met.
struct grid_error : error {
  using error::error;
};

/// `evaluate` or `simulate` cannot run a program: its arguments do not fit, or it computes with numbers that doubles
/// cannot hold.
struct evaluation_error : error {
  using error::error;
};

/// MPI or Kokkos is not initialised yet, or has been finalised; or a variable of the environment, or an
/// argument of a call such as `grid.check` that stands for one, has a value that is not allowed.
struct environment_error : error {
  using error::error;
};
/// There is not enough memory for a tensor or for the workspace of a plan.
struct memory_error : error {
  using error::error;
};
/// Layout rules that are data are malformed, or name a dim, an axis or an argument that is not there.
struct layout_error : error {
  using error::error;
};
/// A function cannot be recorded or planned at run time; the compiler would say the same sentence.
struct plan_error : error {
  using error::error;
};
/// A number argument is outside of its allowed range.
struct number_error : error {
  using error::error;
};
/// Two results of one call share memory.
struct overlap_error : error {
  using error::error;
};
/// A file cannot be read or written, or a line of it is malformed.
struct file_error : error {
  using error::error;
};
/// Checked mode found that the ranks do not run the same program on the same replicated data.
struct agreement_error : error {
  using error::error;
};
/// Checked mode waited for a rank until the time limit. The rank makes another call, or has ended.
struct absent_error : agreement_error {
  using agreement_error::agreement_error;
};
/// Checked mode found the operation that made the first NaN.
struct nan_error : error {
  using error::error;
};

/// Checked mode found a label that is no index of its dim.
struct label_error : error {
  using error::error;
};

/// Throws. An exception is five calls at the place that throws it, this is one.
template <class Error>
[[noreturn, gnu::noinline, gnu::cold]] void raise(const std::string& sentence) {
  throw Error(sentence);
}

namespace wording {

/// A part of a sentence: words, a name in quotes, or a number.
struct part {
  enum class how : std::uint8_t { words, quoted, number };

  part() = default;
  part(std::string_view w, how h = how::words) : words(w), is(h) {}
  part(const char* w) : part(std::string_view(w)) {}
  part(const std::string& w) : part(std::string_view(w)) {}
  explicit part(std::int64_t n) : value(n), is(how::number) {}

  std::string_view words{};
  std::int64_t value = 0;
  how is = how::words;
};

inline part quoted(std::string_view name) { return {name, part::how::quoted}; }
inline part number(std::integral auto n) { return part(static_cast<std::int64_t>(n)); }

[[gnu::cold]] inline void append(std::string& to, const part& p) {
  if (p.is == part::how::number) return void(to.append(std::to_string(p.value)));
  const std::string_view quote = p.is == part::how::quoted ? "'" : "";
  to.append(quote).append(p.words).append(quote);
}
/// The sentence of its parts. Put together in one place, so that one more sentence costs the compiler little.
[[gnu::cold]] inline std::string sentence(std::initializer_list<part> parts) {
  std::string all("cleave: ");
  for (const part& p : parts) append(all, p);
  return all;
}

/// The most arguments of a sentence.
inline constexpr std::size_t most_arguments = 8;
/// The words of a sentence, in which each `{name}` is an argument. `order` has the names of `count` arguments; null:
/// they are given in the order in which they are first named.
[[gnu::cold]] inline std::string filled(std::string_view words, const part* given, const std::string_view* order,
                                        std::size_t count) {
  std::string all("cleave: ");
  std::string_view names[most_arguments];
  if (order != nullptr) std::copy_n(order, count, names);
  std::size_t named = order != nullptr ? count : 0;
  for (std::size_t at = 0, end = 0; at < words.size(); at = end + 1) {
    const std::size_t place = std::min(words.find('{', at), words.size());
    all.append(words.substr(at, place - at));
    if (place == words.size()) break;
    end = words.find('}', place);
    const std::string_view name = words.substr(place + 1, end - place - 1);
    const auto which = static_cast<std::size_t>(std::find(names, names + named, name) - names);
    if (which == named && named < count) names[named++] = name;
    if (which < count) append(all, given[which]);
  }
  return all;
}

/// A sentence with N arguments: words and numbers. tests/fail/catalogue.py checks that it names them all.
template <std::size_t N>
struct text {
  std::string_view words;
  std::string_view order[N + 1]{};
  static_assert(N <= most_arguments);

  template <class... A>
    requires(sizeof...(A) == N)
  [[gnu::cold]] std::string operator()(const A&... arguments) const {
    const part given[]{part_of(arguments)..., part()};
    return filled(words, given, order[0].empty() ? nullptr : order, N);
  }

 private:
  template <class A>
  static part part_of(const A& a) {
    if constexpr (std::integral<A>) return number(a);
    else return part(a);
  }
};

/// fix: Correct the variable, or unset it.
inline constexpr text<3> environment_word{"{name} is '{got}' in the environment; it may be {expected}",
                                          {"name", "expected", "got"}};
/// fix: Wrap a View with one dimension for each dim of the tensor, in the written order.
inline constexpr text<2> view_rank{"the shard has {expected} dims, but the View has rank {got}"};
/// fix: Call the collective several times on parts of the View, or use MPI 4.
inline constexpr text<2> too_many_for_one_call{
    "a collective on shards moves at most {most} elements with this MPI, but was given {got}"};

} // namespace wording

}} // namespace cleave::v0
