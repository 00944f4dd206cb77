// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/expr/function.hpp>
#include <cleave/layout/sharding.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/tensor/errors.hpp>
#include <cleave/tensor/ghosts.hpp>
#include <cleave/tensor/handle.hpp>
#include <cleave/tensor/strided.hpp>
#include <cleave/type/abstract.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 {

template <class T, auto Layout>
class tensor;

namespace detail {
template <class T, class Sharding>
struct tensor_of_sharding {
  using type = tensor<T, Sharding{}>;
};
// The constant's type is spelled out, as in `sharding_of`: nvcc writes it out of what it finds here.
template <class T, class Mesh, class Unreduced, class... Placements>
struct tensor_of_sharding<T, sharding<Mesh, Unreduced, Placements...>> {
  using type = tensor<T, sharding<Mesh, Unreduced, Placements...>{}>;
};
} // namespace detail

/// The same type as `tensor<T, Layout>`, for alias templates of yours: `template <auto Layout> using field =
/// cleave::tensor_in<double, Layout>;`. nvcc rejects some uses of an alias template that names `tensor` itself.
template <class T, auto Layout>
using tensor_in = typename detail::tensor_of_sharding<T, std::remove_cvref_t<decltype(Layout)>>::type;

template <class A>
inline constexpr bool is_tensor = false;
template <class T, auto Layout>
inline constexpr bool is_tensor<tensor<T, Layout>> = true;

namespace detail {

/// The extent that is given to a dim, or the fixed one.
[[gnu::cold]] inline std::int64_t extent_named(std::string_view dim, std::int64_t fixed,
                                               indexed_span<const named_size> named) {
  const size_of_name found = look_up_size(named, &named_size::is_of_dim, dim, fixed);
  if (!found.is_clear()) raise<shape_error>(wording::extent_given_times(dim, found.given));
  return found.size;
}

/// Whether a function of the indices returns a value that can be an element.
template <class F, class T, class Indices>
constexpr bool gives_element() {
  if constexpr (std::is_invocable_v<F&, const Indices&>)
    return std::is_constructible_v<T, std::invoke_result_t<F&, const Indices&>>;
  else return false;
}

template <class T, int Rank>
struct view_data : view_data<T*, Rank - 1> {};
template <class T>
struct view_data<T, 0> : std::type_identity<T> {};

/// A std::mdspan, or a class with its members.
template <class S>
concept SpanOfElements = requires(const S& s) {
  typename S::element_type;
  { s.data_handle() } -> std::convertible_to<const typename S::element_type*>;
  { S::rank() } -> std::convertible_to<std::size_t>;
  { s.extent(S::rank()) } -> std::integral;
  { s.stride(S::rank()) } -> std::integral;
};

} // namespace detail

/// A tensor that is sharded over a grid. Each device has a contiguous LayoutRight shard, in the written order of the
/// dims. A tensor is a value, as a std::vector is: a copy has its own elements, and a move takes them over. `alias()`
/// makes a second handle on the same elements, as a copy of a View does. `Layout` is a sharding, as in `tensor<float,
/// mesh(batch / data, embed)>`. Constness is that of the handle: the elements of a const tensor may be written, as
/// those of a const View.
template <class T, auto Layout>
class tensor {
 public:
  using element_type = T;
  using sharding_type = typename detail::sharding_of_layout<std::remove_cvref_t<decltype(Layout)>>::type;
  static constexpr int rank = sharding_type::rank;
  /// The layout, by position.
  static constexpr layout where = layout_of(sharding_type::value);
  using extents_type = std::array<std::int64_t, std::size_t{rank}>;
  /// The type of `view()`: the shard as an unmanaged View.
  using view_type = Kokkos::View<typename detail::view_data<T, rank>::type, Kokkos::LayoutRight, memory_space,
                                 Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  /// The type of `strided_view()`.
  using strided_view_type = Kokkos::View<typename detail::view_data<T, rank>::type, Kokkos::LayoutStride, memory_space,
                                         Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  static_assert(sizeof(detail::checked_element<T>) != 0);

