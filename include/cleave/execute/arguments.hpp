// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <functional>
#include <memory>

namespace cleave { inline namespace v0 { namespace detail {

/// The memory of a program's arguments and results: which results must be computed in memory of their own, because the
/// caller's memory is that of an argument that is still to be read.
class argument_memory {
 public:
  [[gnu::cold]] explicit argument_memory(const binder& b) : given_(b.given) {
    const program_view& p = b.program;
    aside_.resize(p.results);
    argument_bytes_.resize(p.arguments, 0);
    for (std::size_t i = 0; i < p.buffers.size(); ++i) {
      const buffer& x = p.buffers[i];
      if (x.role == role::workspace) continue;
      (x.role == role::input ? inputs_ : outputs_).push_back({i, x.index});
      if (x.form == form::slice) continue;
      (x.role == role::input ? argument_bytes_[x.index] : aside_[x.index].bytes) = b.bytes_between(x);
      if (x.role == role::output)
        aside_[x.index].local = b.local(x), aside_[x.index].element_bytes = size_of(x.type.element);
    }
    for (std::size_t r = 0; r < p.results; ++r) by_address_.push_back(r);
    apart_.resize(p.results, nullptr);
  }

  [[gnu::cold]] void find_hazards(const binder& b, const indexed_vector<owned<bound_step>>& steps) {
    const program_view& p = b.program;
    const indexed_vector<range> uses = uses_of(b);
    for (std::size_t a = 0; a < p.arguments; ++a)
      for (std::size_t r = 0; r < p.results; ++r) {
        const std::int64_t last_read = uses[a].end, first_write = uses[p.arguments + r].begin;
        if (last_read < 0 || first_write < 0 || last_read < first_write) continue;
        const auto number = as_size(last_read);
        hazards_.push_back({a, r,
                            last_read == first_write && have_same_strides(p, a, r) &&
                                (pointwise(b, p.steps[number], a) ||
                                 (given_ == nullptr && replaces(p, p.steps[number], *steps[number], a)))});
      }
  }

  /// Writes the addresses of a run. Throws overlap_error if two results share memory. Collective over the devices in
  /// the first run: all throw memory_error if one has no memory for results that are computed apart. If it takes such
  /// memory later on, since it is given other addresses, a device that has none throws alone; in checked mode `prepare`
  /// took it before.
  void take(grid_state& grid, const void* const* inputs, void* const* outputs, indexed_vector<void*>& at) {
    for (const place& p : inputs_) at[p.buffer] = const_cast<void*>(inputs[p.index]);
    find_used(inputs, outputs);
    if (is_first_) grid.agree_on_memory(finds_memory([&] { allocate_used(); }), bytes_used(), of_results);
    else allocate_used();
    is_first_ = false;
    // Whoever gives strides has compared the elements.
    if (given_ == nullptr) refuse_overlap(outputs);
    for (const place& p : outputs_)
      at[p.buffer] = aside_[p.index].used ? aside_[p.index].memory.get() : outputs[p.index];
  }
  /// Allocates the memory that a run with these addresses needs; returns the bytes if there is no memory, else 0.
  [[gnu::cold]] std::int64_t prepare(const void* const* inputs, void* const* outputs) {
    find_used(inputs, outputs);
    return finds_memory([&] { allocate_used(); }) ? 0 : bytes_used();
  }
  static constexpr std::string_view of_results = "results that are computed beside arguments";
  /// Copies results that were computed apart to the caller's memory.
  void give(void* const* outputs) const {
    for (std::size_t r = 0; r < aside_.size(); ++r)
      if (const aside& a = aside_[r]; a.used) {
        const strides* own = given_ == nullptr ? nullptr : given_->of[argument_bytes_.size() + r];
        if (own == nullptr) copy_bytes(outputs[r], a.memory.get(), a.bytes);
        else given_->copy(a.local, *own, a.memory.get(), outputs[r], a.element_bytes);
      }
  }

 private:
  void find_used(const void* const* inputs, void* const* outputs) {
    for (aside& a : aside_) a.used = false;
    for (const hazard& h : hazards_) {
      const void *const from = inputs[h.argument], *const to = outputs[h.result];
      if (share_bytes(from, argument_bytes_[h.argument], to, aside_[h.result].bytes) &&
          !(h.same_place_is_safe && from == to))
        aside_[h.result].used = true;
    }
  }
  void allocate_used() {
    for (aside& a : aside_)
      if (a.used && !a.memory) a.memory = allocate(a.bytes);
  }
  std::int64_t bytes_used() const {
    std::int64_t bytes = 0;
    for (const aside& a : aside_)
      if (a.used) bytes += a.bytes;
    return bytes;
  }
  struct place {
    std::size_t buffer;
    std::size_t index;
  };
  /// A result that is written while an argument is still read.
  struct hazard {
    std::size_t argument;
    std::size_t result;
    bool same_place_is_safe;
  };
  struct aside {
    std::int64_t bytes = 0;
    bool used = false;
    shape local{};
    std::int64_t element_bytes = 0;
    std::shared_ptr<void> memory{};
  };

