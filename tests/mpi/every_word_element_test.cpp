// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "every_element.hpp"

TEST(every_element, bool_) { every_element::run_all<bool>(); }
// The others of this kind take as long to compile again: -DCLEAVE_EVERY_ELEMENT=ON.
#ifdef CLEAVE_EVERY_ELEMENT
TEST(every_element, int64_t_) { every_element::run_all<std::int64_t>(); }
TEST(every_element, uint64_t_) { every_element::run_all<std::uint64_t>(); }
#endif
