// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/comm/block_exchange.hpp>
#include <cleave/comm/box_messages.hpp>
#include <cleave/comm/operation.hpp>
#include <cleave/comm/parts.hpp>
#include <cleave/comm/reduce_scatter.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/program/step.hpp>
#include <cleave/storage/element_type.hpp>

#include <type_traits>

namespace cleave { inline namespace v0 { namespace comm {

/// Partial values over the axes are combined on all their devices. `in` may be `out`.
/// Communication: MPI_Allreduce of the shard; nothing over axes of size 1.
class all_reduce {
 public:
  [[gnu::cold]] all_reduce(grid_state& grid, const transfer& t)
      : element_(t.element), combine_(t.combine), elements_(held_before(grid, t).elements()) {
    if (grid.sizes().product(t.axes) > 1) group_ = grid.group_of(t.axes);
  }
  scratch_bytes needs() const { return {0, port_.staged() && group_.size > 1 ? bytes() : 0}; }

  void run(const void* in, void* out, const scratch& s) {
    if (group_.size == 1) return copy_bytes(out, in, bytes());
    // Both are the same memory if `in` is `out`, and if both are staged.
    const void* from = port_.outgoing(in, s.host, bytes());
    void* into = port_.incoming(out, s.host);
    all_reduce_by_mpi(from, into, elements_, element_, combine_, group_.handle);
    port_.arrived(out, s.host, bytes());
  }

 private:
  std::int64_t bytes() const { return elements_ * size_of(element_); }

  element element_;
  reduction combine_;
  std::int64_t elements_;
  port port_{};
  group group_{};
};

/// A complete value becomes a partial one: the devices with coordinate 0 on the axes keep it, the others hold the
/// identity of the reduction. Communication: none.
class mask {
 public:
  mask(grid_state& grid, const transfer& t)
      : element_(t.element), combine_(t.to.combine()), keeps_(same_along(t.axes, grid.here(), coordinates{})),
        elements_(held_after(grid, t).elements()) {}
  scratch_bytes needs() const { return {}; }
  void run(const void* in, void* out, const scratch&) const {
    if (keeps_) copy_bytes(out, in, elements_ * size_of(element_));
    else fill_identity(out, elements_, element_, combine_);
  }

 private:
  element element_;
  reduction combine_;
  bool keeps_;
  std::int64_t elements_;
};

/// Dims are sharded over more axes: every device keeps a part of its shard. Blocks must nest. Communication: none.
class slice {
 public:
  slice(grid_state& grid, const transfer& t) : element_(t.element) {
    const box to = held_after(grid, t);
    copy_ = copy_between(to, held_before(grid, t), to);
  }
  scratch_bytes needs() const { return {}; }
  void run(const void* in, void* out, const scratch&) const { copy_box(copy_, in, out, size_of(element_)); }

