// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/rejected.hpp>
#include <cleave/plan/freeze.hpp>
#include <cleave/plan/hints.hpp>
#include <cleave/plan/options.hpp>
#include <cleave/plan/partition.hpp>
#include <cleave/plan/price.hpp>

#include <initializer_list>
#include <span>

namespace cleave {

/// The plan of a body under a signature, as static constants. The key of everything at run time.
template <class Body, class Signature, class... Options>
struct plan_of {
  using options = detail::option_list<Body, Options...>;
  /// The sizes that the options expect.
  static constexpr auto expected = [] {
    static_vector<named_size, options::count + 1> named;
    options::each([&]<class O>(O) {
      if constexpr (requires { O::size; }) named.push_back(O::size);
    });
    return named;
  }();
  static constexpr policy rule = [] {
    policy p = policy::time();
    options::each([&]<class O>(O) {
      if constexpr (requires { O::rule; }) p = O::rule;
    });
    return p;
  }();
  static constexpr sizes hints_for(const graph& g) {
    return sizes_for(g, std::span<const named_size>(expected.begin(), expected.end()));
  }
  static constexpr program make() {
    const graph g = recording<Body, Signature>::record();
    const sizes hints = hints_for(g);
    program p = partition(g, hints, rule);
    if (p.found.ok()) p.found = options::check(p, hints);
    return p;
  }
  /// How many nodes and maps there are.
  static constexpr auto sizes_of_graph = [] {
    const graph g = recording<Body, Signature>::record();
    // A merge may become an exchange of elements, which has two maps.
    std::size_t merges = 0;
    for (const node& n : g.nodes) merges += rules::is_merge(n) ? 1u : 0u;
    return std::array{g.nodes.size(), 6 * g.maps.size() + 2 * merges};
  }();
  static constexpr std::size_t nodes = sizes_of_graph[0];
  static constexpr auto scratch = detail::freeze<4 * nodes + 16, 4 * nodes + 16 + 2 * max_loops, sizes_of_graph[1]>(
      make());
  static constexpr auto frozen =
      detail::copied<frozen_program<scratch.count.buffers, scratch.count.steps, scratch.count.maps>>(scratch.kept,
                                                                                                     scratch.count);
  static constexpr verdict found = frozen.found;

  static constexpr mesh_value mesh = frozen.mesh;
  static constexpr auto dims = frozen.dims;
  static constexpr auto rules = frozen.rules;
  static constexpr auto buffers = frozen.buffers;
  static constexpr auto steps = frozen.steps;
  static constexpr auto maps = frozen.maps;
  static constexpr auto loops = frozen.loops;
  static constexpr std::uint16_t arguments = frozen.arguments;
  static constexpr std::uint16_t results = frozen.results;
  static constexpr std::uint16_t slots = frozen.slots;
};

/// A plan in the hands of the user: an empty object whose members are constant expressions. A rejected plan satisfies
/// every comparison, so that one fault stays one error.
template <class Plan, class Verdict = rejected<fault::none>>
struct planned {
  using plan_type = Plan;
  [[no_unique_address]] Verdict verdict{};
  static constexpr bool accepted = Plan::found.ok();

  /// The number of collectives of one kind.
  constexpr auto count(kind k) const {
    if constexpr (!accepted) return absorbed{};
    else {
      int n = 0;
      for (const step& s : Plan::steps) n += k != kind::none && s.move == k ? 1 : 0;
      return n;
    }
  }
  /// The number of all collectives. Local slices and masks do not count.
  constexpr auto collectives() const {
    if constexpr (!accepted) return absorbed{};
    else {
      int n = 0;
      for (const step& s : Plan::steps) n += is_collective(s) ? 1 : 0;
      return n;
    }
  }
  /// The bytes that the busiest device moves, summed over the steps. Sizes are given by name, as in
  /// `plan.bytes({batch = 1024})`; sizes that are omitted are the fixed, expected or hinted ones.
  constexpr auto bytes(std::initializer_list<named_size> named = {}) const {
    if constexpr (!accepted) return absorbed{};
    else return cleave::bytes(thawed(), sized(named));
  }
  /// The floating-point operations of the products on the busiest device.
  constexpr auto flops(std::initializer_list<named_size> named = {}) const {
    if constexpr (!accepted) return absorbed{};
    else return cleave::flops(thawed(), sized(named));
  }
  /// The bytes of workspace on the busiest device.
  constexpr auto workspace(std::initializer_list<named_size> named = {}) const {
    if constexpr (!accepted) return absorbed{};
    else return cleave::workspace(thawed(), sized(named));
  }
  /// All sizes of the plan: the given ones, the expected ones, the fixed ones, and hints for the rest.
  static constexpr sizes sized(std::initializer_list<named_size> named) {
    std::vector<named_size> all(Plan::expected.begin(), Plan::expected.end());
    for (const named_size& n : named) all.push_back(n);
    return sizes_for(Plan::frozen, all);
  }
  /// The program as data, for `explain`, the simulator and tools.
  constexpr program thawed() const {
    return detail::copied<program>(Plan::frozen, {Plan::buffers.size(), Plan::steps.size(), Plan::maps.size()});
  }
};

/// The plan of a function for a signature of tensor types: `plan<Y(X, W)>(f)`. A fault is a compile error here.
template <class Signature, class F, PlanOption... Options>
constexpr auto plan(const function<F>&, const Options&...) {
  using made = plan_of<F, Signature, Options...>;
  return planned<made, typename detail::said<made>::type>{};
}

} // namespace cleave
