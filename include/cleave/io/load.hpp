// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/io/agree.hpp>
#include <cleave/io/convert.hpp>
#include <cleave/io/members.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Members of an aggregate from the arrays of a catalogue.

namespace cleave { inline namespace v0 { namespace io {

/// How members are loaded.
struct load_options {
  name_table names{};
  /// Members that keep their values: names, in which `*` stands for any text.
  std::vector<std::string> keep{};
  /// Arrays that no member needs to have: names, in which `*` stands for any text.
  std::vector<std::string> ignore{};
  /// Floating-point numbers are rounded to the element types of members that do not have all of them, as f32 to bf16;
  /// else that is an error.
  bool rounds = false;
};

namespace detail {

/// Lists of dims that number the same things together, such as stages and layers; the first is slowest.
using dim_stacks = std::vector<std::vector<std::string>>;

/// Up to five names, and how many more there are.
inline std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 5; ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > 5 ? text + " and " + std::to_string(names.size() - 5) + " more" : text;
}

/// The dims of a stack, as in the words of a rule.
inline std::string spaced(const std::vector<std::string>& dims) {
  std::string text;
  for (const std::string& dim : dims) text.append(text.empty() ? "" : " ").append(dim);
  return text;
}

/// The arrays of the members, and the parts that a rank reads. Every rank finds the same mistakes.
class loading {
 public:
  loading(const catalogue& from, std::vector<member>& members, const load_options& options, const dim_stacks& stacks)
      : from_(from), members_(members), rounds_(options.rounds), dim_stacks_(stacks), stored_(members.size()) {
    std::vector<std::string> missing, surplus;
    for (std::size_t i = 0; i < members.size(); ++i)
      if (!fits_any(options.keep, members[i].name)) find(i, options.names, missing);
    if (!missing.empty()) raise<file_error>(wording::arrays_missing(from.path, listed(missing)));
    for (const stored_array& a : from.arrays)
      if (!use_.contains(a.name) && !fits_any(options.ignore, a.name)) surplus.push_back(a.name);
    if (!surplus.empty()) raise<file_error>(wording::arrays_surplus(from.path, listed(surplus)));
    place_checks();
  }
  /// Which members are read.
  std::vector<bool> used() const {
    std::vector<bool> all(members_.size());
    for (const entry& e : entries_) all[e.member] = true;
    return all;
  }
  /// Reads the part of this rank. No communication.
  traffic read(const host_memory& memory) {
    std::vector<file_part> parts;
    std::vector<std::unique_ptr<char[]>> staged(members_.size());
    for (const entry& e : entries_) {
      if (!members_[e.member].reads()) continue;
      const bool direct = stored_[e.member] == members_[e.member].element;
      if (!direct && !staged[e.member])
        staged[e.member].reset(new char[as_size(elements_here(e.member) * size_of(stored_[e.member])) + 1]);
      add_parts(e, direct ? memory[e.member] : staged[e.member].get(), parts);
    }
    std::vector<file> files;
    std::map<std::int64_t, std::int64_t> opened;
    for (file_part& p : parts) {
      const auto [at, fresh] = opened.emplace(p.file, std::ssize(files));
      if (fresh) files.emplace_back(from_.files[as_size(p.file)]);
      p.file = at->second;
      // A file may have become shorter since its catalogue was read: file::read says so.
    }
    const traffic done = file_mover(files, true).run(std::move(parts));
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (staged[i]) convert(staged[i].get(), stored_[i], memory[i], members_[i].element, elements_here(i));
      if (members_[i].element == element::boolean && memory[i] != nullptr && members_[i].reads())
        check_bools(i, memory[i]);
    }
    return done;
  }
  /// The linear checks of the bytes that this rank has read, to be combined with those of all ranks.
  std::vector<std::uint32_t>& sums() { return sums_; }
  /// Throws if a check is another one than the file says.
  void compare() const {
    for (const auto& [name, u] : use_) {
      const stored_array* const a = u.array;
      std::int64_t slot = u.first_sum;
      for (std::size_t p = 0; p < a->pieces.size() && slot >= 0; ++p) {
        const std::int64_t bytes = bytes_of_piece(*a, p), block = block_of(bytes);
        for (std::size_t b = 0; b < a->pieces[p].sums.size(); ++b, ++slot) {
          const std::int64_t n = std::min(block, bytes - as_signed(b) * block);
          const std::uint32_t linear = sums_[as_size(slot)];
          const bool zip = from_.checks.kind == block_checks::by::zip;
          if ((zip ? crc<crc32_of_zip>::finished(linear, n) : crc<crc32c>::finished(linear, n)) != a->pieces[p].sums[b])
            raise<file_error>(wording::array_damaged(from_.files[as_size(a->pieces[p].file)], a->name, as_signed(b)));
        }
      }
    }
  }

