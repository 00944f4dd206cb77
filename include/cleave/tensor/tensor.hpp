// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/sharding.hpp>
#include <cleave/tensor/storage.hpp>
#include <cleave/type/abstract.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace cleave {

template <class T, auto Layout>
class tensor;

template <class A>
inline constexpr bool is_tensor = false;
template <class T, auto Layout>
inline constexpr bool is_tensor<tensor<T, Layout>> = true;

namespace detail {

template <class T, int Rank>
struct view_data : view_data<T*, Rank - 1> {};
template <class T>
struct view_data<T, 0> : std::type_identity<T> {};

} // namespace detail

/// A tensor divided over a grid: on each device a contiguous LayoutRight shard in the written order of dims. A handle: copies
/// share the data, as Views do. `Layout` is a sharding, as in `tensor<float, mesh(batch / data, embed)>`.
template <class T, auto Layout>
class tensor {
 public:
  using element_type = T;
  using sharding_type = std::remove_cvref_t<decltype(Layout)>;
  static constexpr int rank = sharding_type::rank;
  /// Where the elements live, by position.
  static constexpr layout where = layout_of(sharding_type::value);
  using extents_type = std::array<std::int64_t, static_cast<std::size_t>(rank)>;
  /// The shard as a View.
  using view_type = Kokkos::View<typename detail::view_data<T, rank>::type, Kokkos::LayoutRight, memory_space,
                                 Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  static_assert(sizeof(detail::element_said<T>) != 0);

  /// Without data; must be assigned a tensor before use.
  tensor() = default;
  /// Allocates the shard, filled with zeros. Collective: the ranks agree on the extents, or all throw shape_error.
  tensor(const grid& g, std::initializer_list<std::int64_t> extents)
      : tensor(g, std::span<const std::int64_t>(extents.begin(), extents.end())) {}
  tensor(const grid& g, const extents_type& extents) : tensor(g, std::span<const std::int64_t>(extents)) {}
  tensor(const grid& g, std::span<const std::int64_t> extents) : state_(std::make_shared<tensor_state>(made(g, extents, nullptr))) {
    state_->memory = allocate(state_->bytes());
    state_->data = state_->memory.get();
    zero_bytes(state_->data, state_->bytes());
  }
  /// Wraps the shard that the caller has. Its View is kept alive, not copied. Collective: where the View of any rank does not
  /// have the extents of its shard or is not contiguous in LayoutRight order, all ranks throw view_error.
  template <class Data, class... Properties>
  tensor(const grid& g, std::initializer_list<std::int64_t> extents, const Kokkos::View<Data, Properties...>& view)
      : tensor(g, std::span<const std::int64_t>(extents.begin(), extents.end()), view) {}
  template <class Data, class... Properties>
  tensor(const grid& g, const extents_type& extents, const Kokkos::View<Data, Properties...>& view)
      : tensor(g, std::span<const std::int64_t>(extents), view) {}
  template <class Data, class... Properties>
  tensor(const grid& g, std::span<const std::int64_t> extents, const Kokkos::View<Data, Properties...>& view) {
    using user_view = Kokkos::View<Data, Properties...>;
    if constexpr (!std::is_same_v<typename user_view::value_type, T>)
      static_cast<void>(refusal<fault::view_elements_differ, typename user_view::value_type, T>{});
    if constexpr (!Kokkos::SpaceAccessibility<execution_space, typename user_view::memory_space>::accessible)
      static_cast<void>(refusal<fault::view_out_of_reach, typename user_view::memory_space>{});
    given_view given;
    given.rank = static_cast<int>(user_view::rank());
    for (std::size_t i = 0; i < user_view::rank(); ++i) {
      given.extent[i] = static_cast<std::int64_t>(view.extent(i));
      given.stride[i] = static_cast<std::int64_t>(view.stride(i));
    }
    state_ = std::make_shared<tensor_state>(made(g, extents, &given));
    // After finalize Kokkos would abort where a View is destroyed.
    state_->memory = std::shared_ptr<void>(new user_view(view), [](void* kept) {
      if (!Kokkos::is_finalized()) delete static_cast<user_view*>(kept);
    });
    state_->data = view.data();
  }

  tensor(const tensor&) = default;
  tensor(tensor&&) noexcept = default;
  /// Of the same type: this becomes another handle of the same data.
  tensor& operator=(const tensor&) = default;
  tensor& operator=(tensor&&) noexcept = default;
  /// Of anything else (a statement, a number, a tensor with another layout): computed into the data of this tensor.
  template <class Expression>
    requires(!std::is_same_v<std::remove_cvref_t<Expression>, tensor>)
  tensor& operator=(const Expression& expression) {
    assign(*this, expression);
    return *this;
  }

