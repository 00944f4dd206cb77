// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/exchange.hpp>
#include <cleave/execute/box_binder.hpp>
#include <cleave/execute/step_form.hpp>

// Elements under other indices, and the end of such an exchange that goes on while other steps compute.

namespace cleave::inline v0 {

template <class = void>
class exchange_step final : public bound_step {
 public:
  [[gnu::cold]] exchange_step(const binder& b, const step& s)
      : step_(s), out_(b.lies_in_ghosts(b.result(s)) ? b.result(s).of : s.out), exchange_(b.grid, spec_of(b, s)) {}
  // While it is in flight others use the common scratch memory.
  comm::scratch_bytes shared_bytes() const override {
    return step_.in_flight ? comm::scratch_bytes{} : exchange_.needs();
  }
  comm::scratch_bytes own_bytes() const override { return step_.in_flight ? exchange_.needs() : comm::scratch_bytes{}; }
  void settle(const comm::scratch& own, run_state&) override { own_ = own; }
  void run(run_state& r) override {
    const operand_addresses in(r, step_);
    if (!step_.in_flight) return exchange_.run(in.from, r.at[out_], r.scratch);
    exchange_.begin(in.from, r.at[out_], own_);
    r.in_flight.push_back(&exchange_);
    r.progress = &progress_all;
  }
  /// Where it is in flight.
  void finish(run_state& r) {
    if (r.in_flight.remove(&exchange_) != 0) exchange_.finish();
  }
  /// Whether this device exchanges messages with others.
  bool communicates() const { return exchange_.communicates(); }

 private:
  static void progress_all(const indexed_vector<comm::bound_exchange*>& all) {
    for (comm::bound_exchange* e : all) e->progress();
  }
  [[gnu::cold]] static comm::exchange_spec spec_of(const binder& b, const step& s) {
    const program_view& p = b.program;
    comm::exchange_spec e;
    for (std::uint16_t in : s.in) {
      e.in.push_back(p.buffers[in]);
      if (b.given != nullptr) e.in_strides.push_back(strides_in(b.addresses(p.buffers[in])));
    }
    e.out = b.result(s);
    for (const dim_map& m : p.maps.subspan(s.first_map, s.maps)) e.maps.push_back(m);
    if (e.is_region())
      for (const dim_map& m : p.maps.subspan(e.out.first_map, e.out.maps)) e.region.push_back(m);
    e.out.first_map = 0;
    e.parts = e.out.parts;
    e.keeps = s.keeps;
    e.in_ghosts = b.lies_in_ghosts(b.result(s));
    if (e.in_ghosts) e.ghost_strides = strides_in(b.addresses(p.buffers[e.out.of]));
    e.at = b.at;
    return e;
  }

  const step& step_;
  /// The buffer whose memory is filled, or around which it lies.
  std::uint16_t out_;
  comm::exchange<> exchange_;
  comm::scratch own_{};
};

template <class = void>
class wait_step final : public bound_step {
 public:
  wait_step(const binder& b, const step& s) : begun_(s.begun) {
    std::size_t reader = b.number_of(s) + 1;
    while (reader < b.program.steps.size() && b.program.steps[reader].kind == step_kind::wait) ++reader;
    for (std::size_t begun : detail::awaited_by(b.program, reader))
      left_to_reader_ = left_to_reader_ || begun == begun_;
  }
  void run(run_state& r) override {
    // Checks look at what is brought as soon as it is waited for.
    if (!left_to_reader_ || r.checks != nullptr) static_cast<exchange_step<>&>(*r.steps[begun_]).finish(r);
  }

 private:
  std::size_t begun_;
  /// The map that comes next computes first what lies away from the halo.
  bool left_to_reader_ = false;
};

template <>
struct step_code<step_kind::exchange> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    return detail::form_as<exchange_step<>>;
  }
};
template <>
struct step_code<step_kind::wait> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    return detail::form_as<wait_step<>>;
  }
};

} // namespace cleave::inline v0
