// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/comm/messages.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/comm/operation.hpp>
#include <cleave/comm/parts.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/program/move_scratch.hpp>

#include <utility>

// Moves that overlap with other steps: by MPI, with the data on the host. Ranks of one node copy from each other; no
// data moves while they compute.

namespace cleave { inline namespace v0 { namespace comm {

/// A reduction of partial values by exchange of blocks: every rank sends each other rank one block, and receives its
/// own block from all others. It combines them in the order of the ranks, so the result depends neither on time nor on
/// other values that are reduced in the same call.
class block_reduction {
 public:
  block_reduction() = default;
  /// `blocks` of the operand, one for each rank of the group.
  [[gnu::cold]] block_reduction(const group& ranks, element e, reduction how, rank_blocks blocks)
      : ranks_(ranks), element_(e), how_(how), blocks_(std::move(blocks)) {
    std::int64_t requests = 0;
    for (int r = 0; r < ranks_.size; ++r)
      if (r != ranks_.rank) requests += messages::requests_for(blocks_.count(r)) + messages::requests_for(mine());
    messages_.reserve(requests);
  }

  /// Memory for the blocks received from the others.
  std::int64_t scratch_bytes() const { return aligned((ranks_.size - 1) * mine() * size()); }
  std::int64_t received_bytes() const { return (ranks_.size - 1) * mine() * size(); }
  std::int64_t mine() const { return blocks_.count(ranks_.rank); }

  void begin(const void* in, char* arriving) {
    arriving_ = arriving;
    for (int r = 0; r < ranks_.size; ++r)
      if (r != ranks_.rank) messages_.receive(arriving_from(r), mine(), element_, r, ranks_);
    for (int r = 0; r < ranks_.size; ++r)
      if (r != ranks_.rank)
        messages_.send(element_at(in, blocks_.offset(r), element_), blocks_.count(r), element_, r, ranks_);
  }
  /// Whether all blocks have been sent and received.
  bool progress() { return messages_.progress(); }
  void wait() { messages_.wait(); }
  /// After that: writes the block of this rank, possibly in place in the operand.
  void combine(const void* in, void* out) const {
    const char* const own = element_at(in, blocks_.offset(ranks_.rank), element_);
    const bool first = ranks_.rank == 0;
    char* const sum = first ? as<char>(out) : arriving_from(0);
    if (first && out != own) copy_bytes(out, own, mine() * size());
    for (int r = 1; r < ranks_.size; ++r) add(r == ranks_.rank ? own : arriving_from(r), sum);
    if (!first) copy_bytes(out, sum, mine() * size());
  }

 private:
  std::int64_t size() const { return size_of(element_); }
  char* arriving_from(int r) const { return arriving_ + (r < ranks_.rank ? r : r - 1) * mine() * size(); }
  void add(const void* from, void* into) const { combine_here(from, into, mine(), element_, how_); }

  group ranks_{};
  element element_ = element::none;
  reduction how_ = reduction::sum;
  rank_blocks blocks_{};
  messages messages_{};
  char* arriving_ = nullptr;
};

/// Whether moves over these axes overlap with computation: those of MPI, if it reads and writes the data themselves.
/// Collective over the grid. The same on all devices.
[[gnu::cold]] inline bool goes_on(grid_state& grid, axis_set axes) {
  return on_host && !staged() && grid.sizes().product(axes) > 1 && !is_direct(grid.group_of(axes));
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
    ranks_.link = nullptr;
    own_ = {0, elements_};
    if (whole_.direct != nullptr) {
      whole_.direct->reserve(bytes());
      own_ = whole_.direct->slice_of(elements_);
      ranks_.handle = whole_.direct->across;
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
    if (whole_.direct != nullptr) {
      whole_.direct->reduce_to_slices(*in, *out, elements_, element_, combine_);
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
    if (stage_ == stage::spreading && whole_.direct != nullptr)
      whole_.direct->gather_slices(whole_out_, elements_, element_);
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

/// Every device sends each other device one block, and combines the received parts of its own block.
template <class = void>
class reduce_scatter_in_flight final : public bound_exchange {
 public:
  [[gnu::cold]] reduce_scatter_in_flight(grid_state& grid, const transfer& t) : element_(t.element) {
    group ranks = grid.group_of(t.axes);
    ranks.link = nullptr;
    pack_ = blocks_given(grid, t);
    reduction_ = block_reduction(ranks, t.element, t.combine, pack_.blocks);
  }
  scratch_bytes needs() const override { return {packed_bytes() + reduction_.scratch_bytes(), 0}; }
  bool communicates() const override { return pack_.elements() != 0; }
  void begin(const void* const* in, void* const* out, const scratch& s) override {
    wait_for_kernels();
    if (!pack_.direct()) pack_.run(*in, s.memory, element_);
    packed_ = pack_.direct() ? *in : s.memory;
    out_ = *out;
    // The bytes of a reduce-scatter are counted where they are sent.
    traffic().bytes += (pack_.elements() - reduction_.mine()) * size_of(element_) - reduction_.received_bytes();
    reduction_.begin(packed_, s.memory + packed_bytes());
  }
  void progress() override { reduction_.progress(); }
  void finish() override {
    reduction_.wait();
    if (reduction_.mine() != 0) reduction_.combine(packed_, out_);
  }

 private:
  std::int64_t packed_bytes() const { return pack_.order.packed_bytes(element_); }

  element element_;
  packing pack_{};
  block_reduction reduction_{};
  const void* packed_ = nullptr;
  void* out_ = nullptr;
};

/// Binds a move that may overlap with other steps; null if it does not. Collective over the grid. `number` is the
/// number of its step, the same on all devices.
template <kind Move>
[[gnu::cold]] owned<bound_exchange> make_move_in_flight(grid_state& grid, const transfer& t,
                                                        [[maybe_unused]] std::size_t number) {
  if (!may_go_on(Move, t, grid.sizes()) || !goes_on(grid, t.axes)) return {};
  const auto made = [](bound_exchange* e) { return owned<bound_exchange>(e); };
  if constexpr (Move == kind::all_reduce) return made(new all_reduce_in_flight<>(grid, t, number));
  else if (!stays_in_blocks(t, grid.sizes())) return made(new move_by<collective_permute, true>(grid, t));
  else if constexpr (Move == kind::reduce_scatter) return made(new reduce_scatter_in_flight<>(grid, t));
  else if constexpr (Move == kind::all_gather || Move == kind::all_to_all)
    return made(new move_by<block_exchange<Move == kind::all_gather>, true>(grid, t));
  else return made(new move_by<collective_permute, true>(grid, t));
}

}}} // namespace cleave::v0::comm
