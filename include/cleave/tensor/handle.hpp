// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/errors.hpp>
#include <cleave/storage/errors.hpp>
#include <cleave/tensor/errors.hpp>
#include <cleave/tensor/storage.hpp>

#include <memory>
#include <utility>

namespace cleave { inline namespace v0 { namespace detail {

/// The common part of all tensors: a value, whose copies have memory of their own. Compiled once for all types.
/// Its state comes from `new`: std::make_shared would be some thirty functions more for the compiler.
class tensor_handle {
 public:
  tensor_handle() = default;
  /// New memory, filled with zeros. Not inlined, as the constructor of a grid_state is not.
  [[gnu::noinline]] tensor_handle(const grid& g, const spec& s, const layout& where, element e,
                                  indexed_span<const std::int64_t> extents)
      : state_(new tensor_state(make_state(g, s, where, e, extents, nullptr))) {
    state_->data = state_->memory.get();
    zero_bytes(state_->data, state_->bytes());
  }
  /// The memory of a View, which `owner` keeps, or new memory with ghosts, filled with zeros.
  [[gnu::noinline]] tensor_handle(const grid& g, const spec& s, const layout& where, element e,
                                  indexed_span<const std::int64_t> extents, given_view& view)
      : state_(new tensor_state(make_state(g, s, where, e, extents, &view))) {
    state_->wraps = !view.is_new;
    if (!view.is_new || !state_->memory) return;
    zero_bytes(state_->memory.get(), view.surround(state_->local) * size_of(e));
    state_->data = as<char>(state_->memory.get()) + view.first_element() * size_of(e);
  }
  /// Memory that `owner` keeps. Kernels that use it have finished before the owner is released, since whoever made it
  /// need not know of them.
  void own(std::shared_ptr<void> owner, void* data) {
    state_->memory = std::move(owner);
    if constexpr (!on_host)
      if (state_->memory)
        state_->memory = std::shared_ptr<void>(data, [kept = std::move(state_->memory)](void*) {
          if (Kokkos::is_initialized()) Kokkos::fence("cleave: memory of another owner");
        });
    state_->data = data;
  }

  tensor_handle(const tensor_handle& other) {
    if (!other.state_) return;
    if (!counts_owners()) raise<view_error>(wording::tensor_in_kernel());
    state_.reset(new tensor_state(*other.state_));
    state_->wraps = false;
    state_->strided = nullptr;
    state_->read_only = state_->keeps_halo = false;
    state_->contiguous.reset();
    if (!try_allocate(state_->bytes(), state_->memory)) raise_without_copy(*state_);
    state_->data = state_->memory.get();
    copy_values(other);
  }
  tensor_handle(tensor_handle&&) noexcept = default;
  tensor_handle& operator=(const tensor_handle& other) {
    if (state_ == other.state_) return *this;
    if (!state_ || !other.state_ || !takes(other)) return rebind(tensor_handle(other));
    copy_values(other);
    return *this;
  }
  // Not noexcept: where one of the two wraps a View, values are copied.
  tensor_handle& operator=(tensor_handle&& other) { // NOLINT(performance-noexcept-move-constructor)
    if (state_ == other.state_) return *this;
    if (!state_ || (other.state_ && !state_->wraps && !other.state_->wraps)) return rebind(std::move(other));
    return *this = std::as_const(other);
  }
  ~tensor_handle() = default;

  tensor_handle alias() const {
    tensor_handle same;
    same.state_ = state_;
    return same;
  }
  tensor_handle& rebind(tensor_handle&& other) noexcept {
    state_ = std::move(other.state_);
    return *this;
  }

  bool has_data() const { return state_ != nullptr; }
  /// Throws grid_error if there is no data.
  const tensor_state& state() const {
    if (!state_) raise<grid_error>(wording::grid_missing());
    return *state_;
  }
  /// The shard. Throws environment_error after Kokkos::finalize, which frees it.
  void* data() const {
    if (Kokkos::is_finalized()) raise<environment_error>(wording::finalised("Kokkos"));
    return state().data;
  }
  /// Of a partial value the device with coordinate 0 on the partial axes carries all, the others the identity.
  bool carries_value() const {
    for (int a = 0; a < max_axes; ++a)
      if (state().where.unreduced().contains(a) && state().grid.here()[a] != 0) return false;
    return true;
  }
  /// Contiguous memory for the shard's elements; `state().end_writing()` puts them into the shard.
  void* begin_writing() const {
    data();
    state().compare_write();
    return state().begin_writing();
  }

 private:
  [[noreturn, gnu::cold]] static void raise_without_copy(const tensor_state& t) {
    raise<memory_error>(
        wording::rank_out_of_memory(t.bytes(), "a copy of the tensor " + described(t), t.grid.state().everyone().rank));
  }
  /// Whether the copy of a View is an owner more. Kokkos copies the functor of a kernel, with the Views in it, without
  /// counting owners: this shows the copy of a tensor in a kernel, which would have elements of its own.
  [[gnu::noinline]] static bool counts_owners() {
    // Never freed, since tensors may be copied as long as the program runs.
    static const auto* const counted = new Kokkos::View<char, Kokkos::HostSpace>(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, "cleave"));
    const auto owner = *counted;
    return owner.use_count() > 1;
  }
  /// Whether the values of another tensor fit into the memory of this one. Throws where they do not and this wraps a
  /// View.
  bool takes(const tensor_handle& other) const {
    const tensor_state &mine = *state_, &theirs = *other.state_;
    if (mine.wraps && !(mine.grid == theirs.grid)) raise<grid_error>(wording::grids_differ());
    bool same = mine.grid == theirs.grid;
    for (int i = 0; i < mine.global.rank; ++i) {
      same = same && mine.global[i] == theirs.global[i];
      if (mine.wraps && mine.global[i] != theirs.global[i])
        raise<shape_error>(wording::extents_differ(mine.dims->dims[i].dim.name, mine.global[i], theirs.global[i]));
    }
    return same;
  }
  void copy_values(const tensor_handle& other) {
    wait_for_kernels();
    // First, since both may be one View.
    const void* const from = other.state_->packed();
    state_->compare_write();
    copy_bytes(state_->begin_writing(), from, state_->bytes());
    state_->end_writing();
  }

  std::shared_ptr<tensor_state> state_{};
};

}}} // namespace cleave::v0::detail
