// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/box_messages.hpp>
#include <cleave/comm/errors.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/comm/mpi.hpp>
#include <cleave/comm/recorded_calls.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/grid.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/program/kept_halo.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/tensor/errors.hpp>

#include <memory>
#include <string>
#include <type_traits>

// The common part of all tensors, whatever their type.

namespace cleave { inline namespace v0 {

struct tensor_state;
struct runnable;
namespace detail {
struct call_operand;
} // namespace detail

/// How shards that are not contiguous are used. Programs that wrap no Views do not compile it.
struct strided_shard {
  /// Agrees on a number for the strides that the ranks have, and on whether kernels may use the View itself. Collective
  /// over the communicator of the grid.
  void (*classify)(tensor_state&);
  /// Runs a plan of which some arguments or results are such shards.
  void (*run)(const runnable&, const detail::call_operand*);
  /// Copies the elements of a shard to contiguous memory, and back.
  void (*pack)(const tensor_state&, void* packed);
  void (*unpack)(const tensor_state&, const void* packed);
};

/// A tensor's data on one device, and where they belong.
struct tensor_state {
  cleave::grid grid{};
  /// The dims and the layout of its type.
  const spec* dims = nullptr;
  layout where{};
  cleave::element element = cleave::element::none;
  shape global{};
  shape local{};
  box held{};
  std::shared_ptr<void> memory{};
  void* data = nullptr;
  /// Whether the memory is a View of the caller.
  bool wraps = false;
  /// Of a View that is not contiguous its strides, by position, and how it is used; else null.
  strides stride{};
  const strided_shard* strided = nullptr;
  /// The same number on all ranks for tensors that have the same strides on each rank.
  std::int64_t stride_class = 0;
  /// Whether the elements of each row lie side by side, on all ranks, so that kernels may use the View itself.
  bool unit_rows = false;
  /// The same along the first dim, with the dims in ascending order of their strides.
  bool is_left = false;
  /// Whether the last call with it copied its elements to contiguous memory, or from there.
  mutable bool was_copied = false;
  /// Whether it is a View of constants.
  bool read_only = false;
  /// How many elements the View has around its shard that halos may be written to, along each dim on both sides.
  fixed_array<std::int64_t, max_rank> ghosts{};
  /// Whether any device has some.
  bool has_ghosts = false;
  /// Whether elements are written by calls of the library alone, so that it knows which elements the ghosts hold; and
  /// these elements. The same on all devices.
  mutable bool keeps_halo = false;
  mutable kept_elements halo{};
  /// Contiguous memory for steps that cannot use the View itself: allocated when it is first needed, and kept.
  mutable std::shared_ptr<void> contiguous{};

  std::int64_t elements() const { return grid.active() ? local.elements() : 0; }
  std::int64_t bytes() const { return elements() * size_of(element); }

  /// The shard's memory, or contiguous memory beside it, whose elements are undefined. Throws view_error if the View is
  /// one of constants.
  void* begin_writing() const {
    require_writable();
    halo = {};
    return strided == nullptr ? data : beside();
  }
  /// Compares a write that each rank makes by itself in checked mode: all have to, since it makes the halo stale.
  void compare_write() const {
    if (keeps_halo) grid.state().same_call("a write to a tensor that keeps its halo");
  }
  /// Ghosts that may have other elements than the shards. Collective over the devices.
  [[gnu::cold]] void change_halo(bool keeps, std::string_view call) const {
    grid.state().same_call(call);
    keeps_halo = keeps;
    halo = {};
  }
  /// Elements cannot be written unseen.
  void require_released() const {
    if (keeps_halo) raise<view_error>(wording::view_of_kept_halo());
  }
  void require_writable() const {
    if (read_only) raise<view_error>(wording::view_is_read_only());
  }
  /// Ends what `begin_writing` began.
  void end_writing() const {
    if (strided != nullptr) strided->unpack(*this, contiguous.get());
  }
  /// The shard in contiguous memory.
  const void* packed() const {
    if (strided == nullptr) return data;
    strided->pack(*this, beside());
    return contiguous.get();
  }

