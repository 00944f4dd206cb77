// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/price.hpp>
#include <cleave/plan/verify.hpp>
#include <cleave/simulate/evaluate.hpp>
#include <cleave/simulate/moves.hpp>

#include <bit>
#include <limits>
#include <set>

namespace cleave {

/// What a simulated run gives.
struct simulated {
  /// The results as whole tensors; a partial one is combined.
  std::vector<host_array> results{};
  /// Sum over the steps of the bytes of each step's busiest device, as they were really moved.
  std::int64_t bytes = 0;
  std::vector<std::int64_t> step_bytes{};
  /// Floating-point operations of the products on the busiest device.
  std::int64_t flops = 0;
  /// The first thing that a right program would not do; empty if there is none.
  std::string problem{};
};

namespace simulation {

/// All devices in lockstep. Every device has its own memory for arguments, results and workspace slots; buffers that share a
/// slot share that memory.
class machine {
 public:
  machine(const program& p, const sizes& at, std::uint64_t seed) : p_(p), at_(at), seed_(seed) {
    for (std::int64_t d = 0; d < at.axes.devices(); ++d) where_.push_back(coordinates_of(d, at.axes));
    const std::size_t memories = p.arguments + p.results + p.slots;
    writer_.assign(memories, -1);
    memory_.resize(where_.size(), std::vector<std::vector<double>>(memories));
    for (const buffer& b : p.buffers)
      for (std::size_t d = 0; d < where_.size(); ++d) {
        auto& m = memory_[d][memory_of(b)];
        const auto n = static_cast<std::size_t>(local(d, b).elements());
        if (m.size() < n) m.resize(n, unwritten);
      }
  }

  simulated run(std::span<const host_array> arguments) {
    if (!verify(p_)) complain("the program does not verify");
    for (std::size_t b = 0; b < p_.arguments + std::size_t{p_.results}; ++b) {
      const bool argument = b < p_.arguments;
      const bool there = b < p_.buffers.size() && p_.buffers[b].role == (argument ? role::input : role::output) &&
                         p_.buffers[b].index == (argument ? b : b - p_.arguments);
      if (!there) complain("the first buffers are not the arguments and the results");
    }
    if (arguments.size() != p_.arguments) complain("there must be one array an argument");
    if (!out_.problem.empty()) return out_;
    for (std::size_t b = 0; b < p_.buffers.size(); ++b)
      if (p_.buffers[b].role == role::input && p_.buffers[b].form == form::shard) distribute(b, arguments[p_.buffers[b].index]);
    flops_.assign(where_.size(), 0);
    // What never runs moves what it is priced at.
    for (const step& s : p_.steps) out_.step_bytes.push_back(writes(s) ? step_bytes(p_, s, at_) : 0);
    run_steps(0, p_.steps.size());
    if (!out_.problem.empty()) return out_;
    step_ = nullptr;
    out_.flops = *std::max_element(flops_.begin(), flops_.end());
    for (std::size_t r = 0; r < p_.results; ++r) out_.results.push_back(collect(r));
    return out_;
  }

