// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/grid_state.hpp>
#include <cleave/ops/print.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/program_view.hpp>
#include <cleave/simulate/scalar.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/storage/inspect.hpp>

#include <cstdio>
#include <string>

namespace cleave::detail {

/// ` at main.cpp:31`, or nothing where the line is not known.
inline std::string place_of(const step& s) {
  return s.where.line == 0 ? std::string() : " at " + std::string(s.where.name()) + ":" + std::to_string(s.where.line);
}

/// `gradient of sum`: the operation of the user that a step is for.
inline std::string operation_of(const step& s) {
  return s.code == op::reduce ? (s.gradient ? "gradient of " : "") + std::string(name_of(s.combine)) : origin_name(s.code, s.gradient);
}

/// A plan as checked mode compares and names it.
class plan_identity {
 public:
  explicit plan_identity(const program_view& p) {
    for (const buffer& b : p.buffers) {
      mix(hash, static_cast<std::uint64_t>(b.type.element) + 64u * static_cast<std::uint64_t>(b.role) + 4096u * b.index);
      for (int i = 0; i < b.type.rank; ++i) mix(hash, b.type[i]);
      mix(hash, b.where.word);
    }
    for (const step& s : p.steps) {
      mix(hash, static_cast<std::uint64_t>(s.kind) + 64u * static_cast<std::uint64_t>(s.move) + 4096u * s.axes + (std::uint64_t{s.out} << 32));
      for (std::uint16_t in : s.in) mix(hash, in);
      for (const tape_op& t : s.tape) mix(hash, static_cast<std::uint64_t>(t.code) + 1024u * static_cast<std::uint64_t>(t.type));
      if (name.empty() || (named_without_line_ && s.where.line != 0)) {
        name = operation_of(s) + place_of(s);
        named_without_line_ = s.where.line == 0;
      }
    }
    if (name.empty()) name = "a copy of arguments";
  }
  static std::uint64_t hash_of(std::span<const std::int64_t> extents) {
    std::uint64_t h = 1;
    for (std::int64_t n : extents) mix(h, static_cast<std::uint64_t>(n));
    return h;
  }

  std::uint64_t hash = 0xCBF29CE484222325u;
  std::string name{};

 private:
  static void mix(std::uint64_t& h, std::uint64_t x) { h = (h ^ x) * 0x100000001B3u ^ h >> 29; }
  bool named_without_line_ = true;
};

/// What checked mode does around the calls and steps of one bound plan. Everything that it throws is thrown on all devices, and
/// whatever it waits for it waits for in vain no longer than the time limit.
class call_checks {
 public:
  /// The address of each buffer.
  using addresses = std::vector<void*>;

  call_checks(grid_state& grid, const sizes& at, const program_view& p) : grid_(grid), at_(at), p_(p) {}

  /// Before a call: the same replicas everywhere, and no NaN among the arguments.
  void before_call(const addresses& address) {
    if (grid_.checked().calls && grid_.agreement().size() > 1) compare_replicas(address);
    if (grid_.checked().nans) look_for_nan_in_arguments(address);
  }
  /// Before a step that communicates: everybody is there.
  void before_step(std::size_t i, const addresses& address) {
    if (grid_.checked().calls && is_collective(p_.steps[i])) meet(i);
    if (grid_.checked().nans) keep_what_is_overwritten(i, address);
  }
  /// After a step: no NaN in what it wrote.
  void after_step(std::size_t i, const addresses& address) {
    if (grid_.checked().nans) look_for_nan(i, address);
  }
  /// A number by which a loop goes on or ends.
  std::int64_t agreed(std::int64_t number) {
    const std::vector<unsigned char>& all = exchange(&number, sizeof number);
    for (int r = 0; r < grid_.agreement().size(); ++r)
      if (const auto other = item<std::int64_t>(all, r); other != number) throw agreement_error(wording::iterations_differ(std::min(r, me()), std::max(r, me())));
    return number;
  }

 private:
  /// A sentence of a rank that found something, or nothing.
  struct report {
    char text[504] = "";
  };

  int me() const { return grid_.agreement().rank(); }
  template <class T>
  static T item(const std::vector<unsigned char>& all, int rank) {
    T one;
    std::memcpy(&one, all.data() + sizeof(T) * static_cast<std::size_t>(rank), sizeof(T));
    return one;
  }
  const std::vector<unsigned char>& exchange(const void* mine, std::size_t bytes, std::string_view what = {}) {
    return grid_.timed([&]() -> const std::vector<unsigned char>& {
      return grid_.agreement().exchange(mine, bytes, grid_.checked().time_limit, what.empty() ? std::string_view(grid_.call_name()) : what);
    });
  }

  // Names for messages.
  std::string type_name(const buffer& b) const { return to_string(b.type, b.where, p_.dims, grid_.mesh()); }
  /// Global indices of an element of a buffer, by its number in the shard.
  std::string index_name(const buffer& b, std::int64_t flat) const {
    const box all = indices_of(b, p_.maps, at_, grid_.here());
    std::string text;
    for (int i = b.type.rank; i-- > 0; flat /= std::max<std::int64_t>(all[i].size(), 1)) {
      const std::string one = std::to_string(all[i].begin + flat % std::max<std::int64_t>(all[i].size(), 1));
      text = text.empty() ? one : one + ", " + text;
    }
    return "[" + text + "]";
  }

