// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/memory.hpp>

// Reductions on devices, by groups of threads: those that follow each other read elements that do.

namespace cleave { inline namespace v0 {

/// How many threads reduce one range: a part of a vector of Kokkos, or a team of several whole vectors.
struct lanes_of_reduction {
  static constexpr int vector = 32, team = 256;
  int count = 1;

  /// Of so many ranges of so many elements each. Depends on nothing else, so that neither does the order of summation.
  lanes_of_reduction(std::int64_t ranges, std::int64_t elements) {
    // Threads that keep a device busy, and elements that are worth a thread.
    constexpr std::int64_t enough = 1 << 17, worth = 4;
    while (count < vector && 2 * count * worth <= elements) count *= 2;
    if (ranges * vector < enough && elements >= team * worth) count = team;
  }
  bool is_team() const { return count > vector; }
};

/// The threads that reduce one range.
template <class Member>
class reducing_group {
 public:
  CLEAVE_FUNCTION reducing_group(const Member& member, bool is_team) : member_(member), is_team_(is_team) {}

  /// Reduces term(0, value) to term(n - 1, value). Every thread gets the result.
  template <class Term, class Reducer>
  CLEAVE_FUNCTION void reduce(std::int64_t n, const Term& term, const Reducer& to) const {
    if (is_team_) Kokkos::parallel_reduce(Kokkos::TeamVectorRange(member_, n), term, to);
    else Kokkos::parallel_reduce(Kokkos::ThreadVectorRange(member_, n), term, to);
  }
  /// Calls f() in one thread.
  template <class F>
  CLEAVE_FUNCTION void single(const F& f) const {
    if (!is_team_ || member_.team_rank() == 0) Kokkos::single(Kokkos::PerThread(member_), f);
  }

 private:
  const Member& member_;
  bool is_team_;
};

/// Calls f(group, i) for 0 <= i < n.
template <class Functor>
struct group_functor {
  Functor f;
  std::int64_t n;
  bool is_team;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t i = is_team ? member.league_rank()
                                   : std::int64_t{member.league_rank()} * member.team_size() + member.team_rank();
    if (i < n) f(reducing_group<Member>(member, is_team), i);
  }
};
template <class Functor>
void launch_groups(const char* label, std::int64_t n, const lanes_of_reduction& lanes, const Functor& f) {
  const execution_space& on = execution_instance();
  const int vector = lanes.is_team() ? lanes_of_reduction::vector : lanes.count;
  // A space with few threads has teams of one.
  const int threads = detail::concurrency_of(on) < lanes_of_reduction::team ? 1 : lanes_of_reduction::team / vector;
  const std::int64_t teams = lanes.is_team() ? n : (n + threads - 1) / threads;
  using policy = Kokkos::TeamPolicy<execution_space, detail::functor_travels>;
  Kokkos::parallel_for(label, policy(on, static_cast<int>(teams), threads, vector),
                       group_functor<Functor>{f, n, lanes.is_team()});
}

}} // namespace cleave::v0
