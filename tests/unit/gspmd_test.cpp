// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The smallest programs of those that moved more than GSPMD does (tests/oracle/against_jax.py), one for each rule that
// was missing. The bytes are those of the plan that is meant.
#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/simulate/simulate.hpp>

#include <gtest/gtest.h>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr std::string_view x = "x", y = "y";
const dim_ref row{"row", 24}, column{"column", 16}, double_column{"double column", 32}, none{"none", 0};

struct sharded {
  dim_ref dim;
  std::vector<std::string_view> axes{};
};
/// A layout on a mesh of 4 x 2 devices.
spec laid_out(std::initializer_list<sharded> dims) {
  spec s;
  s.mesh.axes = {{x, 4}, {y, 2}};
  for (const sharded& d : dims) {
    placement p(d.dim);
    for (std::string_view axis : d.axes) p.axes.push_back(axis);
    s.dims.push_back(p);
  }
  return s;
}

/// The bytes of a function's plan for the fewest bytes, products done once; its simulation must give what the plain
/// evaluator gives.
template <class F>
std::int64_t bytes_of(F function, std::initializer_list<spec> arguments, const spec& result) {
  recorder in(result.mesh);
  std::vector<value> given;
  for (const spec& s : arguments) given.push_back(in.input(element::f64, s));
  in.output(function(given), element::f64, result);
  const graph g = in.take();
  EXPECT_TRUE(g.found.ok());
  const sizes at = sizes_for(g);
  const program p = partition(g, at, policy::bytes_first(1));
  EXPECT_TRUE(p.found.ok());
  std::vector<host_array> values;
  for (node_id input : g.inputs) {
    values.emplace_back(shape_of(g.nodes[input].type, at));
    for (std::size_t i = 0; i < values.back().data.size(); ++i)
      values.back().data[i] = static_cast<double>((i * 37 + 11) % 64) / 16 - 2;
  }
  const auto want = evaluate(g, at, values);
  const simulated got = simulate(p, at, values);
  EXPECT_EQ(got.problem, "");
  EXPECT_EQ(first_difference(want[0].data, got.results[0].data, 1e-12), -1);
  return bytes(p, at);
}

using values = const std::vector<value>&;

