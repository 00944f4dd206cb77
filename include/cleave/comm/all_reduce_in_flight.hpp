// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/block_reduction.hpp>
#include <cleave/comm/exchange_spec.hpp>
#include <cleave/comm/node_group.hpp>
#include <cleave/comm/parts.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// Whether moves over these axes overlap with computation: between ranks of several nodes, if MPI reads and writes the
/// data themselves. Collective over the grid. The same on all devices.
[[gnu::cold]] inline bool goes_on(grid_state& grid, axis_set axes) {
  return on_host && !staged() && grid.sizes().product(axes) > 1 && grid.group_of(axes).together == nullptr;
}

/// Partial values are combined on all devices, in two parts: each device combines one block of them and sends it to all
/// others. The second part begins at the first poll after the first part is complete. If a group has equally many ranks
/// on several nodes, the ranks of a node reduce first, and only nodes exchange messages.
/// Communication: as many bytes as an all-reduce, as messages by MPI.
template <class = void>
class all_reduce_in_flight final : public bound_exchange {
 public:
  [[gnu::cold]] all_reduce_in_flight(grid_state& grid, const transfer& t, std::size_t number)
      : element_(t.element), combine_(t.combine), elements_(held_before(grid, t).elements()),
        whole_(grid.group_of(t.axes)), ranks_(whole_), second_(tag_of(number)) {
    ranks_.pipes = nullptr;
    ranks_.inside = nullptr;
    own_ = {0, elements_};
    if (whole_.inside != nullptr) {
      whole_.inside->reserve(bytes());
      own_ = whole_.inside->slice_of(elements_);
      ranks_.handle = whole_.across;
      check(MPI_Comm_size(ranks_.handle, &ranks_.size), "MPI_Comm_size");
      check(MPI_Comm_rank(ranks_.handle, &ranks_.rank), "MPI_Comm_rank");
    }
    const std::int64_t own = own_.size();
    for (std::int64_t r = 0; r < ranks_.size; ++r)
      blocks_.append(block_begin(r + 1, own, ranks_.size) - block_begin(r, own, ranks_.size));
    first_ = block_reduction(ranks_, element_, combine_, blocks_);
    second_.reserve(messages::requests_for(blocks_) + ranks_.size * messages::requests_for(first_.mine()));
  }

  // The same on all devices, whatever the length of their blocks.
  scratch_bytes needs() const override { return {held_by_all_reduce(own_.size(), ranks_.size, element_), 0}; }
  bool communicates() const override { return elements_ != 0; }
  void begin(const void* const* in, void* const* out, const scratch& s) override {
    if (elements_ == 0) return;
    wait_for_kernels();
    out_ = element_at(*out, own_.begin, element_);
    whole_out_ = *out;
    if (whole_.inside != nullptr) {
      whole_.inside->reduce_to_slices(*in, *out, elements_, element_, combine_);
      in_ = out_;
    } else {
      in_ = *in;
    }
    // Counted as an all-reduce.
    const std::int64_t others = (own_.size() - first_.mine()) * size_of(element_);
    traffic().bytes += 2 * (whole_.size - 1) * bytes() / whole_.size - first_.received_bytes() - others;
    first_.begin(in_, s.memory);
    stage_ = stage::reducing;
  }
  void progress() override {
    if (stage_ == stage::reducing && first_.progress()) spread();
    if (stage_ == stage::spreading) second_.progress();
  }
  void finish() override {
    if (stage_ == stage::reducing) {
      first_.wait();
      spread();
    }
    second_.wait();
    if (stage_ == stage::spreading && whole_.inside != nullptr)
      whole_.inside->gather_slices(whole_out_, elements_, element_);
    stage_ = stage::over;
  }

 private:
  enum class stage : std::uint8_t { over, reducing, spreading };

  /// The second parts of several all-reduces begin in a different order on each device, so each has a tag of its own.
  /// MPI has at least 32767 tags.
  static int tag_of(std::size_t number) { return 2 + as_int(number % 32000); }
  std::int64_t bytes() const { return elements_ * size_of(element_); }

  /// The block of this device is combined: sends it to all.
  void spread() {
    const std::int64_t mine = first_.mine();
    char* const block = element_at(out_, blocks_.offset(ranks_.rank), element_);
    if (mine != 0) first_.combine(in_, block);
    for (int r = 0; r < ranks_.size; ++r)
      if (r != ranks_.rank)
        second_.receive(element_at(out_, blocks_.offset(r), element_), blocks_.count(r), element_, r, ranks_);
    for (int r = 0; r < ranks_.size; ++r)
      if (r != ranks_.rank) second_.send(block, mine, element_, r, ranks_);
    stage_ = stage::spreading;
  }

  element element_;
  reduction combine_;
  std::int64_t elements_;
  group whole_, ranks_;
  /// The elements that the ranks of `ranks_` combine, and their blocks.
  range own_{};
  rank_blocks blocks_{};
  block_reduction first_{};
  messages second_;
  const void* in_ = nullptr;
  void *out_ = nullptr, *whole_out_ = nullptr;
  stage stage_ = stage::over;
};

}}} // namespace cleave::v0::comm