 private:
  /// An axis of the array, or a dim of the member.
  struct digit {
    std::size_t at;
    std::int64_t extent;
  };
  /// The dims of a stack that the array has, and those that the member has.
  struct numbering {
    std::vector<digit> stored{}, wanted{};
    static std::int64_t count(const std::vector<digit>& digits) {
      std::int64_t n = 1;
      for (const digit& d : digits) n *= d.extent;
      return n;
    }
  };
  /// A member, or one index of it, and its array.
  struct entry {
    std::size_t member;
    const stored_array* array;
    source_of_member source;
    std::vector<axis_factors> axes;
    std::int64_t index;
    /// The elements of the member that the array has.
    std::int64_t elements;
    /// Their axes have no factors.
    std::vector<numbering> stacks{};
  };
  /// The members that an array is for.
  struct use {
    const stored_array* array = nullptr;
    std::vector<std::size_t> entries{};
    std::int64_t first_sum = -1;
  };

  void find(std::size_t i, const name_table& names, std::vector<std::string>& missing) {
    const member& m = members_[i];
    const source_of_member source(m, names);
    const std::int64_t count = source.stacked() < 0 ? 1 : m.extents[source.stacked()];
    for (std::int64_t index = 0; index < count; ++index) {
      const stored_array* a = from_.find(source.name(index));
      if (a == nullptr) {
        missing.push_back(source.name(index) == m.name ? m.name : m.name + " = " + source.name(index));
        return;
      }
      entry e{i, a, source, source.axes(a->dims), index, 1};
      restack(e);
      check(e);
      use& u = use_[a->name];
      u.array = a;
      u.entries.push_back(entries_.size());
      entries_.push_back(std::move(e));
    }
  }
  /// Finds the stacks of an entry. Without them, or if other dims differ, axes are compared one by one.
  void restack(entry& e) const {
    if (dim_stacks_.empty() || e.source.gives_axes() || e.source.stacked() >= 0) return;
    const member& m = members_[e.member];
    const auto position = [](const auto& dims, const std::string& dim) {
      return as_size(std::find(dims.begin(), dims.end(), dim) - dims.begin());
    };
    std::vector<axis_factors> axes(e.array->dims.size());
    std::size_t left = m.dims.size();
    std::vector<numbering> stacks;
    std::vector<bool> numbers(axes.size());
    for (const std::vector<std::string>& dims : dim_stacks_) {
      numbering& n = stacks.emplace_back();
      // Extents that did not change are compared one by one.
      if (std::all_of(dims.begin(), dims.end(), [&](const std::string& dim) {
            const std::size_t from = position(e.array->dims, dim), to = position(m.dims, dim);
            return from < axes.size() && to < m.dims.size() && e.array->extents[from] == m.extents[as_int(to)];
          }))
        continue;
      for (const std::string& dim : dims) {
        if (const std::size_t at = position(e.array->dims, dim); at < axes.size())
          n.stored.push_back({at, e.array->extents[at]}), numbers[at] = true;
        if (const std::size_t at = position(m.dims, dim); at < m.dims.size())
          n.wanted.push_back({at, m.extents[as_int(at)]}), --left;
      }
    }
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const std::size_t dim = position(m.dims, e.array->dims[a]);
      if (numbers[a]) continue;
      if (dim == m.dims.size()) return;
      axes[a] = {{as_int(dim)}};
      --left;
    }
    if (left != 0) return;
    e.axes = std::move(axes);
    e.stacks = std::move(stacks);
  }
  /// Calls `f` with the elements of the member that a box of the array has: once for each index along stacks.
  template <class F>
  void for_each_view(const entry& e, const std::vector<range>& along, F&& f) const {
    std::int64_t cells = 1;
    for (const numbering& n : e.stacks)
      for (const digit& d : n.stored) cells *= along[d.at].size();
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      std::vector<axis_factors> axes = e.axes;
      std::vector<range> within = along;
      std::vector<digit> fixed;
      std::int64_t rest = cell;
      for (const numbering& n : e.stacks) {
        std::int64_t number = 0;
        for (const digit& d : n.stored) {
          const range r = along[d.at];
          axes[d.at] = {{-1, rest % r.size(), r.size()}};
          within[d.at] = {0, r.size()};
          number = number * d.extent + r.begin + rest % r.size();
          rest /= r.size();
        }
        for (std::size_t i = n.wanted.size(); i-- > 0; number /= n.wanted[i].extent)
          fixed.push_back({n.wanted[i].at, number % n.wanted[i].extent});
      }
      std::optional<member_piece> view = view_of_piece(e.source, axes, within, e.array->first_axis_fastest,
                                                       members_[e.member].extents, e.index);
      for (const digit& d : fixed)
        if (view) view->at[as_int(d.at)] = {d.extent, d.extent + 1};
      f(view);
    }
  }
  void check(entry& e) {
    const member& m = members_[e.member];
    const stored_array& a = *e.array;
    element& stored = stored_[e.member];
    if (stored == element::none) stored = a.element;
    if (a.element != stored || !converts(stored, m.element, rounds_))
      raise<file_error>(wording::array_element(from_.path, a.name, m.name, name_of(m.element),
                                               a.element == element::none ? a.type : name_of(a.element)));
    if (e.axes.size() != a.extents.size())
      raise<shape_error>(wording::array_rank(from_.path, a.name, m.name, std::ssize(e.axes), std::ssize(a.extents)));
    for (std::size_t s = 0; s < e.stacks.size(); ++s)
      if (const std::int64_t got = numbering::count(e.stacks[s].stored), n = numbering::count(e.stacks[s].wanted);
          got != n)
        raise<shape_error>(wording::array_extent(from_.path, a.name, m.name, spaced(dim_stacks_[s]), n, got));
    for (std::size_t d = 0; d < e.axes.size(); ++d)
      if (!e.axes[d].empty() && e.source.extent(e.axes[d]) != a.extents[d])
        raise<shape_error>(wording::array_extent(from_.path, a.name, m.name, e.source.words(e.axes[d]),
                                                 e.source.extent(e.axes[d]), a.extents[d]));
    for (int d = 0; d < m.extents.rank; ++d) e.elements *= d == e.source.stacked() ? 1 : m.extents[d];
    for (const stored_piece& p : a.pieces)
      for_each_view(e, p.along, [&](const std::optional<member_piece>& view) {
        if (!view)
          raise<layout_error>(
              wording::name_rule(m.name,
                                 "'" + a.name + "' is stored in pieces, and its axes cannot be split or merged"));
      });
  }
  static std::int64_t bytes_of_piece(const stored_array& a, std::size_t p) {
    std::int64_t bytes = size_of(a.element);
    for (const range& r : a.pieces[p].along) bytes *= r.size();
    return bytes;
  }
  std::int64_t block_of(std::int64_t bytes) const {
    return from_.checks.block == 0 ? std::max<std::int64_t>(bytes, 1) : from_.checks.block;
  }
  /// An array can be checked if its members read each of its elements once: one of them all, or each of them a part.
  void place_checks() {
    for (auto& [name, u] : use_) {
      const std::int64_t whole = bytes_of_extents(u.array->extents, 1);
      std::int64_t all = 0;
      const auto alone = std::find_if(u.entries.begin(), u.entries.end(),
                                      [&](std::size_t e) { return entries_[e].elements == whole; });
      if (alone != u.entries.end()) u.entries = {std::size_t{*alone}};
      std::vector<array_part> parts;
      for (const std::size_t e : u.entries) {
        all += entries_[e].elements;
        parts.emplace_back(entries_[e].axes);
      }
      if (all != whole || !divide_an_array(parts)) continue;
      u.first_sum = std::ssize(sums_);
      for (const stored_piece& p : u.array->pieces) sums_.resize(sums_.size() + p.sums.size());
    }
  }
  void add_parts(const entry& e, char* memory, std::vector<file_part>& parts) {
    const member& m = members_[e.member];
    const stored_array& a = *e.array;
    const use& u = use_.at(e.array->name);
    const bool checks = m.checks() && u.first_sum >= 0 &&
                        std::count(u.entries.begin(), u.entries.end(), std::size_t(&e - entries_.data())) > 0;
    std::int64_t slot = u.first_sum;
    const auto add = [&](std::int64_t file, std::int64_t begin, const std::vector<range>& along, std::int64_t bytes,
                         std::uint32_t* sums) {
      for_each_view(e, along, [&](const std::optional<member_piece>& p) {
        file_part part = part_of(m.held, m.held, p->at, p->stride, p->first);
        part.file = file;
        part.begin = begin;
        part.element_bytes = size_of(a.element);
        part.memory = memory;
        part.sums = sums;
        part.checks = {from_.checks.kind, block_of(bytes)};
        part.piece_bytes = bytes;
        if (part.copy.elements > 0) parts.push_back(part);
      });
    };
    for (std::size_t p = 0; p < a.pieces.size(); ++p) {
      const stored_piece& piece = a.pieces[p];
      add(piece.file, piece.begin, piece.along, bytes_of_piece(a, p),
          checks && !piece.sums.empty() ? &sums_[as_size(slot)] : nullptr);
      slot += std::ssize(piece.sums);
    }
    if (!a.pieces.empty()) return;
    std::vector<range> along;
    for (const std::int64_t n : a.extents) along.push_back({0, n});
    add(a.file, a.begin, along, a.bytes, nullptr);
  }
  std::int64_t elements_here(std::size_t i) const {
    return members_[i].tensor == nullptr ? 1 : members_[i].tensor->elements();
  }
  void check_bools(std::size_t i, const char* memory) const {
    if (std::any_of(memory, memory + elements_here(i), [](char c) { return c != 0 && c != 1; }))
      raise<file_error>(wording::array_no_bool(from_.path, members_[i].name));
  }