TEST(MovesNoMoreThanGspmd, EveryDeviceMakesAnOuterProductOfWhatItHas) {
  EXPECT_EQ(bytes_of([](values v) { return dot(v[0], v[1]); }, {laid_out({{row}}), laid_out({{column}})},
                     laid_out({{row}, {column}})),
            0);
}
TEST(MovesNoMoreThanGspmd, WhatIsWholeIsSlicedBehindAFlip) {
  EXPECT_EQ(bytes_of([](values v) { return flip(sin(v[0]), row); }, {laid_out({{row}, {column}})},
                     laid_out({{row, {x}}, {column}})),
            0);
}
TEST(MovesNoMoreThanGspmd, ASoftmaxIsMovedOnceBehindIt) {
  // An all-to-all of the result's 12 x 16 elements that a device of y has; x has 4 devices.
  EXPECT_EQ(bytes_of([](values v) { return exp(v[0]) / sum(exp(v[0]), column); }, {laid_out({{row, {x}}, {column}})},
                     laid_out({{row}, {column, {x}}})),
            24 * 16 / 4 * 3 / 4 * 8);
}
TEST(MovesNoMoreThanGspmd, WhatHasNoElementsMovesNothing) {
  EXPECT_EQ(bytes_of([](values v) { return slice(shift(v[0], row, 1) + v[0], row, none, 20, 20); },
                     {laid_out({{row, {x}}, {column}})}, laid_out({{none}, {column}})),
            0);
}
TEST(MovesNoMoreThanGspmd, AnExchangeGoesWhereItsReadersAreWanted) {
  // The pieces are exchanged as they become whole: 24 x 16 elements each.
  EXPECT_EQ(bytes_of([](values v) { return sin(concat(double_column, piece(v[0], column), piece(v[1], column))); },
                     {laid_out({{row}, {column, {x}}}), laid_out({{row}, {column, {x}}})},
                     laid_out({{row, {x}}, {double_column}})),
            2 * 24 * 16 / 4 * 3 / 4 * 8);
}
TEST(MovesNoMoreThanGspmd, PartialValuesAreScatteredBeforeTheyAreReducedFurther) {
  const dim_ref deep{"deep", 8};
  // 24 x 16 partial values, of which a device of x and y keeps an eighth; then 2 columns of it go from y to x.
  const std::int64_t scattered = 24 * 16 / 8 * 7 * 8;
  EXPECT_LE(bytes_of([&](values v) { return max(max(v[0], deep), row); }, {laid_out({{deep, {x, y}}, {row}, {column}})},
                     laid_out({{column, {y}}})),
            scattered + 64);
}
TEST(MovesNoMoreThanGspmd, WhatALoopReadsIsMovedToAnotherDimBefore) {
  // Every iteration needs a row: an all-to-all over x from rows to the columns of which a device of y has half, instead
  // of all rows on every device, and nothing for the sum with which it begins. The halves of the result are gathered.
  const auto totals = [](values v) {
    return scan(row, sum(v[0], row), v[0],
                [](value total, value each) {
                  const value next = total + sin(each) * total;
                  return std::pair(next, next);
                })
        .first;
  };
  EXPECT_EQ(bytes_of(totals, {laid_out({{row, {x}}, {column}})}, laid_out({{column, {x}}})),
            24 * 16 / 4 / 2 * 3 / 4 * 8 + 16 / 4 / 2 * 8);
}
TEST(MovesNoMoreThanGspmd, SeveralOperationsChangeTogether) {
  // The quotient is computed where its operands are, which moves nothing before it, and is moved once: 24 x 16 x 8
  // elements over all devices. Neither the quotient nor the sum that it divides by would change alone.
  const dim_ref deep{"deep", 8}, pairs{"pairs", 12}, pair{"pair", 2};
  EXPECT_EQ(bytes_of(
                [&](values v) {
                  const value e = exp(split(v[0], row, pairs, pair));
                  return e / sum(e, pair);
                },
                {laid_out({{row, {x}}, {column, {y}}, {deep}})},
                laid_out({{pair, {y}}, {column}, {deep, {x}}, {pairs}})),
            24 * 16 * 8 / 8 * 7 / 8 * 8);
}
TEST(MovesNoMoreThanGspmd, AnExchangeFollowsWhatItReads) {
  const dim_ref twice{"twice", 32}, padded{"padded", 64};
  // Columns are gathered once, and all else is done where they are.
  EXPECT_EQ(bytes_of([&](values v) { return pad(tile(v[0], column, twice, 2), twice, padded, 1, 0, 1); },
                     {laid_out({{row}, {column, {y}}})}, laid_out({{row}, {padded, {x}}})),
            24 * 16 / 2 * 8);
}
TEST(MovesNoMoreThanGspmd, AConstantIsMadeInEachLayoutInWhichItIsRead) {
  // Two loops begin with the same zeros, each in its own layout. Only their totals are summed, in one all-reduce.
  const auto totals = [](values v) {
    recorder& in = *v[0].in;
    const value zeros = in.broadcast(in.constant(0, element::f64, {}), in.at(v[0]).type, {});
    const value across = repeat_times(2, zeros, [&](value total) { return sin(total) + v[0]; });
    const value along = repeat_times(2, zeros, [&](value total) { return sin(total) + v[1]; });
    return sum(across) + sum(along);
  };
  EXPECT_EQ(bytes_of(totals, {laid_out({{row, {x}}, {column}}), laid_out({{row}, {column, {x}}})}, laid_out({})),
            2 * 3 * 8 / 4);
}
TEST(MovesNoMoreThanGspmd, WhatALoopCarriesIsKeptAsItIsNeededBehindIt) {
  // The argument is whole, so that the loop is computed on every device, and what is tiled is there.
  const auto tiled = [](values v) {
    return tile(sin(repeat_times(2, v[0], [](value u) { return cos(u); })), column, double_column, 2);
  };
  EXPECT_EQ(bytes_of(tiled, {laid_out({{row}, {column}})}, laid_out({{row}, {double_column, {x}}})), 0);
  // The same of a branch, which is two loops of one iteration or of none, the first of which begins with zeros.
  const auto chosen = [](values v) {
    const value either = cond(sum(v[0]) > 0, [](value u) { return sin(u); }, [](value u) { return cos(u); }, v[0]);
    return tile(sin(either), column, double_column, 2);
  };
  EXPECT_EQ(bytes_of(chosen, {laid_out({{row}, {column}})}, laid_out({{row}, {double_column, {x}}})), 0);
}
TEST(MovesNoMoreThanGspmd, WhatIsReadSeveralTimesIsGatheredOnce) {
  const dim_ref thrice{"thrice", 48};
  const auto three = [&](values v) {
    return concat(thrice, piece(v[0], column), piece(v[0], column), piece(v[0], column));
  };
  EXPECT_EQ(bytes_of(three, {laid_out({{row}, {column, {x}}})}, laid_out({{row}, {thrice}})), 24 * 16 * 3 / 4 * 8);
}
TEST(MovesNoMoreThanGspmd, WhatIsTiledGoesToAnotherDimFromWhereItIs) {
  // Rows are sorted on all devices by columns; one all-to-all takes these back to rows, along which nothing is tiled.
  const auto spread = [](values v) { return variance(tile(sort(v[0], row), column, double_column, 2)); };
  const std::int64_t all_to_all = 24 * 16 / 8 * 7 / 8 * 8, totals = 2 * 8 * 7 / 8;
  EXPECT_EQ(bytes_of(spread, {laid_out({{row, {y, x}}, {column}})}, laid_out({})), 2 * all_to_all + 2 * totals);
}
TEST(MovesNoMoreThanGspmd, WhatSeveralReadersMoveIsMovedOnceForAllOfThem) {
  // Each of the greatest rows takes the one before it: one all-to-all brings whole columns to all of them at once, of
  // the half that a device of y computes. 8 maxima are scattered; in the end columns go from y, x to x.
  const dim_ref three{"three", 3};
  const std::int64_t all_to_all = 24 * 8 / 4 * 3 / 4 * 8, scattered = 8 * 8 * 3 / 4;
  const auto greatest = [&](values v) { return top_k(v[0], row, three).first; };
  EXPECT_EQ(bytes_of(greatest, {laid_out({{row, {x}}, {column}})}, laid_out({{three}, {column, {x}}})),
            all_to_all + scattered + 3 * 4 * 8);
  // Three reductions of the same rows, and differences from them.
  const auto softer = [](value u) { return u - logsumexp(u, row); };
  const auto softest = [&](values v) { return max(softer(softer(softer(v[0]))), row); };
  EXPECT_EQ(bytes_of(softest, {laid_out({{row, {x}}, {column}})}, laid_out({{column, {x}}})),
            all_to_all + scattered + 4 * 8);
}
TEST(MovesNoMoreThanGspmd, WhatLoopsAndBranchesReadIsMovedBeforeThem) {
  const std::int64_t all_to_all = 24 * 16 / 4 * 3 / 4 * 8;
  const auto repeated = [](values v) {
    return repeat_times(3, v[1], [&](value u) { return u + sort(v[0] * u, row); });
  };
  const spec by_row = laid_out({{row, {x}}, {column}}), by_column = laid_out({{row}, {column, {x}}});
  EXPECT_EQ(bytes_of(repeated, {by_row, by_column}, by_column), all_to_all);
  // Both branches need whole columns, and so does what is behind them.
  const auto chosen = [](values v) {
    return sort(
        cond(v[1] > 0.0, [](value u) { return sort(u, row); }, [](value u) { return flip(u, row); }, v[0]), row);
  };
  EXPECT_EQ(bytes_of(chosen, {by_row, laid_out({})}, by_column), all_to_all);
}
TEST(MovesNoMoreThanGspmd, AllThatIsMadeOfAValueIsWhereTheValueIs) {
  // The two elements of each device are exchanged once, at the end: those in the other order of the axes are moved by
  // none of the operations before.
  const auto reversed = [](values v) {
    const value least = min(v[0], row);
    return flip(interior(least, least, 2, column), column);
  };
  EXPECT_EQ(bytes_of(reversed, {laid_out({{row}, {column, {x, y}}})}, laid_out({{column, {y, x}}})), 2 * 8);
}
TEST(MovesNoMoreThanGspmd, PartialValuesAreScatteredBeforeAllThatIsMadeOfThem) {
  // Of the 8 columns of each device of y, sums are scattered over the four devices of x, and one number is reduced: the
  // branches need no whole sums. In the end columns go from y, x to x.
  const auto chosen = [](values v) {
    const value total = sum(v[0], row);
    return cond(sum(total) > 0.0, [](value u) { return sin(u); }, [](value u) { return u * u; }, total);
  };
  EXPECT_EQ(bytes_of(chosen, {laid_out({{row, {x}}, {column}})}, laid_out({{column, {x}}})),
            8 * 8 * 3 / 4 + 2 * 7 + 4 * 8);
  // Six rows of eight maxima are scattered over y, and the halves of them that remain are moved, once.
  const dim_ref deep{"deep", 8};
  const auto turned = [](values v) { return roll(max(v[0], column), row, 12); };
  EXPECT_EQ(bytes_of(turned, {laid_out({{row, {x}}, {column, {y}}, {deep}})}, laid_out({{row, {y, x}}, {deep}})),
            6 * 8 * 8 / 2 + 3 * 8 * 8);
}
TEST(MovesNoMoreThanGspmd, WhatIsSlicedInTheEndIsSlicedFirst) {
  // A device of y needs one of the two columns that are repeated, for the rows of a device of x.
  const dim_ref two{"two", 2}, six{"six", 6}, more{"more", 28};
  const auto padded = [&](values v) { return pad(sigmoid(repeat(v[0], two, six, 3)), row, more, 2, 2, 0, 2.25); };
  EXPECT_EQ(bytes_of(padded, {laid_out({{row, {y}}, {two}})}, laid_out({{more, {y}}, {six, {x}}})), 0);
}
TEST(MovesNoMoreThanGspmd, WhatLiesBetweenWindowsIsNotMoved) {
  const dim_ref two{"two", 2}, pair{"pair", 2}, three{"three", 3}, single{"single", 1};
  // Columns 0 and 8, 7 and 15: four of 16, of which each device has one.
  const auto some = [&](values v) { return windows(v[0], window{column, two, pair, 7, 8, 0, 0, border::zero}); };
  EXPECT_EQ(bytes_of(some, {laid_out({{row}, {column, {x}}})}, laid_out({{row}, {two}, {pair}})), 24 * 3 * 8);
  // A single row that is mirrored is that row again, and is moved once.
  const auto mirrored = [&](values v) {
    return windows(v[0], window{single, single, three, 1, 1, 1, 1, border::reflect},
                   window{column, column, pair, 1, 1, 0, 1, border::zero});
  };
  EXPECT_EQ(bytes_of(mirrored, {laid_out({{single}, {column, {x}}})}, laid_out({{single}, {column}, {pair}, {three}})),
            16 * 3 / 4 * 8);
}
TEST(MovesNoMoreThanGspmd, ASplitWhosePartsDoNotNestMovesSingleElements) {
  // Six rows a device, of which the second has one of those whose number has the remainder 1 by 4: five come to it.
  const dim_ref six{"six", 6}, four{"four", 4};
  const auto parts = [&](values v) { return split(v[0], row, six, four); };
  EXPECT_EQ(bytes_of(parts, {laid_out({{row, {x}}, {column}})}, laid_out({{six}, {four, {x}}, {column}})), 5 * 16 * 8);
  // Sharded by the other part, over axes that do not divide it, the first two devices have two of six, the third none.
  EXPECT_LE(bytes_of(parts, {laid_out({{row, {x, y}}, {column}})}, laid_out({{six, {x}}, {four}, {column}})),
            2 * 4 * 16 * 8);
}
TEST(MovesNoMoreThanGspmd, WhatIsLeftOfAReductionIsReversed) {
  // Each device of y reduces what it has of 4 columns; the 4 go to the devices that have the reversed ones.
  const auto greatest = [](values v) { return max(flip(v[0], column), row); };
  const spec argument = laid_out({{row, {y}}, {column, {x}}});
  EXPECT_LE(bytes_of(greatest, {argument}, laid_out({{column, {x}}})), 4 * 8 + 4 * 8);
  // No order matters to a sum over all, nor to the elements of which it is one, nor to what other dims have.
  const auto rolled = [](values v) {
    const value other = roll(v[0], column, 3);
    return sum(other * sin(other) + v[1]);
  };
  EXPECT_EQ(bytes_of(rolled, {argument, laid_out({{row, {y}}})}, laid_out({})), 2 * 8 * 7 / 8);
  // Nor if a reduction over other dims comes before it, as in a softmax.
  const auto shares = [](values v) {
    const value other = flip(v[0], column);
    const value share = exp(other - max(other, row));
    return sum(share / sum(share, row) * sin(share));
  };
  EXPECT_EQ(bytes_of(shares, {laid_out({{row}, {column, {x}}})}, laid_out({})), 2 * 8 * 3 / 4);
  // Nor to what is put back, such as a gradient.
  const auto restored = [](values v) {
    const value other = roll(flip(v[0], column), row, 5);
    const value back = roll(flip(other * sin(other) - sum(cos(other), row), column), row, -5);
    return back + v[0];
  };
  EXPECT_EQ(bytes_of(restored, {laid_out({{row}, {column, {x}}})}, laid_out({{row}, {column, {x}}})), 0);
  // What is wanted anyway is reversed once, and summed as it is wanted.
  const auto both = [](values v) {
    const value other = flip(v[0], column);
    return other / sum(other, row);
  };
  EXPECT_EQ(bytes_of(both, {laid_out({{row}, {column, {x}}})}, laid_out({{row}, {column, {x}}})), 24 * 4 * 8);
}
TEST(MovesNoMoreThanGspmd, EqualElementsAreInAnyOrder) {
  // What is broadcast along columns is the same in reverse.
  const auto broadcast = [](values v) {
    recorder& in = *v[1].in;
    return flip(in.broadcast(v[0], in.at(v[1]).type, {}), column) * v[1];
  };
  const spec matrix = laid_out({{row}, {column, {x}}});
  EXPECT_EQ(bytes_of(broadcast, {laid_out({{row}}), matrix}, matrix), 0);
}
TEST(MovesNoMoreThanGspmd, WhatHasNoElementsIsNotComputed) {
  // The reduced factor is not needed for a product that has none.
  const auto product = [](values v) { return slice(v[0], row, none, 20, 20) * max(v[1], row); };
  const spec argument = laid_out({{row, {x}}, {column}});
  EXPECT_EQ(bytes_of(product, {argument, argument}, laid_out({{none}, {column}})), 0);
}
TEST(MovesNoMoreThanGspmd, WhatIsAlwaysTheSameIsNotComputed) {
  const spec sharded = laid_out({{row, {x}}, {column}}), whole = laid_out({{row}, {column}});
  const auto none_moves = [&](const auto& f) { EXPECT_EQ(bytes_of(f, {sharded}, whole), 0); };
  const auto in = [](values v, element e) { return cast(v[0], e); };
  const auto integers = [&](values v) { return in(v, element::i32); };
  none_moves([&](values v) { return in({integers(v) <= integers(v)}, element::f64); });
  none_moves([&](values v) { return in({integers(v) != integers(v)}, element::f64); });
  none_moves([&](values v) { return in({integers(v) - integers(v)}, element::f64); });
  none_moves([&](values v) { return in({integers(v) + (0 - integers(v))}, element::f64); });
  none_moves([&](values v) { return in({-integers(v) + integers(v)}, element::f64); });
  none_moves([](values v) { return shift(v[0], column, 16); });
  none_moves([](values v) { return shift(v[0], row, -30, border::zero); });
  // A predicate and its negative are both true: their sum is no constant.
  const auto predicates = [&](values v) {
    const value positive = v[0] > 0.0;
    return in({positive + (false - positive)}, element::f64);
  };
  EXPECT_GT(bytes_of(predicates, {sharded}, whole), 0);
  // Numbers that may be NaN are compared.
  const auto compared = [&](values v) { return in({v[0] == v[0]}, element::f64); };
  EXPECT_GT(bytes_of(compared, {sharded}, whole), 0);
}
TEST(MovesNoMoreThanGspmd, NothingRunsAlongADimOfOne) {
  const dim_ref one{"one", 1};
  const spec argument = laid_out({{one, {x}}, {column}}), result = argument;
  EXPECT_EQ(bytes_of([&](values v) { return sort(cumulative_sum(v[0], one), one); }, {argument}, result), 0);
  // Before the only index is nothing.
  EXPECT_EQ(bytes_of([&](values v) { return cumulative_prod(v[0], one, running::forward_exclusive); },
                     {laid_out({{one}, {column, {x}}})}, laid_out({{one}, {column}})),
            0);
  // The index of the largest element is that of the only one, be it NaN or not.
  EXPECT_EQ(bytes_of([&](values v) { return cast(argmax(v[0], one), element::f64); },
                     {laid_out({{one}, {column, {x}}})}, laid_out({{column}})),
            0);
  // A reduction along it gives what it reads: the difference of integers is 0. That along another dim does not.
  const auto less_sum = [](const dim_ref& d) {
    return [d](values v) {
      const value whole = cast(v[0], element::i32);
      return cast(value{whole - sum(whole, d)}, element::f64);
    };
  };
  EXPECT_EQ(bytes_of(less_sum(one), {laid_out({{one}, {column, {x}}})}, laid_out({{one}, {column}})), 0);
  EXPECT_GT(bytes_of(less_sum(column), {laid_out({{one}, {column, {x}}})}, laid_out({{one}, {column}})), 0);
}

