// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/simplify.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/rules/annotation.hpp>
#include <cleave/study/machine.hpp>

#include <vector>

namespace cleave { inline namespace v0 {

/// Operations of products, and the seconds that they take at the peak rate of a machine.
struct flops_at_peak {
  double flops = 0, seconds = 0;

  constexpr flops_at_peak operator+(const flops_at_peak& b) const { return {flops + b.flops, seconds + b.seconds}; }
};
/// The operations of a function's products by their use, for one of all devices, if none repeated another's work.
struct products_by_use {
  /// The flops that the function asks for, each product once: the papers' model flops.
  flops_at_peak model{};
  /// What `remat` computes again for gradients.
  flops_at_peak recomputed{};
  /// The flops of a pipeline's stages while no microbatch has come to them, or all have left.
  flops_at_peak idle{};
};

/// The products of a recorded function: their dims, and how often they run.
class recorded_products {
 public:
  recorded_products() = default;
  explicit recorded_products(const graph& recorded) {
    const graph g = simplify(recorded);
    loops_ = g.loops;
    rules_ = g.rules;
    // A region is computed again from copies of its operands, which are annotated.
    std::vector<bool> again(g.nodes.size(), false);
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      const node& n = g.nodes[v];
      bool from_copies = rules::annotation_of(n) == rules::annotation::recomputed;
      dim_set dims = n.type.set();
      for (unsigned k = 0; k < n.arity; ++k) {
        from_copies = from_copies || (!n.gradient && again[n.in[k]]);
        dims |= g.nodes[n.in[k]].type.set();
      }
      again[v] = from_copies;
      if (class_of(n.code) == op_class::contraction)
        products_.push_back({g.nodes[n.in[0]].type.element, dims, n.loop, again[v]});
    }
  }

  products_by_use at(const sizes& s, const machine& m) const {
    products_by_use all;
    for (const product& p : products_) {
      double flops = 2 * static_cast<double>(iterations_of(loops_, p.loop, s));
      for (const int d : p.dims) flops *= static_cast<double>(s.dims[d]);
      flops /= static_cast<double>(s.axes.devices());
      const double used = flops * used_part(p, s);
      add(p.again ? all.recomputed : all.model, used, p, m);
      add(all.idle, flops - used, p, m);
    }
    return all;
  }

 private:
  struct product {
    element type;
    dim_set dims;
    std::uint8_t loop;
    bool again;
  };
  static void add(flops_at_peak& to, double flops, const product& p, const machine& m) {
    to = to + flops_at_peak{flops, flops / m.peak(p.type)};
  }
  /// A loop of a + b - 1 iterations over a value with dim b is skewed: each index of b has work in a of them.
  double used_part(const product& p, const sizes& s) const {
    double part = 1;
    for (std::uint8_t l = p.loop; l != 0; l = loops_[l - 1u].around)
      for (const derived_extent& rule : rules_.derived) {
        if (rule.dim != loops_[l - 1u].along || rule.divisor != 1 || rule.sum.constant != -1) continue;
        for (const extent_sum::term& t : rule.sum.terms)
          if (t.times == 1 && p.dims.contains(t.dim) && s.dims[rule.dim] > 0)
            part *= static_cast<double>(s.dims[rule.dim] - s.dims[t.dim] + 1) / static_cast<double>(s.dims[rule.dim]);
      }
    return part;
  }

  std::vector<product> products_{};
  loop_list loops_{};
  extent_rules rules_{};
};

}} // namespace cleave::v0
