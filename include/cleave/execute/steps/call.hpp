// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/local.hpp>
#include <cleave/plan/workspace.hpp>
#include <cleave/storage/box.hpp>

// Kernels of the user on shards.

namespace cleave { inline namespace v0 {

template <class = void>
class call_step final : public bound_step {
 public:
  call_step(const binder& b, const step& s) : step_(s), around_(!s.in.empty() && b.operand(s, 0).form == form::region) {
    for (std::uint16_t in : s.in) shards_.push_back(shard_of(b, b.program.buffers[in]));
    shards_.push_back(shard_of(b, b.result(s)));
    if (s.user->workspace_here.given)
      bytes_ = s.user->workspace_here.call(local_context(b.grid),
                                           std::span<const shard>(shards_.data(), shards_.size()));
    else bytes_ = scratch_of_call(b.program, s, b.at, b.grid.here());
  }
  comm::scratch_bytes shared_bytes() const override { return {bytes_, 0}; }
  void run(run_state& r) override {
    const std::size_t operands = step_.in.size();
    for (std::size_t k = 0; k < operands; ++k) shards_[k].data = r.at[step_.in[k]];
    shards_[operands].data = r.at[step_.out];
    // A kernel in place changes its result, or its own array with a halo, which is copied afterwards.
    const bool in_place = step_.user->in_place, own = in_place && around_;
    if (in_place && !own) {
      copy_first();
      shards_.front().data = shards_.back().data;
    }
    step_.user->on_shards(local_context(r.grid, r.scratch.memory, bytes_),
                          std::span<const shard>(shards_.data(), operands), shards_[own ? 0 : operands]);
    if (own) copy_first();
  }

 private:
  /// Copies the first operand, without its halo, to the result.
  void copy_first() const {
    const shard &from = shards_.front(), &to = shards_.back();
    if (from.data == to.data) return;
    const strides step = strides_of(detail::extents_with_halo(from));
    std::int64_t first = 0;
    for (int i = 0; i < from.local.rank; ++i) first += from.before[i] * step[i];
    wait_for_kernels();
    copy_box(make_copy(from.local, step, first, strides_of(to.local), 0), from.data, to.data, size_of(from.element));
  }
  static shard shard_of(const binder& b, const buffer& x) {
    shard s{x.type.element};
    tell_extents(s, x, b.program.maps, b.at, b.grid.here());
    s.dims = detail::named_dims(x.type, b.program.dims);
    return s;
  }

  const step& step_;
  /// The operands, then the result.
  indexed_vector<shard> shards_{};
  std::int64_t bytes_ = 0;
  /// Whether the first operand has a halo.
  bool around_;
};

template <>
struct step_code<step_kind::call> : detail::code_bound_by<&detail::bind_as<call_step<>>> {};

}} // namespace cleave::v0
