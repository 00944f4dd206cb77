// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>

namespace cleave::inline v0 {

/// The largest number of axes of a mesh.
inline constexpr int max_axes = 7;

/// A set of mesh axes.
using axis_set = small_set<struct axes_of_mesh, std::uint8_t, max_axes>;

constexpr axis_set axis_bit(int axis) { return 1u << axis; }

} // namespace cleave::inline v0
