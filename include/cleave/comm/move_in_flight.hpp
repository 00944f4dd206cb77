// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/comm/all_reduce_in_flight.hpp>
#include <cleave/comm/move.hpp>

// Moves that overlap with other steps: between ranks of several nodes, with the data on the host. Ranks of one node
// copy from each other; no data moves while they compute.

namespace cleave { inline namespace v0 { namespace comm {

/// Every device sends each other device one block, and combines the received parts of its own block.
template <class = void>
class reduce_scatter_in_flight final : public bound_exchange {
 public:
  [[gnu::cold]] reduce_scatter_in_flight(grid_state& grid, const transfer& t) : element_(t.element) {
    group ranks = grid.group_of(t.axes);
    ranks.pipes = nullptr;
    const box from = held_before(grid, t);
    for (std::int64_t r = 0; r < ranks.size; ++r) pack_.append_pack(held_after(grid, t, grid.member(t.axes, r)), from);
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
