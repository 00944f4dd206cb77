// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/checked/errors.hpp>
#include <cleave/checked/inspect.hpp>
#include <cleave/checked/nan_search.hpp>
#include <cleave/checked/plan_identity.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/program/panels.hpp>
#include <cleave/program/program_view.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace cleave { inline namespace v0 { namespace detail {

/// An argument of a call: a shard, or a number on the host.
struct argument_data {
  const void* data;
  std::int64_t elements;
  bool is_number;
};

/// The facts that all devices compare before a call in checked mode: the call, its extents, and the arguments that some
/// of them hold alike. One small message, unless there are many such arguments.
template <class Arguments>
class call_comparison {
 public:
  /// `of(i)` gives argument i.
  call_comparison(grid_state& grid, const program_view& p, const Arguments& of) : grid_(grid), p_(p), of_(of) {}

  /// Throws agreement_error, absent_error or memory_error on all devices. `lacking`: the bytes that this one could not
  /// allocate for the results.
  [[gnu::cold]] void run(const plan_identity* plan, indexed_span<const std::int64_t> extents, std::int64_t lacking) {
    comm::small_message mine;
    const std::uint64_t first[] = {plan == nullptr ? 0 : plan->hash(), plan_identity::hash_of(extents),
                                   as_size(lacking)};
    std::copy_n(first, 3, mine.words);
    std::size_t words = 3, b = 0;
    const auto add_replicas = [&] {
      wait_for_kernels();
      for (; b < p_.buffers.size() && words < mine.most_words && grid_.checked().calls; ++b)
        if (has_replicas(p_.buffers[b])) which_[words] = b, mine.words[words++] = word_of(p_.buffers[b]);
    };
    add_replicas();
    grid_.same_call(plan == nullptr ? std::string_view() : plan->name, mine, words);
    for (std::size_t from = 3; words > from; from = 0) {
      for (std::size_t k = from; k < words; ++k) compare(p_.buffers[which_[k]], k);
      words = 0;
      add_replicas();
      if (words > 0) grid_.tell(grid_state::asked_for::arguments, b, mine.words, words);
    }
  }

 private:
  // A value of one word is compared as the word, so that a message can show it.
  static bool is_word(const buffer& b) { return b.type.rank == 0 && size_of(b.type.element) <= 8; }
  std::uint64_t word_of(const buffer& b) const {
    const argument_data a = of_(b.index);
    std::uint64_t word = 0;
    if (!is_word(b)) return hash_elements(a.data, a.elements, b.type.element);
    if (a.is_number) std::memcpy(&word, a.data, as_size(size_of(b.type.element)));
    else copy_bytes<Kokkos::HostSpace, memory_space>(&word, a.data, size_of(b.type.element));
    return word;
  }
  bool has_replicas(const buffer& b) const {
    std::int64_t parts = 1;
    for (int a = 0; a < grid_.mesh().size(); ++a)
      if (b.where.used().contains(a)) parts *= grid_.sizes()[a];
    return b.role == role::input && parts != grid_.sizes().devices();
  }
  /// Everybody compares all words, so that all throw the same.
  void compare(const buffer& b, std::size_t k) const {
    for (int r = 1; r < grid_.world().size; ++r) {
      const std::uint64_t other = grid_.told(r)[k];
      if (other == grid_.told(0)[k]) continue;
      const int first = first_with_the_same(b.where.used(), r);
      const std::uint64_t one = grid_.told(first)[k];
      if (one == other) continue;
      const std::string values = is_word(b) ? ": " + host_number(one, b.type.element).text() + " and " +
                                                  host_number(other, b.type.element).text()
                                            : std::string();
      raise<agreement_error>(
          wording::replicas_differ(b.index, to_string(b.type, b.where, p_.dims, grid_.mesh()), first, r, values));
    }
  }
  /// The lowest device that holds the same shard as device `r`, of a tensor that some axes shard or leave partial.
  int first_with_the_same(axis_set used, int r) const {
    coordinates c = coordinates_of(r, grid_.sizes());
    for (int a = 0; a < max_axes; ++a)
      if (!used.contains(a)) c[a] = 0;
    return comm::rank_number(device_of(c, grid_.sizes()));
  }

  grid_state& grid_;
  program_view p_;
  const Arguments& of_;
  /// The buffer of each word.
  std::size_t which_[comm::small_message::most_words];
};

/// The checks of checked mode within the calls of one bound plan. Everything that they throw is thrown on all devices,
/// and nothing waits longer than the time limit.
template <class = void>
class call_checks final : public call_hooks {
 public:
  [[gnu::cold]] call_checks(grid_state& grid, const sizes& at, const program_view& p)
      : grid_(grid), at_(at), p_(p), search_(grid, at_, p) {
    // The devices have just met at the beginning of the call.
    bool met = true;
    for (const step& s : p.steps) {
      const bool begins = begins_collective(s);
      meets_.push_back(begins && !met);
      met = met && !begins && is_short(s);
    }
  }

