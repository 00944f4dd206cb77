// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/buffers.hpp>
#include <cleave/program/program_view.hpp>
#include <cleave/rules/annotation.hpp>

#include <algorithm>
#include <utility>

namespace cleave { inline namespace v0 { namespace lowering {

/// The most arrays that a pass with several results reads and writes: a pass with 12 operands and one result is faster
/// than two passes, and one with 16 operands is slower (most_arrays).
inline constexpr std::size_t most_arrays_in_pass = most_arrays + 2;
/// The most results and arrays of a pass on the way: values that are read by later maps alone are not stored once these
/// are part of the pass.
inline constexpr std::size_t most_results_on_the_way = 24, most_arrays_on_the_way = 48;
/// How many steps after a map are looked at.
inline constexpr std::size_t most_steps_ahead = 48;

/// Joins maps over the same elements that share operands, so that one pass reads these once and computes all of them. A
/// map that reads the result of another one takes the value as it is computed; a value that no other step reads is not
/// stored at all. Steps between them that depend on the first come after the pass, others before it. A result may
/// overwrite an operand of the pass if all of them read it element by element, so that the next value of a carried one
/// needs no memory of its own.
class pass_joining {
 public:
  constexpr explicit pass_joining(emitted& e) : e_(e), steps_(e.made.steps) {}

  constexpr void run() {
    count_uses();
    bool any = false;
    for (std::size_t i = 0; i + 1 < steps_.size();) {
      pass_ = {i, i + pass_of(steps_, i).size()};
      if (!may_take_part(i)) {
        i = pass_.end;
        continue;
      }
      while (grow_within_limits()) any = true;
      // Steps that were brought before the pass are next.
      i = pass_.first > i ? i : pass_.end;
    }
    if (any) compact();
  }

 private:
  /// The steps of a pass.
  struct stretch {
    std::size_t first = 0, end = 0;
  };

  constexpr std::size_t memory_of(std::uint16_t b) const { return e_.memory.at[b]; }
  constexpr const buffer& at(std::uint16_t b) const { return e_.made.buffers.at[b]; }
  constexpr const step& last() const { return steps_.at[pass_.end - 1]; }

  constexpr void count_uses() {
    reads_.assign(e_.storages.size(), 0);
    writes_.assign(e_.storages.size(), 0);
    for (const step& s : steps_) {
      for (std::size_t k = 0; k < s.in.count; ++k) ++reads_.at[e_.memory.at[s.in.items[k]]];
      if (cleave::writes(s)) ++writes_.at[e_.memory.at[s.out]];
    }
    arrays_.reserve(e_.made.buffers.size());
    for (const buffer& x : e_.made.buffers)
      arrays_.push_back(x.type.rank > 0 && !(x.form == form::view && at(x.of).form == form::halo) ? 1 : 0);
  }

  /// Whether a step is a map to a shard that computes something, or a pass of such. Other expressions with indices than
  /// those that compare them with numbers stay alone.
  constexpr bool may_take_part(std::size_t i) const {
    const step& s = steps_.at[i];
    if (s.kind != step_kind::map || s.keeps || s.loop.rank == 0 || s.in.empty()) return false;
    const buffer& out = at(s.out);
    if (out.form != form::shard || !same_order(out.type, s.loop)) return false;
    return !copies(s) && (indices_of(s) == 0 || compares_integers(e_.made.fused_ops.data() + s.first_op, s.ops));
  }
  /// Whether the integers of an expression are indices and numbers: none is loaded or converted.
  constexpr bool compares_integers(const fused_op* ops, std::size_t count) const {
    for (std::size_t t = 0; t < count; ++t) {
      const fused_op& o = ops[t];
      const bool integer = is_integer(o.type);
      if (is_of_user(o.code) || (integer && o.code == op::input)) return false;
      for (int k = 0; k < arity_of(o.code); ++k)
        if (is_integer(ops[o.in[as_size(k)]].type) ? !integer && o.type != element::boolean : integer) return false;
    }
    return true;
  }
  constexpr bool copies(const step& s) const {
    const fused_op* const ops = e_.made.fused_ops.data() + s.first_op;
    return s.kind == step_kind::map && (s.ops < 2 || (s.ops == 2 && ops[1].code == op::identity));
  }

