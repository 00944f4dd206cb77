// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/tensor/tensor.hpp>

// Kokkos' functions of Views, given a tensor, would be errors that list all of them. One more function of each name
// says how to write it.
namespace Kokkos {
#define CLEAVE_NOT_OF_TENSORS(name)                                                                           \
  template <class... A>                                                                                       \
    requires(sizeof...(A) > 0 && (cleave::is_tensor<A> || ...))                                               \
  cleave::detail::absorbed_statement name(const A&...) {                                                      \
    return say(cleave::rejection<cleave::fault::tensor_as_view, A...>), cleave::detail::absorbed_statement{}; \
  }
CLEAVE_NOT_OF_TENSORS(deep_copy)
CLEAVE_NOT_OF_TENSORS(create_mirror)
CLEAVE_NOT_OF_TENSORS(create_mirror_view)
CLEAVE_NOT_OF_TENSORS(create_mirror_view_and_copy)
CLEAVE_NOT_OF_TENSORS(subview)
#undef CLEAVE_NOT_OF_TENSORS
} // namespace Kokkos
