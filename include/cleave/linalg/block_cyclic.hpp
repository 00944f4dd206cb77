// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/shards.hpp>

#include <algorithm>

// Block-cyclic copies of sharded matrices, in which the devices have equal work while a factorization shrinks.

namespace cleave { inline namespace v0 { namespace linalg { namespace detail {

/// A part of a row-major matrix in memory.
template <class T>
struct rectangle {
  T* at = nullptr;
  std::int64_t rows = 0, columns = 0, leading = 0;

  rectangle part(std::int64_t i, std::int64_t j, std::int64_t m, std::int64_t n) const {
    return {at + i * leading + j, m, n, leading};
  }
};

template <class T>
struct copy_elements {
  const T* from;
  T* to;
  std::int64_t columns, from_leading, to_leading;
  CLEAVE_FUNCTION void operator()(std::int64_t row) const {
    for (std::int64_t j = 0; j < columns; ++j) to[row * to_leading + j] = from[row * from_leading + j];
  }
};
template <class T>
void copy_rectangle(const rectangle<T>& from, const rectangle<T>& to) {
  if (from.rows == 0 || from.columns == 0) return;
  launch("copy panel", from.rows, copy_elements<T>{from.at, to.at, from.columns, from.leading, to.leading});
}

/// A dim in blocks of a given size that the devices of an axis take in turn. A sharded dim has one block for each
/// device.
struct cyclic_dim {
  std::int64_t extent, block, parts;

  constexpr std::int64_t blocks() const { return (extent + block - 1) / block; }
  constexpr std::int64_t begin(std::int64_t b) const { return std::min(b * block, extent); }
  constexpr std::int64_t size(std::int64_t b) const { return begin(b + 1) - begin(b); }
  constexpr std::int64_t owner(std::int64_t b) const { return b % parts; }
  /// How many indices a part has in the blocks before b: where block b begins in its memory.
  constexpr std::int64_t before(std::int64_t b, std::int64_t part) const {
    const std::int64_t whole = b / parts * block;
    // The last block may be short, and no other block of the part comes after it.
    std::int64_t n = whole + (part < b % parts ? block : 0);
    if (b >= blocks() && blocks() > 0 && owner(blocks() - 1) == part) n = held(part);
    return n;
  }
  /// How many indices a part has.
  constexpr std::int64_t held(std::int64_t part) const {
    const std::int64_t all = blocks(), n = all > part ? (all - part + parts - 1) / parts : 0;
    return n * block - (n > 0 && owner(all - 1) == part ? all * block - extent : 0);
  }
  /// Calls f(begin, end) for the ranges of indices that one device has as its sharded block, and another one as blocks
  /// in turn.
  template <class F>
  constexpr void for_each_range(std::int64_t sharded, std::int64_t cyclic, const F& f) const {
    const range mine = cleave::block(extent, parts, sharded);
    for (std::int64_t b = cyclic; b < blocks(); b += parts) {
      const range both = intersect(mine, {begin(b), begin(b + 1)});
      if (both.size() > 0) f(both);
    }
  }
  /// The indices that a part receives where the dim is moved to the block-cyclic distribution.
  constexpr std::int64_t arriving(std::int64_t part) const {
    std::int64_t both = 0;
    for_each_range(part, part, [&](range r) { both += r.size(); });
    return held(part) - both;
  }
  /// The same there and back.
  constexpr std::int64_t moved(std::int64_t part) const {
    return 2 * arriving(part) + cleave::block(extent, parts, part).size() - held(part);
  }
  /// Where an index is in the memory of the device that has it.
  constexpr std::int64_t place(std::int64_t i, bool cyclic) const {
    return cyclic ? i / block / parts * block + i % block : i % std::max<std::int64_t>(block_extent(extent, parts), 1);
  }
};

/// The maximum of a function over the devices of a mesh of two axes.
template <class F>
constexpr std::int64_t busiest(std::int64_t rows, std::int64_t columns, const F& f) {
  std::int64_t most = 0;
  for (std::int64_t p = 0; p < rows; ++p)
    for (std::int64_t q = 0; q < columns; ++q) most = std::max(most, f(p, q));
  return most;
}

/// Moves a matrix along one dim between its sharded layout and the block-cyclic one. `send` and `receive` have room for
/// `from` and for `to`. With one device along the dim both layouts are the same.
template <class T>
struct redistribution {
  cyclic_dim dim;
  bool along_rows, to_cyclic;
  rectangle<T> from, to;
  T *send, *receive;

  template <class Axis>
  void run(const local_context& here, const Axis& axis) const {
    const std::int64_t me = here.index(axis);
    dim.for_each_range(me, me, [&](range r) {
      copy_rectangle(lines(from, dim.place(r.begin, !to_cyclic), r.size()),
                     lines(to, dim.place(r.begin, to_cyclic), r.size()));
    });
    if (dim.parts == 1) return;
    const indexed_vector<std::int64_t> sent = counts(me, to_cyclic), received = counts(me, !to_cyclic);
    copy_pieces(me, to_cyclic, send, from, true);
    const auto line = [](T* at, std::int64_t n) {
      return Kokkos::View<T*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(at,
                                                                                                          as_size(n));
    };
    here.all_to_all(line(send, sum(sent)), {sent.data(), sent.size()}, line(receive, sum(received)),
                    {received.data(), received.size()}, axis);
    copy_pieces(me, !to_cyclic, receive, to, false);
  }

 private:
  std::int64_t across() const { return along_rows ? from.columns : from.rows; }
  /// Rows or columns of a matrix.
  rectangle<T> lines(const rectangle<T>& matrix, std::int64_t at, std::int64_t n) const {
    return along_rows ? matrix.part(at, 0, n, across()) : matrix.part(0, at, across(), n);
  }
  /// The ranges that this device shares with another one; `sharded`: it has them as its block.
  template <class F>
  void ranges(std::int64_t me, std::int64_t other, bool sharded, const F& f) const {
    dim.for_each_range(sharded ? me : other, sharded ? other : me, f);
  }
  std::int64_t length(std::int64_t me, std::int64_t other, bool sharded) const {
    std::int64_t n = 0;
    // Elements that stay on the device are copied at once.
    if (me != other) ranges(me, other, sharded, [&](range r) { n += r.size(); });
    return n;
  }
  indexed_vector<std::int64_t> counts(std::int64_t me, bool sharded) const {
    indexed_vector<std::int64_t> all;
    for (std::int64_t other = 0; other < dim.parts; ++other) all.push_back(across() * length(me, other, sharded));
    return all;
  }
  static std::int64_t sum(const indexed_vector<std::int64_t>& all) {
    std::int64_t n = 0;
    for (const std::int64_t x : all) n += x;
    return n;
  }
  /// Between the pieces of all devices, one after another, and the places in the matrix.
  void copy_pieces(std::int64_t me, bool sharded, T* pieces, const rectangle<T>& matrix, bool pack) const {
    for (std::int64_t other = 0; other < dim.parts; ++other) {
      if (me == other) continue;
      const std::int64_t n = length(me, other, sharded);
      std::int64_t done = 0;
      ranges(me, other, sharded, [&](range r) {
        const rectangle<T> inside = lines(matrix, dim.place(r.begin, !sharded), r.size());
        const rectangle<T> piece = along_rows ? rectangle<T>{pieces + done * across(), r.size(), across(), across()}
                                              : rectangle<T>{pieces + done, across(), r.size(), n};
        if (pack) copy_rectangle(inside, piece);
        else copy_rectangle(piece, inside);
        done += r.size();
      });
      pieces += n * across();
    }
  }
};

}}}} // namespace cleave::v0::linalg::detail
