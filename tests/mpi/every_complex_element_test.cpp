// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "every_element.hpp"

TEST(every_element, complex_of_float_) { every_element::run_all<Kokkos::complex<float>>(); }
TEST(every_element, complex_of_double_) { every_element::run_all<Kokkos::complex<double>>(); }
