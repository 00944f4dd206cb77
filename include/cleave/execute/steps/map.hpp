// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/box_binder.hpp>
#include <cleave/execute/expression_of.hpp>
#include <cleave/execute/loop_binder.hpp>
#include <cleave/execute/steps/exchange.hpp>
#include <cleave/kernels/map.hpp>
#include <cleave/kernels/rolling_map.hpp>
#include <cleave/storage/memory.hpp>

// One pass over memory for a chain of elementwise operations, or for several that share operands.

namespace cleave { inline namespace v0 {

template <class = void>
class map_step final : public bound_step {
 public:
  [[gnu::cold]] map_step(const binder& b, const step& s, const map_functions& code)
      : step_(s), pass_(b.pass_of(s)), code_(code) {
    detail::loop_binder(b, s).bind_map(loops_);
    large_ = may_store_non_temporal(loops_, size_of(b.result(s).type.element));
    if (s.in.size() != 1 || s.ops != 1) return;
    const buffer &from = b.operand(s, 0), &to = b.result(s);
    copies_ = from.form == form::shard && to.form == form::shard && from.type == to.type && from.where == to.where;
  }
  void run(run_state& r) override {
    const operand_addresses operands(r, step_);
    const result_addresses results(r, pass_);
    // A result may have the memory of the argument that it is a copy of.
    if (copies_ && operands.from[0] == results.to[0]) return;
    loops_.non_temporal = large_ && !operands.has_any(r, pass_);
    run_map(loops_, operands.from, results.to, code_);
  }
  int row_dims() const override { return on_host && !loops_.tiled ? step_.loop.rank : 0; }
  void prepare_rows(run_state& r, const row_setup& setup) override {
    loops_.non_temporal = large_ && !setup.read_again && !operand_addresses(r, step_).has_any(r, pass_);
  }
  void run_rows(run_state& r, const row_block& b) const override {
    const std::int64_t row = loops_.outer.size() / b.rows;
    run_part_of_map(loops_, operand_addresses(r, step_).from, result_addresses(r, pass_).to, code_, b.first * row,
                    b.last * row);
  }
  const bound_loops& loops() const { return loops_; }

 private:
  const step& step_;
  indexed_span<const step> pass_;
  const map_functions& code_;
  bound_loops loops_{};
  /// Its results use non-temporal stores, unless one overwrites an operand, which is in the caches when it is written.
  bool large_ = false;
  bool copies_ = false;
};

/// A map in several boxes: it reads a shard and its halo, or the plan gives boxes expressions of their own. `code` has
/// the functions of each.
template <class = void>
class boxed_map_step final : public bound_step {
 public:
  [[gnu::cold]] boxed_map_step(const binder& b, const step& s, const map_functions& code)
      : step_(s), pass_(b.pass_of(s)), boxes_(detail::box_binder(b, s, &code).bind()), rolling_(boxes_, fitting(b, s)),
        awaited_(detail::awaited_by(b.program, b.number_of(s))), free_(rows_without_waiting(boxes_)),
        large_(may_store_non_temporal(boxes_)) {
    const program_view& p = b.program;
    for (const step& one : pass_) bytes_ = std::max(bytes_, b.bytes_between(b.result(one)));
    for (std::size_t begun : awaited_)
      for (std::size_t i = begun; i < end_of_joined(p.steps, begun); ++i)
        for (std::uint16_t n : p.steps[i].in) sent_.push_back({n, b.bytes_between(p.buffers[n])});
  }
  void run(run_state& r) override {
    const operand_addresses in(r, step_);
    const result_addresses results(r, pass_);
    if (large_) set_non_temporal(boxes_, !in.has_any(r, pass_));
    for (std::size_t k = 0; k < step_.in.size(); ++k)
      if (in.from[k] == results.to[0] && rolling_.rolls(k)) return roll(r, in, k);
    if (overwrites_what_travels(r)) await_messages(r);
    if (boxes_.zeroed > 0) zero_bytes(results.to[0], boxes_.zeroed);
    const bool travels = messages_travel(r);
    if (travels) run_map_boxes(boxes_, in.from, results.to, box_part::others);
    await_messages(r);
    run_map_boxes(boxes_, in.from, results.to, travels ? box_part::waiting : box_part::all);
  }
  bool may_replace(std::size_t buffer) const override {
    for (std::size_t k = 0; k < step_.in.size(); ++k)
      if (step_.in[k] == buffer && rolling_.may_replace(k)) return true;
    return false;
  }

