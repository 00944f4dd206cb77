// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/rejected.hpp>
#include <cleave/plan/errors.hpp>
#include <cleave/plan/hints.hpp>
#include <cleave/plan/options.hpp>
#include <cleave/plan/partition.hpp>
#include <cleave/plan/repairs.hpp>
#include <cleave/program/program_view.hpp>

#include <initializer_list>

namespace cleave { inline namespace v0 {

namespace detail {

// They throw shape_error. A number of a plan with such a size is no constant, for a reason with this name.
[[noreturn, gnu::cold]] inline void refused_size(const verdict& v) {
  const std::string_view name = v.axis.empty() ? v.dim : v.axis;
  if (v.fault == fault::size_is_fixed) raise<shape_error>(wording::size_is_fixed(name, v.expected, v.got));
  raise<shape_error>(wording::size_too_small(name, v.expected, v.got));
}
[[noreturn, gnu::cold]] inline void unknown_size(std::string_view name) {
  raise<shape_error>(wording::size_of_unknown_name(name));
}
[[noreturn, gnu::cold]] inline void size_given_again(std::string_view name) {
  raise<shape_error>(wording::size_given_twice(name));
}

/// Room for a program whose size is not known before it is made; one that needs more is made twice. g++ pays only for
/// the used part of an array in a constant, other compilers for all of it.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__NVCC__)
inline constexpr std::size_t program_room = 8192;
#else
inline constexpr std::size_t program_room = 512;
#endif

/// A program as a constant, made in more room than it needs.
template <class Plan>
struct roomy_form {
  template <std::size_t Buffers, std::size_t Steps, std::size_t Maps, std::size_t Ops, std::size_t Bounds>
  static constexpr auto made() {
    const program p = Plan::make();
    roomy_program<Buffers, Steps, Maps, Ops, Bounds> r;
    r.buffers = p.buffers.size(), r.steps = p.steps.size(), r.maps = p.maps.size(), r.ops = p.fused_ops.size();
    r.bounds = p.bounds.size();
    if (r.buffers <= Buffers && r.steps <= Steps && r.maps <= Maps && r.ops <= Ops && r.bounds <= Bounds)
      freeze_into(r.all, p);
    return r;
  }
  static constexpr auto first = made<program_room, program_room, program_room, program_room, program_room>();
};
/// The program copied without that room.
template <class Plan>
struct frozen_form {
  static constexpr const auto& first = roomy_form<Plan>::first;
  static constexpr bool fits = first.buffers <= program_room && first.steps <= program_room &&
                               first.maps <= program_room && first.ops <= program_room && first.bounds <= program_room;
  static constexpr auto cut() {
    frozen_program<first.buffers, first.steps, first.maps, first.ops, first.bounds> f;
    if constexpr (fits) freeze_into(f, first.view());
    else f = roomy_form<Plan>::template made<first.buffers, first.steps, first.maps, first.ops, first.bounds>().all;
    return f;
  }
  static constexpr auto value = cut();
};
/// Nothing if the compiler cannot run the function. It has reported why; without this it would report it again for each
/// member of the plan.
template <class Plan, class = void>
struct frozen_or_reported {
  static constexpr auto value = [] {
    frozen_program<0, 0, 0, 0> none;
    none.found.fault = fault::already_reported;
    return none;
  }();
};
template <class Plan>
struct frozen_or_reported<Plan, std::enable_if_t<(roomy_form<Plan>::first.buffers + 1 > 0)>> : frozen_form<Plan> {};

} // namespace detail

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
    options::each([&]<class O>(O) {
      if constexpr (requires { O::overlaps; }) p.overlap = O::overlaps;
      if constexpr (requires { O::workspace; }) p.workspace = O::workspace;
    });
    return p;
  }();
  static constexpr sizes hints_for(const graph& g) {
    return sizes_for(g, indexed_span<const named_size>(expected.begin(), expected.end()));
  }
  static constexpr program make() {
    const graph g = recording<Body, Signature>::record();
    program p;
    const indexed_span<const named_size> named(expected.begin(), expected.end());
    if (g.found.ok()) p.found = check_sizes(g, named);
    if (options::needs_sizes && g.found.ok() && p.found.ok()) p.found = check_all_known(g, named);
    if (p.found.ok()) p = plan_for(g);
    return p;
  }
  static constexpr program plan_for(const graph& g) {
    const sizes hints = hints_for(g);
    program p = partition(g, hints, rule);
    if (p.found.ok()) p.found = options::check(p, hints);
    return p;
  }
  /// The text to write in place of a refused operation. A class, so that only rejected plans compute it.
  struct repaired {
    static constexpr repair_list all = [] {
      const graph g = recording<Body, Signature>::record();
      if (!g.found.ok()) return repairs_of(g, hints_for(g));
      const program p = make();
      const sizes hints = hints_for(g);
      layout_search other(g, hints, [](const graph& changed) { return plan_for(changed); });
      if (p.found.fault == fault::layouts_tie) return other.constrained(p.found);
      const repair_list tightest = kept_contract(p, p.found, hints);
      return tightest.count == 0 && p.found.fault == fault::contract_broken ? other.produced(p) : tightest;
    }();
  };
  static constexpr const auto& frozen = detail::frozen_or_reported<plan_of>::value;
  static constexpr verdict found = frozen.found;
  static constexpr const auto& buffers = frozen.buffers;
  static constexpr const auto& steps = frozen.steps;
};