  // The same replicas. Of what lies in one word the word itself, so that a message can show it.
  std::int64_t elements_of(const buffer& b) const { return indices_of(b, p_.maps, at_, grid_.here()).elements(); }
  bool is_word(const buffer& b) const { return b.type.rank == 0 && size_of(b.type.element) <= 8; }
  std::uint64_t word_or_hash(const buffer& b, const void* data) const {
    if (!is_word(b)) return hash_elements(data, elements_of(b), b.type.element);
    std::uint64_t word = 0;
    copy_bytes<Kokkos::HostSpace, memory_space>(&word, data, size_of(b.type.element));
    return word;
  }
  static std::string shown(element e, std::uint64_t word) {
    std::string text;
    with_element(e, [&](auto value) {
      using T = decltype(value);
      std::memcpy(static_cast<void*>(&value), &word, std::min(sizeof(T), sizeof word));
      if constexpr (std::is_integral_v<T>) text = std::to_string(value);
      else if constexpr (!is_complex(element_of<T>)) {
        char digits[40];
        std::snprintf(digits, sizeof digits, "%.17g", static_cast<double>(value));
        text = digits;
      }
    });
    return text;
  }
  void compare_replicas(const addresses& address) {
    wait_for_kernels();
    std::vector<std::size_t> which;
    std::vector<std::uint64_t> mine;
    for (std::size_t b = 0; b < p_.buffers.size(); ++b)
      if (p_.buffers[b].role == role::input) {
        which.push_back(b);
        mine.push_back(word_or_hash(p_.buffers[b], address[b]));
      }
    if (mine.empty()) return;
    const std::vector<unsigned char> all = exchange(mine.data(), mine.size() * sizeof(std::uint64_t));
    // Everybody compares everything, so that all throw alike.
    std::vector<std::uint64_t> theirs(all.size() / sizeof(std::uint64_t));
    std::memcpy(theirs.data(), all.data(), all.size());
    const auto by = [&](int r, std::size_t k) { return theirs[static_cast<std::size_t>(r) * mine.size() + k]; };
    for (std::size_t k = 0; k < which.size(); ++k)
      for (int r = 1; r < grid_.agreement().size(); ++r) {
        const buffer& b = p_.buffers[which[k]];
        const int first = first_with_the_same(b.where.used(), r);
        if (by(first, k) == by(r, k)) continue;
        const std::string values = is_word(b) ? ": " + shown(b.type.element, by(first, k)) + " and " + shown(b.type.element, by(r, k)) : std::string();
        throw agreement_error(wording::replicas_differ(b.index, type_name(b), first, r, values));
      }
  }
  /// The lowest device that holds what device `r` holds, of a tensor that some axes shard or leave partial.
  int first_with_the_same(axis_set used, int r) const {
    coordinates c = coordinates_of(r, grid_.sizes());
    for (int a = 0; a < max_axes; ++a)
      if ((used >> a & 1) == 0) c[static_cast<std::size_t>(a)] = 0;
    return static_cast<int>(device_of(c, grid_.sizes()));
  }
  void meet(std::size_t i) {
    const auto mine = static_cast<std::int64_t>(i);
    const step& s = p_.steps[i];
    exchange(&mine, sizeof mine, std::string(name_of(s.move)) + " of " + grid_.call_name() + ", for " + operation_of(s) + place_of(s));
  }

  // NaN.
  void tell(const std::string& found) {
    report mine;
    std::snprintf(mine.text, sizeof mine.text, "%s", found.c_str());
    const std::vector<unsigned char>& all = exchange(&mine, sizeof mine);
    for (int r = 0; r < grid_.agreement().size(); ++r)
      if (const auto other = item<report>(all, r); other.text[0] != 0) throw nan_error(other.text);
  }
  void look_for_nan_in_arguments(const addresses& address) {
    wait_for_kernels();
    std::string found;
    for (std::size_t b = 0; b < p_.buffers.size() && found.empty(); ++b) {
      if (p_.buffers[b].role != role::input) continue;
      const std::int64_t flat = first_nan(address[b], elements_of(p_.buffers[b]), p_.buffers[b].type.element);
      if (flat >= 0) found = wording::argument_has_nan(p_.buffers[b].index, type_name(p_.buffers[b]), index_name(p_.buffers[b], flat), me());
    }
    tell(found);
  }
  bool runs_tape(const step& s) const { return s.kind == step_kind::map || s.kind == step_kind::fold; }
  void keep_what_is_overwritten(std::size_t i, const addresses& address) {
    kept_.clear();
    const step& s = p_.steps[i];
    if (!runs_tape(s)) return;
    wait_for_kernels();
    for (std::uint16_t b : s.in) {
      if (address[b] != address[s.out] || p_.buffers[b].form == form::view) continue;
      const std::int64_t bytes = elements_of(p_.buffers[b]) * size_of(p_.buffers[b].type.element);
      kept_.push_back({b, allocate(bytes)});
      copy_bytes(kept_.back().memory.get(), address[b], bytes);
    }
  }
  void look_for_nan(std::size_t i, const addresses& address) {
    const step& s = p_.steps[i];
    // What an exchange brings is there when it is waited for.
    const std::size_t wrote = s.kind == step_kind::wait ? s.begun : i;
    if ((!writes(s) && s.kind != step_kind::wait) || s.in_flight) return;
    const buffer& out = p_.buffers[p_.steps[wrote].out];
    wait_for_kernels();
    const std::int64_t flat = out.form == form::view ? -1 : first_nan(address[p_.steps[wrote].out], elements_of(out), out.type.element);
    if (flat < 0) return tell({});
    std::string op = operation_of(s), at = place_of(s);
    if (runs_tape(s)) name_the_op(s, flat, address, op, at);
    tell(wording::made_nan(op, at, type_name(out), index_name(out, flat), me()));
  }

