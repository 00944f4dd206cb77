// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about evaluation and simulation.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Give one array for each argument, in the order of the function's parameters. An aggregate has one for each of
/// its tensors.
inline constexpr text<2> arrays_needed{"the program has {expected} arguments, but {got} arrays were given"};
/// fix: Give the array the extents that the sizes of the call give to the argument's dims, in the written order.
inline constexpr text<1> array_extents{"the array for argument {argument} does not have the extents of the argument"};
/// fix: Give sizes that fit together: the extent of a dim that is split or merged is the product of the extents of its
/// parts. `plan.sized({...})` computes those that follow from others.
inline constexpr text<1> sizes_contradict{
    "the sizes that were given contradict each other: a {op} changes the number of elements"};
/// fix: Run the program on one device, and compare with that.
inline constexpr text<0> not_on_doubles{
    "complex numbers can be neither evaluated nor simulated, because arrays hold doubles"};
/// fix: Give the operation a static function `reference`, which computes it on doubles.
inline constexpr text<1> reference_missing{
    "the operation '{op}' has no reference function, so it can be neither evaluated nor simulated"};

}}} // namespace cleave::v0::wording
