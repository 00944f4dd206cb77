// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/linalg/fft_plans.hpp>

#include <algorithm>
#include <array>
#include <cstring>

// Fourier transforms on the host. A thread copies a few neighbouring transforms to memory of its own that stays in the
// first cache, has FFTW transform them there, and copies them to where they belong. So memory is read and written once
// and by whole lines, whatever the strides are.

namespace cleave { inline namespace v0 { namespace linalg { namespace detail {

/// The transforms along one dim of an array, or of a part of it that is `outer` shorter.
template <class R>
struct block_transforms {
  transforms t{};
  block_form form{};
  const block_plan<R>* plan = nullptr;
  /// The factor of the results.
  R factor = 1;
  /// Whether results are stored past the caches.
  bool non_temporal = false;

  /// Whole blocks are transformed as all devices of the grid agreed, others by a plan that follows from a rule.
  void make(const transforms& given, double by, std::int64_t grid) {
    t = given;
    form = block_form(t);
    const plan_key key{t.what, t.n, form.width, t.inner == 1};
    plans_of_process<R>& plans = plans_of_process<R>::all();
    plan = plans.agreed(grid, key);
    if (plan == nullptr) plan = &plans.made_with(key, {});
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
    if (non_temporal) finish_stores_non_temporal();
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
  /// n columns of the strip, row by row; the last block is filled with zeros.
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
    if (non_temporal && reinterpret_cast<std::uintptr_t>(to) % 64 == 0) store_bytes_non_temporal(to, from, bytes);
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
void run_on_host(std::span<const transforms> all, const void* in, void* out, double factor, std::int64_t grid) {
  constexpr std::int64_t second_cache = 1 << 20, number = 2 * std::int64_t{sizeof(R)};
  std::array<block_transforms<R>, max_rank> along;
  const int count = as_int(all.size());
  for (int first = 0, end = 1; first < count; first = end++) {
    while (end < count && all[as_size(end)].n * all[as_size(end)].inner * number <= second_cache) ++end;
    const std::int64_t tiles = all[as_size(end - 1)].outer;
    for (int k = first; k < end; ++k) {
      transforms t = all[as_size(k)];
      if (end - first > 1) t.outer /= tiles;
      along[as_size(k)].make(t, k + 1 == count ? factor : 1, grid);
    }
    block_transforms<R>& last = along[as_size(end - 1)];
    const transforms& of_last = all[as_size(end - 1)];
    last.non_temporal = stores_of(of_last.outer * of_last.to * of_last.inner * last.form.to_bytes) ==
                        stores::non_temporal;
    const char* const from = as<char>(first == 0 ? in : out);
    if (end - first == 1) launch("fft", last.strips(), every_strip<R>{&last, from, as<char>(out)});
    else
      launch("fft", tiles,
             every_tile<R>{&along[as_size(first)], end - first, from, as<char>(out),
                           of_last.n * of_last.inner * number});
  }
}
inline void run_transforms(const local_context& here, std::span<const transforms> all, const void* in, void* out,
                           double factor) {
  if (all[0].in_double) run_on_host<double>(all, in, out, factor, here.grid_id());
  else run_on_host<float>(all, in, out, factor, here.grid_id());
}
/// The devices agree on plans for transforms of a length along a dim. The last dim has a row of a block for each
/// transform. Collective over the devices when these come for the first time.
inline void agree_on_transforms(const local_context& here, transform what, std::int64_t n, bool last, bool in_double) {
  const plan_key key{what, n, block_form::widest(std::max<std::int64_t>(n, 1), last, in_double), last};
  if (in_double) agree_on_plan<double>(here, key);
  else agree_on_plan<float>(here, key);
}

}}}} // namespace cleave::v0::linalg::detail
