// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/given_strides.hpp>
#include <cleave/storage/box.hpp>
#include <cleave/tensor/call.hpp>

#include <algorithm>
#include <memory>

// Shards in Views of the caller that are not contiguous: subviews, padded Views, the interior of a View with ghosts,
// LayoutLeft Views. Steps whose loops take any strides use the View itself. The others get a contiguous copy.

namespace cleave { inline namespace v0 { namespace detail {

inline void pack_shard(const tensor_state& t, void* packed) {
  wait_for_kernels();
  copy_box(make_copy(t.local, t.stride, 0, strides_of(t.local), 0), t.data, packed, size_of(t.element));
}
inline void unpack_shard(const tensor_state& t, const void* packed) {
  wait_for_kernels();
  copy_box(make_copy(t.local, strides_of(t.local), 0, t.stride, 0), packed, t.data, size_of(t.element));
}
/// Copies a shard to memory that has the same strides.
inline void copy_strided(const shape& extents, const strides& stride, const void* from, void* to, std::int64_t size) {
  wait_for_kernels();
  copy_box(make_copy(extents, stride, 0, stride, 0), from, to, size);
}

/// The sets of strides and ghosts that the tensors of a grid have. Every device has as many entries, each with its own.
struct stride_classes {
  struct entry {
    strides stride;
    ghost_widths ghosts;
  };
  indexed_vector<entry> known{};

  /// The first entry from `first` on that a tensor has; past the end there is none.
  std::int64_t find(const tensor_state& t, std::int64_t first) const {
    while (first < std::ssize(known) && !(known[first].stride == t.stride && known[first].ghosts == t.ghosts)) ++first;
    return first;
  }
};
inline constexpr char stride_classes_key = 0;

/// Collective over the devices.
inline void classify_strides(tensor_state& t) {
  grid_state& on = t.grid.state();
  if (!on.active()) return;
  void* found = on.bound().find(&stride_classes_key, {});
  if (found == nullptr) found = on.bound().keep(&stride_classes_key, {}, std::shared_ptr<void>(new stride_classes));
  auto& classes = *as<stride_classes>(found);
  const int last = t.local.rank - 1;
  const bool unit = last < 0 || t.elements() == 0 || t.local[last] == 1 || t.stride[last] == 1;
  bool left = last > 0;
  for (int i = 0, inner = -1; i <= last && t.elements() != 0; ++i)
    if (t.local[i] > 1) {
      left = left && (inner < 0 ? i > 0 || t.stride[i] == 1 : t.stride[i] >= t.stride[inner] * t.local[inner]);
      inner = i;
    }
  std::int64_t number = classes.find(t, 0), all[4];
  // Until all ranks have the same entry: each takes its next one that is not before anybody's.
  do {
    const std::int64_t mine[4] = {number, -number, unit ? 0 : 1, left ? 0 : 1};
    on.largest(mine, all, 4, on.world());
    if (all[0] != number) number = classes.find(t, all[0]);
  } while (all[0] != -all[1]);
  if (number == std::ssize(classes.known)) classes.known.push_back({t.stride, t.ghosts});
  t.stride_class = number;
  t.unit_rows = all[2] == 0;
  t.is_left = all[3] == 0;
}

/// Shards of two results in the memory of the caller, to be compared element by element.
class shards_in_memory {
 public:
  shards_in_memory(const tensor_state& a, const tensor_state& b) : a_(a), b_(b) {}

  /// Whether they have a byte in common.
  bool meet() const {
    if (a_.elements() == 0 || b_.elements() == 0) return false;
    if (!share_bytes(a_.data, span(a_), b_.data, span(b_))) return false;
    dims all{};
    add(b_, false, all);
    add(a_, true, all);
    return reaches(as<char>(b_.data) - as<char>(a_.data), all, 0);
  }

