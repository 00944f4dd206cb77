// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cases.hpp"

// Recorded cases: stencils, convolutions, pooling.

namespace CLEAVE_SOURCE {

using namespace cases;

namespace plate {
inline constexpr cases::dim<"a", 512> a;
inline constexpr cases::dim<"b", 512> b;
template <cleave::border Border>
constexpr auto neighbours(const cleave::value& u) {
  return shift(u, a, 1, Border) + shift(u, a, -1, Border) + shift(u, b, 1, Border) + shift(u, b, -1, Border);
}
constexpr cleave::function padded([](auto u) { return neighbours<cleave::border::zero>(u) - 4 * u; });
constexpr cleave::function rolled([](auto u) { return neighbours<cleave::border::periodic>(u) - 4 * u; });
constexpr cleave::function inside([](auto u) {
  return cleave::interior(0.25 * neighbours<cleave::border::zero>(u), u, 1, a, b);
});
} // namespace plate

TEST_F(Cases, stencil) {
  using namespace plate;
  {
    using namespace on8;
    check<"stencil/set__x.___to__x._/m8", f32<mesh(a / x, b)>(f32<mesh(a / x, b)>)>(inside);
  }
  using namespace on2x4;
  using Plate = f32<mesh(a / x, b / y)>;
  check<"stencil/pad__x.y__to__prop/m2x4", Plate(Plate)>(padded);
  check<"stencil/roll__x.y__to__x.y/m2x4", Plate(Plate)>(rolled);
  check<"stencil/mask__x.y__to__x.y/m2x4", Plate(Plate)>(inside);
}
TEST_F(Cases, stencil_in_three_dims) {
  static constexpr cases::dim<"a", 64> a;
  static constexpr cases::dim<"b", 64> b;
  static constexpr cases::dim<"c", 64> c;
  using namespace on2x2x2;
  using Block = f32<mesh(a / x, b / y, c / z)>;
  constexpr cleave::function padded([](auto u) {
    return shift(u, a, 1) + shift(u, a, -1) + shift(u, b, 1) + shift(u, b, -1) + shift(u, c, 1) + shift(u, c, -1) -
           6 * u;
  });
  check<"stencil/seven_pad__x.y.z__to__x.y.z/m2x2x2", Block(Block)>(padded);
}

namespace images {
using cleave::window;
inline constexpr cases::dim<"b", 8> b;
inline constexpr cases::dim<"n", 1024> n;
inline constexpr cases::dim<"s", 64> s;
inline constexpr cases::dim<"t", 64> t;
inline constexpr cases::dim<"A", 32> half_s;
inline constexpr cases::dim<"B", 32> half_t;
inline constexpr cases::dim<"H", 512> half_n;
inline constexpr cases::dim<"i", 16> i;
inline constexpr cases::dim<"o", 32> o;
inline constexpr cleave::dim<"k", 3> k;
inline constexpr cleave::dim<"l", 3> l;
constexpr cleave::function line([](auto u, auto w) { return dot(windows(u, window{n, n, k, 1, 1, 1, 1}), w, k, i); });
constexpr cleave::function every_second([](auto u, auto w) {
  return dot(windows(u, window{n, half_n, k, 2, 1, 0, 1}), w, k, i);
});
constexpr auto convolved = [](auto u, auto w) {
  return dot(windows(u, window{s, s, k, 1, 1, 1, 1}, window{t, t, l, 1, 1, 1, 1}), w, k, l, i);
};
constexpr cleave::function convolution(convolved);
constexpr cleave::function strided([](auto u, auto w) {
  return dot(windows(u, window{s, half_s, k, 2, 1, 0, 1}, window{t, half_t, l, 2, 1, 0, 1}), w, k, l, i);
});
constexpr cleave::function kernel_gradient([](auto u, auto w, auto g) {
  const auto [made, pullback] = cleave::vjp([&](auto kernel) { return convolved(u, kernel); }, w);
  return pullback(g);
});
constexpr cleave::function pooled([](auto u) {
  return sum(windows(u, window{s, s, k, 1, 1, 1, 1}, window{t, t, l, 1, 1, 1, 1}), k, l);
});
} // namespace images

TEST_F(Cases, conv1d) {
  using namespace images;
  {
    using namespace on8;
    check<"conv1d/_.x.___to___.x.___k3s2d1/m8", f32<mesh(b, half_n / x, o)>(f32<mesh(b, n / x, i)>, f32<mesh(k, i, o)>),
          0>(every_second);
  }
  using namespace on2x4;
  check<"conv1d/_.xy.___to___.xy.___k3s1d1/m2x4",
        f32<mesh(b, n / x / y, o)>(f32<mesh(b, n / x / y, i)>, f32<mesh(k, i, o)>), 0>(line);
}
TEST_F(Cases, conv2d) {
  using namespace images;
  using Kernel = f32<on8::mesh(k, l, i, o)>;
  using Kernel2 = f32<on2x4::mesh(k, l, i, o)>;
  {
    using namespace on8;
    check<"conv2d/wgrad__x.-.-.-/m8", Kernel(f32<mesh(b / x, s, t, i)>, Kernel, f32<mesh(b / x, s, t, o)>), 0>(
        kernel_gradient);
    check<"conv2d/avgpool3__-.x.-.-/m8", f32<mesh(b, s / x, t, i)>(f32<mesh(b, s / x, t, i)>)>(pooled);
  }
  using namespace on2x4;
  check<"conv2d/_.x.y.___to___.x.y.___k3s1d1/m2x4",
        f32<mesh(b, s / x, t / y, o)>(f32<mesh(b, s / x, t / y, i)>, Kernel2), 0>(convolution);
  check<"conv2d/_.x.y.___to___.x.y.___k3s2d1/m2x4",
        f32<mesh(b, half_s / x, half_t / y, o)>(f32<mesh(b, s / x, t / y, i)>, Kernel2), 0>(strided);
}

} // namespace CLEAVE_SOURCE