 private:
  void* beside() const {
    if (!contiguous) contiguous = allocate(bytes());
    return contiguous.get();
  }
};

/// `f64[row/data, col] of extents [4096, 512]`: a tensor in an error.
[[gnu::cold]] inline std::string described(const tensor_state& t) {
  std::string name(name_of(t.element)), extents;
  for (int i = 0; i < t.global.rank; ++i) {
    name.append(i == 0 ? "[" : ", ").append(t.dims->dims[i].dim.name);
    for (std::string_view axis : t.dims->dims[i].axes) name.append("/").append(axis);
    extents.append(i == 0 ? "" : ", ").append(std::to_string(t.global[i]));
  }
  return name.append(t.global.rank == 0 ? "[]" : "] of extents [" + extents + "]");
}

/// Extents and strides of a View that is to become a shard.
struct given_view {
  int rank = 0;
  fixed_array<std::int64_t, max_rank> extent{};
  strides stride{};
  bool read_only = false;
  /// It has no memory yet, and gets that of the shard and of its ghosts.
  bool is_new = false;
  fixed_array<std::int64_t, max_rank> ghosts{};
  const strided_shard* access = nullptr;

  std::int64_t first_element() const {
    std::int64_t n = 0;
    for (int i = 0; i < rank; ++i) n += ghosts[i] * stride[i];
    return n;
  }
  /// The shape of new memory around a shard; returns its elements.
  std::int64_t surround(const shape& local) {
    shape all = local;
    for (int i = 0; i < rank; ++i) all[i] += 2 * ghosts[i];
    stride = strides_of(all);
    for (int i = 0; i < rank; ++i) extent[i] = local[i];
    return all.elements();
  }

  bool has_ghosts() const {
    for (int i = 0; i < rank; ++i)
      if (ghosts[i] != 0) return true;
    return false;
  }
};

namespace detail {

/// A misfit of a View in numbers, so that one rank can tell it to all.
struct view_fault {
  enum : std::int64_t { none, rank, extent, stride, inner_extent, ghosts };
  std::int64_t what = none, dim = 0, expected = 0, got = 0;
};

/// Whether a View has the extents of a shard, and memory for each element.
inline view_fault check_view(const given_view& v, const shape& local) {
  if (v.rank != local.rank) return {view_fault::rank, 0, local.rank, v.rank};
  for (int i = 0; i < local.rank; ++i)
    if (v.ghosts[i] < 0) return {view_fault::ghosts, i, 0, v.ghosts[i]};
  for (int i = 0; i < local.rank; ++i)
    if (v.extent[i] != local[i])
      return {v.has_ghosts() ? view_fault::inner_extent : view_fault::extent, i, local[i], v.extent[i]};
  // In the order of their strides, each dim steps over all elements of those before it.
  if (local.elements() != 0)
    for (int i = 0; i < local.rank; ++i) {
      std::int64_t least = 1;
      for (int j = 0; j < local.rank; ++j)
        if (local[j] > 1 && (v.stride[j] < v.stride[i] || (v.stride[j] == v.stride[i] && j > i)))
          least += (local[j] - 1) * v.stride[j];
      if (local[i] > 1 && v.stride[i] < least) return {view_fault::stride, i, least, v.stride[i]};
    }
  return {};
}
/// Whether its elements lie as those of a shard of its own.
inline bool is_contiguous(const given_view& v, const shape& local) {
  const strides stride = strides_of(local);
  bool same = true;
  for (int i = 0; i < local.rank && local.elements() != 0; ++i)
    same = same && (local[i] == 1 || v.stride[i] == stride[i]);
  return same;
}

/// Whether 64 bits can count the bytes of a whole tensor.
inline bool countable(indexed_span<const std::int64_t> extents, element e) {
  std::int64_t bytes = size_of(e);
  for (std::int64_t n : extents)
    if (n == 0) return true;
  for (std::int64_t n : extents)
    if (__builtin_mul_overflow(bytes, n, &bytes)) return false;
  return true;
}

/// The numbers that the ranks exchange when a tensor is made: the largest and, negated, the smallest of every number;
/// the lowest rank whose View does not fit; the bytes that could not be had, and where.
class shard_agreement {
 public:
  /// The kind of a device's shard: a contiguous View, one that is not, one of constants, or own memory; and whether it
  /// has ghosts.
  enum : unsigned { contiguous = 0, strided = 1, constants = 2, own_memory = 4, ghosts = 8 };

