// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/graph/order.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/simulate/array.hpp>
#include <cleave/simulate/errors.hpp>
#include <cleave/simulate/remap.hpp>
#include <cleave/simulate/scalar.hpp>
#include <cleave/simulate/sort.hpp>

#include <functional>
#include <utility>

namespace cleave { inline namespace v0 {

namespace simulation {

/// out += a * b over loops in the order batch, m, k, n. The innermost runs along the last dim of n if there is one,
/// which is contiguous in both b and out for tensors in their usual order.
inline void multiply(const placed& a, const placed& b, const placed& out,
                     indexed_span<const std::pair<dim_id, std::int64_t>> loop, const double* x, const double* y,
                     double* z) {
  const element e = out.type.element;
  streamed_loops loops(3);
  for (const auto& [d, extent] : loop) loops.add(extent, std::array{a.step(d), b.step(d), out.step(d)});
  loops.run({0, 0, 0}, [&](const std::int64_t* at, std::int64_t n, const std::int64_t* step) {
    const double *left = x + at[0], *right = y + at[1];
    double* into = z + at[2];
    if (!is_floating(e)) {
      for (std::int64_t i = 0; i < n; ++i)
        into[i * step[2]] = applied(op::add, e, into[i * step[2]],
                                    applied(op::mul, e, left[i * step[0]], right[i * step[1]]));
    } else if (step[0] == 0 && step[1] == 1 && step[2] == 1) {
      const double factor = *left;
      for (std::int64_t i = 0; i < n; ++i) into[i] += factor * right[i];
    } else {
      for (std::int64_t i = 0; i < n; ++i) into[i * step[2]] += left[i * step[0]] * right[i * step[1]];
    }
  });
}

/// The loops of a product: dims and extents of batch, m, k and n.
template <class Extent>
indexed_vector<std::pair<dim_id, std::int64_t>> product_loops(const tensor_type& a, const tensor_type& b,
                                                              const tensor_type& out, Extent&& extent_of) {
  indexed_vector<std::pair<dim_id, std::int64_t>> batch, m, k, n;
  for (int i = 0; i < out.rank; ++i)
    (!a.has(out[i]) ? n : b.has(out[i]) ? batch : m).push_back({out[i], extent_of(out[i])});
  for (int i = 0; i < a.rank; ++i)
    if (!out.has(a[i])) k.push_back({a[i], extent_of(a[i])});
  for (const auto* part : {&m, &k, &n}) batch.append(part->begin(), part->end());
  return batch;
}

struct evaluator {
  const graph& g;
  const sizes& at;
  indexed_vector<host_array> values{};

  placed place(node_id v) const { return {g.nodes[v].type, shape_of(g.nodes[v].type, at)}; }

  void elementwise(const node& n, const host_array* const* in, host_array& out) const {
    const std::size_t arity = n.arity;
    streamed_loops loops(arity + 1);
    indexed_vector<placed> from;
    for (std::size_t k = 0; k < arity; ++k) from.push_back(place(n.in[k]));
    const placed to(n.type, out.extents);
    for (int i = 0; i < n.type.rank; ++i) {
      indexed_vector<std::int64_t> steps;
      for (const placed& p : from) steps.push_back(p.step(n.type[i]));
      steps.push_back(to.step(n.type[i]));
      loops.add(out.extents[i], steps);
    }
    const element type = g.nodes[n.in[typed_operand(n.code)]].type.element;
    loops.run(indexed_vector<std::int64_t>(arity + 1, 0),
              [&](const std::int64_t* o, std::int64_t count, const std::int64_t* step) {
                for (std::int64_t i = 0; i < count; ++i) {
                  double x[3]{};
                  for (std::size_t k = 0; k < arity; ++k) x[k] = in[k]->data[o[k] + i * step[k]];
                  double& into = out.data[o[arity] + i * step[arity]];
                  into = n.code == op::user ? applied(*n.user, n.type.element, x[0], x[1], x[2])
                                            : applied(n.code, type, n.type.element, x[0], x[1], x[2]);
                }
              });
  }

