// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/execute/local.hpp>
#include <cleave/grid.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace cleave { inline namespace v0 {

namespace detail {

/// Its address stands for a type.
template <class T>
inline constexpr char type_mark = 0;

/// The objects of all grids by their numbers.
class object_table {
 public:
  static object_table& instance() {
    static object_table table;
    return table;
  }
  /// Numbers count on each grid by itself and are not used again, so that an object has the same one on all devices.
  std::int64_t add(std::int64_t grid, void* object, const void* type) {
    const std::lock_guard lock(mutex_);
    const std::int64_t number = ++last_[grid];
    objects_[{grid, number}] = {object, type};
    return number;
  }
  void remove(std::int64_t grid, std::int64_t number) {
    const std::lock_guard lock(mutex_);
    objects_.erase({grid, number});
  }
  void* find(std::int64_t grid, std::int64_t number, const void* type) {
    const std::lock_guard lock(mutex_);
    const auto known = objects_.find({grid, number});
    if (known == objects_.end()) raise<grid_error>(wording::no_such_object(number));
    if (known->second.type != type) raise<grid_error>(wording::object_of_another_type(number));
    return known->second.object;
  }

 private:
  struct entry {
    void* object;
    const void* type;
  };
  std::mutex mutex_{};
  std::map<std::int64_t, std::int64_t> last_{};
  std::map<std::pair<std::int64_t, std::int64_t>, entry> objects_{};
};

} // namespace detail

/// An object of yours that kernels on shards use: a factorization, a plan of another library, a pointer to a solver
/// that you keep. Each device has its own. All devices construct their objects in the same order. Functions and
/// statements take `handle()`, and a kernel finds the object by `object_of`. The object must live while plans run that
/// were given its handle. A plan may run a call once that is written twice with the same operands, so a kernel must not
/// change the object in a way that changes its results. No communication. Throws grid_error if the handle of the grid
/// has no grid.
template <class T>
class object {
 public:
  /// Constructs the object from the arguments.
  template <class... From>
    requires std::constructible_from<T, From...>
  explicit object(const grid& g, From&&... from)
      : grid_(g.state().id()), held_(new T(std::forward<From>(from)...)),
        handle_(detail::object_table::instance().add(grid_, held_.get(), &detail::type_mark<T>)) {}
  object(object&& other) noexcept
      : grid_(other.grid_), held_(std::move(other.held_)), handle_(std::exchange(other.handle_, 0)) {}
  object& operator=(object&& other) noexcept {
    std::swap(grid_, other.grid_), std::swap(held_, other.held_), std::swap(handle_, other.handle_);
    return *this;
  }
  ~object() {
    if (handle_ != 0) detail::object_table::instance().remove(grid_, handle_);
  }

  /// The number that a function or a statement takes as an operand of `call` or `local`. It is the same on all devices.
  std::int64_t handle() const { return handle_; }
  T& operator*() const { return *held_; }
  T* operator->() const { return held_.get(); }

 private:
  std::int64_t grid_;
  std::unique_ptr<T> held_;
  std::int64_t handle_;
};

/// The object whose handle is an operand of a kernel: `object_of<solver>(here, in[1])`. Waits for the kernels that may
/// write the operand, and copies its 8 bytes to the host. Throws view_error if the operand is not one number of type
/// std::int64_t, grid_error if the grid has no object with this handle, or if the object is of another type.
template <class T>
T& object_of(const local_context& here, const shard& handle) {
  if (handle.element != element::i64)
    raise<view_error>(wording::shard_element(name_of(handle.element), name_of(element::i64)));
  if (handle.local.rank != 0) raise<view_error>(wording::view_rank(handle.local.rank, 0));
  return *static_cast<T*>(detail::object_table::instance().find(here.grid_id(),
                                                                host_number(handle.data, element::i64).integer(),
                                                                &detail::type_mark<T>));
}

}} // namespace cleave::v0
