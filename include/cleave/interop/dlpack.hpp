// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/interop/agreed.hpp>
#include <cleave/interop/errors.hpp>
#include <cleave/tensor/tensor.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

// Shards as DLPack tensors and the reverse, without copies: numpy, JAX, PyTorch, CuPy and others have the same.

namespace cleave { inline namespace v0 { namespace interop {

/// The structs of DLPack, by their layout in memory (ABI versions 0.8 and 1.x): github.com/dmlc/dlpack,
/// include/dlpack/dlpack.h. A program that includes that header may use its structs in place of these.
namespace dlpack {

/// Where memory is, as DLPack counts.
enum device_type : std::int32_t {
  cpu = 1,
  cuda = 2,
  cuda_host = 3,
  rocm = 10,
  rocm_host = 11,
  cuda_managed = 13,
  one_api = 14,
};
/// The kinds of elements, by the numbers of DLPack.
enum class type_code : std::uint8_t {
  integer = 0,
  unsigned_integer = 1,
  real = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6
};

/// DLDevice.
struct device {
  std::int32_t device_type;
  std::int32_t device_id;
};
/// DLDataType.
struct data_type {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
/// DLTensor. Strides count elements; without them the array is row-major.
struct array {
  void* data;
  dlpack::device device;
  std::int32_t ndim;
  data_type dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
/// DLManagedTensor.
struct managed_tensor {
  array dl_tensor;
  void* manager_ctx;
  void (*deleter)(managed_tensor*);
};
/// DLPackVersion.
struct version {
  std::uint32_t major;
  std::uint32_t minor;
};
/// DLManagedTensorVersioned.
struct managed_tensor_versioned {
  dlpack::version version;
  void* manager_ctx;
  void (*deleter)(managed_tensor_versioned*);
  std::uint64_t flags;
  array dl_tensor;
};

/// DLManagedTensor or DLManagedTensorVersioned, of whatever header.
template <class M>
concept Managed = requires(M& m) {
  m.dl_tensor.data;
  m.dl_tensor.device.device_id;
  m.dl_tensor.byte_offset;
  m.manager_ctx;
  m.deleter(&m);
};

} // namespace dlpack

namespace detail {

/// The flag that elements must not be written.
inline constexpr std::uint64_t dlpack_read_only = 1;

template <class M>
inline constexpr bool is_versioned = requires(M& m) { m.flags; };

/// The kind of memory that shards are in; 0 if DLPack has no name for it.
template <class Space>
inline constexpr std::int32_t device_type_of = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space>::accessible
                                                   ? dlpack::cpu
                                                   : 0;
#if defined(KOKKOS_ENABLE_CUDA)
template <>
inline constexpr std::int32_t device_type_of<Kokkos::CudaSpace> = dlpack::cuda;
template <>
inline constexpr std::int32_t device_type_of<Kokkos::CudaUVMSpace> = dlpack::cuda_managed;
#endif
#if defined(KOKKOS_ENABLE_HIP)
template <>
inline constexpr std::int32_t device_type_of<Kokkos::HIPSpace> = dlpack::rocm;
#endif
#if defined(KOKKOS_ENABLE_SYCL)
template <>
inline constexpr std::int32_t device_type_of<Kokkos::Experimental::SYCLDeviceUSMSpace> = dlpack::one_api;
#endif

/// Devices are numbered; the host and memory that all devices share are not.
constexpr bool is_numbered(std::int32_t type) {
  return type == dlpack::cuda || type == dlpack::rocm || type == dlpack::one_api;
}
/// Whether kernels may use such memory.
inline bool is_reachable(std::int32_t type, std::int32_t id) {
  constexpr std::int32_t own = device_type_of<memory_space>;
  if (own == dlpack::cpu)
    return type == dlpack::cpu || type == dlpack::cuda_host || type == dlpack::rocm_host ||
           type == dlpack::cuda_managed;
  if (type == dlpack::cuda_managed) return own == dlpack::cuda || own == dlpack::cuda_managed;
  return type == own && (!is_numbered(type) || id == Kokkos::device_id());
}

constexpr dlpack::type_code code_of(element e) {
  using dlpack::type_code;
  if (e == element::boolean) return type_code::boolean;
  if (e == element::bf16) return type_code::bfloat;
  if (is_complex(e)) return type_code::complex;
  if (is_floating(e)) return type_code::real;
  return is_signed_integer(e) ? type_code::integer : type_code::unsigned_integer;
}
/// The name of an element type of another library in an error.
[[gnu::cold]] inline std::string name_of_type(std::int64_t code, std::int64_t bits, std::int64_t lanes) {
  for (int e = 1; e <= static_cast<int>(element::c128); ++e)
    if (lanes == 1 && static_cast<int>(code_of(element(e))) == code && 8 * size_of(element(e)) == bits)
      return std::string(name_of(element(e)));
  return "of the type code " + std::to_string(code) + " of DLPack with " + std::to_string(bits) + " bits and " +
         std::to_string(lanes) + " lanes";
}

/// The faults of a DLPack tensor.
enum : std::int64_t { fits, missing, other_version, other_device, other_element, other_rank, unaligned };

template <class M>
const void* first_element(const M& given) {
  return as<const char>(given.dl_tensor.data) + given.dl_tensor.byte_offset;
}
/// The fault of the DLPack tensor of this rank.
template <class T, class M>
finding examine(const M* given, bool is_device, int rank) {
  if (given == nullptr) return {is_device ? missing : fits};
  if constexpr (is_versioned<M>)
    if (given->version.major != 1) return {other_version, std::int64_t{given->version.major}};
  const auto& a = given->dl_tensor;
  const auto type = static_cast<std::int32_t>(a.device.device_type), id = static_cast<std::int32_t>(a.device.device_id);
  if (!is_reachable(type, id)) return {other_device, type, id};
  if (a.dtype.code != static_cast<std::uint8_t>(code_of(element_of<T>)) || a.dtype.bits != 8 * sizeof(T) ||
      a.dtype.lanes != 1)
    return {other_element, a.dtype.code, a.dtype.bits, a.dtype.lanes};
  if (a.ndim != rank) return {other_rank, a.ndim};
  if (reinterpret_cast<std::uintptr_t>(first_element(*given)) % alignof(T) != 0) return {unaligned};
  return {};
}
[[gnu::cold]] inline void refuse(const finding& f, element expected, std::int64_t alignment, int rank) {
  if (f[0] == missing) raise<view_error>(wording::dlpack_missing(f[5]));
  if (f[0] == other_version) raise<view_error>(wording::dlpack_version(f[5], f[1]));
  if (f[0] == other_device) raise<view_error>(wording::dlpack_device(f[5], f[1], f[2]));
  if (f[0] == other_element)
    raise<view_error>(wording::dlpack_element(f[5], name_of(expected), name_of_type(f[1], f[2], f[3])));
  if (f[0] == other_rank) raise<view_error>(wording::view_rank(rank, f[1]));
  if (f[0] == unaligned) raise<view_error>(wording::dlpack_alignment(f[5], alignment));
}

/// The owner of a DLPack tensor, once it has been taken over.
template <class M>
struct dlpack_owner {
  M* taken = nullptr;
  dlpack_owner() = default;
  dlpack_owner(const dlpack_owner&) = delete;
  dlpack_owner& operator=(const dlpack_owner&) = delete;
  ~dlpack_owner() {
    if (taken != nullptr && taken->deleter != nullptr) taken->deleter(taken);
  }
};

/// A shard that was given away: its tensor, and the arrays to which the struct of DLPack points.
template <class M, class Tensor>
struct given_shard {
  Tensor values;
  std::array<std::int64_t, std::size_t{Tensor::rank} + 1> extents{}, strides{};
  M managed{};
};

} // namespace detail

/// This device's shard as a DLPack tensor, without a copy: for `numpy.from_dlpack`, in a capsule, and for all that
/// speaks DLPack. `Managed` is `dlpack::managed_tensor`, `dlpack::managed_tensor_versioned`, or a struct of dlpack.h.
/// It keeps the elements until its deleter is called, which must happen before Kokkos::finalize; that may be after the
/// tensor has ended. Kernels have ended when it returns; while others use the elements, calls must not write them. The
/// shard is empty on ranks that are not devices of the grid; of a partial tensor it has the partial values. No
/// communication. Throws view_error if the tensor wraps constants and the struct has no flag for that.
template <dlpack::Managed Managed = dlpack::managed_tensor, class T, auto Layout>
Managed* to_dlpack(const tensor<T, Layout>& x) {
  static_assert(detail::device_type_of<memory_space> != 0);
  using kept = detail::given_shard<Managed, tensor<T, Layout>>;
  const tensor_state& t = x.state();
  if constexpr (!detail::is_versioned<Managed>) t.require_writable();
  auto made = std::make_unique<kept>();
  made->values.rebind(x.alias());
  const strides stride = t.strided != nullptr ? t.stride : strides_of(t.local);
  for (int i = 0; i < t.local.rank; ++i) {
    made->extents[as_size(i)] = t.local[i];
    made->strides[as_size(i)] = stride[i];
  }
  Managed& m = made->managed;
  auto& a = m.dl_tensor;
  constexpr std::int32_t type = detail::device_type_of<memory_space>;
  a.data = t.elements() == 0 ? nullptr : x.data();
  a.device.device_type = static_cast<decltype(a.device.device_type)>(type);
  a.device.device_id = detail::is_numbered(type) ? Kokkos::device_id() : 0;
  a.ndim = tensor<T, Layout>::rank;
  a.dtype.code = static_cast<std::uint8_t>(detail::code_of(element_of<T>));
  a.dtype.bits = static_cast<std::uint8_t>(8 * sizeof(T));
  a.dtype.lanes = 1;
  a.shape = made->extents.data();
  a.strides = made->strides.data();
  if constexpr (detail::is_versioned<Managed>) {
    m.version.major = 1;
    m.flags = t.read_only ? detail::dlpack_read_only : 0;
  }
  m.deleter = [](Managed* self) { delete as<kept>(self->manager_ctx); };
  wait_for_kernels();
  m.manager_ctx = made.get();
  return &made.release()->managed;
}

/// A tensor whose shards are DLPack tensors, without a copy: of each rank that is a device of the grid, with the
/// extents of its shard and any positive strides; null on other ranks. `Managed` is a struct of this header or of
/// dlpack.h. The last handle of the tensor calls the deleter; if this function throws, the caller still has the DLPack
/// tensor. Nothing can be assigned to the tensor if the flag of any rank says that its elements must not be written.
/// The producer's kernels must have ended.
///
/// Collective over the communicator of the grid: one all-reduce of two numbers, and those of wrapping a View. Throws
/// view_error on all ranks if the DLPack tensor of any rank is missing, has another element type, rank, extent or major
/// version, is on a device that kernels do not run on, or has strides that are negative or show an element twice.
template <class Tensor, dlpack::Managed Managed>
Tensor from_dlpack(const grid& g, const typename Tensor::extents_type& extents, Managed* given) {
  using T = typename Tensor::element_type;
  constexpr int rank = Tensor::rank;
  bool read_only = false;
  if constexpr (detail::is_versioned<Managed>)
    read_only = given != nullptr && given->version.major == 1 && (given->flags & detail::dlpack_read_only) != 0;
  detail::refuse(detail::agreed(g, detail::examine<T>(given, g.active(), rank), read_only), element_of<T>, alignof(T),
                 rank);
  detail::shard_span<T, rank> shard;
  if (given != nullptr) {
    const auto& a = given->dl_tensor;
    shard.at = as<T>(const_cast<void*>(detail::first_element(*given)));
    for (std::size_t i = 0; i < shard.extents.size(); ++i) shard.extents[i] = a.shape[i];
    shard.set_contiguous();
    // The stride of a dim with one index may be anything.
    for (std::size_t i = 0; i < shard.extents.size() && a.strides != nullptr; ++i)
      if (shard.extents[i] > 1) shard.strides[i] = a.strides[i];
  }
  const auto owner = std::make_shared<detail::dlpack_owner<Managed>>();
  Tensor made;
  if (read_only) {
    const detail::shard_span<const T, rank> constants{shard.at, shard.extents, shard.strides};
    made.rebind(Tensor(g, extents, constants, owner));
  } else {
    made.rebind(Tensor(g, extents, shard, owner));
  }
  owner->taken = given;
  return made;
}

}}} // namespace cleave::v0::interop