  /// Whether two steps must keep their order: one writes memory that the other one touches.
  constexpr bool conflict(const step& a, const stretch& others) const {
    for (std::size_t k = others.first; k < others.end; ++k)
      if (overwrites(a, steps_.at[k]) || overwrites(steps_.at[k], a)) return true;
    return false;
  }
  constexpr bool overwrites(const step& a, const step& b) const {
    return touches(e_, b, e_.memory.at[a.out]) && writes(a);
  }

  /// Joins maps or passes until the pass is within the limits again; false if there are no such.
  constexpr bool grow_within_limits() {
    limited_ = false;
    if (grow(false)) return true;
    if (!limited_) return false;
    const stretch pass = pass_;
    indexed_vector<step> steps = steps_;
    indexed_vector<std::size_t> reads = reads_, writes = writes_;
    const std::size_t gone = gone_.size(), operations = e_.made.fused_ops.size();
    while (grow(true))
      if (is_within_limits()) return true;
    pass_ = pass;
    steps_ = std::move(steps);
    reads_ = std::move(reads);
    writes_ = std::move(writes);
    gone_.resize(gone);
    e_.made.fused_ops.resize(operations);
    return false;
  }
  constexpr bool is_within_limits() const {
    const std::size_t results = pass_.end - pass_.first;
    if (results > max_results || arrays_of(last()) + results > most_arrays_in_pass) return false;
    for (std::size_t m = pass_.first; m < pass_.end; ++m)
      if (at(steps_.at[m].out).type.element != at(last().out).type.element) return false;
    return true;
  }

  /// Joins the next map or pass that fits, or that does when limits do not count; false if there is none.
  constexpr bool grow(bool beyond_limits) {
    const std::size_t count = steps_.size(), ahead = pass_.end + most_steps_ahead,
                      limit = ahead < count ? ahead : count;
    const step* const steps = steps_.data();
    for (std::size_t j = pass_.end, end = j; j < limit; j = end) {
      end = j + 1;
      while (end < count && steps[end].joined) ++end;
      // Products and the like would hold the memory of results that are computed earlier.
      const step_kind kind = steps[j].kind;
      if (kind == step_kind::fold || kind == step_kind::exchange || kind == step_kind::move) continue;
      if (kind != step_kind::map) return false;
      const stretch next{j, end};
      // Constant evaluation pays for each call: most maps have another loop.
      const step &s = steps[j], &head = steps[pass_.first];
      if (s.in_loop != head.in_loop || s.loop.rank != head.loop.rank || s.loop.dims != head.loop.dims) continue;
      const bool joins = fits(next, beyond_limits) && may_take_part(j);
      const std::size_t m = joins ? none : copied_by(steps[j]);
      if ((!joins && m == none) || !comes_free_of_others(next)) continue;
      const std::size_t number = m - pass_.first;
      bring(next);
      if (joins) {
        add_operations(end - j);
        drop_passed_on();
      } else {
        write_to_copy(pass_.first + number);
      }
      return true;
    }
    return false;
  }
  /// Finds the steps before others that must stay after the pass; false if they must come before these. Steps that are
  /// no passes keep their order.
  constexpr bool comes_free_of_others(const stretch& next) {
    after_.clear();
    bool keeps_order = false;
    for (std::size_t j = pass_.end, end = j; j < next.first; j = end) {
      end = j + 1;
      while (end < next.first && steps_.at[end].joined) ++end;
      const stretch some{j, end};
      const step_kind kind = steps_.at[j].kind;
      const bool is_pass = kind == step_kind::map || kind == step_kind::fold;
      bool stays = (!is_pass && keeps_order) || !comes_free(some);
      for (std::size_t m = pass_.first; m < pass_.end && !stays; ++m) stays = conflict(steps_.at[m], some);
      for (std::size_t k = j; k < end && stays; ++k) after_.push_back(k);
      keeps_order = keeps_order || (stays && !is_pass);
    }
    return comes_free(next);
  }
  /// Whether no step that stays after the pass must come before others.
  constexpr bool comes_free(const stretch& next) const {
    for (std::size_t k : after_)
      if (conflict(steps_.at[k], next)) return false;
    return true;
  }

