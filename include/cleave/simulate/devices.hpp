// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/plan/price.hpp>
#include <cleave/program/verify.hpp>
#include <cleave/simulate/evaluate.hpp>
#include <cleave/simulate/moves.hpp>

#include <bit>
#include <limits>
#include <set>

namespace cleave { inline namespace v0 {

/// The result of a simulated run.
struct simulated {
  /// The results as whole tensors; partial results are reduced.
  indexed_vector<host_array> results{};
  /// The sum over the steps of the bytes that each step's busiest device really moved.
  std::int64_t bytes = 0;
  indexed_vector<std::int64_t> step_bytes{};
  /// Floating-point operations of the products on the busiest device.
  std::int64_t flops = 0;
  /// The first thing that a correct program would not do; empty if there is none.
  std::string problem{};
};

namespace simulation {

/// The memory of all devices. Every device has its own for arguments, results and workspace slots; buffers that share a
/// slot share that memory.
class devices {
 protected:
  devices(const program& p, const sizes& at, std::uint64_t seed) : p_(p), at_(at), seed_(seed) {
    for (std::int64_t d = 0; d < at.axes.devices(); ++d) where_.push_back(coordinates_of(d, at.axes));
    const std::size_t memories = p.arguments + p.results + p.slots;
    writer_.assign(memories, nullptr);
    memory_.resize(where_.size(), indexed_vector<elements>(memories));
    for (const buffer& b : p.buffers)
      for (std::size_t d = 0; d < where_.size(); ++d) {
        auto& m = memory_[d][memory_of(b)];
        const std::int64_t n = local(d, b).elements();
        if (std::ssize(m) < n) m.resize(as_size(n), unwritten);
      }
  }

  static constexpr double unwritten = std::numeric_limits<double>::quiet_NaN();

  void complain(const std::string& what) {
    if (!out_.problem.empty()) return;
    if (step_ != nullptr)
      out_.problem = "step " + std::to_string(step_ - p_.steps.data()) + " (" +
                     std::string(step_->kind == step_kind::move ? name_of(step_->move) : name_of(step_->code)) + ") ";
    out_.problem += what;
  }
  std::size_t memory_of(const buffer& b) const {
    return b.index + (b.role == role::input    ? 0u
                      : b.role == role::output ? p_.arguments
                                               : 0u + p_.arguments + p_.results);
  }
  double* data(std::size_t d, const buffer& b) {
    if (b.form == form::slice) return data(d, p_.buffers[b.of]) + index_[b.loop] * local(d, b).elements();
    return memory_[d][memory_of(b)].data();
  }
  /// The elements that a step has made on every device, if it is correct so far.
  void put(const indexed_vector<elements>& made, const buffer& to) {
    for (std::size_t d = 0; d < where_.size() && out_.problem.empty(); ++d)
      std::copy(made[d].begin(), made[d].end(), data(d, to));
  }
  shape global(const tensor_type& t) const { return shape_of(t, at_); }
  box part(std::size_t d, const tensor_type& t, const layout& l) const {
    return box_of(global(t), l, where_[d], at_.axes);
  }
  shape local(std::size_t d, const buffer& b) const { return indices_of(b, p_.maps, at_, where_[d]).extents(); }
  placed place(std::size_t d, const buffer& b) const {
    placed p(b.type, local(d, b));
    std::ranges::copy(addresses(d, b).stride, p.stride.begin());
    return p;
  }
  std::int64_t offset(std::size_t d, const buffer& b) const { return addresses(d, b).offset; }
  /// A shard and its halo are one region here.
  addressing addresses(std::size_t d, const buffer& b) const {
    if (b.form != form::view || p_.buffers[b.of].form != form::halo)
      return addressing_of(b, p_.buffers, p_.maps, at_, where_[d]);
    const buffer& halo = p_.buffers[b.of];
    const placed region(halo.type, local(d, halo));
    addressing a;
    for (int i = 0; i < b.type.rank; ++i) a.stride[as_size(i)] = region.step(b.type[i]);
    const auto distance = [&](const buffer& of, dim_id along) {
      for (int m = 0; m < of.maps; ++m)
        if (const dim_map& map = p_.maps[as_size(of.first_map + m)]; map.from == along) return map.offset.constant;
      return std::int64_t{0};
    };
    for (int i = 0; i < halo.type.rank; ++i)
      a.offset += (distance(b, halo.type[i]) - distance(halo, halo.type[i])) * region.step(halo.type[i]);
    return a;
  }

