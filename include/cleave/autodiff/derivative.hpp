// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/autodiff/regions.hpp>
#include <cleave/autodiff/reverse_loop.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/rules/all.hpp>

namespace cleave { inline namespace v0 { namespace detail {

/// Reverse mode on the graph itself (Linnainmaa 1970; as in JAX the backward pass is recorded as ordinary operations).
class reverse_pass {
 public:
  /// Derivatives by `wanted`, which are nodes of op::identity that stand for the variables.
  constexpr reverse_pass(recorder& recording, indexed_span<const value> wanted)
      : in_(recording), c_(recording), regions_(c_) {
    for (const value& w : wanted)
      if (w.ok()) c_.set_depends(w.id);
    // The next value of a carry is recorded after it.
    while (find_dependents()) {
    }
    const node* nodes = recording.made().nodes.data();
    for (std::size_t v = c_.count(); v-- > 0;)
      if (nodes[v].of != 0 && leaves_loop(nodes[v].code)) first_result_[nodes[v].of] = v;
  }
  reverse_pass(const reverse_pass&) = delete;
  reverse_pass& operator=(const reverse_pass&) = delete;

  /// Records the backward pass from the cotangents of some results; the cotangent of every wanted value, in its type.
  constexpr indexed_vector<value> run(indexed_span<const value> results, indexed_span<const value> seeds,
                                      indexed_span<const value> wanted) {
    for (std::size_t i = 0; i < results.size(); ++i) c_.add(results[i].id, seeds[i], c_.node_at(results[i].id).where);
    outer_loop_ = in_.recording();
    sweep(c_.count(), 0, outer_loop_);
    indexed_vector<value> all;
    for (const value& w : wanted) all.push_back(c_.whole_cotangent(w));
    return all;
  }

 private:
  /// The nodes of a loop, backwards; of the differentiated nodes all that are not in a loop within.
  constexpr void sweep(std::size_t end, std::size_t begin, std::uint8_t loop) {
    for (std::size_t v = end; v-- > begin;) {
      regions_.at(v, [&](std::uint8_t in) { return is_visited(in, loop); });
      const std::uint8_t in = c_.node_at(v).loop;
      if (!is_visited(in, loop)) {
        if (loop == outer_loop_ || within(c_.loops(), in, loop)) reverse(inner_loop(in, loop), v);
        continue;
      }
      if (!c_.has_cotangent(v) || !c_.depends(v)) continue;
      const node n = c_.node_at(v);
      const auto& adjoint = rules_of(n).adjoint;
      if (!adjoint.given) continue;
      const auto before = in_.derive({n.gradient ? n.origin : n.code, true});
      adjoint.call(c_, v, n, c_.cotangent(v));
      in_.derive(before);
    }
  }
  /// Whether nodes of a loop are visited with those of another: its own, and in the loop in which the derivative is
  /// recorded those of all loops around it. The differentiated nodes may be in other loops, which ended before: they
  /// are reversed.
  constexpr bool is_visited(std::uint8_t in, std::uint8_t loop) const {
    return in == loop || (loop == outer_loop_ && within(c_.loops(), outer_loop_, in));
  }
  /// The outermost loop around a loop whose nodes are not visited.
  constexpr std::uint8_t inner_loop(std::uint8_t loop, std::uint8_t outer) const {
    while (!is_visited(c_.loops()[loop - 1u].around, outer)) loop = c_.loops()[loop - 1u].around;
    return loop;
  }
  /// Reverses a loop once node v is visited, if all that reads its results has been: a first derivative keeps values of
  /// a branch by nodes in the branch, which are recorded after its results.
  constexpr void reverse(std::uint8_t loop, std::size_t v) {
    if (reversed_[loop] || v > first_result_[loop]) return;
    reversed_[loop] = true;
    reverse_loop reversed(c_, loop);
    if (!reversed.begin()) return;
    sweep(reversed.last(), reversed.first(), loop);
    reversed.end();
  }

  /// One pass from the variables on; whether another one is needed.
  constexpr bool find_dependents() {
    bool again = false;
    std::size_t next = 0;
    for (std::size_t v = 0; v < c_.count(); ++v) {
      const node& n = c_.node_at(v);
      for (unsigned k = 0; k < n.arity; ++k)
        if (c_.depends(n.in[k]) && n.code != op::stop_gradient) {
          if (is_floating(n.type.element)) c_.set_depends(v);
          // No gradient is better than one that is silently zero.
          if (is_complex(n.type.element)) in_.refuse(fault::not_differentiable, name_of(n.code), n.where);
        }
      // A derivative of its own may pass through operations that have none.
      for (; next < in_.regions().size() && in_.regions()[next].last <= v + 1; ++next)
        pass_through(in_.regions()[next]);
      if (n.code == op::loop_yield && c_.depends(v) && !c_.depends(n.in[1])) c_.set_depends(n.in[1]), again = true;
    }
    return again;
  }
  constexpr void pass_through(const recorder::region& r) {
    bool any = false;
    for (const value& a : r.arguments) any = any || c_.depends(a.id);
    for (const value& result : r.results)
      if (any && is_floating(in_.at(result).type.element)) c_.set_depends(result.id);
  }

  recorder& in_;
  reverse_context c_;
  special_regions regions_;
  /// The loop in which the derivative is recorded; and which loops have been reversed.
  std::uint8_t outer_loop_ = 0;
  std::array<bool, max_loops + 1> reversed_{};
  /// By loop: the first node outside of it that is a result of it.
  std::array<std::size_t, max_loops + 1> first_result_{};
};

}}} // namespace cleave::v0::detail
