// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/kernels/run_fold.hpp>
#include <cleave/plan/workspace.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <utility>

// Maps and folds that follow each other over the same rows run together, a band of rows at a time: rows that one of
// them reads or writes are in the cache for the next one. Each step computes the same numbers in the same order as on
// its own.

namespace cleave { inline namespace v0 { namespace detail {

/// Memory that the steps of a group touch in one band, and the least memory of a group that is worth it.
inline constexpr std::int64_t band_bytes = tuned_size(1 << 18, 1 << 10);
inline constexpr std::int64_t banded_bytes = tuned_size(1 << 20, 64);

/// Steps `first` to `last` of a program, which run band by band.
template <class = void>
class banded_steps final : public step_group {
 public:
  /// False if the caller's memory does not permit it, or somebody wants to see each step: nothing has run then.
  bool run(run_state& r) override {
    if (r.checks != nullptr || Kokkos::Tools::profileLibraryLoaded() || mixes_rows(r)) return false;
    void* scratch = r.scratch.memory;
    range free{0, rows_};
    for (std::size_t i = first, fold = 0; i < last; ++i) {
      r.steps[i]->prepare_rows(r, {reads_again(i), scratch, fold});
      free = intersect(free, r.steps[i]->free_rows(r, rows_));
      if (r.steps[i]->folds_all_rows()) ++fold;
      scratch = as<char>(scratch) + comm::aligned(r.steps[i]->shared_bytes().memory);
    }
    // First the rows that need no message, then the rest.
    cuts_.clear();
    cuts_.push_back(0);
    run_threads(r, free);
    for (std::size_t i = first; i < last; ++i) r.steps[i]->await_messages(r);
    const work w{*this, r, free};
    if (free.begin > 0) w.run_stretch(0, free.begin);
    if (free.end < rows_) w.run_stretch(free.end, rows_);
    if (cuts_.back() < rows_) cuts_.push_back(rows_);
    for (std::size_t i = first; i < last; ++i) r.steps[i]->finish_rows(r, cuts_);
    return true;
  }

 private:
  template <class>
  friend class band_finder;

  /// Rows that follow each other for each thread.
  void run_threads(run_state& r, range free) {
    if (free.begin > 0) cuts_.push_back(free.begin);
    if (free.size() == 0) return;
    const work w{*this, r, free};
    const std::int64_t bands = (free.size() + band_ - 1) / band_;
    threads_ = std::min<std::int64_t>(bands, launch_threads());
    for (std::int64_t t = 1; t <= threads_; ++t) cuts_.push_back(w.begin_of(t));
    launch_units("cleave rows", threads_, &work::run, &w);
  }
  struct work {
    const banded_steps& steps;
    run_state& r;
    range free;

    std::int64_t begin_of(std::int64_t thread) const {
      const std::int64_t bands = (free.size() + steps.band_ - 1) / steps.band_;
      return std::min(free.begin + bands * thread / steps.threads_ * steps.band_, free.end);
    }
    static void run(const void* self, std::int64_t begin, std::int64_t end) {
      const work& w = *as<work>(self);
      for (std::int64_t t = begin; t < end; ++t) w.run_stretch(w.begin_of(t), w.begin_of(t + 1));
    }
    void run_stretch(std::int64_t begin, std::int64_t end) const {
      fold_progress progress[most_folds_in_pass];
      for (std::int64_t row = begin; row < end; row += steps.band_)
        for (std::size_t i = steps.first; i < steps.last; ++i)
          r.steps[i]->run_rows(r, {row, std::min(row + steps.band_, end), steps.rows_, begin, end, progress});
    }
  };
  /// A buffer that a step of the group reads or writes.
  struct touched {
    std::uint16_t buffer;
    std::size_t step;
    bool written;
    /// Whether a row of the step reads other rows of it too.
    bool across;
    std::int64_t bytes;
  };

  /// Whether a row of one step has memory that another step reads or writes in another row.
  bool mixes_rows(const run_state& r) const {
    for (const pair& p : pairs_)
      if (share_bytes(r.at[p.a], p.a_bytes, r.at[p.b], p.b_bytes) && !(p.same_rows && r.at[p.a] == r.at[p.b]))
        return true;
    return false;
  }
  /// Whether a later step of the group reads the result of step i.
  bool reads_again(std::size_t i) const {
    for (const touched& t : touched_)
      if (t.step == i && t.written)
        for (const touched& u : touched_)
          if (u.step > i && !u.written && u.buffer == t.buffer) return true;
    return false;
  }