 private:
  /// Along a dim, how many bytes an element of b is farther from an element of a for each step, and how many steps
  /// there are at least and at most. Steps of a count backwards. A dim of both with one stride counts differences.
  struct steps {
    std::int64_t bytes, least, most;
  };
  /// In descending order of bytes.
  struct dims {
    steps of[2 * max_rank];
    int count;
  };
  static void add(const tensor_state& t, bool backwards, dims& all) {
    const strides stride = strides_in(t);
    for (int d = 0; d < t.local.rank; ++d) {
      const std::int64_t bytes = stride[d] * size_of(t.element), most = t.local[d] - 1;
      if (most == 0 || bytes == 0) continue;
      int at = 0;
      while (at < all.count && all.of[at].bytes > bytes) ++at;
      if (at == all.count || all.of[at].bytes != bytes) {
        std::copy_backward(all.of + at, all.of + all.count, all.of + all.count + 1);
        ++all.count;
        all.of[at] = {bytes, 0, 0};
      }
      (backwards ? all.of[at].least : all.of[at].most) += backwards ? -most : most;
    }
  }
  static strides strides_in(const tensor_state& t) { return t.strided == nullptr ? strides_of(t.local) : t.stride; }
  /// The bytes from the first element to the last.
  static std::int64_t span(const tensor_state& t) {
    const strides stride = strides_in(t);
    std::int64_t last = 0;
    for (int d = 0; d < t.local.rank; ++d) last += (t.local[d] - 1) * stride[d];
    return (last + 1) * size_of(t.element);
  }
  /// Whether an element of b, `away` bytes behind one of a and moved along the dims from `d` on, has a byte of it:
  /// along the dims with the largest strides first, of which few steps come as near as the others can reach.
  bool reaches(std::int64_t away, const dims& all, int d) const {
    if (d == all.count) return away > -size_of(b_.element) && away < size_of(a_.element);
    std::int64_t back = -away - size_of(b_.element), forth = size_of(a_.element) - away;
    for (int e = d + 1; e < all.count; ++e) {
      back -= all.of[e].bytes * all.of[e].most;
      forth -= all.of[e].bytes * all.of[e].least;
    }
    // Divided towards 0: one step too many on one side.
    const auto [bytes, least, most] = all.of[d];
    for (std::int64_t n = std::max(back / bytes - 1, least); n <= std::min(forth / bytes + 1, most); ++n)
      if (reaches(away + n * bytes, all, d + 1)) return true;
    return false;
  }

  const tensor_state &a_, &b_;
};
/// Throws overlap_error where two results have elements in common.
[[gnu::cold]] inline void refuse_shared_elements(const call_operand* results, std::size_t count) {
  for (std::size_t r = 1; r < count; ++r)
    for (std::size_t other = 0; other < r; ++other)
      if (results[r].tensor != nullptr && results[other].tensor != nullptr &&
          shards_in_memory(*results[other].tensor, *results[r].tensor).meet())
        raise<overlap_error>(wording::results_overlap(other, r));
}

/// Whether an argument is the same tensor as one before it: only one of them may have its halo in the ghosts.
inline bool is_given_before(const call_operand* operands, std::size_t i) {
  for (std::size_t k = 0; k < i; ++k)
    if (operands[k].tensor == operands[i].tensor) return true;
  return false;
}

/// Whether all tensors of more than one dim are in LayoutLeft order, and not all in LayoutRight order too.
inline bool all_left(const call_operand* operands, std::size_t count) {
  bool right = true;
  for (std::size_t i = 0; i < count; ++i)
    if (const tensor_state* t = operands[i].tensor; t != nullptr && t->local.rank > 1) {
      if (t->strided == nullptr || !t->is_left) return false;
      right = right && t->unit_rows;
    }
  return !right;
}

/// A plan bound to sizes and to the strides of some of its arguments and results.
struct strided_executor {
  /// Of each argument and result.
  indexed_vector<strides> stride{};
  indexed_vector<ghost_widths> ghosts{};
  given_strides given{};
  /// An argument that keeps its halo, the exchange that fills its ghosts, and the elements that they hold then:
  /// none if the ghosts of some device have no room, so that each call exchanges them.
  struct kept {
    std::size_t argument, exchange;
    kept_elements halo{};
  };
  indexed_vector<kept> halos{};
  owned<executor> code{};

  strided_executor(const runnable& program, const call_site& site, const call_operand* operands) {
    const program_view& p = program.program;
    const std::size_t all = p.arguments + p.results;
    stride.resize(all, {});
    given.of.resize(all, nullptr);
    ghosts.resize(p.arguments, {});
    given.ghosts.resize(p.arguments, nullptr);
    given.copy = &copy_strided;
    const sizes at = site.complete_for_run();
    const auto reads_view = [&](std::size_t i) {
      const tensor_state* t = operands[i].tensor;
      return t != nullptr && t->strided != nullptr && (given.left && t->local.rank > 1 ? t->is_left : t->unit_rows) &&
             strided_access(p, i, at, site.grid().here()).possible();
    };
    given.left = all_left(operands, all) && runs_left(p, at);
    for (std::size_t i = 0; i < all && given.left; ++i)
      given.left = operands[i].tensor == nullptr || operands[i].tensor->local.rank < 2 || reads_view(i);
    for (std::size_t i = 0; i < all; ++i) {
      if (!reads_view(i)) continue;
      const tensor_state* t = operands[i].tensor;
      stride[i] = t->stride;
      given.of[i] = &stride[i];
      if (i >= p.arguments || is_given_before(operands, i)) continue;
      ghosts[i] = t->ghosts;
      given.ghosts[i] = &ghosts[i];
    }
    for (std::size_t i = 0; i < p.arguments; ++i)
      if (given.ghosts[i] != nullptr && operands[i].tensor->keeps_halo) find_halo(p, i, at, site.grid());
    site.grid().guarded([&] { code = owned<executor>(new executor(site.grid(), at, program, &given)); });
    if (!halos.empty()) code->state().left_out.resize(p.steps.size(), 0);
  }
  bool uses_view(std::size_t operand) const { return given.of[operand] != nullptr; }

