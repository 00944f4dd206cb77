// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/all_gather.hpp>
#include <cleave/comm/all_reduce.hpp>
#include <cleave/comm/all_to_all.hpp>
#include <cleave/comm/collective_permute.hpp>
#include <cleave/comm/mask.hpp>
#include <cleave/comm/reduce_scatter.hpp>
#include <cleave/comm/slice.hpp>
#include <cleave/program/step.hpp>

#include <optional>
#include <variant>

namespace cleave::comm {

namespace detail {

/// The list without the axes at its end that are in the set.
inline axis_list stripped(axis_list list, axis_set axes) {
  while (!list.empty() && (axes >> list[list.size() - 1] & 1) != 0) list.pop_back();
  return list;
}

} // namespace detail

/// Whether a move stays inside blocks over the axes that it leaves alone, so that it is what its name says. A fact of
/// sizes and layouts, the same on all ranks. Where it does not hold, the move becomes the general exchange.
inline bool stays_in_blocks(const transfer& t, const axis_sizes& sizes) {
  for (int i = 0; i < t.global.rank; ++i) {
    if (t.from[i] == t.to[i]) continue;
    const axis_list kept = detail::stripped(t.from[i], t.axes);
    if (detail::stripped(t.to[i], t.axes) != kept || (kept.mask() & t.axes) != 0) return false;
    if (!nests(t.global[i], kept, t.from[i], sizes) || !nests(t.global[i], kept, t.to[i], sizes)) return false;
  }
  return true;
}

/// A move of a plan bound to sizes: the collective that the plan names, or what it becomes for uneven blocks.
class bound_move {
 public:
  bound_move(grid_state& grid, kind move, const transfer& t) {
    const bool inside = stays_in_blocks(t, grid.sizes());
    if (move == kind::mask) {
      call_.emplace<mask>(grid, t);
    } else if (move == kind::all_reduce) {
      call_.emplace<all_reduce>(grid, t);
    } else if (move == kind::slice && inside) {
      call_.emplace<slice>(grid, t);
    } else if (move == kind::all_gather && inside) {
      call_.emplace<all_gather>(grid, t);
    } else if (move == kind::all_to_all && inside) {
      call_.emplace<all_to_all>(grid, t);
    } else if (move == kind::reduce_scatter && inside) {
      call_.emplace<reduce_scatter>(grid, t);
    } else {
      transfer rest = t;
      if (move == kind::reduce_scatter) {
        // Reduced everywhere first, then everybody fetches what it lacks of its block.
        transfer whole = t;
        whole.to = t.from;
        whole.to.set_partial(t.to.unreduced(), t.from.combine());
        rest.from = whole.to;
        first_.emplace(grid, whole);
        whole_bytes_ = aligned(box_of(t.global, whole.to, grid.here(), grid.sizes()).elements() * size_of(t.element));
      }
      call_.emplace<collective_permute>(grid, rest);
    }
  }

  /// Scratch memory that `run` must be given.
  scratch_bytes needs() const {
    scratch_bytes n = std::visit([](const auto& call) { return call.needs(); }, call_);
    n.memory += whole_bytes_;
    if (first_ && first_->needs().host > n.host) n.host = first_->needs().host;
    return n;
  }
  void run(const void* in, void* out, scratch s) {
    if (first_) {
      first_->run(in, s.memory, s);
      in = s.memory;
      s.memory += whole_bytes_;
    }
    std::visit([&](auto& call) { call.run(in, out, s); }, call_);
  }

 private:
  struct nothing {
    scratch_bytes needs() const { return {}; }
    void run(const void*, void*, const scratch&) const {}
  };
  std::optional<all_reduce> first_{};
  std::int64_t whole_bytes_ = 0;
  std::variant<nothing, slice, mask, all_reduce, reduce_scatter, all_gather, all_to_all, collective_permute> call_{};
};

} // namespace cleave::comm
