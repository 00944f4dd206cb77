// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about parameters of networks.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: Add the dim to the sizes: `{heads = 16}`. Dims of fixed extent need no size.
[[gnu::cold]] inline std::string size_missing(std::string_view dim) {
  return sentence({"no size was given for dim ", quoted(dim)});
}
/// mend: Choose a number of stages that divides the number of layers. The axis may have any size; devices without a
/// stage are idle.
[[gnu::cold]] inline std::string stages_unequal(std::int64_t layers, std::int64_t stages) {
  return sentence({number(layers), " layers cannot be divided into ", number(stages), " stages of equal length"});
}

}}} // namespace cleave::v0::wording