 private:
  element element_;
  box_copy copy_{};
};

/// Whether a move is a collective of the group over its axes, which other transports than MPI may have.
constexpr bool is_of_group(kind move) { return move >= kind::all_reduce && move <= kind::all_to_all; }
/// Such a move by another transport; null: it goes by MPI. Blocks nest. Collective over the grid.
[[gnu::cold]] inline owned<bound_exchange> make_direct(kind move, grid_state& grid, const transfer& t) {
  if (grid.sizes().product(t.axes) == 1) return {};
  const group& g = grid.group_of(t.axes);
  return g.direct == nullptr ? owned<bound_exchange>() : g.direct->bind(move, grid, t);
}

/// Whether a collective supports any blocks, or only blocks that stay inside those of the unchanged axes.
enum class works_on { any_blocks, nested_blocks };

/// Which class a collective of a plan becomes when it is bound to sizes.
template <kind Name, class Call, works_on Blocks>
struct bound_as {
  using call = Call;
  static constexpr works_on blocks = Blocks;
};

/// All collectives that move a value from one layout to another. A new one is one line here.
struct collectives : bound_as<kind::slice, slice, works_on::nested_blocks>,
                     bound_as<kind::mask, mask, works_on::any_blocks>,
                     bound_as<kind::all_reduce, all_reduce, works_on::any_blocks>,
                     bound_as<kind::reduce_scatter, reduce_scatter, works_on::nested_blocks>,
                     bound_as<kind::all_gather, all_gather, works_on::nested_blocks>,
                     bound_as<kind::all_to_all, all_to_all, works_on::nested_blocks>,
                     bound_as<kind::collective_permute, collective_permute, works_on::any_blocks> {};

/// A collective behind the interface of exchanges, so that a program compiles only those that it uses. It runs as a
/// whole in `begin`, or, in flight, until `finish`.
template <class Call, bool InFlight = false>
class move_by final : public bound_exchange {
 public:
  move_by(grid_state& grid, const transfer& t) : call_(grid, t) {}
  scratch_bytes needs() const override { return call_.needs(); }
  void run(const void* const* in, void* const* out, const scratch& s) override { call_.run(*in, *out, s); }
  void begin(const void* const* in, void* const* out, const scratch& s) override {
    if constexpr (InFlight) call_.begin(*in, *out, s);
    else run(in, out, s);
  }
  void finish() override {
    if constexpr (InFlight) call_.finish();
  }
  bool communicates() const override {
    if constexpr (InFlight) return call_.communicates();
    else return false;
  }
  void progress() override {
    if constexpr (InFlight) call_.progress();
  }

 private:
  Call call_;
};

template <kind Move>
owned<bound_exchange> make_move(grid_state& grid, const transfer& t);

/// All devices reduce everything first; then each fetches the elements of its block that it lacks.
class reduced_and_fetched {
 public:
  reduced_and_fetched(grid_state& grid, const transfer& t)
      : first_(make_move<kind::all_reduce>(grid, whole(t))), then_(grid, rest(t)),
        whole_bytes_(aligned(held_after(grid, whole(t)).elements() * size_of(t.element))) {}
  scratch_bytes needs() const {
    scratch_bytes n = then_.needs();
    n.memory += whole_bytes_;
    if (first_->needs().host > n.host) n.host = first_->needs().host;
    return n;
  }
  void run(const void* in, void* out, const scratch& s) {
    first_->run_one(in, s.memory, s);
    then_.run(s.memory, out, {s.memory + whole_bytes_, s.host});
  }

 private:
  static transfer whole(const transfer& t) {
    transfer w = t;
    w.to = t.from;
    w.to.set_partial(t.to.unreduced(), t.from.combine());
    return w;
  }
  static transfer rest(const transfer& t) {
    transfer r = t;
    r.from = whole(t).to;
    return r;
  }

  owned<bound_exchange> first_;
  collective_permute then_;
  std::int64_t whole_bytes_;
};

namespace detail {
template <kind Move, class Call, works_on Blocks>
auto entry_for(bound_as<Move, Call, Blocks>*) -> bound_as<Move, Call, Blocks>;
} // namespace detail

/// Binds a move: the collective that the plan names, by the transport of its group, or its replacement for uneven
/// blocks. Collective over the grid: sub-communicators may be made.
template <kind Move>
[[gnu::cold]] owned<bound_exchange> make_move(grid_state& grid, const transfer& t) {
  using entry = decltype(detail::entry_for<Move>(static_cast<collectives*>(nullptr)));
  if constexpr (entry::blocks == works_on::nested_blocks)
    if (!stays_in_blocks(t, grid.sizes())) {
      using general = std::conditional_t<Move == kind::reduce_scatter, reduced_and_fetched, collective_permute>;
      return owned<bound_exchange>(new move_by<general>(grid, t));
    }
  if constexpr (is_of_group(Move))
    if (owned<bound_exchange> made = make_direct(Move, grid, t)) return made;
  return owned<bound_exchange>(new move_by<typename entry::call>(grid, t));
}

}}} // namespace cleave::v0::comm
