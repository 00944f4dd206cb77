// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/simulate/slices.hpp>

#include <utility>

namespace cleave { inline namespace v0 {

namespace simulation {

/// All devices in lockstep.
class machine : slice_steps {
 public:
  machine(const program& p, const sizes& at, std::uint64_t seed) : slice_steps(p, at, seed) {}

  simulated run(indexed_span<const host_array> arguments) {
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
      if (p_.buffers[b].role == role::input && p_.buffers[b].form == form::shard)
        distribute(p_.buffers[b], arguments[p_.buffers[b].index]);
    flops_.assign(where_.size(), 0);
    // Steps that never run move the bytes that they are priced at.
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
      else if (pass_of(p_.steps, i).size() > 1) i = run_pass(i);
      else run_step(i);
  }
  /// Runs maps of one pass: each reads its operands as they were before. Returns the last one.
  std::size_t run_pass(std::size_t first) {
    const std::size_t end = end_of_joined(p_.steps, first);
    indexed_vector<indexed_vector<elements>> made;
    step_ = &p_.steps[first];
    for (std::uint16_t in : step_->in) check_readable(in);
    for (std::size_t i = first; i < end && out_.problem.empty(); ++i) forget_target(p_.steps[i]);
    for (std::size_t i = first; i < end && out_.problem.empty(); ++i) {
      const step& s = p_.steps[i];
      const std::size_t target = memory_of(p_.buffers[s.out]);
      step_ = &s;
      made.emplace_back();
      for (std::size_t d = 0; d < where_.size() && out_.problem.empty(); ++d) {
        const elements before = memory_[d][target];
        loop(d, s);
        made.back().push_back(std::exchange(memory_[d][target], before));
      }
    }
    for (std::size_t i = first; i < end && out_.problem.empty(); ++i) {
      const buffer& out = p_.buffers[p_.steps[i].out];
      for (std::size_t d = 0; d < where_.size(); ++d) memory_[d][memory_of(out)] = std::move(made[i - first][d]);
      note_written(out);
    }
    return end - 1;
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
          for (auto& device : memory_)
            std::fill(device[memory_of(out)].begin(), device[memory_of(out)].end(), unwritten);
          writer_[memory_of(out)] = &p_.buffers[out.of];
        }
    const std::int64_t iterations = s.in.empty() ? loop.along != no_dim ? at_[loop.along] : loop.iterations
                                                 : agreed(s.in[0]);
    for (std::int64_t iteration = 0; iteration < iterations && out_.problem.empty(); ++iteration) {
      index_[s.in_loop] = loop.backwards ? iterations - 1 - iteration : iteration;
      run_steps(begin + 1, end);
      if (out_.problem.empty() && !p_.steps[end].in.empty() && agreed(p_.steps[end].in[0]) != 0) break;
    }
    return end;
  }
  void run_step(std::size_t i) {
    const step& s = p_.steps[i];
    step_ = &s;
    moved_ = 0;
    if (s.kind == step_kind::wait) return arrive(s);
    for (std::uint16_t in : s.in) check_readable(in);
    if (s.keeps) check_readable(s.out);
    if (!out_.problem.empty()) return;
    if (!s.keeps) forget_target(s);
    switch (s.kind) {
      case step_kind::move: move(s); break;
      case step_kind::exchange: exchange(s); break;
      case step_kind::scan: scan(s); break;
      case step_kind::sort: on_slices(s); break;
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
    note_written(p_.buffers[s.out]);
    out_.step_bytes[i] = moved_;
    out_.bytes += moved_;
    if (s.in_flight) depart(i);
  }

  void note_written(const buffer& out) {
    writer_[memory_of(out)] = out.form == form::slice ? &p_.buffers[out.of] : &out;
  }

  /// The result of an exchange or a move in flight is not there before its wait, and its operand must not change until
  /// then.
  struct flight {
    std::size_t begun;
    indexed_vector<elements> brought;
    indexed_vector<indexed_vector<elements>> sent;
  };
  void depart(std::size_t begun) {
    const step& s = p_.steps[begun];
    flight f{begun, {}, {}};
    const std::size_t target = memory_of(p_.buffers[s.out]);
    for (auto& device : memory_) {
      f.sent.emplace_back();
      for (std::uint16_t in : s.in) f.sent.back().push_back(device[memory_of(p_.buffers[in])]);
      f.brought.push_back(device[target]);
      std::fill(device[target].begin(), device[target].end(), unwritten);
    }
    writer_[target] = nullptr;
    in_flight_.push_back(std::move(f));
  }
  void arrive(const step& w) {
    const auto f = std::ranges::find(in_flight_, w.begun, &flight::begun);
    if (f == in_flight_.end()) return complain("waits for an exchange that did not begin");
    const step& s = p_.steps[f->begun];
    const buffer& out = p_.buffers[s.out];
    if (writer_[memory_of(out)] != nullptr) complain("is written while an exchange brings something else");
    for (std::size_t d = 0; d < memory_.size(); ++d) {
      for (std::size_t k = 0; k < s.in.size(); ++k)
        if (memory_of(p_.buffers[s.in[k]]) != memory_of(out) &&
            !std::ranges::equal(f->sent[d][k], memory_[d][memory_of(p_.buffers[s.in[k]])], same_bits))
          complain("waits for an exchange whose operand was written meanwhile");
      memory_[d][memory_of(out)] = f->brought[d];
    }
    note_written(out);
    in_flight_.erase(f);
  }

  /// Copies the current shard into the memory of its halo, so that a step reads both as one region. Along a whole
  /// periodic dim the other end of the shard or of a part is next to it.
  void complete_halos(std::size_t d, const step& s) {
    for (std::uint16_t in : s.in) {
      const buffer& view = p_.buffers[in];
      if (view.form != form::view || p_.buffers[view.of].form != form::halo) continue;
      const buffer &halo = p_.buffers[view.of], &shard = p_.buffers[halo.of];
      const box mine = indices_of(halo, p_.maps, at_, where_[d]), own = part(d, shard.type, shard.where);
      double* const region = data(d, halo);
      for_each_index(mine, [&](const position& at, std::int64_t offset) {
        if ((halo.parts >> part_of_region(d, halo, at) & 1) != 0) return;
        position there = at;
        for (int m = 0; m < halo.maps; ++m) {
          const dim_map& map = p_.maps[as_size(halo.first_map + m)];
          const int i = halo.type.find(map.from);
          if (wraps_around(map, halo.where, halo.type)) there[i] = cleave::detail::floor_mod(at[i], at_[map.from]);
        }
        if (holds(own, there)) region[offset] = data(d, shard)[offset_in(own, there)];
        else if (holds(mine, there)) region[offset] = region[offset_in(mine, there)];
      });
    }
  }

  /// The value of an entry of an expression, from those before it; `input` and `index` give the loads and indices.
  double entry(const indexed_span<const fused_op>& ops, std::size_t t, const indexed_vector<double>& value,
               const auto& input, const auto& index) {
    const fused_op& o = ops[t];
    switch (o.code) {
      case op::input: return input(o.arg);
      case op::iota: return stored(o.type, as_double(index(o.arg)));
      case op::constant: return stored(o.type, o.scalar);
      case op::count: return stored(o.type, count(o.over));
      case op::user: return applied(*o.user, o.type, value[o.in[0]], value[o.in[1]], value[o.in[2]]);
      default:
        return applied(o.code, ops[o.in[typed_operand(o.code)]].type, o.type, value[o.in[0]], value[o.in[1]],
                       value[o.in[2]]);
    }
  }

  /// Computes the elements around a shard on each device itself: of a ring the elements of its other side, and 0
  /// outside of other dims.
  void compute_halo(std::size_t d, const step& s) {
    complete_halos(d, s);
    const buffer& out = p_.buffers[s.out];
    const box mine = indices_of(out, p_.maps, at_, where_[d]), own = part(d, out.type, out.where);
    const indexed_span<const fused_op> ops = fused_ops_of(p_, s);
    for_each_index(mine, [&](const position& at, std::int64_t offset_in_region) {
      double& x = data(d, out)[offset_in_region];
      if ((out.parts >> part_of_region(d, out, at) & 1) == 0) return;
      bool outside = false;
      position index = at;
      for (int m = 0; m < out.maps; ++m) {
        const dim_map& map = p_.maps[as_size(out.first_map + m)];
        const int i = out.type.find(map.from);
        const std::int64_t n = at_[map.from];
        if (map.outside == border::periodic) index[i] = cleave::detail::floor_mod(at[i], n);
        else if (map.outside != border::zero) complain("computes a halo beyond a border of this kind");
        outside = outside || index[i] < 0 || index[i] >= n;
      }
      x = 0;
      if (outside) return;
      const auto input = [&](std::size_t k) {
        const buffer& b = p_.buffers[s.in[k]];
        const placed from = place(d, b);
        std::int64_t element = offset(d, b);
        for (int i = 0; i < b.type.rank; ++i) {
          const int at_loop = s.loop.find(b.type[i]);
          const std::int64_t beyond = at[at_loop] - own[at_loop].begin;
          const bool inside = beyond >= 0 && beyond < own[at_loop].size();
          if (!inside && !is_around_shard(p_, b)) return complain("computes a halo from a shard alone"), 0.0;
          element += beyond * from.step(b.type[i]);
        }
        return data(d, b)[element];
      };
      indexed_vector<double> value(ops.size());
      for (std::size_t t = 0; t < value.size(); ++t)
        value[t] = entry(ops, t, value, input, [&](std::size_t dim) { return index[as_int(dim)]; });
      x = value.back();
    });
  }

  void loop(std::size_t d, const step& s) {
    if (p_.buffers[s.out].form == form::halo) return compute_halo(d, s);
    complete_halos(d, s);
    const buffer& out = p_.buffers[s.out];
    const placed to = place(d, out);
    indexed_vector<placed> from;
    for (std::uint16_t in : s.in) from.push_back(place(d, p_.buffers[in]));
    const box space = part(d, s.loop, s.space);
    // Streams: the operands, the indices along the dims of the loop, the result.
    const std::size_t loads = s.in.size(), rank = s.loop.rank, target = loads + rank;
    streamed_loops loops(target + 1);
    indexed_vector<std::int64_t> start(target + 1, 0);
    for (std::size_t k = 0; k < loads; ++k) start[k] = offset(d, p_.buffers[s.in[k]]);
    for (std::size_t i = 0; i < rank; ++i) {
      const dim_id dim = s.loop[i];
      indexed_vector<std::int64_t> steps;
      for (const placed& p : from) steps.push_back(p.step(dim));
      for (std::size_t j = 0; j < rank; ++j) steps.push_back(i == j ? 1 : 0);
      steps.push_back(to.step(dim));
      start[loads + i] = space[i].begin;
      loops.add(space[i].size(), steps);
      for (std::uint16_t in : s.in) check_block(d, p_.buffers[in], dim, space[i]);
      check_block(d, out, dim, space[i]);
    }
    for (std::uint16_t in : s.in)
      if ((p_.buffers[in].type.set() & ~s.loop.set()) != 0) complain("does not run over all dims of an operand");
    if (to.extents.elements() != 0 && (out.type.set() & ~s.loop.set()) != 0)
      complain("does not run over all dims of its result");
    if (!out_.problem.empty()) return;
    double* result = data(d, out);
    const element e = out.type.element;
    if (s.kind == step_kind::fold) std::fill_n(result, to.extents.elements(), identity_of(s.combine, e));
    const indexed_span<const fused_op> ops = fused_ops_of(p_, s);
    indexed_vector<double> value(ops.size());
    loops.run(start, [&](const std::int64_t* at, std::int64_t n, const std::int64_t* step) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto stream = [&](std::size_t k) { return at[k] + i * step[k]; };
        const auto input = [&](std::size_t k) { return data(d, p_.buffers[s.in[k]])[stream(k)]; };
        for (std::size_t t = 0; t < value.size(); ++t)
          value[t] = entry(ops, t, value, input, [&](std::size_t dim) { return stream(loads + dim); });
        double& x = result[at[target] + i * step[target]];
        x = s.kind == step_kind::fold ? combined(s.combine, e, x, value.back()) : value.back();
      }
    });
  }
  double count(dim_set dims) const {
    double n = 1;
    for (dim_id d = 0; d < max_dims; ++d)
      if (dims.contains(d)) n *= as_double(at_[d]);
    return n;
  }