  /// A tensor without data. Assign another tensor to it before use.
  tensor() = default;
  /// Allocates the shard and fills it with zeros. `extents` are global, in the written order of the dims. Collective
  /// over the communicator of the grid. Throws shape_error on all ranks if they disagree on the extents or an extent
  /// does not fit the type.
  tensor(const grid& g, std::initializer_list<std::int64_t> extents)
      : tensor(g, indexed_span<const std::int64_t>(extents.begin(), extents.end())) {}
  tensor(const grid& g, const extents_type& extents) : tensor(g, indexed_span<const std::int64_t>(extents)) {}
  /// The same with extents by name, in any order: `X x(grid, {batch = 1024, embed = 512})`. Dims of fixed extent may be
  /// omitted. Throws shape_error if another dim is missing, or if one is named twice or is none of the tensor's.
  template <std::same_as<named_size> N>
  tensor(const grid& g, std::initializer_list<N> extents)
      : tensor(g, indexed_span<const std::int64_t>(ordered(indexed_span<const N>(extents.begin(), extents.end())))) {}
  /// The same with extents in a std::vector, a std::array or a C array of integers.
  template <detail::WholeNumbers Extents>
  tensor(const grid& g, const Extents& extents)
      : tensor(g, indexed_span<const std::int64_t>(detail::whole_numbers(extents))) {}
  tensor(const grid& g, indexed_span<const std::int64_t> extents)
      : handle_(g, sharding_type::value, where, element_of<T>, extents) {}
  /// Wraps a shard that the caller owns. The View is kept alive and not copied. It may have any layout: a subview, a
  /// padded View, the interior of a View with ghosts. Steps that go through the elements one by one, products, and the
  /// exchange of halos use a View in place if the elements of its last dim lie side by side. If all arrays of a call
  /// are LayoutLeft, passes, stencils and sums of rows use them in place too. Other steps use a contiguous copy, which
  /// the tensor keeps: see `was_copied`. Nothing can be assigned to a tensor that wraps a View of constants.
  /// Collective over the communicator of the grid. Throws view_error on all ranks if the View of any rank does not have
  /// the extents of its shard, or shows one element several times.
  template <class Data, class... Properties>
  tensor(const grid& g, std::initializer_list<std::int64_t> extents, const Kokkos::View<Data, Properties...>& view)
      : tensor(g, indexed_span<const std::int64_t>(extents.begin(), extents.end()), view) {}
  template <class Data, class... Properties>
  tensor(const grid& g, const extents_type& extents, const Kokkos::View<Data, Properties...>& view)
      : tensor(g, indexed_span<const std::int64_t>(extents), view) {}
  template <class Data, class... Properties>
  tensor(const grid& g, indexed_span<const std::int64_t> extents, const Kokkos::View<Data, Properties...>& view) {
    wrap<typename Kokkos::View<Data, Properties...>::value_type>(g, extents, view, view.data(), kept_alive(view));
  }
  /// Wraps the interior of a View with ghosts, which then serve as memory for halos: no element has a second copy. A
  /// call of a function without loops writes the halo of an argument there if the function has one halo of it, and if
  /// the elements of its last dim lie side by side. Two tensors must not wrap the same View. Otherwise as for a View;
  /// the extents of the View are those of the shard and twice the widths.
  template <class View>
  tensor(const grid& g, const extents_type& extents, const ghosted_view<View>& ghosted) {
    wrap<typename View::value_type>(g, extents, ghosted.view, ghosted.view.data(), kept_alive(ghosted.view),
                                    ghosted.widths);
  }
  /// Has memory with ghosts, and keeps its halo, as after `keep_halo()`. Moves and std::swap take ghosts over, a copy
  /// has none. Otherwise as for extents alone. Throws view_error if a width is below 0.
  tensor(const grid& g, const extents_type& extents, const kept_halo<std::size_t{rank}>& halo)
    requires(rank != 0)
  {
    given_view given;
    given.rank = rank;
    for (int i = 0; i < rank; ++i) given.ghosts[i] = halo.widths[i];
    given.is_new = true;
    given.access = &detail::strided_shards;
    handle_ = detail::tensor_handle(g, sharding_type::value, where, element_of<T>, extents, given);
    if (state().has_ghosts) keep_halo();
  }
  /// Wraps a shard of a `std::mdspan`, or of a class with its members. Kokkos' default execution space must be able to
  /// access its memory. The caller keeps it, or `owner` does, which is released with the last handle of the tensor.
  /// Otherwise as for a View.
  template <detail::SpanOfElements Span>
  tensor(const grid& g, const extents_type& extents, const Span& span, std::shared_ptr<void> owner = {}) {
    wrap<typename Span::element_type>(g, extents, span, span.data_handle(), std::move(owner));
  }

