// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/exchange.hpp>
#include <cleave/comm/joined_exchange.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/box_binder.hpp>
#include <cleave/execute/host_number.hpp>

#include <algorithm>
#include <utility>

// Elements under other indices, and the end of exchanges and moves that overlap with other steps.

namespace cleave { inline namespace v0 {

namespace detail {

template <class = void>
void progress_all(const indexed_vector<comm::bound_exchange*>& all) {
  for (comm::bound_exchange* e : all) e->progress();
}
/// Leaves an exchange in flight while other steps compute.
template <class = void>
void leave_under_way(run_state& r, comm::bound_exchange* e) {
  r.in_flight.push_back(e);
  r.progress = &progress_all<>;
}

} // namespace detail

/// An exchange, or the first one of those that share messages, which it makes for all of them. A move is one as well.
/// Those whose elements an argument keeps are left out; the others share messages that are planned when they are first
/// needed. All devices leave the same ones out.
template <class = void>
class exchange_step final : public bound_step {
 public:
  using joins = owned<comm::bound_exchange>(grid_state&, indexed_vector<comm::exchange_spec>);
  /// `join`: of several exchanges, joins some of them.
  [[gnu::cold]] exchange_step(const binder& b, const step& s, owned<comm::bound_exchange> made, bool in_flight,
                              joins* join = nullptr, indexed_vector<comm::exchange_spec> specs = {})
      : exchange_(std::move(made)), in_flight_(in_flight), frees_(in_flight && s.kind == step_kind::move),
        first_(b.number_of(s)), join_(join), specs_(std::move(specs)) {
    const std::size_t end = end_of_joined(b.program.steps, first_);
    for (std::size_t i = first_; i < end; ++i) {
      const step& one = b.program.steps[i];
      for (std::uint16_t in : one.in) in_.push_back({in, out_.size()});
      out_.push_back(b.lies_in_ghosts(b.result(one)) ? b.result(one).of : one.out);
    }
    from_.resize(in_.size());
    to_.resize(out_.size());
  }
  // While it is in flight others use the common scratch memory.
  comm::scratch_bytes shared_bytes() const override { return in_flight_ ? comm::scratch_bytes{} : needs(); }
  comm::scratch_bytes own_bytes() const override { return in_flight_ ? needs() : comm::scratch_bytes{}; }
  bool frees_when_waited() const override { return frees_; }
  void settle(const comm::scratch& own, run_state&) override { own_ = own; }
  void run(run_state& r) override {
    std::size_t ins = 0, outs = 0;
    for (std::size_t k = 0; k < out_.size(); ++k)
      if (!r.leaves_out(first_ + k)) to_[outs++] = r.at[out_[k]];
    for (const operand& in : in_)
      if (!r.leaves_out(first_ + in.exchange)) from_[ins++] = r.at[in.buffer];
    now_ = outs == out_.size() ? exchange_.get() : outs == 0 ? nullptr : some_of(r);
    if (now_ == nullptr) return;
    if (!in_flight_) return now_->run(from_.data(), to_.data(), r.scratch);
    now_->begin(from_.data(), to_.data(), own_);
    if (!now_->communicates() || !r.grid.overlaps()) return now_->finish();
    detail::leave_under_way(r, now_);
  }
  /// Whether messages may still be in flight.
  bool in_flight(const run_state& r) const {
    for (const comm::bound_exchange* e : r.in_flight)
      if (e == now_) return true;
    return false;
  }
  void finish(run_state& r) override {
    if (r.in_flight.remove(now_) != 0) now_->finish();
  }

 private:
  struct operand {
    std::uint16_t buffer;
    std::size_t exchange;
  };
  /// Some of the messages may be in another order, and need as much memory up to the alignment of the last ones.
  comm::scratch_bytes needs() const {
    const comm::scratch_bytes all = exchange_->needs();
    const std::int64_t more = specs_.empty() ? 0 : 2 * comm::aligned(1);
    return {all.memory + more, all.host == 0 ? 0 : all.host + more};
  }
  /// The exchanges without those that are left out.
  struct some_exchanges {
    indexed_vector<std::uint8_t> left_out;
    owned<comm::bound_exchange> made;
  };
  [[gnu::noinline]] comm::bound_exchange* some_of(run_state& r) {
    for (const some_exchanges& some : some_)
      if (std::equal(some.left_out.begin(), some.left_out.end(), &r.left_out[first_])) return some.made.get();
    some_exchanges some{{&r.left_out[first_], &r.left_out[first_] + out_.size()}, {}};
    indexed_vector<comm::exchange_spec> specs;
    for (std::size_t k = 0; k < out_.size(); ++k)
      if (some.left_out[k] == 0) specs.push_back(specs_[k]);
    some.made = join_(r.grid, std::move(specs));
    some_.push_back(std::move(some));
    return some_.back().made.get();
  }