  shard_agreement(indexed_span<const std::int64_t> extents, const view_fault& misfit, unsigned kind,
                  std::int64_t missing_bytes, const comm::group& everyone)
      : everyone_(everyone) {
    mine_[0] = std::ssize(extents);
    for (std::size_t i = 0; i < max_rank && i < extents.size(); ++i) mine_[i + 1] = extents[i];
    for (int i = 0; i < fields; ++i) mine_[fields + i] = -mine_[i];
    mine_[teller] = misfit.what == view_fault::none ? -everyone.size : -everyone.rank;
    mine_[bytes] = missing_bytes;
    mine_[without] = missing_bytes == 0 ? -1 : everyone.rank;
    for (int k = 0; k < kinds; ++k) mine_[first_kind + k] = (kind >> k & 1) != 0 ? everyone.rank : -1;
  }
  void reach(grid_state& on) { on.largest(mine_, all_, told, everyone_); }
  /// Throws where the extents differ between ranks or do not fit the dims.
  [[gnu::cold]] void check_extents(const spec& s, const layout& where, const grid_state& on) const {
    const std::int64_t rank = std::ssize(s.dims);
    if (all_[0] != rank || -all_[fields] != rank)
      raise<shape_error>(wording::extents_needed(rank, all_[0] != rank ? all_[0] : -all_[fields]));
    for (int i = 0; i < rank; ++i) {
      const dim_ref dim = s.dims[i].dim;
      const std::int64_t most = all_[i + 1], least = -all_[fields + i + 1];
      if (most != least) raise<shape_error>(wording::extents_disagree(dim.name, least, most));
      check_extent(dim, most, on.sizes().product(where[i]), on);
    }
  }
  bool any_constants() const { return all_[first_kind + 1] >= 0; }
  bool any_ghosts() const { return all_[first_kind + 3] >= 0; }
  /// Whether the View of any device is not contiguous, or is one of constants. Throws where another one has none.
  bool needs_strides() const {
    const std::int64_t view = std::max(all_[first_kind], all_[first_kind + 1]), none = all_[first_kind + 2];
    if (view >= 0 && none >= 0) raise<view_error>(wording::view_on_some(view, none));
    return view >= 0;
  }
  void check_memory(const tensor_state& t) const {
    if (all_[without] >= 0)
      raise<memory_error>(
          wording::rank_out_of_memory(all_[bytes], "the shard of a tensor " + described(t), all_[without]));
  }
  /// Throws the fault of the lowest rank whose View does not fit.
  [[gnu::cold]] void check_views(grid_state& on, const spec& s, const view_fault& misfit) const {
    const std::int64_t who = -all_[teller];
    if (who >= everyone_.size) return;
    std::int64_t words[4] = {misfit.what, misfit.dim, misfit.expected, misfit.got};
    on.guarded(
        [&] { comm::check(MPI_Bcast(words, 4, MPI_INT64_T, comm::rank_number(who), everyone_.handle), "MPI_Bcast"); });
    if (words[0] == view_fault::rank) raise<view_error>(wording::view_rank(words[2], words[3]));
    const std::string_view dim = s.dims[words[1]].dim.name;
    if (words[0] == view_fault::ghosts) raise<view_error>(wording::view_ghosts(dim, words[3], who));
    if (words[0] == view_fault::stride) raise<view_error>(wording::view_stride(dim, words[2], words[3], who));
    raise<view_error>(words[0] == view_fault::extent ? wording::view_extent(dim, words[2], words[3], who)
                                                     : wording::view_inner_extent(dim, words[2], words[3], who));
  }

