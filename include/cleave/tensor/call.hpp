// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/checked/call_checks.hpp>
#include <cleave/comm/recorded_calls.hpp>
#include <cleave/execute/executor.hpp>
#include <cleave/tensor/errors.hpp>
#include <cleave/tensor/storage.hpp>

// A call of a plan, from the tensors that it was given. Nothing here depends on their types, so it is compiled once.

namespace cleave { inline namespace v0 { namespace detail {

/// An argument or a result: a tensor, or a number in the caller's memory.
struct call_operand {
  const tensor_state* tensor = nullptr;
  const void* data = nullptr;
};

/// The facts that a call takes from its tensors before it runs: the grid and the sizes.
class call_site {
 public:
  /// The arguments of the program, then its results: the first `given` of them. Throws grid_error or shape_error where
  /// they do not fit each other.
  call_site(const program_view& p, const call_operand* operands, std::size_t given) : p_(p) {
    for (std::size_t d = 0; d < p.dims.size(); ++d) extents_[d] = dynamic;
    for (std::size_t i = 0; i < given; ++i)
      if (operands[i].tensor != nullptr) learn(*operands[i].tensor, p.buffers[i].type);
  }

  grid_state& grid() const { return *grid_; }
  /// As the tensors have them; `dynamic` for a dim that no tensor has.
  indexed_span<const std::int64_t> extents() const { return {extents_, p_.dims.size()}; }

  /// With the extents that no tensor has, fixed ones and those that follow from splits and merges, all checked.
  [[gnu::cold]] sizes complete() const {
    sizes at;
    at.axes = grid_->sizes();
    for (std::size_t d = 0; d < p_.dims.size(); ++d) {
      const std::int64_t fixed = p_.dims[d].extent;
      at.dims[d] = fixed == dynamic ? extents_[d] : fixed;
      if (extents_[d] != dynamic && at.dims[d] != extents_[d])
        raise<shape_error>(wording::extents_differ(p_.dims[d].name, fixed, extents_[d]));
    }
    const bool fits = derive_extents(p_.rules, at);
    for (const dim_product& p : p_.rules.products)
      for (const dim_id part : {p[1], p[2]})
        if (p[2] != no_dim && at.dims[p[0]] != dynamic && at.dims[part] > 0 && at.dims[p[0]] % at.dims[part] != 0)
          raise<shape_error>(
              wording::extent_no_multiple(name_of_dim(p[0]), at.dims[p[0]], name_of_dim(part), at.dims[part]));
    for (std::size_t d = 0; d < p_.dims.size(); ++d)
      if (at.dims[d] == dynamic) raise<shape_error>(wording::extent_unknown(p_.dims[d].name));
    if (!fits) refuse(at);
    check_promises(at);
    for (std::size_t d = 0; d < p_.dims.size(); ++d)
      if (const dim_ref dim = p_.dims[d].ref(); !dim.blocks.empty()) {
        check_blocks(dim, grid_->blocks_of(dim.blocks), at.dims[d], 1);
        at.given[d] = grid_->blocks_of(dim.blocks);
      }
    return at;
  }
  /// The same for a run, in which indices and numbers of elements have to fit into their types.
  [[gnu::cold]] sizes complete_for_run() const {
    const sizes at = complete();
    check_indices(at);
    return at;
  }

