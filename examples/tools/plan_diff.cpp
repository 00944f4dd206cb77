// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares two plans that programs have written with `to_json`, and prints the differences. In a test it keeps a change
// of code from adding collectives unnoticed.
#include <cleave/show/plan_diff.hpp>
#include <cleave/show/plan_json.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace {

cleave::plan_record read(const char* path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || text.empty()) throw std::runtime_error(std::string("plan_diff: cannot read ") + path);
  return cleave::plan_of_json(text);
}

} // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::printf(
        "usage: plan_diff BEFORE.json AFTER.json\nprints what differs between two plans; exits with 1 if their "
        "collectives differ, with 2 if a file cannot be read\n");
    return count == 2 && std::string(arguments[1]) == "--help" ? 0 : 2;
  }
  try {
    const cleave::plan_changes d = plan_diff(read(arguments[1]), read(arguments[2]));
    std::printf("%s", to_string(d).c_str());
    return d.same_collectives() ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
