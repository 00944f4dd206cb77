// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/product_form.hpp>
#include <cleave/program/program_view.hpp>

// Slices that begin at an index that is known at run time, such as a block of a cache: products read them in place, so
// that they are not copied. It follows from the program and its sizes, so all devices do the same.

namespace cleave { inline namespace v0 {

/// A slice along one dim of an array, in the memory of the array.
struct slice_in_place {
  /// The step that would copy it, its result, the sliced array, and the first index.
  std::size_t step = 0;
  std::uint16_t slice = 0, whole = 0, first = 0;
  /// The position of the dim.
  int along = 0;
};

namespace detail {

/// Looks for them in a program. `address` gives the addresses of the elements of a buffer, for arguments may have any
/// strides.
template <class Address>
class slice_search {
 public:
  slice_search(const program_view& p, const sizes& at, const Address& address) : p_(p), at_(at), address_(address) {}

  [[gnu::cold]] indexed_vector<slice_in_place> found() const {
    indexed_vector<slice_in_place> all;
    for (std::size_t i = 0; i < p_.steps.size(); ++i)
      if (slice_in_place s; is_slice(i, s) && stays(s)) all.push_back(s);
    return all;
  }

 private:
  const buffer& at(std::uint16_t b) const { return p_.buffers[b]; }
  bool shares_memory(std::uint16_t a, std::uint16_t b) const { return same_memory(at(a), at(b)); }

  /// Whether a step takes a slice of a shard that this device has along the whole dim, and the slice is within it for
  /// any first index.
  [[gnu::cold]] bool is_slice(std::size_t i, slice_in_place& s) const {
    const step& e = p_.steps[i];
    if (e.kind != step_kind::exchange || e.move != kind::none || e.keeps || e.in.size() != 2 || e.maps != 1)
      return false;
    const dim_map& m = p_.maps[e.first_map];
    if (m.operand != 0 || m.at_run_time != 1 || m.sign != 1 || m.stride != 1 || m.divisor != 1 || m.window != no_dim ||
        m.outside != border::zero || !(m.offset == extent_sum{}))
      return false;
    s = {i, e.out, e.in[0], e.in[1], at(e.in[0]).type.find(m.from)};
    const buffer &from = at(s.whole), &to = at(s.slice);
    if (from.form != form::shard || to.form != form::shard || to.role != role::workspace ||
        from.type.rank != to.type.rank || from.type.element != to.type.element || from.where != to.where ||
        !from.where[s.along].empty() || to.type[s.along] != m.to || at_[m.to] > at_[m.from])
      return false;
    for (int d = 0; d < to.type.rank; ++d)
      if (d != s.along && to.type[d] != from.type[d]) return false;
    return true;
  }
  /// Whether products alone read it, right after the step that would copy it, and nothing writes the array meanwhile.
  [[gnu::cold]] bool stays(const slice_in_place& s) const {
    std::size_t readers = 0, found = 0;
    for (std::size_t k = 0; k < p_.steps.size(); ++k) {
      readers += p_.steps[k].in.contains(s.slice) ? 1u : 0u;
      if (k != s.step && writes(p_.steps[k]) && p_.steps[k].out == s.slice) return false;
    }
    for (const buffer& b : p_.buffers)
      if (b.form != form::shard && b.of == s.slice) return false;
    for (std::size_t k = s.step + 1; k < p_.steps.size() && found < readers; ++k) {
      const step& reader = p_.steps[k];
      if (reader.kind == step_kind::loop_begin || reader.kind == step_kind::loop_end || overwrites(reader, s))
        return false;
      // Another name of the same elements.
      for (std::uint16_t in : reader.in)
        if (in != s.slice && shares_memory(in, s.slice)) return false;
      if (!reader.in.contains(s.slice)) continue;
      if (!reads_in_place(reader, s)) return false;
      ++found;
    }
    return readers > 0 && found == readers && !has_other_readers(s);
  }
  /// Whether a step writes the array, unless the caller gives a result the memory of an argument: argument_memory sees
  /// to that.
  bool overwrites(const step& k, const slice_in_place& s) const {
    if (k.kind == step_kind::wait) return shares_memory(p_.steps[k.begun].out, s.whole);
    return writes(k) && shares_memory(k.out, s.whole);
  }
  /// Whether the elements are read under another name after the last product.
  bool has_other_readers(const slice_in_place& s) const {
    for (std::size_t k = s.step + 1; k < p_.steps.size(); ++k) {
      const step& reader = p_.steps[k];
      for (std::uint16_t in : reader.in)
        if (in != s.slice && shares_memory(in, s.slice)) return true;
      if (writes(reader) && shares_memory(reader.out, s.slice)) return false;
    }
    return false;
  }
  /// Whether a step is a product that packs no more if it reads the slice in place.
  [[gnu::cold]] bool reads_in_place(const step& s, const slice_in_place& slice) const {
    if (s.kind != step_kind::gemm || s.pieces != 0 || s.panels != 0) return false;
    for (std::size_t k = 2; k < s.in.size(); ++k)
      if (s.in[k] == slice.slice) return false;
    const buffer* const of[3] = {&at(s.in[0]), &at(s.in[1]), &at(s.out)};
    const element stored = of[2]->type.element;
    if (accumulator_of(stored) != stored) return false;
    addressing copied[3], in_place[3];
    for (int x = 0; x < 3; ++x) {
      copied[x] = in_place[x] = address_(*of[x]);
      if (x < 2 && s.in[as_size(x)] == slice.slice) in_place[x].stride = address_(at(slice.whole)).stride;
    }
    return scratch_of_product(s, of, copied) == scratch_of_product(s, of, in_place);
  }

  const program_view& p_;
  const sizes& at_;
  const Address& address_;
};

} // namespace detail

}} // namespace cleave::v0