  void reduce(const node& n, const host_array& in, host_array& out) const {
    out.data.assign(out.data.size(), identity_of(n.combine, n.type.element));
    const placed from = place(n.in[0]), to(n.type, out.extents);
    streamed_loops loops(2);
    for (int i = 0; i < from.type.rank; ++i)
      loops.add(from.extents[i], std::array{from.step(from.type[i]), to.step(from.type[i])});
    loops.run({0, 0}, [&](const std::int64_t* o, std::int64_t count, const std::int64_t* step) {
      for (std::int64_t i = 0; i < count; ++i) {
        double& total = out.data[o[1] + i * step[1]];
        total = combined(n.combine, n.type.element, total, in.data[o[0] + i * step[0]]);
      }
    });
  }

  void remap(const node& n, const host_array* const* in, host_array& out) const {
    std::array<std::int64_t, max_arity> offsets{};
    for (const dim_map& m : maps_of(g, n))
      if (m.at_run_time != 0) offsets[m.at_run_time] = static_cast<std::int64_t>(in[m.at_run_time]->data[0]);
    for_each_index(whole_box(out.extents), [&](const position& index, std::int64_t offset) {
      for (std::uint8_t k = 0; k < n.arity; ++k) {
        if (!takes_from(maps_of(g, n), k)) continue;
        const auto source = source_of(maps_of(g, n), k, g.nodes[n.in[k]].type, n.type, index, at, offsets);
        if (source) out.data[offset] = in[k]->data[offset_in(whole_box(in[k]->extents), *source)];
      }
    });
  }

  void gather(const node& n, const host_array& table, const host_array& indices, host_array& out) const {
    const tensor_type &from = g.nodes[n.in[0]].type, &asked = g.nodes[n.in[1]].type;
    for_each_index(whole_box(out.extents), [&](const position& index, std::int64_t offset) {
      const auto source = row_of(from, asked, n.type, n.which[0], at[n.which[0]], index, [&](const position& i) {
        return indices.data[offset_in(whole_box(indices.extents), i)];
      });
      if (source) out.data[offset] = table.data[offset_in(whole_box(table.extents), *source)];
    });
  }

  void scatter(const node& n, const host_array& rows, const host_array& indices, host_array& out) const {
    const tensor_type &from = g.nodes[n.in[0]].type, &asked = g.nodes[n.in[1]].type;
    for_each_index(whole_box(rows.extents), [&](const position& index, std::int64_t offset) {
      const auto target = row_of(n.type, asked, from, n.which[0], at[n.which[0]], index, [&](const position& i) {
        return indices.data[offset_in(whole_box(indices.extents), i)];
      });
      if (!target) return;
      double& total = out.data[offset_in(whole_box(out.extents), *target)];
      total = combined(reduction::sum, n.type.element, total, rows.data[offset]);
    });
  }

  void cumulative(const node& n, const host_array* const* in, host_array& out) const {
    const int along = n.type.find(n.which[0]);
    const std::int64_t length = out.extents[along], step = strides_of(out.extents)[along];
    for_each_index(whole_box(out.extents), [&](const position& index, std::int64_t offset) {
      if (index[along] != 0) return;
      double total = identity_of(n.combine, n.type.element);
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t here = offset + (n.backwards ? length - 1 - i : i) * step;
        const double before = total;
        if (n.code == op::recurrence) total = combined(reduction::prod, n.type.element, total, in[1]->data[here]);
        total = combined(n.combine, n.type.element, total, in[0]->data[here]);
        out.data[here] = n.exclusive ? before : total;
      }
    });
  }

  void on_slices(const node& n, host_array& out) const {
    indexed_vector<slice_tensor> from;
    for (std::size_t k = 0; k < n.arity; ++k) from.push_back({place(n.in[k]), &values[n.in[k]]});
    compute_on_slices({n.code, n.which[0], n.backwards}, from, n.type, out);
  }

  /// The values of a node without operands.
  void fill(const node& n, host_array& out) const {
    const auto put = [&](std::size_t i, double x) { out.data[i] = stored(n.type.element, x); };
    double product = 1;
    switch (n.code) {
      case op::constant: return put(0, n.scalar);
      case op::iota:
        for (std::size_t i = 0; i < out.data.size(); ++i) put(i, as_double(i));
        return;
      case op::count:
        for (dim_id d = 0; d < max_dims; ++d)
          if (n.over.contains(d)) product *= as_double(at[d]);
        return put(0, product);
      default: return;
    }
  }

