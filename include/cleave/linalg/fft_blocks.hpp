// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/as_number.hpp>
#include <cleave/linalg/errors.hpp>
#include <cleave/linalg/fft_transforms.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#if defined(CLEAVE_FFTW)
#include <fftw3.h>
#else
#error \
    "cleave: Fourier transforms need FFTW: link the target Cleave::fft, which is there where FFTW was found (libfftw3-dev)"
#endif

// Fourier transforms on the host. A thread copies a few neighbouring transforms to memory of its own that stays in the
// first cache, has FFTW transform them there, and copies them to where they belong. So memory is read and written once
// and by whole lines, whatever the strides are. FFTW's estimated plans are good for such blocks. They depend on nothing
// but the length, so that all devices and all runs compute the same; measured ones need not.

namespace cleave::inline v0::linalg {

namespace detail {

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
    static constexpr auto destroy = &name##_destroy_plan;        \
  }
CLEAVE_FFTW_FUNCTIONS(double, fftw);
CLEAVE_FFTW_FUNCTIONS(float, fftwf);
#undef CLEAVE_FFTW_FUNCTIONS

/// Memory of a thread for blocks, kept from run to run.
inline char* block_memory(std::int64_t bytes) {
  static thread_local indexed_vector<char> memory;
  const std::size_t wanted = as_size(bytes + 63);
  if (memory.size() < wanted) memory.resize(wanted);
  return memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
}

/// How the transforms along one dim are cut into blocks, and strips of neighbouring blocks that are copied together.
/// Where neighbours lie next to each other in memory, a row of a block has one element of each transform. Where the
/// transforms themselves do, it is a transform.
struct block_form {
  /// Transforms of a block, and blocks of a strip.
  std::int64_t width = 1, blocks = 1;
  /// Bytes of a number before and after, and of a block before and after: with complex numbers it is transformed in
  /// place.
  std::int64_t from_bytes = 0, to_bytes = 0, block_before = 0, block_after = 0;
  bool in_place = true;

  block_form() = default;
  explicit block_form(const transforms& t) {
    constexpr std::int64_t first_cache = 32 << 10, strip = 128 << 10, line = 64, strip_row = 4 * line;
    const std::int64_t real = t.in_double ? sizeof(double) : sizeof(float);
    from_bytes = real * (t.what == transform::of_real ? 1 : 2);
    to_bytes = real * (t.what == transform::to_real ? 1 : 2);
    in_place = from_bytes == to_bytes;
    const std::int64_t row = 2 * real, neighbours = t.inner == 1 ? t.outer : t.inner;
    width = first_cache / (row * t.n);
    width = std::clamp<std::int64_t>(width, t.inner == 1 ? 1 : line / row, line);
    // A power of two, since the last block of a strip need not be whole.
    while ((width & (width - 1)) != 0) width &= width - 1;
    width = std::min(width, neighbours);
    block_before = (t.from * width * from_bytes + 63) / 64 * 64;
    block_after = in_place ? 0 : (t.to * width * to_bytes + 63) / 64 * 64;
    if (t.inner > 1)
      blocks = std::clamp<std::int64_t>(std::min(strip / (block_before + block_after), strip_row / (width * row)), 1,
                                        (neighbours + width - 1) / width);
  }
  std::int64_t strip_width() const { return width * blocks; }
  std::int64_t bytes() const { return blocks * (block_before + block_after); }
};

/// A plan of FFTW for a block.
template <class R>
class block_plan {
  using fftw = fftw_functions<R>;
  using complex = typename fftw::complex;

 public:
  block_plan(const transforms& t, const block_form& f) : what_(t.what) {
    const bool rows = t.inner == 1;
    const typename fftw::dim along{t.n, rows ? 1 : f.width, rows ? 1 : f.width};
    const typename fftw::dim many{f.width, rows ? t.from : 1, rows ? t.to : 1};
    char* const from = block_memory(f.block_before + f.block_after);
    char* const to = f.in_place ? from : from + f.block_before;
    constexpr unsigned flags = FFTW_ESTIMATE | FFTW_DESTROY_INPUT;
    switch (what_) {
      case transform::of_real: plan_ = fftw::of_real(1, &along, 1, &many, as<R>(from), as<complex>(to), flags); break;
      case transform::to_real: plan_ = fftw::to_real(1, &along, 1, &many, as<complex>(from), as<R>(to), flags); break;
      default:
        plan_ = fftw::of_complex(1, &along, 1, &many, as<complex>(from), as<complex>(to),
                                 what_ == transform::forward ? FFTW_FORWARD : FFTW_BACKWARD, flags);
    }
    if (plan_ == nullptr) raise<transform_error>(wording::transform_failed("FFTW", t.n, 0));
  }
  ~block_plan() { fftw::destroy(plan_); }
  block_plan(const block_plan&) = delete;
  block_plan& operator=(const block_plan&) = delete;

