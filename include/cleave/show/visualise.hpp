// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/blocks.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/layout/sharding.hpp>
#include <cleave/mesh/mesh_value.hpp>
#include <cleave/show/errors.hpp>
#include <cleave/show/terminal.hpp>
#include <cleave/type/abstract.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace cleave { inline namespace v0 {

/// How `visualise` draws.
struct visualise_options {
  /// Blocks with a background, in the colours that all terminals have.
  bool colours = show::shows_colours();
};

namespace show { namespace detail {

/// Numbers as ranges: `0-3,8`.
inline std::string as_ranges(const std::vector<std::int64_t>& sorted) {
  std::string text;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    text.append(text.empty() ? "" : ",").append(std::to_string(sorted[i]));
    if (end - i > 1) text.append(end - i > 2 ? "-" : ",").append(std::to_string(sorted[end - 1]));
    i = end;
  }
  return text;
}

/// Draws who has which block of a tensor: blocks of the last sharded dim from left to right, of the one before it from
/// top to bottom, and a picture for each block of the others.
class picture_of_blocks {
 public:
  picture_of_blocks(const layout& where, const shape& extents, const std::vector<std::string>& dims,
                    const axis_sizes& sizes, const visualise_options& options)
      : where_(where), extents_(extents), dims_(dims), sizes_(sizes), options_(options) {
    for (int i = 0; i < extents.rank; ++i)
      if (sizes.product(where[i]) > 1) sharded_.push_back(i);
  }
  std::string text() {
    coordinates_of_block at(static_cast<std::size_t>(std::max(extents_.rank, 1)), 0);
    std::string all;
    const std::size_t outer = sharded_.size() > 2 ? sharded_.size() - 2 : 0;
    while (true) {
      for (std::size_t k = 0; k < outer; ++k)
        all.append(k > 0 ? ", " : "").append(label(sharded_[k], at[static_cast<std::size_t>(sharded_[k])]));
      if (outer > 0) all += '\n';
      draw(all, at);
      std::size_t k = outer;
      while (k > 0 && ++at[static_cast<std::size_t>(sharded_[k - 1])] == parts(sharded_[k - 1]))
        at[static_cast<std::size_t>(sharded_[--k])] = 0;
      if (k == 0) return all;
    }
  }

 private:
  using coordinates_of_block = std::vector<std::int64_t>;

  std::int64_t parts(int position) const { return sizes_.product(where_[position]); }
  /// `row 0:128`, the indices of a block.
  std::string label(int position, std::int64_t index) const {
    const range r = extents_.along(position).block(parts(position), index);
    return dims_[static_cast<std::size_t>(position)] + " " + std::to_string(r.begin) + ":" + std::to_string(r.end);
  }
  /// The devices that have a block.
  std::string holders(const coordinates_of_block& at) const {
    std::vector<std::int64_t> all;
    for (std::int64_t device = 0; device < sizes_.devices(); ++device) {
      const coordinates here = coordinates_of(device, sizes_);
      bool has = true;
      for (const int i : sharded_) has = has && block_index(where_[i], here, sizes_) == at[static_cast<std::size_t>(i)];
      if (has) all.push_back(device);
    }
    return as_ranges(all);
  }
  void draw(std::string& all, coordinates_of_block at) const {
    const int across = sharded_.empty() ? -1 : sharded_.back();
    const int down = sharded_.size() < 2 ? -1 : sharded_[sharded_.size() - 2];
    const std::int64_t rows = down < 0 ? 1 : parts(down), columns = across < 0 ? 1 : parts(across);
    std::vector<std::vector<std::string>> cells(static_cast<std::size_t>(rows));
    std::size_t width = 0, left = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      if (down >= 0) at[static_cast<std::size_t>(down)] = r, left = std::max(left, label(down, r).size());
      for (std::int64_t c = 0; c < columns; ++c) {
        if (across >= 0) at[static_cast<std::size_t>(across)] = c, width = std::max(width, label(across, c).size());
        cells[static_cast<std::size_t>(r)].push_back(holders(at));
        width = std::max(width, cells[static_cast<std::size_t>(r)].back().size());
      }
    }
    const auto padded = [](const std::string& s, std::size_t to) { return s + std::string(to - s.size(), ' '); };
    const std::string margin(left + (left > 0 ? 1 : 0), ' ');
    std::string edge = margin + "+";
    for (std::int64_t c = 0; c < columns; ++c) edge += std::string(width + 2, '-') + "+";
    if (across >= 0) {
      all += margin;
      for (std::int64_t c = 0; c < columns; ++c) all += "  " + padded(label(across, c), width + 1);
      while (all.back() == ' ') all.pop_back();
      all += '\n';
    }
    all += edge + '\n';
    for (std::int64_t r = 0; r < rows; ++r) {
      if (left > 0) all += padded(label(down, r), left) + " ";
      all += '|';
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::string cell = " " + padded(cells[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)], width) +
                                 " ";
        const int colour = static_cast<int>((r * columns + c) % 6) + 1;
        all += options_.colours ? "\x1b[30;4" + std::to_string(colour) + "m" + cell + "\x1b[0m|" : cell + "|";
      }
      all += '\n' + edge + '\n';
    }
  }

  layout where_;
  shape extents_;
  std::vector<std::string> dims_;
  axis_sizes sizes_;
  visualise_options options_;
  std::vector<int> sharded_;
};

}} // namespace show::detail

