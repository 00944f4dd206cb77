// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/linalg/errors.hpp>
#include <cleave/linalg/fft_transforms.hpp>

#include <Kokkos_Core.hpp>

#if defined(KOKKOS_ENABLE_CUDA)
#include <cufft.h>

#include <thread>
#else
#include <cleave/linalg/fft_blocks.hpp>
#endif

// Fourier transforms of shards: by cuFFT here, by FFTW in linalg/fft_blocks.hpp. Plans are made once for a shape, by
// cuFFT also for each thread that runs grids, and kept until the program ends.

namespace cleave { inline namespace v0 { namespace linalg { namespace detail {

#if defined(KOKKOS_ENABLE_CUDA)

/// Sets the imaginary parts to 0 of those numbers of a half spectrum that are real by definition: the first, and of an
/// even length the last. FFTW does not read them; with other numbers the results of cuFFT are undefined.
template <class R>
struct clear_imaginary_parts {
  R* spectrum;
  std::int64_t from, inner, last;

  CLEAVE_FUNCTION void operator()(std::int64_t i) const {
    R* const first = spectrum + 2 * (i / inner * from * inner + i % inner);
    first[1] = R(0);
    if (last >= 0) first[2 * last * inner + 1] = R(0);
  }
};

/// A plan of cuFFT for all transforms that have one stride in common: all, or those of one outer index.
class device_plan {
 public:
  explicit device_plan(const transforms& t) : made_for_(t) {
    long long n = t.n, from = t.from, to = t.to;
    const long long step = t.inner, batch = t.inner == 1 ? t.outer : t.inner;
    std::size_t bytes = 0;
    cufftResult result = cufftCreate(&handle_);
    if (result == CUFFT_SUCCESS)
      result = cufftMakePlanMany64(handle_, 1, &n, &from, step, t.inner == 1 ? from : 1, &to, step,
                                   t.inner == 1 ? to : 1, type(), batch, &bytes);
    if (result != CUFFT_SUCCESS)
      raise<transform_error>(wording::transform_failed("cuFFT", t.n, static_cast<std::int64_t>(result)));
  }
  device_plan(const device_plan&) = delete;
  device_plan& operator=(const device_plan&) = delete;

  void run(const void* in, void* out) {
    const transforms& t = made_for_;
    const std::int64_t number = t.in_double ? sizeof(double) : sizeof(float), calls = t.inner == 1 ? 1 : t.outer;
    const std::int64_t from_bytes = number * (t.what == transform::of_real ? 1 : 2) * t.outer / calls * t.from *
                                    t.inner,
                       to_bytes = number * (t.what == transform::to_real ? 1 : 2) * t.outer / calls * t.to * t.inner;
    char* from = as<char>(const_cast<void*>(in));
    // A transform to real numbers by cuFFT may overwrite its operand, which may be an argument of the user.
    if (t.what == transform::to_real) {
      copy_.at_least(calls * from_bytes);
      copy_bytes(copy_.get(), from, calls * from_bytes);
      from = copy_.get();
      if (t.in_double) clear<double>(from);
      else clear<float>(from);
    }
    cufftResult result = cufftSetStream(handle_, execution_instance().cuda_stream());
    for (std::int64_t o = 0; o < calls && result == CUFFT_SUCCESS; ++o) {
      char *const read = aligned(aligned_from_, from + o * from_bytes, from_bytes, true),
                  *const target = as<char>(out) + o * to_bytes,
                  *const written = aligned(aligned_to_, target, to_bytes, false);
      result = execute(read, written);
      copy_bytes(target, written, to_bytes);
    }
    if (result != CUFFT_SUCCESS)
      raise<transform_error>(wording::transform_failed("cuFFT", t.n, static_cast<std::int64_t>(result)));
  }

 private:
  cufftType type() const {
    switch (made_for_.what) {
      case transform::of_real: return made_for_.in_double ? CUFFT_D2Z : CUFFT_R2C;
      case transform::to_real: return made_for_.in_double ? CUFFT_Z2D : CUFFT_C2R;
      default: return made_for_.in_double ? CUFFT_Z2Z : CUFFT_C2C;
    }
  }
  cufftResult execute(void* from, void* to) {
    const int direction = made_for_.what == transform::forward ? CUFFT_FORWARD : CUFFT_INVERSE;
    const bool wide = made_for_.in_double;
    switch (made_for_.what) {
      case transform::of_real:
        return wide ? cufftExecD2Z(handle_, as<cufftDoubleReal>(from), as<cufftDoubleComplex>(to))
                    : cufftExecR2C(handle_, as<cufftReal>(from), as<cufftComplex>(to));
      case transform::to_real:
        return wide ? cufftExecZ2D(handle_, as<cufftDoubleComplex>(from), as<cufftDoubleReal>(to))
                    : cufftExecC2R(handle_, as<cufftComplex>(from), as<cufftReal>(to));
      default:
        return wide ? cufftExecZ2Z(handle_, as<cufftDoubleComplex>(from), as<cufftDoubleComplex>(to), direction)
                    : cufftExecC2C(handle_, as<cufftComplex>(from), as<cufftComplex>(to), direction);
    }
  }

