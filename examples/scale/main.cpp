// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans published models at their published sizes, and predicts the seconds of a step: `scale MODEL`. The models are
// the other sources of this folder.

#include "published.hpp"

int main(int count, char** words) {
  try {
    return published::publish(count, words);
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "scale: %s\n", e.what()), 1;
  }
}
