// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/expr/functions.hpp>
#include <cleave/expr/operation.hpp>
#include <cleave/stencil/boundary.hpp>

#include <array>
#include <utility>

// Fields whose neighbours a stencil reads. A neighbour is a shift of the field, so that halos, messages and prices are
// those of shifts; the conditions at the faces are selects by ranges of indices.

namespace cleave { inline namespace v0 { namespace stencil {

/// Which neighbours a field has: those along one dim at a time, or all within a box, corners included.
enum class neighbourhood : std::uint8_t { star, box };

/// The distance of a neighbour along a dim, in elements; notes the line of the user.
struct offset {
  std::int64_t by;
  source where{};

  template <std::integral I>
  constexpr offset(I n, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : by(static_cast<std::int64_t>(n)), where{file, line} {}
};

namespace detail {

/// Offsets along all dims of a domain.
template <std::size_t Rank>
using offsets = std::array<std::int64_t, Rank>;

/// Reads a field around an index in the domain.
template <std::size_t Rank>
struct reader {
  value from;
  std::array<domain_dim, Rank> dims;
  /// It was computed by a step before. Each device has then computed its halo itself, and has nothing beyond the faces.
  bool stepped = false;

  constexpr value read(const offsets<Rank>& at, source where) const {
    if (!from.ok()) return from;
    const called_at user(operand(from, where.file, where.line));
    return beyond_faces(at, 0, where);
  }

 private:
  constexpr value element_at(const offsets<Rank>& at, source where) const {
    // One map for all dims: a corner is as near as a face.
    static_vector<dim_map, Rank> maps;
    for (std::size_t d = 0; d < Rank; ++d) {
      if (at[d] == 0) continue;
      dim_map m;
      m.from = m.to = known_dim(from.in->made().find_dim(dims[d].dim.name));
      m.offset.constant = at[d];
      m.outside = stepped && !dims[d].is_ring ? border::zero : dims[d].read;
      // The source of a mirrored element is within the domain.
      if (m.outside == border::reflect &&
          !from.in->extent_at_least({m.from, std::max(at[d], -at[d]) + 1, true}, "stencil", where))
        return {from.in, no_node};
      maps.push_back(m);
    }
    if (maps.empty()) return from;
    const tensor_type type = from.in->at(from).type;
    const indexed_span<const dim_map> all(maps.begin(), maps.size());
    return from.in->remap(op::shift, std::array{from}, all, type, where);
  }
  /// Whether reading beyond the faces of a dim gives the elements of their condition.
  constexpr bool is_complete(const domain_dim& d) const {
    return d.is_ring || (d.complete && (!stepped || d.read == border::zero));
  }
  /// Whether beyond a face of dim d, which decides, the condition of another dim would replace zeros.
  constexpr bool zeros_are_replaced(const offsets<Rank>& at, std::size_t d) const {
    if (dims[d].is_ring || dims[d].read != border::zero) return false;
    for (std::size_t e = d + 1; e < Rank; ++e)
      if (at[e] != 0 && !is_complete(dims[e])) return true;
    return false;
  }
  /// The value of the condition of a face of dim d at an offset along the other dims. A value that has some of these is
  /// a field of its own with the same conditions.
  constexpr operand given_at(const face& f, offsets<Rank> at, std::size_t d, source where) const {
    const value given = f.given.from;
    if (f.given.is_literal || !given.ok()) return f.given;
    recorder& in = *given.in;
    for (std::size_t e = 0; e < Rank; ++e)
      if (e == d || !in.at(given).type.has(in.made().find_dim(dims[e].dim.name))) at[e] = 0;
    return {reader{given, dims}.beyond_faces(at, 0, where), where.file, where.line};
  }
  /// The element at an offset, or the value that the conditions of the dims from `d` on give in its place.
  constexpr value beyond_faces(const offsets<Rank>& at, std::size_t d, source where) const {
    if (d == Rank) return element_at(at, where);
    value x = beyond_faces(at, d + 1, where);
    if (at[d] == 0 || !x.ok() || (is_complete(dims[d]) && !zeros_are_replaced(at, d))) return x;
    recorder& in = *from.in;
    const bool low = at[d] < 0;
    const face& f = low ? dims[d].low : dims[d].high;
    const std::int64_t away = low ? -at[d] : at[d];
    const value index = in.iota(dims[d].dim, element::i64, where);
    const dim_set bit = dim_bit(known_dim(in.made().find_dim(dims[d].dim.name)));
    // The index of element n, counted from the face.
    const auto nth = [&](std::int64_t n) {
      return low ? operand(n, where.file, where.line)
                 : operand(in.count(bit, element::i64, where) - (n + 1), where.file, where.line);
    };
    if (f.what == outside::given)
      return select(low ? index < nth(away) : index > nth(away), given_at(f, at, d, where), x);
    // The element whose image element -1 is. The source of a mirrored element is within the domain.
    const std::int64_t first = f.what == outside::mirrored_at_element ? 1
                               : f.what == outside::mirrored_at_face  ? 0
                                                                      : -1;
    const std::int64_t farthest = f.what == outside::outermost ? 1 : away + first;
    if (farthest > 1 &&
        !in.extent_at_least({known_dim(in.made().find_dim(dims[d].dim.name)), farthest, true}, "stencil", where))
      return {&in, no_node};
    for (std::int64_t n = 0; n < away; ++n) {
      const std::int64_t inner = f.what == outside::outermost ? 0 : away - n - 1 + first;
      if (inner < 0) {
        x = select(index == nth(n), 0.0, x);
        continue;
      }
      offsets<Rank> instead = at;
      instead[d] = low ? inner - n : n - inner;
      const value mirrored = beyond_faces(instead, d + 1, where);
      x = select(index == nth(n), f.odd ? -mirrored : mirrored, x);
    }
    return x;
  }
};

} // namespace detail

/// A field in a function, whose neighbours within `Width` elements may be read: `u(-1, 0)` is the element before this
/// one along the first dim of the domain. It is made by `star<Width>` or `box<Width>`. A neighbour beyond its
/// neighbourhood is a compile error. All reads of a field share one exchange of halos if that moves no more.
template <neighbourhood Which, int Width, Dim... D>
  requires(Width > 0 && sizeof...(D) > 0)
class field {
 public:
  static constexpr std::size_t rank = sizeof...(D);
  /// The width of the halo, and the number of elements to which a neighbour is away at most along a dim.
  static constexpr int width = Width;

