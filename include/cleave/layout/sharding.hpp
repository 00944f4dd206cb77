// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/base/rejected.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/mesh/mesh_value.hpp>

#include <array>
#include <type_traits>

namespace cleave { inline namespace v0 {

struct dim_tag {};

/// The promise of a dim about its extent; checked when a tensor is constructed. `divisible`: the extent is a multiple
/// of the number of devices over which the dim is sharded.
enum class promise : std::uint8_t { none, divisible };

namespace detail {
template <text Name, std::int64_t Extent>
struct dim_verdict {
  static constexpr verdict found = Name.view().empty() ? verdict{fault::name_missing, {}, "dim"}
                                   : Extent == dynamic || Extent >= 0
                                       ? verdict{}
                                       : verdict{fault::extent_negative, {}, "dim", Name.view(), {}, 0, Extent};
};
} // namespace detail

/// A named tensor dimension. Its extent comes from the tensors or is fixed in the type: `dim<"embed", 512>`. With
/// `promise::divisible` the extent is a multiple of the number of devices over which the dim is sharded, for any mesh.
template <text Name, std::int64_t Extent = dynamic, promise Promise = promise::none>
struct dim : dim_tag {
  static_assert(sizeof(typename detail::rejection_of<detail::dim_verdict<Name, Extent>>::type) != 0);
  constexpr dim() = default;
  /// A mistake: `dim row("row")`. Fault: name_missing.
  explicit constexpr dim(const char*) {}
  // A rejected extent is replaced, so that it is reported once.
  static constexpr dim_ref ref{Name.view(), Extent >= 0 ? Extent : dynamic, Promise == promise::divisible};
  /// The dim as an argument of functions.
  constexpr operator dim_ref() const { return ref; }
  /// `batch = 1024`: a size by name, for the price of a plan.
  constexpr named_size operator=(std::int64_t size) const { return {Name.view(), size, sized_by::dim}; }
  /// A mistake: sizes are whole. Fault: not_a_whole_number.
  template <std::floating_point N>
  constexpr named_size operator=(N) const {
    return say(rejection<fault::not_a_whole_number, dim_named<Name>, N>), named_size{Name.view(), 1};
  }
};

dim(const char*) -> dim<no_name>;

/// A dim whose blocks have sizes that are given to the grid, by name: `dim_in_blocks<"row", "cells"> row;` and
/// `grid.set_blocks(row, {10, 0, 7, 3})`. Where the dim is sharded over as many devices as there are sizes, each has a
/// block of its size; over fewer devices, each has as many neighbouring blocks; over more, each block is cut equally.
/// Several dims may share a name of blocks. All else is as for other dims. `rename` to a dim with other blocks, or with
/// equal ones, moves elements. Faults: blocks_differ.
template <text Name, text Blocks, std::int64_t Extent = dynamic>
struct dim_in_blocks : dim<Name, Extent> {
  static constexpr dim_ref ref{Name.view(), dim<Name, Extent>::ref.extent, false, Blocks.view()};
  constexpr operator dim_ref() const { return ref; }
  using dim<Name, Extent>::operator=;
};

/// A type derived from `dim<...>`.
template <class D>
concept Dim = std::derived_from<std::remove_cvref_t<D>, dim_tag>;

struct placement_tag {};

/// A dim and the axes over which it is sharded, major axis first: the type of `batch / data / fsdp`. Without axes the
/// dim is not sharded.
template <class D, class... Axes>
struct sharded_dim : placement_tag {
  using dim_type = D;
  static constexpr placement value = [] {
    placement p(D::ref);
    (p.axes.push_back(Axes::info.name), ...);
    return p;
  }();
};

struct unreduced_tag {};

/// The axes over which a tensor is a partial value: the type of `unreduced(model)`.
template <reduction Combine, class... Axes>
struct partial_over : unreduced_tag {
  static constexpr reduction combine = Combine;
  static constexpr auto names = [] {
    static_vector<std::string_view, max_axes> list;
    (list.push_back(Axes::info.name), ...);
    return list;
  }();
};

/// `unreduced(model)` in a layout: each device along `model` holds a summand. `unreduced<reduction::max>(model)` uses
/// another reduction.
template <reduction Combine = reduction::sum, MeshAxis... Axes>
constexpr partial_over<Combine, std::remove_cvref_t<Axes>...> unreduced(const Axes&...) {
  return {};
}

namespace detail {
/// In a layout, in place of an entry that is neither a dim nor a dim with its axes, after that has been reported.
struct refused_placement : placement_tag {
  static constexpr placement value{};
};
template <class E>
concept LayoutEntry = Dim<E> || std::derived_from<E, placement_tag> || std::derived_from<E, unreduced_tag>;
/// An operand that somebody could write on either side of the `/` of a layout.
template <class E>
concept NearLayout = Dim<E> || MeshAxis<E> || std::derived_from<E, placement_tag> || std::is_arithmetic_v<E>;
/// The first entry of a layout that is none, or void.
template <class... Entries>
struct first_misplaced : std::type_identity<void> {};
template <class Entry, class... Rest>
struct first_misplaced<Entry, Rest...>
    : std::conditional_t<LayoutEntry<Entry>, first_misplaced<Rest...>, std::type_identity<Entry>> {};
} // namespace detail

/// A mistake: partial values are partial over axes. Fault: not_a_layout.
template <reduction Combine = reduction::sum, class... Others>
  requires(!(MeshAxis<Others> && ...))
constexpr detail::refused_placement unreduced(const Others&...) {
  return say(rejection<fault::not_a_layout, op_named<"unreduced">, Others...>), detail::refused_placement{};
}

/// `batch / data` shards a dim over an axis. `batch / data / fsdp` adds another axis, the new minor one.
template <Dim D, MeshAxis A>
constexpr sharded_dim<std::remove_cvref_t<D>, std::remove_cvref_t<A>> operator/(const D&, const A&) {
  return {};
}
template <class D, class... Axes, MeshAxis A>
constexpr sharded_dim<D, Axes..., std::remove_cvref_t<A>> operator/(const sharded_dim<D, Axes...>&, const A&) {
  return {};
}

/// A mistake: a dim is divided by axes and by nothing else. Fault: not_a_layout.
template <detail::NearLayout A, detail::NearLayout B>
  requires((Dim<A> || MeshAxis<A> || std::derived_from<A, placement_tag>) &&
           !(MeshAxis<B> && (Dim<A> || std::derived_from<A, placement_tag>)))
constexpr detail::refused_placement operator/(const A&, const B&) {
  return say(rejection<fault::not_a_layout, A, B>), detail::refused_placement{};
}
/// An operand that has been reported already causes no further error.
template <MeshAxis A>
constexpr detail::refused_placement operator/(detail::refused_placement first, const A&) {
  return first;
}

/// A mistake: the comma of C++ drops its left operand: `batch / (data, model)`, `sum(x, (batch, embed))`. Fault:
/// comma_of_names.
template <detail::NearLayout A, MeshAxis B>
  requires(!std::is_arithmetic_v<A>)
constexpr const B& operator,(const A&, const B& last) {
  return say(rejection<fault::comma_of_names, A, B>), last;
}
template <detail::NearLayout A, Dim B>
  requires(!std::is_arithmetic_v<A>)
constexpr dim<refused_dim> operator,(const A&, const B&) {
  return say(rejection<fault::comma_of_names, A, B>), dim<refused_dim>{};
}

/// A named mesh of axes as a type: `inline constexpr cleave::mesh mesh{data, model};`. Calling it with dims gives a
/// sharding: `mesh(batch / data, embed)`.
template <class... Axes>
struct mesh;

/// A sharding as a type, the second argument of `tensor`. Equal layouts are one type: dims keep their written order, an
/// unsharded dim is always `sharded_dim<D>`, and unreduced axes come last.
template <class Mesh, class Unreduced, class... Placements>
struct sharding;

/// In place of `partial_over` in the type of a sharding without unreduced axes.
struct nothing_unreduced : unreduced_tag {
  static constexpr reduction combine = reduction::sum;
  static constexpr static_vector<std::string_view, max_axes> names{};
};

namespace detail {
template <class Entry>
struct placement_type {
  using type = Entry;
};
template <Dim D>
struct placement_type<D> {
  using type = sharded_dim<D>;
};
template <class Entry>
  requires(!LayoutEntry<Entry>)
struct placement_type<Entry> {
  using type = refused_placement;
};
} // namespace detail

/// An entry of a layout, a dim or a dim that is sharded over axes, as its type in a sharding: always a `sharded_dim`.
template <class Entry>
using placement_of = typename detail::placement_type<Entry>::type;

namespace detail {

/// The constant of a sharding. Its type is spelled out here: nvcc writes the host's code anew from its syntax tree, and
/// would write the constant `typename sort_entries<...>::type{}` as `{}`, which is no template argument.
template <class Mesh, class Unreduced, class... Placements>
constexpr sharding<Mesh, Unreduced, Placements...> sharding_of(const sharding<Mesh, Unreduced, Placements...>*) {
  return sharding<Mesh, Unreduced, Placements...>{};
}

template <class Mesh, class Unreduced, class Done, class... Entries>
struct sort_entries;
template <class Mesh, class Unreduced, class... Done>
struct sort_entries<Mesh, Unreduced, sharding<Mesh, nothing_unreduced, Done...>> {
  using type = sharding<Mesh, Unreduced, Done...>;
};
template <class Mesh, class Unreduced, class... Done, class Entry, class... Rest>
struct sort_entries<Mesh, Unreduced, sharding<Mesh, nothing_unreduced, Done...>, Entry, Rest...>
    : std::conditional_t<
          std::derived_from<Entry, unreduced_tag>,
          sort_entries<Mesh, Entry, sharding<Mesh, nothing_unreduced, Done...>, Rest...>,
          sort_entries<Mesh, Unreduced, sharding<Mesh, nothing_unreduced, Done..., placement_of<Entry>>, Rest...>> {};

template <class... Axes>
struct mesh_verdict {
  static constexpr verdict found{fault::not_a_layout, {}, "mesh"};
};
template <MeshAxis... Axes>
struct mesh_verdict<Axes...> {
  static constexpr verdict found = [] {
    constexpr auto count = as_signed(sizeof...(Axes));
    if (count > max_axes) return verdict{fault::too_many_axes, {}, "mesh", {}, {}, max_axes, count};
    const std::array<std::string_view, sizeof...(Axes) + 1> names{Axes::info.name...};
    for (std::size_t i = 0; i < sizeof...(Axes); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (names[i] == names[j]) return verdict{fault::axis_used_twice, {}, "mesh", {}, names[i]};
    return verdict{};
  }();
};

} // namespace detail

template <class... Axes>
struct mesh {
  /// False if the mesh itself is wrong. The static_assert below has reported it then.
  static constexpr bool well_formed = detail::mesh_verdict<Axes...>::found.ok();
  static_assert(sizeof(typename detail::rejection_of<detail::mesh_verdict<Axes...>>::type) != 0);
  static constexpr mesh_value value = [] {
    mesh_value m;
    if constexpr (well_formed) (m.axes.push_back(Axes::info), ...);
    return m;
  }();