  /// Whether a map, or a pass, can run in the pass and shares enough with it.
  constexpr bool fits(const stretch& next, bool beyond_limits) {
    const step &head = steps_.at[pass_.first], &s = steps_.at[next.first];
    if (s.space != head.space || !same_order(s.loop, head.loop)) return false;
    // The results of the pass that the others read, and how many of them no other step does.
    std::size_t shared = 0, passed_on = 0;
    for (std::size_t m = pass_.first; m < pass_.end; ++m) {
      const std::uint16_t made = steps_.at[m].out;
      const std::size_t memory = memory_of(made);
      for (std::size_t k = next.first; k < next.end; ++k)
        if (memory == memory_of(steps_.at[k].out)) return false;
      for (std::uint16_t b : s.in) {
        if (memory_of(b) != memory) continue;
        if (b != made) return false;
        ++shared;
        passed_on += is_passed_on(memory) ? 1u : 0u;
      }
      if (!overwrites_in_place(s, steps_.at[m])) return false;
    }
    for (std::size_t k = next.first; k < next.end; ++k)
      if (!overwrites_in_place(s, steps_.at[k]) || !overwrites_in_place(head, steps_.at[k])) return false;
    std::size_t loads = head.in.count, arrays = arrays_of(head);
    for (std::size_t k = 0; k < s.in.count; ++k) {
      const std::uint16_t b = s.in.items[k];
      if (is_made(b)) continue;
      const bool known = head.in.contains(b);
      if (!known) ++loads;
      if (arrays_.at[b] == 0) continue;
      if (!known && !touches_array(head, head.in.count, memory_of(b))) ++arrays;
      else if (at(b).type.set() == s.loop.set()) ++shared;
    }
    const std::size_t results = pass_.end - pass_.first + next.end - next.first - passed_on;
    if (shared == 0 || loads > max_operands || results > most_results_on_the_way ||
        arrays + results > most_arrays_on_the_way)
      return false;
    const step &end = steps_.at[pass_.end - 1], &next_end = steps_.at[next.end - 1];
    if (std::size_t{end.ops} + next_end.ops >= 0xFFFF || indices_of(end) + indices_of(next_end) > max_indices)
      return false;
    const bool within = results <= max_results && arrays + results <= most_arrays_in_pass &&
                        at(s.out).type.element == at(head.out).type.element;
    limited_ = limited_ || !within;
    return within || beyond_limits;
  }
  constexpr std::size_t indices_of(const step& s) const {
    const fused_op* const ops = e_.made.fused_ops.data() + s.first_op;
    std::size_t n = 0;
    for (std::size_t t = 0; t < s.ops; ++t) n += rules::is_index(ops[t].code) ? 1u : 0u;
    return n;
  }
  /// Whether a value in memory is needed for the next map alone.
  constexpr bool is_passed_on(std::size_t memory) const {
    return reads_.at[memory] == 1 && writes_.at[memory] == 1 && e_.storages.at[memory].role == role::workspace;
  }
  /// Whether a buffer is a result of the pass.
  constexpr bool is_made(std::uint16_t b) const {
    for (std::size_t m = pass_.first; m < pass_.end; ++m)
      if (steps_.at[m].out == b) return true;
    return false;
  }
  /// Whether one of the first `count` operands is in an array.
  constexpr bool touches_array(const step& s, std::size_t count, std::size_t memory) const {
    for (std::size_t k = 0; k < count; ++k)
      if (arrays_.at[s.in.items[k]] != 0 && e_.memory.at[s.in.items[k]] == memory) return true;
    return false;
  }
  /// Different arrays among the operands of a step.
  constexpr std::size_t arrays_of(const step& s) const {
    std::size_t n = 0;
    for (std::size_t k = 0; k < s.in.count; ++k)
      n += arrays_.at[s.in.items[k]] != 0 && !touches_array(s, k, memory_of(s.in.items[k])) ? 1u : 0u;
    return n;
  }
  /// Whether the operands of a step that have the memory of the result of another one are read element by element.
  constexpr bool overwrites_in_place(const step& reader, const step& writer) const {
    // Constant evaluation pays for each call, and this is asked of all pairs of maps.
    const buffer *const all = e_.made.buffers.data(), &out = all[writer.out];
    const std::size_t *const home = e_.memory.data(), memory = home[writer.out];
    for (std::size_t k = 0; k < reader.in.count; ++k) {
      const std::uint16_t b = reader.in.items[k];
      const buffer& x = all[b];
      if (x.form == form::view && home[x.of] == memory) return false;
      if (x.form == form::view && all[x.of].form == form::halo && home[all[x.of].of] == memory) return false;
      if (b == writer.out || home[b] != memory) continue;
      if (x.form != form::shard || !same_order(x.type, out.type) || x.type.element != out.type.element ||
          x.where != out.where)
        return false;
    }
    return true;
  }

