// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The operations, one entry each. This list is included several times, each time with other meanings of the macros:
// graph/graph.hpp makes the enumeration of it, ops/table.hpp the table, ops/meaning.hpp the plain meaning of the
// elementwise operations. The order means nothing.
//
//   CLEAVE_OP(op, class, operands, linearity)
//   CLEAVE_REMAP(op, operands, linearity, in_a_row)       of class remap; where it has no meaning, a CLEAVE_OP
//   CLEAVE_ELEMENTWISE(op, operands, linearity, traits, meaning, derivatives...)
//   CLEAVE_INFIX(op, sign, linearity, traits, meaning, derivatives...)    elementwise, with its sign between operands
//
// class        a name of op_class
// operands     how many; 0 where the number is open
// linearity    a name of cleave::linearity
// in_a_row     composes: each dim of the result comes from one dim, by one map, so that a remap before or after it and
//              this one can be one (graph/compose_maps.hpp); else stays
// traits       names of cleave::op_traits, joined by |
// meaning      the result on doubles, of the operands x, y and z. Their element type is `in`, that of the result `out`.
//              The evaluator and the simulator compute it; the kernels have functions of their own in ops/scalar.hpp.
//              Results of integer types wrap by themselves.
// derivatives  the cotangent of each operand, in the letters of cleave::symbols: the operands x, y and z, the result r,
//              and its cotangent g. Empty where no gradient flows. Excluded elements are selected, since 0 times
//              infinity is NaN: select(x > y, g, 0), not g * select(x > y, 1, 0).
//
// A comment begins with the words that users write. Without them, users do not write the operation: the recorder, the
// planner or derivatives make it.

#ifndef CLEAVE_OP
#define CLEAVE_OP(...)
#endif
#ifndef CLEAVE_REMAP
#define CLEAVE_REMAP(code, operands, linearity, in_a_row) CLEAVE_OP(code, remap, operands, linearity)
#endif
#ifndef CLEAVE_ELEMENTWISE
#define CLEAVE_ELEMENTWISE(...)
#endif
#ifndef CLEAVE_INFIX
#define CLEAVE_INFIX(code, sign, linearity, traits, meaning, ...) \
  CLEAVE_ELEMENTWISE(code, 2, linearity, traits, meaning __VA_OPT__(, ) __VA_ARGS__)
#endif

// clang-format off

// Sources.
/// An argument.
CLEAVE_OP(input, source, 0, none)
/// A number.
CLEAVE_OP(constant, source, 0, none)
/// `count`: rank 0, the product of the global extents of some dims, known when the program runs.
CLEAVE_OP(count, source, 0, none)
/// `iota`: the index along a dim.
CLEAVE_OP(iota, source, 0, none)

// Elementwise, one operand.
/// `-x`
CLEAVE_ELEMENTWISE(neg, 1, unary, complex_too, -x, -g)
/// `abs`
CLEAVE_ELEMENTWISE(abs, 1, none, complex_too | to_real, std::fabs(x), select(x == 0, 0, g * sign(x)))
/// `sign`
CLEAVE_ELEMENTWISE(sign, 1, none, plain, x > 0 ? 1 : x < 0 ? -1 : x)
/// `exp`
CLEAVE_ELEMENTWISE(exp, 1, none, complex_too | needs_fractions | slow, std::exp(x), g * r)
/// `expm1`: exp(x) - 1, to full accuracy near 0.
CLEAVE_ELEMENTWISE(expm1, 1, none, needs_fractions | slowest, std::expm1(x), g * exp(x))
/// `log`
CLEAVE_ELEMENTWISE(log, 1, none, complex_too | needs_fractions | slow, std::log(x), g / x)
/// `tanh`
CLEAVE_ELEMENTWISE(tanh, 1, none, complex_too | needs_fractions | slow, std::tanh(x), g * (1 - r * r))
/// `sqrt`
CLEAVE_ELEMENTWISE(sqrt, 1, none, complex_too | needs_fractions, std::sqrt(x), g * 0.5 / r)
/// `rsqrt`
CLEAVE_ELEMENTWISE(rsqrt, 1, none, complex_too | needs_fractions, 1 / std::sqrt(x), g * -0.5 * r * r * r)
/// `erf`
CLEAVE_ELEMENTWISE(erf, 1, none, needs_fractions | slowest, std::erf(x), g * 1.1283791670955126 * applied<bell>(x))
/// `gelu`: in its tanh form.
CLEAVE_ELEMENTWISE(gelu, 1, none, needs_fractions | slowest, 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))),
                   g * gelu_slope())