  /// Mistakes, which are errors of the compiler: extents without braces, alone, or with data that is no View, and any
  /// other arguments.
  template <std::integral I, std::size_t Rank>
  explicit tensor(const std::array<I, Rank>&) {
    say(rejection<fault::wrong_construction, I>);
  }
  template <class Once = void>
  tensor(detail::anything, detail::anything, detail::anything = 0, detail::anything = 0) {
    say(rejection<fault::wrong_construction, tensor, Once>);
  }
  /// A tensor with the value of a statement, as in `Y y = f(x, w)`: on the grid of the statement's tensors, with the
  /// extents that follow from theirs. It allocates in each call; a loop had better assign to an existing tensor.
  /// Collective over the communicator of the grid. Throws as an assignment does, shape_error if an extent follows
  /// from no argument, and grid_error if the statement has numbers alone.
  template <class F, class... Args>
  tensor(const expression<F, Args...>& statement) {
    static_assert(sizeof(typename detail::recording_of<tensor, expression<F, Args...>>::type) != 0);
    construct(*this, statement);
  }
  /// The values of a tensor in another layout, with the collectives that it takes. Explicit, so that nothing is
  /// resharded where a tensor is passed to a function. Otherwise as for a statement.
  template <class U, auto From>
    requires(!std::is_same_v<tensor<U, From>, tensor>)
  explicit tensor(const tensor<U, From>& other) {
    construct(*this, other);
  }

  /// A tensor with the same values in memory of its own. No communication, so that a rank without memory for it throws
  /// memory_error alone.
  tensor(const tensor& other) = default;
  tensor(tensor&&) noexcept = default;
  /// Copies the values into the memory of this tensor. If that has other extents or another grid, it gets new memory;
  /// but a tensor that wraps a View never does, and throws shape_error or grid_error. No communication.
  tensor& operator=(const tensor& other) = default;
  /// Takes over the memory of the other tensor, which has no data afterwards. If one of the two wraps a View, the
  /// values are copied instead, so that the View gets them. A tensor without data takes over a wrapped View too.
  tensor& operator=(tensor&& other) = default; // NOLINT(performance-noexcept-move-constructor)
  /// Another handle on the same elements: elements written through one handle are read through both.
  tensor alias() const {
    tensor same;
    same.handle_.rebind(handle_.alias());
    return same;
  }
  /// Makes this the handle of another tensor's elements, whatever it had before. It releases a View that it wrapped.
  tensor& rebind(tensor&& other) noexcept {
    handle_.rebind(std::move(other.handle_));
    return *this;
  }
  /// Assigning anything else (a statement, a number, a tensor in another layout) computes into the memory of this
  /// tensor. Collective over the devices.
  template <class Expression>
    requires(!std::is_same_v<std::remove_cvref_t<Expression>, tensor>)
  tensor& operator=(const Expression& expression) {
    // First, because compilers print every template between an error and the user's line.
    if constexpr (is_expression<Expression>)
      static_assert(sizeof(typename detail::recording_of<tensor, Expression>::type) != 0);
    if constexpr (requires { assign(*this, expression); }) assign(*this, expression);
    else say(rejection<fault::not_assignable, Expression>);
    return *this;
  }

