// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "functions of namespace std take numbers" standard_function standard_maximum_with_number.cpp:@here op=max
// mend: Write `maximum(x, 0.0f)`.
#include <cleave/cleave.hpp>

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using X = cleave::tensor<float, mesh(row / data, col)>;

void clamped(X& x) { x = std::max(x, 0.0f); } // here

int main() {}
