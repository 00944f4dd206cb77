// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/io/agree.hpp>
#include <cleave/io/errors.hpp>
#include <cleave/io/hdf5.hpp>
#include <cleave/io/xdmf.hpp>
#include <cleave/redistribute/errors.hpp>
#include <cleave/redistribute/slabs.hpp>
#include <cleave/tensor/errors.hpp>

#include <concepts>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cleave { inline namespace v0 { namespace io {

/// The element types of fields in a file.
template <class T>
concept FieldElement = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> ||
                       std::same_as<T, std::int64_t>;

/// A tensor under a name, to be written: `field{"depth", h}`. It has one to three dims, and any layout.
template <FieldElement T, auto Layout>
  requires(tensor<T, Layout>::rank >= 1 && tensor<T, Layout>::rank <= 3)
struct field {
  std::string name;
  const tensor<T, Layout>& values;
  field(std::string written, const tensor<T, Layout>& of) : name(std::move(written)), values(of) {}
};

/// Fields at several times in an HDF5 file, with an XDMF file next to it that ParaView opens: `field_file out(grid,
/// "water.h5", {.spacing = {dy, dx}})`, and then `out.write(time, field{"depth", h}, field{"speed", u})` for each step.
/// The XDMF file has the ending .xmf in place of that of the HDF5 file.
///
/// Rank 0 of the grid's communicator writes, and holds one slab of a field at a time. After each step both files are
/// complete and closed. The data sets are /step_000000/depth and so on, row-major in the order of the dims; each group
/// of a step has the attribute `time`.
class field_file {
 public:
  /// Makes both files, without steps, in place of those that were there. Collective over the communicator of the grid.
  /// Throws file_error on all ranks if they cannot be written.
  field_file(const grid& g, std::string path, field_options options = {})
      : grid_(g), path_(std::move(path)), options_(std::move(options)) {
    attempt([&] {
      beside_.reset(new detail::xdmf_file(path_, options_));
      detail::hdf5_group(path_, "", 0, overhead).close();
      beside_->write();
    });
    agree();
  }
  field_file(const field_file&) = delete;
  field_file& operator=(const field_file&) = delete;

  /// Writes a step. Collective over the communicator of the grid. Communication: each field by `gather_slabs`, and a
  /// broadcast of a number. Throws, on all ranks and before anything is written: shape_error if the fields do not have
  /// the same extents, or not as many dims as there are numbers in `spacing` and `origin`; grid_error if a field is on
  /// other ranks than the file; file_error if a name is empty, has a '/', or occurs twice. Throws file_error on all
  /// ranks if the step cannot be written, because of a full disk for example, and memory_error if a slab cannot be
  /// collected. Then every later step throws file_error.
  template <class... T, auto... Layout>
    requires(sizeof...(T) > 0)
  void write(double time, const field<T, Layout>&... fields) {
    std::vector<entry> all;
    (all.push_back({fields.name, &fields.values.state()}), ...);
    check(all);
    if (!broken_.empty()) throw file_error(broken_);
    const std::string group = begin(time, all);
    try {
      (put(group, fields), ...);
    } catch (const std::exception& e) {
      abandon(e.what());
      throw;
    }
    end(group, all);
    agree();
    ++steps_;
  }
  /// The number of steps that were written.
  std::int64_t steps() const { return steps_; }

 private:
  struct entry {
    std::string name;
    const tensor_state* values;
  };

  /// More bytes than HDF5 needs to describe a step; an eighth is more than it needs for one of its fields.
  static constexpr std::int64_t overhead = 32768;