 private:
  void run_steps(std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last && out_.problem.empty(); ++i)
      if (p_.steps[i].kind == step_kind::loop_begin) i = run_loop(i);
      else run_step(i);
  }
  /// Runs a loop; where it ends.
  std::size_t run_loop(std::size_t begin) {
    const step& s = p_.steps[begin];
    std::size_t end = begin + 1;
    for (std::size_t depth = 1; depth > 0 && end < p_.steps.size(); ++end) {
      if (p_.steps[end].kind == step_kind::loop_begin) ++depth;
      if (p_.steps[end].kind == step_kind::loop_end) --depth;
    }
    --end;
    const loop_info& loop = p_.loops[s.in_loop - 1u];
    const auto agreed = [&](std::uint16_t b) {
      step_ = &s;
      check_readable(b);
      const double number = data(0, p_.buffers[b])[0];
      for (std::size_t d = 0; d < where_.size(); ++d)
        if (!same_bits(data(d, p_.buffers[b])[0], number)) complain("is decided differently by devices");
      return static_cast<std::int64_t>(number);
    };
    // Stacks are written piece by piece.
    for (std::size_t i = begin; i < end; ++i)
      if (writes(p_.steps[i]))
        if (const buffer& out = p_.buffers[p_.steps[i].out]; out.form == form::slice && out.loop == s.in_loop) {
          for (auto& device : memory_) std::fill(device[memory_of(out)].begin(), device[memory_of(out)].end(), unwritten);
          writer_[memory_of(out)] = out.of;
        }
    const std::int64_t trips = s.in.empty() ? loop.along != no_dim ? at_[loop.along] : loop.trips : agreed(s.in[0]);
    for (std::int64_t trip = 0; trip < trips && out_.problem.empty(); ++trip) {
      index_[s.in_loop] = loop.backwards ? trips - 1 - trip : trip;
      run_steps(begin + 1, end);
      if (out_.problem.empty() && !p_.steps[end].in.empty() && agreed(p_.steps[end].in[0]) != 0) break;
    }
    return end;
  }
  void run_step(std::size_t i) {
    const step& s = p_.steps[i];
    step_ = &s;
    moved_ = 0;
    for (std::uint16_t in : s.in) check_readable(in);
    if (!out_.problem.empty()) return;
    forget_target(s);
    switch (s.kind) {
      case step_kind::move: move(s); break;
      case step_kind::exchange: exchange(s); break;
      case step_kind::scan: scan(s); break;
      case step_kind::sort: sort(s); break;
      case step_kind::gather: gather(s); break;
      case step_kind::scatter: scatter(s); break;
      default:
        for (std::size_t d = 0; d < where_.size(); ++d)
          if (s.kind == step_kind::gemm) flops_[d] += product(d, s);
          else if (s.kind == step_kind::call) call(d, s);
          else loop(d, s);
        moved_ = step_bytes(p_, s, at_);
    }
    if (!out_.problem.empty()) return;
    const buffer& out = p_.buffers[s.out];
    writer_[memory_of(out)] = out.form == form::slice ? out.of : s.out;
    out_.step_bytes[i] = moved_;
    out_.bytes += moved_;
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
    return b.index + (b.role == role::input ? 0u : b.role == role::output ? p_.arguments : 0u + p_.arguments + p_.results);
  }
  double* data(std::size_t d, const buffer& b) {
    if (b.form == form::slice) return data(d, p_.buffers[b.of]) + index_[b.loop] * local(d, b).elements();
    return memory_[d][memory_of(b)].data();
  }
  shape global(const tensor_type& t) const { return shape_of(t, at_); }
  box part(std::size_t d, const tensor_type& t, const layout& l) const { return box_of(global(t), l, where_[d], at_.axes); }
  shape local(std::size_t d, const buffer& b) const { return indices_of(b, p_.maps, at_, where_[d]).extents(); }
  placed place(std::size_t d, const buffer& b) const {
    placed p(b.type, local(d, b));
    p.stride = addressing_of(b, p_.buffers, p_.maps, at_, where_[d]).stride;
    return p;
  }
  std::int64_t offset(std::size_t d, const buffer& b) const { return addressing_of(b, p_.buffers, p_.maps, at_, where_[d]).offset; }

  /// What is read was written, by this buffer or by one of which it is a view.
  void check_readable(std::uint16_t b) {
    const int writer = writer_[memory_of(p_.buffers[b])];
    if (writer < 0) return complain("reads what nothing has written");
    const buffer &have = p_.buffers[static_cast<std::size_t>(writer)], &want = p_.buffers[b];
    if (want.form == form::slice) return check_readable(want.of);
    if (have.where.unreduced != want.where.unreduced) complain("reads a partial value as a whole one or the reverse");
    if (want.form == form::view) {
      if (writer != want.of) complain("looks into a region that is not there");
      return;
    }
    for (std::size_t d = 0; d < where_.size(); ++d)
      if (local(d, have).elements() != local(d, want).elements()) complain("reads memory that holds another shard");
  }
  /// Memory that is written anew holds nothing before, unless the step also reads it.
  void forget_target(const step& s) {
    const std::size_t target = memory_of(p_.buffers[s.out]);
    bool in_place = false;
    for (std::uint16_t in : s.in) in_place = in_place || memory_of(p_.buffers[in]) == target;
    if (in_place && s.kind == step_kind::move && s.move != kind::all_reduce && s.move != kind::mask) complain("overwrites what it sends");
    if (!in_place && p_.buffers[s.out].form != form::slice)
      for (auto& device : memory_) std::fill(device[target].begin(), device[target].end(), unwritten);
  }

