// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/language.hpp>

#include <concepts>
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

/// The sentence of its parts. Put together in one place, so that one more sentence costs the compiler little.
[[gnu::cold]] inline std::string sentence(std::initializer_list<part> parts) {
  std::string all("cleave: ");
  for (const part& p : parts) {
    if (p.is == part::how::number) {
      all.append(std::to_string(p.value));
    } else {
      const std::string_view quote = p.is == part::how::quoted ? "'" : "";
      all.append(quote).append(p.words).append(quote);
    }
  }
  return all;
}

/// mend: Correct the variable, or unset it.
[[gnu::cold]] inline std::string environment_word(std::string_view name, std::string_view expected,
                                                  std::string_view got) {
  return sentence({name, " is ", quoted(got), " in the environment; it may be ", expected});
}
/// mend: Wrap a View with one dimension for each dim of the tensor, in the written order.
[[gnu::cold]] inline std::string view_rank(std::int64_t expected, std::int64_t got) {
  return sentence({"the shard has ", number(expected), " dims, but the View has rank ", number(got)});
}
/// mend: Call the collective several times on parts of the View, or use MPI 4.
[[gnu::cold]] inline std::string too_many_for_one_call(std::int64_t most, std::int64_t got) {
  return sentence(
      {"a collective on shards moves at most ", number(most), " elements with this MPI, but was given ", number(got)});
}

} // namespace wording

}} // namespace cleave::v0
