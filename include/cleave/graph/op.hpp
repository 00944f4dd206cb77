// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace cleave::inline v0 {

/// The operations of a graph. Their list is graph/op_list.hpp, and what a pass may ask of one is in ops/table.hpp.
enum class op : std::uint8_t {
#define CLEAVE_OP(code, ...) code,
#define CLEAVE_ELEMENTWISE(code, ...) code,
#include <cleave/graph/op_list.hpp>
};

/// Names for a value that already exists: removed before planning.
constexpr bool is_alias(op code) { return code == op::identity || code == op::stop_gradient; }
/// Takes a value out of a loop. Only such a node may read a value that is inside.
constexpr bool leaves_loop(op code) { return code == op::loop_result || code == op::loop_stack; }
/// Stands outside of the loop to which it belongs.
constexpr bool is_outside_its_loop(op code) { return leaves_loop(code) || code == op::trip_count; }
/// Says how often a loop runs.
constexpr bool limits_loop(op code) { return code == op::trip_count || code == op::break_if; }

} // namespace cleave::inline v0
