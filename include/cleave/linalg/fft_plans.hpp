// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/environment.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/linalg/errors.hpp>
#include <cleave/linalg/fft_transforms.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#if defined(CLEAVE_FFTW)
#include <fftw3.h>
#else
#error \
    "cleave: Fourier transforms need FFTW: link the target Cleave::fft, which is there where FFTW was found (libfftw3-dev)"
#endif

// Blocks of transforms and FFTW's plans for them. A plan that was measured is up to a third faster than one that FFTW
// estimates, and which one it is may change from run to run, and with it the last bits of a result. All devices of a
// grid must compute the same of the same numbers, so one of them measures, and the others get its choice.

namespace cleave { inline namespace v0 { namespace linalg {

/// How FFTW chooses its plans. CLEAVE_FFT_PLANS=measured or estimated in the environment sets it, or fft_plan_mode() =
/// ... on the first device of a grid before the first transform.
enum class fft_plans : std::uint8_t {
  /// By measuring, once for each grid and length: a block of transforms that fits into the second cache.
  measured,
  /// By a rule. The same numbers give the same bits in every run and on any number of devices.
  estimated,
};
inline fft_plans& fft_plan_mode() {
  static fft_plans mode = fft_plans_of_environment() == "estimated" ? fft_plans::estimated : fft_plans::measured;
  return mode;
}

namespace detail {

/// FFTW's functions for a type of real numbers.
template <class R>
struct fftw_functions;
#define CLEAVE_FFTW_FUNCTIONS(R, name)                               \
  template <>                                                        \
  struct fftw_functions<R> {                                         \
    using plan = name##_plan;                                        \
    using dim = name##_iodim64;                                      \
    using complex = name##_complex;                                  \
    static constexpr auto of_complex = &name##_plan_guru64_dft;      \
    static constexpr auto of_real = &name##_plan_guru64_dft_r2c;     \
    static constexpr auto to_real = &name##_plan_guru64_dft_c2r;     \
    static constexpr auto run_complex = &name##_execute_dft;         \
    static constexpr auto run_of_real = &name##_execute_dft_r2c;     \
    static constexpr auto run_to_real = &name##_execute_dft_c2r;     \
    static constexpr auto destroy = &name##_destroy_plan;            \
    static constexpr auto wisdom = &name##_export_wisdom_to_string;  \
    static constexpr auto learn = &name##_import_wisdom_from_string; \
    static constexpr auto forget = &name##_forget_wisdom;            \
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

  static constexpr std::int64_t line = 64;
  /// The transforms of a block where there are as many: a power of two, since the last block of a strip need not be
  /// whole.
  static std::int64_t widest(std::int64_t n, bool rows, bool in_double) {
    constexpr std::int64_t first_cache = 32 << 10;
    const std::int64_t row = number_bytes(in_double);
    return static_cast<std::int64_t>(std::bit_floor(
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(first_cache / (row * n), rows ? 1 : line / row, line))));
  }
  /// Bytes of a complex number.
  static std::int64_t number_bytes(bool in_double) { return in_double ? 16 : 8; }

  block_form() = default;
  explicit block_form(const transforms& t) {
    constexpr std::int64_t strip = 128 << 10, strip_row = 4 * line;
    const std::int64_t real = t.in_double ? sizeof(double) : sizeof(float);
    from_bytes = real * (t.what == transform::of_real ? 1 : 2);
    to_bytes = real * (t.what == transform::to_real ? 1 : 2);
    in_place = from_bytes == to_bytes;
    const std::int64_t row = 2 * real, neighbours = t.inner == 1 ? t.outer : t.inner;
    width = std::min(widest(t.n, t.inner == 1, t.in_double), neighbours);
    block_before = (t.from * width * from_bytes + 63) / 64 * 64;
    block_after = in_place ? 0 : (t.to * width * to_bytes + 63) / 64 * 64;
    if (t.inner > 1)
      blocks = std::clamp<std::int64_t>(std::min(strip / (block_before + block_after), strip_row / (width * row)), 1,
                                        (neighbours + width - 1) / width);
  }
  std::int64_t strip_width() const { return width * blocks; }
  std::int64_t bytes() const { return blocks * (block_before + block_after); }
};

/// The key of a plan of FFTW.
struct plan_key {
  transform what;
  std::int64_t n, width;
  /// Whether a row of the block is a transform.
  bool rows;

  auto all() const { return std::tuple(what, n, width, rows); }
  friend bool operator<(const plan_key& a, const plan_key& b) { return a.all() < b.all(); }
};

/// A plan of FFTW for a block; none if FFTW has none by the given flags.
template <class R>
class block_plan {
  using fftw = fftw_functions<R>;
  using complex = typename fftw::complex;

