// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/interop/agreed.hpp>
#include <cleave/interop/errors.hpp>
#include <cleave/layout/blocks.hpp>
#include <cleave/redistribute/distributions.hpp>
#include <cleave/redistribute/errors.hpp>
#include <cleave/tensor/errors.hpp>
#include <cleave/tensor/tensor.hpp>

#include <petscdmda.h>
#include <petscvec.h>

#include <array>
#include <complex>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

// PETSc's vectors as tensors. This header includes PETSc's; the program finds PETSc and links with it.
//
// A Vec has balanced blocks by default, n / p elements and one more on the first n % p ranks. Cleave's blocks have
// ceil(n / p) elements and the last ones fewer. Where the two are the same, always if p divides n, memory is shared:
// `wrap_vec`, `wrap_dmda`. Else give PETSc the blocks of Cleave (`petsc_blocks`), or copy (`copy_from_vec`).

namespace cleave { inline namespace v0 { namespace interop {

namespace detail {

/// The element type of a tensor that shares memory with PETSc.
template <class Scalar>
struct element_of_petsc : std::type_identity<Scalar> {};
template <class Real>
struct element_of_petsc<std::complex<Real>> : std::type_identity<Kokkos::complex<Real>> {};
using petsc_element = element_of_petsc<PetscScalar>::type;
/// An error of the compiler if the elements of a tensor are not PetscScalar.
template <class Tensor>
constexpr void require_petsc_element() {
  if constexpr (!std::is_same_v<typename Tensor::element_type, petsc_element>)
    say(rejection<fault::view_elements_differ, petsc_element, typename Tensor::element_type>);
}

/// Throws view_error: for calls that fail on all ranks alike.
inline void check_petsc(PetscErrorCode code, const char* call) {
  if (code != 0) raise<view_error>(wording::petsc_failed(call, static_cast<std::int64_t>(code)));
}

/// How the array of a Vec is used: by kernels, or by the host.
struct vec_use {
  bool reads = false;
  bool on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, memory_space>::accessible;
};
/// The local array of a Vec, from VecGetArray to VecRestoreArray. It keeps the Vec.
class vec_array {
 public:
  vec_array(Vec v, vec_use use) : vec_(v), use_(use) {
    code_ = PetscObjectReference(reinterpret_cast<PetscObject>(v));
    if (code_ == 0) code_ = get();
  }
  vec_array(const vec_array&) = delete;
  vec_array& operator=(const vec_array&) = delete;
  ~vec_array() {
    PetscBool finalized = PETSC_FALSE;
    if (PetscFinalized(&finalized) != 0 || finalized == PETSC_TRUE) return;
    if (code_ == 0) (void)restore();
    (void)VecDestroy(&vec_);
  }
  PetscErrorCode code() const { return code_; }
  PetscScalar* data() const { return at_; }

 private:
  PetscErrorCode get() {
    const PetscScalar* constants = nullptr;
    PetscMemType where = PETSC_MEMTYPE_HOST;
    PetscErrorCode code{};
    if (use_.on_host) code = use_.reads ? VecGetArrayRead(vec_, &constants) : VecGetArray(vec_, &at_);
    else
      code = use_.reads ? VecGetArrayReadAndMemType(vec_, &constants, &where)
                        : VecGetArrayAndMemType(vec_, &at_, &where);
    if (use_.reads) at_ = const_cast<PetscScalar*>(constants);
    if (code != 0 || use_.on_host || where != PETSC_MEMTYPE_HOST) return code;
    (void)restore();
    return PETSC_ERR_SUP; // kernels cannot use it
  }
  PetscErrorCode restore() {
    const PetscScalar* constants = at_;
    if (use_.on_host) return use_.reads ? VecRestoreArrayRead(vec_, &constants) : VecRestoreArray(vec_, &at_);
    return use_.reads ? VecRestoreArrayReadAndMemType(vec_, &constants) : VecRestoreArrayAndMemType(vec_, &at_);
  }

