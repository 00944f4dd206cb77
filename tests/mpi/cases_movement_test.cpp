// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cases.hpp"

// Recorded cases: the same elements in other layouts, orders and positions. Dims that are cut at given indices have the
// case's extents.

namespace CLEAVE_SOURCE {

using namespace cases;

constexpr cleave::function same([](auto u) { return u; });

namespace resharded {
inline constexpr cases::dim<"a", 256> a;
inline constexpr cases::dim<"b", 512> b;
inline constexpr cases::dim<"i", 32> i;
inline constexpr cases::dim<"j", 64> j;
inline constexpr cases::dim<"k", 128> k;
} // namespace resharded

TEST_F(Cases, reshard) {
  using namespace resharded;
  {
    using namespace on8;
    check<"reshard/r3__x._.___to___.x._/m8", f32<mesh(i, j / x, k)>(f32<mesh(i / x, j, k)>)>(same);
  }
  {
    using namespace on2x4;
    check<"reshard/r2__x.y__to__y.x/m2x4", f32<mesh(a / y, b / x)>(f32<mesh(a / x, b / y)>)>(same);
    check<"reshard/r2__xy.___to___.yx/m2x4", f32<mesh(a, b / y / x)>(f32<mesh(a / x / y, b)>)>(same);
    check<"reshard/r3__xy._.___to___.x.y/m2x4", f32<mesh(i, j / x, k / y)>(f32<mesh(i / x / y, j, k)>)>(same);
  }
  using namespace on2x2x2;
  check<"reshard/r2__xy.z__to__x.yz/m2x2x2", f32<mesh(a / x, b / y / z)>(f32<mesh(a / x / y, b / z)>)>(same);
}

namespace turned {
inline constexpr cases::dim<"a", 256> a;
inline constexpr cases::dim<"b", 128> b;
inline constexpr cases::dim<"i", 16> i;
inline constexpr cases::dim<"j", 32> j;
inline constexpr cases::dim<"k", 64> k;
} // namespace turned

TEST_F(Cases, transpose) {
  using namespace turned;
  {
    using namespace on2x4;
    check<"transpose/p10__x.y__to__x.y/m2x4", f32<mesh(b / x, a / y)>(f32<mesh(a / x, b / y)>)>(same);
  }
  using namespace on2x2x2;
  check<"transpose/p201__x.y.z__to__x.y.z/m2x2x2", f32<mesh(k / x, i / y, j / z)>(f32<mesh(i / x, j / y, k / z)>)>(
      same);
}

namespace reshaped {
inline constexpr cleave::dim<"a", 64> a;
inline constexpr cleave::dim<"b", 128> b;
inline constexpr cleave::dim<"w", 8192> whole;
inline constexpr cleave::dim<"i", 4> i;
inline constexpr cleave::dim<"j", 16> j;
inline constexpr cleave::dim<"k", 32> k;
inline constexpr cleave::dim<"u", 64> short_whole;
constexpr cleave::function merged([](auto u) { return merge(u, a, b, whole); });
constexpr cleave::function halved([](auto u) { return split(u, whole, a, b); });
constexpr cleave::function merged_first([](auto u) { return merge(u, i, j, short_whole); });
} // namespace reshaped

TEST_F(Cases, reshape) {
  using namespace reshaped;
  {
    using namespace on8;
    check<"reshape/64x128_to_8192___.x__to__x/m8", f32<mesh(whole / x)>(f32<mesh(a, b / x)>)>(merged);
    check<"reshape/4x16x32_to_64x32___.x.___to__x._/m8", f32<mesh(short_whole / x, k)>(f32<mesh(i, j / x, k)>)>(
        merged_first);
  }
  using namespace on2x4;
  check<"reshape/8192_to_64x128__xy__to__x.y/m2x4", f32<mesh(a / x, b / y)>(f32<mesh(whole / x / y)>)>(halved);
}

namespace rows {
inline constexpr cleave::dim<"a", 512> a;
inline constexpr cleave::dim<"y", 512> other;
inline constexpr cases::dim<"b", 128> b;
inline constexpr cleave::dim<"c", 256> half;
inline constexpr cleave::dim<"e", 520> more;
inline constexpr cleave::dim<"f", 1024> twice;
inline constexpr cleave::dim<"one", 1> one;
template <std::int64_t By>
constexpr cleave::function rolled([](auto u) { return roll(u, a, By); });
} // namespace rows

TEST_F(Cases, slice) {
  using namespace rows;
  using namespace on8;
  constexpr cleave::function first_half([](auto u) { return slice(u, a, half, 0, 256); });
  constexpr cleave::function from_8([](auto u) { return slice(u, a, half, 8, 264); });
  constexpr cleave::function every_second([](auto u) { return slice(u, a, half, 0, 512, 2); });
  constexpr cleave::function row([](auto u) { return sum(slice(u, a, one, 100, 101), one); });
  check<"slice/half__x.___to__prop/m8", f32<mesh(half / x, b)>(f32<mesh(a / x, b)>)>(first_half);
  check<"slice/off8__x.___to__x._/m8", f32<mesh(half / x, b)>(f32<mesh(a / x, b)>)>(from_8);
  check<"slice/stride2__x.___to__prop/m8", f32<mesh(half / x, b)>(f32<mesh(a / x, b)>)>(every_second);
  check<"slice/row__x.___to__prop/m8", f32<mesh(b)>(f32<mesh(a / x, b)>)>(row);
}
TEST_F(Cases, pad) {
  using namespace rows;
  using namespace on8;
  constexpr cleave::function below([](auto u) { return pad(u, a, more, 8, 0); });
  constexpr cleave::function both([](auto u) { return pad(u, a, more, 4, 4); });
  constexpr cleave::function between([](auto u) { return pad(u, a, twice, 0, 1, 1); });
  check<"pad/lo8__x.___to__prop/m8", f32<mesh(more / x, b)>(f32<mesh(a / x, b)>)>(below);
  check<"pad/both4__x.___to__x._/m8", f32<mesh(more / x, b)>(f32<mesh(a / x, b)>)>(both);
  check<"pad/interior__x.___to__x._/m8", f32<mesh(twice / x, b)>(f32<mesh(a / x, b)>)>(between);
}
TEST_F(Cases, concat) {
  using namespace rows;
  constexpr cleave::function joined(
      [](auto u, auto v) { return concat(twice, cleave::piece(u, a), cleave::piece(v, other)); });
  {
    using namespace on8;
    check<"concat/sharded_dim__x.___x.___to___.x/m8",
          f32<mesh(twice, b / x)>(f32<mesh(a / x, b)>, f32<mesh(other / x, b)>)>(joined);
  }
  using namespace on2x4;
  check<"concat/two_d__x.y__x.y__to__x.y/m2x4",
        f32<mesh(twice / x, b / y)>(f32<mesh(a / x, b / y)>, f32<mesh(other / x, b / y)>)>(joined);
}
TEST_F(Cases, roll) {
  using namespace rows;
  {
    using namespace on8;
    check<"roll/by100__x.___to__x._/m8", f32<mesh(a / x, b)>(f32<mesh(a / x, b)>)>(rolled<100>);
    check<"roll/by256__x.___to__x._/m8", f32<mesh(a / x, b)>(f32<mesh(a / x, b)>)>(rolled<256>);
  }
  using namespace on2x4;
  constexpr cleave::function both([](auto u) { return roll(roll(u, a, 1), b, 1); });
  check<"roll/both__x.y__to__x.y/m2x4", f32<mesh(a / x, b / y)>(f32<mesh(a / x, b / y)>)>(both);
}
TEST_F(Cases, reverse) {
  using namespace rows;
  using namespace on2x4;
  constexpr cleave::function reversed([](auto u) { return flip(u, a); });
  check<"reverse/d0__xy.___to__xy._/m2x4", f32<mesh(a / x / y, b)>(f32<mesh(a / x / y, b)>)>(reversed);
}
TEST_F(Cases, repeat) {
  using namespace rows;
  using namespace on8;
  constexpr cleave::function tiled([](auto u) { return tile(u, a, twice, 2); });
  check<"repeat/tile2__x.___to__x._/m8", f32<mesh(twice / x, b)>(f32<mesh(a / x, b)>)>(tiled);
}

namespace squares {
inline constexpr cases::dim<"a", 512> a;
inline constexpr cases::dim<"b", 512> b;
} // namespace squares

TEST_F(Cases, diag) {
  using namespace squares;
  using namespace on2x4;
  constexpr cleave::function of([](auto u) { return diagonal(u, a, b); });
  check<"diag/diagonal__x.y__to__prop/m2x4", f32<mesh(a)>(f32<mesh(a / x, b / y)>)>(of);
}
TEST_F(Cases, iota) {
  using namespace squares;
  using namespace on2x4;
  // Where an element is along a dim has no name of its own in functions: the recorder is asked.
  constexpr cleave::function lower([](auto u) {
    const auto index = [&](auto along) { return u.in->iota(along, cleave::element::i32, {}); };
    const std::array operands{index(cleave::dim_ref(a)), index(cleave::dim_ref(b))};
    return select(u.in->elementwise(cleave::op::greater_equal, operands, {}, cleave::element::boolean, true), u, 0);
  });
  check<"iota/tril_mask__to__x.y/m2x4", f32<mesh(a / x, b / y)>(f32<mesh(a / x, b / y)>)>(lower);
}

namespace uneven {
inline constexpr cases::dim<"a", 10> a;
inline constexpr cases::dim<"b", 16> b;
inline constexpr cases::dim<"c", 16> c;
inline constexpr cases::dim<"d", 3> few;
inline constexpr cases::dim<"i", 7> i;
inline constexpr cases::dim<"j", 10> j;
} // namespace uneven

TEST_F(Cases, uneven) {
  using namespace uneven;
  using namespace on4x2;
  constexpr cleave::function back([](auto u) { return 1.5 * constrain(u, mesh(a / x, b)); });
  constexpr cleave::function rolled([](auto u) { return roll(constrain(u, mesh(a / x, b)), a, 1); });
  constexpr cleave::function contracted([](auto u, auto v) { return dot(constrain(u, mesh(c, a / x)), v, a); });
  constexpr cleave::function totals([](auto u) { return cumulative_sum(constrain(u, mesh(a / x, b)), a); });
  constexpr cleave::function softened([](auto u) { return softmax(constrain(u, mesh(b, a / x)), a); });
  check<"uneven/inside_reshard_back/m4x2", f32<mesh(a, b / x)>(f32<mesh(a, b / x)>)>(back);
  check<"uneven/inside_roll/m4x2", f32<mesh(a, b)>(f32<mesh(a, b)>)>(rolled);
  check<"uneven/inside_matmul_contract/m4x2", f32<mesh(c, b)>(f32<mesh(c, a)>, f32<mesh(a, b)>), 8>(contracted);
  check<"uneven/inside_cumsum/m4x2", f32<mesh(a, b)>(f32<mesh(a, b)>)>(totals);
  check<"uneven/inside_softmax/m4x2", f32<mesh(b, a)>(f32<mesh(b, a)>), 1, 100>(softened);
}
TEST_F(Cases, uneven_on_one_axis) {
  using namespace uneven;
  using namespace on8;
  constexpr cleave::function fewer_rows([](auto u) { return 2.0 * constrain(u, mesh(few / x, b)); });
  check<"uneven/inside_lt_devices/m8", f32<mesh(few, b)>(f32<mesh(few, b)>)>(fewer_rows);
}
TEST_F(Cases, uneven_in_two_dims) {
  using namespace uneven;
  using namespace on2x4;
  constexpr cleave::function both([](auto u) { return 2.0 * constrain(u, mesh(i / x, j / y)); });
  check<"uneven/inside_two_d/m2x4", f32<mesh(i, j)>(f32<mesh(i, j)>)>(both);
}

} // namespace CLEAVE_SOURCE
