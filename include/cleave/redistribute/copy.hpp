// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/mpi.hpp>
#include <cleave/redistribute/errors.hpp>
#include <cleave/redistribute/grid_copy.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/tensor/errors.hpp>
#include <cleave/tensor/tensor.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace cleave { inline namespace v0 {

namespace detail {

/// Its address stands for the copies between two types of tensor.
template <class Types>
inline constexpr char copy_key = 0;

/// The option of a copy between two types of tensor: which dim is which, by name.
template <class From, class To>
struct copy_types {
  static constexpr spec source = From::sharding_type::value;
  static constexpr spec target = To::sharding_type::value;

  static constexpr verdict found = [] {
    if (element_of<typename From::element_type> != element_of<typename To::element_type>)
      return verdict{fault::element_types_differ, {}, "copy"};
    for (const placement& p : source.dims)
      if (target.find(p.dim.name) < 0) return verdict{fault::assignment_to_other_dims, {}, "copy", p.dim.name};
    for (const placement& p : target.dims)
      if (source.find(p.dim.name) < 0) return verdict{fault::assignment_to_other_dims, {}, "copy", p.dim.name};
    return verdict{};
  }();

  /// The extents are those of the target.
  static comm::grid_transfer transfer_of(const shape& extents, const shape& of_source) {
    comm::grid_transfer t{element_of<typename To::element_type>, extents, {}, {}, To::where, {}};
    for (int i = 0; i < To::rank; ++i) {
      const int at = source.find(target.dims[i].dim.name);
      t.position[i] = at;
      t.given[i] = of_source.given[at];
      t.from.set(i, From::where[at]);
    }
    t.from.set_partial(From::where.unreduced(), From::where.combine());
    return t;
  }
};

/// Throws on all ranks alike where two tensors are not for a copy.
template <class Types>
void check_copy(const tensor_state& from, const tensor_state& to) {
  int related = MPI_UNEQUAL;
  comm::check(MPI_Comm_compare(from.grid.state().everyone().handle, to.grid.state().everyone().handle, &related),
              "MPI_Comm_compare");
  if (related != MPI_CONGRUENT && related != MPI_IDENT) raise<grid_error>(wording::grids_unrelated());
  for (int i = 0; i < to.global.rank; ++i) {
    const std::string_view name = Types::target.dims[i].dim.name;
    const int at = Types::source.find(name);
    if (from.global[at] != to.global[i])
      raise<shape_error>(wording::extents_differ(name, from.global[at], to.global[i]));
  }
}

/// Copies between a tensor and the memory of one rank that has all of it.
class whole_on_rank {
 public:
  /// Collective over the communicator of the tensor's grid. Throws mesh_error on all ranks if there is no such rank.
  whole_on_rank(const tensor_state& t, int rank)
      : alone_(t.grid.state().guarded(
            [&] { return grid(mesh_value{}, t.grid.state().everyone().handle, {}, on_ranks{rank, 1}); })),
        bytes_(t.global.elements() * size_of(t.element)) {}
  bool is_here() const { return alone_.active(); }
  /// To memory of the host that `make_room` gives, where the rank is. Throws memory_error on all ranks.
  template <class F>
  void gather(const tensor_state& t, F&& make_room) {
    require_kokkos();
    const comm::recorded call("the gathering of a tensor on one rank");
    void* host = nullptr;
    guarded(t, [&] {
      const void* shard = nullptr;
      std::optional<comm::grid_copy> copy;
      comm::allocate_on_all(t.grid.state().everyone().handle, [&] {
        // First, as it makes groups of a partial tensor.
        copy.emplace(t.grid.state(), alone_.state(), transfer(t, t.where, layout{}));
        if (is_here()) host = make_room();
        shard = t.packed();
        if (is_here() && !on_host) all_ = allocate(bytes_);
      });
      copy->run(shard, on_host ? host : all_.get());
    });
    if (is_here() && !on_host) copy_bytes<Kokkos::HostSpace, memory_space>(host, all_.get(), bytes_);
  }
  void scatter(const tensor_state& t, const void* host) {
    require_kokkos();
    const comm::recorded call("the scattering of a tensor from one rank");
    t.halo = {};
    guarded(t, [&] {
      void* shard = nullptr;
      std::optional<comm::grid_copy> copy;
      comm::allocate_on_all(t.grid.state().everyone().handle, [&] {
        copy.emplace(alone_.state(), t.grid.state(), transfer(t, layout{}, t.where));
        if (is_here() && !on_host) all_ = allocate(bytes_);
        shard = t.begin_writing();
      });
      if (is_here() && !on_host) copy_bytes<memory_space, Kokkos::HostSpace>(all_.get(), host, bytes_);
      copy->run(on_host ? host : all_.get(), shard);
    });
    t.end_writing();
  }