  void call(std::size_t d, const step& s) {
    const auto seen = [&](const buffer& b) {
      reference_shard r;
      tell_extents(r, b, p_.maps, at_, where_[d]);
      r.data = data(d, b);
      r.dims = detail::named_dims(b.type, p_.dims);
      return r;
    };
    indexed_vector<reference_shard> in;
    for (std::uint16_t b : s.in) in.push_back(seen(p_.buffers[b]));
    run_reference(*s.user, in, seen(p_.buffers[s.out]));
  }

  /// Elements under other indices, one by one: from the device's own memory or that of the one that has them.
  void exchange(const step& s) {
    const buffer& to = p_.buffers[s.out];
    const auto maps = indexed_span(p_.maps).subspan(s.first_map, s.maps);
    std::array<std::int64_t, max_operands> offsets{};
    bool at_run_time = false;
    for (const dim_map& m : maps)
      if (m.at_run_time != 0) {
        at_run_time = true;
        const buffer& offset = p_.buffers[s.in[m.at_run_time]];
        offsets[m.at_run_time] = static_cast<std::int64_t>(data(0, offset)[0]);
        for (std::size_t d = 0; d < where_.size(); ++d)
          if (!same_bits(data(d, offset)[0], data(0, offset)[0])) complain("is moved differently by devices");
      }
    indexed_vector<elements> made(where_.size());
    std::int64_t busiest = 0;
    for (std::size_t d = 0; d < where_.size(); ++d) {
      const box mine = indices_of(to, p_.maps, at_, where_[d]);
      made[d] = elements::filled(mine.elements());
      if (s.keeps) std::copy_n(data(d, to), mine.elements(), made[d].begin());
      std::int64_t bytes = 0;
      for (int k = 0; k < std::ssize(s.in); ++k) {
        if (!takes_from(maps, k)) continue;
        const buffer& from = p_.buffers[s.in[k]];
        const box own = part(d, from.type, from.where);
        std::set<std::pair<std::uint32_t, std::int64_t>> received;
        for_each_index(mine, [&](const position& at, std::int64_t offset) {
          const std::uint32_t where = part_of_region(d, to, at);
          if ((to.parts >> where & 1) == 0 && has_neighbours(to)) {
            made[d][offset] = unwritten;
            return;
          }
          const auto source = source_of(maps, k, from.type, to.type, at, at_, offsets);
          if (!source) return;
          std::size_t owner = d;
          if (!holds(own, *source)) {
            received.insert({where, offset_in(whole_box(global(from.type)), *source)});
            for (std::size_t other = 0; other < where_.size(); ++other)
              if (agree_outside(where_[other], where_[d], s.axes) && holds(part(other, from.type, from.where), *source))
                owner = other;
            if (owner == d) complain("needs an element that no device of its group has");
          }
          if (out_.problem.empty())
            made[d][offset] = data(owner, from)[offset_in(part(owner, from.type, from.where), *source)];
        });
        bytes += std::ssize(received) * size_of(from.type.element);
      }
      busiest = std::max(busiest, bytes);
    }
    put(made, to);
    const std::int64_t priced = step_bytes(p_, s, at_);
    // With offsets that only the run knows the price is that of the worst ones.
    if (at_run_time && busiest > priced) complain("moves more than its price");
    moved_ = at_run_time ? priced : busiest;
  }
  std::uint32_t part_of_region(std::size_t d, const buffer& to, const position& at) const {
    std::uint32_t part = 0, digit = 1;
    for (unsigned m = 0; m < to.maps && has_neighbours(to); ++m, digit *= 3) {
      const dim_map& map = p_.maps[to.first_map + m];
      const int i = to.type.find(map.from);
      const range block = held(at_.along(map.to), to.where[i], where_[d], at_.axes);
      part += digit * (!surrounds(map) ? 1 : at[i] < block.begin ? 0 : at[i] < block.end ? 1 : 2);
    }
    return part;
  }

