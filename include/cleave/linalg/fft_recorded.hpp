// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/expr/values.hpp>

#include <bit>

// Fourier transforms as programs record them: without Kokkos and FFTW. The kernels are in linalg/fft_kernels.hpp;
// programs include linalg/fft.hpp, which is both.

namespace cleave { inline namespace v0 { namespace linalg {

/// The kinds of transforms: of complex numbers there and back, and to and from the half spectra of real ones.
enum class transform : std::uint8_t { forward, inverse, of_real, to_real };

/// The name that errors and plans show.
constexpr std::string_view name_of(transform t) {
  constexpr enum_table<transform, std::string_view, 4> names{{"fft", "ifft", "rfft", "irfft"}};
  return names[t];
}

namespace detail {

/// The floating-point operations of transforms of so many complex numbers each, which are `numbers` together.
constexpr double flops_of(std::int64_t length, std::int64_t numbers) {
  return 5.0 * as_double(numbers) * as_double(std::bit_width(static_cast<std::uint64_t>(length)));
}

/// Along all dims of a list whose bits are set.
template <transform What, std::size_t Along, class... D>
struct transform_kernel {
  static constexpr std::string_view name = name_of(What);
  static constexpr std::size_t count{std::popcount(Along)};
  static constexpr std::array<dim_ref, count> dims = [] {
    std::array<dim_ref, count> found{};
    std::size_t k = 0, n = 0;
    ((Along >> k++ & 1 ? void(found[n++] = D::ref) : void()), ...);
    return found;
  }();
  static constexpr double flops(std::span<const shape> whole, const shard_dims& of_result) {
    double total = 0;
    for (const dim_ref& d : dims) total += flops_of(whole.back()[of_result.find(d)], whole.back().elements());
    return total;
  }
  /// In linalg/fft_kernels.hpp.
  void operator()(const local_context&, std::span<const shard> in, const shard& out) const;
};

/// From real numbers along one dim to complex ones along another, or back.
template <class From, class To, transform What>
struct half_spectrum_kernel {
  static constexpr std::string_view name = name_of(What);
  static constexpr double flops(std::span<const shape> whole, const shard_dims& of_result) {
    const std::int64_t one = whole[0][of_result.find(To::ref)], other = whole[1][of_result.find(To::ref)];
    return flops_of(one > other ? one : other, whole[1].elements());
  }
  /// In linalg/fft_kernels.hpp.
  void operator()(const local_context&, std::span<const shard> in, const shard& out) const;
};

/// The element type of a result, none where there is no transform of such numbers.
constexpr element transformed(element from, transform what) {
  if (what != transform::of_real)
    return !is_complex(from) ? element::none : what == transform::to_real ? real_of(from) : from;
  return from == element::f32 ? element::c64 : from == element::f64 ? element::c128 : element::none;
}

/// The dims along which x comes sharded, as far as the program says: in the last layout that was written on the way to
/// x. A kernel that needs a sharded dim unsharded, such as a transform before this one, leaves its axes to other dims.
constexpr dim_set comes_sharded(const recorder& in, value x) {
  indexed_vector<node_id> way;
  for (node_id id = x.id;; id = in.made().nodes[id].in[0]) {
    way.push_back(id);
    if (in.made().nodes[id].arity == 0) break;
  }
  dim_set sharded = 0;
  while (!way.empty()) {
    const node& n = in.made().nodes[way.back()];
    way.pop_back();
    if (n.code == op::call && (n.over & sharded) != 0) sharded = n.type.set() & ~n.over;
    for (int i = 0; i < n.type.rank; ++i)
      if ((n.pinned >> i & 1) != 0)
        sharded = n.pin[i].empty() ? sharded & ~dim_bit(n.type[i]) : sharded | dim_bit(n.type[i]);
    sharded &= n.type.set();
  }
  return sharded;
}

/// How x is transformed along some dims, as sets of indices of them, one a kernel. Transforms commute, and each needs
/// its dim unsharded: dims that come unsharded go first and together, so that memory is passed over once. Then those
/// that come sharded, from the last one to the first, so that the axes of a dim go to a dim that is done. Where no dim
/// comes sharded, one of them goes alone: the other kernel can be sharded over it.
constexpr indexed_vector<std::size_t> kernels_of(const recorder& in, value x, std::span<const dim_id> dims) {
  const tensor_type& t = in.at(x).type;
  indexed_vector<std::size_t> sets{0};
  const dim_set all_sharded = comes_sharded(in, x);
  bool some_sharded = false;
  int last = -1;
  for (int position = t.rank - 1; position >= 0; --position) {
    const bool sharded = (all_sharded & dim_bit(t[position])) != 0;
    some_sharded = some_sharded || sharded;
    for (std::size_t k = 0; k < dims.size(); ++k) {
      if (dims[k] != t[position]) continue;
      if (sharded) sets.push_back(std::size_t{1} << k);
      else sets[0] |= std::size_t{1} << k, last = as_int(k);
    }
  }
  if (!some_sharded && std::popcount(sets[0]) > 1) {
    sets[0] &= ~(std::size_t{1} << last);
    sets.push_back(std::size_t{1} << last);
  }
  return sets;
}

/// Transforms along all dims.
template <transform What, Dim... D>
constexpr value transform_along(operand x, const D&...) {
  constexpr std::array<dim_ref, sizeof...(D)> dims{D::ref...};
  recorder& in = *x.from.in;
  value y = x.from;
  if (!y.ok()) return y;
  if (transformed(in.at(y).type.element, What) == element::none)
    return in.fail(fault::no_function_for_element, name_of(What), x.where);
  std::array<dim_id, sizeof...(D)> ids{};
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const int id = in.made().find_dim(dims[k].name);
    if (!in.at(y).type.has(id)) return in.fail(fault::dim_missing, name_of(What), x.where, dims[k].name);
    ids[k] = known_dim(id);
    for (std::size_t before = 0; before < k; ++before)
      if (ids[before] == ids[k]) return in.fail(fault::dim_used_twice, name_of(What), x.where, dims[k].name);
  }
  const auto apply = [&]<std::size_t Along>() {
    using kernel = transform_kernel<What, Along, D...>;
    if (y.ok()) y = call_with_type<kernel>(std::array{y}, kernel::dims, in.at(y).type, x.where);
  };
  for (const std::size_t wanted : kernels_of(in, x.from, ids))
    [&]<std::size_t... Less>(std::index_sequence<Less...>) {
      ((Less + 1 == wanted ? apply.template operator()<Less + 1>() : void()), ...);
    }(std::make_index_sequence<(std::size_t{1} << sizeof...(D)) - 1>{});
  return y;
}

/// Between real numbers along one dim and complex ones along another.
template <transform What, Dim From, Dim To>
constexpr value half_spectrum(operand x, const From&, const To&) {
  recorder& in = *x.from.in;
  if (!x.from.ok()) return x.from;
  tensor_type t = in.at(x.from).type;
  t.element = transformed(t.element, What);
  if (t.element == element::none) return in.fail(fault::no_function_for_element, name_of(What), x.where);
  const int position = t.find(in.made().find_dim(From::ref.name));
  if (position < 0) return in.fail(fault::dim_missing, name_of(What), x.where, From::ref.name);
  const int other = in.dim(To::ref, name_of(What), x.where);
  if (other < 0) return {&in, no_node};
  if (t.has(other)) return in.fail(fault::dim_used_twice, name_of(What), x.where, To::ref.name);
  // N real numbers have N / 2 + 1 complex ones.
  const dim_id whole = What == transform::of_real ? t[position] : known_dim(other),
               half = What == transform::of_real ? known_dim(other) : t[position];
  extent_sum sum;
  sum.constant = 2;
  sum.terms.push_back({whole, 1});
  if (!in.extent_follows({half, sum, 2}, name_of(What), x.where)) return {&in, no_node};
  t[position] = known_dim(other);
  return call_with_type<half_spectrum_kernel<From, To, What>>(std::array{x.from},
                                                              std::array<dim_ref, 2>{From::ref, To::ref}, t, x.where);
}

} // namespace detail

/// The discrete Fourier transform y[k] = sum over n of x[n] exp(-2 pi i k n / N) along one dim, or along
/// several. The result has the dims of x. Elements: Kokkos::complex<float>, Kokkos::complex<double>.
///
/// Layouts and communication: along unsharded dims there is none. A sharded dim is gathered by an all-to-all and
/// sharded again by another, which is left out if the result may stay transposed. The planner shards all other dims in
/// any way. Faults: no_function_for_element, dim_missing, dim_used_twice. There is no derivative, as for all complex
/// numbers. Algorithm: FFTW on the host (Frigo and Johnson 2005), cuFFT on CUDA.
template <Dim... D>
  requires(sizeof...(D) > 0)
constexpr value fft(operand x, const D&... along) {
  return detail::transform_along<transform::forward>(x, along...);
}
CLEAVE_LIFT(fft)
/// The inverse of `fft`: x[n] = 1/N sum over k of y[k] exp(2 pi i k n / N).
template <Dim... D>
  requires(sizeof...(D) > 0)
constexpr value ifft(operand x, const D&... along) {
  return detail::transform_along<transform::inverse>(x, along...);
}
CLEAVE_LIFT(ifft)
/// `fft` of real numbers along `from`, of extent N. The result has the values for k = 0 ... N/2 along `to`, whose
/// extent is N/2 + 1, which follows from N inside of a function; the other values are conjugates of these. Elements:
/// float, double; the result is complex. Throws shape_error if the extents do not belong together. Otherwise as `fft`.
template <Dim From, Dim To>
constexpr value rfft(operand x, const From& from, const To& to) {
  return detail::half_spectrum<transform::of_real>(x, from, to);
}
CLEAVE_LIFT(rfft)
/// The inverse of `rfft`: real numbers along `to`, of extent N, from N/2 + 1 values along `from`. The imaginary parts
/// of the first value, and for even N of the last one, count as 0.
template <Dim From, Dim To>
constexpr value irfft(operand x, const From& from, const To& to) {
  return detail::half_spectrum<transform::to_real>(x, from, to);
}
CLEAVE_LIFT(irfft)

}}} // namespace cleave::v0::linalg
