// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The functions of <cmath> in expr/mathematics.hpp, with the cotangent of each operand in the letters of
// cleave::symbols, as in graph/op_list.hpp. This list is included several times, each time with other meanings of the
// macros. tests/unit/accuracy_test.cpp takes its functions from here too.

#ifndef CLEAVE_OF_ONE
#define CLEAVE_OF_ONE(...)
#endif
#ifndef CLEAVE_OF_TWO
#define CLEAVE_OF_TWO(...)
#endif

// clang-format takes products in arguments of macros for pointers.
// clang-format off
CLEAVE_OF_ONE(tan, g * (1.0 + r * r))
CLEAVE_OF_ONE(asin, g / sqrt((1.0 - x) * (1.0 + x)))
CLEAVE_OF_ONE(acos, -g / sqrt((1.0 - x) * (1.0 + x)))
CLEAVE_OF_ONE(atan, g * applied<reciprocal_part>(1.0, x))
CLEAVE_OF_ONE(sinh, g * applied<cosh>(x))
CLEAVE_OF_ONE(cosh, g * applied<sinh>(x))
CLEAVE_OF_ONE(asinh, g * applied<direction>(1.0, x))
CLEAVE_OF_ONE(acosh, g / (sqrt(x - 1.0) * sqrt(x + 1.0)))
CLEAVE_OF_ONE(atanh, g / ((1.0 - x) * (1.0 + x)))
// Of the half twice: 2 to the power of x may be too large where the derivative is not.
CLEAVE_OF_ONE(exp2, g * std::numbers::ln2 * applied<exp2>(0.5 * x) * applied<exp2>(0.5 * x))
CLEAVE_OF_ONE(log2, g * std::numbers::log2e / x)
CLEAVE_OF_ONE(log10, g * std::numbers::log10e / x)
CLEAVE_OF_ONE(log1p, g / (1.0 + x))
CLEAVE_OF_ONE(cbrt, g / (3.0 * r * r))
CLEAVE_OF_ONE(erfc, -2.0 * std::numbers::inv_sqrtpi * g * applied<bell>(x))
CLEAVE_OF_ONE(ceil, 0.0)
CLEAVE_OF_ONE(trunc, 0.0)
CLEAVE_OF_ONE(round, 0.0)
CLEAVE_OF_TWO(atan2, g * applied<reciprocal_part>(y, x), -g * applied<reciprocal_part>(x, y))
CLEAVE_OF_TWO(hypot, select(r == 0.0, 0.0, g * applied<direction>(x, select(r == 0.0, 1.0, y))), select(r == 0.0, 0.0, g * applied<direction>(y, select(r == 0.0, 1.0, x))))
// clang-format on

#undef CLEAVE_OF_ONE
#undef CLEAVE_OF_TWO