 private:
  std::string_view name_of_dim(dim_id d) const { return p_.dims[d].name; }
  void learn(const tensor_state& t, const tensor_type& type) {
    grid_state& on = t.grid.state();
    if (grid_ == nullptr) grid_ = &on;
    if (grid_ != &on) raise<grid_error>(wording::grids_differ());
    for (int i = 0; i < type.rank; ++i) {
      std::int64_t& extent = extents_[type[i]];
      if (extent == dynamic) extent = t.global[i];
      if (extent != t.global[i]) raise<shape_error>(wording::extents_differ(name_of_dim(type[i]), extent, t.global[i]));
    }
  }
  /// Says which extents do not follow from the others as the program needs it.
  [[gnu::cold]] void refuse(const sizes& at) const {
    for (const dim_product& p : p_.rules.products)
      if (const std::int64_t parts = at.dims[p[1]] * (p[2] == no_dim ? 1 : at.dims[p[2]]); parts != at.dims[p[0]])
        raise<shape_error>(wording::extents_differ(name_of_dim(p[0]), parts, at.dims[p[0]]));
    for (const derived_extent& d : p_.rules.derived)
      if (const std::int64_t follows = extent_of(d, at); follows != at.dims[d.dim])
        raise<shape_error>(wording::extents_differ(name_of_dim(d.dim), follows, at.dims[d.dim]));
    for (const least_extent& l : p_.rules.least)
      if (!is_long_enough(l, at))
        raise<shape_error>(
            wording::extent_too_small(name_of_dim(l.dim), least_extent_of(l, p_.rules, at), at.dims[l.dim]));
  }
  /// Dims that promise to divide evenly are held to it wherever the plan shards them.
  [[gnu::cold]] void check_promises(const sizes& at) const {
    for (const buffer& b : p_.buffers)
      for (int i = 0; i < b.type.rank; ++i) {
        if (!p_.dims[b.type[i]].divisible) continue;
        if (const std::int64_t parts = at.axes.product(b.where[i]); at.dims[b.type[i]] % parts != 0)
          raise<shape_error>(wording::extent_not_divisible(name_of_dim(b.type[i]), parts, at.dims[b.type[i]]));
      }
  }

  /// Indices and numbers of elements fit into the types in which the plan has them, and so do sums of bounds.
  [[gnu::cold]] void check_indices(const sizes& at) const {
    double beyond = 0;
    for (const step& s : p_.steps) {
      if (!s.joined) beyond = s.bounds > 0 ? as_double(most_beyond_indices) : 0;
      for (const fused_op& o : fused_ops_of(p_, s)) {
        if (!is_integer(o.type)) continue;
        const bool index = role_of(o.code) == fused_role::index;
        const dim_set dims = index ? dim_bit(s.loop[o.arg]) : o.over;
        double most = 1;
        for (dim_id d = 0; d < max_dims && d < p_.dims.size(); ++d) {
          if ((dims & dim_bit(d)) == 0) continue;
          most *= static_cast<double>(at.dims[d]);
          const double sums = o.type == element::i32 ? beyond : 0;
          if (!has_number(o.type, sums + (index ? std::max(most - 1, 0.0) : most)))
            raise<shape_error>(wording::index_too_large(name_of_dim(d), at.dims[d], name_of(o.type)));
        }
      }
    }
  }

  program_view p_;
  grid_state* grid_ = nullptr;
  std::int64_t extents_[max_dims];
};

/// Addresses of a call; without a heap where there are no more than usual.
class call_addresses {
 public:
  explicit call_addresses(std::size_t n) : many_(n > usual ? n : 0), at_(n > usual ? many_.data() : few_) {}
  call_addresses(const call_addresses&) = delete;
  call_addresses& operator=(const call_addresses&) = delete;
  void*& operator[](std::size_t i) { return at_[i]; }
  void** data() { return at_; }