/// `relu`
CLEAVE_ELEMENTWISE(relu, 1, none, plain, x < 0 ? 0 : x, select(r > 0, g, 0))
/// `sigmoid`
CLEAVE_ELEMENTWISE(sigmoid, 1, none, needs_fractions | slow, 1 / (1 + std::exp(-x)), g * r * (1 - r))
/// `sin`
CLEAVE_ELEMENTWISE(sin, 1, none, complex_too | needs_fractions | slowest, std::sin(x), g * cos(x))
/// `cos`
CLEAVE_ELEMENTWISE(cos, 1, none, complex_too | needs_fractions | slowest, std::cos(x), -(g * sin(x)))
/// `floor`
CLEAVE_ELEMENTWISE(floor, 1, none, plain, std::floor(x))
/// `conj`: the conjugate of a complex number; a real one itself.
CLEAVE_ELEMENTWISE(conj, 1, unary, complex_too, x, g)
/// `real`: of a complex number a part; of a real one itself.
CLEAVE_ELEMENTWISE(real, 1, unary, complex_too | to_real, x, g)
/// `imag`: of a complex number a part; of a real one 0.
CLEAVE_ELEMENTWISE(imag, 1, unary, complex_too | to_real, 0)
/// `!x`
CLEAVE_ELEMENTWISE(logical_not, 1, none, negates, x == 0)
/// `cast`: to an element type that the program names; also a copy, in another memory order.
CLEAVE_ELEMENTWISE(cast, 1, none, complex_too, x, g)
/// `broadcast`: the same values along more dims.
CLEAVE_ELEMENTWISE(broadcast, 1, unary, complex_too, x, g)

// Elementwise, two operands.
/// `a + b`
CLEAVE_INFIX(add, "+", joint, complex_too, x + y, g, g)
/// `a - b`
CLEAVE_INFIX(sub, "-", difference, complex_too, x - y, g, -g)
/// `a * b`
CLEAVE_INFIX(mul, "*", each, complex_too, x * y, g * y, g * x)
/// `a / b`
CLEAVE_INFIX(div, "/", quotient, complex_too, x / y, g / y, -(g * r / y))
/// `pow`
CLEAVE_ELEMENTWISE(pow, 2, none, complex_too | slowest, std::pow(x, y),
                   select(y == 0, 0, g * (y * pow(x, select(y == 0, 1, y - 1)))), select(x == 0, 0, g * r * log(select(x == 0, 1, x))))
/// `maximum`: NaN where either is; equal operands share the gradient.
CLEAVE_ELEMENTWISE(maximum, 2, none, plain, x > y || std::isnan(x) ? x : y,
                   select(x == y, 0.5 * g, select(x > y, g, 0)), select(x == y, 0.5 * g, select(y > x, g, 0)))
/// `minimum`: NaN where either is; equal operands share the gradient.
CLEAVE_ELEMENTWISE(minimum, 2, none, plain, x < y || std::isnan(x) ? x : y,
                   select(x == y, 0.5 * g, select(y > x, g, 0)), select(x == y, 0.5 * g, select(x > y, g, 0)))
/// `complex`: a complex number from its parts. Arrays of doubles hold none.
CLEAVE_ELEMENTWISE(complex, 2, joint, to_complex, 0)
/// `a == b`
CLEAVE_INFIX(equal, "==", none, complex_too | to_bool, x == y)
/// `a != b`
CLEAVE_INFIX(not_equal, "!=", none, complex_too | to_bool, x != y)
/// `a < b`
CLEAVE_INFIX(less, "<", none, to_bool, x < y)
/// `a <= b`
CLEAVE_INFIX(less_equal, "<=", none, to_bool, x <= y)
/// `a > b`
CLEAVE_INFIX(greater, ">", none, to_bool, x > y)
/// `a >= b`
CLEAVE_INFIX(greater_equal, ">=", none, to_bool, x >= y)
/// `a & b`
CLEAVE_INFIX(logical_and, "&", none, plain, x != 0 && y != 0)
/// `a | b`
CLEAVE_INFIX(logical_or, "|", none, plain, x != 0 || y != 0)

// Elementwise, three operands.
/// `select`
CLEAVE_ELEMENTWISE(select, 3, branches, complex_too | by_predicate, x != 0 ? y : z,
                   formula(), select(x, g, 0), select(x, 0, g))
/// `random_bits, uniform`: of a key, a row and a column, all u64, see ops/philox.hpp: 32 bits where the result is u32,
/// uniform in [0, 1) where it is a floating-point type.
CLEAVE_ELEMENTWISE(random, 3, none, slowest, random_of(op::random, out, x, y, z))
/// `normal`: the same with mean 0 and variance 1.
CLEAVE_ELEMENTWISE(normal, 3, none, slowest, random_of(op::normal, out, x, y, z))
/// `operation<F>`: a user's, of any arity, see ops/user.hpp. Its entry has its meaning and its derivatives.
CLEAVE_OP(user, elementwise, 0, none)

