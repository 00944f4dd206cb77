// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files on all ranks: the text of one, the numbers of a small configuration in it, and errors of any rank.
#pragma once

#include "options.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>

namespace examples {

/// Calls `f`, which does not communicate. What it throws on any rank, of the first if several, is thrown on all ranks:
/// each may read a file of its own, and none waits for one that cannot.
template <class F>
void on_all_ranks(const F& f) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int first = ranks;
  std::string wrong;
  try {
    f();
  } catch (const std::exception& e) {
    first = rank;
    wrong = e.what();
  }
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == ranks) return;
  auto size = static_cast<int>(wrong.size());
  MPI_Bcast(&size, 1, MPI_INT, first, MPI_COMM_WORLD);
  wrong.resize(static_cast<std::size_t>(size));
  MPI_Bcast(wrong.data(), size, MPI_BYTE, first, MPI_COMM_WORLD);
  throw std::runtime_error(wrong);
}

/// The text of a file on all ranks, from rank 0; nothing if rank 0 cannot read it.
inline std::optional<std::string> text_of(const std::string& path, bool reads) {
  std::string text;
  bool fine = false;
  if (reads) {
    std::ifstream file(path, std::ios::binary);
    fine = file.is_open() && !std::filesystem::is_directory(path);
    if (fine) text.assign(std::istreambuf_iterator<char>(file), {});
  }
  if (!agreed(fine)) return {};
  auto size = static_cast<std::int64_t>(text.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(size));
  constexpr std::int64_t most = 1 << 30;
  for (std::int64_t at = 0; at < size; at += most)
    MPI_Bcast(text.data() + at, static_cast<int>(std::min(most, size - at)), MPI_BYTE, 0, MPI_COMM_WORLD);
  return text;
}
/// The word or number after `"key":` in a JSON object without nested keys of this name; empty if there is none.
inline std::string entry_of(const std::string& text, const std::string& key) {
  std::size_t at = text.find('"' + key + '"');
  if (at == std::string::npos) return {};
  at = text.find_first_not_of(": \t\r\n", at + key.size() + 2);
  if (at == std::string::npos) return {};
  if (text[at] == '"') return text.substr(at + 1, text.find('"', at + 1) - at - 1);
  return text.substr(at, text.find_first_of(",} \t\r\n", at) - at);
}

} // namespace examples