  /// A product; its flops.
  std::int64_t product(std::size_t d, const step& s) {
    const buffer &a = p_.buffers[s.in[0]], &b = p_.buffers[s.in[1]], &c = p_.buffers[s.out];
    indexed_vector<std::pair<dim_id, std::int64_t>> loops;
    std::int64_t flops = 2;
    dim_set covered = 0;
    const gemm_dims groups = as_gemm(s);
    for (const tensor_type* group : {&groups.batch, &groups.m, &groups.k, &groups.n})
      for (int i = 0; i < group->rank; ++i) {
        const dim_id dim = (*group)[i];
        const buffer& holder = group == &groups.n ? b : a;
        if (!holder.type.has(dim)) return complain("contracts a dim that an operand does not have"), 0;
        const range block = part(d, holder.type, holder.where)[holder.type.find(dim)];
        for (const buffer* each : {&a, &b, &c}) check_block(d, *each, dim, block);
        loops.push_back({dim, block.size()});
        flops *= block.size();
        covered |= dim_bit(dim);
      }
    if (covered != (a.type.set() | b.type.set() | c.type.set())) complain("does not run over all dims of its operands");
    if (!out_.problem.empty()) return 0;
    const std::int64_t results = local(d, c).elements();
    elements added;
    for (std::size_t k = 2; k < s.in.size() && s.panels == 0; ++k)
      if (const buffer& x = p_.buffers[s.in[k]]; x.type.rank > 0) {
        if (x.type != c.type || x.where != c.where) return complain("adds an array unlike its result"), 0;
        added.assign(data(d, x), data(d, x) + results);
      }
    std::fill_n(data(d, c), results, 0.0);
    multiply(place(d, a), place(d, b), place(d, c), loops, data(d, a), data(d, b), data(d, c));
    if (is_scaled(s)) scale(d, s, added, results);
    return flops;
  }
  /// The expression of a scaled product, element by element.
  void scale(std::size_t d, const step& s, const elements& added, std::int64_t results) {
    const indexed_span<const fused_op> ops = fused_ops_of(p_, s);
    indexed_vector<double> value(ops.size());
    double* const c = data(d, p_.buffers[s.out]);
    for (std::int64_t i = 0; i < results; ++i) {
      for (std::size_t t = 0; t < value.size(); ++t) {
        const fused_op& o = ops[t];
        if (o.code == op::constant) value[t] = stored(o.type, o.scalar);
        else if (o.code == op::count) value[t] = stored(o.type, count(o.over));
        else if (o.code != op::input) value[t] = applied(o.code, o.type, o.type, value[o.in[0]], value[o.in[1]], 0);
        else if (o.arg == 0) value[t] = c[i];
        else if (const buffer& x = p_.buffers[s.in[o.arg]]; x.type.rank == 0) value[t] = data(d, x)[0];
        else value[t] = added[i];
      }
      c[i] = value.back();
    }
  }

  void move(const step& s) {
    const buffer &from = p_.buffers[s.in[0]], &to = p_.buffers[s.out];
    if (from.type != to.type) return complain("changes the dims of what it moves");
    const shape extents = global(from.type);
    mover m(s, from, to, extents, at_.axes, where_);
    indexed_vector<const double*> memory;
    for (std::size_t d = 0; d < where_.size(); ++d) memory.push_back(data(d, from));
    m.run(memory);
    if (!m.problem.empty()) return complain(m.problem);
    put(m.made, to);
    moved_ = m.bytes;
  }

  indexed_vector<flight> in_flight_{};
};

} // namespace simulation

/// Runs a program for every device of a mesh in one process. Arguments are whole tensors; a partial argument is split
/// into random summands.
inline simulated simulate(const program& p, const sizes& at, indexed_span<const host_array> arguments,
                          std::uint64_t seed = 0) {
  for (const buffer& b : p.buffers) simulation::refuse_complex(b.type.element);
  return simulation::machine(p, at, seed).run(arguments);
}

}} // namespace cleave::v0
