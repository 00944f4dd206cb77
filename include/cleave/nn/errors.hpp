// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about parameters of networks.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Add the dim to the sizes: `{heads = 16}`. Dims of fixed extent need no size.
inline constexpr text<1> size_missing{"no size was given for dim '{dim}'"};
/// fix: Add a rule whose pattern fits the name; {"*", nn::zeros} fits all that are left.
inline constexpr text<1> no_initializer{"no rule of the initial values fits the name '{name}'"};
/// fix: Choose a number of stages that divides the number of layers. The axis may have any size; devices without a
/// stage are idle.
inline constexpr text<2> stages_unequal{"{layers} layers cannot be divided into {stages} stages of equal length"};
/// fix: Search for at least one prompt, with at least one beam and one step.
inline constexpr text<3> no_beams{"a search of {prompts} prompts with {beams} beams and {steps} steps finds nothing"};
/// fix: Give as many scores for each row, prompts * beams rows one after the other.
inline constexpr text<3> beams_unequal{
    "for {prompts} prompts with {beams} beams, {scores} scores are not as many for each beam"};

}}} // namespace cleave::v0::wording