  /// The map of the pass whose result a step copies, if that may be written to the memory of the copy instead. This is
  /// that of a carried value, for example, which the pass reads element by element. Else none.
  constexpr std::size_t copied_by(const step& s) const {
    if (!copies(s) || s.in.count != 1 || s.in_loop != last().in_loop) return none;
    const buffer& to = at(s.out);
    for (std::size_t m = pass_.first; m < pass_.end; ++m) {
      const buffer& from = at(s.in.items[0]);
      if (steps_.at[m].out != s.in.items[0] || !is_passed_on(memory_of(s.in.items[0])) || to.form != form::shard ||
          from.type != to.type || from.where != to.where || !overwrites_in_place(last(), s))
        continue;
      bool alone = true;
      for (std::size_t k = pass_.first; k < pass_.end; ++k)
        alone = alone && memory_of(steps_.at[k].out) != memory_of(s.out);
      if (alone) return m;
    }
    return none;
  }
  /// Lets map `m` write to the copy of its result, which is the step after the pass.
  constexpr void write_to_copy(std::size_t m) {
    const std::uint16_t copy = steps_.at[pass_.end].out, made = std::exchange(steps_.at[m].out, copy);
    reads_[memory_of(made)] = writes_[memory_of(made)] = 0;
    gone_.push_back({made, copy});
    steps_.erase(steps_.begin() + pass_.end);
  }

  /// Brings steps to the end of the pass. Steps between them that need not stay after the pass come before it, if they
  /// must.
  constexpr void bring(const stretch& next) {
    step* const steps = steps_.data();
    before_.clear();
    before_.reserve(most_steps_ahead);
    bool depends = false;
    for (std::size_t k = pass_.end, a = 0; k < next.first; ++k) {
      if (a < after_.size() && after_[a] == k) {
        ++a;
        continue;
      }
      before_.push_back(k);
      depends = depends || conflict(steps[k], next);
    }
    for (std::size_t i = 0; i < before_.size() && depends; ++i) {
      bring_one(before_[i], pass_.first++);
      ++pass_.end;
    }
    for (std::size_t k = next.first, to = pass_.end; k < next.end; ++k, ++to) bring_one(k, to);
  }
  /// Moves a step before others. Constant evaluation pays for each copy of a step: std::rotate makes three of each.
  constexpr void bring_one(std::size_t from, std::size_t to) {
    step* const steps = steps_.data();
    if (from == to) return;
    const step moved = steps[from];
    for (std::size_t k = from; k > to; --k) steps[k] = steps[k - 1];
    steps[to] = moved;
  }

