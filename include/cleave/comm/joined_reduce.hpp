// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/bucketed_all_reduce.hpp>

namespace cleave::comm {

using joined_reduce = bucketed_all_reduce;
inline constexpr std::int64_t joined_part = bucketed_value_bytes;
inline constexpr std::int64_t joined_total = bucket_bytes;

} // namespace cleave::comm
