// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/mesh/mesh_value.hpp>

#include <cstdint>
#include <string_view>

namespace cleave { inline namespace v0 {

/// The largest number of dims of a tensor.
inline constexpr int max_rank = 8;

/// How the partial values on the devices of an axis combine into the value. `logsumexp` is log(sum(exp(x))), of
/// floating-point numbers.
enum class reduction : std::uint8_t { sum, max, min, prod, logsumexp };

constexpr std::string_view name_of(reduction r) {
  constexpr enum_table<reduction, std::string_view, 5> names{{"sum", "max", "min", "prod", "logsumexp"}};
  return names[r];
}

/// Where each element of a tensor lives. Position i of the tensor is sharded over the axes `l[i]`, major first, in
/// blocks of ceil(extent / product of their sizes). Over the axes in `unreduced()` every device holds a partial value,
/// to be combined by `combine()`. Over every other axis the tensor is replicated.
///
/// One word, so that constant evaluation copies, compares and hashes a layout in one operation. Seven bits an axis:
/// from the lowest, four for the position that it shards, counted from 1 (0: none), and three for its rank among the
/// axes of that position. Above them the set of unreduced axes and their reduction, which is `sum` if there are none:
/// equal layouts have equal words.
struct layout {
  std::uint64_t word = 0;

  static constexpr int bits_per_axis = 7;
  static constexpr int unreduced_at = bits_per_axis * max_axes;
  static constexpr int combine_at = unreduced_at + max_axes;
  /// The bits that say how positions are sharded.
  static constexpr std::uint64_t dims_mask = (std::uint64_t{1} << unreduced_at) - 1;
  /// The lowest bit of each axis.
  static constexpr std::uint64_t lowest_bits = 0x0000'0408'1020'4081u;

  /// The axes that shard a position, major first.
  constexpr axis_list operator[](int position) const {
    axis_list list;
    list.packed = packed_axes(position);
    return list;
  }
  /// The same as the bits of an axis_list, for inner loops of the planner.
  constexpr std::uint32_t packed_axes(int position) const {
    std::uint32_t packed = 0, axis = 1;
    const std::uint64_t number = static_cast<std::uint64_t>(position + 1);
    for (std::uint64_t rest = word & dims_mask; rest != 0; rest >>= bits_per_axis, ++axis)
      if ((rest & 15u) == number) packed |= axis << (4 * (rest >> 4 & 7u));
    return packed;
  }
  /// An axis that shards another position is taken from there.
  constexpr void set(int position, axis_list list) {
    std::uint64_t made = word & ~(127 * of_position(position));
    // The number of the position, and in the bits above the rank.
    std::uint64_t place = static_cast<std::uint64_t>(position + 1);
    for (std::uint32_t p = list.packed; p != 0; p >>= 4, place += 16) {
      const std::uint32_t shift = bits_per_axis * ((p & 15u) - 1u);
      made = (made & ~(std::uint64_t{127} << shift)) | place << shift;
    }
    word = made;
  }
  constexpr void clear(int position) { word &= ~(127 * of_position(position)); }
  /// Shards a position over one more axis, its new minor one.
  constexpr void append(int position, int axis) {
    std::uint64_t place = static_cast<std::uint64_t>(position + 1);
    for (std::uint64_t rest = of_position(position); rest != 0; rest &= rest - 1) place += 16;
    word |= place << (bits_per_axis * axis);
  }
  /// The set of axes that shard a position.
  constexpr axis_set axes(int position) const { return packed_set(of_position(position)); }
  /// Takes minor axes from a position until none of a set shards it.
  constexpr void give_up(int position, unsigned set) {
    if ((axes(position) & set) == 0) return;
    axis_list list = (*this)[position];
    while ((list.bits() & set) != 0) list.pop_back();
    this->set(position, list);
  }

  constexpr axis_set unreduced() const { return partial_bits(); }
  /// The same as bits.
  constexpr unsigned partial_bits() const { return static_cast<unsigned>(word >> unreduced_at & 127u); }
  /// Whether it has unreduced axes, and whether some axis shards a position; cheaper than the sets.
  constexpr bool is_partial() const { return word >> unreduced_at != 0; }
  constexpr bool is_sharded() const { return (word & dims_mask) != 0; }
  constexpr reduction combine() const { return static_cast<reduction>(word >> combine_at); }
  /// Makes values partial over a set of axes.
  constexpr void set_partial(unsigned over, reduction how = reduction::sum) {
    word &= dims_mask;
    if (over != 0) word |= std::uint64_t{over} << unreduced_at | static_cast<std::uint64_t>(how) << combine_at;
  }
  /// The same sharding of values that are not partial.
  constexpr layout reduced() const { return {word & dims_mask}; }