  bool writes() const { return grid_.state().everyone().rank == 0; }
  /// On the rank that writes, unless something failed before.
  template <class F>
  void attempt(F&& f) {
    if (!writes() || !broken_.empty()) return;
    const detail::quiet no_output;
    try {
      f();
    } catch (const file_error& e) {
      broken_ = e.what();
    } catch (const std::exception& e) {
      broken_ = wording::file_not_written(path_, e.what());
    }
  }
  /// All ranks throw the failure of rank 0.
  [[gnu::cold]] void agree() {
    broken_ = (broken_.empty() ? detail::failure() : detail::failure(broken_)).agreed(grid_).sentence();
    if (!broken_.empty()) throw file_error(broken_);
  }
  [[gnu::cold]] void check(const std::vector<entry>& all) const {
    const shape& first = all[0].values->global;
    for (const auto& [what, numbers] : {std::pair{"spacing", &options_.spacing}, std::pair{"origin", &options_.origin}})
      if (!numbers->empty() && std::ssize(*numbers) != first.rank)
        raise<shape_error>(wording::field_numbers(all[0].name, first.rank, what, std::ssize(*numbers)));
    for (const entry& e : all) {
      if (e.name.empty() || e.name == "." || e.name.find('/') != std::string::npos)
        raise<file_error>(wording::field_name(e.name));
      for (const entry* before = all.data(); before != &e; ++before)
        if (before->name == e.name) raise<file_error>(wording::field_twice(e.name));
      const shape& s = e.values->global;
      bool same = s.rank == first.rank;
      for (int d = 0; d < s.rank && same; ++d) same = s[d] == first[d];
      if (!same)
        raise<shape_error>(
            wording::field_extents(all[0].name, detail::extents_text(first, 0), e.name, detail::extents_text(s, 0)));
      int related = MPI_UNEQUAL;
      comm::check(MPI_Comm_compare(e.values->grid.state().everyone().handle, grid_.state().everyone().handle, &related),
                  "MPI_Comm_compare");
      if (related != MPI_CONGRUENT && related != MPI_IDENT) raise<grid_error>(wording::grids_unrelated());
    }
  }
  [[gnu::cold]] std::string begin(double time, const std::vector<entry>& all) {
    char name[32];
    std::snprintf(name, sizeof name, "/step_%06lld", static_cast<long long>(steps_));
    attempt([&] {
      std::int64_t bytes = overhead;
      for (const entry& e : all) bytes += e.values->global.elements() * size_of(e.values->element) + overhead / 8;
      open_.reset(new detail::hdf5_group(path_, name, time, bytes));
      beside_->begin_step(time, all[0].values->global);
    });
    return name;
  }
  template <class T, auto Layout>
  void put(const std::string& group, const field<T, Layout>& f) {
    const tensor_state& t = f.values.state();
    std::unique_ptr<detail::hdf5_group::array> array;
    attempt([&] { array.reset(new detail::hdf5_group::array(*open_, group + "/" + f.name, t.element, t.global)); });
    gather_slabs(f.values, 0, options_.buffer, [&](std::int64_t first, std::int64_t rows, const T* elements) {
      attempt([&] { array->write(first, rows, elements); });
    });
    attempt([&] { array->close(); });
    if (array) {
      const detail::quiet no_output; // after a failure
      array.reset();
    }
  }
  [[gnu::cold]] void end(const std::string& group, const std::vector<entry>& all) {
    attempt([&] {
      open_->close();
      for (const entry& e : all) beside_->add_field(e.name, group + "/" + e.name, e.values->element, e.values->global);
      beside_->end_step();
      beside_->write();
    });
    if (open_) {
      const detail::quiet no_output; // after a failure
      open_.reset();
    }
  }

  /// Of a step that all ranks failed to collect.
  [[gnu::cold]] void abandon(std::string_view why) {
    const detail::quiet no_output;
    open_.reset();
    broken_ = wording::file_not_written(path_, why);
  }

  grid grid_;
  std::string path_;
  field_options options_;
  std::string broken_{};
  std::int64_t steps_ = 0;
  std::unique_ptr<detail::xdmf_file> beside_{};
  std::unique_ptr<detail::hdf5_group> open_{};
};

}}} // namespace cleave::v0::io
