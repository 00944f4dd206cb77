// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/as_number.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/broadcast.hpp>
#include <cleave/execute/local.hpp>
#include <cleave/execute/steps/gemm.hpp>
#include <cleave/execute/steps/move.hpp>
#include <cleave/program/panels.hpp>
#include <cleave/storage/box.hpp>

#include <algorithm>

// A product that gathers operands panel by panel (step::panels): each device that has a panel sends it to the others,
// and all of them multiply it. The moves before the product do nothing.

namespace cleave::inline v0 {

template <class = void>
class product_in_panels final : public bound_step {
 public:
  [[gnu::cold]] product_in_panels(const binder& b, const step& s, gemm_step<>::runner run)
      : step_(s), run_(run), panels_(panels_of(b.program, s, b.at, b.grid.here())), type_(b.result(s).type.element) {
    const std::int64_t bytes = size_of(type_);
    adds_ = s.k.has(panels_.along);
    for (int x = 0; x < 2; ++x) {
      if (!panels_.gathers(x)) continue;
      const buffer& whole = b.operand(s, as_size(x));
      const std::int64_t width = std::min(panels_.width, std::max<std::int64_t>(panels_.all.size(), 0));
      group_[x] = &b.grid.in_order(panels_.of[x].over, false);
      panel_at_[x] = scratch_;
      scratch_ += aligned(address_of_panel(whole, b.addresses(whole), panels_.along, width).extents.elements() * bytes);
    }
    const std::int64_t panels = scratch_;
    for_each_panel(panels_, [&](range along) {
      parts_.push_back(bind(b, along));
      scratch_ = std::max(scratch_, panels + parts_.back().gemm.scratch);
    });
    gemm_at_ = panels;
  }
  comm::scratch_bytes shared_bytes() const override { return {scratch_, 0}; }
  void run(run_state& r) override {
    char* const memory = as<char>(r.scratch.memory);
    bool first = true;
    for (part& p : parts_) {
      const void* at[3];
      for (int x = 0; x < 3; ++x) at[x] = panels_.gathers(x) ? gather(r, p, x) : operand(r, x) + p.offset[x];
      p.gemm.beta = adds_ && !first ? 1 : 0;
      void* const to = const_cast<void*>(at[2]);
      // The library adds to what is packed.
      if (const auto& c = p.gemm.array[2]; p.gemm.beta != 0 && c.packed)
        copy_box(p.result_packed, to, memory + gemm_at_ + c.scratch_at, p.gemm.element_bytes);
      run_(p.gemm, at[0], at[1], to, memory + gemm_at_);
      first = false;
    }
  }

 private:
  struct part {
    bound_gemm gemm{};
    /// Bytes from the first element of an array that is not gathered.
    std::int64_t offset[3] = {};
    /// Of an operand that is gathered: which device has the panel, its elements, and how that device packs it.
    std::int64_t owner[2] = {}, elements[2] = {};
    box_copy packed[2]{}, result_packed{};
  };

  [[gnu::cold]] part bind(const binder& b, range along) const {
    const auto address = [&](const buffer& x) { return b.addresses(x); };
    const panel_groups g = groups_of_panel(b.program, step_, panels_, along.size(), address);
    part p;
    p.gemm = bind_gemm(g.batch, g.m, g.n, g.k, size_of(type_));
    p.result_packed = p.gemm.array[2].copy;
    std::swap(p.result_packed.from, p.result_packed.to);
    std::swap(p.result_packed.from_offset, p.result_packed.to_offset);
    for (int x = 0; x < 3; ++x) {
      const buffer& array = x == 2 ? b.result(step_) : b.operand(step_, as_size(x));
      if (panels_.gathers(x)) bind_panel(b, p, x, array, along);
      else
        p.offset[x] = (along.begin - panels_.all.begin) * stride_along(array, b.addresses(array), panels_.along) *
                      size_of(type_);
    }
    return p;
  }
  [[gnu::cold]] void bind_panel(const binder& b, part& p, int x, const buffer& whole, range along) const {
    const product_panels::operand& from = panels_.of[x];
    const addressing panel = address_of_panel(whole, b.addresses(whole), panels_.along, along.size());
    p.elements[x] = panel.extents.elements();
    p.owner[x] = panels_.owner(from, along.begin);
    if (group_[x]->rank != p.owner[x]) return;
    const buffer& shard = b.program.buffers[from.move->in[0]];
    const addressing own = b.addresses(shard);
    const std::int64_t first = panels_.all.begin + p.owner[x] * from.block;
    p.packed[x] = make_copy(panel.extents, strides_in(own),
                            (along.begin - first) * stride_along(shard, own, panels_.along), strides_in(panel), 0);
  }
  char* operand(run_state& r, int x) const { return as<char>(r.at[x < 2 ? step_.in[as_size(x)] : step_.out]); }
  /// The panel of an operand, on all devices that need it.
  const void* gather(run_state& r, const part& p, int x) const {
    char* const to = as<char>(r.scratch.memory) + panel_at_[x];
    const bool mine = group_[x]->rank == p.owner[x];
    if (mine) copy_box(p.packed[x], r.at[panels_.of[x].move->in[0]], to, size_of(type_));
    detail::reached memory({to, p.elements[x], type_}, mine, !mine);
    comm::broadcast(*group_[x], memory.data(), p.elements[x], type_, as_int(p.owner[x]));
    memory.done();
    return to;
  }

  const step& step_;
  gemm_step<>::runner run_;
  product_panels panels_;
  element type_;
  const comm::group* group_[2] = {};
  indexed_vector<part> parts_{};
  /// Where the panels and the memory of the products begin, and all of it.
  std::int64_t panel_at_[2] = {}, gemm_at_ = 0, scratch_ = 0;
  /// Whether the panels are added up.
  bool adds_ = false;
};

/// A move that the product makes.
template <class = void>
class move_of_panels final : public bound_step {
 public:
  void run(run_state&) override {}
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
  return make_step<move_of_panels<>>();
}

template <class T>
constexpr step_form form_in_panels() {
  return {&bind_in_panels<T>, nullptr};
}
template <class Plan>
constexpr step_form form_of_panels_moved() {
  return {&bind_move_of_panels<>, nullptr};
}

} // namespace detail

} // namespace cleave::inline v0