  /// The axes that shard some position.
  constexpr axis_set sharded() const { return sharded_bits(); }
  /// The same as bits, for inner loops of the planner.
  constexpr unsigned sharded_bits() const {
    return static_cast<unsigned>(
        ((word | word >> 1 | word >> 2 | word >> 3) & lowest_bits) * 0x0000'0410'4104'1040u >> 42 & 127u);
  }
  constexpr axis_set used() const { return sharded_bits() | (word >> unreduced_at & 127u); }
  /// Whether every axis that shards a position of `coarse` has the same position and rank here: each list of axes
  /// continues the one of `coarse`.
  constexpr bool continues(layout coarse) const {
    const std::uint64_t there = ((coarse.word | coarse.word >> 1 | coarse.word >> 2 | coarse.word >> 3) & lowest_bits) *
                                127;
    return ((word ^ coarse.word) & there) == 0;
  }

  /// The positions (bit set) that are not sharded as there.
  constexpr unsigned differs_at(layout other) const {
    unsigned positions = 0;
    std::uint64_t mine = word, theirs = other.word;
    for (std::uint64_t rest = (word ^ other.word) & dims_mask; rest != 0;
         rest >>= bits_per_axis, mine >>= bits_per_axis, theirs >>= bits_per_axis)
      if ((rest & 127u) != 0) positions |= 1u << (mine & 15u) | 1u << (theirs & 15u);
    return positions >> 1;
  }

  constexpr bool same_dims(layout other) const { return ((word ^ other.word) & dims_mask) == 0; }
  friend constexpr bool operator==(layout, layout) = default;

 private:
  /// The lowest bits of the axes that shard a position: those whose number of it differs in no bit.
  constexpr std::uint64_t of_position(int position) const {
    const std::uint64_t differs = word ^ lowest_bits * static_cast<std::uint64_t>(position + 1);
    return lowest_bits & ~(differs | differs >> 1 | differs >> 2 | differs >> 3);
  }
  /// Lowest bits as a set. The product brings bit 7a to 42 + a, and the others elsewhere.
  static constexpr axis_set packed_set(std::uint64_t bits) { return bits * 0x0000'0410'4104'1040u >> 42 & 127u; }
};

/// A dim by name, with its extent if it is fixed. `dim<"batch">` converts to it; functions take it as an argument.
struct dim_ref {
  std::string_view name{};
  std::int64_t extent = dynamic;
  /// The extent is promised to be a multiple of the number of devices over which the dim is sharded.
  bool divisible = false;
  /// The name of the sizes that its blocks have on a grid; none: they are equal.
  std::string_view blocks{};
};

/// The name of a dim in place of an operand that has been reported as wrong already.
inline constexpr text refused_dim{"(a mistake)"};

/// One dim of a specification and the names of the axes that shard it, major axis first.
struct placement {
  dim_ref dim{};
  static_vector<std::string_view, max_axes> axes{};

  constexpr placement() = default;
  constexpr placement(dim_ref d) : dim(d) {}
};

/// A sharding by names, before it is resolved against the dims of a tensor and the axes of a mesh. `mesh(batch / data)`
/// converts to it.
struct spec {
  mesh_value mesh{};
  static_vector<placement, max_rank> dims{};
  static_vector<std::string_view, max_axes> unreduced{};
  reduction combine = reduction::sum;
  /// False for a type whose error has been reported already.
  bool well_formed = true;

  /// The number of dims.
  constexpr int rank() const { return static_cast<int>(dims.size()); }
  /// The position of the dim of that name, or -1.
  constexpr int find(std::string_view name) const {
    for (int i = 0; i < rank(); ++i)
      if (dims[i].dim.name == name) return i;
    return -1;
  }
};

/// A specification whose axes were looked up in its mesh; positions are those of its dims.
constexpr layout layout_of(const spec& s) {
  layout l;
  for (int i = 0; i < std::ssize(s.dims); ++i)
    for (std::string_view name : s.dims[i].axes)
      if (s.mesh.find(name) >= 0) l.append(i, s.mesh.find(name));
  for (std::string_view name : s.unreduced)
    if (s.mesh.find(name) >= 0) l.set_partial(l.unreduced().with(s.mesh.find(name)), s.combine);
  return l;
}

}} // namespace cleave::v0