// Contraction and reduction.
/// `dot`
CLEAVE_OP(dot, contraction, 2, each)
/// `sum, max, min, prod`
CLEAVE_OP(reduce, reduction, 1, unary)
/// `call<Op>, local<Op>`: a user's kernel on shards.
CLEAVE_OP(call, call, 0, none)

// Each element from another index: layout/index_map.hpp.
/// `slice`
CLEAVE_REMAP(slice, 1, first, composes)
/// `pad`
CLEAVE_REMAP(pad, 1, first, composes)
/// `shift`
CLEAVE_REMAP(shift, 1, first, composes)
/// `roll`
CLEAVE_REMAP(roll, 1, first, composes)
/// `flip`
CLEAVE_REMAP(flip, 1, first, composes)
/// `repeat`
CLEAVE_REMAP(repeat, 1, first, composes)
/// `tile`
CLEAVE_REMAP(tile, 1, first, composes)
/// `rotate_halves`: the halves of a dim exchanged, before one of them changes its sign.
CLEAVE_REMAP(rotate_halves, 1, first, stays)
/// `diagonal`
CLEAVE_REMAP(diagonal, 1, first, stays)
/// `concat`
CLEAVE_REMAP(concat, 0, none, composes)
/// A merge whose blocks do not nest, where moving elements is cheaper than gathering dims.
CLEAVE_REMAP(merge_blocks, 1, first, stays)
/// `windows`: the elements around each index, along an additional dim.
CLEAVE_REMAP(windows, 1, first, composes)
/// The adjoint of windows: adds up the elements that overlap.
CLEAVE_REMAP(fold_windows, 1, first, stays)
/// `dynamic_slice`
CLEAVE_REMAP(dynamic_slice, 2, first, stays)
/// `dynamic_update`: an update at its place in the updated tensor, with 0 around it.
CLEAVE_REMAP(dynamic_pad, 2, first, stays)

// Rows at indices, and operations that depend on the other elements of a slice.
/// `gather`: rows of a table at indices that an operand names.
CLEAVE_OP(gather, gather, 2, first)
/// `scatter_add`: the reverse, rows added up in a table of zeros.
CLEAVE_OP(scatter_add, scatter, 2, first)
/// `cumulative_sum, cumulative_prod, cumulative_max, cumulative_min`
CLEAVE_OP(cumulative, cumulative, 1, none)
/// A running sum that is multiplied by a factor at each element before the next one is added: the adjoint of running
/// products.
CLEAVE_OP(recurrence, cumulative, 2, none)
/// `sort`: the elements of each slice along a dim in order.
CLEAVE_OP(sort, sort, 1, none)
/// `argsort`: the indices at which the sorted elements were.
CLEAVE_OP(argsort, sort, 1, none)
/// `searchsorted`: where values would stand in sorted slices.
CLEAVE_OP(searchsorted, sort, 2, none)

// Where loops begin and end.
/// `scan, repeat_times`: a value that goes from one iteration to the next. Its operand is the value before the first
/// iteration; op::loop_yield sets the next one.
CLEAVE_OP(carry, loop, 1, none)
/// The part of an operand at the index of the iteration along the dim of the loop.
CLEAVE_OP(loop_slice, loop, 1, none)
/// The next value of a carried value.
CLEAVE_OP(loop_yield, loop, 2, none)
/// A carried value after the last iteration.
CLEAVE_OP(loop_result, loop, 1, none)
/// A value of every iteration, stacked along the dim of the loop.
CLEAVE_OP(loop_stack, loop, 1, none)
/// `cond`: how often a loop runs that runs along no dim, a number, or once if a predicate holds.
CLEAVE_OP(trip_count, loop, 1, none)
/// `repeat_until`: a predicate after which there is no other iteration.
CLEAVE_OP(break_if, loop, 1, none)

// The same elements under other dims.
/// `rename`
CLEAVE_OP(rename, view, 1, unary)
/// `split`
CLEAVE_OP(split, view, 1, unary)
/// `merge`
CLEAVE_OP(merge, view, 1, unary)

// Annotations: layouts.
/// `constrain`
CLEAVE_OP(constrain, annotation, 1, unary)
/// `reshard`
CLEAVE_OP(reshard, annotation, 1, unary)
// Annotations: derivatives.
/// Another name for a value.
CLEAVE_OP(identity, annotation, 1, unary)
/// `stop_gradient`
CLEAVE_OP(stop_gradient, annotation, 1, unary)
/// Operations behind it are computed again, never shared with equal ones before it.
CLEAVE_OP(barrier, annotation, 1, unary)

// clang-format on

#undef CLEAVE_OP
#undef CLEAVE_REMAP
#undef CLEAVE_ELEMENTWISE
#undef CLEAVE_INFIX