  /// Lets `count` maps after the pass take part in it. Appends their operations to those of the pass, but for those
  /// that are there already. Each result is an operation of its own.
  constexpr void add_operations(std::size_t count) {
    indexed_vector<fused_op>& all = e_.made.fused_ops;
    step& head = steps_.at[pass_.first];
    step* const next = steps_.data() + pass_.end;
    const std::size_t taken = last().ops, from = next->first_op, ops = next[count - 1].ops;
    if (head.first_op + taken != all.size()) {
      const std::size_t old = head.first_op;
      head.first_op = narrowed(all.size());
      for (std::size_t t = 0; t < taken; ++t) all.push_back(fused_op{all[old + t]});
    }
    const std::size_t begin = head.first_op;
    const auto operands = next->in;
    for (std::uint16_t b : operands) {
      if (is_made(b) || head.in.contains(b)) --reads_[memory_of(b)];
      else head.in.push_back(b);
    }
    entry_.assign(ops, 0);
    for (std::size_t t = 0, k = 0; t < ops; ++t) {
      const bool is_result = t + 1 == next[k].ops;
      fused_op o = all[from + t];
      std::size_t made = none;
      if (o.code == op::input) {
        const std::uint16_t b = operands[o.arg];
        for (std::size_t m = pass_.first; m < pass_.end; ++m)
          if (steps_.at[m].out == b) made = steps_.at[m].ops - 1u;
        if (made == none)
          for (o.arg = 0; head.in.items[o.arg] != b;) ++o.arg;
      } else {
        const std::size_t reads = is_of_user(o.code) ? o.in.size() : as_size(arity_of(o.code));
        for (std::size_t i = 0; i < reads; ++i) o.in[i] = entry_[o.in[i]];
      }
      if (made == none && !is_result && !is_of_user(o.code)) made = find(o, begin);
      if (made == none) {
        made = all.size() - begin;
        all.push_back(o);
      }
      entry_[t] = narrowed(made);
      if (is_result) next[k++].ops = narrowed(made + 1);
    }
    pass_.end += count;
    for (std::size_t m = pass_.first; m < pass_.end; ++m) {
      step& s = steps_.at[m];
      s.first_op = head.first_op;
      s.in = head.in;
      s.joined = m != pass_.first;
    }
  }
  /// The entry of the pass that computes the same; none if there is none yet.
  constexpr std::size_t find(const fused_op& o, std::size_t begin) const {
    const fused_op* const all = e_.made.fused_ops.data() + begin;
    const std::size_t count = e_.made.fused_ops.size() - begin;
    // Constant evaluation pays for each call: most entries differ in these.
    for (std::size_t t = 0; t < count; ++t)
      if (all[t].code == o.code && all[t].in.items[0] == o.in.items[0] && all[t].arg == o.arg && all[t] == o) return t;
    return none;
  }

  /// Results that no other step reads are not stored.
  constexpr void drop_passed_on() {
    for (std::size_t m = pass_.first; m + 1 < pass_.end;) {
      const std::uint16_t out = steps_.at[m].out;
      const std::size_t memory = memory_of(out);
      if (reads_[memory] != 0 || writes_[memory] != 1 || e_.storages[memory].role != role::workspace) {
        ++m;
        continue;
      }
      writes_[memory] = 0;
      gone_.push_back({out, last().out});
      steps_.erase(steps_.begin() + m);
      --pass_.end;
      steps_.at[pass_.first].joined = false;
    }
  }

  /// Leaves out the operations of maps that were joined, and the memory of values that are not stored.
  constexpr void compact() {
    for (std::size_t k = gone_.size(); k-- > 0;) e_.memory[gone_[k].buffer] = memory_of(gone_[k].instead);
    indexed_vector<fused_op> kept;
    kept.reserve(e_.made.fused_ops.size());
    for (std::size_t i = 0, end = 0; i < steps_.size(); i = end) {
      end = i + pass_of(steps_, i).size();
      const std::size_t from = steps_[i].first_op, count = steps_[end - 1].ops, to = kept.size();
      const fused_op* const all = e_.made.fused_ops.data() + from;
      kept.append(all, all + count);
      for (std::size_t k = i; k < end; ++k) steps_[k].first_op = narrowed(to);
    }
    e_.made.fused_ops = std::move(kept);
  }

  emitted& e_;
  indexed_vector<step>& steps_;
  stretch pass_{};
  /// Whether a map does not fit for the limits alone.
  bool limited_ = false;
  /// Of the steps between the pass and a later one: those that stay after the pass, and the others.
  indexed_vector<std::size_t> after_{}, before_{};
  /// By memory: how many steps read it, of which a pass is one, and how many write it.
  indexed_vector<std::size_t> reads_{}, writes_{};
  /// By buffer: whether it counts as an array among operands. A halo counts as its shard, which is an operand too.
  indexed_vector<std::uint8_t> arrays_{};
  /// Buffers that no step writes any more; they name the memory of another one.
  struct gone_buffer {
    std::uint16_t buffer, instead;
  };
  indexed_vector<gone_buffer> gone_{};
  /// By operation of a map: the entry of the pass.
  indexed_vector<std::uint16_t> entry_{};
};

}}} // namespace cleave::v0::lowering
