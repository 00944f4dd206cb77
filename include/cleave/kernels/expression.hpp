// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/storage/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

// The chain of operations of a step as a type: a list of nodes, made of plain types and ints only, so that kernels are
// shared by all steps that compute the same, whatever their layouts, and every compiler can name them.

namespace cleave { inline namespace v0 {

/// The role of an entry of a fused expression in a kernel: a load, a number that is known when the kernel starts, an
/// index, or an operation.
enum class fused_role : std::uint8_t { load, constant, count, index, user, operation };
constexpr fused_role role_of(op code) {
  switch (code) {
    case op::input: return fused_role::load;
    case op::constant: return fused_role::constant;
    case op::count: return fused_role::count;
    case op::iota: return fused_role::index;
    case op::user: return fused_role::user;
    default: return fused_role::operation;
  }
}
CLEAVE_FUNCTION constexpr bool is_literal(fused_role r) { return r == fused_role::constant || r == fused_role::count; }

/// One operation of a fused expression. `Code` is an op; T the type of its result; the ints say where its operands are:
/// op::input:    A the operand of the loop, B the class of its stride along the inner dim (0, 1, or 2: known when it
///               runs)
/// op::constant: A the literal (op::count too)
/// op::iota:     A the index, B its stride along the inner dim (0 or 1)
/// op::equal:    A, B entries before this one; C 1 or 2 if A or B is a label (fused_op::arg)
/// others:       A, B, C entries before this one
template <int Code, class T, int A = 0, int B = 0, int C = 0>
struct fused_node {
  using type = T;
  static constexpr op code = static_cast<op>(Code);
  static constexpr fused_role role = role_of(code);
  static constexpr int arity = entry_of(code).arity;
  static constexpr int a = A, b = B, c = C;
  /// Which operand is a label, counted from 1; 0: none.
  static constexpr int label = code == op::equal ? C : 0;
};

inline constexpr int load_code{underlying(op::input)};

/// An entry that a user's function computes, of three operands: a pointer known when compiling, so that it is inlined.
template <auto Function, class T, int A, int B, int C>
struct user_node {
  using type = T;
  static constexpr fused_role role = fused_role::user;
  static constexpr int a = A, b = B, c = C, label = 0;
  CLEAVE_FUNCTION static computed<T> call(computed<T> x, computed<T> y, computed<T> z) { return Function(x, y, z); }
};

/// The operands of an expression at one position of the outer loops.
template <int Loads, int Indices, int Literals>
struct operand_row {
  const void* at[Loads > 0 ? Loads : 1];
  std::int64_t step[Loads > 0 ? Loads : 1];
  std::int64_t index[Indices > 0 ? Indices : 1];
  double literal[Literals > 0 ? Literals : 1];
};

namespace detail {

/// The value of entry I.
template <int I, class T>
struct cell {
  T value;
};
template <class Entries, class... Nodes>
struct frame;
template <int... I, class... Nodes>
struct frame<std::integer_sequence<int, I...>, Nodes...> : cell<I, computed<typename Nodes::type>>... {};

template <int I, class T>
CLEAVE_FUNCTION inline T value_of(const cell<I, T>& c) {
  return c.value;
}
template <int I, class T>
CLEAVE_FUNCTION inline void set_value(cell<I, T>& c, T value) {
  c.value = value;
}

/// The function of an operation whose results are stored as `Stored`: that of ops/scalar.hpp, but for the ops below.
template <op Code, class Stored>
struct operation {
  template <class In>
  CLEAVE_FUNCTION static auto of(In a) {
    return scalar_op<Code, In>::of(a);
  }
  template <class In>
  CLEAVE_FUNCTION static auto of(In a, In b) {
    return scalar_op<Code, In>::of(a, b);
  }
};
/// Only here are the digits dropped that a 16-bit type does not have: the program asks for it.
template <class Stored>
struct operation<op::cast, Stored> {
  template <class In>
  CLEAVE_FUNCTION static auto of(In a) {
    return convert<Stored>(a);
  }
};
template <class Stored>
struct operation<op::select, Stored> : scalar_op<op::select, computed<Stored>> {};
template <class Stored>
struct operation<op::random, Stored> : random_op<op::random, element_of<Stored>> {};
template <class Stored>
struct operation<op::normal, Stored> : random_op<op::normal, element_of<Stored>> {};

/// In the type in which the node's own type is computed.
template <class Node, class Frame, class Row>
CLEAVE_FUNCTION inline computed<typename Node::type> evaluate_node(const Frame& f, const Row& r, std::int64_t i) {
  using Stored = typename Node::type;
  using T = computed<Stored>;
  if constexpr (Node::role == fused_role::load) {
    const Stored* at = as<Stored>(r.at[Node::a]);
    if constexpr (Node::b == 0) return *at;
    else if constexpr (Node::b == 1) return at[i];
    else return at[i * r.step[Node::a]];
  } else if constexpr (is_literal(Node::role)) {
    return convert<T>(r.literal[Node::a]);
  } else if constexpr (Node::role == fused_role::index) {
    // Indices of 32 bits are computed in 32 bits, of which a vector has twice as many.
    if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
      return static_cast<T>(static_cast<std::uint32_t>(r.index[Node::a]) + static_cast<std::uint32_t>(i) * Node::b);
    else return convert<T>(r.index[Node::a] + i * Node::b);
  } else if constexpr (Node::role == fused_role::user) {
    return Node::call(value_of<Node::a>(f), value_of<Node::b>(f), value_of<Node::c>(f));
  } else {
    using call = operation<Node::code, Stored>;
    if constexpr (Node::arity == 1) return convert<T>(call::of(value_of<Node::a>(f)));
    else if constexpr (Node::arity == 2) return convert<T>(call::of(value_of<Node::a>(f), value_of<Node::b>(f)));
    else return convert<T>(call::of(value_of<Node::a>(f), value_of<Node::b>(f), value_of<Node::c>(f)));
  }
}

/// The loop-invariant entries of a line: literals, loads that do not move, and entries computed of these alone.
template <int N>
struct fixed_entries {
  bool at[N];