  /// Whether the tensor has data. A tensor of rank 0 has `has_data()` alone, since a condition on it means its element.
  bool has_data() const { return handle_.has_data(); }
  explicit operator bool() const
    requires(rank != 0)
  {
    return has_data();
  }
  /// A mistake: a condition on a tensor of rank 0. Fault: tensor_as_condition.
  template <std::same_as<bool> B>
    requires(rank == 0)
  explicit operator B() const {
    return say(rejection<fault::tensor_as_condition, tensor, B>), false;
  }
  /// A mistake: elements are asked of a tensor. Fault: tensor_indexed.
  template <class I>
  T& operator[](const I&) const {
    return say(rejection<fault::tensor_indexed, tensor, I>), *data();
  }
  /// As operator[]. The result is no iterator, so that overloads for ranges do not take tensors.
  template <class Once = void>
  detail::no_iterator<T> begin() const {
    return say(rejection<fault::tensor_indexed, tensor, Once>), detail::no_iterator<T>{};
  }
  /// As operator[].
  detail::no_iterator<T> end() const { return {}; }
  /// As operator[].
  template <class... I>
  T& operator()(const I&...) const {
    return say(rejection<fault::tensor_indexed, tensor, I...>), *data();
  }
  /// A mistake: a tensor is no View, `view()` is. Fault: tensor_as_view.
  template <class Data, class... Properties>
  operator Kokkos::View<Data, Properties...>() const {
    return say(rejection<fault::tensor_as_view, tensor>), Kokkos::View<Data, Properties...>{};
  }
  /// The grid on which the tensor lives.
  const grid& get_grid() const { return state().grid; }

  /// The global extents, in the written order of the dims.
  extents_type extents() const { return cut(state().global); }
  /// The global extent of one dim, by position or by dim: `x.extent(batch)`. Throws shape_error if the tensor has no
  /// dim at that position.
  std::int64_t extent(int position) const {
    if (position < 0 || position >= rank) raise<shape_error>(wording::no_such_dim(rank, position));
    return state().global[position];
  }
  template <Dim D>
  std::int64_t extent(const D&) const {
    constexpr int position = position_of(D::ref.name);
    if constexpr (position < 0) return say(rejection<fault::dim_missing, std::remove_cvref_t<D>>), 0;
    else return state().global[position];
  }
  /// The number of elements of the whole tensor.
  std::int64_t size() const { return state().global.elements(); }
  /// The extents of this device's shard. All are 0 on ranks that are not devices of the grid.
  extents_type local_extents() const { return cut(state().local); }
  /// The global index of the first element of this device's shard.
  extents_type offset() const {
    extents_type at{};
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = state().held[i].begin;
    return at;
  }
  /// The number of elements of this device's shard.
  std::int64_t local_size() const { return state().elements(); }

  /// A pointer to the first element of this device's shard. The shard is empty on ranks that are not devices of the
  /// grid. Throws environment_error after Kokkos::finalize, which frees it.
  /// Throws view_error if the tensor keeps its halo.
  T* data() const {
    state().require_released();
    return as<T>(handle_.data());
  }
  /// This device's shard as an unmanaged LayoutRight View in Kokkos' default memory space. It stays valid while a
  /// handle of the tensor exists. Throws view_error if the tensor wraps a View that is not contiguous, or keeps its
  /// halo.
  view_type view() const {
    if (state().strided != nullptr) raise<view_error>(wording::view_is_strided());
    return make_view(std::make_integer_sequence<int, rank>{});
  }
  /// The same with the strides of the View that the tensor wraps, for any tensor.
  strided_view_type strided_view() const {
    Kokkos::LayoutStride layout;
    const cleave::strides own = state().strided != nullptr ? state().stride : strides_of(state().local);
    for (std::size_t i = 0; i < std::size_t{rank}; ++i) {
      layout.dimension[i] = as_size(state().local[i]);
      layout.stride[i] = as_size(own[i]);
    }
    return strided_view_type(data(), layout);
  }
  /// Whether the last call that read or wrote the View that the tensor wraps copied its elements to or from contiguous
  /// memory, since its steps could not use the View itself. The same on all devices of the grid.
  bool was_copied() const { return state().was_copied; }