  /// Where cuFFT may read or write numbers: real ones must begin where a complex one could, and rows of an odd length
  /// do not. Those have a copy.
  char* aligned(kept_memory<char>& beside, char* at, std::int64_t bytes, bool is_read) {
    const std::uintptr_t number = made_for_.in_double ? 2 * sizeof(double) : 2 * sizeof(float);
    if (reinterpret_cast<std::uintptr_t>(at) % number == 0) return at;
    char* const there = beside.at_least(bytes);
    if (is_read) copy_bytes(there, at, bytes);
    return there;
  }
  template <class R>
  void clear(char* spectrum) const {
    const transforms& t = made_for_;
    launch("irfft", t.outer * t.inner,
           clear_imaginary_parts<R>{as<R>(spectrum), t.from, t.inner, t.n % 2 == 0 ? t.n / 2 : -1});
  }

  // Never destroyed: the driver may be gone by then, and takes them with it.
  cufftHandle handle_{};
  transforms made_for_;
  /// Copies of operands that are transformed to real numbers, and of real numbers that are not aligned.
  kept_memory<char> copy_{}, aligned_from_{}, aligned_to_{};
};

inline void run_transforms(const local_context&, std::span<const transforms> all, const void* in, void* out,
                           double factor) {
  for (const transforms& t : all) {
    // A plan has a stream and memory, which threads cannot share.
    const std::pair key(std::this_thread::get_id(), t);
    kept<decltype(key), device_plan>(key, [&] { return std::make_unique<device_plan>(t); }).run(in, out);
    in = out;
  }
  if (factor == 1) return;
  const transforms& t = all.back();
  const std::int64_t numbers = t.outer * t.to * t.inner * (t.what == transform::to_real ? 1 : 2);
  if (t.in_double) scale_by<double>(out, numbers, factor);
  else scale_by<float>(out, numbers, factor);
}
/// cuFFT's plans follow from lengths and strides.
inline void agree_on_transforms(const local_context&, transform, std::int64_t, bool, bool) {}

#endif

/// Whether nothing lies between neighbours along a dim.
inline bool is_last(const shape& s, int position) {
  std::int64_t inner = 1;
  for (int i = position + 1; i < s.rank; ++i) inner *= s[i];
  return inner == 1;
}

/// Transforms along some dims of a shard, one of `in` and `out`.
inline void run_transform(const local_context& here, const shard& in, const shard& out, std::span<const dim_ref> from,
                          std::span<const dim_ref> to, transform what) {
  const bool real = what == transform::of_real || what == transform::to_real;
  const bool in_double = (what == transform::of_real ? out.element : in.element) == element::c128;
  // From the last dim to the first.
  std::array<transforms, max_rank> all;
  std::size_t count = 0;
  double factor = 1;
  bool empty = false;
  for (int position = out.local.rank - 1; position >= 0; --position)
    for (std::size_t k = 0; k < from.size(); ++k) {
      if (in.dims.find(from[k]) != position) continue;
      const std::int64_t n = what == transform::to_real ? out.global[position] : in.global[position];
      const std::int64_t half = what == transform::to_real ? in.global[position] : out.global[position];
      // Checked before anything else, so that all ranks throw, whatever they have.
      if (real && half != n / 2 + 1)
        raise<shape_error>(
            wording::spectrum_extent(what == transform::to_real ? from[k].name : to[k].name, n / 2 + 1, n, half));
      agree_on_transforms(here, what, n, is_last(in.global, position), in_double);
      transforms t{what, in_double, n, in.local[position], out.local[position], 1, 1};
      for (int i = 0; i < out.local.rank; ++i)
        if (i != position) (i < position ? t.outer : t.inner) *= out.local[i];
      if (what == transform::inverse || what == transform::to_real) factor /= as_double(n);
      empty = empty || n == 0;
      all[count++] = t;
    }
  const std::int64_t numbers = out.local.elements() * (what == transform::to_real ? 1 : 2);
  if (numbers == 0) return;
  if (empty) {
    // The sum over nothing.
    if (in_double) scale_by<double>(out.data, numbers, 0);
    else scale_by<float>(out.data, numbers, 0);
    return;
  }
  run_transforms(here, std::span<const transforms>(all.data(), count), in.data, out.data, factor);
}

template <transform What, std::size_t Along, class... D>
void transform_kernel<What, Along, D...>::operator()(const local_context& here, std::span<const shard> in,
                                                     const shard& out) const {
  run_transform(here, in[0], out, dims, dims, What);
}
template <class From, class To, transform What>
void half_spectrum_kernel<From, To, What>::operator()(const local_context& here, std::span<const shard> in,
                                                      const shard& out) const {
  constexpr std::array<dim_ref, 1> from{From::ref}, to{To::ref};
  run_transform(here, in[0], out, from, to, What);
}

}}}} // namespace cleave::v0::linalg::detail
