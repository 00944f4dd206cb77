// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/execute/nan_search.hpp>
#include <cleave/execute/plan_identity.hpp>
#include <cleave/program/panels.hpp>
#include <cleave/program/program_view.hpp>
#include <cleave/storage/inspect.hpp>

#include <algorithm>
#include <string>

namespace cleave { inline namespace v0 {

namespace detail {

/// The checks of checked mode around the calls and steps of one bound plan. Everything that they throw is thrown on all
/// devices, and nothing waits longer than the time limit.
class call_checks {
 public:
  /// The address of each buffer.
  using addresses = indexed_vector<void*>;

  call_checks(grid_state& grid, const sizes& at, const program_view& p)
      : grid_(grid), at_(at), p_(p), search_(grid, at_, p) {}

  /// Before a call: the same replicas everywhere, and no NaN among the arguments.
  void before_call(const addresses& address) {
    if (grid_.checked().calls && grid_.agreement().size() > 1) compare_replicas(address);
    if (grid_.checked().nans) look_for_nan_in_arguments(address);
  }
  /// Before a step that communicates: everybody is there.
  void before_step(std::size_t i, const addresses& address) {
    if (grid_.checked().calls && begins_collective(p_.steps[i])) meet(i);
    if (grid_.checked().calls) look_at_labels(p_.steps[i], address);
    if (grid_.checked().nans) search_.keep_operands(p_.steps[i], address);
  }
  /// After a step: no NaN in its result.
  void after_step(std::size_t i, const addresses& address) {
    if (grid_.checked().nans) look_for_nan(i, address);
  }
  /// A number that decides whether a loop continues.
  std::int64_t agreed(std::int64_t number) {
    const indexed_vector<unsigned char>& all = exchange(&number, sizeof number);
    for (int r = 0; r < grid_.agreement().size(); ++r)
      if (const auto other = item<std::int64_t>(all, r); other != number)
        raise<agreement_error>(wording::iterations_differ(std::min(r, me()), std::max(r, me())));
    return number;
  }

 private:
  /// A sentence of a rank that found something, or nothing.
  struct report {
    char text[504] = "";
  };

  int me() const { return grid_.agreement().rank(); }
  template <class T>
  static T item(const indexed_vector<unsigned char>& all, int rank) {
    T one;
    std::memcpy(&one, all.data() + sizeof(T) * as_size(rank), sizeof(T));
    return one;
  }
  const indexed_vector<unsigned char>& exchange(const void* mine, std::size_t bytes, std::string_view what = {}) {
    return grid_.timed([&]() -> const indexed_vector<unsigned char>& {
      return grid_.agreement().exchange(mine, bytes, grid_.checked().time_limit,
                                        what.empty() ? std::string_view(grid_.call_name()) : what);
    });
  }

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

  // The same replicas. A value of one word is compared as the word, so that a message can show it.
  std::int64_t elements_of(const buffer& b) const { return cleave::elements_of(b, p_.maps, at_, grid_.here()); }
  bool is_word(const buffer& b) const { return b.type.rank == 0 && size_of(b.type.element) <= 8; }
  std::uint64_t word_or_hash(const buffer& b, const void* data) const {
    if (!is_word(b)) return hash_elements(data, elements_of(b), b.type.element);
    std::uint64_t word = 0;
    copy_bytes<Kokkos::HostSpace, memory_space>(&word, data, size_of(b.type.element));
    return word;
  }
  [[gnu::cold]] void compare_replicas(const addresses& address) {
    wait_for_kernels();
    indexed_vector<std::size_t> which;
    indexed_vector<std::uint64_t> mine;
    for (std::size_t b = 0; b < p_.buffers.size(); ++b)
      if (p_.buffers[b].role == role::input) {
        which.push_back(b);
        mine.push_back(word_or_hash(p_.buffers[b], address[b]));
      }
    if (mine.empty()) return;
    const indexed_vector<unsigned char> all = exchange(mine.data(), mine.size() * sizeof(std::uint64_t));
    // Everybody compares everything, so that all throw the same.
    indexed_vector<std::uint64_t> theirs(all.size() / sizeof(std::uint64_t));
    std::memcpy(theirs.data(), all.data(), all.size());
    const auto by = [&](int r, std::size_t k) { return theirs[as_size(r) * mine.size() + k]; };
    for (std::size_t k = 0; k < which.size(); ++k)
      for (int r = 1; r < grid_.agreement().size(); ++r) {
        const buffer& b = p_.buffers[which[k]];
        const int first = first_with_the_same(b.where.used(), r);
        if (by(first, k) == by(r, k)) continue;
        const std::string values = is_word(b) ? ": " + host_number(by(first, k), b.type.element).text() + " and " +
                                                    host_number(by(r, k), b.type.element).text()
                                              : std::string();
        raise<agreement_error>(wording::replicas_differ(b.index, type_name(b), first, r, values));
      }
  }
  /// The lowest device that holds the same shard as device `r`, of a tensor that some axes shard or leave partial.
  int first_with_the_same(axis_set used, int r) const {
    coordinates c = coordinates_of(r, grid_.sizes());
    for (int a = 0; a < max_axes; ++a)
      if (!used.contains(a)) c[a] = 0;
    return comm::rank_number(device_of(c, grid_.sizes()));
  }
  [[gnu::cold]] void meet(std::size_t i) {
    const auto mine = as_signed(i);
    const step& s = p_.steps[i];
    exchange(&mine, sizeof mine,
             std::string(name_of(s.move)) + " of " + grid_.call_name() + ", for " + operation_of(s) + place_of(s));
  }