  void contract(const node& n, const host_array& left, const host_array& right, host_array& out) const {
    const placed a = place(n.in[0]), b = place(n.in[1]), c(n.type, out.extents);
    const auto loops = product_loops(a.type, b.type, c.type, [&](dim_id d) { return at[d]; });
    multiply(a, b, c, loops, left.data.data(), right.data.data(), out.data.data());
  }

  /// A user's kernel, on one device that holds everything.
  void call(const node& n, host_array& out) const {
    indexed_vector<reference_shard> shards;
    const auto whole = [&](const host_array& a, const tensor_type& type) {
      shape none;
      none.rank = a.extents.rank;
      return reference_shard{
          a.extents, a.extents, none, none, none, const_cast<double*>(a.data.data()), detail::named_dims(type, g.dims)};
    };
    std::array<host_array, max_arity> padded;
    for (std::size_t k = 0; k < n.arity; ++k) {
      reference_shard s = whole(values[n.in[k]], g.nodes[n.in[k]].type);
      fixed_array<border, max_rank> outside{};
      for (const dim_map& m : halos_of(g, n)) {
        const int i = g.nodes[n.in[k]].type.find(m.from);
        if (m.operand != k || s.global[i] == 0) continue;
        s.before[i] = -m.offset.constant;
        s.after[i] = m.dilation + m.offset.constant;
        outside[i] = m.outside;
      }
      padded[k] = host_array(detail::extents_with_halo(s));
      const box all = whole_box(s.global);
      for_each_index(whole_box(padded[k].extents), [&](position index, std::int64_t offset) {
        for (int i = 0; i < all.rank; ++i)
          index[i] = index_map{1, -s.before[i], 1, false, outside[i], s.global[i]}.source(index[i]);
        if (holds(all, index)) padded[k].data[as_size(offset)] = s.data[offset_in(all, index)];
      });
      s.data = padded[k].data.data();
      shards.push_back(s);
    }
    run_reference(*n.user, shards, whole(out, n.type));
  }

  host_array compute(const node& n) const {
    host_array out(shape_of(n.type, at));
    const host_array* in[max_arity]{};
    for (std::size_t k = 0; k < n.arity; ++k) in[k] = &values[n.in[k]];
    switch (class_of(n.code)) {
      case op_class::source: fill(n, out); break;
      case op_class::elementwise: elementwise(n, in, out); break;
      case op_class::contraction: contract(n, *in[0], *in[1], out); break;
      case op_class::reduction: reduce(n, *in[0], out); break;
      case op_class::remap: remap(n, in, out); break;
      case op_class::cumulative: cumulative(n, in, out); break;
      case op_class::sort: on_slices(n, out); break;
      case op_class::scatter: scatter(n, *in[0], *in[1], out); break;
      case op_class::gather: gather(n, *in[0], *in[1], out); break;
      case op_class::call: call(n, out); break;
      case op_class::loop:
      case op_class::view:
      case op_class::annotation:
        if (in[0]->data.size() != out.data.size()) raise<evaluation_error>(wording::sizes_contradict(name_of(n.code)));
        out.data = in[0]->data;
        break;
    }
    return out;
  }
};

/// Called for each value once it is computed, in every iteration.
using node_hook = std::function<void(const node&, host_array&)>;

/// Runs the nodes of an ordered graph, loops iteration by iteration.
class loop_runner {
 public:
  loop_runner(evaluator& e, const node_hook& after) : run(e), g(e.g), at(e.at), hook(after) {}

  void nodes(std::size_t first, std::size_t last, std::uint8_t loop) {
    for (std::size_t v = first; v < last; ++v)
      if (g.nodes[v].loop == loop) node_of(v);
      else v = run_loop(v, last, loop) - 1;
  }