TEST(MovesNoMoreThanGspmd, AnExchangeTakesOtherDimsToOtherAxes) {
  // One exchange in which each device gets all 12 x 4 elements of its block, instead of an all-to-all as well.
  EXPECT_EQ(bytes_of([](values v) { return flip(v[0], row); }, {laid_out({{row, {y}}, {column, {x}}})},
                     laid_out({{row, {y}}, {column, {x}}})),
            12 * 4 * 8);
  const dim_ref wide{"wide", 2};
  EXPECT_EQ(bytes_of([&](values v) { return flip(v[0], row); }, {laid_out({{row, {y}}, {column, {x}}, {wide}})},
                     laid_out({{row, {y}}, {wide}, {column, {x}}})),
            12 * 4 * 2 * 8);
}
TEST(MovesNoMoreThanGspmd, AnIdleAxisIsTakenBeforeAValueIsMoved) {
  // Columns are sharded over y, for nothing, before rows go from x to columns: half as much moves.
  const auto total = [](values v) {
    const value last = scan(row, 0.0 * sum(v[0], row), v[0], [](value so_far, value each) {
                         const value next = tanh(so_far * each) + so_far;
                         return std::pair(next, next);
                       }).first;
    return sum(last * sin(last));
  };
  EXPECT_EQ(bytes_of(total, {laid_out({{row, {x}}, {column}})}, laid_out({})), 6 * 8 * 3 / 4 * 8 + 2 * 7);
}
TEST(MovesNoMoreThanGspmd, WhatBranchesReadIsGatheredOverOneAxisBefore) {
  const auto either = [](values v) {
    const value most = max(v[0], row);
    return cond(sum(most) > 0.0, [](value u) { return sin(u) * tanh(u); }, [](value u) { return cos(u); }, most);
  };
  // The maxima are gathered over x, once, and their sum is reduced over y and x, or over y alone.
  const std::int64_t moved = bytes_of(either, {laid_out({{row}, {column, {y, x}}})}, laid_out({{column, {y}}}));
  EXPECT_LE(moved, 8 * 3 / 4 * 8 + 2 * 7);
}
TEST(MovesNoMoreThanGspmd, APermutationPassesWhatMakesMoreOfItsOperand) {
  // Labels are reversed, not their one-hot form: each device lacks its 6 x 8 labels, or some of them.
  const dim_ref classes{"classes", 64};
  const auto forms = [&](values v) { return flip(one_hot(cast(v[0], element::i32), classes, element::f64), row); };
  EXPECT_LE(bytes_of(forms, {laid_out({{row, {x}}, {column, {y}}})}, laid_out({{row, {x}}, {column, {y}}, {classes}})),
            6 * 8 * 8);
}
TEST(MovesNoMoreThanGspmd, AProductIsDoneWhereItsReadersWantIt) {
  const dim_ref deep{"deep", 8};
  // With work to spare every device of x computes all rows, of which one result wants a part.
  const auto product = [&](values v) { return shift(dot(v[0], v[1], deep), row, -1, border::edge); };
  recorder in(laid_out({}).mesh);
  const value left = in.input(element::f64, laid_out({{row}, {deep}})),
              right = in.input(element::f64, laid_out({{deep}, {column, {y}}}));
  const value made = product({left, right});
  in.output(sum(made, row), element::f64, laid_out({{column, {y}}}));
  in.output(-made, element::f64, laid_out({{row, {x}}, {column, {y}}}));
  const graph g = in.take();
  const sizes at = sizes_for(g);
  EXPECT_EQ(bytes(partition(g, at, policy::bytes_first(4)), at), 0);
}
TEST(MovesNoMoreThanGspmd, AReversedProductWithItselfIsASum) {
  // Nothing is reversed for the sum of all squares.
  const auto squares = [](values v) {
    const value reversed = flip(v[0], row);
    return dot(reversed, reversed, row, column);
  };
  EXPECT_EQ(bytes_of(squares, {laid_out({{row, {x, y}}, {column}})}, laid_out({})), 2 * 7);
}
TEST(MovesNoMoreThanGspmd, AChoiceBetweenAValueAndItselfIsThatValue) {
  const spec argument = laid_out({{row, {x}}, {column}});
  const auto chosen = [](values v) { return sin(select(flip(v[0], row) > 0.0, v[0], v[0])); };
  EXPECT_EQ(bytes_of(chosen, {argument}, argument), 0);
  // Also if only the predicate has all dims.
  const auto spread = [](values v) { return select(flip(v[0], row) > 0.0, v[1], v[1]); };
  EXPECT_EQ(bytes_of(spread, {argument, laid_out({})}, argument), 0);
  EXPECT_EQ(bytes_of(spread, {argument, laid_out({{column}, {row}})}, argument), 0);
}