  /// One of the partial values into which a value is taken apart. A function of the global position, so that all views of an
  /// argument agree.
  double piece(double value, reduction how, element e, std::uint64_t flat, std::uint64_t member, std::uint64_t members) const {
    const auto random = [&](std::uint64_t which) {
      std::uint64_t x = seed_ + 0x9e3779b97f4a7c15u * (flat * 64 + which + 1);
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
      x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
      return x ^ (x >> 31);
    };
    if (members == 1) return value;
    const bool owner = member == random(63) % members;
    const double some = static_cast<double>(random(member) % 5);
    if (how == reduction::sum && e != element::boolean) {
      if (!owner) return stored(e, some - 2);
      double rest = value;
      for (std::uint64_t m = 0; m < members; ++m)
        if (m != member) rest = applied(op::sub, e, rest, stored(e, static_cast<double>(random(m) % 5) - 2));
      return rest;
    }
    if (owner) return value;
    if (is_floating(e) && how == reduction::max) return value - some;
    if (is_floating(e) && how == reduction::min) return value + some;
    return identity_of(how, e);
  }

  void distribute(std::size_t index, const host_array& whole) {
    const buffer& b = p_.buffers[index];
    const shape extents = global(b.type);
    if (extents.elements() != static_cast<std::int64_t>(whole.data.size())) return complain("an argument has another size than its type");
    box all = box_of(extents, layout{}, {}, at_.axes);
    const bool known = writer_[memory_of(b)] >= 0;
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, b.type, b.where);
      std::uint64_t member = 0;
      for (std::size_t a = 0; a < max_axes; ++a)
        if ((b.where.unreduced >> a & 1) != 0)
          member = member * static_cast<std::uint64_t>(at_.axes.of[a]) + static_cast<std::uint64_t>(where_[d][a]);
      for_each_of(mine, all, mine, [&](std::size_t from, std::size_t to) {
        const double x = piece(whole.data[from], b.where.combine, b.type.element, from, member,
                               static_cast<std::uint64_t>(at_.axes.product(b.where.unreduced)));
        double& at = data(d, b)[to];
        if (known && !same_bits(at, x)) complain("two views of an argument are not the same elements");
        at = x;
      });
    }
    writer_[memory_of(b)] = static_cast<int>(index);
  }
  static bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

  /// A whole result from its shards; replicas must be the same bits.
  host_array collect(std::size_t r) {
    const buffer& form = p_.buffers[p_.arguments + r];
    host_array whole(global(form.type), unwritten);
    const box all = box_of(whole.extents, layout{}, {}, at_.axes);
    std::vector<char> seen(whole.data.size(), 0);
    const buffer& writer = p_.buffers[static_cast<std::size_t>(writer_[p_.arguments + r])];
    if (writer.where.unreduced != form.where.unreduced) complain("a result is written as a partial value over other axes");
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, form.type, form.where);
      if (mine.elements() != local(d, writer).elements()) complain("a result is written in another layout");
      const std::vector<std::size_t> group = group_of(d, form.where.unreduced, where_);
      if (group[0] != d || !out_.problem.empty()) continue;
      for_each_of(mine, mine, all, [&](std::size_t from, std::size_t to) {
        double x = memory_[d][p_.arguments + r][from];
        for (std::size_t k = 1; k < group.size(); ++k)
          x = combined(form.where.combine, form.type.element, x, memory_[group[k]][p_.arguments + r][from]);
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

  void loop(std::size_t d, const step& s) {
    const buffer& out = p_.buffers[s.out];
    const placed to = place(d, out);
    std::vector<placed> from;
    for (std::uint16_t in : s.in) from.push_back(place(d, p_.buffers[in]));
    const box space = part(d, s.loop, s.space);
    // Streams: the operands, the indices along the dims of the loop, the result.
    const std::size_t loads = s.in.size(), rank = s.loop.rank, target = loads + rank;
    streamed_loops loops(target + 1);
    std::vector<std::int64_t> start(target + 1, 0);
    for (std::size_t k = 0; k < loads; ++k) start[k] = offset(d, p_.buffers[s.in[k]]);
    for (std::size_t i = 0; i < rank; ++i) {
      const dim_id dim = s.loop[static_cast<int>(i)];
      std::vector<std::int64_t> steps;
      for (const placed& p : from) steps.push_back(p.step(dim));
      for (std::size_t j = 0; j < rank; ++j) steps.push_back(i == j ? 1 : 0);
      steps.push_back(to.step(dim));
      start[loads + i] = space[static_cast<int>(i)].begin;
      loops.add(space[static_cast<int>(i)].size(), steps);
      for (std::uint16_t in : s.in) check_block(d, p_.buffers[in], dim, space[static_cast<int>(i)]);
      check_block(d, out, dim, space[static_cast<int>(i)]);
    }
    for (std::uint16_t in : s.in)
      if ((p_.buffers[in].type.set() & ~s.loop.set()) != 0) complain("does not run over all dims of an operand");
    if (to.extents.elements() != 0 && (out.type.set() & ~s.loop.set()) != 0) complain("does not run over all dims of its result");
    if (!out_.problem.empty()) return;
    double* result = data(d, out);
    const element e = out.type.element;
    if (s.kind == step_kind::fold) std::fill_n(result, to.extents.elements(), identity_of(s.combine, e));
    std::vector<double> tape(s.tape.size());
    loops.run(start, [&](const std::int64_t* at, std::int64_t n, const std::int64_t* step) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::size_t t = 0; t < tape.size(); ++t) {
          const tape_op& o = s.tape[t];
          const auto stream = [&](std::size_t k) { return at[k] + i * step[k]; };
          switch (o.code) {
            case op::input: tape[t] = data(d, p_.buffers[s.in[o.arg]])[stream(o.arg)]; break;
            case op::iota: tape[t] = stored(o.type, static_cast<double>(stream(loads + o.arg))); break;
            case op::constant: tape[t] = stored(o.type, o.scalar); break;
            case op::count: tape[t] = stored(o.type, count(o.over)); break;
            case op::user: tape[t] = applied(*o.user, o.type, tape[o.in[0]], tape[o.in[1]], tape[o.in[2]]); break;
            default:
              tape[t] = applied(o.code, s.tape[o.in[o.code == op::select ? 1u : 0u]].type, o.type, tape[o.in[0]], tape[o.in[1]], tape[o.in[2]]);
          }
        }
        double& x = result[at[target] + i * step[target]];
        x = s.kind == step_kind::fold ? combined(s.combine, e, x, tape.back()) : tape.back();
      }
    });
  }
  double count(dim_set dims) const {
    double n = 1;
    for (dim_id d = 0; d < max_dims; ++d)
      if ((dims & dim_bit(d)) != 0) n *= static_cast<double>(at_[d]);
    return n;
  }

  void call(std::size_t d, const step& s) {
    const auto seen = [&](const buffer& b) {
      reference_shard r{global(b.type), local(d, b), {}, data(d, b), detail::named_dims(b.type, p_.dims)};
      const box held_here = part(d, b.type, b.where);
      r.offset.rank = b.type.rank;
      for (int i = 0; i < b.type.rank; ++i) r.offset[i] = held_here[i].begin;
      return r;
    };
    std::vector<reference_shard> in;
    for (std::uint16_t b : s.in) in.push_back(seen(p_.buffers[b]));
    run_reference(*s.user, in, seen(p_.buffers[s.out]));
  }

  /// Elements under other indices, one by one: from the device's own memory or that of the one that has them.
  void exchange(const step& s) {
    const buffer& to = p_.buffers[s.out];
    const auto maps = std::span(p_.maps).subspan(s.first_map, s.maps);
    std::array<std::int64_t, max_operands> offsets{};
    bool at_run_time = false;
    for (const dim_map& m : maps)
      if (m.at_run_time != 0) {
        at_run_time = true;
        offsets[m.at_run_time] = static_cast<std::int64_t>(data(0, p_.buffers[s.in[m.at_run_time]])[0]);
      }
    std::vector<std::vector<double>> made(where_.size());
    std::int64_t busiest = 0;
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = indices_of(to, p_.maps, at_, where_[d]);
      made[d].assign(static_cast<std::size_t>(mine.elements()), 0);
      std::int64_t bytes = 0;
      for (std::uint8_t k = 0; k < s.in.size(); ++k) {
        if (!takes_from(maps, k)) continue;
        const buffer& from = p_.buffers[s.in[k]];
        const box own = part(d, from.type, from.where);
        std::set<std::pair<std::uint32_t, std::size_t>> received;
        for_each_index(mine, [&](const indices& at, std::size_t place) {
          const std::uint32_t where = part_of_region(d, to, at);
          if ((s.region_parts >> where & 1) == 0 && to.form == form::region) {
            made[d][place] = unwritten;
            return;
          }
          const auto source = source_of(maps, k, from.type, to.type, at, at_, offsets);
          if (!source) return;
          std::size_t owner = d;
          if (!holds(own, *source)) {
            received.insert({where, place_in(box_of(global(from.type), layout{}, {}, at_.axes), *source)});
            for (std::size_t other = 0; other < where_.size(); ++other)
              if (agree_outside(where_[other], where_[d], s.axes) && holds(part(other, from.type, from.where), *source)) owner = other;
            if (owner == d) complain("needs an element that no device of its group has");
          }
          if (out_.problem.empty()) made[d][place] = data(owner, from)[place_in(part(owner, from.type, from.where), *source)];
        });
        bytes += static_cast<std::int64_t>(received.size()) * size_of(from.type.element);
      }
      busiest = std::max(busiest, bytes);
    }
    if (!out_.problem.empty()) return;
    for (std::size_t d = 0; d < where_.size(); ++d) std::copy(made[d].begin(), made[d].end(), data(d, to));
    const std::int64_t priced = step_bytes(p_, s, at_);
    // With offsets that only the run knows the price is that of the worst ones.
    if (at_run_time && busiest > priced) complain("moves more than its price");
    moved_ = at_run_time ? priced : busiest;
  }
  /// Offsets are operands too.
  static bool takes_from(std::span<const dim_map> maps, std::uint8_t operand) {
    for (const dim_map& m : maps)
      if (m.operand == operand) return true;
    return false;
  }
  std::uint32_t part_of_region(std::size_t d, const buffer& to, const indices& at) const {
    std::uint32_t part = 0, digit = 1;
    for (int m = 0; m < to.maps && to.form == form::region; ++m, digit *= 3) {
      const dim_map& map = p_.maps[static_cast<std::size_t>(to.first_map + m)];
      const auto i = static_cast<std::size_t>(to.type.find(map.from));
      const range block = held(at_[map.to], to.where[static_cast<int>(i)], where_[d], at_.axes);
      part += digit * (!surrounds(map) ? 1 : at[i] < block.begin ? 0 : at[i] < block.end ? 1 : 2);
    }
    return part;
  }

  /// Rows at places, from the device's own block of the table or from that of the one that has them. What moves depends on the places;
  /// charged is the price.
  void gather(const step& s) {
    const buffer &table = p_.buffers[s.in[0]], &places = p_.buffers[s.in[1]], &to = p_.buffers[s.out];
    std::vector<std::vector<double>> made(where_.size());
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, to.type, to.where), asked = part(d, places.type, places.where);
      made[d].assign(static_cast<std::size_t>(mine.elements()), 0);
      for_each_index(mine, [&](const indices& index, std::size_t place) {
        const auto source = row_of(table.type, places.type, to.type, s.k[0], at_[s.k[0]], index, [&](const indices& i) {
          if (holds(asked, i)) return data(d, places)[place_in(asked, i)];
          complain("looks up at places that it does not hold");
          return -1.0;
        });
        if (!source || !out_.problem.empty()) return;
        std::size_t owner = where_.size();
        for (std::size_t other = 0; other < where_.size() && owner == where_.size(); ++other)
          if (agree_outside(where_[other], where_[d], s.axes) && holds(part(other, table.type, table.where), *source)) owner = other;
        // Where devices look up their own rows, the others have 0.
        const unsigned alone = table.where[table.type.find(s.k[0])].mask() & ~static_cast<unsigned>(s.axes);
        if (owner == where_.size() && alone != 0 && (alone & ~static_cast<unsigned>(to.where.unreduced)) == 0) return;
        if (owner == where_.size()) return complain("needs a row that no device of its group has");
        made[d][place] = data(owner, table)[place_in(part(owner, table.type, table.where), *source)];
      });
    }
    if (!out_.problem.empty()) return;
    for (std::size_t d = 0; d < where_.size(); ++d) std::copy(made[d].begin(), made[d].end(), data(d, to));
    moved_ = step_bytes(p_, s, at_);
  }

  /// Rows added up at places: on every device those of all devices among which rows are sent, in their order.
  void scatter(const step& s) {
    const buffer &rows = p_.buffers[s.in[0]], &places = p_.buffers[s.in[1]], &to = p_.buffers[s.out];
    std::vector<std::vector<double>> made(where_.size());
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, to.type, to.where);
      made[d].assign(static_cast<std::size_t>(mine.elements()), 0);
      for (std::size_t sender : group_of(d, s.axes, where_)) {
        const box sent = part(sender, rows.type, rows.where), asked = part(sender, places.type, places.where);
        for_each_index(sent, [&](const indices& index, std::size_t place) {
          const auto target = row_of(to.type, places.type, rows.type, s.k[0], at_[s.k[0]], index, [&](const indices& i) {
            if (holds(asked, i)) return data(sender, places)[place_in(asked, i)];
            complain("adds rows at places that it does not hold");
            return -1.0;
          });
          if (!target || !out_.problem.empty()) return;
          for (int i = 0; i < to.type.rank; ++i)
            if (to.type[i] != s.k[0] && ((*target)[static_cast<std::size_t>(i)] < mine[i].begin || (*target)[static_cast<std::size_t>(i)] >= mine[i].end))
              return complain("is sent rows of other columns");
          if (!holds(mine, *target)) return;
          double& total = made[d][place_in(mine, *target)];
          total = combined(reduction::sum, to.type.element, total, data(sender, rows)[place]);
        });
      }
    }
    if (!out_.problem.empty()) return;
    for (std::size_t d = 0; d < where_.size(); ++d) std::copy(made[d].begin(), made[d].end(), data(d, to));
    moved_ = step_bytes(p_, s, at_);
  }

  /// Running totals: every device on its own block, and then with what the devices before it have in all.
  void scan(const step& s) {
    const buffer &from = p_.buffers[s.in[0]], &to = p_.buffers[s.out];
    const int along = to.type.find(s.k[0]);
    if (!(from.type == to.type) || !(from.where == to.where)) return complain("scans into another layout");
    const axis_list list = to.where[along];
    const element e = to.type.element;
    std::int64_t busiest = 0;
    std::vector<std::vector<double>> made(where_.size());
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = part(d, to.type, to.where);
      made[d].assign(static_cast<std::size_t>(mine.elements()), 0);
      const std::int64_t length = mine[along].size(), step = steps_of(mine.extents())[static_cast<std::size_t>(along)];
      // The devices before this one, in the order of their blocks.
      std::vector<std::pair<std::int64_t, std::size_t>> before;
      const std::int64_t own = block_index(list, where_[d], at_.axes);
      for (std::size_t other = 0; other < where_.size(); ++other) {
        const std::int64_t theirs = block_index(list, where_[other], at_.axes);
        if (agree_outside(where_[other], where_[d], s.axes) && (s.backwards ? theirs > own : theirs < own)) before.push_back({s.backwards ? -theirs : theirs, other});
      }
      std::sort(before.begin(), before.end());
      std::int64_t slices = 0;
      box first = mine;
      first.along[static_cast<std::size_t>(along)] = {0, 1};
      for_each_index(first, [&](const indices& index, std::size_t) {
        ++slices;
        double total = identity_of(s.combine, e);
        for (const auto& [block, other] : before) {
          const box theirs = part(other, to.type, to.where);
          double sum = identity_of(s.combine, e);
          indices at = index;
          for (std::int64_t i = 0; i < theirs[along].size(); ++i) {
            at[static_cast<std::size_t>(along)] = s.backwards ? theirs[along].end - 1 - i : theirs[along].begin + i;
            sum = combined(s.combine, e, sum, data(other, from)[place_in(theirs, at)]);
          }
          total = combined(s.combine, e, total, sum);
        }
        indices at = index;
        at[static_cast<std::size_t>(along)] = mine[along].begin;
        const std::size_t start = length > 0 ? place_in(mine, at) : 0;
        double sum = identity_of(s.combine, e);
        for (std::int64_t i = 0; i < length; ++i) {
          const auto here = start + static_cast<std::size_t>((s.backwards ? length - 1 - i : i) * step);
          const double so_far = sum;
          sum = combined(s.combine, e, sum, data(d, from)[here]);
          made[d][here] = combined(s.combine, e, total, s.exclusive ? so_far : sum);
        }
      });
      if (at_.axes.product(list) > 1) busiest = std::max(busiest, slices * size_of(e));
    }
    for (std::size_t d = 0; d < where_.size(); ++d) std::copy(made[d].begin(), made[d].end(), data(d, to));
    moved_ = busiest;
  }

  /// Slices put together from the devices that share them, sorted, and taken apart again.
  void sort(const step& s) {
    const buffer &from = p_.buffers[s.in[0]], &to = p_.buffers[s.out];
    const int along = to.type.find(s.k[0]);
    if (from.type.dims != to.type.dims || !(from.where == to.where)) return complain("sorts into another layout");
    std::vector<std::vector<double>> made(where_.size());
    for (std::size_t d = 0; d < where_.size(); ++d) {
      box shared = part(d, to.type, to.where);
      const box mine = shared;
      shared.along[static_cast<std::size_t>(along)] = {0, at_[s.k[0]]};
      host_array slices(shared.extents()), sorted(shared.extents());
      for (std::size_t other : group_of(d, s.axes, where_)) {
        const box theirs = part(other, from.type, from.where);
        for_each_index(theirs, [&](const indices& index, std::size_t place) { slices.data[place_in(shared, index)] = data(other, from)[place]; });
      }
      sort_slices(slices, along, s.backwards, s.indices, sorted);
      made[d].resize(static_cast<std::size_t>(mine.elements()));
      for_each_index(mine, [&](const indices& index, std::size_t place) { made[d][place] = sorted.data[place_in(shared, index)]; });
    }
    for (std::size_t d = 0; d < where_.size(); ++d) std::copy(made[d].begin(), made[d].end(), data(d, to));
    moved_ = step_bytes(p_, s, at_);
  }

  /// A product; its flops.
  std::int64_t product(std::size_t d, const step& s) {
    const buffer &a = p_.buffers[s.in[0]], &b = p_.buffers[s.in[1]], &c = p_.buffers[s.out];
    std::vector<std::pair<dim_id, std::int64_t>> loops;
    std::int64_t flops = 2;
    dim_set covered = 0;
    for (const tensor_type* group : {&s.batch, &s.m, &s.k, &s.n})
      for (int i = 0; i < group->rank; ++i) {
        const dim_id dim = (*group)[i];
        const buffer& holder = group == &s.n ? b : a;
        if (!holder.type.has(dim)) return complain("contracts a dim that an operand does not have"), 0;
        const range block = part(d, holder.type, holder.where)[holder.type.find(dim)];
        for (const buffer* each : {&a, &b, &c}) check_block(d, *each, dim, block);
        loops.push_back({dim, block.size()});
        flops *= block.size();
        covered |= dim_bit(dim);
      }
    if (covered != (a.type.set() | b.type.set() | c.type.set())) complain("does not run over all dims of its operands");
    if (!out_.problem.empty()) return 0;
    std::fill_n(data(d, c), local(d, c).elements(), 0.0);
    multiply(place(d, a), place(d, b), place(d, c), loops, data(d, a), data(d, b), data(d, c));
    return flops;
  }

  void move(const step& s) {
    const buffer &from = p_.buffers[s.in[0]], &to = p_.buffers[s.out];
    if (from.type != to.type) return complain("changes the dims of what it moves");
    const shape extents = global(from.type);
    mover m(s, from, to, extents, at_.axes, where_);
    std::vector<const double*> memory;
    for (std::size_t d = 0; d < where_.size(); ++d) memory.push_back(data(d, from));
    m.run(memory);
    if (!m.problem.empty()) return complain(m.problem);
    for (std::size_t d = 0; d < where_.size(); ++d) std::copy(m.made[d].begin(), m.made[d].end(), data(d, to));
    moved_ = m.bytes;
  }

  const program& p_;
  const sizes& at_;
  std::uint64_t seed_;
  std::vector<coordinates> where_{};
  /// By device, then arguments, results and slots.
  std::vector<std::vector<std::vector<double>>> memory_{};
  /// The buffer that was written last into each memory.
  std::vector<int> writer_{};
  const step* step_ = nullptr;
  std::int64_t moved_ = 0;
  std::vector<std::int64_t> flops_{};
  /// The index of the trip that each loop is at.
  std::array<std::int64_t, max_loops + 1> index_{};
  simulated out_{};
};

} // namespace simulation

/// Runs a program for every device of a mesh in one process. Arguments are whole tensors; one that is a partial value is taken
/// apart at random.
inline simulated simulate(const program& p, const sizes& at, std::span<const host_array> arguments, std::uint64_t seed = 0) {
  for (const buffer& b : p.buffers) simulation::refuse_complex(b.type.element);
  return simulation::machine(p, at, seed).run(arguments);
}

} // namespace cleave
