// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/linalg/fft_recorded.hpp>
#include <cleave/shards.hpp>

#include <Kokkos_Core.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>

#if defined(KOKKOS_ENABLE_CUDA)
#include <cufft.h>
#elif defined(CLEAVE_FFTW)
#include <fftw3.h>
#else
#error \
    "cleave: Fourier transforms need FFTW: link the target Cleave::fft, which is there where FFTW was found (libfftw3-dev)"
#endif

// Fourier transforms of shards by FFTW or cuFFT. Plans are made once for a shape and kept until the program ends.

namespace cleave::inline v0::linalg {

namespace detail {

/// Transforms along one dim of a LayoutRight array: `outer` times `inner` of them, neighbours along the dim `inner`
/// apart.
struct transforms {
  transform what;
  bool in_double;
  /// Real or complex numbers that one transform is of; what is stored of them before and after.
  std::int64_t n, from, to, outer, inner;

  auto key() const { return std::tuple(what, in_double, n, outer, inner); }
  friend bool operator<(const transforms& a, const transforms& b) { return a.key() < b.key(); }
};

/// What was made once, by key. Several threads may run grids of their own at one time.
template <class Key, class Plan, class Make>
Plan& kept(const Key& key, Make make) {
  static std::map<Key, std::unique_ptr<Plan>> all;
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const auto known = all.find(key);
  return *(known != all.end() ? known : all.emplace(key, make()).first)->second;
}

#if defined(KOKKOS_ENABLE_CUDA)

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
      throw transform_error(wording::transform_failed("cuFFT", t.n, static_cast<std::int64_t>(result)));
  }
  device_plan(const device_plan&) = delete;
  device_plan& operator=(const device_plan&) = delete;

  void run(const void* in, void* out) {
    const transforms& t = made_for_;
    const std::size_t number = t.in_double ? sizeof(double) : sizeof(float);
    const std::size_t in_bytes = number * (t.what == transform::of_real ? 1 : 2),
                      out_bytes = number * (t.what == transform::to_real ? 1 : 2);
    char* from = as<char>(const_cast<void*>(in));
    const std::size_t size = in_bytes * as_size(t.outer * t.from * t.inner);
    // To real numbers cuFFT may overwrite what it reads, which may be an argument of the user.
    if (t.what == transform::to_real) {
      if (copy_.extent(0) < size)
        copy_ = Kokkos::View<char*, memory_space>(Kokkos::view_alloc("cleave: spectrum", Kokkos::WithoutInitializing),
                                                  size);
      copy_bytes(copy_.data(), from, static_cast<std::int64_t>(size));
      from = copy_.data();
    }
    cufftResult result = cufftSetStream(handle_, execution_instance().cuda_stream());
    const std::int64_t calls = t.inner == 1 ? 1 : t.outer;
    for (std::int64_t o = 0; o < calls && result == CUFFT_SUCCESS; ++o)
      result = execute(from + in_bytes * as_size(o * t.from * t.inner),
                       as<char>(out) + out_bytes * as_size(o * t.to * t.inner));
    if (result != CUFFT_SUCCESS)
      throw transform_error(wording::transform_failed("cuFFT", t.n, static_cast<std::int64_t>(result)));
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

  // Never destroyed: the driver may be gone by then, and takes them with it.
  cufftHandle handle_{};
  transforms made_for_;
  Kokkos::View<char*, memory_space> copy_{};
};

inline void run_transforms(const transforms& t, const void* in, void* out) {
  kept<transforms, device_plan>(t, [&] { return std::make_unique<device_plan>(t); }).run(in, out);
}

#else

/// FFTW's functions for a type of real numbers.
template <class R>
struct fftw_functions;
#define CLEAVE_FFTW_FUNCTIONS(R, name)                           \
  template <>                                                    \
  struct fftw_functions<R> {                                     \
    using plan = name##_plan;                                    \
    using dim = name##_iodim64;                                  \
    using complex = name##_complex;                              \
    static constexpr auto of_complex = &name##_plan_guru64_dft;  \
    static constexpr auto of_real = &name##_plan_guru64_dft_r2c; \
    static constexpr auto to_real = &name##_plan_guru64_dft_c2r; \
    static constexpr auto run_complex = &name##_execute_dft;     \
    static constexpr auto run_of_real = &name##_execute_dft_r2c; \
    static constexpr auto run_to_real = &name##_execute_dft_c2r; \
    static constexpr auto alignment = &name##_alignment_of;      \
    static constexpr auto destroy = &name##_destroy_plan;        \
  }
CLEAVE_FFTW_FUNCTIONS(double, fftw);
CLEAVE_FFTW_FUNCTIONS(float, fftwf);
#undef CLEAVE_FFTW_FUNCTIONS

/// A plan of FFTW for all transforms of a shard: its guru interface takes the strides as they are.
template <class R>
class host_plan {
  using fftw = fftw_functions<R>;