  constexpr field(operand x, const boundary<D>&... dims) : read_{x.from, {detail::domain_dim(dims, Width)...}} {
    if (!x.from.ok()) return;
    for (std::size_t d = 1; d < rank; ++d)
      for (std::size_t e = 0; e < d; ++e)
        if (read_.from.ok() && read_.dims[d].dim.name == read_.dims[e].dim.name)
          read_.from = x.from.in->fail(fault::dim_used_twice, "stencil", x.where, read_.dims[d].dim.name);
    find_dims(x.where);
  }
  /// The same field after a step that made x of it; for `advance`.
  constexpr field(const field& before, const value& x) : read_{x, before.read_.dims, true} {
    if (x.ok()) find_dims(x.in->at(x).where);
  }

  /// The neighbour at these offsets along the dims of the domain, in the order in which the dims were given. Outside of
  /// the domain the condition of that face gives it; in a corner the first dim decides. Fault: neighbour_too_far.
  constexpr value operator()(std::conditional_t<true, offset, D>... by) const {
    const std::array<offset, rank> all{by...};
    detail::offsets<rank> at{};
    int moved = 0;
    std::string_view far;
    for (std::size_t d = 0; d < rank; ++d) {
      at[d] = all[d].by;
      moved += at[d] != 0 ? 1 : 0;
      const bool diagonal = Which == neighbourhood::star && moved > 1 && at[d] != 0;
      if (far.empty() && (at[d] < -Width || at[d] > Width || diagonal)) far = read_.dims[d].dim.name;
    }
    if (!far.empty() && read_.from.ok())
      return read_.from.in->fail(fault::neighbour_too_far, "stencil", all[0].where, far);
    return read_.read(at, all[0].where);
  }
  /// The field as an operand of `call` or `local`, whose kernel reads its shards and their halos as one array. Fault:
  /// halo_of_kernel.
  constexpr kernel_operand as_kernel_operand() const {
    kernel_operand k{operand(read_.from)};
    k.width = Width;
    for (const detail::domain_dim& d : read_.dims) {
      if (!k.it.from.ok()) return k;
      recorder& in = *k.it.from.in;
      const source where = in.at(k.it.from).where;
      dim_map m;
      m.from = m.to = known_dim(in.made().find_dim(d.dim.name));
      m.offset.constant = -Width;
      m.dilation = 2 * Width;
      m.outside = d.read;
      m.alone = Which == neighbourhood::star;
      if (!d.complete || k.halo.full()) k.refused = d.dim.name;
      else if (d.read == border::reflect && !in.extent_at_least({m.from, Width + 1, true}, "stencil", where))
        k.it.from = {&in, no_node};
      else k.halo.push_back(m);
    }
    return k;
  }
  /// The value itself.
  constexpr const value& whole() const { return read_.from; }

 private:
  /// The value has all dims of the domain.
  constexpr void find_dims(source where) {
    for (const detail::domain_dim& d : read_.dims)
      if (read_.from.ok() && read_.from.in->dim_of(read_.from, d.dim, "stencil", where) < 0)
        read_.from = {read_.from.in, no_node};
  }

  detail::reader<rank> read_;
};

/// The field x whose neighbours along one dim at a time are read, up to `Width` elements away. The dims of the domain
/// come with their conditions: `star<1>(u, along(row, periodic), along(col, fixed(0), zero_gradient))`. x may have
/// other dims; those have no neighbours. Layout: any. Faults: dim_missing, dim_used_twice.
template <int Width, Dim... D>
constexpr field<neighbourhood::star, Width, D...> star(operand x, const boundary<D>&... dims) {
  return {x, dims...};
}
/// The field x whose neighbours in a box around an element are read, corners included. Otherwise as `star`.
template <int Width, Dim... D>
constexpr field<neighbourhood::box, Width, D...> box(operand x, const boundary<D>&... dims) {
  return {x, dims...};
}

}}} // namespace cleave::v0::stencil
