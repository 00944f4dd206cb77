// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

inline constexpr op_rules reduction{.factors = &factors_by_name};

} // namespace cleave::rules