  void run(char* from, char* to) const {
    switch (what_) {
      case transform::of_real: fftw::run_of_real(plan_, as<R>(from), as<complex>(to)); break;
      case transform::to_real: fftw::run_to_real(plan_, as<complex>(from), as<R>(to)); break;
      default: fftw::run_complex(plan_, as<complex>(from), as<complex>(to));
    }
  }

 private:
  transform what_;
  typename fftw::plan plan_ = nullptr;
};

/// The transforms along one dim of an array, or of a part of it that is `outer` shorter.
template <class R>
struct block_transforms {
  transforms t{};
  block_form form{};
  const block_plan<R>* plan = nullptr;
  /// What the results are multiplied by.
  R factor = 1;
  /// Whether results are stored past the caches.
  bool past_caches = false;

  void make(const transforms& given, double by) {
    t = given;
    form = block_form(t);
    plan = &kept<std::tuple<transform, std::int64_t, std::int64_t, bool>, block_plan<R>>(
        std::tuple(t.what, t.n, form.width, t.inner == 1), [&] { return std::make_unique<block_plan<R>>(t, form); });
    factor = static_cast<R>(by);
  }

  /// Strips of the array.
  std::int64_t strips() const {
    const std::int64_t width = form.strip_width();
    return t.inner == 1 ? (t.outer + width - 1) / width : t.outer * ((t.inner + width - 1) / width);
  }
  /// One of them; `memory` is for a strip.
  void run(const char* in, char* out, std::int64_t strip, char* memory) const {
    const std::int64_t width = form.strip_width();
    if (t.inner == 1) {
      const std::int64_t first = strip * width, n = std::min(width, t.outer - first);
      const std::int64_t row = t.from * form.from_bytes;
      std::memcpy(memory, in + first * row, as_size(n * row));
      std::memset(memory + n * row, 0, as_size((width - n) * row));
      char* const to = transformed(memory, 0);
      store(out + first * t.to * form.to_bytes, to, n * t.to * form.to_bytes);
    } else {
      const std::int64_t across = (t.inner + width - 1) / width, first = strip % across * width;
      const std::int64_t n = std::min(width, t.inner - first), blocks = (n + form.width - 1) / form.width;
      const std::int64_t at = strip / across;
      read(in + (at * t.from * t.inner + first) * form.from_bytes, n, blocks, memory);
      for (std::int64_t b = 0; b < blocks; ++b) transformed(memory, b);
      write(out + (at * t.to * t.inner + first) * form.to_bytes, n, blocks, memory);
    }
    if (past_caches) finish_stores_past_caches();
  }