 private:
  static constexpr std::size_t usual = 64;
  void* few_[usual];
  indexed_vector<void*> many_;
  void** at_;
};

/// Where a new tensor for a program's first result is.
struct result_place {
  const grid& on;
  shape extents;
};
/// As it follows from the program's arguments: on the grid of its tensors, with the extents that their dims give.
[[gnu::cold]] inline result_place place_of_result(const program_view& p, const call_operand* operands) {
  std::size_t first = 0;
  while (first < p.arguments && operands[first].tensor == nullptr) ++first;
  if (first == p.arguments) raise<grid_error>(wording::no_grid_to_be_made_on());
  const sizes at = call_site(p, operands, p.arguments).complete();
  return {operands[first].tensor->grid, shape_of(p.buffers[p.arguments].type, at)};
}

/// Throws number_error where a number of a call does not fit.
inline void check_numbers(const number_checks& numbers, const call_operand* operands) {
  numbers.check([&](std::size_t i) { return operands[i].tensor == nullptr ? operands[i].data : nullptr; });
}
/// The part of a rank that is no device in a call: an error of the call is thrown on all ranks alike.
[[gnu::cold]] inline void check_elsewhere(const program_view& p, const call_site& site, const call_operand* operands) {
  site.complete_for_run();
  check_numbers(number_checks(p), operands);
}

/// In checked mode, before a call. `at`: the addresses of the arguments, then those of the results.
[[gnu::cold]] inline void check_call(const runnable& code, const call_site& site, const call_operand* operands,
                                     void** at) {
  const program_view& p = code.program;
  grid_state& grid = site.grid();
  // Kept with the grid, as the executors are.
  void* plan = grid.bound().find(&code.form_of, {});
  if (plan == nullptr)
    finds_memory([&] { plan = grid.bound().keep(&code.form_of, {}, std::make_shared<plan_identity>(p)); });
  executor* const known = as<executor>(grid.bound().find(&code, site.extents()));
  const auto argument = [&](std::size_t i) {
    const tensor_state* const t = operands[i].tensor;
    // A number that is more than a word is read where the kernels have it.
    const bool is_word = t == nullptr && size_of(p.buffers[i].type.element) <= 8;
    return argument_data{is_word || t != nullptr ? operands[i].data : at[i], t == nullptr ? 1 : t->elements(),
                         t == nullptr};
  };
  const std::int64_t lacking = plan == nullptr    ? bytes_to_bind
                               : known == nullptr ? 0
                                                  : known->prepare(at, at + p.arguments);
  call_comparison(grid, p, argument).run(as<plan_identity>(plan), site.extents(), lacking);
}
/// Runs a plan on its arguments and results, whose shards are contiguous, or for which there is an executor of its own.
/// Collective over the devices.
inline void run_program(const runnable& code, const call_site& site, const call_operand* operands, executor* own) {
  const program_view& p = code.program;
  const std::size_t all = p.arguments + p.results;
  call_addresses at(all);
  // Numbers are where kernels can read them: on the host where they are.
  indexed_vector<std::shared_ptr<void>> numbers;
  for (std::size_t i = 0; i < all; ++i) {
    at[i] = const_cast<void*>(operands[i].data);
    if constexpr (!Kokkos::SpaceAccessibility<execution_space, Kokkos::HostSpace>::accessible)
      if (operands[i].tensor == nullptr) {
        const std::int64_t bytes = size_of(p.buffers[i].type.element);
        numbers.push_back(allocate(bytes));
        copy_bytes<memory_space, Kokkos::HostSpace>(numbers.back().get(), at[i], bytes);
        at[i] = numbers.back().get();
      }
  }
  if (site.grid().checked().any()) check_call(code, site, operands, at.data());
  if (own == nullptr) own = &executor_for(site.grid(), code, site.extents(), [&] { return site.complete_for_run(); });
  if (site.grid().checked().any() && !own->has_checks()) look_at_steps(*own, site.grid(), site.complete(), p);
  check_numbers(own->numbers(), operands);
  own->run(at.data(), at.data() + p.arguments);
}
/// Throws overlap_error where two results are one tensor. A rank whose shard is empty has no addresses that overlap, so
/// they alone would not tell it.
inline void refuse_same_results(const call_operand* results, std::size_t count) {
  for (std::size_t r = 1; r < count; ++r)
    for (std::size_t other = 0; other < r; ++other)
      if (results[r].tensor != nullptr && results[r].tensor == results[other].tensor)
        raise<overlap_error>(wording::results_overlap(other, r));
}
/// The same for any shards. `from`: the address of the statement.
inline void run_program(const runnable& code, const call_operand* operands, const void* from) {
  const program_view& p = code.program;
  const comm::recorded call(p.steps, from);
  refuse_same_results(operands + p.arguments, p.results);
  for (std::size_t i = 0; i < p.arguments + p.results; ++i)
    if (const tensor_state* t = operands[i].tensor; t != nullptr && t->strided != nullptr)
      return t->strided->run(code, operands);
  const call_site site(p, operands, p.arguments + p.results);
  if (!site.grid().active()) check_elsewhere(p, site, operands);
  else run_program(code, site, operands, nullptr);
}

}}} // namespace cleave::v0::detail