  constexpr mesh() = default;
  /// Deduces the mesh from its axes.
  constexpr explicit mesh(const Axes&...)
    requires(sizeof...(Axes) > 0)
  {}

  /// The sharding with these dims and unreduced axes: `mesh(batch / data, embed, unreduced(model))`.
  template <class... Entries>
  constexpr auto operator()(const Entries&...) const {
    using misplaced = typename detail::first_misplaced<Entries...>::type;
    if constexpr (!std::is_void_v<misplaced>) say(rejection<fault::not_a_layout, misplaced>);
    using type =
        typename detail::sort_entries<mesh, nothing_unreduced, sharding<mesh, nothing_unreduced>, Entries...>::type;
    return detail::sharding_of(static_cast<const type*>(nullptr));
  }
};
template <class... Axes>
mesh(const Axes&...) -> mesh<Axes...>;

namespace detail {

/// The fault of a specification in itself.
constexpr verdict check_spec(const spec& s) {
  axis_set used;
  const auto use = [&used, &mesh = s.mesh](std::string_view axis, std::string_view dim) -> verdict {
    const int a = mesh.find(axis);
    if (a < 0) return {fault::axis_not_in_mesh, {}, "layout", dim, axis};
    if (used.contains(a)) return {fault::axis_used_twice, {}, "layout", dim, axis};
    used = used.with(a);
    return {};
  };
  for (std::size_t i = 0; i < s.dims.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (s.dims[j].dim.name == s.dims[i].dim.name) return {fault::dim_used_twice, {}, "layout", s.dims[i].dim.name};
    for (std::string_view axis : s.dims[i].axes)
      if (const verdict v = use(axis, s.dims[i].dim.name); !v.ok()) return v;
  }
  for (std::string_view axis : s.unreduced)
    if (const verdict v = use(axis, {}); !v.ok()) return v;
  return {};
}

template <class Sharding>
struct spec_verdict {
  static constexpr verdict found = [] {
    if (!Sharding::mesh_type::well_formed || Sharding::refused) return verdict{fault::already_reported};
    if (Sharding::written > max_rank)
      return verdict{fault::rank_too_high, {}, "layout", {}, {}, max_rank, Sharding::written};
    return check_spec(Sharding::value);
  }();
};

} // namespace detail

template <class Mesh, class Unreduced, class... Placements>
struct sharding {
  using mesh_type = Mesh;
  static constexpr int written = static_cast<int>(sizeof...(Placements));
  /// An entry was no entry of a layout, which has been reported.
  static constexpr bool refused = (std::same_as<Placements, detail::refused_placement> || ...);
  /// The number of dims. A sharding with too many dims is rejected and cut to those that fit.
  static constexpr int rank = written < max_rank ? written : max_rank;
  static constexpr spec value = [] {
    spec s;
    s.mesh = Mesh::value;
    ((s.dims.full() ? void() : s.dims.push_back(Placements::value)), ...);
    s.unreduced = Unreduced::names;
    s.combine = Unreduced::combine;
    return s;
  }();
  /// The sharding as a specification by names.
  constexpr operator spec() const {
    spec s = value;
    s.well_formed = well_formed;
    return s;
  }