  owned<comm::bound_exchange> exchange_;
  comm::bound_exchange* now_ = nullptr;
  bool in_flight_;
  /// Readers of halos may wait for them later than their waits say.
  bool frees_;
  /// The operands, and the buffers whose memory, or memory around which, is filled.
  indexed_vector<operand> in_{};
  indexed_vector<std::uint16_t> out_{};
  indexed_vector<const void*> from_{};
  indexed_vector<void*> to_{};
  comm::scratch own_{};
  /// The number of the first exchange.
  std::size_t first_;
  joins* join_;
  indexed_vector<comm::exchange_spec> specs_;
  indexed_vector<some_exchanges> some_{};
};
/// A slice that is read in place.
template <class = void>
class slice_step final : public bound_step {
 public:
  [[gnu::cold]] slice_step(const binder& b, const slice_in_place& s)
      : slice_(s.slice), whole_(s.whole), first_(s.first), first_type_(b.program.buffers[s.first].type.element) {
    const buffer &whole = b.program.buffers[s.whole], &slice = b.program.buffers[s.slice];
    last_ = b.local(whole)[s.along] - b.local(slice)[s.along];
    bytes_ = b.addresses(whole).stride[as_size(s.along)] * size_of(whole.type.element);
  }
  void run(run_state& r) override {
    const std::int64_t first = host_number(r.at[first_], first_type_).integer();
    r.at[slice_] = as<char>(r.at[whole_]) + std::clamp<std::int64_t>(first, 0, last_) * bytes_;
  }

 private:
  std::size_t slice_, whole_, first_;
  element first_type_;
  /// The last index at which it may begin, and how far apart two indices are.
  std::int64_t last_ = 0, bytes_ = 0;
};

template <class = void>
class wait_step final : public bound_step {
 public:
  wait_step(const binder& b, const step& s)
      : begun_(first_joined(b.program.steps, s.begun)),
        left_to_reader_(detail::left_to_reader(b.program, b.number_of(s))) {}
  void run(run_state& r) override {
    // Checks look at the result right after the wait.
    if (!left_to_reader_ || r.checks != nullptr) r.steps[begun_]->finish(r);
  }

 private:
  std::size_t begun_;
  /// The next map first computes the points away from the halo.
  bool left_to_reader_;
};

namespace detail {

[[gnu::cold]] inline comm::exchange_spec exchange_spec_of(const binder& b, const step& s) {
  const program_view& p = b.program;
  comm::exchange_spec e = comm::exchange_of(p, s, b.at);
  if (b.given == nullptr) return e;
  for (std::uint16_t in : s.in) e.in_strides.push_back(strides_in(b.addresses(p.buffers[in])));
  e.left = b.is_left();
  e.in_ghosts = b.lies_in_ghosts(b.result(s));
  if (e.in_ghosts) e.ghost_strides = strides_in(b.addresses(p.buffers[e.out.of]));
  return e;
}
template <class = void>
[[gnu::cold]] owned<bound_step> bind_exchange(const binder& b, const step& s, const void*) {
  // Collective at first, and whether a slice is read in place depends on the shard.
  b.grid.devices();
  if (const slice_in_place* slice = b.slice_of(b.result(s))) return make_step<slice_step<>>(b, *slice);
  return make_step<exchange_step<>>(b, s,
                                    owned<comm::bound_exchange>(new comm::exchange<>(b.grid, exchange_spec_of(b, s))),
                                    s.in_flight);
}
template <class = void>
[[gnu::cold]] owned<comm::bound_exchange> join_exchanges(grid_state& grid, indexed_vector<comm::exchange_spec> specs) {
  return owned<comm::bound_exchange>(new comm::joined_exchange<>(grid, std::move(specs)));
}
template <class = void>
[[gnu::cold]] owned<bound_step> bind_joined_exchanges(const binder& b, const step& s, const void*) {
  const std::size_t first = b.number_of(s), end = end_of_joined(b.program.steps, first);
  indexed_vector<comm::exchange_spec> specs, kept;
  for (std::size_t i = first; i < end; ++i) specs.push_back(exchange_spec_of(b, b.program.steps[i]));
  if (b.given != nullptr) kept = specs;
  return make_step<exchange_step<>>(b, s, join_exchanges<>(b.grid, std::move(specs)), s.in_flight, &join_exchanges<>,
                                    std::move(kept));
}

} // namespace detail

template <>
struct step_code<step_kind::exchange> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    constexpr exchange_role role = exchange_role_of(Plan::frozen, I);
    if constexpr (role == exchange_role::first) return {&detail::bind_joined_exchanges<>};
    else if constexpr (role == exchange_role::joined) return {&detail::bind_idle<>};
    else return {&detail::bind_exchange<>};
  }
};
template <>
struct step_code<step_kind::wait> : detail::code_bound_by<&detail::bind_as<wait_step<>>> {};

}} // namespace cleave::v0