  const catalogue& from_;
  std::vector<member>& members_;
  bool rounds_;
  dim_stacks dim_stacks_;
  /// Of each member, the element type of its arrays.
  std::vector<element> stored_;
  std::vector<entry> entries_{};
  /// By name, so that all ranks have one order.
  std::map<std::string_view, use> use_{};
  std::vector<std::uint32_t> sums_{};
};

/// The sum over all ranks.
inline traffic of_all_ranks(const grid& g, const traffic& mine) {
  const std::int64_t sent[] = {mine.needed, mine.moved, mine.calls};
  std::int64_t all[3] = {};
  g.state().guarded([&] {
    comm::check(MPI_Allreduce(sent, all, 3, MPI_INT64_T, MPI_SUM, g.state().everyone().handle), "MPI_Allreduce");
  });
  return {all[0], all[1], all[2]};
}
/// Combines the checks of all ranks.
inline void combine_checks(const grid& g, std::vector<std::uint32_t>& sums) {
  g.state().guarded([&] {
    comm::check(MPI_Allreduce(MPI_IN_PLACE, sums.data(), as_int(sums.size()), MPI_UINT32_T, MPI_BXOR,
                              g.state().everyone().handle),
                "MPI_Allreduce");
  });
}

/// Loads the members from the arrays that `read()` finds. Collective over the communicator of the grid.
template <class Read>
traffic load_members(const grid& g, std::vector<member>& members, const load_options& options, const dim_stacks& stacks,
                     Read&& read) {
  catalogue from;
  std::optional<loading> load;
  std::optional<host_memory> memory;
  traffic done;
  // Also where reading fails on one rank alone.
  for (const member& m : members)
    if (m.tensor != nullptr) m.tensor->halo = {};
  on_all_ranks(g, [&] {
    from = read();
    load.emplace(from, members, options, stacks);
    memory.emplace(members, host_memory::how::writes, load->used());
    done = load->read(*memory);
  });
  combine_checks(g, load->sums());
  load->compare();
  on_all_ranks(g, [&] { memory->finish(); });
  return of_all_ranks(g, done);
}

} // namespace detail

}}} // namespace cleave::v0::io
