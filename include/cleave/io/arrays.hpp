// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/files/npz.hpp>
#include <cleave/files/safetensors.hpp>
#include <cleave/io/load.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Aggregates of tensors in files of other programs: safetensors, npz and npy.

namespace cleave { inline namespace v0 { namespace io {

/// An array of a file. The elements are `none` if Cleave does not have their type.
struct array_info {
  std::string name{};
  cleave::element element = cleave::element::none;
  std::vector<std::int64_t> extents{};
};

namespace detail {

enum class array_format : std::uint8_t { safetensors, index, npz, npy };
inline array_format format_of(const std::string& path) {
  const auto ends = [&](std::string_view with) {
    return path.size() >= with.size() && std::string_view(path).substr(path.size() - with.size()) == with;
  };
  if (ends(".safetensors")) return array_format::safetensors;
  if (ends(".safetensors.index.json")) return array_format::index;
  if (ends(".npz")) return array_format::npz;
  if (ends(".npy")) return array_format::npy;
  raise<file_error>(wording::file_format(path));
}
/// The arrays of a file. No communication.
inline catalogue read_catalogue(const std::string& path) {
  switch (format_of(path)) {
    case array_format::safetensors: return safetensors::read(path, false);
    case array_format::index: return safetensors::read(path, true);
    case array_format::npz: return npz::zip_reader(path).take();
    case array_format::npy: break;
  }
  return npz::read_npy(path);
}

/// Writes one file on all ranks.
class saving {
 public:
  saving(const std::string& path, std::vector<member>& members, const name_table& names)
      : members_(members), format_(format_of(path)), all_{{}, path, {path}, {}, {}} {
    if (format_ == array_format::index) raise<file_error>(wording::file_format(path));
    sources_.reserve(members.size());
    for (const member& m : members) add(m, names);
    all_.sort();
    for (const auto& [name, of] : known_)
      if (of.elements != bytes_of_extents(of.extents, 1) || !divide_an_array(of.parts)) refuse(name);
    if (format_ == array_format::npy && all_.arrays.size() != 1) raise<file_error>(wording::file_format(path));
    place();
  }
  /// On one rank: the file, as long as it will be, under a name that is not its own.
  void create() {
    file made = file::fresh(begun());
    made.resize(end_);
    made.close();
  }
  /// Writes the part of this rank. No communication.
  traffic write(const host_memory& memory) {
    std::vector<file_part> parts;
    sums_.resize(all_.arrays.size());
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (const auto part = members_[i].owned(as_signed(i))) add_parts(i, *part, memory[i], parts);
    std::vector<file> files;
    files.push_back(file::existing(begun()));
    const traffic done = file_mover(files, false).run(std::move(parts));
    files[0].sync();
    files[0].close();
    return done;
  }
  std::vector<std::uint32_t>& sums() { return sums_; }
  /// On one rank, after all have written and the checks are combined.
  void complete() {
    file out = file::existing(begun());
    out.write(0, header_.data(), std::ssize(header_));
    for (std::size_t i = 0; i < zipped_.size(); ++i) {
      using check = crc<crc32_of_zip>;
      npz::member& m = zipped_[i];
      const std::int64_t bytes = all_.arrays[i].bytes;
      m.check = check::times(check::factor(bytes), check::of(m.header.data(), std::ssize(m.header))) ^
                check::finished(sums_[i], bytes);
      const std::string front = m.in_front();
      out.write(m.at, front.data(), std::ssize(front));
    }
    if (format_ == array_format::npz) {
      const std::string list = npz::list_of(zipped_, end_);
      out.write(end_, list.data(), std::ssize(list));
    }
    out.sync();
    out.close();
    rename_file(begun(), all_.path);
  }
  void abandon() const { ::unlink(begun().c_str()); }

 private:
  std::string begun() const { return all_.path + ".new"; }
  [[noreturn]] void refuse(const std::string& array) const {
    raise<file_error>(wording::array_twice(all_.path, array));
  }
  void add(const member& m, const name_table& names) {
    const source_of_member& source = sources_.emplace_back(m, names);
    const std::vector<axis_factors> axes = source.axes();
    stored_array a;
    a.element = m.element;
    for (const axis_factors& axis : axes) a.extents.push_back(source.extent(axis));
    a.bytes = bytes_of_extents(a.extents, size_of(m.element));
    const std::int64_t layers = source.stacked() < 0 ? 1 : m.extents[source.stacked()];
    for (std::int64_t index = 0; index < layers; ++index) {
      a.name = source.name(index);
      const auto [at, fresh] = known_.try_emplace(a.name, known_array{m.element, a.extents, 0, {}});
      known_array& of = at->second;
      if (fresh) all_.arrays.push_back(a);
      if (of.element != m.element || of.extents != a.extents) refuse(a.name);
      of.elements += m.extents.elements() / layers;
      of.parts.emplace_back(axes);
    }
  }
  void place() {
    switch (format_) {
      case array_format::npz:
        zipped_ = npz::members_of(all_);
        for (const npz::member& m : zipped_) end_ = m.at + std::ssize(m.in_front()) + m.bytes - std::ssize(m.header);
        return;
      case array_format::npy: header_ = npz::header_of(all_.arrays[0], all_.path, 0); break;
      default: header_ = safetensors::header_of(all_);
    }
    if (format_ == array_format::npy) all_.arrays[0].begin = std::ssize(header_);
    end_ = std::ssize(header_);
    for (const stored_array& a : all_.arrays) end_ += a.bytes;
  }
  void add_parts(std::size_t i, const box& owned, char* memory, std::vector<file_part>& parts) {
    const member& m = members_[i];
    const source_of_member& source = sources_[i];
    const std::vector<axis_factors> axes = source.axes();
    for (std::int64_t index = 0; index < (source.stacked() < 0 ? 1 : m.extents[source.stacked()]); ++index) {
      const stored_array& a = *all_.find(source.name(index));
      std::vector<range> along;
      for (const std::int64_t n : a.extents) along.push_back({0, n});
      const member_piece p = *view_of_piece(source, axes, along, false, m.extents, index);
      file_part part = part_of(owned, m.held, p.at, p.stride, p.first);
      part.begin = a.begin;
      part.element_bytes = size_of(a.element);
      part.memory = memory;
      if (format_ == array_format::npz) {
        part.sums = &sums_[as_size(
            std::find_if(all_.arrays.begin(), all_.arrays.end(), [&](const auto& b) { return &b == &a; }) -
            all_.arrays.begin())];
        part.checks = {block_checks::by::zip, std::max<std::int64_t>(a.bytes, 1)};
        part.piece_bytes = a.bytes;
      }
      if (part.copy.elements > 0) parts.push_back(part);
    }
  }

