// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Laws of names and layouts, checked by compiling.
#include <cleave/base/numbers.hpp>
#include <cleave/graph/verify.hpp>
#include <cleave/layout/moved.hpp>
#include <cleave/type/abstract.hpp>

namespace {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model", 4> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed", 512> embed;

// Equal layouts are the same type, however they are written.
static_assert(std::is_same_v<decltype(mesh(batch / data, embed)), decltype(mesh(batch / data, embed))>);
static_assert(std::is_same_v<decltype(mesh(batch, cleave::unreduced(model), embed)),
                             decltype(mesh(batch, embed, cleave::unreduced(model)))>);
static_assert(!std::is_same_v<decltype(mesh(batch / data / model)), decltype(mesh(batch / model / data))>);
static_assert(std::is_same_v<cleave::abstract<float, mesh(batch / data)>, cleave::abstract<float, mesh(batch / data)>>);

// A mesh knows its axes and which sizes are fixed.
static_assert(decltype(mesh)::value.size() == 2 && decltype(mesh)::value.find("model") == 1 &&
              decltype(mesh)::value.find("none") == -1);
static_assert(decltype(mesh)::value.axes[0].size == cleave::dynamic && decltype(mesh)::value.axes[1].size == 4);
static_assert(embed.ref.extent == 512 && batch.ref.extent == cleave::dynamic);

// Axis lists: major first, prefixes, canonical comparison.
constexpr cleave::axis_list list(int a, int b) {
  cleave::axis_list l(a);
  l.push_back(b);
  return l;
}
static_assert(list(0, 1).size() == 2 && list(0, 1)[0] == 0 && list(0, 1)[1] == 1 && list(0, 1) != list(1, 0));
static_assert(list(0, 1).starts_with(0) && !list(0, 1).starts_with(1) && list(2, 6).mask() == 0b1000100);

// A number that does not fit into its field is no constant expression.
template <class Field, auto number>
concept Fits = requires { typename std::integral_constant<Field, static_cast<Field>(cleave::narrowed(number))>; };
static_assert(Fits<std::uint8_t, 255> && !Fits<std::uint8_t, 256> && !Fits<std::uint8_t, -1>);
static_assert(Fits<std::int8_t, -128> && !Fits<std::int8_t, 128u> && !Fits<std::uint16_t, std::size_t{65536}>);

// A layout is possible if its axes are those of the mesh, each is used once, and they follow one another along dims
// that the tensor has.
constexpr bool possible(std::uint64_t word, int rank) {
  return verify(cleave::layout{word}, rank, decltype(mesh)::value);
}
constexpr std::uint64_t placed(int axis, std::uint64_t position, std::uint64_t place) {
  return ((position + 1) | place << 4) << (cleave::layout::bits_per_axis * axis);
}
constexpr std::uint64_t partial(int axis) { return std::uint64_t{1} << (cleave::layout::unreduced_at + axis); }
static_assert(possible(0, 0) && possible(placed(0, 1, 0), 2) && possible(placed(0, 1, 1) | placed(1, 1, 0), 2));
static_assert(possible(placed(0, 0, 0) | partial(1), 1) && possible(placed(0, 7, 0), 8));
static_assert(!possible(placed(2, 0, 0), 1) && !possible(partial(2), 1), "the mesh has two axes");
static_assert(!possible(placed(0, 1, 0), 1), "the tensor has one dim");
static_assert(!possible(placed(0, 0, 0) | partial(0), 1), "no axis shards a dim and is unreduced");
static_assert(!possible(placed(0, 0, 0) | placed(1, 0, 0), 1), "two axes have one place");
static_assert(!possible(placed(0, 0, 1), 1) && !possible(placed(0, 0, 0) | placed(1, 0, 2), 1), "a place is skipped");

// Devices and coordinates are inverse; the last axis is the fastest.
constexpr bool coordinates_invert(cleave::axis_sizes sizes) {
  for (std::int64_t d = 0; d < sizes.devices(); ++d)
    if (cleave::device_of(cleave::coordinates_of(d, sizes), sizes) != d) return false;
  return cleave::coordinates_of(1, sizes)[1] == 1;
}
constexpr cleave::axis_sizes two_by_three = [] {
  cleave::axis_sizes s;
  s[0] = 2;
  s[1] = 3;
  return s;
}();
static_assert(coordinates_invert(two_by_three));

// Blocks cover every index once, in order, also when they do not divide it: (1), (2) and (3) of `block`.
constexpr bool blocks_cover() {
  for (std::int64_t extent = 0; extent < 20; ++extent)
    for (std::int64_t parts = 1; parts < 7; ++parts) {
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const cleave::range r = cleave::block(extent, parts, i);
        if (r.begin != next || r.size() > cleave::block_extent(extent, parts)) return false;
        next = r.end;
      }
      if (next != extent) return false;
    }
  return true;
}
static_assert(blocks_cover());

// A dim over two axes has flat blocks of ceil(N / (p * q)), never nested ceilings: 10 over 2 x 2 is 3, 3, 3, 1.
static_assert(cleave::block(10, 4, 2) == cleave::range{6, 9} && cleave::block(10, 4, 3) == cleave::range{9, 10});
static_assert(!cleave::nests({10}, 0, list(0, 1), [] {
  cleave::axis_sizes s;
  s[0] = s[1] = 2;
  return s;
}()));

// Elements of a vector that were removed can be made again, also scalars, whose lifetimes clang follows.
constexpr int sum_after_removals() {
  cleave::indexed_vector<int> all(2, 1);
  all.pop_back();
  all.push_back(3);
  all.erase(all.begin());
  all.resize(3, 5);
  return all[0] + all[1] + all[2];
}
static_assert(sum_after_removals() == 13);

} // namespace
