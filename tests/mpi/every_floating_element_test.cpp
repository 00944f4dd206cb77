// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "every_element.hpp"

TEST(every_element, float_) { every_element::run_all<float>(); }
// The others of this kind take as long to compile again: -DCLEAVE_EVERY_ELEMENT=ON.
#ifdef CLEAVE_EVERY_ELEMENT
TEST(every_element, double_) { every_element::run_all<double>(); }
#endif
