// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "every_element.hpp"

TEST(every_element, int8_t_) { every_element::run_all<std::int8_t>(); }
// The others of this kind take as long to compile again: -DCLEAVE_EVERY_ELEMENT=ON.
#ifdef CLEAVE_EVERY_ELEMENT
TEST(every_element, uint8_t_) { every_element::run_all<std::uint8_t>(); }
TEST(every_element, int32_t_) { every_element::run_all<std::int32_t>(); }
TEST(every_element, uint32_t_) { every_element::run_all<std::uint32_t>(); }
#endif
