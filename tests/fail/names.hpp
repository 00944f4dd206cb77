// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mesh and dims of the programs in this folder.
#pragma once

#include <cleave/plan/plan.hpp>

namespace fail_test {
inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::axis<"expert"> expert;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::mesh other_mesh{data, expert};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

using X = cleave::abstract<float, mesh(batch / data, embed)>;
using W = cleave::abstract<float, mesh(embed, hidden / model)>;
using H = cleave::abstract<float, mesh(batch / data, hidden / model)>;
} // namespace fail_test