 public:
  host_plan(const transforms& t, void* in, void* out) : what_(t.what) {
    const typename fftw::dim along{t.n, t.inner, t.inner};
    const typename fftw::dim many[2]{{t.outer, t.from * t.inner, t.to * t.inner}, {t.inner, 1, 1}};
    // What is estimated, not measured, leaves the arrays alone and is the same on every run.
    const unsigned flags = FFTW_ESTIMATE | FFTW_PRESERVE_INPUT;
    const auto numbers = [](void* at) { return as<typename fftw::complex>(at); };
    switch (t.what) {
      case transform::of_real: plan_ = fftw::of_real(1, &along, 2, many, as<R>(in), numbers(out), flags); break;
      case transform::to_real: plan_ = fftw::to_real(1, &along, 2, many, numbers(in), as<R>(out), flags); break;
      default:
        plan_ = fftw::of_complex(1, &along, 2, many, numbers(in), numbers(out),
                                 t.what == transform::forward ? FFTW_FORWARD : FFTW_BACKWARD, flags);
    }
    if (plan_ == nullptr) throw transform_error(wording::transform_failed("FFTW", t.n, 0));
  }
  ~host_plan() { fftw::destroy(plan_); }
  host_plan(const host_plan&) = delete;
  host_plan& operator=(const host_plan&) = delete;

  void run(void* in, void* out) const {
    const auto numbers = [](void* at) { return as<typename fftw::complex>(at); };
    switch (what_) {
      case transform::of_real: fftw::run_of_real(plan_, as<R>(in), numbers(out)); break;
      case transform::to_real: fftw::run_to_real(plan_, numbers(in), as<R>(out)); break;
      default: fftw::run_complex(plan_, numbers(in), numbers(out));
    }
  }

 private:
  transform what_;
  typename fftw::plan plan_ = nullptr;
};

template <class R>
void run_on_host(const transforms& t, const void* from, void* out) {
  void* in = const_cast<void*>(from);
  const auto alignment = [](void* at) { return fftw_functions<R>::alignment(as<R>(at)); };
  // A plan is for memory that is aligned as that it was made with.
  const auto key = std::tuple(t.key(), alignment(in), alignment(out));
  kept<std::remove_const_t<decltype(key)>, host_plan<R>>(key, [&] {
    return std::make_unique<host_plan<R>>(t, in, out);
  }).run(in, out);
}
inline void run_transforms(const transforms& t, const void* in, void* out) {
  if (t.in_double) run_on_host<double>(t, in, out);
  else run_on_host<float>(t, in, out);
}

#endif

} // namespace detail

/// Multiplies numbers, real ones or the parts of complex ones; by 0 whatever they are.
template <class R>
struct scale_numbers {
  Kokkos::View<R*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> numbers;
  R by;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const { numbers(i) = by == R(0) ? R(0) : numbers(i) * by; }
};

namespace detail {

template <class R>
void scale_by(void* at, std::int64_t numbers, double factor) {
  const Kokkos::View<R*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> all(as<R>(at),
                                                                                                         as_size(
                                                                                                             numbers));
  launch("ifft scale", numbers, scale_numbers<R>{all, static_cast<R>(factor)});
}

inline void run_transform(const shard& in, const shard& out, dim_ref from, dim_ref to, transform what) {
  const int position = in.dims.find(from);
  const bool real = what == transform::of_real || what == transform::to_real;
  const std::int64_t n = what == transform::to_real ? out.global[position] : in.global[position];
  const std::int64_t half = what == transform::to_real ? in.global[position] : out.global[position];
  // Checked before anything else, so that all ranks throw, whatever they have.
  if (real && half != n / 2 + 1)
    raise<shape_error>(wording::spectrum_extent(what == transform::to_real ? from.name : to.name, n / 2 + 1, n, half));
  const element complex = what == transform::of_real ? out.element : in.element;
  transforms t{what, complex == element::c128, n, in.local[position], out.local[position], 1, 1};
  for (int i = 0; i < out.local.rank; ++i)
    if (i != position) (i < position ? t.outer : t.inner) *= out.local[i];
  if (t.outer * t.inner == 0) return;
  if (n == 0) {
    // The sum over nothing.
    const std::int64_t numbers = 2 * out.local.elements();
    if (t.in_double) scale_by<double>(out.data, numbers, 0);
    else scale_by<float>(out.data, numbers, 0);
    return;
  }
  run_transforms(t, in.data, out.data);
  if (what == transform::forward || what == transform::of_real || n == 1) return;
  const std::int64_t numbers = out.local.elements() * (what == transform::inverse ? 2 : 1);
  const double factor = 1 / static_cast<double>(n);
  if (t.in_double) scale_by<double>(out.data, numbers, factor);
  else scale_by<float>(out.data, numbers, factor);
}

template <class From, class To, transform What>
void transform_kernel<From, To, What>::operator()(const local_context&, std::span<const shard> in,
                                                  const shard& out) const {
  run_transform(in[0], out, From::ref, To::ref, What);
}

} // namespace detail

} // namespace cleave::inline v0::linalg