  /// The memory was written before it is read, by this buffer or by one of which it is a view.
  void check_readable(std::uint16_t b) {
    const buffer &want = p_.buffers[b], *const writer = writer_[memory_of(want)];
    if (writer == nullptr) return complain("reads what nothing has written");
    if (want.form == form::slice) return check_readable(want.of);
    if (writer->where.unreduced() != want.where.unreduced())
      complain("reads a partial value as a whole one or the reverse");
    if (want.form == form::view) {
      if (writer != &p_.buffers[want.of]) complain("looks into a region that is not there");
      return;
    }
    for (std::size_t d = 0; d < where_.size(); ++d)
      if (local(d, *writer).elements() != local(d, want).elements()) complain("reads memory that holds another shard");
  }
  /// Memory that is overwritten holds no value before, unless the step also reads it.
  void forget_target(const step& s) {
    const std::size_t target = memory_of(p_.buffers[s.out]);
    bool in_place = false;
    for (std::uint16_t in : s.in) in_place = in_place || memory_of(p_.buffers[in]) == target;
    if (in_place && s.kind == step_kind::move && s.move != kind::all_reduce && s.move != kind::mask)
      complain("overwrites what it sends");
    if (!in_place && p_.buffers[s.out].form != form::slice)
      for (auto& device : memory_) std::fill(device[target].begin(), device[target].end(), unwritten);
  }

  /// One of the partial values into which a value is taken apart. A function of the global position, so that all views
  /// of an argument agree.
  double piece(double value, reduction how, element e, std::size_t flat, std::size_t member,
               std::size_t members) const {
    const auto random = [&](std::uint64_t which) {
      std::uint64_t x = seed_ + 0x9e3779b97f4a7c15u * (flat * 64 + which + 1);
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
      x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
      return x ^ (x >> 31);
    };
    if (members == 1) return value;
    const bool owner = member == random(63) % members;
    const auto below_5 = [&](std::uint64_t which) { return as_double(random(which) % 5); };
    const double some = below_5(member);
    if (how == reduction::sum && e != element::boolean) {
      if (!owner) return stored(e, some - 2);
      double rest = value;
      for (std::uint64_t m = 0; m < members; ++m)
        if (m != member) rest = applied(op::sub, e, rest, stored(e, below_5(m) - 2));
      return rest;
    }
    if (owner) return value;
    if (is_floating(e) && how == reduction::max) return value - some;
    if (is_floating(e) && how == reduction::min) return value + some;
    return identity_of(how, e);
  }

  void distribute(const buffer& b, const host_array& whole) {
    const shape extents = global(b.type);
    if (extents.elements() != std::ssize(whole.data)) return complain("an argument has another size than its type");
    box all = whole_box(extents);
    const bool known = writer_[memory_of(b)] != nullptr;
    const std::size_t members = as_size(at_.axes.product(b.where.unreduced()));
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, b.type, b.where);
      const std::size_t member = as_size(index_along(b.where.unreduced(), where_[d], at_.axes));
      for_each_of(mine, all, mine, [&](std::int64_t from, std::int64_t to) {
        const double x = piece(whole.data[from], b.where.combine(), b.type.element, as_size(from), member, members);
        double& at = data(d, b)[to];
        if (known && !same_bits(at, x)) complain("two views of an argument are not the same elements");
        at = x;
      });
    }
    writer_[memory_of(b)] = &b;
  }
  static bool same_bits(double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  }

  /// A whole result from its shards; replicas must be the same bits.
  host_array collect(std::size_t r) {
    const buffer& form = p_.buffers[p_.arguments + r];
    host_array whole(global(form.type), unwritten);
    const box all = whole_box(whole.extents);
    auto seen = indexed_vector<char>::filled(whole.data.size());
    const buffer* const writer = writer_[p_.arguments + r];
    if (writer == nullptr) return complain("a result is never written"), whole;
    if (writer->where.unreduced() != form.where.unreduced())
      complain("a result is written as a partial value over other axes");
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, form.type, form.where);
      if (mine.elements() != local(d, *writer).elements()) complain("a result is written in another layout");
      const indexed_vector<std::size_t> group = group_of(d, form.where.unreduced(), where_);
      if (group[0] != d || !out_.problem.empty()) continue;
      for_each_of(mine, mine, all, [&](std::int64_t from, std::int64_t to) {
        double x = memory_[d][p_.arguments + r][from];
        for (std::size_t k = 1; k < group.size(); ++k)
          x = combined(form.where.combine(), form.type.element, x, memory_[group[k]][p_.arguments + r][from]);
        if (seen[to] != 0 && !same_bits(whole.data[to], x)) complain("replicas of a result differ");
        seen[to] = 1;
        whole.data[to] = x;
      });
    }
    if (std::find(seen.begin(), seen.end(), 0) != seen.end()) complain("a result has elements on no device");
    return whole;
  }

  /// An operand must hold the very block over which a loop runs.
  void check_block(std::size_t d, const buffer& b, dim_id dim, range wanted) {
    const int i = b.type.find(dim);
    if (i >= 0 && part(d, b.type, b.where)[i] != wanted) complain("runs over other blocks than an operand holds");
  }

  const program& p_;
  const sizes& at_;
  std::uint64_t seed_;
  indexed_vector<coordinates> where_{};
  /// By device, then arguments, results and slots.
  indexed_vector<indexed_vector<elements>> memory_{};
  /// The buffer that was written last into each memory.
  indexed_vector<const buffer*> writer_{};
  const step* step_ = nullptr;
  std::int64_t moved_ = 0;
  indexed_vector<std::int64_t> flops_{};
  /// The index of the iteration that each loop is at.
  std::array<std::int64_t, max_loops + 1> index_{};
  simulated out_{};
};

} // namespace simulation

}} // namespace cleave::v0
