// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/step.hpp>
#include <cleave/simulate/array.hpp>

#include <algorithm>
#include <string>

namespace cleave {

/// What a simulated run gives: the results as whole tensors, what the devices were charged, and the first inconsistency
/// (replicas that differ, elements that nobody wrote), empty if there is none.
struct simulated {
  std::vector<host_array> results{};
  /// Sum over the steps of what the busiest device moved in each.
  std::int64_t bytes = 0;
  std::string problem{};
};

namespace simulation {

/// Runs the steps for all devices in lockstep. Collectives are done literally: each device's target is filled element by
/// element from the devices that own the sources, and what comes from another device is counted.
class machine {
public:
  machine(const program& p, const sizes& at) : p_(p), at_(at), devices_(at.axes.devices()) {
    for (std::int64_t d = 0; d < devices_; ++d) {
      where_.push_back(coordinates_of(d, at.axes));
      memory_.push_back({std::vector<std::vector<double>>(p.arguments), std::vector<std::vector<double>>(p.results),
                         std::vector<std::vector<double>>(p.slots)});
      for (const buffer& b : p.buffers) {
        auto& m = memory(d, b);
        const std::size_t n = static_cast<std::size_t>(local(d, b).elements());
        // Never written is not a number, so that reading it shows.
        if (m.size() < n) m.resize(n, std::numeric_limits<double>::quiet_NaN());
      }
    }
  }

  simulated run(const std::vector<host_array>& inputs) {
    for (std::size_t a = 0; a < p_.arguments; ++a) distribute(p_.buffers[a], inputs[a]);
    for (const step& s : p_.steps) {
      if (s.kind == step_kind::move) out_.bytes += move(s);
      else
        for (std::int64_t d = 0; d < devices_; ++d) compute(d, s);
    }
    for (std::size_t r = 0; r < p_.results; ++r) out_.results.push_back(collect(p_.buffers[p_.arguments + r]));
    return out_;
  }

private:
  struct device_memory {
    std::vector<std::vector<double>> inputs, outputs, slots;
  };

  std::vector<double>& memory(std::int64_t d, const buffer& b) {
    device_memory& m = memory_[static_cast<std::size_t>(d)];
    return (b.role == role::input ? m.inputs : b.role == role::output ? m.outputs : m.slots)[b.index];
  }
  const coordinates& where(std::int64_t d) const { return where_[static_cast<std::size_t>(d)]; }
  shape local(std::int64_t d, const buffer& b) const { return local_shape(shape_of(b.type, at_), b.where, where(d), at_.axes); }
  index first(std::int64_t d, const tensor_type& t, const layout& l) const {
    index begin{};
    for (int i = 0; i < t.rank; ++i) begin[static_cast<std::size_t>(i)] = held(at_[t[i]], l[i], where(d), at_.axes).begin;
    return begin;
  }

  /// The device that has a global index under a layout, as `like` on all axes that do not divide it.
  std::int64_t owner(const tensor_type& t, const layout& l, const index& global, coordinates like) const {
    for (int i = 0; i < t.rank; ++i) {
      const std::int64_t parts = at_.axes.product(l[i]);
      std::int64_t b = global[static_cast<std::size_t>(i)] / std::max<std::int64_t>(1, block_extent(at_[t[i]], parts));
      for (int j = l[i].size() - 1; j >= 0; --j) {
        like[static_cast<std::size_t>(l[i][j])] = static_cast<std::int32_t>(b % at_.axes[l[i][j]]);
        b /= at_.axes[l[i][j]];
      }
    }
    return device_of(like, at_.axes);
  }
  double& element_at(std::int64_t d, const buffer& b, const index& global) {
    const shape extents = local(d, b);
    const auto strides = row_major(extents);
    const index begin = first(d, b.type, b.where);
    std::int64_t o = 0;
    for (int i = 0; i < b.type.rank; ++i)
      o += (global[static_cast<std::size_t>(i)] - begin[static_cast<std::size_t>(i)]) * strides[static_cast<std::size_t>(i)];
    return memory(d, b)[static_cast<std::size_t>(o)];
  }
  bool carries(std::int64_t d, axis_set partial) const {
    for (int a = 0; a < max_axes; ++a)
      if ((partial >> a & 1) != 0 && where(d)[static_cast<std::size_t>(a)] != 0) return false;
    return true;
  }
  template <class F>
  void for_each_element(std::int64_t d, const buffer& b, F&& f) {
    const index begin = first(d, b.type, b.where);
    for_each_index(local(d, b), [&](index at) {
      for (int i = 0; i < b.type.rank; ++i) at[static_cast<std::size_t>(i)] += begin[static_cast<std::size_t>(i)];
      f(at);
    });
  }

