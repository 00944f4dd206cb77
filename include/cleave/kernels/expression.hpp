// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/kernels/loops.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/storage/memory.hpp>

#include <cstdint>
#include <utility>

// The chain of operations of a step as a type: a list of nodes, made of plain types and ints only, so that kernels are
// shared by all steps that compute the same, whatever their layouts, and every compiler can name them.

namespace cleave { inline namespace v0 {

CLEAVE_FUNCTION constexpr bool is_literal(fused_role r) { return r == fused_role::constant || r == fused_role::count; }

/// The operands of an expression at one position of the outer loops.
template <int Loads, int Indices, int Literals>
struct operand_row {
  const void* at[Loads > 0 ? Loads : 1];
  std::int64_t step[Loads > 0 ? Loads : 1];
  std::int64_t index[Indices > 0 ? Indices : 1];
  double literal[Literals > 0 ? Literals : 1];
};

namespace detail {

/// The function of an operation whose results are stored as `Stored`: that of ops/scalar.hpp, but for the ops below.
template <op Code, class Stored>
struct operation {
  template <class In, class... More>
  CLEAVE_FUNCTION static auto of(In a, More... b) {
    return scalar_op<Code, In>::of(a, b...);
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

/// In place of an operand that an entry does not have.
struct no_value {};
inline constexpr int no_entry = -1;

template <class F, class X>
CLEAVE_FUNCTION inline auto applied(X x, no_value, no_value) {
  return F::of(x);
}
template <class F, class X, class Y>
CLEAVE_FUNCTION inline auto applied(X x, Y y, no_value) {
  return F::of(x, y);
}
template <class F, class X, class Y, class Z>
CLEAVE_FUNCTION inline auto applied(X x, Y y, Z z) {
  return F::of(x, y, z);
}
/// The value of an entry, in the type in which its own type is computed. `a`: which load, index or literal it is;
/// `Inner`: the class of its stride along the inner dim, if it has one.
template <op Code, fused_role Role, class Stored, int Inner>
struct entry_meaning {
  using T = computed<Stored>;
  template <class Row, class... In>
  [[gnu::always_inline]] CLEAVE_FUNCTION static T of(const Row& r, std::int64_t i, int a, In... in) {
    if constexpr (Role == fused_role::load) {
      const std::int64_t element = Inner == 0 ? 0 : Inner == 1 ? i : i * r.step[a];
      // g++ makes no vector code of loads of one bit.
      if constexpr (std::is_same_v<Stored, bool>) return as<std::uint8_t>(r.at[a])[element] != 0;
      else return as<Stored>(r.at[a])[element];
    } else if constexpr (is_literal(Role)) {
      return convert<T>(r.literal[a]);
    } else if constexpr (Role == fused_role::index) {
      // Indices of 32 bits are computed in 32 bits, of which a vector has twice as many.
      if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
        return static_cast<T>(static_cast<std::uint32_t>(r.index[a]) + static_cast<std::uint32_t>(i) * Inner);
      else return convert<T>(r.index[a] + i * Inner);
    } else {
      return convert<T>(applied<operation<Code, Stored>>(in...));
    }
  }
};

} // namespace detail

/// One operation of a fused expression. `Code` is an op; T the type of its result; the ints say where its operands are:
/// op::input:    A the operand of the loop, B the class of its stride along the inner dim (0, 1, or 2: known when it
///               runs)
/// op::constant: A the literal (op::count too)
/// op::iota:     A the index, B its stride along the inner dim (0 or 1)
/// op::equal:    A, B entries before this one; C 1 or 2 if A or B is a label (fused_op::arg)
/// others:       A, B, C entries before this one
///
/// `x`, `y` and `z` are the entries that it reads, none if it reads fewer; `meaning` is the function that computes it.
/// Functions of single nodes would be compiled for each node of each expression.
template <int Code, class T, int A = 0, int B = 0, int C = 0>
struct fused_node {
  using type = T;
  static constexpr op code = static_cast<op>(Code);
  static constexpr fused_role role = role_of(code);
  static constexpr int arity = role == fused_role::operation ? entry_of(code).arity : 0;
  static constexpr int a = A, b = B, c = C;
  static constexpr int x = arity > 0 ? A : detail::no_entry, y = arity > 1 ? B : detail::no_entry,
                       z = arity > 2 ? C : detail::no_entry;
  using meaning = detail::entry_meaning<code, role, T, role == fused_role::operation ? 0 : B>;
  /// Which operand is a label, counted from 1; 0: none.
  static constexpr int label = code == op::equal ? C : 0;
};

inline constexpr int load_code{underlying(op::input)};

/// An entry that a user's function computes, of three operands: a pointer known when compiling, so that it is inlined.
template <auto Function, class T, int A, int B, int C>
struct user_node {
  using type = T;
  static constexpr fused_role role = fused_role::user;
  static constexpr int a = A, b = B, c = C, label = 0, x = A, y = B, z = C;
  using meaning = user_node;
  template <class Row>
  [[gnu::always_inline]] CLEAVE_FUNCTION static computed<T> of(const Row&, std::int64_t, int, computed<T> first,
                                                               computed<T> second, computed<T> third) {
    return Function(first, second, third);
  }
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
struct frame<std::integer_sequence<int, I...>, Nodes...> : cell<no_entry, no_value>,
                                                           cell<I, computed<typename Nodes::type>>... {};
/// The type of the value of an entry whose results are stored as E.
template <element E>
struct value_in : std::type_identity<computed<typename element_type<E>::type>> {};
template <>
struct value_in<element::none> : std::type_identity<no_value> {};

struct entry_reads {
  fused_role role;
  int inner, x, y, z;
};
/// Which entries do not change along a line: literals, loads that do not move, and entries computed of these alone.
template <int N>
struct entry_facts {
  bool fixed[N];
  int indices = 0, literals = 0;
  bool strides = false;

