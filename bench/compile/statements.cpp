// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What compile_time.py compiles: STATEMENTS statements, which differ in their form. Each is one fused pass.
#include <cleave/cleave.hpp>

namespace statements {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using Matrix = cleave::tensor<float, mesh(row / data, col)>;

void run(const Matrix& x, Matrix& y, [[maybe_unused]] const Matrix& z) {
  y = relu(x) + y;
#if STATEMENTS > 1
  y = relu(x) * 0.5f + y;
  y = x * y + z;
  y = exp(x) - z * 2.0f;
  y = maximum(x, z) + 1.0f;
  y = y / (abs(x) + 1.0f);
  y = tanh(x) * y - z;
  y = sqrt(abs(y)) * x;
  y = select(x > z, x, y);
#endif
}

} // namespace statements