  void distribute(const buffer& b, const host_array& whole) {
    const index strides = along(b.type, b.type, whole.extents);
    for (std::int64_t d = 0; d < devices_; ++d)
      for_each_element(d, b, [&](const index& at) {
        element_at(d, b, at) = carries(d, b.where.unreduced) ? whole.data[offset(at, strides, b.type.rank)] : identity(b.where.combine);
      });
  }

  host_array collect(const buffer& b) {
    host_array whole(shape_of(b.type, at_), identity(b.where.combine));
    const index strides = along(b.type, b.type, whole.extents);
    for_each_index(whole.extents, [&](const index& at) {
      double& value = whole.data[offset(at, strides, b.type.rank)];
      // One device for every coordinate on the axes that do not divide the tensor; replicas must be the same bits.
      const axis_set divided = b.where.sharded();
      double seen = 0;
      bool any = false;
      for (std::int64_t d = 0; d < devices_; ++d) {
        coordinates like = where(d);
        if (owner(b.type, b.where, at, like) != d) continue;
        const double x = element_at(d, b, at);
        if (b.where.unreduced != 0) {
          bool counts = true;
          for (int a = 0; a < max_axes; ++a)
            if ((divided >> a & 1) == 0 && (b.where.unreduced >> a & 1) == 0 && like[static_cast<std::size_t>(a)] != 0) counts = false;
          if (counts) value = combine(b.where.combine, value, x);
        } else if (!any) {
          value = seen = x;
          any = true;
        } else if (!(x == seen) && !(x != x && seen != seen) && out_.problem.empty()) {
          out_.problem = "replicas of a result differ";
        }
      }
    });
    return whole;
  }

  void compute(std::int64_t d, const step& s) {
    const buffer& out = p_.buffers[s.out];
    const shape out_extents = local(d, out);
    double* to = memory(d, out).data();
    if (s.kind == step_kind::gemm) {
      const buffer &a = p_.buffers[s.in[0]], &b = p_.buffers[s.in[1]];
      shape over;
      over.rank = s.k.rank;
      for (int i = 0; i < s.k.rank; ++i) over[i] = local(d, a)[a.type.find(s.k[i])];
      contract(out.type, out_extents, s.k, over, a.type, local(d, a), memory(d, a).data(), b.type, local(d, b),
               memory(d, b).data(), out.type, out_extents, to);
      return;
    }
    shape loop;
    loop.rank = s.loop.rank;
    for (int i = 0; i < loop.rank; ++i) loop[i] = held(at_[s.loop[i]], s.space[i], where(d), at_.axes).size();
    const index begin = first(d, s.loop, s.space);
    const index store = along(s.loop, out.type, out_extents);
    std::vector<index> loads;
    for (std::uint16_t in : s.in) loads.push_back(along(s.loop, p_.buffers[in].type, local(d, p_.buffers[in])));
    if (s.kind == step_kind::fold)
      for (std::int64_t i = 0; i < out_extents.elements(); ++i) to[i] = identity(s.combine);
    std::vector<double> tape(s.tape.size());
    for_each_index(loop, [&](const index& at) {
      for (std::size_t t = 0; t < s.tape.size(); ++t) {
        const tape_op& o = s.tape[t];
        switch (o.code) {
          case op::input: tape[t] = memory(d, p_.buffers[s.in[o.arg]])[offset(at, loads[o.arg], s.loop.rank)]; break;
          case op::constant: tape[t] = o.scalar; break;
          case op::count: tape[t] = product_of(o.over, at_); break;
          case op::iota: tape[t] = static_cast<double>(at[o.arg] + begin[o.arg]); break;
          default: tape[t] = scalar(o.code, o.type, tape[o.in[0]], tape[o.in[1]], tape[o.in[2]]);
        }
      }
      double& x = to[offset(at, store, s.loop.rank)];
      x = s.kind == step_kind::fold ? combine(s.combine, x, tape.back()) : tape.back();
    });
  }

