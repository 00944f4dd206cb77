// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/executor.hpp>
#include <cleave/expr/statement.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/tensor/tensor.hpp>

namespace cleave {

namespace detail {

/// A tensor or a number: where a call stops looking into aggregates.
template <class A>
struct is_run_time_leaf : std::bool_constant<is_tensor<A> || Number<A>> {};

/// What a call learns from its tensors before it runs: the grid, the sizes, the addresses of the shards.
template <class Plan>
struct call_site {
  grid_state* grid = nullptr;
  /// As the tensors have them; `dynamic` for a dim that no tensor has.
  std::array<std::int64_t, Plan::dims.size() + 1> extents{};
  std::array<const void*, Plan::arguments + 1> inputs{};
  std::array<void*, Plan::results + 1> outputs{};
  std::size_t next = 0;

  call_site() { extents.fill(dynamic); }

  /// Dims that promise to divide evenly are held to it wherever the plan divides them.
  static constexpr bool promises = [] {
    bool any = false;
    for (std::size_t d = 0; d < Plan::dims.size(); ++d) any = any || Plan::dims[d].divisible;
    return any;
  }();
  static void check_promises(const sizes& at) {
    for (const buffer& b : Plan::buffers)
      for (int i = 0; i < b.type.rank; ++i)
        if (const std::int64_t parts = at.axes.product(b.where[i]);
            Plan::dims[b.type[i]].divisible && at.dims[b.type[i]] % parts != 0)
          throw shape_error(wording::extent_not_divisible(Plan::dims[b.type[i]].name, parts, at.dims[b.type[i]]));
  }

