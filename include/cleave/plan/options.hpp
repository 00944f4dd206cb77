// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/function.hpp>
#include <cleave/plan/price.hpp>
#include <cleave/plan/workspace.hpp>

#include <concepts>

namespace cleave { inline namespace v0 {

/// Contracts and hints of a plan. They are types, so that they are part of the plan's identity.
struct option_tag {};
/// A contract: the plan has no collective of this kind.
template <kind Kind>
struct without : option_tag {
  static constexpr kind forbidden = Kind;
};
/// A contract: the plan moves at most this many bytes, for the sizes that it is planned for.
template <std::int64_t Bytes>
struct at_most : option_tag {
  static constexpr std::int64_t limit = Bytes;
};
/// A contract: a call allocates at most this many bytes of workspace on any device, for the sizes that the plan is
/// planned for: the bytes that `plan.workspace` counts, those of your kernels among them.
template <std::int64_t Bytes>
struct at_most_workspace : option_tag {
  static constexpr std::int64_t workspace_limit = Bytes;
};
/// A contract: collectives use these axes only.
template <auto... Axes>
struct only_over : option_tag {
  /// Whether collectives may use the axis of this name.
  static constexpr bool allows(std::string_view axis) { return ((Axes.info.name == axis) || ...); }
};
/// A hint: the size to plan for, of a dim or an axis whose size is known only at run time: `expect<batch, 1024>`. A
/// function without that dim or axis ignores it, so that one list serves several functions.
template <auto Name, auto Size>
struct expect : option_tag {
  static constexpr named_size size = (Name = Size);
};
/// A contract: each dim and axis whose size is known only at run time has an `expect`, or follows from others.
/// Otherwise a plan is made for sizes that are guessed: right for all sizes, but perhaps slow for yours.
struct all_sizes_expected : option_tag {
  static constexpr bool needs_sizes = true;
};

/// Plans for the fewest bytes instead of the least time. Products are repeated at most `Repeat` times. The search tries
/// at most `Effort` changes beyond the first plan (see policy).
template <int Repeat = 1, int Effort = policy::bytes_first(1).effort>
struct fewest_bytes : option_tag {
  static constexpr policy rule = [] {
    policy p = policy::bytes_first(Repeat);
    p.effort = Effort;
    return p;
  }();
};

/// Plans for at most this many bytes of workspace on any device, for the sizes that the plan is made for, if that is
/// possible: as many products as necessary gather their operands panel by panel, in panels as narrow as necessary. They
/// move the same bytes in more messages, one after the other with the computation. If that does not suffice, operands
/// that are gathered once before a loop are gathered in every iteration. Add `at_most_workspace` to have an error if
/// this does not suffice either. Algorithm: SUMMA (van de Geijn and Watts 1997).
template <std::int64_t Bytes>
  requires(Bytes > 0)
struct within_workspace : option_tag {
  static constexpr std::int64_t workspace = Bytes;
};

/// Plans collectives one after the other with the computation. Halos overlap in any case.
struct without_overlap : option_tag {
  static constexpr bool overlaps = false;
};

/// An option of a plan: a hint, a contract or a policy.
template <class O>
concept PlanOption = std::derived_from<std::remove_cvref_t<O>, option_tag>;

namespace detail {

/// The step that needs most of the workspace: for its result, or for scratch memory.
constexpr const step* neediest_step(const program_view& p, const sizes& at) {
  const step* neediest = nullptr;
  std::int64_t most = 0;
  for (const step& s : p.steps) {
    workspace_parts own;
    add_scratch(own, p, s, at, coordinates{});
    std::int64_t bytes = own.total();
    if (const buffer& b = p.buffers[s.out]; writes(s) && b.role == role::workspace)
      bytes = std::max(bytes, largest_elements(b, p.maps, at) * size_of(b.type.element));
    if (neediest != nullptr && bytes <= most) continue;
    most = bytes;
    neediest = &s;
  }
  return neediest;
}

/// The first step that breaks a contract; of a contract about the workspace, the step that needs most of it.
template <class... Options>
constexpr verdict check_contract([[maybe_unused]] const program_view& p, [[maybe_unused]] const sizes& at) {
  verdict v;
  [[maybe_unused]] const auto broken = [&](const step& s, std::string_view axis, std::int64_t limit,
                                           std::int64_t moved_bytes) {
    if (v.ok())
      v = {fault::contract_broken, s.where, name_of(s.code), name_of(s.move), axis, limit, moved_bytes, s.gradient};
  };
  [[maybe_unused]] const auto check = [&]<class O>(O) {
    if constexpr (requires { O::workspace_limit; })
      if (const std::int64_t bytes = workspace(p, at); v.ok() && bytes > O::workspace_limit) {
        const step* s = neediest_step(p, at);
        v = {fault::workspace_too_large, s->where, name_of(s->code), {}, {}, O::workspace_limit, bytes, s->gradient};
      }
    std::int64_t total = 0;
    for (const step& s : p.steps) {
      if (!is_collective(s)) continue;
      if constexpr (requires { O::forbidden; })
        if (s.move == O::forbidden) broken(s, {}, 0, 0);
      if constexpr (requires { O::allows(std::string_view{}); })
        for (int a = 0; a < p.mesh.size(); ++a)
          if ((s.axes >> a & 1) != 0 && !O::allows(p.mesh.axes[a].name)) broken(s, p.mesh.axes[a].name, 0, 0);
      if constexpr (requires { O::limit; }) {
        total = plus_times(total, step_iterations(p, s, at), step_bytes(p, s, at));
        if (total > O::limit) broken(s, {}, O::limit, total);
      }
    }
  };
  (check(Options{}), ...);
  return v;
}

/// A body with options of its own.
template <class F, class... Options>
struct body_with {
  template <class... Args>
  constexpr auto operator()(const Args&... args) const {
    return F{}(args...);
  }
};

/// The options of a plan: those that its body carries, and those given with it.
template <class Body, class... Options>
struct option_list {
  static constexpr std::size_t count = sizeof...(Options);
  static constexpr bool needs_sizes = (requires { Options::needs_sizes; } || ...);
  static constexpr void each([[maybe_unused]] auto&& f) { (f(Options{}), ...); }
  static constexpr verdict check(const program_view& p, const sizes& at) { return check_contract<Options...>(p, at); }
};
template <class F, class... Carried, class... Options>
struct option_list<body_with<F, Carried...>, Options...> : option_list<F, Carried..., Options...> {};

} // namespace detail

/// The same function, with options for all its plans: those that `plan` and `explain` show and those that calls run.
/// Write it outermost: a gradient of the function, or a function that calls it, has options of its own.
template <class F, PlanOption... Options>
constexpr auto with(const function<F>&, const Options&...) {
  return function(detail::body_with<F, Options...>{});
}

}} // namespace cleave::v0
