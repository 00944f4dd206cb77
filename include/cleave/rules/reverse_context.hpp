// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/rules/loop.hpp>

namespace cleave { inline namespace v0 { namespace detail {

/// A graph while its backward pass is recorded: the values that adjoints read, and the places where they add
/// cotangents. Only the nodes of the forward pass have a place here; nodes recorded meanwhile come after them.
///
/// A cotangent may lack dims of its value, along which it is then constant: sums are broadcast when they meet another
/// value, not before.
class reverse_context {
 public:
  constexpr explicit reverse_context(recorder& recording)
      : in_(recording), count_(recording.made().nodes.size()), depends_(count_, 0), cotangent_(count_, no_node),
        primal_id_(count_, no_node) {
    for (std::size_t v = 0; v < count_; ++v) primal_id_[v] = narrowed(v);
  }

  constexpr recorder& in() const { return in_; }
  /// How many nodes the forward pass has.
  constexpr std::size_t count() const { return count_; }
  constexpr const node& node_at(std::size_t v) const { return in_.made().nodes[v]; }
  constexpr const loop_list& loops() const { return in_.made().loops; }
  /// A rejected value has no dims.
  constexpr tensor_type type_of(value v) const { return v.ok() ? in_.at(v).type : tensor_type{}; }

  /// Whether a value depends on a wanted one, differentiably.
  constexpr bool depends(std::size_t v) const { return depends_[v] != 0; }
  constexpr void set_depends(std::size_t v) { depends_[v] = 1; }

  /// A value of the forward pass for the backward pass. A value that a loop computed in an iteration is kept for the
  /// same iteration of the reverse loop, in a stack; the value of a branch is kept unchanged; a slice of a stack is
  /// read again.
  constexpr value primal(std::size_t v) {
    const value x{&in_, primal_id_[v]};
    if (!x.ok()) return x;
    const node n = in_.at(x);
    if (n.loop != 0 && reverse_loop_of_[n.loop] != 0) primal_id_[v] = in_reverse_loop(v, x, n).id;
    return {&in_, primal_id_[v]};
  }
  /// The node that the backward pass reads for each value, for code that redirects it.
  constexpr node_id primal_id(std::size_t v) const { return primal_id_[v]; }
  constexpr void set_primal_id(std::size_t v, node_id id) { primal_id_[v] = id; }

  constexpr const indexed_vector<node_id>& primal_ids() const { return primal_id_; }
  constexpr void set_primal_ids(const indexed_vector<node_id>& all) { primal_id_ = all; }

  /// Adds a part of the cotangent of a value.
  constexpr void add(std::size_t v, value c, source where) {
    if (!c.ok() || depends_[v] == 0) return;
    if (cotangent_[v] != no_node)
      c = in_.elementwise(op::add, std::array{value{&in_, cotangent_[v]}, c}, where, element::none, true);
    cotangent_[v] = c.id;
  }
  constexpr bool has_cotangent(std::size_t v) const { return cotangent_[v] != no_node; }
  constexpr value cotangent(std::size_t v) const { return {&in_, cotangent_[v]}; }
  constexpr void drop_cotangent(std::size_t v) { cotangent_[v] = no_node; }
  /// The cotangent of a value in its type; zeros if there is none.
  constexpr value whole_cotangent(value v) {
    const node n = in_.at(v);
    const node_id c = cotangent_[v.id];
    return in_.broadcast(c != no_node ? value{&in_, c} : in_.constant(0, n.type.element, n.where), n.type, n.where);
  }
  /// All cotangents, for a loop: inside it begins without any.
  constexpr const indexed_vector<node_id>& cotangents() const { return cotangent_; }
  constexpr void set_cotangents(const indexed_vector<node_id>& all) { cotangent_ = all; }
  constexpr void clear_cotangents() { cotangent_.assign(count_, no_node); }

  /// While a loop is reversed: the loop in which its cotangents are computed; else 0.
  constexpr void set_reverse_loop(std::uint8_t loop, std::uint8_t reverse) {
    reverse_loop_of_[loop] = reverse;
    if (recomputed_loop_of_[loop] != 0) reverse_loop_of_[recomputed_loop_of_[loop]] = reverse;
  }
  using loop_table = std::array<std::uint8_t, max_loops + 1>;
  /// The loop that recomputes a loop of the forward pass; 0 if none does.
  constexpr const loop_table& recomputed_loops() const { return recomputed_loop_of_; }
  constexpr void set_recomputed_loops(const loop_table& all) { recomputed_loop_of_ = all; }
  constexpr void set_recomputed_loop(std::uint8_t loop, std::uint8_t again) { recomputed_loop_of_[loop] = again; }

  constexpr dim_ref dim_at(dim_id d) const {
    const dim_info& i = in_.made().dims[d];
    return i.ref();
  }
  /// An operation without a derivative: the fault names itself, and not the operation whose gradient is recorded.
  constexpr void refuse_derivative(const node& n) {
    const auto before = in_.derive({});
    in_.refuse(fault::no_derivative, name_of(n), n.where);
    in_.derive(before);
  }

 private:
  constexpr value in_reverse_loop(std::size_t v, value x, const node& n) {
    if (n.code != op::loop_slice) return kept(x);
    const value stack = x.id == v ? primal(n.in[0]) : kept({&in_, n.in[0]});
    return loop_slice_of(in_, reverse_loop_of_[n.loop], stack, n.where);
  }
  constexpr value kept(value x) {
    const node n = in_.at(x);
    if (n.loop == 0 || reverse_loop_of_[n.loop] == 0) return x;
    const value stack = loops()[n.loop - 1u].once ? of_branch(x, n) : loop_stack_of(in_, n.loop, x, n.where);
    return stack.ok() ? loop_slice_of(in_, reverse_loop_of_[n.loop], kept(stack), n.where) : stack;
  }
  constexpr value of_branch(value x, const node& n) {
    const value before = carry_into(in_, n.loop, in_.zeros(n.type, n.where), n.where);
    // A carried value is copied: its memory is reused for its next value.
    const value last = computed_for(in_, "gradient", before, x, n.where);
    return loop_result_of(in_, loop_yield_of(in_, before, last, n.where), n.where);
  }

  recorder& in_;
  std::size_t count_;
  indexed_vector<std::uint8_t> depends_;
  indexed_vector<node_id> cotangent_;
  indexed_vector<node_id> primal_id_;
  loop_table reverse_loop_of_{}, recomputed_loop_of_{};
};

}}} // namespace cleave::v0::detail