  /// Two buffers of which one is written; `same_rows`: they may be the same rows, at the same address.
  struct pair {
    std::uint16_t a, b;
    bool same_rows;
    std::int64_t a_bytes, b_bytes;
  };
  std::int64_t rows_ = 1, band_ = 1, threads_ = 1;
  /// Between two neighbours are the rows of one thread.
  indexed_vector<std::int64_t> cuts_{};
  indexed_vector<touched> touched_{};
  indexed_vector<pair> pairs_{};
};

/// Finds the steps of a bound program that run in bands.
template <class = void>
class band_finder {
 public:
  band_finder(const binder& b, const indexed_vector<owned<bound_step>>& steps) : b_(b), steps_(steps) {}

  [[gnu::cold]] indexed_vector<owned<step_group>> find() {
    indexed_vector<owned<step_group>> all;
    const std::size_t count = b_.program.steps.size();
    for (std::size_t i = 0; i + 1 < count; ++i) {
      if (!starts(i)) continue;
      while (last_ < count && extends(last_)) last_ += b_.pass_of(at(last_)).size();
      if (last_ - first_ <= b_.pass_of(at(first_)).size() || !pays()) continue;
      all.push_back(made());
      i = last_ - 1;
    }
    return all;
  }

 private:
  using touched = banded_steps<>::touched;