 private:
  void node_of(std::size_t v) {
    const node& n = g.nodes[v];
    // The loop sets a carried value; a stack is filled one index an iteration; a result is the value carried last.
    if (n.code == op::input || n.code == op::carry || n.code == op::loop_stack || n.code == op::trip_count) return;
    if (n.code == op::loop_result) run.values[v] = run.values[g.nodes[n.in[0]].in[1]];
    else if (n.code == op::loop_slice && g.loops[n.of - 1u].along != no_dim) run.values[v] = slice(n);
    else if (n.code != op::loop_yield) run.values[v] = run.compute(n);
    if (hook) hook(n, run.values[v]);
  }
  host_array slice(const node& n) const {
    host_array out(shape_of(n.type, at));
    const std::int64_t length = out.extents.elements();
    std::copy_n(run.values[n.in[0]].data.data() + index_[n.of] * length, length, out.data.begin());
    return out;
  }
  /// The loop inside `around` that begins at a node; where its nodes end.
  std::size_t run_loop(std::size_t first, std::size_t last, std::uint8_t around) {
    std::uint8_t loop = g.nodes[first].loop;
    while (g.loops[loop - 1u].around != around) loop = g.loops[loop - 1u].around;
    std::size_t end = first;
    while (end < last && within(g.loops, g.nodes[end].loop, loop)) ++end;
    const loop_info& l = g.loops[loop - 1u];
    std::int64_t iterations = l.along != no_dim ? at[l.along] : l.iterations;
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      const node& n = g.nodes[v];
      if (n.of != loop) continue;
      if (n.code == op::trip_count) iterations = static_cast<std::int64_t>(run.values[n.in[0]].data[0]);
      if (n.code == op::carry) run.values[v] = run.values[n.in[0]];
      if (n.code == op::loop_stack) run.values[v] = host_array(shape_of(n.type, at));
    }
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      index_[loop] = l.backwards ? iterations - 1 - iteration : iteration;
      nodes(first, end, loop);
      bool done = false;
      indexed_vector<std::pair<node_id, host_array>> next;
      for (std::size_t v = 0; v < g.nodes.size(); ++v) {
        const node& n = g.nodes[v];
        if (n.of != loop) continue;
        const host_array& x = run.values[n.in[0]];
        if (n.code == op::break_if) done = x.data[0] != 0;
        if (n.code == op::loop_yield) next.push_back({n.in[1], x});
        if (n.code == op::loop_stack)
          std::ranges::copy(x.data, run.values[v].data.data() + index_[loop] * x.extents.elements());
      }
      for (auto& [carry, x] : next) run.values[carry] = std::move(x);
      if (done) break;
    }
    return end;
  }

  evaluator& run;
  const graph& g;
  const sizes& at;
  const node_hook& hook;
  std::array<std::int64_t, max_loops + 1> index_{};
};

/// Arrays hold doubles: programs with complex numbers are neither evaluated nor simulated.
inline void refuse_complex(element e) {
  if (is_complex(e)) raise<evaluation_error>(wording::not_on_doubles());
}

} // namespace simulation

/// Runs a recorded graph unpartitioned, on whole arrays: the meaning of a program. Arguments and results are in the
/// order of the graph. A partial argument is given as its complete value. Results have the memory order that is asked
/// for. `after` may change each value once it is computed, as rounding would.
inline indexed_vector<host_array> evaluate(const graph& recorded, const sizes& at,
                                           indexed_span<const host_array> arguments,
                                           const simulation::node_hook& after = {}) {
  const graph g = ordered(recorded);
  if (arguments.size() != g.inputs.size())
    raise<evaluation_error>(wording::arrays_needed(std::ssize(g.inputs), std::ssize(arguments)));
  for (const node& n : g.nodes) simulation::refuse_complex(n.type.element);
  simulation::evaluator run{g, at, indexed_vector<host_array>(g.nodes.size())};
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    if (arguments[a].extents != shape_of(g.nodes[g.inputs[a]].type, at))
      raise<evaluation_error>(wording::array_extents(as_signed(a)));
    run.values[g.inputs[a]] = arguments[a];
    if (after) after(g.nodes[g.inputs[a]], run.values[g.inputs[a]]);
  }
  simulation::loop_runner(run, after).nodes(0, g.nodes.size(), 0);
  indexed_vector<host_array> results;
  for (std::size_t r = 0; r < g.outputs.size(); ++r)
    results.push_back(reordered(run.values[g.outputs[r]], g.nodes[g.outputs[r]].type, g.output_types[r]));
  return results;
}

}} // namespace cleave::v0
