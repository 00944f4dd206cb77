// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>

// The sentences of exceptions about what is sorted over devices.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: Indices are int32. Sort the elements themselves, or split the dim into two and shard only one of them.
[[gnu::cold]] inline std::string too_long_to_index(std::int64_t got) {
  return sentence({"indices along a dim are int32, but the dim has extent ", number(got)});
}

}}} // namespace cleave::v0::wording
