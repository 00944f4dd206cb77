// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The flags of the compiler that the library needs. Whichever header comes first, this one comes before its code.
// Compilers continue after an #error and would print some thousand others. A missing file ends g++. A fatal diagnostic
// silences clang, which may crash after a missing file.

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic fatal "-W#pragma-messages"
#endif
#if __cplusplus < 202002L
#pragma message("cleave: needs C++20; compile with -std=c++20, or link Cleave::Cleave in CMake")
#error "cleave: needs C++20; compile with -std=c++20, or link Cleave::Cleave in CMake"
#elif !defined(__cpp_exceptions)
#pragma message("cleave: needs exceptions; compile without -fno-exceptions")
#error "cleave: needs exceptions; compile without -fno-exceptions"
#endif
#ifdef __clang__
#pragma clang diagnostic pop
#elif __cplusplus < 202002L || !defined(__cpp_exceptions)
#include <nothing: the compilation ends at the error above>
#endif