  /// Whether there are data.
  explicit operator bool() const { return state_ != nullptr; }
  const grid& get_grid() const { return state().grid; }

  /// Global extents.
  extents_type extents() const { return cut(state().global); }
  std::int64_t extent(int position) const { return state().global[position]; }
  template <Dim D>
  std::int64_t extent(const D&) const {
    constexpr int position = position_of(D::ref.name);
    if constexpr (position < 0) return static_cast<void>(refusal<fault::dim_missing, std::remove_cvref_t<D>>{}), 0;
    else return state().global[position];
  }
  /// The number of elements of the whole tensor.
  std::int64_t size() const { return state().global.elements(); }
  /// Extents of this device's shard, and the global index at which it begins.
  extents_type local_extents() const { return cut(state().local); }
  extents_type offset() const {
    extents_type at{};
    for (int i = 0; i < rank; ++i) at[static_cast<std::size_t>(i)] = state().held[i].begin;
    return at;
  }
  std::int64_t local_size() const { return state().elements(); }

  /// This device's shard; empty on ranks where the grid is not.
  T* data() const { return static_cast<T*>(state().data); }
  view_type view() const { return make_view(std::make_index_sequence<static_cast<std::size_t>(rank)>{}); }

  /// Sets all elements to one value. No communication.
  const tensor& fill(T value) const {
    if (carries_value()) fill_elements(data(), local_size(), value);
    else fill_identity(data(), local_size(), element_of<T>, where.combine());
    return *this;
  }
  /// Sets every element to f(its global indices), evaluated on the host. No communication.
  template <class F>
  const tensor& fill_by(F&& f) const {
    if (!carries_value()) {
      fill_identity(data(), local_size(), element_of<T>, where.combine());
      return *this;
    }
    const auto host = std::make_unique<T[]>(static_cast<std::size_t>(local_size()));
    const extents_type local = local_extents(), first = offset();
    extents_type at = first;
    for (std::int64_t flat = 0; flat < local_size(); ++flat) {
      host[static_cast<std::size_t>(flat)] = static_cast<T>(f(std::as_const(at)));
      for (std::size_t i = static_cast<std::size_t>(rank); i-- > 0;) {
        if (++at[i] < first[i] + local[i]) break;
        at[i] = first[i];
      }
    }
    wait_for_kernels();
    copy_bytes<memory_space, Kokkos::HostSpace>(data(), host.get(), state().bytes());
    return *this;
  }
  /// The whole tensor on every device of its grid, partial values combined; for tests and output. Empty on other ranks.
  /// Collective over the devices; it gathers everything.
  std::vector<T> to_global() const {
    wait_for_kernels();
    const std::vector<unsigned char> bytes = gather_bytes(state(), where);
    std::vector<T> all(bytes.size() / sizeof(T));
    for (std::size_t i = 0; i < all.size(); ++i) {
      T one;
      std::memcpy(&one, bytes.data() + i * sizeof(T), sizeof(T));
      all[i] = one;
    }
    return all;
  }
  /// The only element of a tensor without dims, on every device. Collective where the tensor is partial. Throws grid_error on
  /// ranks that are none of its devices.
  T item() const
    requires(rank == 0)
  {
    if (!get_grid().active()) throw grid_error(wording::grid_elsewhere());
    return to_global()[0];
  }

  const tensor_state& state() const {
    if (!state_) throw grid_error(wording::grid_missing());
    return *state_;
  }

 private:
  static constexpr int position_of(std::string_view name) {
    const spec s = sharding_type::value;
    for (std::size_t i = 0; i < s.dims.size(); ++i)
      if (s.dims[i].dim.name == name) return static_cast<int>(i);
    return -1;
  }
  static tensor_state made(const grid& g, std::span<const std::int64_t> extents, const given_view* view) {
    if (g.mesh() != sharding_type::mesh_type::value) throw grid_error(wording::grid_of_another_mesh());
    return make_state(g, sharding_type::value, element_of<T>, extents, view);
  }
  static extents_type cut(const shape& s) {
    extents_type e{};
    for (int i = 0; i < rank; ++i) e[static_cast<std::size_t>(i)] = s[i];
    return e;
  }
  /// Of a partial value the device with coordinate 0 on the partial axes carries all, the others the identity.
  bool carries_value() const {
    for (std::size_t a = 0; a < max_axes; ++a)
      if ((where.unreduced() >> a & 1) != 0 && get_grid().here()[a] != 0) return false;
    return true;
  }
  template <std::size_t... I>
  view_type make_view(std::index_sequence<I...>) const {
    return view_type(data(), static_cast<std::size_t>(state().local[static_cast<int>(I)])...);
  }

  std::shared_ptr<tensor_state> state_{};
};

} // namespace cleave
