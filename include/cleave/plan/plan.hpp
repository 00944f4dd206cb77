// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/rejected.hpp>
#include <cleave/expr/function.hpp>
#include <cleave/plan/partition.hpp>
#include <cleave/plan/price.hpp>

#include <initializer_list>
#include <span>

namespace cleave {

/// The size that planning assumes for an axis, an extent, or a part of a split dim, if the size is known only at run
/// time.
inline constexpr std::int64_t hinted_axis_size = 4;
inline constexpr std::int64_t hinted_extent = 4096;
inline constexpr std::int64_t hinted_part = 64;

/// Extents of a graph or plan that are fixed or named, and what follows from them; the rest stays dynamic.
template <class Sized>
constexpr void set_known_extents(const Sized& g, std::span<const named_size> named, sizes& s) {
  for (std::size_t d = 0; d < g.dims.size(); ++d) {
    s.dims[d] = g.dims[d].extent;
    for (const named_size& n : named)
      if (n.name == g.dims[d].name) s.dims[d] = n.size;
  }
  derive_extents(g.rules, s);
}

/// Sizes for a graph or plan: fixed ones, the named ones, what follows from them, and hints for the rest.
template <class Sized>
constexpr sizes sizes_for(const Sized& g, std::span<const named_size> named = {}) {
  sizes s;
  for (int a = 0; a < g.mesh.size(); ++a) {
    const axis_info& axis = g.mesh.axes[static_cast<std::size_t>(a)];
    s.axes[a] = axis.size == dynamic ? hinted_axis_size : axis.size;
    for (const named_size& n : named)
      if (n.name == axis.name) s.axes[a] = n.size;
  }
  set_known_extents(g, named, s);
  // Hints for what is still open, parts of a product before the whole.
  for (const dim_product& p : g.rules.products)
    for (int i : {1, 2})
      if (p[2] != no_dim && s.dims[p[static_cast<std::size_t>(i)]] == dynamic) {
        s.dims[p[static_cast<std::size_t>(i)]] = hinted_part;
        derive_extents(g.rules, s);
      }
  const auto follows = [&](std::size_t d) {
    for (const derived_extent& rule : g.rules.derived)
      if (rule.dim == d) return true;
    return false;
  };
  for (std::size_t d = 0; d < g.dims.size(); ++d)
    if (s.dims[d] == dynamic && !follows(d)) s.dims[d] = hinted_extent;
  derive_extents(g.rules, s);
  for (std::size_t d = 0; d < g.dims.size(); ++d)
    if (s.dims[d] == dynamic) s.dims[d] = hinted_extent;
  return s;
}

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
/// A contract: collectives use these axes only.
template <auto... Axes>
struct only_over : option_tag {
  /// Whether collectives may use the axis of this name.
  static constexpr bool allows(std::string_view axis) { return ((Axes.info.name == axis) || ...); }
};
/// A hint: the size to plan for, of a dim or an axis whose size is known only at run time: `expect<batch, 1024>`.
template <auto Name, std::int64_t Size>
struct expect : option_tag {
  static constexpr named_size size = [] {
    if constexpr (requires { Name.info; }) return named_size{Name.info.name, Size};
    else return named_size{Name.ref.name, Size};
  }();
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

/// An option of a plan: a hint, a contract or a policy.
template <class O>
concept PlanOption = std::derived_from<std::remove_cvref_t<O>, option_tag>;

/// A finished program of fixed size: the constant that the run time unrolls.
template <std::size_t Buffers, std::size_t Steps, std::size_t Maps>
struct frozen_program {
  mesh_value mesh{};
  static_vector<dim_info, max_dims> dims{};
  extent_rules rules{};
  std::array<buffer, Buffers> buffers{};
  std::array<step, Steps> steps{};
  std::array<dim_map, Maps> maps{};
  loop_list loops{};
  std::size_t buffer_count = 0;
  std::size_t step_count = 0;
  std::size_t map_count = 0;
  std::uint16_t arguments = 0;
  std::uint16_t results = 0;
  std::uint16_t slots = 0;
  verdict found{};
};

namespace detail {

template <std::size_t Buffers, std::size_t Steps, std::size_t Maps>
constexpr frozen_program<Buffers, Steps, Maps> freeze(const program& p) {
  frozen_program<Buffers, Steps, Maps> f;
  f.mesh = p.mesh;
  f.dims = p.dims;
  f.rules = p.rules;
  f.loops = p.loops;
  f.buffer_count = p.buffers.size();
  f.step_count = p.steps.size();
  f.map_count = p.maps.size();
  for (std::size_t i = 0; i < p.buffers.size(); ++i) f.buffers[i] = p.buffers[i];
  for (std::size_t i = 0; i < p.steps.size(); ++i) f.steps[i] = p.steps[i];
  for (std::size_t i = 0; i < p.maps.size(); ++i) f.maps[i] = p.maps[i];
  f.arguments = p.arguments;
  f.results = p.results;
  f.slots = p.slots;
  f.found = p.found;
  return f;
}

template <std::size_t Buffers, std::size_t Steps, std::size_t Maps, class Big>
constexpr frozen_program<Buffers, Steps, Maps> cut(const Big& big) {
  frozen_program<Buffers, Steps, Maps> f;
  f.mesh = big.mesh;
  f.dims = big.dims;
  f.rules = big.rules;
  f.loops = big.loops;
  f.buffer_count = Buffers;
  f.step_count = Steps;
  f.map_count = Maps;
  for (std::size_t i = 0; i < Buffers; ++i) f.buffers[i] = big.buffers[i];
  for (std::size_t i = 0; i < Steps; ++i) f.steps[i] = big.steps[i];
  for (std::size_t i = 0; i < Maps; ++i) f.maps[i] = big.maps[i];
  f.arguments = big.arguments;
  f.results = big.results;
  f.slots = big.slots;
  f.found = big.found;
  return f;
}

/// The first step that breaks a contract.
template <class... Options>
constexpr verdict check_contract([[maybe_unused]] const program& p, [[maybe_unused]] const sizes& at) {
  verdict v;
  [[maybe_unused]] const auto broken = [&](const step& s, std::string_view axis, std::int64_t limit,
                                           std::int64_t moved_bytes) {
    if (v.ok())
      v = {fault::contract_broken, s.where, name_of(s.code), name_of(s.move), axis, limit, moved_bytes, s.gradient};
  };
  [[maybe_unused]] const auto check = [&]<class O>(O) {
    std::int64_t total = 0;
    for (const step& s : p.steps) {
      if (!is_collective(s)) continue;
      if constexpr (requires { O::forbidden; })
        if (s.move == O::forbidden) broken(s, {}, 0, 0);
      if constexpr (requires { O::allows(std::string_view{}); })
        for (int a = 0; a < p.mesh.size(); ++a)
          if ((s.axes >> a & 1) != 0 && !O::allows(p.mesh.axes[static_cast<std::size_t>(a)].name))
            broken(s, p.mesh.axes[static_cast<std::size_t>(a)].name, 0, 0);
      if constexpr (requires { O::limit; }) {
        total += step_trips(p, s, at) * step_bytes(p, s, at);
        if (total > O::limit) broken(s, {}, O::limit, total);
      }
    }
  };
  (check(Options{}), ...);
  return v;
}

} // namespace detail

namespace detail {

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
  static constexpr void each([[maybe_unused]] auto&& f) { (f(Options{}), ...); }
  static constexpr verdict check(const program& p, const sizes& at) { return check_contract<Options...>(p, at); }
};
template <class F, class... Carried, class... Options>
struct option_list<body_with<F, Carried...>, Options...> : option_list<F, Carried..., Options...> {};

} // namespace detail

namespace detail {

/// How many nodes and maps a recording has.
template <class Recording>
constexpr std::array<std::size_t, 2> size_of_graph() {
  const graph g = Recording::record();
  // A merge may become an exchange of elements, which has two maps.
  std::size_t merges = 0;
  for (const node& n : g.nodes) merges += rules::is_merge(n) ? 1u : 0u;
  return {g.nodes.size(), 6 * g.maps.size() + 2 * merges};
}
template <std::array<std::size_t, 2> Size>
struct graph_size {
  static constexpr std::size_t nodes = Size[0], maps = Size[1];
};
/// No type where the compiler cannot run the function, so that this is one error and not one for each member of its
/// plan.
template <class Recording>
auto measured(int) -> graph_size<size_of_graph<Recording>()>;
template <class Recording>
auto measured(long) -> void;
template <class Recording, class Size = decltype(measured<Recording>(0))>
struct runs {
  using size = Size;
};
/// Here the compiler says why it cannot run the function. It must be constexpr, and so must what it calls.
template <class Recording>
struct runs<Recording, void> {
  using size = void;
  using why = graph_size<size_of_graph<Recording>()>;
};

} // namespace detail

/// The same function, with options for all its plans: those that `plan` and `explain` show and those that calls run.
/// Write it outermost: a gradient of the function, or a function that calls it, has options of its own.
template <class F, PlanOption... Options>
constexpr auto with(const function<F>&, const Options&...) {
  return function(detail::body_with<F, Options...>{});
}

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
  template <class Size>
  static constexpr auto full =
      detail::freeze<4 * Size::nodes + 16, 4 * Size::nodes + 16 + 2 * max_loops, Size::maps>(make());
  /// How many nodes and maps there are; void where the function cannot be recorded.
  using size = typename detail::runs<recording<Body, Signature>>::size;
  static constexpr auto frozen = [] {
    if constexpr (std::is_void_v<size>) {
      frozen_program<0, 0, 0> none;
      none.found.fault = fault::already_said;
      return none;
    } else {
      return detail::cut<full<size>.buffer_count, full<size>.step_count, full<size>.map_count>(full<size>);
    }
  }();
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
    program p;
    p.mesh = Plan::mesh;
    p.dims = Plan::dims;
    p.rules = Plan::rules;
    p.buffers.assign(Plan::buffers.begin(), Plan::buffers.end());
    p.steps.assign(Plan::steps.begin(), Plan::steps.end());
    p.maps.assign(Plan::maps.begin(), Plan::maps.end());
    p.loops = Plan::loops;
    p.arguments = Plan::arguments;
    p.results = Plan::results;
    p.slots = Plan::slots;
    return p;
  }
};

/// The plan of a function for a signature of tensor types: `plan<Y(X, W)>(f)`. A fault is a compile error here.
template <class Signature, class F, PlanOption... Options>
constexpr auto plan(const function<F>&, const Options&...) {
  static_assert(sizeof(recording<F, Signature>) != 0);
  static_assert(sizeof(detail::runs<recording<F, Signature>>) != 0);
  using made = plan_of<F, Signature, Options...>;
  return planned<made, typename detail::said<made>::type>{};
}

} // namespace cleave