/// Draws which devices have which block of a tensor: a table of the blocks with the numbers of their devices, which are
/// ranks of the grid. Of more than two sharded dims, one table for each block of the first ones.
inline std::string visualise(const spec& s, const shape& extents, const axis_sizes& sizes,
                             const visualise_options& options = {}) {
  std::vector<std::string> dims;
  for (const placement& p : s.dims) dims.emplace_back(p.dim.name);
  const layout where = layout_of(s);
  std::string text = show::detail::picture_of_blocks(where, extents, dims, sizes, options).text();
  if (where.is_partial()) {
    text += "partial values, to be combined over";
    for (int a = 0; a < s.mesh.size(); ++a)
      if (where.unreduced().contains(a)) text.append(" ").append(s.mesh.axes[a].name);
    text += '\n';
  }
  return text;
}
/// The same with sizes by name. Throws shape_error if a size is neither fixed nor given.
inline std::string visualise(const spec& s, std::initializer_list<named_size> named,
                             const visualise_options& options = {}) {
  const indexed_span<const named_size> given(named.begin(), named.end());
  const auto known = [](const size_of_name& found, std::string_view name) {
    if (!found.is_clear() || found.size < 0) raise<shape_error>(wording::size_to_draw_is_not_given(name));
    return found.size;
  };
  shape extents;
  for (const placement& p : s.dims)
    extents[extents.rank++] = known(look_up_size(given, &named_size::is_of_dim, p.dim.name, p.dim.extent), p.dim.name);
  axis_sizes sizes;
  for (int a = 0; a < s.mesh.size(); ++a)
    sizes[a] = known(look_up_size(given, &named_size::is_of_axis, s.mesh.axes[a].name, s.mesh.axes[a].size),
                     s.mesh.axes[a].name);
  return visualise(s, extents, sizes, options);
}
/// The same for a layout: `visualise(mesh(batch / data, embed), {batch = 1024, embed = 64, data = 4})`.
template <class Mesh, class Unreduced, class... Placements>
std::string visualise(const sharding<Mesh, Unreduced, Placements...>& where, std::initializer_list<named_size> named,
                      const visualise_options& options = {}) {
  return visualise(where.value, named, options);
}
/// The same for a tensor type: `visualise<X>({batch = 1024, embed = 64, data = 4})`.
template <TensorType X>
std::string visualise(std::initializer_list<named_size> named, const visualise_options& options = {}) {
  return visualise(std::remove_cvref_t<X>::sharding_type::value, named, options);
}
/// The same for a tensor, on its grid. It is local: any rank may call it alone.
template <TensorType X>
  requires requires(const X& x) { x.state().global; }
std::string visualise(const X& x, const visualise_options& options = {}) {
  return visualise(X::sharding_type::value, x.state().global, x.get_grid().sizes(), options);
}

}} // namespace cleave::v0
