// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cases.hpp"

// Recorded cases: products, and sums of them.

namespace CLEAVE_SOURCE {

using namespace cases;

namespace matrices {
inline constexpr cases::dim<"b", 256> b;
inline constexpr cases::dim<"d", 512> d;
inline constexpr cases::dim<"f", 1024> f;
constexpr cleave::function product([](auto l, auto r) { return dot(l, r, d); });
template <auto Layout>
using bf16 = cleave::tensor_in<cleave::bfloat16, Layout>;
} // namespace matrices

TEST_F(Cases, mm_on_one_axis) {
  using namespace matrices;
  using namespace on8;
  check<"mm/x.____.___to___.x/m8", f32<mesh(b, f / x)>(f32<mesh(b / x, d)>, f32<mesh(d, f)>)>(product);
  check<"mm/x.____.x__to__x._/m8", f32<mesh(b / x, f)>(f32<mesh(b / x, d)>, f32<mesh(d, f / x)>)>(product);
  check<"mm/_.x__x.___to___.x/m8", f32<mesh(b, f / x)>(f32<mesh(b, d / x)>, f32<mesh(d / x, f)>)>(product);
  check<"mm/x.___x.___to___._/m8", f32<mesh(b, f)>(f32<mesh(b / x, d)>, f32<mesh(d / x, f)>)>(product);
  check<"mm/_.x___.___to___._/m8", f32<mesh(b, f)>(f32<mesh(b, d / x)>, f32<mesh(d, f)>), 8>(product);
  check<"mm/_.x__x.___to__x._-bfloat16/m8", bf16<mesh(b / x, f)>(bf16<mesh(b, d / x)>, bf16<mesh(d / x, f)>)>(product);
}
TEST_F(Cases, mm_on_two_axes) {
  using namespace matrices;
  using namespace on2x4;
  check<"mm/x.y__y.x__to__x.y/m2x4", f32<mesh(b / x, f / y)>(f32<mesh(b / x, d / y)>, f32<mesh(d / y, f / x)>)>(
      product);
  check<"mm/_.xy__xy.___to__xy._/m2x4", f32<mesh(b / x / y, f)>(f32<mesh(b, d / x / y)>, f32<mesh(d / x / y, f)>)>(
      product);
  check<"mm/y.___x.___to__x.y/m2x4", f32<mesh(b / x, f / y)>(f32<mesh(b / y, d)>, f32<mesh(d / x, f)>)>(product);
  check<"mm/x.y__x.___to__x._/m2x4", f32<mesh(b / x, f)>(f32<mesh(b / x, d / y)>, f32<mesh(d / x, f)>)>(product);
}
TEST_F(Cases, mm_on_two_axes_the_other_way_and_on_three) {
  using namespace matrices;
  {
    using namespace on4x2;
    check<"mm/x.y__x.y__to__x.y/m4x2", f32<mesh(b / x, f / y)>(f32<mesh(b / x, d / y)>, f32<mesh(d / x, f / y)>)>(
        product);
  }
  using namespace on2x2x2;
  check<"mm/x.z__z.y__to__x.yz/m2x2x2", f32<mesh(b / x, f / y / z)>(f32<mesh(b / x, d / z)>, f32<mesh(d / z, f / y)>)>(
      product);
}

namespace heads {
inline constexpr cases::dim<"b", 16> b;
inline constexpr cases::dim<"s", 128> s;
inline constexpr cases::dim<"d", 512> d;
inline constexpr cases::dim<"h", 16> h;
inline constexpr cases::dim<"k", 64> k;
inline constexpr cases::dim<"r", 256> rows;
constexpr cleave::function projected([](auto l, auto r) { return dot(l, r, d); });
constexpr cleave::function back([](auto l, auto r) { return dot(l, r, h, k); });
} // namespace heads

TEST_F(Cases, qkv) {
  using namespace heads;
  using namespace on2x4;
  check<"qkv/x._.y__y._.___to__x._.y._/m2x4",
        f32<mesh(b / x, s, h / y, k)>(f32<mesh(b / x, s, d / y)>, f32<mesh(d / y, h, k)>)>(projected);
  check<"qkv/xy._.____._.___to__x._.y._/m2x4",
        f32<mesh(b / x, s, h / y, k)>(f32<mesh(b / x / y, s, d)>, f32<mesh(d, h, k)>)>(projected);
}
TEST_F(Cases, twoc) {
  using namespace heads;
  using namespace on2x4;
  check<"twoc/_.x.y__x.y.___to__x.y/m2x4",
        f32<mesh(rows / x, d / y)>(f32<mesh(rows, h / x, k / y)>, f32<mesh(h / x, k / y, d)>)>(back);
  check<"twoc/_.x.y__y.x.___to___._/m2x4",
        f32<mesh(rows, d)>(f32<mesh(rows, h / x, k / y)>, f32<mesh(h / y, k / x, d)>)>(back);
}

namespace weighted_values {
inline constexpr cases::dim<"b", 8> b;
inline constexpr cases::dim<"h", 16> h;
inline constexpr cases::dim<"q", 128> q;
inline constexpr cases::dim<"k", 128> k;
inline constexpr cases::dim<"d", 64> d;
constexpr cleave::function weighted([](auto l, auto r) { return dot(l, r, k); });
} // namespace weighted_values

TEST_F(Cases, attnv) {
  using namespace weighted_values;
  using namespace on2x4;
  check<"attnv/x._._.y__x.y._.___to__x.y._._/m2x4",
        f32<mesh(b / x, q / y, h, d)>(f32<mesh(b / x, h, q, k / y)>, f32<mesh(b / x, k / y, h, d)>)>(weighted);
  check<"attnv/x.y._.___x.y._.___to__x._.y._/m2x4",
        f32<mesh(b / x, q, h / y, d)>(f32<mesh(b / x, h / y, q, k)>, f32<mesh(b / x, k / y, h, d)>)>(weighted);
}

namespace batches {
inline constexpr cases::dim<"b", 16> b;
inline constexpr cases::dim<"i", 128> i;
inline constexpr cases::dim<"j", 256> j;
inline constexpr cases::dim<"k", 128> k;
constexpr cleave::function product([](auto l, auto r) { return dot(l, r, j); });
} // namespace batches

TEST_F(Cases, bmm) {
  using namespace batches;
  {
    using namespace on8;
    check<"bmm/_.x.____._.x__to___.x._/m8", f32<mesh(b, i / x, k)>(f32<mesh(b, i / x, j)>, f32<mesh(b, j, k / x)>)>(
        product);
  }
  using namespace on2x4;
  check<"bmm/x.y.___x._.y__to__prop/m2x4",
        f32<mesh(b / x, i / y, k)>(f32<mesh(b / x, i / y, j)>, f32<mesh(b / x, j, k / y)>)>(product);
}

namespace vectors {
inline constexpr cases::dim<"i", 2048> i;
inline constexpr cases::dim<"j", 2048> j;
inline constexpr cases::dim<"b", 1024> b;
inline constexpr cases::dim<"d", 512> d;
constexpr cleave::function outer([](auto l, auto r) { return dot(l, r); });
constexpr cleave::function applied([](auto l, auto r) { return dot(l, r, d); });
} // namespace vectors

TEST_F(Cases, outer) {
  using namespace vectors;
  {
    using namespace on8;
    check<"outer/x__x__to___.x/m8", f32<mesh(i, j / x)>(f32<mesh(i / x)>, f32<mesh(j / x)>)>(vectors::outer);
  }
  using namespace on2x4;
  check<"outer/x__x__to__x.y/m2x4", f32<mesh(i / x, j / y)>(f32<mesh(i / x)>, f32<mesh(j / x)>)>(vectors::outer);
}
TEST_F(Cases, matvec) {
  using namespace vectors;
  using namespace on8;
  check<"matvec/_.x__x__to___/m8", f32<mesh(b)>(f32<mesh(b, d / x)>, f32<mesh(d / x)>)>(applied);
  check<"matvec/_.x__x__to__x/m8", f32<mesh(b / x)>(f32<mesh(b, d / x)>, f32<mesh(d / x)>)>(applied);
}

namespace sums {
inline constexpr cases::dim<"a", 256> a;
inline constexpr cases::dim<"b", 512> b;
inline constexpr cases::dim<"c", 1024> c;
inline constexpr cases::dim<"d", 512> d;
inline constexpr cases::dim<"r", 1024> r;
inline constexpr cases::dim<"s", 256> s;
constexpr cleave::function two_products([](auto k, auto l, auto m, auto n) { return dot(k, l, b) + dot(m, n, d); });
constexpr cleave::function scaled([](auto k, auto l, auto m) { return 2.0 * dot(k, l, b) - m; });
constexpr cleave::function sum([](auto k, auto l) { return k + l; });
} // namespace sums

TEST_F(Cases, elementwise) {
  using namespace sums;
  {
    using namespace on8;
    check<"elementwise/chain_ar__two_partials/m8",
          f32<mesh(a, c)>(f32<mesh(a, b / x)>, f32<mesh(b / x, c)>, f32<mesh(a, d / x)>, f32<mesh(d / x, c)>)>(
        two_products);
    check<"elementwise/scale_partial/m8",
          f32<mesh(a / x, c)>(f32<mesh(a, b / x)>, f32<mesh(b / x, c)>, f32<mesh(a / x, c)>)>(scaled);
  }
  using namespace on2x4;
  check<"elementwise/mismatch2__x.y__y.x/m2x4",
        f32<mesh(r / x, s / y)>(f32<mesh(r / x, s / y)>, f32<mesh(r / y, s / x)>)>(sums::sum);
  check<"elementwise/bcast_row__x.y__x/m2x4", f32<mesh(r / x, s / y)>(f32<mesh(r / x, s / y)>, f32<mesh(s / x)>)>(
      sums::sum);
}

} // namespace CLEAVE_SOURCE
