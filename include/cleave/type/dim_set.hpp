// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>

namespace cleave::inline v0 {

/// A dim of a graph: an index into its table of dims.
using dim_id = std::uint8_t;
/// The dim that a look-up by name has found. Look-ups give -1 for names that they do not know.
constexpr dim_id known_dim(std::integral auto found) { return static_cast<dim_id>(found); }
/// The largest number of dims of a graph.
inline constexpr int max_dims = 64;
/// A set of dims of a graph.
using dim_set = small_set<struct dims_of_graph, std::uint64_t, max_dims>;

constexpr dim_set dim_bit(std::integral auto d) { return std::uint64_t{1} << d; }

} // namespace cleave::inline v0