  bool have_same_strides(const program_view& p, std::size_t argument, std::size_t result) const {
    if (given_ == nullptr) return true;
    const strides *a = given_->of[argument], *r = given_->of[p.arguments + result];
    return a == r || (a != nullptr && r != nullptr && *a == *r);
  }
  /// Two results in one memory would overwrite each other. An earlier check of the same addresses still holds.
  void refuse_overlap(void* const* outputs) {
    if (std::equal(apart_.begin(), apart_.end(), outputs)) return;
    // They keep their order from call to call, so that insertion finds them sorted.
    for (std::size_t i = 1; i < by_address_.size(); ++i)
      for (std::size_t j = i; j > 0 && std::less<void*>()(outputs[by_address_[j]], outputs[by_address_[j - 1]]); --j)
        std::swap(by_address_[j], by_address_[j - 1]);
    std::size_t last = by_address_.size();
    for (std::size_t r : by_address_) {
      if (aside_[r].bytes == 0) continue;
      if (last < by_address_.size() && as<char>(outputs[last]) + aside_[last].bytes > as<char>(outputs[r]))
        raise<overlap_error>(wording::results_overlap(std::min(last, r), std::max(last, r)));
      last = r;
    }
    std::copy(outputs, outputs + apart_.size(), apart_.begin());
  }

  /// For each argument, then each result: the step that writes it first (begin) and the one that reads it last (end),
  /// or -1. A loop reads its operands until it ends, and may write its results as soon as it begins.
  [[gnu::cold]] static indexed_vector<range> uses_of(const binder& of) {
    const program_view& p = of.program;
    indexed_vector<range> uses(p.arguments + p.results, range{-1, -1});
    std::int64_t depth = 0, begin = 0;
    for (std::int64_t i = -1, number = -1; const step& s : p.steps) {
      ++number;
      // A pass with several results is one step.
      if (!is_in_pass(s)) i = number;
      if (s.kind == step_kind::loop_begin && depth++ == 0) begin = i;
      if (s.kind == step_kind::loop_end) --depth;
      const std::int64_t end = end_of_loops(p, i, depth);
      for (std::uint16_t b : s.in)
        if (const buffer& x = of.read_from(b); x.role == role::input) uses[x.index].end = end;
      if (!writes(s)) continue;
      const buffer& out = p.buffers[s.out];
      if (out.role != role::output) continue;
      range& use = uses[p.arguments + out.index];
      if (use.begin < 0) use.begin = depth > 0 ? begin : i;
    }
    return uses;
  }
  /// The end of all loops around a step.
  static std::int64_t end_of_loops(const program_view& p, std::int64_t i, std::int64_t depth) {
    while (depth > 0) {
      const step& s = p.steps[as_size(++i)];
      if (s.kind == step_kind::loop_begin) ++depth;
      if (s.kind == step_kind::loop_end) --depth;
    }
    return i;
  }
  /// Whether a step may write its result to the memory of an argument although it reads it at a distance.
  static bool replaces(const program_view& p, const step& s, const bound_step& code, std::size_t argument) {
    bool all = s.kind == step_kind::map;
    for (std::uint16_t b : s.in)
      if (const buffer& x = p.buffers[b]; x.role == role::input && x.index == argument)
        all = all && code.may_replace(b);
    return all;
  }
  /// Whether within one step an argument may be overwritten in place: element i of the result needs element i of it
  /// alone.
  [[gnu::cold]] static bool pointwise(const binder& b, const step& s, std::size_t argument) {
    const program_view& p = b.program;
    if (s.kind == step_kind::move) return s.move == kind::all_reduce || s.move == kind::mask;
    if (s.kind != step_kind::map && !is_scaled(s)) return false;
    for (std::size_t k = 0; k < s.in.size(); ++k) {
      const buffer& x = b.read_from(s.in[k]);
      if (is_scaled(s) && k < 2 && x.role == role::input && x.index == argument) return false;
      if (x.form == form::view && p.buffers[x.of].form == form::halo) {
        const buffer& shard = p.buffers[p.buffers[x.of].of];
        if (shard.role == role::input && shard.index == argument) return false;
      }
      if (x.role == role::input && x.index == argument &&
          (x.type.rank != s.loop.rank || x.type.dims != s.loop.dims || x.type.element != p.buffers[s.out].type.element))
        return false;
    }
    return true;
  }

  const given_strides* given_;
  bool is_first_ = true;
  indexed_vector<place> inputs_{}, outputs_{};
  indexed_vector<std::int64_t> argument_bytes_{};
  indexed_vector<hazard> hazards_{};
  indexed_vector<aside> aside_{};
  indexed_vector<void*> apart_{};
  indexed_vector<std::size_t> by_address_{};
};

}}} // namespace cleave::v0::detail