  void learn(const tensor_state& t, const tensor_type& type) {
    grid_state& on = t.grid.state();
    if (grid == nullptr) grid = &on;
    if (grid != &on) throw grid_error(wording::grids_differ());
    for (int i = 0; i < type.rank; ++i) {
      std::int64_t& extent = extents[type[i]];
      if (extent == dynamic) extent = t.global[i];
      if (extent != t.global[i])
        throw shape_error(wording::extents_differ(Plan::dims[type[i]].name, extent, t.global[i]));
    }
  }
  template <class Leaf>
  void argument(const Leaf& leaf) {
    if constexpr (is_tensor<Leaf>) {
      learn(leaf.state(), Plan::buffers[next].type);
      inputs[next++] = leaf.data();
    } else {
      inputs[next++] = &leaf;
    }
  }
  template <class Leaf>
  void result(const Leaf& leaf) {
    learn(leaf.state(), Plan::buffers[Plan::arguments + next].type);
    outputs[next++] = leaf.data();
  }
  /// With the extents that no tensor has, fixed ones and those that follow from splits and merges, all checked.
  sizes complete() const {
    sizes at;
    at.axes = grid->sizes();
    for (std::size_t d = 0; d < Plan::dims.size(); ++d) {
      const std::int64_t fixed = Plan::dims[d].extent;
      at.dims[d] = fixed == dynamic ? extents[d] : fixed;
      if (extents[d] != dynamic && at.dims[d] != extents[d])
        throw shape_error(wording::extents_differ(Plan::dims[d].name, fixed, extents[d]));
    }
    for (std::size_t d = Plan::dims.size(); d < at.dims.size(); ++d) at.dims[d] = 0;
    const bool fits = derive_extents(Plan::rules, at);
    for (const dim_product& p : Plan::rules.products)
      for (const dim_id part : {p[1], p[2]})
        if (p[2] != no_dim && at.dims[p[0]] != dynamic && at.dims[part] > 0 && at.dims[p[0]] % at.dims[part] != 0)
          throw shape_error(
              wording::extent_no_multiple(Plan::dims[p[0]].name, at.dims[p[0]], Plan::dims[part].name, at.dims[part]));
    for (std::size_t d = 0; d < Plan::dims.size(); ++d)
      if (at.dims[d] == dynamic) throw shape_error(wording::extent_unknown(Plan::dims[d].name));
    if (!fits) {
      for (const dim_product& p : Plan::rules.products)
        if (const std::int64_t parts = at.dims[p[1]] * (p[2] == no_dim ? 1 : at.dims[p[2]]); parts != at.dims[p[0]])
          throw shape_error(wording::extents_differ(Plan::dims[p[0]].name, parts, at.dims[p[0]]));
      for (const derived_extent& d : Plan::rules.derived)
        if (const std::int64_t follows = extent_of(d, at); follows != at.dims[d.dim])
          throw shape_error(wording::extents_differ(Plan::dims[d.dim].name, follows, at.dims[d.dim]));
      for (const least_extent& l : Plan::rules.least)
        if (at.dims[l.dim] < l.least)
          throw shape_error(wording::extent_too_small(Plan::dims[l.dim].name, l.least, at.dims[l.dim]));
    }
    if constexpr (promises) check_promises(at);
    return at;
  }
};

/// Numbers among the arguments where kernels can read them. On the host that is where they are.
template <class Leaves>
struct reachable_numbers {
  explicit reachable_numbers(Leaves& leaves) {
    if constexpr (!Kokkos::SpaceAccessibility<execution_space, Kokkos::HostSpace>::accessible)
      for_each_leaf<is_run_time_leaf>(leaves, [&]<class Leaf>(Leaf& leaf) {
        if constexpr (Number<Leaf>) {
          auto copy = allocate(sizeof(Leaf));
          copy_bytes<memory_space, Kokkos::HostSpace>(copy.get(), &leaf, sizeof(Leaf));
          kept.emplace_back(&leaf, std::move(copy));
        }
      });
  }
  template <class Inputs>
  void replace(Inputs& inputs) const {
    for (const auto& [host, device] : kept)
      for (const void*& in : inputs)
        if (in == host) in = device.get();
  }
  std::vector<std::pair<const void*, std::shared_ptr<void>>> kept{};
};

/// Runs a plan on the leaves of its arguments and results.
template <class Plan, class Leaves, class... Results>
void run_plan(Leaves& leaves, Results&... results) {
  static_assert(sizeof(typename said<Plan>::type) != 0);
  if constexpr (Plan::found.ok()) {
    call_site<Plan> site;
    for_each_leaf<is_run_time_leaf>(leaves, [&](const auto& leaf) { site.argument(leaf); });
    site.next = 0;
    (for_each_leaf<is_run_time_leaf>(results, [&](const auto& leaf) { site.result(leaf); }), ...);
    if (!site.grid->active()) {
      // Checked all the same, so that all ranks throw alike.
      static_cast<void>(site.complete());
      return;
    }
    if (site.grid->checked().any()) {
      const plan_identity plan(Plan::buffers, Plan::steps);
      site.grid->same_call(plan.name, plan.hash, plan_identity::hash_of(site.extents));
    }
    const reachable_numbers<Leaves> numbers(leaves);
    numbers.replace(site.inputs);
    executor_for<Plan>(*site.grid, std::span(site.extents).first(Plan::dims.size()), [&] {
      return site.complete();
    }).run(site.inputs.data(), site.outputs.data());
  }
}

template <class... Results>
struct result_of {
  using type = std::tuple<Results...>;
};
template <class Result>
struct result_of<Result> {
  using type = Result;
};

struct identity_body {
  template <class X>
  constexpr auto operator()(const X& x) const {
    return x;
  }
};

} // namespace detail

/// Runs a statement into existing tensors, or aggregates of them: what `f(x, y).into(a, b)` and `y = f(x)` do.
/// Collective over the devices. Throws grid_error if the tensors are on two grids, and shape_error if a dim has two
/// extents.
template <class F, class... Args, class... Results>
void run(const expression<F, Args...>& statement, Results&... results) {
  auto leaves = detail::leaves_of(statement);
  using result = typename detail::result_of<std::remove_cvref_t<Results>...>::type;
  using recorded = detail::recording_of<result, expression<F, Args...>>;
  static_assert(sizeof(typename recorded::type) != 0);
  detail::run_plan<plan_of<typename recorded::body, typename recorded::signature>>(leaves, results...);
}

template <class T, auto Layout, class F, class... Args>
void assign(tensor<T, Layout>& to, const expression<F, Args...>& statement) {
  run(statement, to);
}
/// The same values in another layout.
template <class T, auto Layout, class U, auto From>
void assign(tensor<T, Layout>& to, const tensor<U, From>& from) {
  run(function(detail::identity_body{})(from), to);
}
template <class T, auto Layout>
void assign(tensor<T, Layout>&, detail::absorbed_statement) {}
template <class T, auto Layout, Number N>
void assign(tensor<T, Layout>& to, N number) {
  to.fill(static_cast<T>(number));
}

} // namespace cleave
