// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/random.hpp>
#include <cleave/io/agree.hpp>
#include <cleave/tensor/tensor.hpp>

#include <bit>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

// Batches of records in a random order, of which each rank reads its rows, ahead of time.

namespace cleave { inline namespace v0 { namespace io {

/// Where a loader is: a member of the state of a run, so that checkpoints hold it. `next` counts batches over all
/// epochs. Another key is another order.
struct data_position {
  std::uint64_t key = 0;
  std::int64_t next = 0;
};

namespace detail {
/// Number `index` of a random order of 0, 1, ... count - 1: a permutation that needs no memory, so that each rank knows
/// the part that it needs. A Feistel network permutes the next power of four; numbers above are sent on.
constexpr std::int64_t shuffled(std::int64_t index, std::int64_t count, std::uint64_t key, std::uint64_t epoch) {
  const int half = (static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count > 1 ? count - 1 : 1))) + 1) / 2;
  const std::uint64_t low = (std::uint64_t{1} << half) - 1;
  auto at = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = at >> half, right = at & low;
    for (std::uint32_t round = 0; round < 6; ++round) {
      const random_words words = philox({{low_word(right), low_word(right >> 32), round, low_word(epoch)}},
                                        low_word(key), low_word(key >> 32));
      left = std::exchange(right, (left ^ words.word[0] ^ (std::uint64_t{words.word[1]} << 32)) & low);
    }
    at = left << half | right;
  } while (at >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(at);
}
} // namespace detail

/// Options of a loader.
struct loader_options {
  /// Records in a random order, another one in each epoch; else in their own.
  bool shuffle = true;
  /// How many batches are read ahead of time; 0: each when it is asked for.
  std::int64_t ahead = 2;
};

/// The rows of a batch that this rank has, as records.
template <class Record>
class loaded_rows {
 public:
  loaded_rows(std::int64_t first, std::vector<Record> rows) : first_(first), rows_(std::move(rows)) {}
  /// The record of a row, by its index in the batch. In `fill_by`, that is an index of an element of the shard.
  template <std::integral I>
  const Record& operator[](I row) const {
    return rows_[static_cast<std::size_t>(static_cast<std::int64_t>(row) - first_)];
  }

 private:
  std::int64_t first_;
  std::vector<Record> rows_;
};

/// Reads batches of records, each rank the rows of its shard. The order follows from key, epoch and number alone, so
/// all meshes and all numbers of ranks see the same batches. A rest of the records that is no whole batch is left out
/// of an epoch. `read(number)` gives a record; a thread calls it, so it must not call MPI, Kokkos or Cleave.
template <class Record>
class loader {
 public:
  /// For the rows of a tensor along one of its dims, whose extent is the size of a batch: `io::loader<image>
  /// data(images, batch, count, read)`. Throws shape_error on all ranks if there are fewer records than rows.
  template <class Tensor, Dim D, class Read>
  loader(const Tensor& like, const D&, std::int64_t count, Read read, const loader_options& o = {})
      : grid_(like.get_grid()), options_(o), read_(std::move(read)), count_(count), batch_(like.extent(D{})) {
    constexpr int along = position_of<Tensor, D>();
    first_ = like.offset()[std::size_t{along}];
    rows_ = like.local_extents()[std::size_t{along}];
    if (batch_ < 1 || count < batch_) raise<shape_error>(wording::too_few_records(count, batch_));
    if (options_.ahead > 0) thread_ = std::thread([this] { read_ahead(); });
  }
  ~loader() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;

  /// The batches of an epoch.
  std::int64_t batches() const { return count_ / batch_; }
  /// The epoch of a position, from 0.
  std::int64_t epoch(const data_position& at) const { return at.next / batches(); }

  /// The batch at a position, which is then that of the next one. A position that does not follow the last one, as
  /// after a restore, starts reading anew. Collective over the communicator of the grid. Communication: an
  /// MPI_Allreduce of one number. If `read` throws on one rank, all ranks throw its exception, or file_error if it is
  /// none of Cleave; the position is then as it was.
  loaded_rows<Record> next(data_position& at) {
    std::vector<Record> rows;
    detail::on_all_ranks(grid_, [&] { rows = taken(at); });
    ++at.next;
    return {first_, std::move(rows)};
  }

 private:
  struct batch_read {
    data_position at;
    std::vector<Record> rows;
    std::exception_ptr failed;
  };
  template <class Tensor, class D>
  static constexpr int position_of() {
    constexpr spec layout = typename Tensor::sharding_type{};
    for (int i = 0; i < Tensor::rank; ++i)
      if (layout.dims[static_cast<std::size_t>(i)].dim.name == D::ref.name) return i;
    return 0; // `extent` has said that there is no such dim
  }

  std::vector<Record> read_batch(const data_position& at) const {
    std::vector<Record> rows;
    rows.reserve(static_cast<std::size_t>(rows_));
    const std::int64_t start = at.next % batches() * batch_ + first_;
    for (std::int64_t i = start; i < start + rows_; ++i)
      rows.push_back(
          read_(options_.shuffle ? detail::shuffled(i, count_, at.key, static_cast<std::uint64_t>(epoch(at))) : i));
    return rows;
  }
  void read_ahead() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stops_ || (wanted_ && std::ssize(ready_) < options_.ahead); });
      if (stops_) return;
      batch_read one{ahead_, {}, {}};
      ++ahead_.next;
      const std::int64_t turn = turn_;
      lock.unlock();
      try {
        one.rows = read_batch(one.at);
      } catch (...) {
        one.failed = std::current_exception();
      }
      lock.lock();
      if (turn == turn_) ready_.push_back(std::move(one));
      changed_.notify_all();
    }
  }
  std::vector<Record> taken(const data_position& at) {
    if (options_.ahead <= 0) return read_batch(at);
    std::unique_lock lock(mutex_);
    if (!wanted_ || at.next != expected_.next || at.key != expected_.key) {
      ready_.clear();
      ahead_ = expected_ = at;
      ++turn_;
      wanted_ = true;
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return !ready_.empty(); });
    batch_read one = std::move(ready_.front());
    ready_.pop_front();
    ++expected_.next;
    changed_.notify_all();
    if (one.failed) {
      wanted_ = false; // the next call reads it again
      std::rethrow_exception(one.failed);
    }
    return std::move(one.rows);
  }

  grid grid_;
  loader_options options_;
  std::function<Record(std::int64_t)> read_;
  std::int64_t count_, batch_, first_ = 0, rows_ = 0;
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::deque<batch_read> ready_{};
  /// The batch that the thread reads next, and the one that is taken next.
  data_position ahead_{}, expected_{};
  /// Changes when batches that were read are not wanted any more.
  std::int64_t turn_ = 0;
  bool wanted_ = false, stops_ = false;
  std::thread thread_{};
};

}}} // namespace cleave::v0::io
