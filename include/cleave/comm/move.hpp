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
  while (!list.empty() && axes.contains(list[list.size() - 1])) list.pop_back();
  return list;
}

} // namespace detail

/// Whether a move stays inside the blocks over the axes that it leaves alone, as its collective requires. This follows
/// from sizes and layouts, so it is the same on all ranks. Other moves become the general exchange.
inline bool stays_in_blocks(const transfer& t, const axis_sizes& sizes) {
  for (int i = 0; i < t.global.rank; ++i) {
    if (t.from[i] == t.to[i]) continue;
    const axis_list kept = detail::stripped(t.from[i], t.axes);
    if (detail::stripped(t.to[i], t.axes) != kept || kept.mask().meets(t.axes)) return false;
    if (!nests(t.global[i], kept, t.from[i], sizes) || !nests(t.global[i], kept, t.to[i], sizes)) return false;
  }
  return true;
}

/// Whether a collective works on any blocks, or only on blocks that stay inside those of the axes left alone.
enum class works_on { any_blocks, nested_blocks };

/// One entry of the dispatch: which class a collective of a plan becomes when it is bound to sizes.
template <kind Name, class Call, works_on Blocks>
struct bound_as {};

namespace detail {

/// A move that is not bound yet.
struct unbound {
  scratch_bytes needs() const { return {}; }
  void run(const void*, void*, const scratch&) const {}
};

template <class... Entries>
struct dispatch_table;
template <kind... Name, class... Call, works_on... Blocks>
struct dispatch_table<bound_as<Name, Call, Blocks>...> {
  using variant = std::variant<unbound, Call...>;

  /// Binds the collective of that name. False if there is none for these blocks.
  static bool bind(variant& call, kind name, bool nested, grid_state& grid, const transfer& t) {
    const auto binds = [&]<class C>(std::type_identity<C>, bool fits) {
      if (fits) call.template emplace<C>(grid, t);
      return fits;
    };
    return (binds(std::type_identity<Call>{}, name == Name && (nested || Blocks == works_on::any_blocks)) || ...);
  }
};

} // namespace detail

/// All collectives that move a value from one layout to another. A new one is one line here.
using collectives =
    detail::dispatch_table<bound_as<kind::slice, slice, works_on::nested_blocks>,
                           bound_as<kind::mask, mask, works_on::any_blocks>,
                           bound_as<kind::all_reduce, all_reduce, works_on::any_blocks>,
                           bound_as<kind::reduce_scatter, reduce_scatter, works_on::nested_blocks>,
                           bound_as<kind::all_gather, all_gather, works_on::nested_blocks>,
                           bound_as<kind::all_to_all, all_to_all, works_on::nested_blocks>,
                           bound_as<kind::collective_permute, collective_permute, works_on::any_blocks>>;

/// A move of a plan bound to sizes: the collective that the plan names, or what it becomes for uneven blocks.
class bound_move {
 public:
  bound_move(grid_state& grid, kind move, const transfer& t) {
    if (collectives::bind(call_, move, stays_in_blocks(t, grid.sizes()), grid, t)) return;
    transfer rest = t;
    if (move == kind::reduce_scatter) {
      // All devices reduce everything first; then each fetches what it lacks of its block.
      transfer whole = t;
      whole.to = t.from;
      whole.to.set_partial(t.to.unreduced(), t.from.combine());
      rest.from = whole.to;
      reduce_first_.emplace(grid, whole);
      reduced_bytes_ = aligned(held_after(grid, whole).elements() * size_of(t.element));
    }
    call_.emplace<collective_permute>(grid, rest);
  }

  /// Scratch memory that `run` must be given.
  scratch_bytes needs() const {
    scratch_bytes n = std::visit([](const auto& call) { return call.needs(); }, call_);
    n.memory += reduced_bytes_;
    if (reduce_first_ && reduce_first_->needs().host > n.host) n.host = reduce_first_->needs().host;
    return n;
  }
  void run(const void* in, void* out, scratch s) {
    if (reduce_first_) {
      reduce_first_->run(in, s.memory, s);
      in = s.memory;
      s.memory += reduced_bytes_;
    }
    std::visit([&](auto& call) { call.run(in, out, s); }, call_);
  }

 private:
  typename collectives::variant call_{};
  std::optional<all_reduce> reduce_first_{};
  std::int64_t reduced_bytes_ = 0;
};

} // namespace cleave::comm
