// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/execute/steps/gemm.hpp>
#include <cleave/execute/steps/move.hpp>
#include <cleave/program/panels.hpp>
#include <cleave/storage/box.hpp>

#include <algorithm>

// A product that gathers operands panel by panel (step::panels): each device that has a panel sends it to the others,
// and all of them multiply it. The moves before the product do nothing.

namespace cleave { inline namespace v0 {

template <class = void>
class product_in_panels final : public bound_step {
 public:
  [[gnu::cold]] product_in_panels(const binder& b, const step& s, gemm_step<>::runner run)
      : step_(s), run_(run), panels_(panels_of(b.program, s, b.at, b.grid.here())), type_(b.result(s).type.element) {
    adds_ = s.k.has(panels_.along);
    for (int x = 0; x < 2; ++x) {
      if (!panels_.gathers(x)) continue;
      const buffer& whole = b.operand(s, as_size(x));
      const addressing panel = address_of_panel(whole, b.addresses(whole), panels_.along, panels_.widest());
      shard_[x] = b.program.steps[panels_.of[x].move].in[0];
      group_[x] = &b.grid.in_order(panels_.of[x].over, false);
      panel_at_[x] = scratch_;
      host_ = std::max(host_, port_.host_bytes(0, bytes_of(panel.extents)));
      scratch_ += aligned(bytes_of(panel.extents));
    }
    product_at_ = scratch_;
    for_each_panel(panels_, [&](range along) {
      if (form_of(along) != forms_.size()) return;
      forms_.push_back(bind(b, along.size()));
      scratch_ = std::max(scratch_, product_at_ + forms_.back().gemm.scratch);
    });
    for (int x = 0; x < 3; ++x) {
      const buffer& array = x == 2 ? b.result(s) : b.operand(s, as_size(x));
      const buffer& own = panels_.gathers(x) ? gathered(b, x) : array;
      apart_[x] = stride_along(own, b.addresses(own), panels_.along);
    }
  }
  comm::scratch_bytes shared_bytes() const override { return {scratch_, host_}; }
  void run(run_state& r) override {
    char* const product = as<char>(r.scratch.memory) + product_at_;
    bool first = true;
    for_each_panel(panels_, [&](range along) {
      form& f = forms_[form_of(along)];
      const void* from[2];
      for (int x = 0; x < 2; ++x) from[x] = panels_.gathers(x) ? gather(r, f, x, along) : place(r, x, along);
      char* const to = place(r, 2, along);
      f.gemm.beta = adds_ && !first ? 1 : 0;
      // The library adds to a packed array.
      if (const auto& c = f.gemm.array[2]; f.gemm.beta != 0 && c.packed)
        copy_box(f.result, to, product + c.scratch_at, f.gemm.element_bytes);
      run_(f.gemm, from[0], from[1], to, product);
      first = false;
    });
  }

 private:
  /// The product of panels of one width, and how a device packs its own panel and the result.
  struct form {
    std::int64_t width = 0;
    bound_gemm gemm{};
    box_copy panel[2]{}, result{};
  };

  /// The gathered value of an operand.
  const buffer& gathered(const binder& b, int x) const {
    return b.program.buffers[b.program.steps[panels_.of[x].move].in[0]];
  }
  std::int64_t bytes_of(const shape& extents) const { return extents.elements() * size_of(type_); }
  std::size_t form_of(range along) const {
    std::size_t f = 0;
    while (f < forms_.size() && forms_[f].width != along.size()) ++f;
    return f;
  }
  [[gnu::cold]] form bind(const binder& b, std::int64_t width) const {
    const auto address = [&](const buffer& x) { return b.addresses(x); };
    form f;
    f.width = width;
    f.gemm = bind_gemm(groups_of_panel(b.program, step_, panels_, width, address), size_of(type_));
    f.result = f.gemm.array[2].copy.reversed();
    for (int x = 0; x < 2; ++x) {
      if (!panels_.gathers(x)) continue;
      const buffer &whole = b.operand(step_, as_size(x)), &own = gathered(b, x);
      const addressing panel = address_of_panel(whole, b.addresses(whole), panels_.along, width);
      f.panel[x] = make_copy(panel.extents, strides_in(b.addresses(own)), 0, strides_in(panel), 0);
    }
    return f;
  }
  /// Where the indices of a panel begin in an array that is not gathered.
  char* place(run_state& r, int x, range along) const {
    char* const at = as<char>(r.at[x < 2 ? step_.in[as_size(x)] : step_.out]);
    return at + (along.begin - panels_.all.begin) * apart_[x] * size_of(type_);
  }
  /// The panel of an operand, on all devices that need it.
  const void* gather(run_state& r, const form& f, int x, range along) const {
    const product_panels::operand& from = panels_.of[x];
    const comm::group& group = *group_[x];
    const std::int64_t owner = panels_.owner(from, along.begin), elements = f.panel[x].elements,
                       bytes = elements * size_of(type_);
    char* const to = as<char>(r.scratch.memory) + panel_at_[x];
    if (group.rank != owner) {
      comm::broadcast(group, port_.incoming(to, r.scratch.host), elements, type_, as_int(owner));
      port_.arrived(to, r.scratch.host, bytes);
      return to;
    }
    const std::int64_t first = panels_.all.begin + owner * from.block;
    copy_box(f.panel[x], as<char>(r.at[shard_[x]]) + (along.begin - first) * apart_[x] * size_of(type_), to,
             size_of(type_));
    comm::broadcast(group, const_cast<void*>(port_.outgoing(to, r.scratch.host, bytes)), elements, type_,
                    as_int(owner));
    return to;
  }

  const step& step_;
  gemm_step<>::runner run_;
  product_panels panels_;
  element type_;
  /// Of operands that are gathered: the buffer of the shard, and the devices that have the others.
  std::size_t shard_[2] = {};
  const comm::group* group_[2] = {};
  comm::port port_{};
  indexed_vector<form> forms_{};
  /// How far apart the indices of the dim are in each array: of an operand that is gathered, in this device's shard.
  std::int64_t apart_[3] = {};
  /// Where the panels and the memory of the products begin, all of it, and the memory on the host.
  std::int64_t panel_at_[2] = {}, product_at_ = 0, scratch_ = 0, host_ = 0;
  /// Whether the panels are added up.
  bool adds_ = false;
};

namespace detail {

template <class T>
[[gnu::cold]] owned<bound_step> bind_in_panels(const binder& b, const step& s, const void*) {
  const gemm_step<>::runner run = &run_gemm<T>;
  if (!is_in_panels(b.program, s, b.at)) return make_step<gemm_step<>>(b, s, run);
  return make_step<product_in_panels<>>(b, s, run);
}
template <class = void>
[[gnu::cold]] owned<bound_step> bind_move_of_panels(const binder& b, const step& s, const void*) {
  if (!is_in_panels(b.program, s, b.at)) return bind_move<kind::all_gather>(b, s, nullptr);
  return make_step<idle_step<>>();
}

template <class Plan>
constexpr step_form form_of_panels_moved() {
  return {&bind_move_of_panels<>};
}

} // namespace detail

}} // namespace cleave::v0
