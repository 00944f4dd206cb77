// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "functions of namespace std take numbers" standard_function op=to_string text_of_tensor.cpp:@here
// fix: Write `std::to_string(loss.item())`.
#include "names.hpp"

#include <cleave/cleave.hpp>

#include <string>

using namespace fail_test;

using Number = cleave::tensor<float, mesh()>;

std::string report(const Number& loss) {
  return "loss " + std::to_string(loss); // here
}

int main() {}