  /// Before a run and after it.
  void leave_out_halos(const call_operand* operands) {
    for (const kept& k : halos) {
      const tensor_state& t = *operands[k.argument].tensor;
      const bool current = t.halo.have(k.halo);
      code->state().left_out[k.exchange] = current ? 1 : 0;
      // Until it is complete.
      if (!current) t.halo = {};
    }
  }
  void note_halos(const call_operand* operands) const {
    for (const kept& k : halos) {
      const tensor_state& t = *operands[k.argument].tensor;
      if (t.halo.empty()) t.halo = k.halo;
    }
  }

 private:
  /// Collective over the devices.
  void find_halo(const program_view& p, std::size_t argument, const sizes& at, grid_state& grid) {
    const step* s = exchange_of_only_halo(p, argument);
    if (s == nullptr) return;
    const buffer& halo = p.buffers[s->out];
    const bool takes = given.ghosts_take(p, halo, at, grid.here());
    const bool is_empty = indices_of(p.buffers[halo.of], p.maps, at, grid.here()).empty();
    const std::int64_t mine[2] = {takes ? 1 : 0, takes || is_empty ? 0 : 1};
    std::int64_t all[2];
    grid.largest(mine, all, 2, grid.world());
    if (all[0] == 0) return;
    halos.push_back({argument, as_size(s - p.steps.data())});
    if (all[1] == 0) halos.back().halo = kept_elements(p, halo);
  }
};

/// The executor for the strides of a call. All ranks find the same one, since strides are known by their numbers.
inline strided_executor& strided_executor_for(const runnable& code, const call_site& site,
                                              const call_operand* operands) {
  indexed_vector<std::int64_t> key(site.extents().data(), site.extents().data() + site.extents().size());
  for (std::size_t i = 0; i < code.program.arguments + code.program.results; ++i)
    if (const tensor_state* t = operands[i].tensor; t != nullptr && t->strided != nullptr) {
      key.push_back(std::int64_t(i));
      key.push_back(t->stride_class);
      key.push_back((is_given_before(operands, i) ? 1 : 0) + (t->keeps_halo ? 2 : 0));
    }
  // Beside the executor for contiguous shards, which has the address of the plan for a key.
  const void* const plan = &code.forms;
  void* found = site.grid().bound().find(plan, key);
  if (found == nullptr) {
    site.grid().bound().make_room(plan);
    found = site.grid().bound().keep(plan, key, std::shared_ptr<void>(new strided_executor(code, site, operands)));
  }
  return *as<strided_executor>(found);
}

/// Runs a plan of which some arguments or results are not contiguous.
inline void run_strided(const runnable& code, const call_operand* operands) {
  const program_view& p = code.program;
  const call_site site(p, operands, p.arguments + p.results);
  for (std::size_t i = p.arguments; i < p.arguments + p.results; ++i)
    if (operands[i].tensor != nullptr) operands[i].tensor->require_writable();
  if (!site.grid().active()) return check_elsewhere(p, site, operands);
  refuse_shared_elements(operands + p.arguments, p.results);
  // Checks look at contiguous shards.
  strided_executor* const own = site.grid().checked().any() ? nullptr : &strided_executor_for(code, site, operands);
  indexed_vector<call_operand> given;
  for (std::size_t i = 0; i < p.arguments + p.results; ++i) {
    given.push_back(operands[i]);
    const tensor_state* t = operands[i].tensor;
    if (t == nullptr || t->strided == nullptr) continue;
    t->was_copied = own == nullptr || !own->uses_view(i);
    if (!t->was_copied) continue;
    given[i].data = i < p.arguments ? t->packed() : t->begin_writing();
  }
  if (own != nullptr) own->leave_out_halos(operands);
  // Before the call, which may write results and then throw, and after it, where an argument is a result too.
  const auto forget_halos = [&] {
    for (std::size_t i = p.arguments; i < given.size(); ++i)
      if (given[i].tensor != nullptr) given[i].tensor->halo = {};
  };
  forget_halos();
  run_program(code, site, given.data(), own == nullptr ? nullptr : own->code.get());
  if (own != nullptr) own->note_halos(operands);
  forget_halos();
  for (std::size_t i = p.arguments; i < given.size(); ++i)
    if (given[i].data != operands[i].data) given[i].tensor->end_writing();
}

inline constexpr strided_shard strided_shards{&classify_strides, &run_strided, &pack_shard, &unpack_shard};

}}} // namespace cleave::v0::detail