  /// From now on elements are written by calls of the library alone, `fill` among them, which all devices make, so that
  /// they agree on whether the ghosts have the halo of these elements. A call that reads a halo leaves it there, and
  /// later ones that read no wider one, with the same borders, exchange nothing until the next write. `view()`,
  /// `strided_view()` and `data()` throw view_error, and Views from before must not be written. Throws view_error if
  /// there are no ghosts. Collective over the devices, without communication.
  void keep_halo() const {
    if (!state().has_ghosts) raise<view_error>(wording::halo_without_ghosts());
    state().change_halo(true, "keep_halo");
  }
  /// Views may be used from now on, and each call exchanges the halo that it reads. Collective as `keep_halo`.
  void release_halo() const { state().change_halo(false, "release_halo"); }

  /// Sets all elements to one value. No communication; in checked mode ranks compare the call if the tensor keeps its
  /// halo.
  const tensor& fill(T value) const {
    T* const at = as<T>(handle_.begin_writing());
    if (is_identity_here()) fill_identity(at, local_size(), element_of<T>, where.combine());
    else fill_elements(at, local_size(), value);
    state().end_writing();
    return *this;
  }
  /// Mistakes: a number of which a part would be lost. Faults: fraction_into_integers, not_for_complex.
  template <Number N>
    requires(detail::lost_in<T, N> != fault::none)
  const tensor& fill(N) const {
    return say(rejection<detail::lost_in<T, N>, T, N>), *this;
  }
  template <class F>
    requires(!std::convertible_to<F, T> && !Number<F>)
  const tensor& fill(const F&) const {
    return say(rejection<fault::not_a_fill, T, F>), *this;
  }
  /// Sets every element to `f(indices)`, where `indices` is the array of its global indices. `f` is evaluated on the
  /// host. No communication. `f` should not read the elements of this tensor, and should not throw: unless memory is
  /// scarce, the elements are written after the last call of `f`, but then some are written before.
  template <class F>
  const tensor& fill_by(F&& f) const {
    if constexpr (!detail::gives_element<F, T, extents_type>()) {
      say(rejection<fault::not_a_fill, T, F>);
    } else {
      using number = std::remove_cvref_t<decltype(f(std::declval<const extents_type&>()))>;
      if constexpr (constexpr fault lost = detail::lost_in<T, number>; lost == fault::none) fill_each(f);
      else say(rejection<lost, T, number>);
    }
    return *this;
  }
  /// The whole tensor in host memory, row-major, on every device of the grid; partial values are reduced first. Empty
  /// on other ranks. Collective over the devices; it gathers everything, so use it for tests and output.
  std::vector<T> to_global() const {
    wait_for_kernels();
    std::vector<T> all;
    const indexed_vector<unsigned char> bytes = gather_bytes(state(), where, [&] { all.resize(as_size(size())); });
    for (std::size_t i = 0; i < all.size(); ++i) {
      T one;
      std::memcpy(&one, bytes.data() + i * sizeof(T), sizeof(T));
      all[i] = one;
    }
    return all;
  }
  /// The only element of a rank-0 tensor, on every device. Collective over the devices if the tensor is unreduced.
  /// Throws grid_error on ranks that are not devices of the grid.
  T item() const
    requires(rank == 0)
  {
    if (!get_grid().active()) raise<grid_error>(wording::grid_elsewhere());
    return to_global()[0];
  }

  /// The state behind the handle, for the library. Throws grid_error if the tensor has no data.
  const tensor_state& state() const { return handle_.state(); }
  /// As `data()`, for the library, also if the tensor keeps its halo.
  void* shard() const { return handle_.data(); }

