// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cases.hpp"

#include <cleave/linalg/linalg.hpp>

// Recorded cases: look-ups, places of the largest, running totals, sums, random numbers, linear algebra. Whole numbers
// count along dim v.

namespace CLEAVE_SOURCE {

using namespace cases;

namespace tables {
inline constexpr cases::dim<"v", 8192> v;
inline constexpr cases::dim<"d", 256> d;
inline constexpr cases::dim<"b", 32> b;
inline constexpr cases::dim<"s", 64> s;
constexpr cleave::function look_up([](auto table, auto ids) { return gather(table, v, ids); });
constexpr cleave::function by_product([](auto table, auto ids) { return dot(cleave::one_hot(ids, v), table, v); });
constexpr cleave::function added([](auto ids, auto rows) { return scatter_add(rows, ids, v); });
} // namespace tables

TEST_F(Cases, embed) {
  using namespace tables;
  {
    using namespace on8;
    check<"embed/x.____.___to___._._/m8", f32<mesh(b, s, d)>(f32<mesh(v / x, d)>, i32<mesh(b, s)>)>(look_up);
    check<"embed/x.___x.___to__x._._/m8", f32<mesh(b / x, s, d)>(f32<mesh(v / x, d)>, i32<mesh(b / x, s)>)>(look_up);
  }
  using namespace on2x4;
  check<"embed/y.___x.___to__x._._/m2x4", f32<mesh(b / x, s, d)>(f32<mesh(v / y, d)>, i32<mesh(b / x, s)>)>(look_up);
  check<"embed/onehot__y.___x.___to__x._._/m2x4", f32<mesh(b / x, s, d)>(f32<mesh(v / y, d)>, i32<mesh(b / x, s)>)>(
      by_product);
}
TEST_F(Cases, embedgrad) {
  using namespace tables;
  {
    using namespace on8;
    check<"embedgrad/x.___x._.___to__x._/m8", f32<mesh(v / x, d)>(i32<mesh(b / x, s)>, f32<mesh(b / x, s, d)>)>(added);
  }
  using namespace on2x4;
  check<"embedgrad/x.___x._.___to__y._/m2x4", f32<mesh(v / y, d)>(i32<mesh(b / x, s)>, f32<mesh(b / x, s, d)>)>(added);
}
TEST_F(Cases, gatherop) {
  using namespace on8;
  {
    static constexpr cases::dim<"v", 1024> v;
    static constexpr cases::dim<"d", 256> d;
    static constexpr cases::dim<"b", 512> b;
    constexpr cleave::function rows([](auto table, auto ids) { return gather(table, v, ids); });
    check<"gatherop/take_rows__idx_sharded/m8", f32<mesh(b / x, d)>(f32<mesh(v / x, d)>, i32<mesh(b / x)>)>(rows);
  }
  static constexpr cases::dim<"v", 64> v;
  static constexpr cases::dim<"d", 256> d;
  static constexpr cases::dim<"b", 1024> b;
  constexpr cleave::function segments([](auto rows, auto ids) { return scatter_add(rows, ids, v); });
  check<"gatherop/segment_sum/m8", f32<mesh(v, d)>(f32<mesh(b / x, d)>, i32<mesh(b / x)>)>(segments);
}

namespace matrices {
inline constexpr cases::dim<"a", 1024> a;
inline constexpr cases::dim<"b", 256> b;
constexpr cleave::function total([](auto u) { return sum(u, a); });
constexpr cleave::function largest([](auto u) { return max(u, a); });
constexpr cleave::function all([](auto u) { return sum(u); });
constexpr cleave::function where([](auto u) { return argmax(u, a); });
constexpr cleave::function totals([](auto u) { return cumulative_sum(u, a); });
constexpr cleave::function in_order([](auto u) { return sort(u, a); });
} // namespace matrices

TEST_F(Cases, reduce) {
  using namespace matrices;
  {
    using namespace on8;
    check<"reduce/sum__x.___to__x/m8", f32<mesh(b / x)>(f32<mesh(a / x, b)>)>(total);
    check<"reduce/max__x.___to__prop/m8", f32<mesh(b)>(f32<mesh(a / x, b)>)>(largest);
  }
  using namespace on2x4;
  check<"reduce/sum__x.y__to__yx/m2x4", f32<mesh(b / y / x)>(f32<mesh(a / x, b / y)>)>(total);
  check<"reduce/sum_all__x.y__to__scalar/m2x4", f32<mesh()>(f32<mesh(a / x, b / y)>)>(matrices::all);
}
TEST_F(Cases, sort) {
  using namespace matrices;
  {
    using namespace on8;
    check<"sort/x.___to__x._/m8", f32<mesh(a / x, b)>(f32<mesh(a / x, b)>)>(in_order);
    static constexpr cases::dim<"a", 65536> line;
    constexpr cleave::function places([](auto u) { return argsort(u, line); });
    check<"sort/argsort1d__x__to__x/m8", i32<mesh(line / x)>(f32<mesh(line / x)>)>(places);
  }
  using namespace on2x4;
  check<"sort/x.y__to__x.y/m2x4", f32<mesh(a / x, b / y)>(f32<mesh(a / x, b / y)>)>(in_order);
  check<"sort/xy.___to__xy._/m2x4", f32<mesh(a / x / y, b)>(f32<mesh(a / x / y, b)>)>(in_order);
}
TEST_F(Cases, argmax) {
  using namespace matrices;
  {
    using namespace on8;
    check<"argmax/x.___to__x/m8", i32<mesh(b / x)>(f32<mesh(a / x, b)>)>(where);
  }
  using namespace on2x4;
  check<"argmax/x.y__to__y/m2x4", i32<mesh(b / y)>(f32<mesh(a / x, b / y)>)>(where);
}
TEST_F(Cases, cumsum) {
  using namespace matrices;
  using namespace on8;
  check<"cumsum/x.___to__x._/m8", f32<mesh(a / x, b)>(f32<mesh(a / x, b)>)>(totals);
}
TEST_F(Cases, topk) {
  using namespace on8;
  static constexpr cases::dim<"a", 256> a;
  static constexpr cases::dim<"b", 4096> b;
  static constexpr cleave::dim<"k", 16> k;
  constexpr cleave::function best([](auto u) { return top_k(u, b, k); });
  using Values = f32<mesh(a, k)>;
  using Indices = i32<mesh(a, k)>;
  check<"topk/_.x__to__rep/m8", std::tuple<Values, Indices>(f32<mesh(a, b / x)>)>(best);
}
TEST_F(Cases, dynslice) {
  using namespace on8;
  static constexpr cleave::dim<"a", 512> a;
  static constexpr cleave::dim<"w", 64> w;
  static constexpr cases::dim<"b", 128> b;
  constexpr cleave::function sliced([](auto u, auto start) { return dynamic_slice(u, a, w, start); });
  check<"dynslice/rows64__to__rep/m8", f32<mesh(w, b)>(f32<mesh(a / x, b)>, i32<mesh()>)>(sliced);
}
TEST_F(Cases, dynupdate) {
  using namespace on8;
  static constexpr cleave::dim<"a", 512> a;
  static constexpr cleave::dim<"w", 1> w;
  static constexpr cases::dim<"b", 128> b;
  constexpr cleave::function updated(
      [](auto u, auto part, auto start) { return dynamic_update(u, a, part, w, start); });
  check<"dynupdate/kvcache__x/m8", f32<mesh(a / x, b)>(f32<mesh(a / x, b)>, f32<mesh(w, b)>, i32<mesh()>)>(updated);
}
TEST_F(Cases, random) {
  using namespace on8;
  static constexpr cleave::dim<"k", 2> k;
  static constexpr cases::dim<"a", 1024> a;
  static constexpr cases::dim<"b", 256> b;
  constexpr cleave::function numbers([](auto key) {
    const auto place = key.in->iota(k, cleave::element::u32, {});
    const auto word = [&](int i) { return sum(select(place == i, key, 0), k); };
    return cleave::normal<float>(fold_in(word(0), word(1)), a, b);
  });
  check<"random/normal__to__x/m8", f32<mesh(a / x, b)>(cleave::tensor<std::uint32_t, mesh(k)>)>(numbers);
}
TEST_F(Cases, linalg) {
  using namespace on8;
  {
    static constexpr cases::dim<"a", 512> a;
    static constexpr cases::dim<"b", 512> b;
    constexpr cleave::function factor([](auto u) { return cleave::linalg::cholesky(u, a, b); });
    check<"linalg/cholesky__x._/m8", f32<mesh(a / x, b)>(f32<mesh(a / x, b)>)>(factor);
  }
  static constexpr cases::dim<"a", 256> a;
  static constexpr cases::dim<"b", 256> b;
  static constexpr cases::dim<"c", 512> c;
  constexpr cleave::function solved([](auto l, auto r) { return cleave::linalg::triangular_solve(l, r, a, b); });
  check<"linalg/trisolve__rhs_cols/m8", f32<mesh(b, c / x)>(f32<mesh(a, b)>, f32<mesh(a, c / x)>)>(solved);
}

} // namespace CLEAVE_SOURCE
