// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the examples share besides Cleave: options of the form `--name value`, numbers that look random, and a main()
// that reports faults once.
#pragma once

#include <mpi.h>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace examples {

/// The words of the command line. Whoever knows an option takes it; `done` complains about what nobody took.
class options {
 public:
  options(int argc, char** argv) : words_(argv + 1, argv + argc) {}

  /// True where `--name` stands alone.
  bool flag(std::string_view name) {
    const auto at = std::find(words_.begin(), words_.end(), name);
    if (at == words_.end()) return false;
    words_.erase(at);
    return true;
  }
  /// The positive number after `--name`, or the one given here.
  template <class Number>
  Number number(std::string_view name, Number otherwise) {
    const std::string text = text_after(name);
    return text.empty() ? otherwise : parsed<Number>(name, text);
  }
  /// The same where 0 is allowed too.
  template <class Number>
  Number number_or_zero(std::string_view name, Number otherwise) {
    const std::string text = text_after(name);
    return text.empty() ? otherwise : parsed<Number>(name, text, true);
  }
  /// The word after `--name`, or the one given here.
  std::string text(std::string_view name, std::string_view otherwise = {}) {
    const std::string text = text_after(name);
    return text.empty() ? std::string(otherwise) : text;
  }
  /// Two sizes written as 2x3; {0, 0}, which leaves the choice to `mesh_of`, where there are none.
  std::array<long, 2> sizes(std::string_view name) {
    const std::string text = text_after(name);
    return text.empty() ? std::array{0L, 0L} : sizes_in(name, text);
  }
  static std::array<long, 2> sizes_in(std::string_view name, std::string_view text) {
    const std::vector<long> both = numbers_in(name, text, 2);
    return {both[0], both[1]};
  }
  /// So many sizes written as 2x3x4.
  static std::vector<long> numbers_in(std::string_view name, std::string_view text, std::size_t count) {
    std::vector<long> all;
    std::string_view rest = text;
    for (std::size_t x = 0; x != std::string_view::npos;
         rest.remove_prefix(x == std::string_view::npos ? rest.size() : x + 1)) {
      x = rest.find('x');
      all.push_back(parsed<long>(name, rest.substr(0, x)));
    }
    if (all.size() != count)
      throw std::runtime_error(std::string(name) + " takes " + std::to_string(count) + " sizes, as 2x2, got '" +
                               std::string(text) + "'");
    return all;
  }
  /// A word that is not an option: the name of a file.
  std::string word() {
    const auto at = std::find_if(words_.begin(), words_.end(), [](std::string_view w) { return !w.starts_with("--"); });
    if (at == words_.end()) return {};
    const std::string w = *at;
    words_.erase(at);
    return w;
  }
  void done() const {
    if (!words_.empty()) throw std::runtime_error("unknown argument '" + words_.front() + "', see --help");
  }

 private:
  std::string text_after(std::string_view name) {
    const auto at = std::find(words_.begin(), words_.end(), name);
    if (at == words_.end()) return {};
    if (at + 1 == words_.end() || (at + 1)->empty()) throw std::runtime_error(std::string(name) + " needs a value");
    const std::string text = at[1];
    words_.erase(at, at + 2);
    return text;
  }
  template <class Number>
  static Number parsed(std::string_view name, std::string_view text, bool zero = false) {
    Number number{};
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = code == std::errc() && end == text.data() + text.size(),
               fits = number > 0 || (zero && number == 0);
    if (!whole || !fits || !std::isfinite(static_cast<double>(number)))
      throw std::runtime_error(std::string(name) + " takes a positive number" + (zero ? " or 0" : "") + ", got '" +
                               std::string(text) + "'");
    return number;
  }
  std::vector<std::string> words_;
};

/// A number in [0, 1) that looks random: of an index, so the same for every division.
inline double noise(std::int64_t index) {
  std::uint64_t x = static_cast<std::uint64_t>(index + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
  return static_cast<double>((x ^ (x >> 29)) >> 11) / 9007199254740992.0;
}

/// True on every rank where rank 0 says so: what it alone tries, all of them report.
inline bool agreed(bool on_rank_0) {
  int yes = on_rank_0 ? 1 : 0;
  MPI_Bcast(&yes, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return yes != 0;
}

/// Sizes of a mesh of two axes: as asked, or as nearly square as the number of ranks allows.
inline std::array<long, 2> mesh_of(std::array<long, 2> asked, int ranks) {
  if (asked[0] != 0) return asked;
  std::array<int, 2> some{};
  MPI_Dims_create(ranks, 2, some.data());
  return {some[0], some[1]};
}

/// What is not in the environment yet: Kokkos warns on every rank that OpenMP threads are not bound, and that there are
/// more ranks than cores, 40 lines on 4 ranks; and it starts a thread for each core on each of them, where the ranks of
/// a node are to share its cores.
inline void quiet_kokkos() {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int neighbours = 1;
  MPI_Comm_size(node, &neighbours);
  MPI_Comm_free(&node);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  setenv("KOKKOS_DISABLE_WARNINGS", "true", 0);
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    setenv("KOKKOS_NUM_THREADS", std::to_string(std::max(cores / neighbours, 1)).c_str(), 0);
}

/// Starts MPI and Kokkos and calls `body(options, ranks, speaks)`; rank 0 speaks. What the body returns is the exit
/// status. Every rank meets the same fault, so one of them says it.
template <class Body>
int run(int argc, char** argv, std::string_view usage, Body body) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int rank = 0, ranks = 1, status = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (options(argc, argv).flag("--help")) { // before Kokkos, which has a --help of its own
    if (rank == 0) std::printf("%.*s", static_cast<int>(usage.size()), usage.data());
  } else {
    quiet_kokkos();
    Kokkos::ScopeGuard kokkos(argc, argv);
    try {
      options given(argc, argv);
      status = body(given, ranks, rank == 0);
    } catch (const std::exception& e) {
      if (rank == 0) std::fprintf(stderr, "%s\n", e.what());
      status = 1;
    }
  }
  MPI_Finalize();
  return status;
}

} // namespace examples
