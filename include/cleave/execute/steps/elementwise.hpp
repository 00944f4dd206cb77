// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/binder.hpp>
#include <cleave/execute/expression_of.hpp>
#include <cleave/execute/step_form.hpp>
#include <cleave/kernels/map.hpp>
#include <cleave/kernels/run_fold.hpp>

// Maps and folds: one pass over memory for a chain of elementwise operations.

namespace cleave {

/// The functions of a step's expression: on the host of its lines, on a device of all of it.
struct elementwise_code {
  void (*lines)(const line_block&) = nullptr;
  const fold_functions* fold = nullptr;
  void (*flat)(const bound_loops&, const void* const*, void*, void*) = nullptr;
};

namespace detail {

/// A number that is known when a kernel starts: a constant as its type stores it, or a product of extents.
inline double literal_of(const tape_op& t, const sizes& at) {
  if (role_of(t.code) == tape_role::constant) return rounded_to(t.type, t.scalar);
  double product = 1;
  for (dim_id d = 0; d < max_dims; ++d)
    if ((t.over & dim_bit(d)) != 0) product *= static_cast<double>(at[d]);
  return product;
}

/// The loops of a map or fold for the sizes of a binder.
class loop_binder {
 public:
  loop_binder(const binder& b, const step& s) : b_(b), s_(s) {
    for (std::size_t k = 0; k < s.in.size(); ++k) add(b.operand(s, k), k);
    add(b.result(s), s.in.size());
  }

  void bind(bound_loops& l) const {
    const inner_dim inner = inner_dim_of(s_, b_.program.buffers, b_.program.maps);
    const int kept = s_.loop.rank - s_.folded;
    l.walked = static_cast<int>(s_.in.size()) + indices() + 1;
    for (int i = 0; i < s_.loop.rank; ++i)
      if (i != inner.position) (i < kept ? l.outer : l.folded).append(loop_dim_at(i));
    const bool folded = s_.kind == step_kind::fold && (inner.folded || inner.position < 0);
    (folded ? l.folded : l.outer).append(inner.position >= 0 ? loop_dim_at(inner.position) : loop_dim{});
    l.outer.collapse(l.walked);
    l.folded.collapse(l.walked);
    if (s_.kind == step_kind::map) find_tile(l);
    l.inner = (folded ? l.folded : l.outer).back();
    if (s_.kind == step_kind::fold) {
      if (!folded) --l.outer.rank;
      cut_fold(l, folded);
    }
    bind_values(l);
  }

 private:
  /// A plan whose operands do not fit its loops would read wrong memory.
  void add(const buffer& x, std::size_t k) {
    address_[k] = b_.addresses(x);
    const shape extents = b_.local(x);
    for (int i = 0; i < s_.loop.rank; ++i) {
      const int position = x.type.find(s_.loop[i]);
      const std::int64_t wanted = b_.held_along(s_.loop, s_.space, i).size();
      if (position >= 0 && extents[position] != wanted)
        throw shape_error(wording::plan_inconsistent(name_of(s_.code), b_.program.dims[s_.loop[i]].name, wanted, extents[position]));
    }
  }
  /// A loop dim with the strides of loads, indices and result.
  loop_dim loop_dim_at(int i) const {
    loop_dim d;
    d.extent = b_.held_along(s_.loop, s_.space, i).size();
    int next = 0;
    for (std::size_t k = 0; k < s_.in.size(); ++k) d.stride[next++] = stride_along(b_.operand(s_, k), address_[k], s_.loop[i]);
    for (const tape_op& t : s_.tape)
      if (role_of(t.code) == tape_role::index) d.stride[next++] = t.arg == i ? 1 : 0;
    d.stride[next] = stride_along(b_.result(s_), address_[s_.in.size()], s_.loop[i]);
    return d;
  }
  /// Puts the dim along which a transposed operand is contiguous beside the inner one.
  void find_tile(bound_loops& l) const {
    const loop_dim& inner = l.outer.back();
    for (std::size_t k = 0; k < s_.in.size(); ++k) {
      if (inner.stride[k] < 2 || inner.extent < 2) continue;
      for (int d = 0; d + 1 < l.outer.rank; ++d)
        if (l.outer.dims[d].stride[k] == 1) {
          l.outer.rotate(d, l.outer.rank - 2);
          l.tiled = true;
          return;
        }
    }
  }
  int indices() const {
    int n = 0;
    for (const tape_op& t : s_.tape) n += role_of(t.code) == tape_role::index ? 1 : 0;
    return n;
  }
  void bind_values(bound_loops& l) const {
    int indices = 0, literals = 0;
    for (const tape_op& t : s_.tape) {
      if (role_of(t.code) == tape_role::index) l.index_base[indices++] = b_.held_along(s_.loop, s_.space, t.arg).begin;
      if (is_literal(role_of(t.code))) l.literals[literals++] = literal_of(t, b_.at);
    }
  }

  const binder& b_;
  const step& s_;
  addressing address_[max_operands + 1];
};

} // namespace detail

class elementwise_step final : public bound_step {
 public:
  elementwise_step(const binder& b, const step& s, const elementwise_code& code) : step_(s), code_(code) {
    detail::loop_binder(b, s).bind(loops_);
    if (s.kind == step_kind::fold) pieces_ = fold_scratch(loops_, size_of(accumulator_of(b.result(s).type.element)));
  }
  comm::scratch_bytes shared_bytes() const override { return {pieces_, 0}; }
  void run(run_state& r) override {
    const operand_addresses in(r, step_);
    void* const out = r.at[step_.out];
    if constexpr (!on_host) code_.flat(loops_, in.from, out, r.scratch.memory);
    else if (code_.fold != nullptr) run_fold(loops_, in.from, out, r.scratch.memory, *code_.fold);
    else run_map(loops_, in.from, out, code_.lines);
  }
  const bound_loops& loops() const { return loops_; }

 private:
  const step& step_;
  const elementwise_code& code_;
  bound_loops loops_{};
  std::int64_t pieces_ = 0;
};

namespace detail {

template <class Expression>
void map_flat_form(const bound_loops& l, const void* const* from, void* to, void*) {
  map_flat<Expression>(l, from, to);
}
template <class Expression>
constexpr elementwise_code code_of_map() {
  if constexpr (on_host) return {&map_lines<Expression>, nullptr, nullptr};
  else return {nullptr, nullptr, &map_flat_form<Expression>};
}
template <class Expression, reduction How, bool InnerFolded>
constexpr elementwise_code code_of_fold() {
  if constexpr (on_host) return {nullptr, &fold_functions_of<Expression, How, InnerFolded>, nullptr};
  else return {nullptr, nullptr, &fold_flat<Expression, How, InnerFolded>};
}
template <class Expression>
inline constexpr elementwise_code map_code = code_of_map<Expression>();
template <class Expression, reduction How, bool InnerFolded>
inline constexpr elementwise_code fold_code = code_of_fold<Expression, How, InnerFolded>();

inline std::unique_ptr<bound_step> bind_elementwise(const binder& b, const step& s, const elementwise_code* code) {
  return std::make_unique<elementwise_step>(b, s, *code);
}

} // namespace detail

template <>
struct step_code<step_kind::map> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    return {&detail::bind_elementwise, &detail::map_code<typename detail::expression_of<Plan, I>::type>};
  }
};
template <>
struct step_code<step_kind::fold> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    return {&detail::bind_elementwise, &detail::fold_code<typename detail::expression_of<Plan, I>::type,
                                                          Plan::frozen.steps[I].combine, detail::folds_inner(Plan::frozen, I)>};
  }
};

} // namespace cleave
