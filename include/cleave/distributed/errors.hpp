// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about sorting over devices.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Indices are int32. Sort the elements themselves, or split the dim into two and shard only one of them.
inline constexpr text<1> too_long_to_index{"indices along a dim are int32, but the dim has extent {got}"};

}}} // namespace cleave::v0::wording
