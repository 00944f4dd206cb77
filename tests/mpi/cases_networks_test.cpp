// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cases.hpp"

// Recorded cases: parts of networks, and gradients of them.

namespace CLEAVE_SOURCE {

using namespace cases;

namespace rows {
inline constexpr cases::dim<"a", 2048> a;
inline constexpr cases::dim<"b", 1024> b;
constexpr cleave::function softened([](auto u) { return softmax(u, b); });
constexpr cleave::function normed([](auto u, auto scale, auto bias) { return layer_norm(u, b, scale, bias); });
} // namespace rows

TEST_F(Cases, softmax) {
  using namespace rows;
  {
    using namespace on8;
    check<"softmax/_.x__to__prop/m8", f32<mesh(a, b / x)>(f32<mesh(a, b / x)>)>(softened);
  }
  using namespace on2x4;
  check<"softmax/x.y__to__x._/m2x4", f32<mesh(a / x, b)>(f32<mesh(a / x, b / y)>), 1, 100>(softened);
}
TEST_F(Cases, layernorm) {
  using namespace rows;
  using namespace on2x4;
  check<"layernorm/x.y__y__to__xy._/m2x4",
        f32<mesh(a / x / y, b)>(f32<mesh(a / x, b / y)>, f32<mesh(b / y)>, f32<mesh(b / y)>)>(normed);
}

namespace layers {
inline constexpr cases::dim<"b", 16> b;
inline constexpr cases::dim<"s", 128> s;
inline constexpr cases::dim<"d", 512> d;
inline constexpr cases::dim<"h", 2048> h;
inline constexpr cleave::dim<"l", 4> l;
inline constexpr cleave::dim<"z", 1> one;
constexpr auto layer = [](auto u, auto up, auto down) { return u + dot(relu(dot(u, up, d)), down, h); };
constexpr cleave::function mlp(layer);
constexpr cleave::function slope([](auto up, auto down, auto u, auto wanted) {
  constexpr cleave::function loss([](auto w1, auto w2, auto given, auto y) {
    const auto off = layer(given, w1, w2) - y;
    return mean(off * off);
  });
  return cleave::grad<0, 1>(loss)(up, down, u, wanted);
});
constexpr cleave::function stacked([](auto u, auto up, auto down) {
  const auto of_layer = [](auto w, std::int64_t k) { return sum(slice(w, l, one, k, k + 1), one); };
  cleave::value state = u;
  for (std::int64_t k = 0; k < 4; ++k) state = layer(state, of_layer(up, k), of_layer(down, k));
  return state;
});
} // namespace layers

TEST_F(Cases, mlp) {
  using namespace layers;
  {
    using namespace on2x4;
    using X = f32<mesh(b / x, s, d / y)>;
    check<"mlp/x._.y__x.y__y.x__to__x._.y/m2x4", X(X, f32<mesh(d / x, h / y)>, f32<mesh(h / y, d / x)>)>(mlp);
  }
  using namespace on2x2x2;
  using X = f32<mesh(b / x / z, s, d)>;
  check<"mlp/xz._.___z.y__y.z__to__xz._._/m2x2x2", X(X, f32<mesh(d / z, h / y)>, f32<mesh(h / y, d / z)>)>(mlp);
}
TEST_F(Cases, mlpgrad) {
  using namespace layers;
  using namespace on2x4;
  using Up = f32<mesh(d, h / y)>;
  using Down = f32<mesh(h / y, d)>;
  using Batch = f32<mesh(b / x, s, d)>;
  check<"mlpgrad/_.y__y.___x._.___to___.y/m2x4", std::tuple<Up, Down>(Up, Down, Batch, Batch)>(slope);
}
TEST_F(Cases, scan) {
  using namespace layers;
  using namespace on2x4;
  using X = f32<mesh(b / x, s, d)>;
  check<"scan/x._.____._.y___.y.___to__x._._/m2x4", X(X, f32<mesh(l, d, h / y)>, f32<mesh(l, h / y, d)>)>(stacked);
}

namespace stages {
inline constexpr cases::dim<"p", 8> p;
inline constexpr cases::dim<"b", 64> b;
inline constexpr cases::dim<"d", 512> d;
inline constexpr cases::dim<"f", 512> f;
inline constexpr cleave::dim<"t", 6> t;
inline constexpr cleave::dim<"z", 1> one;
constexpr cleave::function tick([](auto state, auto weights, auto batches) {
  const auto stage = state.in->iota(p, cleave::element::i32, {});
  const auto fed = select(stage == 0, sum(slice(batches, t, one, 0, 1), one), shift(state, p, 1));
  return rename(dot(fed, weights, d), f, d);
});
} // namespace stages

TEST_F(Cases, pipeline) {
  using namespace stages;
  using namespace on8;
  check<"pipeline/step/m8", f32<mesh(p / x, b, d)>(f32<mesh(p / x, b, d)>, f32<mesh(p / x, d, f)>, f32<mesh(t, b, d)>)>(
      tick);
}

namespace attention {
inline constexpr cases::dim<"b", 8> b;
inline constexpr cases::dim<"s", 256> s;
inline constexpr cases::dim<"t", 256> t;
inline constexpr cases::dim<"d", 512> d;
inline constexpr cases::dim<"h", 16> h;
inline constexpr cases::dim<"k", 32> k;
constexpr cleave::function causal([](auto u, auto wq, auto wk, auto wv, auto wo) {
  const auto other = rename(u, s, t);
  const auto scores = dot(dot(u, wq, d), dot(other, wk, d), k) * 0.17677669529663687;
  const std::array positions{u.in->iota(s, cleave::element::i32, {}), u.in->iota(t, cleave::element::i32, {})};
  const auto past = u.in->elementwise(cleave::op::greater_equal, positions, {}, cleave::element::boolean, true);
  return u + dot(dot(softmax(select(past, scores, -1e30), t), dot(other, wv, d), t), wo, h, k);
});
} // namespace attention

TEST_F(Cases, attn) {
  using namespace attention;
  using namespace on2x4;
  using W = f32<mesh(d, h / y, k)>;
  using X = f32<mesh(b / x, s, d)>;
  check<"attn/x._.____.y.___y._.___to__prop/m2x4", X(X, W, W, W, f32<mesh(h / y, k, d)>)>(causal);
}

namespace words {
inline constexpr cases::dim<"b", 2048> b;
inline constexpr cases::dim<"d", 512> d;
inline constexpr cases::dim<"v", 8192> v;
constexpr auto cross_entropy = [](auto logits, auto labels) {
  return mean(logsumexp(logits, v) - sum(logits * cleave::one_hot(labels, v), v), b);
};
constexpr cleave::function loss(cross_entropy);
constexpr cleave::function slope([](auto logits, auto labels) { return cleave::grad(loss)(logits, labels); });
constexpr cleave::function head([](auto hidden, auto table, auto labels) {
  return cross_entropy(dot(hidden, table, d), labels);
});
constexpr cleave::function head_slope([](auto hidden, auto table, auto labels) {
  return cleave::grad<0, 1>(head)(hidden, table, labels);
});
} // namespace words

TEST_F(Cases, xent) {
  using namespace words;
  {
    using namespace on8;
    check<"xent/onehot___.x___/m8", f32<mesh()>(f32<mesh(b, v / x)>, i32<mesh(b)>), 1, 100>(words::loss);
  }
  using namespace on2x4;
  using Logits = f32<mesh(b / x, v / y)>;
  using Labels = i32<mesh(b / x)>;
  using Hidden = f32<mesh(b / x, d)>;
  using Table = f32<mesh(d, v / y)>;
  check<"xent/grad_gather__x.y__x/m2x4", Logits(Logits, Labels)>(words::slope);
  check<"xent/lmhead__x._____y__x/m2x4", f32<mesh()>(Hidden, Table, Labels), 1, 100>(head);
  check<"xent/lmhead_grad__x._____y__x/m2x4", std::tuple<Hidden, Table>(Hidden, Table, Labels)>(head_slope);
}

namespace experts {
inline constexpr cases::dim<"g", 16> g;
inline constexpr cases::dim<"s", 128> s;
inline constexpr cases::dim<"m", 128> m;
inline constexpr cases::dim<"e", 16> e;
inline constexpr cases::dim<"h", 512> h;
inline constexpr cleave::dim<"c", 32> c;
// GShard's layer (Lepikhin et al. 2020): the two best experts of every token, as far as their capacity goes. Those of
// the second choice come after all of the first.
constexpr cleave::function moe([](auto u, auto wg, auto up, auto down) {
  const auto gates = softmax(dot(u, wg, m), e);
  const auto chosen = [](auto of) { return cleave::one_hot(argmax(of, e), e); };
  const auto first = chosen(gates), second = chosen(gates * (1.0 - first));
  const auto combined = [&](auto mask, auto place) {
    const auto fits = mask * cleave::cast<float>(place < 32.0);
    const auto where = cleave::one_hot(cleave::cast<std::int32_t>(sum(place * fits, e)), c);
    return dot(sum(gates * fits, e) * fits, where);
  };
  const auto before = [](auto mask) { return cumulative_sum(mask, s, cleave::running::forward_exclusive); };
  const auto combine = combined(first, before(first)) + combined(second, before(second) + sum(first, s));
  const auto sent = constrain(dot(cleave::cast<float>(combine > 0.0), u, s), on8::mesh(e / on8::x, g, c, m));
  const auto made = dot(relu(dot(sent, up, m)), down, h);
  return dot(combine, constrain(made, on8::mesh(e / on8::x, g, c, m)), e, c);
});
} // namespace experts

TEST_F(Cases, moe) {
  using namespace experts;
  using namespace on8;
  using Tokens = f32<mesh(g / x, s, m)>;
  check<"moe/x._.___x._.___x._.___cx._._.___to__x._._/m8",
        Tokens(Tokens, f32<mesh(m, e)>, f32<mesh(e / x, m, h)>, f32<mesh(e / x, h, m)>), 1, 1000>(experts::moe);
}

} // namespace CLEAVE_SOURCE