TEST(MovesNoMoreThanGspmd, WhatIsRepeatedIsRepeatedAlongOtherDimsToo) {
  // One number along rows and columns, under another name and tiled, is made on each device.
  const dim_ref line{"line", 24}, lines{"lines", 48};
  recorder in(laid_out({}).mesh);
  const value number = in.input(element::f64, laid_out({}));
  const value repeated = cleave::broadcast(number, row, column);
  in.output(tile(rename(repeated, row, line), line, lines, 2), element::f64, laid_out({{lines}, {column}}));
  in.output(repeated, element::f64, laid_out({{row, {x}}, {column}}));
  const graph g = in.take();
  const sizes at = sizes_for(g);
  EXPECT_EQ(bytes(partition(g, at, policy::bytes_first(1)), at), 0);
}
TEST(MovesNoMoreThanGspmd, RunsAreWholeWhereAllOfThemIsThere) {
  const dim_ref twice{"twice", 32};
  const auto greatest = [&](values v) { return max(cumulative_sum(repeat(v[0], column, twice, 2), twice), row); };
  EXPECT_EQ(bytes_of(greatest, {laid_out({{row}, {column}})}, laid_out({{twice, {x, y}}})), 0);
}

// Plans that the search does not find: dims of all nodes of an exchange would have to change at once. The bytes that
// GSPMD moves for these programs are not known.
TEST(MovesMoreThanItMight, PiecesGoToOtherAxesInTwoSteps) {
  const dim_ref thrice{"thrice", 72};
  // 1152 if rows leave y and columns x where the pieces are put together.
  EXPECT_LE(bytes_of([&](values v) { return concat(thrice, piece(v[0], row), piece(v[0], row), piece(v[0], row)); },
                     {laid_out({{row, {y}}, {column, {x}}})}, laid_out({{thrice, {x, y}}, {column}})),
            1200);
}
TEST(MovesMoreThanItMight, AnExchangeBeforeALoopKeepsItsDims) {
  // 192 if columns go from x to z in the exchange that reverses rows.
  const dim_ref short_row{"short row", 6};
  const auto laid = [](std::initializer_list<sharded> dims) {
    spec s = laid_out(dims);
    s.mesh.axes = {{x, 2}, {y, 2}, {"z", 2}};
    return s;
  };
  const auto looped = [&](values v) {
    return repeat_times(3, flip(v[0], short_row), [](value u) { return sin(u) * tanh(u); });
  };
  EXPECT_LE(bytes_of(looped, {laid({{column, {x}}, {short_row, {"z"}}})}, laid({{column, {y}}, {short_row, {"z"}}})),
            240);
}
TEST(MovesNoMoreThanGspmd, WhatAUserMovesIsMovedAsItIsRead) {
  // Nobody reads the whole sums, so they are scattered.
  const auto moved = [](values v) { return reshard(sum(v[0], row), laid_out({{column}})); };
  const spec parts = laid_out({{row, {x, y}}, {column}});
  EXPECT_EQ(bytes_of(moved, {parts}, laid_out({{column, {x, y}}})), 16 * 8 * 7 / 8);
  EXPECT_EQ(bytes_of(moved, {parts}, laid_out({{column}})), 2 * 16 * 8 * 7 / 8);
}
TEST(MovesNoMoreThanGspmd, AnOperandThatIsReadTwiceIsMovedOnce) {
  const dim_ref thrice{"thrice", 72};
  const auto repeated = [&](values v) { return concat(thrice, piece(v[0], row), piece(v[0], row), piece(v[0], row)); };
  EXPECT_EQ(bytes_of(repeated, {laid_out({{row, {x, y}}})}, laid_out({{thrice}})), 24 * 8 * 7 / 8);
}
TEST(MovesNoMoreThanGspmd, AWholeCopyIsMadeBeforeItsSlices) {
  // Two results, one of them a part of the other, in either order.
  const spec parts = laid_out({{row, {x, y}}, {column}}), fewer = laid_out({{row}, {column, {y}}});
  for (const bool first : {false, true}) {
    recorder in(parts.mesh);
    const value v = in.input(element::f64, parts);
    for (const bool all : {first, !first}) in.output(v, element::f64, all ? laid_out({{row}, {column}}) : fewer);
    const graph g = in.take();
    const sizes at = sizes_for(g);
    EXPECT_EQ(bytes(partition(g, at, policy::bytes_first(1)), at), 24 * 16 * 8 * 7 / 8);
  }
}
TEST(MovesNoMoreThanGspmd, TheOnlyElementOfASliceHasIndex0) {
  const dim_ref one{"one", 1};
  const auto order = [&](values v) { return cast<double>(argsort(broadcast(v[0], row, one), one)); };
  EXPECT_EQ(bytes_of(order, {laid_out({{row, {x, y}}})}, laid_out({{row}, {one}})), 0);
}
TEST(MovesNoMoreThanGspmd, AnEmptyDimHasNoOtherEnd) {
  // Windows of a dim without elements have only what is outside, which is 0 for every border.
  const dim_ref to{"to", 2}, at{"at", 3};
  const auto around = [&](values v) {
    return windows(broadcast(v[0], row, none), window{none, to, at, 1, 1, 2, 2, border::edge});
  };
  EXPECT_EQ(bytes_of(around, {laid_out({{row}})}, laid_out({{row}, {to}, {at}})), 0);
}

} // namespace CLEAVE_SOURCE
