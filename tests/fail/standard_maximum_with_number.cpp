// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "functions of namespace std take numbers" standard_function standard_maximum_with_number.cpp:@here op=max
// fix: Write `maximum(x, 0.0f)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

void clamped(Tensor& x) { x = std::max(x, 0.0f); } // here

int main() {}
