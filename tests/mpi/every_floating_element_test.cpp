// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "every_element.hpp"

TEST(every_element, float_) { every_element::run_all<float>(); }
TEST(every_element, double_) { every_element::run_all<double>(); }
