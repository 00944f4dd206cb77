// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the machine can do, as machine.cpp measured it once: machine.jsonl, beside the results.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

namespace measure {

/// Peaks of so many ranks that work at the same time, all together. 0: not measured.
struct machine {
  double float_gflops = 0, double_gflops = 0, gigabytes = 0;
};

/// The peaks in the folder of a file of results. Says so where there are none.
inline machine read_machine(const std::string& results, int ranks) {
  const std::size_t slash = results.rfind('/');
  const std::string path = (slash == std::string::npos ? std::string() : results.substr(0, slash + 1)) +
                           "machine.jsonl";
  machine m;
  if (std::FILE* const file = std::fopen(path.c_str(), "r"); file != nullptr) {
    char line[256], what[64];
    int of = 0;
    double value = 0;
    while (std::fgets(line, sizeof line, file) != nullptr) {
      if (std::sscanf(line, "{\"name\": \"%63[^\"]\", \"ranks\": %d, \"value\": %lf", what, &of, &value) != 3) continue;
      if (of != ranks) continue;
      if (std::strcmp(what, "fma float") == 0) m.float_gflops = value;
      if (std::strcmp(what, "fma double") == 0) m.double_gflops = value;
      if (std::strcmp(what, "triad") == 0) m.gigabytes = value;
    }
    std::fclose(file);
  }
  if (m.gigabytes == 0)
    std::printf("%s has no peaks of %d ranks, which the program machine measures: no shares of them\n", path.c_str(),
                ranks);
  return m;
}

} // namespace measure