 public:
  block_plan(const plan_key& key, unsigned how) : what_(key.what) {
    const std::int64_t half = key.n / 2 + 1, from = what_ == transform::to_real ? half : key.n,
                       to = what_ == transform::of_real ? half : key.n, step = key.rows ? 1 : key.width;
    const typename fftw::dim along{key.n, step, step}, many{key.width, key.rows ? from : 1, key.rows ? to : 1};
    const bool in_place = what_ == transform::forward || what_ == transform::inverse;
    const std::int64_t bytes = (std::max(from, to) * key.width * block_form::number_bytes(sizeof(R) == 8) + 63) / 64 *
                               64;
    char* const before = block_memory(in_place ? bytes : 2 * bytes);
    char* const after = in_place ? before : before + bytes;
    const unsigned flags = how | FFTW_DESTROY_INPUT;
    switch (what_) {
      case transform::of_real:
        plan_ = fftw::of_real(1, &along, 1, &many, as<R>(before), as<complex>(after), flags);
        break;
      case transform::to_real:
        plan_ = fftw::to_real(1, &along, 1, &many, as<complex>(before), as<R>(after), flags);
        break;
      default:
        plan_ = fftw::of_complex(1, &along, 1, &many, as<complex>(before), as<complex>(after),
                                 what_ == transform::forward ? FFTW_FORWARD : FFTW_BACKWARD, flags);
    }
  }
  ~block_plan() {
    if (plan_ != nullptr) fftw::destroy(plan_);
  }
  block_plan(const block_plan&) = delete;
  block_plan& operator=(const block_plan&) = delete;
  bool made() const { return plan_ != nullptr; }

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

/// Puts aside the wisdom that FFTW has in this process, so that a plan depends only on the wisdom that is passed.
template <class R>
class wisdom_aside {
  using fftw = fftw_functions<R>;

 public:
  wisdom_aside() : kept_(now()) { fftw::forget(); }
  ~wisdom_aside() {
    fftw::forget();
    fftw::learn(kept_.c_str());
  }
  wisdom_aside(const wisdom_aside&) = delete;
  wisdom_aside& operator=(const wisdom_aside&) = delete;
  /// The wisdom of FFTW as text.
  static std::string now() {
    char* const text = fftw::wisdom();
    std::string made = text == nullptr ? "" : text;
    std::free(text);
    return made;
  }

 private:
  std::string kept_;
};

/// The plans of this process for one type of numbers. FFTW makes one plan at a time.
template <class R>
class plans_of_process {
 public:
  static plans_of_process& all() {
    static plans_of_process one;
    return one;
  }
  /// The plan that the devices of a grid agreed on; null if they have not yet.
  const block_plan<R>* agreed(std::int64_t grid, const plan_key& key) {
    const std::lock_guard lock(one_at_a_time_);
    const auto known = agreed_.find({grid, key});
    return known == agreed_.end() ? nullptr : known->second;
  }
  /// The wisdom that FFTW gains by measuring plans for a key; empty if it does not measure.
  std::string measure(const plan_key& key) {
    if (fft_plan_mode() != fft_plans::measured) return {};
    const std::lock_guard lock(one_at_a_time_);
    const auto known = measured_.find(key);
    if (known != measured_.end()) return known->second;
    const wisdom_aside<R> aside;
    const block_plan<R> plan(key, FFTW_MEASURE);
    return measured_[key] = aside.now();
  }
  void agree(std::int64_t grid, const plan_key& key, const std::string& wisdom) {
    const block_plan<R>& plan = made_with(key, wisdom);
    const std::lock_guard lock(one_at_a_time_);
    agreed_[{grid, key}] = &plan;
  }
  /// A plan that follows from wisdom, or from a rule where that has none for this processor.
  const block_plan<R>& made_with(const plan_key& key, const std::string& wisdom) {
    const std::lock_guard lock(one_at_a_time_);
    std::unique_ptr<block_plan<R>>& plan = made_[{key, wisdom}];
    if (plan == nullptr) {
      const wisdom_aside<R> aside;
      if (!wisdom.empty() && fftw_functions<R>::learn(wisdom.c_str()) != 0)
        plan = std::make_unique<block_plan<R>>(key, FFTW_MEASURE | FFTW_WISDOM_ONLY);
      if (plan == nullptr || !plan->made()) plan = std::make_unique<block_plan<R>>(key, FFTW_ESTIMATE);
    }
    if (!plan->made()) raise<transform_error>(wording::transform_failed("FFTW", key.n, 0));
    return *plan;
  }

 private:
  std::mutex one_at_a_time_{};
  std::map<std::pair<plan_key, std::string>, std::unique_ptr<block_plan<R>>> made_{};
  std::map<std::pair<std::int64_t, plan_key>, const block_plan<R>*> agreed_{};
  std::map<plan_key, std::string> measured_{};
};

/// The devices of a grid agree on a plan of whole blocks. Collective over the devices when a key comes for the first
/// time. Communication then: the wisdom of FFTW, a few hundred bytes, is broadcast.
template <class R>
void agree_on_plan(const local_context& here, const plan_key& key) {
  plans_of_process<R>& plans = plans_of_process<R>::all();
  // A block beyond the second cache is rare, and measuring it takes long.
  constexpr std::int64_t second_cache = 1 << 20;
  if (key.n * key.width * block_form::number_bytes(sizeof(R) == 8) > second_cache || key.n == 0) return;
  if (plans.agreed(here.grid_id(), key) != nullptr) return;
  fft_plan_mode(); // throws on all devices where the environment misspells it
  std::string wisdom;
  if (here.device() == 0) wisdom = plans.measure(key);
  here.broadcast_text(wisdom);
  plans.agree(here.grid_id(), key, wisdom);
}

} // namespace detail

}}} // namespace cleave::v0::linalg
