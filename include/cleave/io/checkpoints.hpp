// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/io/checkpoint_files.hpp>
#include <cleave/io/errors.hpp>
#include <cleave/io/load.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cleave { inline namespace v0 { namespace io {

/// Which checkpoints stay, and how they are written.
struct checkpoint_options {
  /// The latest ones stay, so many; 0: all.
  std::int64_t keep = 3;
  /// Those of steps that are multiples of this stay too; 0: none.
  std::int64_t keep_every = 0;
  /// The one with the least metric stays too.
  bool keep_best = false;
  /// Whether `save` returns after it has copied the state, and a thread writes.
  bool asynchronous = true;
};
/// Which checkpoint is restored, and how.
struct restore_options {
  /// Its step; the latest one without.
  std::optional<std::int64_t> step{};
  /// Members that had other names when they were saved.
  name_table names{};
  /// Members that keep their values: names, in which `*` stands for any text.
  std::vector<std::string> keep{};
  /// Arrays that no member needs to have: names, in which `*` stands for any text.
  std::vector<std::string> ignore{};
  /// Dims that number the same things together, the first one slowest: `{{"stage", "layer"}}`. Only the product of
  /// their extents must be that of the checkpoint, so that 2 stages of 6 layers become 3 of 4, or 12 layers.
  std::vector<std::vector<std::string>> stacks{};
};

namespace detail { namespace checkpoint {

/// The thread of one save. On rank 0 it also waits for the files of the other ranks, and commits.
class writing {
 public:
  writing(std::string within, commitment commit, std::shared_ptr<rank_data> data, int rank, int ranks,
          const checkpoint_options& options)
      : within_(std::move(within)), commit_(commit), data_(std::move(data)), rank_(rank), ranks_(ranks),
        options_(options), thread_([this] { run(); }) {}
  writing(const writing&) = delete;
  writing& operator=(const writing&) = delete;
  ~writing() {
    given_up_ = true;
    if (thread_.joinable()) thread_.join();
  }
  /// Waits for all ranks. The failure is that of one of them, on all. Collective.
  failure finish(const grid& g) {
    const comm::recorded call("writing a checkpoint");
    while (!written_) std::this_thread::sleep_for(pause);
    failure all = std::move(of_write_).agreed(g);
    (all ? given_up_ : all_written_) = true;
    thread_.join();
    if (all && rank_ == 0) clean_up();
    return all ? std::move(all) : std::move(of_commit_).agreed(g);
  }

 private:
  static constexpr std::chrono::milliseconds pause{1};
  /// How long a file may take to become visible to another rank.
  static constexpr std::chrono::seconds patience{60};