  /// Of a fused chain: which of its operations made the NaN, found by computing that element once more on the host.
  void name_the_op(const step& s, std::int64_t flat, const addresses& address, std::string& op, std::string& at) const {
    for (const tape_op& t : s.tape)
      if (is_complex(t.type) || t.user != nullptr) return;
    const int kept = s.loop.rank - s.folded;
    const box loop = box_along(s);
    std::array<std::int64_t, max_rank> index{};
    for (int d = kept; d-- > 0; flat /= loop[d].size()) index[static_cast<std::size_t>(d)] = flat % loop[d].size();
    std::int64_t folded = 1;
    for (int d = kept; d < s.loop.rank; ++d) folded *= loop[d].size();
    for (std::int64_t f = 0; f < folded; ++f) {
      std::int64_t rest = f;
      for (int d = s.loop.rank; d-- > kept; rest /= loop[d].size()) index[static_cast<std::size_t>(d)] = rest % loop[d].size();
      if (const int t = first_nan_of_tape(s, loop, index, address); t >= 0) {
        const tape_op& made = s.tape[static_cast<std::size_t>(t)];
        op = name_of(made.code);
        if (made.line != 0) at = " at " + std::string(s.where.name()) + ":" + std::to_string(made.line);
        return;
      }
    }
  }
  box box_along(const step& s) const {
    box b;
    b.rank = s.loop.rank;
    for (int d = 0; d < s.loop.rank; ++d) b.along[static_cast<std::size_t>(d)] = held(at_[s.loop[d]], s.space[d], grid_.here(), grid_.sizes());
    return b;
  }
  int first_nan_of_tape(const step& s, const box& loop, const std::array<std::int64_t, max_rank>& index, const addresses& address) const {
    std::array<double, max_tape> value{};
    for (std::size_t t = 0; t < s.tape.size(); ++t) {
      const tape_op& o = s.tape[t];
      const auto in = [&](std::size_t k) { return value[o.in[k]]; };
      switch (o.code) {
        case op::input: value[t] = element_at(s, s.in[o.arg], index, address); break;
        case op::iota: value[t] = simulation::stored(o.type, static_cast<double>(loop[o.arg].begin + index[o.arg])); break;
        case op::constant: value[t] = simulation::stored(o.type, o.scalar); break;
        case op::count: value[t] = count(o.over); break;
        default: value[t] = simulation::applied(o.code, s.tape[o.in[typed_operand(o.code)]].type, o.type, in(0), in(1), in(2));
      }
      if (value[t] != value[t] && o.code != op::input) return static_cast<int>(t);
    }
    return -1;
  }
  double count(dim_set over) const {
    double n = 1;
    for (std::size_t d = 0; d < p_.dims.size(); ++d)
      if ((over >> d & 1) != 0) n *= static_cast<double>(at_.dims[d]);
    return n;
  }
  double element_at(const step& s, std::size_t b, const std::array<std::int64_t, max_rank>& index, const addresses& address) const {
    const buffer& from = p_.buffers[b];
    const addressing where = addressing_of(from, p_.buffers, p_.maps, at_, grid_.here());
    std::int64_t offset = 0;
    for (int d = 0; d < s.loop.rank; ++d)
      if (const int i = from.type.find(s.loop[d]); i >= 0) offset += index[static_cast<std::size_t>(d)] * where.stride[static_cast<std::size_t>(i)];
    const char* data = static_cast<const char*>(address[b]);
    for (const kept_operand& k : kept_)
      if (k.buffer == b) data = static_cast<const char*>(k.memory.get());
    double number = 0;
    with_element(from.type.element, [&](auto value) {
      using T = decltype(value);
      if constexpr (!is_complex(element_of<T>)) {
        copy_bytes<Kokkos::HostSpace, memory_space>(&value, data + offset * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
        number = static_cast<double>(value);
      }
    });
    return number;
  }

  struct kept_operand {
    std::size_t buffer;
    std::shared_ptr<void> memory;
  };

  grid_state& grid_;
  sizes at_;
  program_view p_;
  std::vector<kept_operand> kept_{};
};

} // namespace cleave::detail