 private:
  static constexpr int fields = max_rank + 1, teller = 2 * fields, bytes = teller + 1, without = teller + 2,
                       first_kind = teller + 3, kinds = 4, told = first_kind + kinds;
  const comm::group& everyone_;
  std::int64_t mine_[told] = {}, all_[told] = {};
};

} // namespace detail

/// A tensor's state, agreed on by all ranks: one small MPI_Allreduce. Without a View its memory is allocated. Throws
/// shape_error, view_error or memory_error on all ranks alike.
[[gnu::cold]] inline tensor_state make_state(const grid& g, const spec& s, const layout& where, element e,
                                             indexed_span<const std::int64_t> extents, given_view* view) {
  if (g.mesh() != s.mesh) raise<grid_error>(wording::grid_of_another_mesh());
  require_kokkos();
  grid_state& on = g.state();
  const comm::recorded call("the construction of a tensor");
  if (on.everyone().size == on.world().size) on.same_call("the construction of a tensor");
  tensor_state t;
  t.grid = g;
  t.dims = &s;
  t.where = where;
  t.element = e;
  t.global.rank = s.rank();
  detail::view_fault misfit;
  unsigned kind = detail::shard_agreement::contiguous;
  if (view == nullptr && on.active()) kind = detail::shard_agreement::own_memory;
  if (view != nullptr && view->read_only) kind = detail::shard_agreement::constants;
  std::int64_t bytes = 0;
  bool allocated = true, usable = extents.size() == s.dims.size() && detail::countable(extents, e);
  for (std::int64_t n : extents) usable = usable && n >= 0;
  if (usable) {
    for (std::size_t i = 0; i < extents.size(); ++i) {
      t.global[i] = extents[i];
      t.global.given[i] = on.blocks_of(s.dims[i].dim, extents[i]);
    }
    if (on.active()) t.held = box_of(t.global, where, on.here(), on.sizes());
    t.held.rank = t.global.rank;
    t.local = t.held.extents();
    if (view != nullptr && view->is_new) {
      bytes = view->surround(t.local) * size_of(e);
      misfit = detail::check_view(*view, t.local);
      if (on.active() && misfit.what == detail::view_fault::none) allocated = try_allocate(bytes, t.memory);
      if (on.active() && view->has_ghosts()) kind = detail::shard_agreement::strided | detail::shard_agreement::ghosts;
    } else if (view != nullptr) {
      misfit = detail::check_view(*view, t.local);
      if (view->has_ghosts()) kind |= detail::shard_agreement::strided | detail::shard_agreement::ghosts;
      if (!detail::is_contiguous(*view, t.local)) kind |= detail::shard_agreement::strided;
    } else {
      bytes = t.bytes();
      allocated = try_allocate(bytes, t.memory);
    }
  }
  detail::shard_agreement all(extents, misfit, kind, allocated ? 0 : bytes, on.everyone());
  all.reach(on);
  all.check_extents(s, where, on);
  if (!detail::countable(extents, e)) raise<shape_error>(wording::too_many_bytes());
  all.check_memory(t);
  all.check_views(on, s, misfit);
  // Also where a rank has nothing and gives no View, so that an assignment is refused on all.
  t.read_only = all.any_constants();
  if (all.needs_strides() && view != nullptr) {
    t.stride = view->stride;
    if (!t.read_only) t.ghosts = view->ghosts;
    t.has_ghosts = !t.read_only && all.any_ghosts();
    t.strided = view->access;
    t.strided->classify(t);
  }
  return t;
}

/// The whole tensor as host bytes on every device; nothing elsewhere. Collective over the devices, unless it is
/// replicated: then each device reads its own copy. `make_more` allocates further memory of the caller. Throws
/// memory_error on all devices alike, and of a replicated tensor on those alone that have no memory.
template <class More>
indexed_vector<unsigned char> gather_bytes(const tensor_state& t, const layout& where, const More& make_more) {
  grid_state& on = t.grid.state();
  require_kokkos();
  if (!on.active()) return {};
  const layout whole = where.reduced();
  const std::int64_t bytes = t.global.elements() * size_of(t.element);
  indexed_vector<unsigned char> host;
  const auto make_room = [&] {
    host = indexed_vector<unsigned char>(as_size(bytes), 0);
    make_more();
  };
  if (where.unreduced() == 0 && whole == layout{}) {
    if (!finds_memory(make_room))
      raise<memory_error>(
          wording::rank_out_of_memory(bytes, "the elements of the tensor " + described(t), on.everyone().rank));
    copy_bytes<Kokkos::HostSpace, memory_space>(host.data(), t.packed(), bytes);
    return host;
  }
  const comm::recorded call("the gathering of a whole tensor");
  on.same_call("the gathering of a whole tensor");
  const void* from = nullptr;
  std::shared_ptr<void> made;
  const auto through = [&](auto& make, const layout& is, const layout& to, std::int64_t bytes, axis_set axes) {
    const owned<comm::bound_exchange> m = make(on, {t.element, t.global, is, to, axes, is.combine()});
    const comm::scratch_bytes needs = m->needs();
    std::shared_ptr<void> memory, staging, out;
    on.guarded([&] {
      comm::allocate_on_all(on.world().handle, [&] {
        if (from == nullptr) make_room(), from = t.packed();
        memory = allocate(needs.memory);
        staging = allocate<Kokkos::HostSpace>(needs.host);
        out = allocate(bytes);
      });
      m->run_one(from, out.get(), {as<char>(memory.get()), as<char>(staging.get())});
    });
    made = std::move(out);
    from = made.get();
  };
  if (where.unreduced() != 0) through(comm::make_move<kind::all_reduce>, where, whole, t.bytes(), where.unreduced());
  through(comm::make_move<kind::collective_permute>, whole, layout{}, bytes, on.mesh().all());
  copy_bytes<Kokkos::HostSpace, memory_space>(host.data(), from, bytes);
  return host;
}

}} // namespace cleave::v0
