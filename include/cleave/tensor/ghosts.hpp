// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/memory.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace cleave { inline namespace v0 {

/// A View with ghosts around its shard, as an argument of tensors: made by `with_ghosts`.
template <class View>
struct ghosted_view {
  View view;
  std::array<std::int64_t, View::rank()> widths;
};
/// A View that has so many ghosts along each dim, before the shard and behind it: `Plate u(grid, {rows, cols},
/// with_ghosts(view, {1, 1}))`. Elements that a shard needs of its neighbours are written to the ghosts, where there
/// are enough, and read there. Their values are those of the last call: also zeros, or those of its stencil beyond the
/// border.
template <class Data, class... Properties>
constexpr auto with_ghosts(const Kokkos::View<Data, Properties...>& view,
                           const std::array<std::int64_t, Kokkos::View<Data, Properties...>::rank()>& widths) {
  return ghosted_view<Kokkos::View<Data, Properties...>>{view, widths};
}

/// The halo that a tensor of so many dims keeps: `Plate u(grid, {rows, cols}, kept_halo{1, 1})` has memory for one
/// element around its shard on each side along both dims.
template <std::size_t Rank>
struct kept_halo {
  std::int64_t widths[Rank];
};
template <std::integral... Widths>
kept_halo(Widths...) -> kept_halo<sizeof...(Widths)>;

}} // namespace cleave::v0