 private:
  template <class View>
  static std::shared_ptr<void> kept_alive(const View& view) {
    if constexpr (!Kokkos::SpaceAccessibility<execution_space, typename View::memory_space>::accessible)
      say(rejection<fault::view_out_of_reach, typename View::memory_space>);
    // After finalize Kokkos would abort where a View is destroyed.
    return std::shared_ptr<void>(new View(view), [](void* kept) {
      if (!Kokkos::is_finalized()) delete as<View>(kept);
    });
  }
  /// `U` is T, or const T for memory that is only read.
  template <class U, class View>
  void wrap(const grid& g, indexed_span<const std::int64_t> extents, const View& view, const void* at,
            std::shared_ptr<void> owner, indexed_span<const std::int64_t> ghosts = {}) {
    if constexpr (!std::is_same_v<std::remove_const_t<U>, T>) say(rejection<fault::view_elements_differ, U, T>);
    given_view given;
    given.rank = int(View::rank());
    for (int i = 0; i < given.rank; ++i) {
      given.extent[i] = std::int64_t(view.extent(as_size(i)));
      given.stride[i] = std::int64_t(view.stride(as_size(i)));
    }
    // An empty View, of a rank without elements, has no ghosts.
    for (int i = 0; i < given.rank; ++i)
      if (given.extent[i] == 0) ghosts = {};
    for (std::size_t i = 0; i < ghosts.size(); ++i) {
      given.ghosts[i] = ghosts[i];
      given.extent[i] -= 2 * ghosts[i];
    }
    given.read_only = std::is_const_v<U>;
    given.access = &detail::strided_shards;
    handle_ = detail::tensor_handle(g, sharding_type::value, where, element_of<T>, extents, given);
    handle_.own(std::move(owner), const_cast<std::remove_const_t<U>*>(as<const U>(at)) + given.first_element());
  }
  static extents_type ordered(indexed_span<const named_size> named) {
    extents_type e{};
    for (int i = 0; i < rank; ++i) {
      const dim_ref& d = sharding_type::value.dims[i].dim;
      e[as_size(i)] = detail::extent_named(d.name, d.extent, named);
    }
    for (const named_size& n : named)
      if (position_of(n.name) < 0 || !n.is_of_dim(n.name)) raise<shape_error>(wording::extent_of_no_dim(n.name));
    return e;
  }
  template <class F>
  void fill_each(F&& f) const {
    if (is_identity_here()) {
      fill_identity(handle_.begin_writing(), local_size(), element_of<T>, where.combine());
      state().end_writing();
      return;
    }
    T* const to = as<T>(handle_.begin_writing());
    wait_for_kernels();
    // Where there is no memory for all elements, for some at a time: an exception would be one of this rank alone.
    T few[64];
    const std::unique_ptr<T[]> all(new (std::nothrow) T[as_size(local_size())]);
    T* const host = all ? all.get() : few;
    const std::int64_t most = all ? local_size() : std::int64_t{std::size(few)};
    const extents_type local = local_extents(), first = offset();
    extents_type at = first;
    for (std::int64_t begin = 0, n = 0; begin < local_size(); begin += n) {
      n = std::min(most, local_size() - begin);
      for (T* element = host; element != host + n; ++element) {
        *element = static_cast<T>(f(std::as_const(at)));
        for (std::size_t i = at.size(); i-- > 0;) {
          if (++at[i] < first[i] + local[i]) break;
          at[i] = first[i];
        }
      }
      copy_bytes<memory_space, Kokkos::HostSpace>(to + begin, host, bytes_of<T>(n));
    }
    state().end_writing();
  }
  static constexpr int position_of(std::string_view name) { return sharding_type::value.find(name); }
  static extents_type cut(const shape& s) {
    extents_type e{};
    for (std::size_t i = 0; i < e.size(); ++i) e[i] = s[i];
    return e;
  }
  /// Whether this device holds the identity of a partial value, which another one carries.
  bool is_identity_here() const {
    if constexpr (where.unreduced().empty()) return false;
    else return !handle_.carries_value();
  }
  template <int... I>
  view_type make_view(std::integer_sequence<int, I...>) const {
    return view_type(data(), as_size(state().local[I])...);
  }

  detail::tensor_handle handle_{};
};

}} // namespace cleave::v0
