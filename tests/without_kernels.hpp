// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/linalg/recorded.hpp>
#include <cleave/linalg/tall_qr.hpp>

// Programs on Cleave::core plan and simulate linear algebra and never run it: their plans point to kernels that do
// nothing.

namespace cleave::linalg::detail {

template <class Rows, class Columns>
void factor_kernel<Rows, Columns>::operator()(const local_context&, std::span<const shard>, const shard&) const {}
template <class Rows, class Columns, triangle Which, transpose Transposed>
void solve_kernel<Rows, Columns, Which, Transposed>::operator()(const local_context&, std::span<const shard>,
                                                                const shard&) const {}

} // namespace cleave::linalg::detail
