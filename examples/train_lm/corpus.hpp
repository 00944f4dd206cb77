// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A text, cut into windows: random ones of its first nine tenths to learn from, some of the rest to judge by.
#pragma once

#include "../options.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace lm {

/// Where the windows of a batch begin, in a text that outlives them.
struct windows {
  const std::string* text = nullptr;
  std::vector<std::int64_t> starts{};

  std::int32_t operator()(std::int64_t sentence, std::int64_t position) const {
    return static_cast<unsigned char>(
        (*text)[static_cast<std::size_t>(starts[static_cast<std::size_t>(sentence)] + position)]);
  }
};

class corpus {
 public:
  /// Rank 0 reads the file and the others get it from there, so that all have the same text. Collective.
  corpus(const std::string& path, std::int64_t positions) : positions_(positions) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    bool right = true;
    if (rank == 0) {
      try {
        std::ifstream file(path, std::ios::binary);
        text_.assign(std::istreambuf_iterator<char>(file), {});
        right = file.is_open();
      } catch (const std::exception&) {  // a folder can be opened, but not read
        right = false;
      }
    }
    if (!examples::agreed(right)) throw std::runtime_error("cannot read the file '" + path + "'");
    std::int64_t size = static_cast<std::int64_t>(text_.size());
    MPI_Bcast(&size, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    text_.resize(static_cast<std::size_t>(size));
    constexpr std::int64_t at_once = 1 << 30;  // MPI counts in int
    for (std::int64_t done = 0; done < size; done += at_once)
      MPI_Bcast(text_.data() + done, static_cast<int>(std::min(at_once, size - done)), MPI_CHAR, 0, MPI_COMM_WORLD);
    // A window, and the byte behind it.
    const std::int64_t least = 10 * (positions + 1);
    if (size < least)
      throw std::runtime_error("the file '" + path + "' has " + std::to_string(size) + " bytes; windows of " +
                               std::to_string(positions) + " positions need at least " + std::to_string(least) +
                               ", since a tenth is held out");
  }

  std::int64_t size() const { return static_cast<std::int64_t>(text_.size()); }
  std::int64_t held_out() const { return size() - trained(); }

  /// The windows of a step. They follow from the seed and the step alone: the same on every mesh, and for a run that
  /// continues another one.
  windows random_windows(std::uint32_t seed, std::int64_t step, std::int64_t count) const {
    windows w{&text_};
    std::seed_seq both{seed, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)};
    std::mt19937_64 random(both);
    const auto choice = static_cast<std::uint64_t>(trained() - positions_);
    for (std::int64_t i = 0; i < count; ++i) w.starts.push_back(static_cast<std::int64_t>(random() % choice));
    return w;
  }
  /// Batch b of `batches` of what is held out, all windows equally far from each other.
  windows held_out_windows(std::int64_t b, std::int64_t batches, std::int64_t count) const {
    windows w{&text_};
    const std::int64_t room = held_out() - positions_ - 1, last = std::max(batches * count - 1, std::int64_t{1});
    for (std::int64_t i = b * count; i < (b + 1) * count; ++i) w.starts.push_back(trained() + i * room / last);
    return w;
  }

 private:
  std::int64_t trained() const { return size() - size() / 10; }
  std::string text_{};
  std::int64_t positions_;
};

} // namespace lm
