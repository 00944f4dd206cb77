// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about what checked mode finds.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Compute the argument in the same way on all ranks, or broadcast it. A replicated tensor must have the same
/// bits on all devices that hold a replica.
inline constexpr text<5> replicas_differ{"argument {argument}, {type}, differs between ranks {a} and {b}{values}"};
/// fix: Look at the operands of the predicate or of the number of iterations. It must be the same on all ranks.
inline constexpr text<2> iterations_differ{"ranks {a} and {b} disagree on the number of iterations of a loop"};
/// thrown: nan_error
/// fix: Look at that line for a division by 0, a logarithm or a root of a negative number, or a difference of
/// infinities.
inline constexpr text<5> made_nan{"the first NaN was made by {op}{where}: {type} at index {index} on rank {rank}"};
/// thrown: nan_error
/// fix: Look for the call, or for the code of your own, that computed the argument.
inline constexpr text<4> argument_has_nan{
    "argument {argument}, {type}, has a NaN before the call, at index {index} on rank {rank}"};
/// thrown: label_error
/// fix: Correct the label. If it stands for nothing, as that of padding, say so: `nn::cross_entropy(scores, labels,
/// word, ignore{-100})`.
inline constexpr text<6> label_outside{
    "label {label} of {index} is no index of dim '{dim}' of extent {extent}; it was read{where} on rank {rank}"};

}}} // namespace cleave::v0::wording