  /// No NaN among the arguments.
  void before_call(const addresses& address) override {
    if (grid_.checked().nans) look_for_nan_in_arguments(address);
  }
  /// If it communicates: everybody is there.
  void before_step(std::size_t i, const addresses& address) override {
    if (grid_.checked().calls && meets_[i]) meet(i);
    if (grid_.checked().calls) look_at_labels(p_.steps[i], address);
    if (grid_.checked().nans) search_.keep_operands(p_.steps[i], address);
  }
  /// No NaN in its result.
  void after_step(std::size_t i, const addresses& address) override {
    if (grid_.checked().nans) look_for_nan(i, address);
  }
  std::int64_t agreed(std::int64_t number) override {
    grid_.tell(asked_for::number, 0, &number, 1);
    for (int r = 0; r < grid_.world().size; ++r)
      if (as_signed(grid_.told(r)[0]) != number)
        raise<agreement_error>(wording::iterations_differ(std::min(r, me()), std::max(r, me())));
    return number;
  }

 private:
  using asked_for = grid_state::asked_for;

  int me() const { return grid_.world().rank; }
  /// Whether a device spends no time in a step and cannot end in it, as in a function of the user.
  bool is_short(const step& s) const {
    std::int64_t elements = 1;
    for (int i = 0; i < s.loop.rank; ++i) elements *= std::min<std::int64_t>(at_.dims[s.loop[i]], short_loop);
    bool calls = s.kind != step_kind::map && s.kind != step_kind::fold;
    for (const fused_op& o : fused_ops_of(p_, s)) calls = calls || o.user != nullptr;
    return !calls && elements < short_loop;
  }
  static constexpr std::int64_t short_loop = 1 << 20;

  // Names for messages.
  std::string type_name(const buffer& b) const { return to_string(b.type, b.where, p_.dims, grid_.mesh()); }
  /// The box of indices in which a buffer has an element; its number in the buffer becomes that in the box.
  [[gnu::cold]] box indices_around(const buffer& b, std::int64_t& flat) const {
    if (b.form != form::halo) return indices_of(b, p_.maps, at_, grid_.here());
    // The parts of a halo are stored one after the other.
    box part;
    for (std::uint32_t p = 0; p < parts_of(b.maps); ++p) {
      if ((b.parts >> p & 1) == 0) continue;
      part = part_of_halo(b, p, p_.maps, at_, grid_.here());
      if (flat < part.elements()) break;
      flat -= part.elements();
    }
    return part;
  }
  /// Global indices of an element of a buffer, by its number in the shard.
  [[gnu::cold]] std::string index_name(const buffer& b, std::int64_t flat) const {
    const box all = indices_around(b, flat);
    std::string text;
    for (int i = b.type.rank; i-- > 0; flat /= std::max<std::int64_t>(all[i].size(), 1)) {
      const std::int64_t index = all[i].begin + flat % std::max<std::int64_t>(all[i].size(), 1);
      text.insert(0, std::to_string(index).append(text.empty() ? "" : ", "));
    }
    return "[" + text + "]";
  }

  std::int64_t elements_of(const buffer& b) const { return cleave::elements_of(b, p_.maps, at_, grid_.here()); }
  [[gnu::cold]] void meet(std::size_t i) {
    grid_.tell(asked_for::step, i, nullptr, 0, [&](const std::string& call) {
      const step& s = p_.steps[i];
      return std::string(name_of(s.move)) + " of " + call + ", for " + operation_of(s) + place_of(s);
    });
  }

  /// The sentence of a device that found something, or nothing.
  template <class Error = nan_error>
  [[gnu::cold]] void tell(std::string_view found) {
    char text[496] = "";
    found.copy(text, sizeof text - 1);
    grid_.tell(asked_for::fault, 0, text, sizeof text / 8);
    for (int r = 0; r < grid_.world().size; ++r)
      if (grid_.told(r)[0] != 0) raise<Error>(reinterpret_cast<const char*>(grid_.told(r)));
  }