 private:
  char* before(char* memory, std::int64_t block) const { return memory + block * form.block_before; }
  char* after(char* memory, std::int64_t block) const {
    return form.in_place ? before(memory, block) : memory + form.blocks * form.block_before + block * form.block_after;
  }
  /// Transforms a block, and says where its results are.
  char* transformed(char* memory, std::int64_t block) const {
    char* const to = after(memory, block);
    plan->run(before(memory, block), to);
    if (factor != R(1)) {
      R* const all = as<R>(to);
      const std::int64_t numbers = t.to * form.width * form.to_bytes / std::int64_t{sizeof(R)};
      for (std::int64_t i = 0; i < numbers; ++i) all[i] *= factor;
    }
    return to;
  }
  /// n columns of the strip, row by row; what the last block lacks is 0.
  void read(const char* in, std::int64_t n, std::int64_t blocks, char* memory) const {
    const std::int64_t row = form.width * form.from_bytes, last = n * form.from_bytes - (blocks - 1) * row;
    for (std::int64_t k = 0; k < t.from; ++k, in += t.inner * form.from_bytes) {
      for (std::int64_t b = 0; b + 1 < blocks; ++b)
        std::memcpy(before(memory, b) + k * row, in + b * row, as_size(row));
      char* const end = before(memory, blocks - 1) + k * row;
      std::memcpy(end, in + (blocks - 1) * row, as_size(last));
      if (last < row) std::memset(end + last, 0, as_size(row - last));
    }
  }
  void write(char* out, std::int64_t n, std::int64_t blocks, char* memory) const {
    const std::int64_t row = form.width * form.to_bytes, last = n * form.to_bytes - (blocks - 1) * row;
    for (std::int64_t k = 0; k < t.to; ++k, out += t.inner * form.to_bytes) {
      for (std::int64_t b = 0; b + 1 < blocks; ++b) store(out + b * row, after(memory, b) + k * row, row);
      store(out + (blocks - 1) * row, after(memory, blocks - 1) + k * row, last);
    }
  }
  void store(char* to, const char* from, std::int64_t bytes) const {
    if (past_caches && reinterpret_cast<std::uintptr_t>(to) % 64 == 0) store_bytes_past_caches(to, from, bytes);
    else std::memcpy(to, from, as_size(bytes));
  }
};

/// All strips of the transforms along one dim.
template <class R>
struct every_strip {
  const block_transforms<R>* along;
  const char* in;
  char* out;
  void operator()(std::int64_t strip) const { along->run(in, out, strip, block_memory(along->form.bytes())); }
};
/// The transforms along several dims, in parts of the array that stay in the second cache.
template <class R>
struct every_tile {
  const block_transforms<R>* along;
  int count;
  const char* in;
  char* out;
  std::int64_t tile_bytes;

  void operator()(std::int64_t tile) const {
    std::int64_t most = 0;
    for (int k = 0; k < count; ++k) most = std::max(most, along[k].form.bytes());
    char *const memory = block_memory(tile_bytes + 64 + most), *const between = memory + (most + 63) / 64 * 64;
    const char* from = in + tile * tile_bytes;
    for (int k = 0; k < count; ++k) {
      char* const to = k + 1 == count ? out + tile * tile_bytes : between;
      const std::int64_t strips = along[k].strips();
      for (std::int64_t s = 0; s < strips; ++s) along[k].run(from, to, s, memory);
      from = to;
    }
  }
};

/// The transforms along dims from the last to the first. Those whose parts stay in the second cache are done together.
template <class R>
void run_on_host(std::span<const transforms> all, const void* in, void* out, double factor) {
  constexpr std::int64_t second_cache = 1 << 20, past_caches_from = 1 << 24, number = 2 * std::int64_t{sizeof(R)};
  std::array<block_transforms<R>, max_rank> along;
  const int count = as_int(all.size());
  for (int first = 0, end = 1; first < count; first = end++) {
    while (end < count && all[as_size(end)].n * all[as_size(end)].inner * number <= second_cache) ++end;
    const std::int64_t tiles = all[as_size(end - 1)].outer;
    for (int k = first; k < end; ++k) {
      transforms t = all[as_size(k)];
      if (end - first > 1) t.outer /= tiles;
      along[as_size(k)].make(t, k + 1 == count ? factor : 1);
    }
    block_transforms<R>& last = along[as_size(end - 1)];
    const transforms& of_last = all[as_size(end - 1)];
    last.past_caches = has_stores_past_caches &&
                       of_last.outer * of_last.to * of_last.inner * last.form.to_bytes >= past_caches_from;
    const char* const from = as<char>(first == 0 ? in : out);
    if (end - first == 1) launch("fft", last.strips(), every_strip<R>{&last, from, as<char>(out)});
    else
      launch("fft", tiles,
             every_tile<R>{&along[as_size(first)], end - first, from, as<char>(out),
                           of_last.n * of_last.inner * number});
  }
}
inline void run_transforms(std::span<const transforms> all, const void* in, void* out, double factor) {
  if (all[0].in_double) run_on_host<double>(all, in, out, factor);
  else run_on_host<float>(all, in, out, factor);
}

} // namespace detail

} // namespace cleave::inline v0::linalg
