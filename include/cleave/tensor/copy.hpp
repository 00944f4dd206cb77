// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/grid_copy.hpp>
#include <cleave/storage/as.hpp>
#include <cleave/tensor/tensor.hpp>

namespace cleave::inline v0 {

namespace detail {

/// Its address stands for the copies between two types of tensor.
template <class Types>
inline constexpr char copy_key = 0;

/// What a copy between two types of tensor has to be told, by name: which dim is which.
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

  static comm::grid_transfer transfer_of(const tensor_state& to) {
    comm::grid_transfer t{to.element, to.global, {}, To::where, {}};
    for (int i = 0; i < To::rank; ++i) {
      const int at = source.find(target.dims[i].dim.name);
      t.position[i] = at;
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

} // namespace detail

/// Copies a tensor into one with the same dims, in any order, on another mesh, grid, subset of the ranks, or layout.
/// Every device receives exactly the elements that it lacks, directly from a device that has them.
///
/// Collective over the communicator from which both grids were made; ranks that are devices of neither grid call it
/// too. Communication: at most one message from each source shard to each device; a partial source also needs one
/// all-reduce. Throws grid_error if the grids have different ranks, and shape_error if an extent differs, on all ranks
/// and before any communication.
template <class T, auto From, class U, auto To>
void copy(const tensor<T, From>& from, const tensor<U, To>& to) {
  using types = detail::copy_types<tensor<T, From>, tensor<U, To>>;
  static_assert(sizeof(typename detail::rejection_of<types>::type) != 0);
  if constexpr (types::found.ok()) {
    const tensor_state &source = from.state(), &target = to.state();
    grid_state &here = source.grid.state(), &there = target.grid.state();
    // What a warm call pays: one look-up by all that the messages depend on.
    constexpr std::size_t rank{tensor<U, To>::rank};
    std::array<std::int64_t, 2 * rank + 1> key{};
    for (std::size_t i = 0; i < rank; ++i) {
      key[i] = source.global[i];
      key[rank + i] = target.global[i];
    }
    key[2 * rank] = there.id();
    if (here.everyone().size == here.world().size) here.same_call("a copy between grids", 0, 0);
    here.guarded([&] {
      there.guarded([&] {
        void* bound = here.find_bound(&detail::copy_key<types>, key);
        if (bound == nullptr) {
          detail::check_copy<types>(source, target);
          bound = here.keep_bound(&detail::copy_key<types>, key,
                                  std::make_shared<comm::grid_copy>(here, there, types::transfer_of(target)));
        }
        as<comm::grid_copy>(bound)->run(source.data, target.data);
      });
    });
  }
}

} // namespace cleave::inline v0