/// A plan in the hands of the user: an empty object whose members are constant expressions. A rejected plan satisfies
/// every comparison, so that one fault stays one error.
template <class Plan, class Verdict = rejected<fault::none>>
struct planned {
  using plan_type = Plan;
  [[no_unique_address]] Verdict verdict{};
  static constexpr bool accepted = Plan::found.ok();

  /// The number of collectives of one kind. Exchanges that share messages count once.
  constexpr auto count(kind k) const {
    if constexpr (!accepted) return absorbed{};
    else {
      int n = 0;
      for (const step& s : Plan::steps) n += k != kind::none && s.move == k && !s.joined ? 1 : 0;
      return n;
    }
  }
  /// The number of all collectives. Local slices and masks do not count, and exchanges that share messages
  /// count once.
  constexpr auto collectives() const {
    if constexpr (!accepted) return absorbed{};
    else {
      int n = 0;
      for (const step& s : Plan::steps) n += begins_collective(s) ? 1 : 0;
      return n;
    }
  }
  /// The bytes that the busiest device moves, summed over the steps. Sizes are given by name, as in
  /// `plan.bytes({batch = 1024})`; sizes that are omitted are the fixed, expected or hinted ones.
  constexpr auto bytes(std::initializer_list<named_size> named = {}) const {
    if constexpr (!accepted) return absorbed{};
    else return cleave::bytes(view(), sized(named));
  }
  /// The floating-point operations of the products on the busiest device.
  constexpr auto flops(std::initializer_list<named_size> named = {}) const {
    if constexpr (!accepted) return absorbed{};
    else return cleave::flops(view(), sized(named));
  }
  /// The bytes of workspace that a call allocates on the device that needs most, in addition to its arguments and
  /// results: values between steps, messages in flight, and scratch memory of moves, products, reductions and kernels
  /// of yours. The first call with these sizes allocates just that if devices exchange data by MPI and all arrays are
  /// contiguous; through shared memory less is packed. docs/12-cost.md lists the memory that is not in it.
  constexpr auto workspace(std::initializer_list<named_size> named = {}) const {
    if constexpr (!accepted) return absorbed{};
    else return cleave::workspace(view(), sized(named));
  }
  /// The same by purpose.
  constexpr auto parts_of_workspace(std::initializer_list<named_size> named = {}) const {
    if constexpr (!accepted) return absorbed{};
    else return cleave::parts_of_workspace(view(), sized(named));
  }
  /// All sizes of the plan: the given ones, the expected ones, the fixed ones, and hints for the rest. Throws
  /// shape_error, or is no constant, if the function does not have a dim or an axis that is named, if it cannot have
  /// that size, or if it is named twice.
  static constexpr sizes sized(std::initializer_list<named_size> named) {
    const indexed_span<const named_size> given(named.begin(), named.end());
    if (const auto v = check_sizes(Plan::frozen, given); !v.ok()) detail::refused_size(v);
    for (const named_size& n : given) {
      if (!has_name(Plan::frozen, n)) detail::unknown_size(n.name);
      for (const named_size* other = given.begin(); other != &n; ++other)
        if (other->name == n.name && other->what == n.what) detail::size_given_again(n.name);
    }
    indexed_vector<named_size> all(Plan::expected.begin(), Plan::expected.end());
    for (const named_size& n : named) all.push_back(n);
    return sizes_for(Plan::frozen, all);
  }
  /// The program as a constant: its buffers, steps and maps.
  static constexpr program_view view() { return Plan::frozen; }
  /// The program as data that tools may change.
  constexpr program thawed() const { return cleave::thawed(view()); }
};

/// The plan of a function for a signature of tensor types: `plan<Y(X, W)>(f)`. A fault is a compile error here.
template <class Signature, class F, PlanOption... Options>
constexpr auto plan(const function<F>&, const Options&...) {
  static_assert(sizeof(recording<F, Signature>) != 0);
  using made = plan_of<F, Signature, Options...>;
  return planned<made, typename detail::rejection_of<made>::type>{};
}

/// A mistake: an argument after the function is no option. Fault: not_an_option.
template <class Signature, class F, class... Options>
  requires(!(PlanOption<Options> && ...))
constexpr auto plan(const function<F>& f, const Options&...) {
  return say(rejection<fault::not_an_option, Options...>), plan<Signature>(f);
}

template <class Signature, class F, std::same_as<named_size> N>
constexpr auto plan(const function<F>& f, std::initializer_list<N>) {
  return say(rejection<fault::not_an_option, N>), plan<Signature>(f);
}

/// A mistake: a plan takes a `function`. Fault: not_a_function.
template <class Signature, class F, PlanOption... Options>
  requires(!is_function<F>)
constexpr auto plan(const F& f, const Options&... options) {
  return say(rejection<fault::not_a_function, F>), plan<Signature>(function<F>(f), options...);
}

}} // namespace cleave::v0