  constexpr explicit entry_facts(const entry_reads (&entries)[N]) : fixed{} {
    const auto is_fixed = [&](int e) { return e == no_entry || fixed[e]; };
    for (int i = 0; i < N; ++i) {
      const entry_reads& e = entries[i];
      if (e.role == fused_role::load || e.role == fused_role::index) fixed[i] = e.inner == 0;
      else fixed[i] = e.role != fused_role::user && is_fixed(e.x) && is_fixed(e.y) && is_fixed(e.z);
      strides = strides || (e.role == fused_role::load && e.inner == 2);
      indices += e.role == fused_role::index ? 1 : 0;
      literals += is_literal(e.role) ? 1 : 0;
    }
  }
};
/// Which entries are computed.
enum class entries_set : std::uint8_t { all, fixed, moving };

// Packs of nodes are walked through by lists in braces, in order: clang nests no more than 256 operators of a fold.

} // namespace detail

/// The whole chain; its value is the last node's. Earlier entries may be results too.
template <int Loads, class... Nodes>
struct fused_expression {
  /// The elements as which values are stored, by entry, counted from 1.
  static constexpr element stored[1 + sizeof...(Nodes)]{element::none, element_of<typename Nodes::type>...};
  /// The stored type, and the type that `at` gives: the same but for 16-bit numbers.
  using type = typename element_type<stored[sizeof...(Nodes)]>::type;
  using value_type = computed<type>;
  static constexpr int loads = Loads;
  static constexpr int entries{sizeof...(Nodes)};
  static constexpr detail::entry_reads reads[entries]{{Nodes::role, Nodes::b, Nodes::x, Nodes::y, Nodes::z}...};
  static constexpr detail::entry_facts<entries> facts{reads};
  static constexpr int indices = facts.indices, literals = facts.literals;
  using row_type = operand_row<loads, indices, literals>;
  using frame_type = detail::frame<std::make_integer_sequence<int, entries>, Nodes...>;

  template <int Entry>
  using cell_at = detail::cell<Entry, typename detail::value_in<stored[Entry + 1]>::type>;

  /// The value at position i of the inner loop.
  CLEAVE_FUNCTION static value_type at(const row_type& r, std::int64_t i) {
    const frame_type f = frame_at(r, i);
    return static_cast<const cell_at<entries - 1>&>(f).value;
  }
  /// The values of all entries there.
  CLEAVE_FUNCTION static frame_type frame_at(const row_type& r, std::int64_t i) {
    frame_type f;
    compute<detail::entries_set::all>(f, r, i, std::make_integer_sequence<int, entries>{});
    return f;
  }

