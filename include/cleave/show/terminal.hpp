// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace cleave { inline namespace v0 { namespace show {

/// Whether standard output is a terminal. Open MPI gives every rank a terminal of its own, wherever its output goes;
/// then the output of mpirun counts, which is the parent of this process on the first node.
inline bool on_terminal() {
  if (::isatty(STDOUT_FILENO) == 0) return false;
  std::error_code none;
  const auto parents = std::filesystem::read_symlink("/proc/" + std::to_string(::getppid()) + "/fd/1", none);
  return none || parents.string().starts_with("/dev/pts/") || parents.string().starts_with("/dev/tty");
}
/// Whether standard output shows colours: it is a terminal that has them, and NO_COLOR is not set.
inline bool shows_colours() {
  const auto set = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value != nullptr ? value : "");
  };
  return on_terminal() && set("NO_COLOR").empty() && set("TERM") != "dumb";
}

}}} // namespace cleave::v0::show
