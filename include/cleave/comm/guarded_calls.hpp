// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/environment.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/agreement.hpp>
#include <cleave/comm/errors.hpp>
#include <cleave/comm/recorded_calls.hpp>

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

namespace cleave { inline namespace v0 {

/// The checks of checked mode. Off by default, since they communicate and read all arguments at every call; CMake's
/// CLEAVE_CHECKED turns them on for all grids of a program, and so does the environment: CLEAVE_CHECKED=on, off or nan.
struct checks {
  /// Whether all ranks make the same calls with the same sizes in the same order, whether numbers and replicated
  /// tensors among the arguments are equal on all of them, and whether loops have equal trip counts.
  bool calls = false;
  /// Which operation produces the first NaN.
  bool nans = false;
  /// Seconds that a rank waits for the others. CLEAVE_TIME_LIMIT in the environment sets it. Then each rank also prints
  /// its last calls when it is idle for so long, with and without checks; see print_calls.
  double time_limit = 8;

  bool any() const { return calls || nans; }
};

/// The initial checks of a grid: CLEAVE_CHECKED if the environment sets it, else the setting of the build.
inline checks checks_of_environment() {
  checks c;
#if defined(CLEAVE_CHECKED) && CLEAVE_CHECKED
  c.calls = true;
#endif
  // As compiled, if the environment does not set it.
  const std::string_view word = word_of_environment("CLEAVE_CHECKED", {"", "on", "nan", "off", "1", "0"});
  c.nans = word == "nan";
  if (!word.empty()) c.calls = c.nans || word == "on" || word == "1";
  c.time_limit = number_of_environment("CLEAVE_TIME_LIMIT", c.time_limit);
  return c;
}

/// The calls on a grid. After a failure of MPI there are no more; in checked mode the devices compare their calls.
class guarded_calls {
 public:
  /// The devices. On other ranks the rank is -1 and there is no communicator.
  const comm::group& world() const { return world_; }
  /// Whether this rank is one of the devices.
  bool active() const { return world_.rank >= 0; }
  const checks& checked() const { return checked_; }
  /// After a failed call of MPI the ranks may be out of step, so no call is made again.
  bool broken() const { return broken_; }
  void set_broken() { broken_ = true; }
  /// Throws if the grid is unusable: mpi_error after a failure, environment_error after MPI_Finalize.
  void require_usable() const {
    if (broken_) throw mpi_error(wording::grid_broken(), MPI_ERR_OTHER);
    if (!of_session_) comm::require_mpi();
  }
  /// Runs an operation that communicates on this grid: throws mpi_error if the grid is broken, and breaks it if a call
  /// of MPI fails.
  template <class F>
  std::invoke_result_t<F&> guarded(F&& f) {
    require_usable();
    try {
      return f();
    } catch (const mpi_error&) {
      broken_ = true;
      throw;
    }
  }
  /// In checked mode: throws agreement_error on all devices if not all of them make this call, or one of them does not
  /// arrive in time. Collective over the devices. The name and the number identify the call until it ends.
  void same_call(std::string_view name) {
    if (!checked_.any() || !active()) return;
    comm::small_message mine;
    mine.words[0] = comm::word_hash().mix(name).value;
    same_call(name, mine, 3);
  }
  /// The same with more words: hashes of the plan and of the extents, how many bytes this device could not allocate for
  /// the call, and the words that `told` then returns.
  [[gnu::cold]] void same_call(std::string_view name, comm::small_message& mine, std::size_t words) {
    call_name_ = name;
    mine.words[0] += as_size(++checked_calls_) << 32;
    if (!checked_.calls) return;
    comm::limit_call(2 * checked_.time_limit);
    tell(asked_for::call, 0, mine.words, words);
    for (int r = 0; r < world_.size; ++r)
      if (const auto bytes = as_signed(told(r)[2]); bytes != 0)
        raise<memory_error>(wording::rank_out_of_memory(bytes, "a call and results beside its arguments", r));
    for (int r = 1; r < world_.size; ++r)
      for (const int word : {0, 1})
        if (told(r)[word] != told(0)[word]) refuse_calls(mine);
  }
  /// The call that is checked.
  std::string call_name() const { return "call " + std::to_string(checked_calls_) + ", " + std::string(call_name_); }
  /// The purposes of the small messages of checked mode.
  enum class asked_for : std::uint8_t { call, name, arguments, step, number, fault };
  /// Gives such a message to all devices, and waits for theirs for at most the limit. If a device does not arrive, or
  /// is elsewhere in the program, the ranks are out of step, and no further call on this grid is possible. `place`
  /// says where it is, from the name of the call, for the error.
  template <class Place = std::identity>
  [[gnu::cold]] void tell(asked_for why, std::uint64_t step, const void* mine, std::size_t words,
                          const Place& place = {}) {
    comm::small_message m;
    // Calls that differ, by their number too, are told by name.
    m.place = underlying(why);
    if (why > asked_for::name) m.place |= as_size(checked_calls_) << 24 | step << 4;
    if (words > 0) std::memcpy(m.words, mine, words * sizeof m.place);
    const int missing = guarded([&] { return agreement_->exchange(m, words, checked_.time_limit); });
    int elsewhere = 0;
    while (missing < 0 && elsewhere < world_.size && agreement_->of(elsewhere).place == m.place) ++elsewhere;
    if (missing < 0 && elsewhere == world_.size) return;
    broken_ = true;
    if (missing < 0) raise<agreement_error>(wording::rank_elsewhere(elsewhere, place(call_name())));
    raise<absent_error>(
        wording::rank_missing(missing, static_cast<std::int64_t>(checked_.time_limit), place(call_name())));
  }
  const std::uint64_t* told(int rank) const { return agreement_->of(rank).words; }

 protected:
  guarded_calls() = default;
  ~guarded_calls() = default;

  comm::group world_{};
  bool broken_ = false;
  /// Whether MPI was initialised by sessions only. Then MPI_Finalize says nothing; the grid ends before the session.
  bool of_session_ = false;
  checks checked_{};
  owned<comm::agreement> agreement_{};

 private:
  /// The devices make different calls: each tells its own.
  [[gnu::cold, noreturn]] void refuse_calls(const comm::small_message& mine) {
    struct record {
      std::uint64_t plan, sizes;
      char name[112];
    } own{mine.words[0], mine.words[1], ""}, first = own, other = own;
    call_name().copy(own.name, sizeof own.name - 1);
    tell(asked_for::name, 0, &own, sizeof own / sizeof own.plan);
    std::memcpy(&first, told(0), sizeof first);
    for (int r = 1;; ++r) {
      std::memcpy(&other, told(r), sizeof other);
      const bool is_other = std::strcmp(other.name, first.name) != 0;
      if (r + 1 < world_.size && !is_other && other.plan == first.plan && other.sizes == first.sizes) continue;
      // Two binaries may have plans that differ at the same place.
      const std::string_view how = is_other                   ? ""
                                   : other.plan != first.plan ? ", with another plan"
                                                              : ", with other extents";
      raise<agreement_error>(wording::calls_differ(0, first.name, r, std::string(other.name).append(how)));
    }
  }

  std::int64_t checked_calls_ = 0;
  /// While it runs.
  std::string_view call_name_{};
};

}} // namespace cleave::v0