  int row_dims() const override { return on_host && boxes_.row_bytes > 0 ? 1 : 0; }
  void prepare_rows(run_state& r, const row_setup&) override {
    take_addresses(boxes_, operand_addresses(r, step_).from);
  }
  // A step of the same band that comes before may wait for a halo that this one reads too, and reads farther.
  range free_rows(run_state& r, std::int64_t rows) const override {
    return r.in_flight.empty() ? range{0, rows} : free_;
  }
  void await_messages(run_state& r) override {
    for (std::size_t begun : awaited_) exchange_of(r, begun).finish(r);
  }
  void run_rows(run_state& r, const row_block& b) const override {
    run_rows_of_boxes(boxes_, result_addresses(r, pass_).to, b.first, b.last);
  }

 private:
  static exchange_step<>& exchange_of(const run_state& r, std::size_t begun) {
    return static_cast<exchange_step<>&>(*r.steps[begun]);
  }
  /// Whether a result has the memory of a message that must have left first.
  bool overwrites_what_travels(const run_state& r) const {
    for (const step& s : pass_)
      for (const sent_array& a : sent_)
        if (share_bytes(r.at[s.out], bytes_, r.at[a.buffer], a.bytes)) return true;
    return false;
  }
  bool messages_travel(const run_state& r) const {
    for (std::size_t begun : awaited_)
      if (exchange_of(r, begun).in_flight(r)) return true;
    return false;
  }
  /// The operands whose memory may become that of the result, a bit each. None if there are several results.
  static std::uint64_t fitting(const binder& b, const step& s) {
    std::uint64_t fits = 0;
    const buffer& to = b.result(s);
    if (b.pass_of(s).size() > 1) return 0;
    for (std::size_t k = 0; k < s.in.size() && to.form == form::shard; ++k) {
      const buffer& x = b.operand(s, k);
      if (x.form == form::shard && x.type == to.type && x.where == to.where) fits |= std::uint64_t{1} << k;
    }
    return fits;
  }
  /// The longest stretch of rows that needs no halo.
  static range rows_without_waiting(const map_boxes& boxes) {
    range longest{0, 0};
    std::int64_t begin = 0;
    const auto end_at = [&](std::int64_t end) {
      if (end - begin > longest.size()) longest = {begin, end};
    };
    for (const map_box& box : boxes.all) {
      if (!box.waits) continue;
      const map_segment& s = box.segments.front();
      end_at(s.first_row);
      begin = std::max(begin, s.first_row + s.rows);
    }
    end_at(boxes.rows);
    return longest;
  }
  /// The result overwrites an operand. Messages from that operand must have left.
  void roll(run_state& r, const operand_addresses& in, std::size_t replaced) {
    await_messages(r);
    take_addresses(boxes_, in.from);
    rolling_.run(boxes_, replaced, in.from, as<char>(r.at[step_.out]));
  }

  const step& step_;
  indexed_span<const step> pass_;
  map_boxes boxes_;
  rolling_map rolling_;
  indexed_vector<std::size_t> awaited_;
  /// The operands of the awaited exchanges.
  struct sent_array {
    std::uint16_t buffer;
    std::int64_t bytes;
  };
  indexed_vector<sent_array> sent_{};
  range free_;
  /// Its results use non-temporal stores, unless one overwrites an operand.
  bool large_;
  /// Of its largest result.
  std::int64_t bytes_ = 0;
};

namespace detail {

template <class Step>
owned<bound_step> bind_map(const binder& b, const step& s, const void* code) {
  return make_step<Step>(b, s, *as<map_functions>(code));
}

/// The functions of the expression of a constant `code` of a type.
template <class Code>
struct functions_from {
  template <int... K>
  static constexpr const map_functions& with(std::integer_sequence<int, K...>) {
    return map_functions_of<
        typename expression_from<Code>::type,
        expression_result<int{Code::code.root[K]}, element_of_word<Code::code.word[Code::code.root[K]]>>...>;
  }
  static constexpr const map_functions& all = with(std::make_integer_sequence<int, int{Code::code.root.size()}>{});
};

/// The functions of the expressions of a map.
template <class Plan, std::size_t I, class Expressions>
struct functions_of_map;
template <class Plan, std::size_t I, std::size_t... V>
struct functions_of_map<Plan, I, std::index_sequence<V...>> {
  static constexpr map_functions all[sizeof...(V)]{functions_from<code_of_step<Plan, I, V>>::all...};
};

} // namespace detail

template <>
struct step_code<step_kind::map> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    if constexpr (is_in_pass(Plan::frozen.steps[I])) {
      return {&detail::bind_idle<>};
    } else {
      constexpr const step& s = Plan::frozen.steps[I];
      using expressions = std::make_index_sequence<detail::expressions_of(Plan::frozen, s)>;
      return {&detail::bind_map<std::conditional_t<detail::is_boxed(Plan::frozen, s), boxed_map_step<>, map_step<>>>,
              detail::functions_of_map<Plan, I, expressions>::all};
    }
  }
};

}} // namespace cleave::v0