  std::string folder() const { return folder_name(within_, commit_.step); }
  std::string begun_folder() const { return folder() + std::string(begun); }
  template <class F>
  void caught(failure& into, F&& f) {
    try {
      f();
    } catch (...) {
      into = failure::caught(rank_);
    }
  }
  void run() {
    caught(of_write_, [&] { data_->write(begun_folder()); });
    const bool complete = !of_write_;
    written_ = true;
    if (rank_ == 0 && complete)
      caught(of_commit_, [&] {
        if (wait_for_parts()) commit();
      });
  }
  bool wait_for_parts() const {
    std::optional<std::chrono::steady_clock::time_point> since;
    for (int r = 0; r < ranks_; ++r)
      while (!exists(begun_folder() + "/" + part_name(r))) {
        if (given_up_) return false;
        if (all_written_ && !since) since = std::chrono::steady_clock::now();
        if (since && std::chrono::steady_clock::now() - *since > patience)
          raise<file_error>(wording::checkpoint_not_seen(begun_folder(), r));
        std::this_thread::sleep_for(pause);
      }
    return true;
  }
  void commit() {
    const std::string index = data_->index(begun_folder(), ranks_);
    write_file(begun_folder() + "/index.json", index);
    for (int r = 0; r < ranks_; ++r)
      called(file_call::remove, begun_folder(),
             [&] { return ::unlink((begun_folder() + "/" + part_name(r)).c_str()); });
    rename_file(begun_folder(), folder());
    commit_.index_bytes = std::ssize(index);
    commit_.index_check = crc<crc32c>::of(index.data(), std::ssize(index));
    write_file(folder() + "/commit.json", commit_.text());
    remove_old();
  }
  /// A checkpoint loses its commit file first.
  void remove_old() const {
    const std::vector<std::int64_t> steps = contents(within_).steps;
    std::optional<std::pair<double, std::int64_t>> best;
    for (const std::int64_t s : steps)
      if (options_.keep_best)
        if (const commitment c = commitment::read(folder_name(within_, s)); c.metric)
          best = std::min(best.value_or(std::pair(*c.metric, s)), std::pair(*c.metric, s));
    for (std::int64_t i = 0; i < std::ssize(steps) - options_.keep && options_.keep > 0; ++i) {
      const std::int64_t s = steps[as_size(i)];
      if ((options_.keep_every > 0 && s % options_.keep_every == 0) || (best && best->second == s)) continue;
      const std::string old = folder_name(within_, s);
      called(file_call::remove, old, [&] { return ::unlink((old + "/commit.json").c_str()); });
      sync_folder(old);
      remove_folder(old);
    }
  }
  void clean_up() const {
    failure ignored;
    try {
      remove_folder(begun_folder());
    } catch (...) {
      ignored = failure::caught(rank_); // the disk refuses this too; the next save removes it
    }
  }

  std::string within_;
  commitment commit_;
  std::shared_ptr<rank_data> data_;
  int rank_, ranks_;
  checkpoint_options options_;
  failure of_write_{}, of_commit_{};
  std::atomic<bool> written_ = false, all_written_ = false, given_up_ = false;
  std::thread thread_;
};

}} // namespace detail::checkpoint

/// Checkpoints of an aggregate of tensors and numbers in a folder that all ranks see: `io::checkpoints saved(grid,
/// "run")`, `saved.save(step, state)`, and after a restart `saved.restore(state)`, on any mesh, layout and number of
/// ranks. Everything that a restarted run needs is in the aggregate: weights, the state of the optimizer, keys, the
/// step, the position in the data. Numbers are those of rank 0.
///
/// Each rank writes its own part. A checkpoint exists when all of it is on the disk: its commit file is written last. A
/// run that ends earlier leaves a folder without this file, which the next save removes.
class checkpoints {
 public:
  checkpoints(const grid& g, std::string folder, const checkpoint_options& options = {})
      : grid_(g), folder_(std::move(folder)), options_(options) {}
  checkpoints(const checkpoints&) = delete;
  checkpoints& operator=(const checkpoints&) = delete;
  /// Waits for the thread of this rank, and does not say whether it failed: `wait` does. Without `wait` before, the
  /// last checkpoint may not exist.
  ~checkpoints() = default;

  /// Saves the state of this moment. Asynchronously it returns when the state is copied, and the checkpoint exists a
  /// while later; at most one is being written, so that it waits for the one before. Collective over the communicator
  /// of the grid. Communication: some small MPI_Allreduces. Throws on all ranks alike: file_error if this one, or the
  /// one before, cannot be written, or if there is one of this step; layout_error if a member is partial; memory_error
  /// if a rank cannot hold the copy.
  template <class A>
  void save(std::int64_t step, const A& state, std::optional<double> metric = {}) {
    wait();
    std::vector<detail::member> members = detail::members_of(grid_, state);
    begin(step, members, metric);
    if (!options_.asynchronous) wait();
  }
  /// Waits until the last checkpoint exists. Collective. Throws file_error on all ranks if it could not be written.
  void wait() {
    if (!under_way_) return;
    const detail::failure all = under_way_->finish(grid_);
    under_way_.reset();
    all.raise_it();
  }
  /// Gives the members of an aggregate, which have their grids and extents, the values of a checkpoint, and returns its
  /// step. Each rank reads the bytes of its shards only. Collective over the communicator of the grid. Throws on all
  /// ranks alike: file_error if there is no checkpoint, it is damaged, or members and arrays differ, with their names;
  /// shape_error if extents differ; the errors of `wait`.
  template <class A>
  std::int64_t restore(A& state, const restore_options& options = {}) {
    wait();
    std::vector<detail::member> members = detail::members_of(grid_, state);
    const std::int64_t step = options.step ? *options.step : latest().value_or(-1);
    if (step < 0) raise<file_error>(wording::checkpoint_none(folder_));
    moved_ = detail::load_members(grid_, members, {options.names, options.keep, options.ignore}, options.stacks, [&] {
      return detail::checkpoint::index_reader(detail::checkpoint::folder_name(folder_, step)).take();
    });
    detail::take_numbers(state, members);
    return step;
  }
  /// The traffic of the last `restore`, of all ranks together.
  const traffic& moved() const { return moved_; }