  /// Does one move for all devices; the bytes of the busiest one.
  std::int64_t move(const step& s) {
    const buffer &from = p_.buffers[s.in[0]], &to = p_.buffers[s.out];
    const std::int64_t element_bytes = size_of(from.type.element);
    const std::int64_t group = at_.axes.product(s.axes);
    const axis_set resolved = static_cast<axis_set>(from.where.unreduced & ~to.where.unreduced);
    std::vector<std::vector<double>> made(static_cast<std::size_t>(devices_));
    std::int64_t busiest = 0;
    for (std::int64_t d = 0; d < devices_; ++d) {
      std::int64_t received = 0;
      for_each_element(d, to, [&](const index& at) {
        double x = 0;
        if (s.move == kind::mask) {
          x = carries(d, s.axes) ? element_at(d, from, at) : identity(to.where.combine);
        } else {
          // Every coordinate on the axes that are summed over, in order; one device where there are none.
          bool mine = true;
          x = identity(from.where.combine);
          std::int64_t terms = at_.axes.product(resolved);
          for (std::int64_t t = 0; t < terms; ++t) {
            coordinates like = where(d);
            std::int64_t rest = t;
            for (int a = max_axes - 1; a >= 0; --a)
              if ((resolved >> a & 1) != 0) {
                like[static_cast<std::size_t>(a)] = static_cast<std::int32_t>(rest % at_.axes[a]);
                rest /= at_.axes[a];
              }
            const std::int64_t source = owner(from.type, from.where, at, like);
            coordinates back = where(source);
            for (int a = 0; a < max_axes; ++a)
              if ((resolved >> a & 1) != 0) back[static_cast<std::size_t>(a)] = where(d)[static_cast<std::size_t>(a)];
            mine = mine && device_of(back, at_.axes) == d;
            const double term = element_at(source, from, at);
            x = resolved != 0 ? combine(from.where.combine, x, term) : term;
          }
          if (!mine) ++received;
        }
        made[static_cast<std::size_t>(d)].push_back(x);
      });
      std::int64_t charge = received * element_bytes;
      const std::int64_t operand = local(d, from).elements();
      if (s.move == kind::all_reduce) charge = 2 * (group - 1) * operand * element_bytes / group;
      if (s.move == kind::reduce_scatter) {
        const std::int64_t kept = local(d, to).elements();
        // Blocks that nest: all but the own part is sent. Others: reduced everywhere, then exchanged.
        charge = scattered_in_place(s) ? (operand - kept) * element_bytes
                                       : 2 * (group - 1) * operand * element_bytes / group + received * element_bytes;
      }
      if (group == 1 && s.move != kind::collective_permute) charge = received * element_bytes;
      busiest = std::max(busiest, charge);
    }
    for (std::int64_t d = 0; d < devices_; ++d) {
      auto& m = memory(d, to);
      std::copy(made[static_cast<std::size_t>(d)].begin(), made[static_cast<std::size_t>(d)].end(), m.begin());
    }
    return busiest;
  }
  /// Whether every device's part of a reduce-scatter lies in what it holds.
  bool scattered_in_place(const step& s) {
    const buffer &from = p_.buffers[s.in[0]], &to = p_.buffers[s.out];
    const shape global = shape_of(from.type, at_);
    for (int i = 0; i < global.rank; ++i)
      if (from.where[i] != to.where[i] && !nests(global[i], from.where[i], to.where[i], at_.axes)) return false;
    return true;
  }

  const program& p_;
  const sizes& at_;
  std::int64_t devices_;
  std::vector<coordinates> where_{};
  std::vector<device_memory> memory_{};
  simulated out_{};
};

} // namespace simulation

/// Runs a program for every device of a mesh in one process, on whole input tensors in the order of the arguments.
inline simulated simulate(const program& p, const sizes& at, const std::vector<host_array>& inputs) {
  return simulation::machine(p, at).run(inputs);
}

} // namespace cleave