  std::vector<member>& members_;
  array_format format_;
  catalogue all_;
  std::vector<source_of_member> sources_{};
  /// An array, and the members that are written to it.
  struct known_array {
    cleave::element element;
    std::vector<std::int64_t> extents;
    std::int64_t elements;
    std::vector<array_part> parts;
  };
  std::map<std::string, known_array> known_{};
  std::string header_{};
  std::vector<npz::member> zipped_{};
  std::vector<std::uint32_t> sums_{};
  std::int64_t end_ = 0;
};

inline traffic save_members(const grid& g, const std::string& path, std::vector<member>& members,
                            const name_table& names) {
  std::optional<saving> save;
  std::optional<host_memory> memory;
  traffic done;
  const bool first = g.state().everyone().rank == 0;
  on_all_ranks(g, [&] {
    save.emplace(path, members, names);
    memory.emplace(members, host_memory::how::reads, std::vector<bool>(members.size(), true));
  });
  try {
    on_all_ranks(g, [&] {
      if (first) save->create();
    });
    on_all_ranks(g, [&] { done = save->write(*memory); });
    combine_checks(g, save->sums());
    on_all_ranks(g, [&] {
      if (first) save->complete();
    });
  } catch (...) {
    if (first) save->abandon();
    throw;
  }
  return of_all_ranks(g, done);
}

} // namespace detail

/// Reads arrays of a file into the tensors and numbers of an aggregate, which have their grids and extents already:
/// `io::load(grid, "model.safetensors", weights)`. A tensor alone takes the array `array`, or the only one of an npy
/// file. Names end in .safetensors, .safetensors.index.json (a set of files), .npz or .npy. A member has the name that
/// it has in the aggregate, as in `layers.attention.query`, or that `options.names` gives it. Floating-point numbers
/// are converted if the member has all of them, as those of bf16 in float, or if `options.rounds` allows it; other
/// element types must agree.
///
/// Each rank reads the bytes of its shards only, and for close ones at most a twentieth more. Collective over the
/// communicator of the grid; the files are there on all ranks. Communication: some small MPI_Allreduces. Throws on all
/// ranks alike: file_error if a file cannot be read, is malformed or damaged, or lacks an array; if one is left; if
/// elements differ; shape_error if extents differ; layout_error if a rule of the names is wrong or a member is partial;
/// memory_error. Before that nothing is written to the members, unless a file ends too early, its data is damaged, or
/// one rank cannot read it.
template <class A>
traffic load(const grid& g, const std::string& path, A& all, const load_options& options = {}) {
  std::vector<detail::member> members = detail::members_of(g, all);
  const traffic done = detail::load_members(g, members, options, {}, [&] {
    detail::catalogue from = detail::read_catalogue(path);
    if (from.format == "npy" && members.size() == 1)
      from.arrays[0].name = detail::source_of_member(members[0], options.names).name(0);
    return from;
  });
  detail::take_numbers(all, members);
  return done;
}
/// Writes the tensors and numbers of an aggregate to one file: `io::save(grid, "model.safetensors", weights)`. The
/// ending chooses the format: .safetensors, .npz or .npy (one tensor). Numbers are those of rank 0. Each rank writes
/// the elements that it owns, so that all ranks must see one file. It gets its name when it is complete.
///
/// Collective over the communicator of the grid. Communication: some small MPI_Allreduces. Throws on all ranks alike:
/// file_error if the file cannot be written, the format lacks an element type, or two members have one name;
/// layout_error if a rule of the names is wrong or a member is partial; memory_error.
template <class A>
traffic save(const grid& g, const std::string& path, const A& all, const name_table& names = {}) {
  std::vector<detail::member> members = detail::members_of(g, all);
  return detail::save_members(g, path, members, names);
}
/// The arrays of a file, by name. Collective over the communicator of the grid. Throws as `load`.
inline std::vector<array_info> arrays_in(const grid& g, const std::string& path) {
  std::vector<array_info> made;
  detail::on_all_ranks(g, [&] {
    for (const detail::stored_array& a : detail::read_catalogue(path).arrays)
      made.push_back({a.name, a.element, a.extents});
  });
  return made;
}

}}} // namespace cleave::v0::io