  template <class Node>
  constexpr bool holds() const {
    if constexpr (Node::role == fused_role::load || Node::role == fused_role::index) return Node::b == 0;
    else if constexpr (is_literal(Node::role)) return true;
    else if constexpr (Node::role == fused_role::user) return false;
    else return at[Node::a] && (Node::arity < 2 || at[Node::b]) && (Node::arity < 3 || at[Node::c]);
  }
};

/// How many nodes have such a role.
template <class... Nodes, class Is>
constexpr int entries_with(Is is) {
  int n = 0;
  for (const fused_role r : {Nodes::role...}) n += is(r) ? 1 : 0;
  return n;
}

// Packs of nodes are walked through by lists in braces, in order: clang nests no more than 256 operators of a fold.

template <class... T>
struct last_of {
  using type = void;
};
template <class First, class... Rest>
struct last_of<First, Rest...> : last_of<Rest...> {};
template <class Only>
struct last_of<Only> {
  using type = Only;
};

} // namespace detail

/// The whole chain; its value is the last node's. Earlier entries may be results too.
template <int Loads, class... Nodes>
struct fused_expression {
  /// The stored type, and the type that `at` gives: the same but for 16-bit numbers.
  using type = typename detail::last_of<Nodes...>::type::type;
  using value_type = computed<type>;
  static constexpr int loads = Loads;
  static constexpr int entries{sizeof...(Nodes)};
  static constexpr int indices = detail::entries_with<Nodes...>([](fused_role r) { return r == fused_role::index; });
  static constexpr int literals = detail::entries_with<Nodes...>([](fused_role r) { return is_literal(r); });
  using row_type = operand_row<loads, indices, literals>;
  using frame_type = detail::frame<std::make_integer_sequence<int, entries>, Nodes...>;

  /// The value at position i of the inner loop.
  CLEAVE_FUNCTION static value_type at(const row_type& r, std::int64_t i) {
    return detail::value_of<entries - 1>(frame_at(r, i));
  }
  /// The values of all entries there.
  CLEAVE_FUNCTION static frame_type frame_at(const row_type& r, std::int64_t i) {
    return run(r, i, std::make_integer_sequence<int, entries>{});
  }

  /// The loop-invariant entries of a line. Compilers leave them in the loop: divisions could trap if it has no
  /// iterations. All is inlined, however long the expression is: a call in its loop would make it scalar code.
  class line {
   public:
    explicit line(const row_type& r) : r_(r) { fix(std::make_integer_sequence<int, entries>{}); }
    /// Stores the results at position i of the line as element j. All loads come first: a result may overwrite one.
    template <class Pointers>
    [[gnu::always_inline]] void store(std::int64_t i, const Pointers& to, std::int64_t j) const {
      run(i, to, j, std::make_integer_sequence<int, entries>{});
    }

   private:
    template <int... I>
    void fix(std::integer_sequence<int, I...>) {
      const int each[]{fix_entry<I, Nodes>()...};
      static_cast<void>(each);
    }
    template <int I, class Node>
    int fix_entry() {
      if constexpr (fixed.at[I]) detail::set_value<I>(f_, detail::evaluate_node<Node>(f_, r_, 0));
      return 0;
    }
    template <class Pointers, int... I>
    [[gnu::always_inline]] void run(std::int64_t i, const Pointers& to, std::int64_t j,
                                    std::integer_sequence<int, I...>) const {
      auto f = f_;
      const int each[]{run_entry<I, Nodes>(f, i)...};
      static_cast<void>(each);
      to.store(j, f);
    }
    template <int I, class Node, class Frame>
    [[gnu::always_inline]] int run_entry(Frame& f, std::int64_t i) const {
      if constexpr (!fixed.at[I]) detail::set_value<I>(f, detail::evaluate_node<Node>(f, r_, i));
      return 0;
    }

    const row_type& r_;
    frame_type f_;
  };

 private:
  static constexpr detail::fixed_entries<entries> fixed = [] {
    detail::fixed_entries<entries> made{};
    int i = 0;
    const int each[]{(made.at[i] = made.template holds<Nodes>(), ++i)...};
    static_cast<void>(each);
    return made;
  }();
// Every node reads only values that were set before it, which g++ does not see without optimisation.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
  template <int... I>
  CLEAVE_FUNCTION static frame_type run(const row_type& r, std::int64_t i, std::integer_sequence<int, I...>) {
    frame_type f;
    const int each[]{(detail::set_value<I>(f, detail::evaluate_node<Nodes>(f, r, i)), 0)...};
    static_cast<void>(each);
    return f;
  }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
};

namespace detail {
template <class Node>
struct striding_node {
  using type = Node;
};
template <class T, int A, int B, int C>
struct striding_node<fused_node<load_code, T, A, B, C>> {
  using type = fused_node<load_code, T, A, 2, C>;
};
} // namespace detail

/// The same expression with strides of all loads known at run time.
template <class Expression>
struct striding;
template <int Loads, class... Nodes>
struct striding<fused_expression<Loads, Nodes...>> {
  using type = fused_expression<Loads, typename detail::striding_node<Nodes>::type...>;
};

}} // namespace cleave::v0