  // Labels that are compared with indices, and indices of rows.
  void look_at_labels(const step& s, const addresses& address) {
    if (s.kind == step_kind::gather || s.kind == step_kind::scatter) {
      if (s.exclusive) look_at_rows(s, address);
    } else if (s.kind != step_kind::gemm) {
      for (const fused_op& t : fused_ops_of(p_, s))
        if (has_trait(t.code, op_traits::to_bool) && t.scalar != 0) look_at_comparison(s, t, address);
    }
  }
  [[gnu::cold]] void look_at_comparison(const step& s, const fused_op& t, const addresses& address) {
    wait_for_kernels();
    const nan_search::label_found f = search_.wrong_label(s, t, address);
    if (f.along < 0) return tell<label_error>({});
    std::string index;
    for (int d = 0; d < s.loop.rank; ++d)
      if (d != f.along) index.append(index.empty() ? "" : ", ").append(index_along(s.loop[d], f.index[d]));
    tell_label(f.label, index, s.loop[f.along], place_of(s.where.name(), t.line));
  }
  [[gnu::cold]] void look_at_rows(const step& s, const addresses& address) {
    wait_for_kernels();
    const buffer& b = p_.buffers[s.in[1]];
    if (is_around_shard(p_, b)) return tell<label_error>({});
    const std::int64_t extent = at_.dims[dim_along(s)];
    const box held = indices_of(b, p_.maps, at_, grid_.here());
    for (std::int64_t flat = 0; flat < elements_of(b); ++flat) {
      const void* const data = static_cast<const char*>(address[s.in[1]]) + flat * size_of(b.type.element);
      const double label = host_number(data, b.type.element).floating();
      if (nan_search::is_label(label, extent, b.type.element, labels_are_indices)) continue;
      std::string index;
      std::int64_t rest = flat;
      for (int d = b.type.rank; d-- > 0; rest /= held[d].size())
        index.insert(0, index_along(b.type[d], held[d].begin + rest % held[d].size()) + (index.empty() ? "" : ", "));
      return tell_label(static_cast<std::int64_t>(label), index, dim_along(s), place_of(s));
    }
    tell<label_error>({});
  }
  std::string index_along(dim_id d, std::int64_t index) const {
    return std::string(p_.dims[d].name) + " " + std::to_string(index);
  }
  [[gnu::cold]] void tell_label(std::int64_t label, const std::string& index, dim_id d, const std::string& place) {
    tell<label_error>(
        wording::label_outside(label, index.empty() ? "the call" : index, p_.dims[d].name, at_.dims[d], place, me()));
  }

  // NaN.
  /// The first NaN of a buffer, by its number in the shard, or -1.
  std::int64_t first_nan_of(const buffer& b, const void* data) const {
    return first_nan(data, elements_of(b), b.type.element);
  }
  [[gnu::cold]] void look_for_nan_in_arguments(const addresses& address) {
    wait_for_kernels();
    for (std::size_t i = 0; i < p_.buffers.size(); ++i) {
      const buffer& b = p_.buffers[i];
      const std::int64_t flat = b.role == role::input ? first_nan_of(b, address[i]) : -1;
      if (flat >= 0) return tell(wording::argument_has_nan(b.index, type_name(b), index_name(b, flat), me()));
    }
    tell({});
  }
  [[gnu::cold]] void look_for_nan(std::size_t i, const addresses& address) {
    const step& s = p_.steps[i];
    // The result of an exchange or move in flight is there at its wait.
    const std::size_t wrote = s.kind == step_kind::wait ? s.begun : i;
    if (wrote == i && s.in_flight) return;
    // Elements that are only moved were checked where they were computed, and so were the elements around a shard.
    if ((!writes(s) && wrote == i) || has_neighbours(p_.buffers[p_.steps[wrote].out]) ||
        p_.steps[wrote].kind == step_kind::exchange)
      return;
    // Its result has no memory: the product gathers it.
    if (s.kind == step_kind::move && is_in_panels(p_, s, at_)) return;
    const std::size_t out = p_.steps[wrote].out;
    const buffer& b = p_.buffers[out];
    wait_for_kernels();
    const std::int64_t flat = b.form == form::view ? -1 : first_nan_of(b, address[out]);
    if (flat < 0) return tell({});
    std::string op = operation_of(s), at = place_of(s);
    if (const fused_op* made = s.ops == 0 ? nullptr : search_.find(s, flat, address); made != nullptr) {
      op = name_of(made->code);
      if (made->line != 0) at = place_of(s.where.name(), made->line);
    }
    tell(wording::made_nan(op, at, type_name(b), index_name(b, flat), me()));
  }

  grid_state& grid_;
  sizes at_;
  program_view p_;
  nan_search search_;
  /// For each step whether the devices meet before it.
  indexed_vector<bool> meets_{};
};

/// Gives an executor the checks of its steps. Collective over the devices: if one of them has no memory for these, all
/// throw memory_error.
template <class Executor>
[[gnu::cold]] void look_at_steps(Executor& own, grid_state& grid, const sizes& at, const program_view& p) {
  owned<call_hooks> made;
  const bool found = finds_memory([&] { made = owned<call_hooks>(new call_checks<>(grid, at, p)); });
  grid.agree_on_memory(found, sizeof(call_checks<>), "the checks of a plan");
  own.look_with(std::move(made));
}

}}} // namespace cleave::v0::detail