  /// False if the sharding itself is wrong. The static_assert below has reported it then.
  static constexpr bool well_formed = detail::spec_verdict<sharding>::found.ok();
  static_assert(sizeof(typename detail::rejection_of<detail::spec_verdict<sharding>>::type) != 0);
};

/// Whether two layouts are the same: equal layouts are one type.
template <class Mesh, class Unreduced, class... Placements, class OtherMesh, class OtherUnreduced,
          class... OtherPlacements>
constexpr bool operator==(const sharding<Mesh, Unreduced, Placements...>&,
                          const sharding<OtherMesh, OtherUnreduced, OtherPlacements...>&) {
  return std::is_same_v<sharding<Mesh, Unreduced, Placements...>,
                        sharding<OtherMesh, OtherUnreduced, OtherPlacements...>>;
}
/// A mistake: axes shard dims, not whole layouts. Fault: not_a_layout.
template <class Mesh, class Unreduced, class... Placements, MeshAxis A>
constexpr sharding<Mesh, Unreduced, Placements...> operator/(const sharding<Mesh, Unreduced, Placements...>& l,
                                                             const A&) {
  return say(rejection<fault::not_a_layout, A>), l;
}

namespace detail {
template <class L>
concept Sharding = requires { L::mesh_type::value; };
/// The sharding that the second argument of a tensor type stands for. Any other type is an error.
template <class L>
struct sharding_of_layout {
  static_assert(sizeof(rejected<fault::not_a_layout, L>) != 0);
  using type = sharding<mesh<>, nothing_unreduced, refused_placement>;
};
template <Sharding L>
struct sharding_of_layout<L> {
  using type = L;
};
} // namespace detail

}} // namespace cleave::v0