  /// The loop-invariant entries of a line. Compilers leave them in the loop: divisions could trap if it has no
  /// iterations. All is inlined, however long the expression is: a call in its loop would make it scalar code.
  class line {
   public:
    explicit line(const row_type& r) : r_(r) {
      compute<detail::entries_set::fixed>(f_, r_, 0, std::make_integer_sequence<int, entries>{});
    }
    /// Stores the results at position i of the line as element j. All loads come first: a result may overwrite one.
    template <class Pointers>
    [[gnu::always_inline]] void store(std::int64_t i, const Pointers& to, std::int64_t j) const {
      auto f = f_;
      compute<detail::entries_set::moving>(f, r_, i, std::make_integer_sequence<int, entries>{});
      to.store(j, f);
    }

   private:
    const row_type& r_;
    // Set, also where an entry is computed in the loop: `store` copies all of it, which g++ takes for a mistake.
    frame_type f_{};
  };

 private:
  /// Sets the values of some entries, in order. One function for all of them: functions or variables for single entries
  /// would take most of the time of the compiler, since the name of each has the whole expression.
  template <detail::entries_set Set, int... I>
  [[gnu::always_inline]] CLEAVE_FUNCTION static void compute(frame_type& f, const row_type& r, std::int64_t i,
                                                             std::integer_sequence<int, I...>) {
    const int each[]{(std::bool_constant<(Set == detail::entries_set::all ||
                                          facts.fixed[I] == (Set == detail::entries_set::fixed))>::value
                          ? static_cast<void>(static_cast<cell_at<I>&>(f).value = Nodes::meaning::of(
                                                  r, i, Nodes::a, static_cast<const cell_at<Nodes::x>&>(f).value,
                                                  static_cast<const cell_at<Nodes::y>&>(f).value,
                                                  static_cast<const cell_at<Nodes::z>&>(f).value))
                          : static_cast<void>(0),
                      0)...};
    static_cast<void>(each);
  }
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

// From the loops of a step to the operands of one line of its expression.

/// Moves an operand of a line.
template <class T, class Row>
CLEAVE_FUNCTION inline void move_load(Row& r, int load, const std::int64_t* offset) {
  r.at[load] = as<T>(r.at[load]) + offset[load];
}

/// Lines of an expression: where its operands are at position 0 of the inner loop.
template <class Expression>
struct row_maker;
template <int Loads, class... Nodes>
struct row_maker<fused_expression<Loads, Nodes...>> {
  using expression_type = fused_expression<Loads, Nodes...>;
  using row_type = typename expression_type::row_type;

  /// The array of the result, among those that are walked through.
  static constexpr int result = expression_type::loads + expression_type::indices;
  static constexpr int walked = result + 1;
  /// Whether a load strides along the inner loop.
  static constexpr bool strides = expression_type::facts.strides;

  /// The line where all loops begin. `step`: how far each load moves with the inner loop.
  static row_type start(const bound_loops& l, const void* const* from, const std::int64_t* step) {
    row_type r;
    for (int k = 0; k < expression_type::loads; ++k) {
      r.at[k] = from[k];
      r.step[k] = step[k];
    }
    for (int k = 0; k < expression_type::indices; ++k) r.index[k] = l.index_base[k];
    for (int k = 0; k < expression_type::literals; ++k) r.literal[k] = l.literals[k];
    return r;
  }
  /// The line that begins `offset` further along each array, the loads' first.
  CLEAVE_FUNCTION static row_type moved(row_type r, const std::int64_t* offset) {
    const int each[]{
        (Nodes::role == fused_role::load ? move_load<typename Nodes::type>(r, Nodes::a, offset) : static_cast<void>(0),
         0)...};
    static_cast<void>(each);
    for (int k = 0; k < expression_type::indices; ++k) r.index[k] += offset[expression_type::loads + k];
    return r;
  }
};

}} // namespace cleave::v0