  const step& at(std::size_t i) const { return b_.program.steps[i]; }
  std::int64_t rows_of(const step& s, int dims) const {
    std::int64_t n = 1;
    for (int i = 0; i < dims; ++i) n *= b_.held_along(s.loop, s.space, i).size();
    return n;
  }
  bool starts(std::size_t i) {
    first_ = i;
    last_ = i + b_.pass_of(at(i)).size();
    touched_.clear();
    folds_ = 0;
    dims_ = kept_dims(i);
    if (dims_ == 0) return false;
    note(i);
    return true;
  }
  /// The dims that a step may be cut along: the first ones of its loop, without those that it reduces unless it reduces
  /// all. 0: it does not run in bands.
  [[gnu::cold]] int kept_dims(std::size_t i) const {
    const step& s = at(i);
    const auto plain = [&](std::uint16_t n) { return b_.program.buffers[n].form == form::shard; };
    if (steps_[i]->row_dims() == 0) return 0;
    for (const step& one : b_.pass_of(s))
      if (!plain(one.out)) return 0;
    for (std::uint16_t n : s.in)
      if (!plain(n) && !b_.is_around_shard(b_.program.buffers[n])) return 0;
    return steps_[i]->row_dims();
  }
  [[gnu::cold]] void note(std::size_t i) {
    const auto add = [&](std::uint16_t n, bool written, bool across) {
      touched_.push_back({n, i, written, across, b_.bytes(b_.program.buffers[n])});
    };
    for (std::uint16_t n : at(i).in) {
      const buffer& x = b_.program.buffers[n];
      if (!b_.is_around_shard(x)) {
        add(n, false, false);
        continue;
      }
      add(x.of, false, true);
      add(b_.program.buffers[x.of].of, false, true);
    }
    for (const step& one : b_.pass_of(at(i))) add(one.out, true, false);
    if (steps_[i]->folds_all_rows()) ++folds_;
  }
  /// Adds a step to the group if it runs over the same rows, and of the memory that the others read and write it reads
  /// and writes only its own row.
  [[gnu::cold]] bool extends(std::size_t i) {
    const step &s = at(i), &head = at(first_);
    if (s.in_loop != head.in_loop) return false;
    int dims = std::min(kept_dims(i), dims_);
    for (int d = 0; d < dims; ++d)
      if (s.loop[d] != head.loop[d] || s.space[d] != head.space[d]) dims = d;
    if (dims == 0 || (steps_[i]->folds_all_rows() && folds_ == most_folds_in_pass)) return false;
    const std::size_t before = touched_.size();
    note(i);
    const auto drop = [&] {
      touched_.resize(before);
      if (steps_[i]->folds_all_rows()) --folds_;
    };
    for (std::size_t a = 0; a < before; ++a)
      for (std::size_t b = before; b < touched_.size(); ++b)
        if (touches_other_rows(touched_[a], touched_[b], dims)) {
          drop();
          return false;
        }
    // Rows of fewer dims are larger.
    const int before_dims = std::exchange(dims_, dims);
    if (!fits()) {
      dims_ = before_dims;
      if (fits()) {
        drop();
        return false;
      }
      dims_ = dims;
    }
    return true;
  }
  /// Whether equal addresses are equal rows of both.
  bool same_rows(const buffer& x, const buffer& y, int dims) const {
    if (x.type != y.type || x.where != y.where || x.type.rank < dims) return false;
    for (int d = 0; d < dims; ++d)
      if (x.type[d] != at(first_).loop[d]) return false;
    return true;
  }
  /// A number that all rows are reduced to is written when the steps before have run.
  bool writes_last(const touched& t) const { return t.written && steps_[t.step]->folds_all_rows(); }
  /// A step that reduces all rows to one number reads some rows only when the steps after it have run (`finish_rows`).
  bool reads_late(const touched& t) const { return !t.written && steps_[t.step]->folds_all_rows(); }
  /// Whether a step b touches another row that an earlier step a touches, or writes memory that a has yet to read.
  bool touches_other_rows(const touched& a, const touched& b, int dims) const {
    const buffer &x = b_.program.buffers[a.buffer], &y = b_.program.buffers[b.buffer];
    if (writes_last(b)) return false;
    return (a.written || b.written) && same_memory(x, y) &&
           (reads_late(a) || a.across || b.across || !same_rows(x, y, dims));
  }
  /// The memory that is touched row by row, each buffer once, and the part of it that several steps touch.
  struct amount {
    std::int64_t bytes = 0, shared = 0;
  };
  amount by_rows() const {
    amount all;
    for (std::size_t i = 0; i < touched_.size(); ++i) {
      const buffer& x = b_.program.buffers[touched_[i].buffer];
      if (!x.type.has(at(first_).loop[0])) continue;
      bool counted = false, later = false;
      for (std::size_t j = 0; j < touched_.size(); ++j)
        if (touched_[j].buffer == touched_[i].buffer) {
          counted = counted || j < i;
          later = later || touched_[j].step > touched_[i].step;
        }
      if (counted) continue;
      all.bytes += touched_[i].bytes;
      if (later) all.shared += touched_[i].bytes;
    }
    return all;
  }
  bool pays() const {
    const amount all = by_rows();
    return rows_of(at(first_), dims_) > 1 && all.shared >= banded_bytes && fits();
  }
  /// Whether a row of all steps is small enough for the caches.
  [[gnu::cold]] bool fits() const {
    return by_rows().bytes / std::max<std::int64_t>(rows_of(at(first_), dims_), 1) <= 2 * band_bytes;
  }
  [[gnu::cold]] owned<step_group> made() const {
    auto group = owned<banded_steps<>>(new banded_steps<>());
    banded_steps<>& g = *group;
    g.first = first_;
    g.last = last_;
    g.rows_ = rows_of(at(first_), dims_);
    g.band_ = std::max<std::int64_t>(1, band_bytes / std::max<std::int64_t>(1, by_rows().bytes / g.rows_));
    g.touched_ = touched_;
    for (std::size_t i = 0; i < touched_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const touched &a = touched_[j], &b = touched_[i];
        // Within one step, only reads across rows conflict with the result.
        if ((a.step == b.step && !a.across) || !(a.written || b.written) || writes_last(b)) continue;
        const buffer &x = b_.program.buffers[a.buffer], &y = b_.program.buffers[b.buffer];
        const bool same = !reads_late(a) && !a.across && !b.across && same_rows(x, y, dims_);
        g.pairs_.push_back({a.buffer, b.buffer, same, a.bytes, b.bytes});
      }
    for (std::size_t i = first_; i < last_; ++i) g.shared_bytes += comm::aligned(steps_[i]->shared_bytes().memory);
    g.cuts_.reserve(as_size(concurrency_of(execution_instance())) + 4);
    return group;
  }

  const binder& b_;
  const indexed_vector<owned<bound_step>>& steps_;
  std::size_t first_ = 0, last_ = 0;
  int dims_ = 0;
  std::size_t folds_ = 0;
  indexed_vector<touched> touched_{};
};

template <class = void>
[[gnu::cold]] indexed_vector<owned<step_group>> find_bands(const binder& b,
                                                           const indexed_vector<owned<bound_step>>& steps) {
  return band_finder<>(b, steps).find();
}
/// Whether a plan has steps that could run in bands. Nothing of this file is compiled for plans that have none.
constexpr bool may_have_bands(const program_view& p) {
  const auto passes_over_rows = [&](std::size_t i) {
    return p.steps[i].kind == step_kind::map || p.steps[i].kind == step_kind::fold;
  };
  for (std::size_t i = 1; i < p.steps.size(); ++i)
    if (passes_over_rows(i - 1) && passes_over_rows(i) && !is_in_pass(p.steps[i])) return true;
  return false;
}

}}} // namespace cleave::v0::detail