  Vec vec_;
  vec_use use_;
  PetscErrorCode code_{};
  PetscScalar* at_ = nullptr;
};

/// The indices of a Vec that this rank has.
inline part<1> part_of(Vec v) {
  PetscInt all = 0, begin = 0, end = 0;
  check_petsc(VecGetSize(v, &all), "VecGetSize");
  check_petsc(VecGetOwnershipRange(v, &begin, &end), "VecGetOwnershipRange");
  return {{all}, {begin}, {end - begin}};
}
/// The indices of a DMDA's points that this rank has, in a tensor of so many dims: those of the grid from the slowest
/// to the fastest one, and the components of a point if there is one dim more.
template <int Rank>
part<Rank> part_of(DM da) {
  PetscInt dims = 0, size[3] = {}, components = 0, first[3] = {}, width[3] = {};
  check_petsc(DMDAGetInfo(da, &dims, &size[0], &size[1], &size[2], nullptr, nullptr, nullptr, &components, nullptr,
                          nullptr, nullptr, nullptr, nullptr),
              "DMDAGetInfo");
  check_petsc(DMDAGetCorners(da, &first[0], &first[1], &first[2], &width[0], &width[1], &width[2]), "DMDAGetCorners");
  const bool has_components = Rank == dims + 1;
  if (!has_components && (Rank != dims || components != 1))
    raise<shape_error>(wording::foreign_rank("DMDA", Rank, dims + (components == 1 ? 0 : 1)));
  part<Rank> made;
  for (PetscInt d = 0; d < dims; ++d) {
    const std::size_t to = as_size(dims - 1 - d);
    made.global[to] = size[d];
    made.begin[to] = first[d];
    made.extents[to] = width[d];
  }
  if (has_components) made.global.back() = made.extents.back() = components;
  return made;
}

/// The array of a Vec with this part of an array on each rank. Throws view_error on all ranks if PETSc fails on any, or
/// a Vec has another length.
template <int Rank>
std::shared_ptr<vec_array> array_of(const grid& g, Vec v, vec_use use, const part<Rank>& mine) {
  PetscInt length = 0, needed = 1;
  check_petsc(VecGetLocalSize(v, &length), "VecGetLocalSize");
  for (const std::int64_t n : mine.extents) needed *= static_cast<PetscInt>(n);
  const auto array = std::make_shared<vec_array>(v, use);
  bool misfit = length != needed;
  const finding failed = agreed(g, {static_cast<std::int64_t>(array->code())}, misfit);
  if (failed[0] != 0)
    raise<view_error>(wording::petsc_failed(use.reads ? "VecGetArrayRead" : "VecGetArray", failed[0]));
  if (misfit) raise<view_error>(wording::array_misfit());
  return array;
}
inline void require_ranks(const grid& g, Vec v, const char* what) {
  require_ranks(g, PetscObjectComm(reinterpret_cast<PetscObject>(v)), what);
}

/// Wraps the array of a Vec. `T` is const where it is only read.
template <class Tensor, class T>
Tensor wrapped(const grid& g, Vec v, const part<Tensor::rank>& mine, const char* what) {
  require_shards<Tensor>(g, mine, what);
  const auto array = array_of(g, v, {.reads = std::is_const_v<T>}, mine);
  shard_span<T, Tensor::rank> shard{reinterpret_cast<T*>(array->data()), mine.extents, {}};
  if (!g.active()) shard.extents = {};
  shard.set_contiguous();
  return Tensor(g, mine.global, shard, array);
}

template <class Data, int Rank>
struct view_of_rank : view_of_rank<Data*, Rank - 1> {};
template <class Data>
struct view_of_rank<Data, 0>
    : std::type_identity<
          Kokkos::View<Data, Kokkos::LayoutRight, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>> {};

/// Copies between a Vec and a tensor of any layout, through the host.
template <bool ToVec, class T, auto Layout>
void copy_vec(const tensor<T, Layout>& x, Vec v, const part<tensor<T, Layout>::rank>& mine, const char* what) {
  constexpr int rank = tensor<T, Layout>::rank;
  for (int d = 0; d < rank; ++d)
    if (mine.global[as_size(d)] != x.extent(d))
      raise<shape_error>(wording::foreign_extent(what, tensor<T, Layout>::sharding_type::value.dims[d].dim.name,
                                                 x.extent(d), mine.global[as_size(d)]));
  const auto array = array_of(x.get_grid(), v, {.reads = !ToVec, .on_host = true}, mine);
  using view = typename view_of_rank<T, rank>::type;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const view local(reinterpret_cast<T*>(array->data()), as_size(mine.extents[I])...);
    if constexpr (ToVec) to_boxes(x, local, mine.begin);
    else from_boxes(local, mine.begin, x);
  }(std::make_index_sequence<std::size_t{rank}>{});
}

} // namespace detail

/// A Vec as a tensor with one dim, without a copy. The Vec has the communicator of the grid, and each rank's part of it
/// is the rank's shard; elements are PetscScalar. Until the last handle of the tensor ends, the array of the Vec is
/// taken (VecGetArray): PETSc must not use the Vec. Then VecRestoreArray tells PETSc that values have changed, before
/// PetscFinalize.
///
/// Collective over the communicator of the grid: three all-reduces of two numbers, and those of wrapping a View.
/// Throws on all ranks alike: grid_error if the Vec has other ranks, shape_error if some rank has other indices of the
/// Vec than of the tensor, and view_error if PETSc gives no array that kernels can use.
template <class Tensor>
  requires(Tensor::rank == 1)
Tensor wrap_vec(const grid& g, Vec v) {
  detail::require_petsc_element<Tensor>();
  detail::require_ranks(g, v, "Vec");
  return detail::wrapped<Tensor, typename Tensor::element_type>(g, v, detail::part_of(v), "Vec");
}
/// The same for a Vec that is only read, as those that solvers give to callbacks: VecGetArrayRead. Nothing can be
/// assigned to the tensor.
template <class Tensor>
  requires(Tensor::rank == 1)
Tensor wrap_const_vec(const grid& g, Vec v) {
  detail::require_petsc_element<Tensor>();
  detail::require_ranks(g, v, "Vec");
  return detail::wrapped<Tensor, const typename Tensor::element_type>(g, v, detail::part_of(v), "Vec");
}
/// The global Vec of a DMDA as a tensor with the dims z, y, x, of which a DMDA may have fewer, and one more for the
/// components of a point, if there are several. A DMDA counts ranks along x first, so that the tensor is `mesh(row / y,
/// col / x)` on `grid(mesh{y, x}, comm, {n, m})`. Otherwise as `wrap_vec`. Throws view_error on all ranks if the Vec
/// has not the length of a global Vec of the DMDA, and shape_error if the tensor has other dims.
template <class Tensor>
Tensor wrap_dmda(const grid& g, DM da, Vec v) {
  detail::require_petsc_element<Tensor>();
  detail::require_ranks(g, v, "DMDA");
  return detail::wrapped<Tensor, typename Tensor::element_type>(g, v, detail::part_of<Tensor::rank>(da), "DMDA");
}
/// The same for a Vec that is only read.
template <class Tensor>
Tensor wrap_const_dmda(const grid& g, DM da, Vec v) {
  detail::require_petsc_element<Tensor>();
  detail::require_ranks(g, v, "DMDA");
  return detail::wrapped<Tensor, const typename Tensor::element_type>(g, v, detail::part_of<Tensor::rank>(da), "DMDA");
}

/// Copies a Vec to a tensor with one dim and any layout, whatever the blocks of the Vec. Collective over the
/// communicator of the grid, which is that of the Vec. Communication: as `from_boxes`, and two all-reduces of two
/// numbers. Throws on all ranks alike: grid_error if the Vec has other ranks, shape_error if it has another length.
template <class T, auto Layout>
  requires(tensor<T, Layout>::rank == 1)
void copy_from_vec(Vec v, const tensor<T, Layout>& x) {
  detail::require_petsc_element<tensor<T, Layout>>();
  detail::require_ranks(x.get_grid(), v, "Vec");
  detail::copy_vec<false>(x, v, detail::part_of(v), "Vec");
}
/// The inverse of `copy_from_vec`.
template <class T, auto Layout>
  requires(tensor<T, Layout>::rank == 1)
void copy_to_vec(const tensor<T, Layout>& x, Vec v) {
  detail::require_petsc_element<tensor<T, Layout>>();
  detail::require_ranks(x.get_grid(), v, "Vec");
  detail::copy_vec<true>(x, v, detail::part_of(v), "Vec");
}
/// Copies the global Vec of a DMDA to a tensor with the dims that `wrap_dmda` takes, in any layout. Otherwise as
/// `copy_from_vec`.
template <class T, auto Layout>
void copy_from_dmda(DM da, Vec v, const tensor<T, Layout>& x) {
  detail::require_petsc_element<tensor<T, Layout>>();
  detail::require_ranks(x.get_grid(), v, "DMDA");
  detail::copy_vec<false>(x, v, detail::part_of<tensor<T, Layout>::rank>(da), "DMDA");
}
/// The inverse of `copy_from_dmda`.
template <class T, auto Layout>
void copy_to_dmda(const tensor<T, Layout>& x, DM da, Vec v) {
  detail::require_petsc_element<tensor<T, Layout>>();
  detail::require_ranks(x.get_grid(), v, "DMDA");
  detail::copy_vec<true>(x, v, detail::part_of<tensor<T, Layout>::rank>(da), "DMDA");
}

/// The sizes of Cleave's blocks, for `lx` and `ly` of DMDACreate2d: with them its Vecs can be wrapped. No
/// communication.
inline std::vector<PetscInt> petsc_blocks(std::int64_t extent, std::int64_t devices) {
  std::vector<PetscInt> sizes;
  for (std::int64_t b = 0; b < devices; ++b) sizes.push_back(static_cast<PetscInt>(block(extent, devices, b).size()));
  return sizes;
}

}}} // namespace cleave::v0::interop