  /// The steps of the checkpoints that exist, in ascending order. Collective: rank 0 looks.
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> all;
    const comm::group& ranks = grid_.state().everyone();
    if (ranks.rank == 0) all = detail::checkpoint::contents(folder_).steps;
    std::int64_t count = std::ssize(all);
    grid_.state().guarded([&] {
      comm::check(MPI_Bcast(&count, 1, MPI_INT64_T, 0, ranks.handle), "MPI_Bcast");
      all.resize(as_size(count));
      comm::check(MPI_Bcast(all.data(), as_int(count), MPI_INT64_T, 0, ranks.handle), "MPI_Bcast");
    });
    return all;
  }
  /// The step of the latest checkpoint, if there is one. Collective.
  std::optional<std::int64_t> latest() const {
    const std::vector<std::int64_t> all = steps();
    return all.empty() ? std::nullopt : std::optional(all.back());
  }
  /// The step of the one with the least metric, if one was saved with a metric. Collective; all ranks read the metrics.
  std::optional<std::int64_t> best() const {
    const std::vector<std::int64_t> all = steps();
    std::optional<std::pair<double, std::int64_t>> least;
    detail::on_all_ranks(grid_, [&] {
      for (const std::int64_t s : all)
        if (const auto c = detail::checkpoint::commitment::read(detail::checkpoint::folder_name(folder_, s)); c.metric)
          least = std::min(least.value_or(std::pair(*c.metric, s)), std::pair(*c.metric, s));
    });
    return least ? std::optional(least->second) : std::nullopt;
  }

 private:
  [[gnu::cold]] void begin(std::int64_t step, std::vector<detail::member>& members, std::optional<double> metric) {
    namespace files = detail::checkpoint;
    const comm::group& ranks = grid_.state().everyone();
    const std::string made = files::folder_name(folder_, step);
    detail::on_all_ranks(grid_, [&] {
      data_->take(grid_, members);
      if (ranks.rank != 0) return;
      if (step < 0 || files::exists(made + "/commit.json"))
        raise<file_error>(wording::checkpoint_exists(folder_, step));
      for (const std::string& left : files::contents(folder_).left) files::remove_folder(left);
      files::make_folder(made + std::string(files::begun));
      detail::sync_folder(detail::folder_of(folder_));
    });
    // A system may have no thread for one of the ranks.
    detail::failure mine;
    try {
      under_way_.reset(new files::writing(folder_, {step, 0, 0, metric}, data_, ranks.rank, ranks.size, options_));
    } catch (...) {
      mine = detail::failure::caught(ranks.rank);
    }
    const detail::failure any = std::move(mine).agreed(grid_);
    if (any) under_way_.reset();
    any.raise_it();
  }

  grid grid_;
  std::string folder_;
  checkpoint_options options_;
  traffic moved_{};
  /// Its memory is kept for the next one.
  std::shared_ptr<detail::checkpoint::rank_data> data_ = std::make_shared<detail::checkpoint::rank_data>();
  std::unique_ptr<detail::checkpoint::writing> under_way_{};
};

}}} // namespace cleave::v0::io
