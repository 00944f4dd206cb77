// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/interop/agreed.hpp>
#include <cleave/interop/errors.hpp>
#include <cleave/tensor/tensor.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>

// Tpetra's vectors as tensors. Nothing of Trilinos is included: whatever has the members of a Tpetra::MultiVector will
// do.

namespace cleave { inline namespace v0 { namespace interop {

/// A Tpetra::MultiVector or Tpetra::Vector, or a type with their members. `Access` is Tpetra::Access::ReadWrite or
/// another tag of that kind.
template <class V, class Access>
concept MultiVector = requires(V& v, Access access) {
  { v.getLocalViewDevice(access).extent(0) } -> std::integral;
  { v.getGlobalLength() } -> std::integral;
  { v.getNumVectors() } -> std::integral;
  { v.getMap()->getMinGlobalIndex() } -> std::integral;
  { v.getMap()->getIndexBase() } -> std::integral;
  { v.getMap()->isContiguous() } -> std::convertible_to<bool>;
};

/// The vectors of a Tpetra::MultiVector as a tensor, without a copy. With one dim, it is that of the rows, and the
/// MultiVector has one vector. With two, they are the number of the vector and the row: `tensor<double, mesh(which,
/// row / ranks)>`; each vector lies side by side, so that kernels use its memory.
///
/// `access` says how it is used: Tpetra::Access::ReadWrite, OverwriteAll, or ReadOnly, with which nothing can be
/// assigned to the tensor. The tensor keeps the local View, and Tpetra gives no View of the host until its last handle
/// ends. The Map is contiguous, and each rank has the rows of its shard, ceil(n / devices) of them; copy other ones
/// with `from_boxes`.
///
/// Collective over the communicator of the grid, which is the Map's. Communication: an all-reduce of two numbers, and
/// those of wrapping a View. Throws on all ranks alike: shape_error if some rank has other rows, the rows are not in
/// order, or a tensor with one dim is asked of several vectors.
template <class Tensor, class Access, MultiVector<Access> V>
  requires(Tensor::rank == 1 || Tensor::rank == 2)
Tensor wrap_multivector(const grid& g, V& v, Access access) {
  const auto view = v.getLocalViewDevice(access);
  using view_type = std::remove_cvref_t<decltype(view)>;
  using element = typename view_type::value_type;
  static_assert(view_type::rank() == 2);
  if constexpr (!std::is_same_v<std::remove_const_t<element>, typename Tensor::element_type>) {
    say(rejection<fault::view_elements_differ, element, typename Tensor::element_type>);
    return Tensor();
  } else if constexpr (!Kokkos::SpaceAccessibility<execution_space, typename view_type::memory_space>::accessible) {
    say(rejection<fault::view_out_of_reach, typename view_type::memory_space>);
    return Tensor();
  } else {
    const std::int64_t vectors = as_signed(v.getNumVectors());
    if (Tensor::rank == 1 && vectors != 1) raise<shape_error>(wording::foreign_rank("MultiVector", 1, 2));
    const auto map = v.getMap();
    if (!map->isContiguous()) raise<shape_error>(wording::foreign_order());
    detail::part<Tensor::rank> mine;
    mine.global.front() = mine.extents.front() = vectors;
    mine.global.back() = as_signed(v.getGlobalLength());
    mine.extents.back() = as_signed(view.extent(0));
    mine.begin.back() = as_signed(map->getMinGlobalIndex() - map->getIndexBase());
    detail::require_shards<Tensor>(g, mine, "MultiVector");
    detail::shard_span<element, Tensor::rank> shard{view.data(), mine.extents, {}};
    if (!g.active()) shard.extents = {};
    shard.strides.front() = as_signed(view.stride(1));
    shard.strides.back() = as_signed(view.stride(0));
    return Tensor(g, mine.global, shard, std::make_shared<view_type>(view));
  }
}

}}} // namespace cleave::v0::interop