 private:
  /// A failure breaks both grids: messages may still be on their way between them.
  template <class F>
  void guarded(const tensor_state& t, F&& f) {
    alone_.state().guarded([&] { t.grid.state().guarded(f); });
  }
  static comm::grid_transfer transfer(const tensor_state& t, const layout& from, const layout& to) {
    comm::grid_transfer made{t.element, t.global, {}, from, to, {}};
    for (int i = 0; i < t.global.rank; ++i) made.position[i] = i, made.given[i] = t.global.given[i];
    return made;
  }

  grid alone_;
  std::int64_t bytes_;
  std::shared_ptr<void> all_{};
};

} // namespace detail

/// The whole tensor in host memory, row-major, on one rank of the communicator; empty on the others. Partial values are
/// reduced first. Collective over the communicator of the grid; ranks that are not devices call it too. Communication:
/// one message from each shard; a partial tensor also needs one all-reduce. Throws mesh_error on all ranks if there is
/// no such rank or the ranks do not name the same one, and memory_error if one of them has not enough memory.
template <class T, auto Layout>
std::vector<T> gather_to(const tensor<T, Layout>& x, int rank) {
  detail::whole_on_rank whole(x.state(), rank);
  // A vector of bool has no array of them.
  std::conditional_t<std::is_same_v<T, bool>, std::unique_ptr<T[]>, std::vector<T>> all;
  if constexpr (std::is_same_v<T, bool>) {
    const auto n = whole.is_here() ? as_size(x.size()) : 0;
    whole.gather(x.state(), [&] { return all = std::make_unique<T[]>(n), all.get(); });
    return std::vector<T>(all.get(), all.get() + n);
  } else {
    whole.gather(x.state(), [&] { return all.resize(as_size(x.size())), all.data(); });
    return all;
  }
}
/// Gives a tensor the elements that one rank of the communicator has in host memory, row-major; `all` is not read on
/// the others. Collective over the communicator of the grid; ranks that are not devices call it too. Communication: one
/// message to each device. Throws mesh_error and memory_error as `gather_to` does, and shape_error on all ranks if
/// `all` does not have as many elements as the tensor.
template <class T, auto Layout>
void scatter_from(indexed_span<const std::type_identity_t<T>> all, int rank, const tensor<T, Layout>& x) {
  detail::whole_on_rank whole(x.state(), rank);
  std::int64_t given = std::ssize(all);
  x.get_grid().state().guarded([&] {
    comm::check(MPI_Bcast(&given, 1, MPI_INT64_T, rank, x.get_grid().state().everyone().handle), "MPI_Bcast");
  });
  if (given != x.size()) raise<shape_error>(wording::elements_given(x.size(), given));
  whole.scatter(x.state(), all.data());
}

/// Copies a tensor into one with the same dims, in any order, on another mesh, grid, subset of the ranks, or layout.
/// Every device receives exactly the elements that it lacks, directly from a device that has them.
///
/// Collective over the communicator from which both grids were made; ranks that are devices of neither grid call it
/// too. Communication: at most one message from each source shard to each device; a partial source also needs one
/// all-reduce, and the first copy another one, of a number. Throws on all ranks, before any element is moved:
/// grid_error if the grids have different ranks, shape_error if an extent differs, and memory_error.
template <class T, auto From, class U, auto To>
void copy(const tensor<T, From>& from, const tensor<U, To>& to) {
  using types = detail::copy_types<tensor<T, From>, tensor<U, To>>;
  static_assert(sizeof(typename detail::rejection_of<types>::type) != 0);
  if constexpr (types::found.ok()) {
    const tensor_state &source = from.state(), &target = to.state();
    grid_state &here = source.grid.state(), &there = target.grid.state();
    // A warm call pays one look-up, by everything that the messages depend on.
    constexpr std::size_t rank{tensor<U, To>::rank};
    std::array<std::int64_t, 2 * rank + 1> key{};
    for (std::size_t i = 0; i < rank; ++i) {
      key[i] = source.global[i];
      key[rank + i] = target.global[i];
    }
    key[2 * rank] = there.id();
    const comm::recorded call("a copy between grids");
    if (here.everyone().size == here.world().size) here.same_call("a copy between grids");
    here.guarded([&] {
      there.guarded([&] {
        void* bound = here.bound().find(&detail::copy_key<types>, key);
        if (bound == nullptr) {
          detail::check_copy<types>(source, target);
          here.bound().make_room(&detail::copy_key<types>);
          std::shared_ptr<comm::grid_copy> made;
          comm::allocate_on_all(here.everyone().handle, [&] {
            made = std::make_shared<comm::grid_copy>(here, there, types::transfer_of(target.global, source.global));
          });
          bound = here.bound().keep(&detail::copy_key<types>, key, std::move(made));
        }
        const void* const values = source.packed();
        as<comm::grid_copy>(bound)->run(values, target.begin_writing());
        target.end_writing();
      });
    });
  }
}

}} // namespace cleave::v0