  template <class Error = nan_error>
  [[gnu::cold]] void tell(std::string_view found) {
    report mine;
    found.copy(mine.text, sizeof mine.text - 1);
    const indexed_vector<unsigned char>& all = exchange(&mine, sizeof mine);
    for (int r = 0; r < grid_.agreement().size(); ++r)
      if (const auto other = item<report>(all, r); other.text[0] != 0) raise<Error>(other.text);
  }

  // Labels that are compared with indices, and indices of rows.
  void look_at_labels(const step& s, const addresses& address) {
    if (s.kind == step_kind::gather || s.kind == step_kind::scatter) {
      if (s.exclusive) look_at_rows(s, address);
    } else if (s.kind != step_kind::gemm) {
      for (const fused_op& t : fused_ops_of(p_, s))
        if (t.code == op::equal && t.scalar != 0) look_at_comparison(s, t, address);
    }
  }
  [[gnu::cold]] void look_at_comparison(const step& s, const fused_op& t, const addresses& address) {
    wait_for_kernels();
    const nan_search::label_found f = search_.wrong_label(s, t, address);
    if (!f.found) return tell<label_error>({});
    const indexed_span<const fused_op> all = fused_ops_of(p_, s);
    const std::uint8_t along = all[t.in[all[t.in[0]].code == op::iota ? 0 : 1]].arg;
    std::string index;
    for (int d = 0; d < s.loop.rank; ++d)
      if (d != along) index.append(index.empty() ? "" : ", ").append(index_along(s.loop[d], f.index[d]));
    tell_label(f.label, index, s.loop[along], place_of(s.where.name(), t.line));
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
};

} // namespace detail

/// The numbers of a statement that take the element type of a tensor, which has to hold them.
class number_checks {
 public:
  [[gnu::cold]] explicit number_checks(const program_view& p) {
    for (const step& s : p.steps) {
      const indexed_span<const fused_op> all = fused_ops_of(p, s);
      for (const fused_op& o : all) {
        if (o.code != op::cast || o.scalar != is_number_that_fits) continue;
        const fused_op& given = all[o.in[0]];
        if (given.code == op::input && s.in[given.arg] < p.arguments)
          numbers_.push_back({s.in[given.arg], given.type, o.type});
      }
    }
  }
  /// `data` gives the address of an argument that is a number in memory of the host; null of a tensor. Throws
  /// number_error if the type of a tensor cannot hold the number, on all ranks, since they have the same number.
  template <class Data>
  void check(const Data& data) const {
    for (const number& n : numbers_) {
      const void* const at = data(n.argument);
      if (at == nullptr) continue;
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, at, std::min(sizeof bytes, as_size(size_of(n.given))));
      const host_number given(bytes, n.given);
      if (is_floating(n.given) ? !has_number(n.type, given.floating())
                               : !has_integer(n.type, given.integer(), n.given == element::u64))
        raise<number_error>(wording::number_does_not_fit(given.text(), name_of(n.type)));
    }
  }

 private:
  struct number {
    std::size_t argument;
    element given, type;
  };
  indexed_vector<number> numbers_{};
};

}} // namespace cleave::v0
