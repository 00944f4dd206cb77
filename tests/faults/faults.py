# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The faults that seed.py seeds: file, text, what it becomes, and the quick test that should catch it.

expression(file, old, new, test)   `old` is an expression: both are compiled, and a switch chooses when the program runs
statement(file, old, new, test)    `old` is one or several whole statements, and `new` too; empty: they are left out
constant(file, old, new, test)     `old` is part of a table or of a type, which only the compiler reads: built by itself

`old` appears once in its file, or `nth` says which of its places is meant, counted from 0. Tests are named
`program:filter`: fuzz, oracle, `unit:Suite.Name`, `mpi:Suite.Name`.
"""

FAULTS = []


def add(how, file, old, new, test, nth):
    FAULTS.append({"how": how, "file": file, "old": old, "new": new, "test": test, "nth": nth})


def expression(file, old, new, test="fuzz", nth=None):
    add("expression", file, old, new, test, nth)


def statement(file, old, new="", test="fuzz", nth=None):
    add("statement", file, old, new, test, nth)


def constant(file, old, new, test="unit:*", nth=None):
    add("constant", file, old, new, test, nth)


# What operations record, and what they are differentiated to.
f = "rules/cumulative.hpp"
expression(f, "!n.backwards", "n.backwards", "unit:Gradient.*", 1)
expression(f, "n.exclusive ? run(n.combine, x, {along, n.backwards, false}) : c.primal(v)", "c.primal(v)", "unit:Gradient.*")
expression(f, "n.backwards ? reduction::min : reduction::max", "reduction::max", "unit:Gradient.*")
expression(f, "n.backwards ? std::numeric_limits<std::int32_t>::max() : -1", "-1", "unit:Gradient.*")
expression(f, "apply(op::mul, factors, g)", "g", "unit:Gradient.*")
expression(f, "slices > 0 ? collectives::rounds(devices) : 0", "collectives::rounds(devices) + 1", "unit:Prices.*")
expression(f, "slices * size_of(o.out.type->element)", "2 * slices * size_of(o.out.type->element)")
statement(f, "s.exclusive = n.exclusive;")
statement(f, "s.backwards = n.backwards;")
statement(f, "s.combine = n.combine;")
f = "rules/reduction.hpp"
expression(f, "apply(op::div, cast(g, wide), summed(apply.cast(hit, wide)))", "cast(g, wide)", "unit:Gradient.*")
expression(f, "apply(op::mul, before, after)", "before", "unit:Gradient.*")
f = "rules/elementwise.hpp"
statement(f, "if ((broadcast & ~has) != 0) part = times_count(c, part, broadcast & ~has, n.where);", "", "unit:Gradient.*")
expression(f, "c.in().elementwise(op::mul, std::array{g, count}, where)", "g", "unit:Gradient.*")
expression(f, "c.type_of(part).element != to.element", "false", "unit:Gradient.*")
statement(f, "if (n.code == op::broadcast) t.code = op::identity;")
f = "rules/contraction.hpp"
expression(f, "summed != 0", "false", "unit:Gradient.*")
statement(f, "if ((n.over & dim_bit(first[i])) != 0) flops *= as_double(s[first[i]]);", "", "oracle")
expression(f, "flops * length", "flops", "unit:Prices.*")
expression(f, "n.over == 0", "false", "oracle", 0)
statement(f, "s.space = o.out.where;", "", "unit:Lower.*")
f = "rules/sort.hpp"
statement(f, "n.backwards = descending;", "", "unit:*")
expression(f, "recorded_sort(c.in(), op::argsort, c.primal(n.in[0]), along, n.backwards, n.where)",
           "recorded_sort(c.in(), op::argsort, c.primal(n.in[0]), along, !n.backwards, n.where)")
expression(f, "indices ? 10 : 7", "7", "unit:Prices.*")
expression(f, "times(slices, how.stride()) * each", "0", "unit:Prices.*")
statement(f, "s.backwards = n.backwards;")
f = "rules/annotation.hpp"
expression(f, "n.code == op::constrain ? constrained_like(c.in(), g, n) : g", "g", "unit:Gradient.*")
statement(f, "if (code == op::reshard) n.pinned = narrowed((1u << n.type.rank) - 1u);", "", "unit:*")
expression(f, "from.pin[i] != n.pin[i]", "false", "unit:Faults.*")
f = "rules/remap.hpp"
statement(f, "if (have.dim == t.dim) have.times -= t.times, met = true;", "if (have.dim == t.dim) have.times += t.times, met = true;")
expression(f, "index < 0 ? sum_of(index, dim) : sum_of(index)", "sum_of(index)")
expression(f, "in.elementwise(op::minimum, std::array{start, last}, where)", "start")
expression(f, "in.elementwise(op::maximum, std::array{most, in.constant(0, e, where)}, where)", "most")
expression(f, "m.divisor != 1 || m.stride < 1", "m.stride < 1")
statement(f, "for (int k = 0; k < o.arity; ++k) over |= fetched_over(part_of(o, k));", "over |= fetched_over(part_of(o, 0));")
statement(f, "if (map.window != no_dim) mapped |= dim_bit(map.window);")
statement(f, "s.out.clear(factors.items[i].at[in_result]);", "", "oracle")
f = "rules/remap_adjoint.hpp"
expression(f, "turn * m.divisor * plus", "0")
expression(f, "-turn * m.dilation", "m.dilation")
statement(f, "ways.push_back(solved(m, -1, -2, 2, back::only::not_last));")
statement(f, "ways.push_back(solved(m, 1, t, 0, back::only::last));")
statement(f, "b.map.offset.constant += t;")
expression(f, "at_end ? last : first", "first")
statement(f, "need(m, reach, 1);", "", "unit:movement.*")
expression(f, "apply(op::equal, row, column)", "apply(op::less_equal, row, column)")
f = "rules/view.hpp"
expression(f, "d.extent % devices == 0", "true")
expression(f, "major.extent == devices_of(g, list.prefix(cut))", "true")
expression(f, "list.empty() || d.divisible", "list.empty()", "oracle")
expression(f, "!has(1) || !has(2)", "false", "unit:Gradient.*")
f = "rules/rows.hpp"
statement(f, "n.over = from.set() & ~table.set();")
expression(f, "(devices - 1) * (indices * offset + rows * size_of(o.out.type->element)) / devices",
           "(devices - 1) * (indices + rows * size_of(o.out.type->element)) / devices", "oracle")
expression(f, "(devices - 1) * (indices * offset + rows * size_of(o.in[0].type->element)) / parts",
           "(devices - 1) * (indices + rows * size_of(o.in[0].type->element)) / parts", "oracle")
expression(f, "rows > 0 ? 2 * (devices - 1) : 0", "0", "unit:Prices.*", 0)
expression(f, "rows > 0 ? 2 * (devices - 1) : 0", "0", "unit:Prices.*", 1)
expression(f, "(s.out.axes(i) & over) != 0", "false")
statement(f, "s.over.give_up(0, s.out.sharded());")
statement(f, "if ((t.out.sharded() & way.mask()) != 0) return;")
statement(f, "g = c.in().broadcast(g, n.type, n.where);", "", "unit:Gradient.*", 0)
statement(f, "g = c.in().broadcast(g, n.type, n.where);", "", "unit:Gradient.*", 1)
expression(f, "recorded_rename(c.in(), c.in().broadcast(g, n.type, n.where), along, ranks, n.where)",
           "recorded_rename(c.in(), g, along, ranks, n.where)", "unit:Gradient.*")
f = "rules/loop.hpp"
expression(f, "s.forwarded != 0 ? 3 : 0", "s.forwarded != 0 ? 1 : 0", "unit:Loops.*")
expression(f, "is_made_by_loop(in.at(next), in.at(carried).of) && was == is", "was == is", "unit:Loops.*")
expression(f, "t[0] == along", "true", "unit:Loops.*")
f = "rules/reverse_context.hpp"
statement(f, "c = in_.elementwise(op::add, std::array{value{&in_, cotangent_[v]}, c}, where, element::none, true);")
expression(f, "in_.constant(0, n.type.element, n.where)", "in_.constant(1, n.type.element, n.where)", "unit:Gradient.*")
f = "autodiff/derivative.hpp"
statement(f, "c_.set_depends(n.in[1]), again = true;", "c_.set_depends(n.in[1]);", "unit:Loops.*")
expression(f, "is_floating(n.type.element)", "true", "unit:*", 0)
expression(f, "n.gradient ? n.origin : n.code", "n.code", "unit:*")
f = "autodiff/reverse_loop.hpp"
expression(f, "!info_.backwards", "info_.backwards", "unit:Loops.*")
expression(f, "in_.elementwise(op::mul, std::array{g, count}, n.where)", "g", "unit:Loops.*")
expression(f, "in_.elementwise(op::add, std::array{sum, g}, n.where)", "g", "unit:Loops.*")
expression(f, "is_stacked(g) ? stack_first(in_, g, info_.along, where_) : g", "g", "unit:Loops.*")

# Propagation.
f = "propagate/complete.hpp"
expression(f, "offer(p, tensors[k], here, longest)", "(k == arity && offer(p, tensors[k], here, longest))", "unit:Complete.*")
expression(f, "p.g.dims[p.nodes[v].type[position]].extent == 1", "false", "oracle")
expression(f, "(p.fixed.at[v] >> position & 1) != 0", "false", "unit:Complete.*")
expression(f, "(others >> list[j] & 1) == 0", "true", "unit:Complete.*")
# Changes nothing: what is taken was offered before, and an axis shards one dim.
expression(f, "(axes & taken) != 0", "false", "unit:Complete.*")
statement(f, "detail::propagate(p, true, true);", "", "unit:Complete.*")
statement(f, "detail::propagate(p, false, false);", "", "unit:Complete.*")
expression(f, "p.nodes[in[k]].type.rank < n.type.rank", "false", "unit:Complete.*")
expression(f, "p.g.outputs_pinned && r < p.g.outputs.size()", "false", "oracle")
statement(f, "for (std::size_t v = count; v-- > 0;)\n      if (p.fresh.at[v] != 0) changed = visit_anew(p, v, products, from_narrow) || changed;", "", "oracle")
expression(f, "back.exact && back.minor == p.of[fine][f.minor]", "false", "unit:Complete.*")
expression(f, "products || !rules.propagates_late", "true", "unit:Complete.*")

# Prices.
f = "cost/collective.hpp"
expression(f, "reach < n", "reach <= n", "unit:Prices.*")
expression(f, "2 * rounds(n)", "rounds(n)", "unit:Prices.*")
expression(f, "v.sizes.product(h.axes) - 1", "v.sizes.product(h.axes)", "unit:Prices.*")
statement(f, "if (p.of[i] > q.of[i]) peers *= p.of[i] / q.of[i];", "", "unit:Prices.*")
expression(f, "rounds(v.sizes.product(h.axes))", "1", "unit:Prices.*")
expression(f, "bytes - (bytes + n - 1) / n", "bytes")
expression(f, "2 * bytes - (2 * bytes + n - 1) / n + exchanged", "bytes - (bytes + n - 1) / n + exchanged")
expression(f, "most_scattered(v.global, v.from, h.to, h.axes, v.sizes) * v.element_bytes", "bytes")
expression(f, "2 * v.most_elements() * v.element_bytes", "v.most_elements() * v.element_bytes")
expression(f, "from.same_dims(h.to) && from.unreduced() == joined(h.to.unreduced(), h.axes)", "true", "unit:Prices.*")
expression(f, "same_partial(from, h.to) && from.continues(h.to) && from.sharded() == joined(h.to.sharded(), h.axes)", "true", "unit:Prices.*")
f = "cost/reshard.hpp"
expression(f, "staged.score <= direct.score ? staged : direct", "direct", "oracle")
expression(f, "global.extent[i] % sizes.product(list) != 0", "false", "oracle")
expression(f, "(used >> axis & 1) != 0", "false")
f = "cost/exchange.hpp"
expression(f, "std::max<std::int64_t>(all - elsewhere, 0)", "all", "unit:Prices.*")
expression(f, "all == here ? 0 : owners - (here > 0 ? 1 : 0)", "0", "unit:Prices.*")
expression(f, "dim.owners(blocks, r.from, r.from + (r.count - 1) * r.from_step)", "1", "unit:Prices.*")
statement(f, "c.messages += one.messages;", "", "unit:Prices.*")
statement(f, "busiest.messages = std::max(busiest.messages, c.messages);", "", "unit:Prices.*")
expression(f, "(mapped & dim_bit(p.from[i])) == 0", "true")
f = "cost/region.hpp"
expression(f, "(block.end - 1) * m.stride + m.offset.constant + m.dilation + 1", "(block.end - 1) * m.stride + m.offset.constant + m.dilation")
expression(f, "all != here ? 1 : 0", "0", "unit:Prices.*")
statement(f, "c.bytes *= size_of(r.type.element);")
f = "cost/node_price.hpp"
expression(f, "(copies[i].word & ~layout::dims_mask) != 0", "false")
expression(f, "std::min(price[k], reshard_price(m, u, copies[i], copies[k]))", "price[k]", "unit:MovesNoMoreThanGspmd.*")
expression(f, "m.weight.at[v] * *known", "*known", "unit:Search.*")
expression(f, "m.weight.at[u] * m.cache.score(m.kind.at[u], from, to)", "m.cache.score(m.kind.at[u], from, to)", "oracle")
expression(f, "m.rule.repeat > 0 && total > a.allowed_flops * (1 + m.limits.equal_work)", "false", "oracle")
expression(f, "a.flops - a.work.at[v] + flops_with(m, v, s) > a.allowed_flops * (1 + m.limits.equal_work)", "false", "oracle")
f = "cost/candidates.hpp"
statement(f, "for (std::size_t i = 0; i < copies; ++i) wanted(a.copies.at[i]);", "", "oracle")
expression(f, "m.at.dims.items[dim] < parts", "false", "unit:Search.*")
expression(f, "(m.traits.at[v] & (is_linear | keeps_whole)) != is_linear", "true", "oracle")
expression(f, "combines && l.combine() == through", "combines", "unit:*")
statement(f, "common = common & ~dividing_axes(s);")
f = "cost/legal.hpp"
expression(f, "(sent & ~over) != 0 || (forwarded & over) != 0", "false")
expression(f, "(n.pinned >> i & 1) != 0 && s.out[i] != n.pin[i]", "false", "oracle")
expression(f, "(seen & axes) != 0", "false")
statement(f, "while ((list.bits() & common) != 0) list.pop_back();")

# The search.
f = "plan/search/start.hpp"
statement(f, "for (int i = 0; i < n.type.rank; ++i) out.give_up(i, along & ~brought);", "", "oracle")
expression(f, "other.starts_with(list)", "false", "oracle")
statement(f, "keep_sums_partial(m, a, v);", "", "oracle")
statement(f, "if (m.next_of.at[v] != no_node) accumulate_partially(m, a, v);", "", "unit:Loops.*")
f = "plan/search/improve.hpp"
expression(f, "outer || must_move(m, a, v)", "outer", "oracle")
expression(f, "a.chosen.at[v].forwarded != 0 && own > 0 && reduce_earlier(m, a, f, v)", "false", "oracle")
expression(f, "own > elsewhere", "false", "oracle")
expression(f, "more > repeated ? m.rule.flop * (more - repeated) : 0", "0", "oracle")
f = "plan/search/change.hpp"
expression(f, "(after < least)", "(after < 0.7 * before)", "oracle")
statement(f, "a.chosen.at[v] = a.undo.at[i].before;")
statement(f, "a.flops = flops_after;")
statement(f, "count_work(m, a);", "", "fuzz", 1)
statement(f, "next.forwarded = s.out.unreduced() & ~dividing_axes(next);", "next.forwarded = s.out.unreduced();")
f = "plan/choose.hpp"
statement(f, "gather_early(m, a, f);", "", "oracle")
statement(f, "  exchange_views(g, m, a, f);", "", "oracle")
statement(f, "  move_once(m, a, f);", "", "unit:MovesNoMoreThanGspmd.*")
f = "plan/choose.hpp"
statement(f, "if (!tie) continue;", "continue;", "unit:Search.*")
f = "plan/search/fingerprint.hpp"
expression(f, "list.at[i] == own", "true", "oracle")
f = "plan/search/forced.hpp"
statement(f, "a.flops = flops;")
f = "plan/partition.hpp"
statement(f, "detail::adopt_result_order(g);", "", "unit:*")

# Lowering.
f = "plan/lower/allocate.hpp"
statement(f, "if (end > life.last_read) life.last_read = end;")
statement(f, "if (begin < life.first_written) life.first_written = begin;")
expression(f, "lives[memory].last_read != last || !pointwise(b)", "!pointwise(b)")
expression(f, "same_order(from.type, s.loop)", "true")
statement(f, "safe = safe && !around && (e.memory[other] != memory || pointwise(other));",
          "safe = safe && !around;")
statement(f, "safe = safe && !around && (e.memory[other] != memory || pointwise(other));",
          "safe = safe && (e.memory[other] != memory || pointwise(other));", "unit:*")
expression(f, "busy_until[k] >= i", "busy_until[k] > i")
statement(f, "if (s.bytes > all.bytes[slot]) all.bytes[slot] = s.bytes;", "", "unit:Lower.*")
f = "plan/lower/overlap_exchanges.hpp"
statement(f, "for (std::uint16_t b : exchange.in)\n    if (memory[b] == memory[other.out]) return true;", "", "unit:Lower.*")
expression(f, "memory[other.out] == brought", "false", "unit:Lower.*")
statement(f, "w.in = exchange.in;", "", "unit:Lower.*")
statement(f, "if (!w.in.full()) w.in.push_back(exchange.out);", "", "unit:Lower.*")
expression(f, "other.kind == step_kind::loop_end && level == 0", "false", "unit:Lower.*")
expression(f, "m.at_run_time != 0", "false", "unit:Lower.*")
f = "plan/lower/step_order.hpp"
expression(f, "written == to || written == from", "written == to")
statement(f, "if (steps[i].kind == step_kind::wait) steps[i].begun = narrowed(position[steps[i].begun]);", "", "unit:Lower.*")
expression(f, "s.joined || (s.pieces != 0 && go_together(steps_[position - 1], s))", "false", "unit:Lower.*")
f = "plan/lower/overlap_moves.hpp"
expression(f, "added < 0 || added >= apart", "added < 0", "unit:Lower.*")
statement(f, "order.wait_at(position, i);", "", "unit:Lower.*")
f = "plan/lower/overlap_exchanges.hpp"
expression(f, "steps[first].axes != steps[late].axes", "false", "unit:Lower.*")
expression(f, "steps[i].in_loop == steps[late].in_loop", "true", "unit:Lower.*")
expression(f, "(buffers[steps[first].out].form == form::halo) != halo", "false", "unit:Verify.*")
statement(f, "if (!halo) break;", "", "unit:Verify.*")
f = "plan/lower/place.hpp"
expression(f, "v.by.move == kind::all_reduce && f.uses[from] == 1", "v.by.move == kind::all_reduce")
expression(f, "m.storages[m.of[from]].role != role::input", "true")
expression(f, "!in.g.outputs_pinned || same_order(p.values[p.results[r]].type, in.g.output_types[r])", "true")
f = "plan/lower/overlap_exchanges.hpp"
expression(f, "memory[steps[i].out] != own", "true")
expression(f, "steps[i].in_loop == late.in_loop", "true", "unit:Lower.*")
f = "plan/lower/fuse.hpp"
statement(f, "++s.f.uses[r];")
expression(f, "l != writer.in[1] || loaded.type != writer.type || loaded.where != writer.where", "false", "unit:Loops.*")
expression(f, "v.type.set() != loop_of(s.in, s.p, step).set() || v.loop != step.loop", "v.loop != step.loop")
expression(f, "v.type.set() != loop_of(s.in, s.p, step).set() || v.loop != step.loop",
           "v.type.set() != loop_of(s.in, s.p, step).set()")
expression(f, "reader == none || reader == step ? step : several", "step")
f = "plan/lower/split_values.hpp"
expression(f, "p.values[i].where.unreduced() != 0", "false")
expression(f, "other.score < best.score", "false", "oracle")
expression(f, "want.unreduced() == 0 ? whole : add_version(p, moved_from(v, whole, {kind::mask, want.unreduced(), want}))", "whole")
statement(f, "v.loop = in.node_at(u).loop;", "", "unit:Loops.*")
f = "plan/lower/regions.hpp"
expression(f, "together > region.bytes + own_bytes", "false", "oracle")
expression(f, "m.dilation > widest_shared_region", "false", "unit:Lower.*")
expression(f, "own.offset.constant + own.dilation > 0", "own.offset.constant > 0")
expression(f, "!(a.taken == b.taken) || !(a.made == b.made)", "false")
f = "plan/lower/emit.hpp"
expression(f, "from.unreduced() != 0 ? from.combine() : v.where.combine()", "v.where.combine()")
statement(f, "if (!written_in_place(p, m, r)) emit_result(e, r);")
statement(f, "for (std::size_t j = i; j < last; ++j)\n      if (values[j].loop == loop) emit_step(e, j);", "", "unit:Loops.*")
f = "plan/price.hpp"
expression(f, "plus_times(total, step_iterations(p, s, at), most - shared)", "plus_times(total, 1, most - shared)", "unit:Prices.*")
expression(f, "plus_times(total, step_iterations(p, s, at), step_bytes(p, s, at))", "plus_times(total, 1, step_bytes(p, s, at))", "unit:*")
expression(f, "plus_times(total, step_iterations(p, s, at), most_flops.call(placed(p, s), at))", "plus_times(total, 1, most_flops.call(placed(p, s), at))", "unit:Prices.*")

# Graphs.
f = "graph/simplify.hpp"
expression(f, "std::bit_cast<std::uint64_t>(a.scalar) != std::bit_cast<std::uint64_t>(b.scalar)", "false")
expression(f, "a.pin.word == b.pin.word", "true", "unit:*")
expression(f, "a.loop != b.loop", "false", "unit:Loops.*")
expression(f, "a.exclusive == b.exclusive", "true")
expression(f, "a.combine == b.combine", "true")
expression(f, "a.type == b.type", "true")
expression(f, "a.local == b.local", "true", "unit:*")
expression(f, "is_floating(labels.type.element)", "false", "unit:*")
expression(f, "n.over == classes && (rows & classes) != 0", "(rows & classes) != 0")
f = "record/recorder.hpp"
statement(f, "if (code == op::barrier) n.scalar = as_double(made_.nodes.size());", "", "unit:Gradient.*")
expression(f, "tb.has(ta[i]) && (n.over & dim_bit(ta[i])) == 0", "tb.has(ta[i])", "unit:*")
expression(f, "from.set() == like.set()", "from.rank == 0 && like.rank == 0", "unit:*")
expression(f, "within(made_.loops, of, loop)", "true", "unit:Loops.*")
expression(f, "made_.nodes.size() >= no_node", "true") # every program is refused

# Layouts.
f = "layout/blocks.hpp"
expression(f, "(extent + parts - 1) / parts", "(extent + parts) / parts", "unit:Layouts.*")
expression(f, "dim.extent <= narrow", "true", "unit:Axes.*")
expression(f, "first + length < extent ? first + length : extent", "first + length", "unit:Layouts.*")
expression(f, "given->begins[index * (blocks / parts)]", "given->begins[index]", "unit:Layouts.*")
expression(f, "index < begin(parts, middle + 1)", "index <= begin(parts, middle + 1)", "unit:Layouts.*")
f = "layout/moved.hpp"
expression(f, "!axis_list::starts_with(have, want) && !axis_list::starts_with(want, have)", "false", "unit:Layouts.*")
expression(f, "to.continues(from) || from.continues(to)", "true", "unit:Layouts.*")
expression(f, "static_cast<std::int32_t>(sizes[a] - 1)", "0", "unit:Axes.*")
f = "layout/index_map.hpp"
expression(f, "to.size() - part + step - 1", "to.size() - part", "unit:IndexMaps.*")
expression(f, "(ahead + s - 1) / s", "ahead / s", "unit:IndexMaps.*")
expression(f, "residue(merged.back()) == residue(r)", "true", "unit:IndexMaps.*")
expression(f, "i < 0 ? 0 : i < extent ? i : extent - 1", "i < 0 ? 0 : i", "unit:*")
f = "layout/layout.hpp"
expression(f, "((word ^ other.word) & dims_mask) == 0", "true", "unit:Search.*")

# The plain evaluator and the simulator.
f = "simulate/evaluate.hpp"
expression(f, "n.exclusive ? before : total", "total")
expression(f, "l.backwards ? iterations - 1 - iteration : iteration", "iteration", "unit:Loops.*")
statement(f, "if (done) break;", "", "unit:Loops.*")
expression(f, "!a.has(out[i]) ? n : b.has(out[i]) ? batch : m", "!a.has(out[i]) ? n : m", "unit:Evaluate.*")
f = "simulate/simulate.hpp"
expression(f, "s.kind == step_kind::fold ? combined(s.combine, e, x, value.back()) : value.back()", "value.back()")
expression(f, "!std::ranges::equal(f->sent[d][k], memory_[d][memory_of(p_.buffers[s.in[k]])], same_bits)", "false", "unit:Simulate.*")
expression(f, "writer_[memory_of(out)] != nullptr", "false", "unit:Simulate.*")
f = "simulate/moves.hpp"
expression(f, "where_[d][a] == 0", "true")
expression(f, "agree_on(where_[source], where_[d], to_.where.unreduced())", "true")
expression(f, "have_[group[k]] != have_[group[0]]", "false", "unit:Simulate.*")
f = "program/verify.hpp"
expression(f, "m.memory[s.in.items[k]] == target && !works_in_place(s, k)", "false", "unit:Verify.*")
statement(f, "for (std::size_t k = 0; k < exchange.in.count; ++k)\n      if (target == m.memory[exchange.in.items[k]]) return false;", "", "unit:Verify.*")
# Changes nothing: where the exchange is waited for it finds something written.
expression(f, "target == m.memory[exchange.out]", "false", "unit:Verify.*")
expression(f, "p.steps[f].in_loop == s.in_loop", "false", "unit:Verify.*")
expression(f, "!detail::can_read(state, s.in.items[k])", "false", "unit:Verify.*")

# What users write.
f = "expr/movement.hpp"
expression(f, "detail::minus(last, first, step - 1)", "detail::minus(last, first, 0)", "unit:*")
expression(f, "with == 0 || !padded.ok()", "true", "unit:*")
expression(f, "inside & (place / step * step == place)", "inside", "unit:*")
expression(f, "select(index < middle, -exchanged, exchanged)", "exchanged", "unit:*")
f = "expr/random.hpp"
expression(f, "p.literal * all", "p.literal * all / 2", "unit:Random.*")
f = "expr/functions.hpp"
expression(f, "in.elementwise(op::equal, std::array{label, index}, labels.where, element::boolean, true)",
           "in.elementwise(op::less_equal, std::array{label, index}, labels.where, element::boolean, true)", "unit:*")
expression(f, "centred * rsqrt(mean(centred * centred, over) + epsilon)", "centred * rsqrt(mean(centred * centred, over))", "unit:*")
f = "expr/reductions.hpp"
expression(f, "off * off", "off", "unit:Reductions.*")
f = "expr/sort.hpp"
expression(f, "apply(op::logical_and, hit, apply(op::logical_not, taken))", "hit", "unit:Reductions.*")
expression(f, "op::equal", "op::less_equal", "unit:Gradient.*", 3)
f = "optim/adam.hpp"
expression(f, "(m / mean_weight)", "m", "unit:Optim.*")
expression(f, "root_of_squares(v / square_weight) + epsilon", "root_of_squares(v / square_weight + epsilon)", "unit:Optim.*")
expression(f, "averaged(beta1, state.mean_weight, 1)", "averaged(beta2, state.mean_weight, 1)", "unit:Optim.*")
expression(f, "wide - by * (direction + decay * wide)", "wide - by * direction", "unit:Optim.*")
expression(f, "decay * widened(average) + (1 - decay) * next", "decay * widened(average) + next", "unit:Optim.*")
f = "optim/sgd.hpp"
expression(f, "share * widened(v) + widened(g)", "share * widened(v) + (1 - share) * widened(g)", "unit:Optim.*")
f = "optim/clip.hpp"
expression(f, "select(fits, 1, most / select(fits, 1, norm))", "most / norm", "unit:Optim.*")
f = "optim/schedule.hpp"
expression(f, "detail::most(steps - warmup, 1)", "steps", "unit:Optim.*", 0)
expression(f, "from / detail::most(at, from)", "1 / detail::most(at, from)", "unit:Optim.*")
f = "optim/adafactor.hpp"
expression(f, "maximum(root_of_squares(l.length) / o.clip, 1)", "maximum(root_of_squares(l.length), 1)", "unit:Optim.*")
f = "optim/mixed.hpp"
expression(f, "minimum(state.scale * o.growth, o.most)", "state.scale * o.growth", "unit:Optim.*")

# The run time: collectives, exchanges, sorting, kernels, binding. What is bound is seen under MPI.
f = "comm/move.hpp"
expression(f, "same_along(t.axes, grid.here(), coordinates{})", "true", "mpi:*")
f = "program/move_scratch.hpp"
expression(f, "!nests(t.global.along(i), kept, t.to[i], sizes)", "false", "mpi:*")
f = "distributed/scan.hpp"
statement(f, "if (group_.rank == 0) fill_identity(out, elements_, element_, combine_);", "", "mpi:*")
f = "program/move_scratch.hpp"
expression(f, "c.contiguous() && in_shard == elements", "c.contiguous()", "mpi:*")
expression(f, "!dim.even(sizes.product(t.to[i]))", "false", "mpi:*")
expression(f, "turn % replicas_", "0", "mpi:*")
expression(f, "same_along(sharded_, owner, here_)", "false", "mpi:*")
f = "comm/operation.hpp"
expression(f, "from == into ? MPI_IN_PLACE : element_at(from, first, e)", "element_at(from, first, e)", "mpi:*")
f = "comm/reduce_scatter.hpp"
expression(f, "uniform && counts_.back() == counts_.front()", "true", "mpi:*")
expression(f, "pack_.blocks.offset(r) + done", "pack_.blocks.offset(r)", "mpi:*")
f = "comm/block_exchange.hpp"
expression(f, "uniform_ && elements_ == 0", "elements_ == 0", "mpi:*")
statement(f, "if (!unpack_.direct()) unpack_.run(arriving_, out_, element_);", "", "mpi:overlap.*")
f = "comm/move_in_flight.hpp"
expression(f, "r == ranks_.rank ? own : arriving_from(r)", "arriving_from(r)", "mpi:overlap.*")
statement(f, "if (first && out != own) copy_bytes(out, own, mine() * size());", "", "mpi:overlap.*")
statement(f, "if (mine != 0) first_.combine(in_, block);", "", "mpi:overlap.*")
expression(f, "2 + as_int(number % 32000)", "2", "mpi:overlap.*")
f = "comm/exchange.hpp"
expression(f, "filled[part] < all.elements", "false", "mpi:*")
expression(f, "(wanted.begin - region_range(map, block).begin) * stride[i]", "0", "mpi:*")
statement(f, "if (at_run_time_) follow(read_offsets(in));", "", "mpi:*")
f = "program/exchange_pieces.hpp"
expression(f, "s.along.from % step != unique.from % step", "false", "mpi:*")
expression(f, "count_of(once) < covered", "false", "mpi:*")
statement(f, "r.to += wanted.begin - mine_[d.to].begin;", "", "mpi:*")
f = "comm/box_messages.hpp"
statement(f, "for (const part& p : kept_) copy_box(p.copy, in[p.from], out_[p.to], size());", "", "mpi:*")
expression(f, "m.parts.size() == 1 && m.parts.front().copy.contiguous()", "m.parts.size() == 1", "mpi:*")
f = "distributed/row_lookup.hpp"
statement(f, "copy_rows(fetched_, as<T>(out), nullptr, asked.offsets, detail::packed_with(this->row_, 0, false), asked.rows());", "", "mpi:lookup.*")
statement(f, "fill_elements(sums, elements_, computed<T>{});", "", "mpi:lookup.*")
statement(f, "add(received + before * this->length(), named.offsets + before, named.rows() - before, sums);", "", "mpi:lookup.*")
f = "distributed/kept_routes.hpp"
expression(f, "!to_all && has(self, n)", "false", "mpi:lookup.*")
expression(f, "all_same && n == unchanged", "all_same", "mpi:lookup.*")
statement(f, "if (!to_all) break;", "", "mpi:lookup.*")
f = "distributed/scan.hpp"
expression(f, "combined<How, T>(before[slice], to[i])", "to[i]", "mpi:*")
expression(f, "exclusive ? before : total", "total", "mpi:*")
f = "distributed/sort.hpp"
expression(f, "tie ? index < cut_indices[i] : order(keys[at], cut_keys[i])", "order(keys[at], cut_keys[i])", "mpi:*")
expression(f, "cut_indices[i] == beyond_all ? length : low", "low", "mpi:*")
expression(f, "rank >= how_.extent || next == all.size()", "next == all.size()", "mpi:*")
f = "kernels/sort_slices.hpp"
expression(f, "!all.order(keys[b], keys[a]) && indices[a] < indices[b]", "false", "mpi:*")
f = "layout/box.hpp"
expression(f, "last >= 0 && c.from[last] == from[i] * extents[i] && c.to[last] == to[i] * extents[i]",
           "last >= 0 && c.from[last] == from[i] * extents[i]", "mpi:*")
f = "storage/box.hpp"
statement(f, "target -= to_stride[i] * extent[i];", "", "mpi:*")
f = "program/product_form.hpp"
expression(f, "s[i] != s[i + 1] * extent[i + 1]", "false", "mpi:*")
f = "kernels/gemm.hpp"
statement(f, "if (g.k == 0 && g.beta == 0) return zero_result(g, result, scratch);", "", "mpi:*")
statement(f, "next += rows[x]->size() * columns[x]->size();", "", "mpi:*")
f = "execute/arguments.hpp"
expression(f, "share_bytes(from, argument_bytes_[h.argument], to, aside_[h.result].bytes)", "false", "mpi:*")
expression(f, "x.type.rank != s.loop.rank || x.type.dims != s.loop.dims", "false", "mpi:*")
expression(f, "as<char>(outputs[last]) + aside_[last].bytes > as<char>(outputs[r])", "false", "mpi:*")
f = "execute/steps/loop.hpp"
expression(f, "backwards_ ? iterations - 1 - i : i", "i", "mpi:*")
statement(f, "if (until_.known() && until_.read(r) != 0) break;", "", "mpi:*")
f = "execute/steps/move.hpp"
statement(f, "length += bytes;", "", "mpi:*")
expression(f, "r.in_flight.remove(all_.get()) != 0", "false", "mpi:overlap.*")
statement(f, "if (const bucket_part& p = parts_[k]; !p.lives_there) copy_bytes(to_[k], bucket_ + p.offset, p.bytes);", "", "mpi:*")
f = "execute/steps/exchange.hpp"
statement(f, "if (!left_to_reader_ || r.checks != nullptr) r.steps[begun_]->finish(r);", "", "mpi:overlap.*")
f = "plan/workspace.hpp"
statement(f, "open.insert(open.begin() + static_cast<std::ptrdiff_t>(before), i);", "", "mpi:overlap.*")
f = "program/buckets.hpp"
statement(f, "if (!written) return false;", "", "mpi:*")
expression(f, "b.bytes + bytes > comm::bucket_bytes", "false", "mpi:*")
f = "execute/executor.hpp"
expression(f, "std::max(shared.memory, needs.memory)", "needs.memory", "mpi:*")
f = "plan/workspace.hpp"
expression(f, "std::max(slots[b.index], elements_of(b, p.maps, at, here) * size_of(b.type.element))",
           "elements_of(b, p.maps, at, here) * size_of(b.type.element)", "mpi:*")
expression(f, "b.form == form::view || b.form == form::slice", "false", "unit:Prices.*")
f = "checked/call_checks.hpp"
expression(f, "one == other", "true", "mpi:Checked.*")
expression(f, "as_signed(grid_.told(r)[0]) != number", "false", "mpi:Checked.*")
statement(f, "tell({});", "", "mpi:Checked.*", 0)

# Tables that the compiler alone reads.
f = "graph/op_list.hpp"
constant(f, "select(y == 0, 0, g * (y * pow(x, select(y == 0, 1, y - 1))))", "g * y * pow(x, y - 1)", "unit:Gradient.*")
constant(f, "g * r * log(select(x == 0, 1, x))", "g * r * log(x)", "unit:Gradient.*")
constant(f, "select(x == y, 0.5 * g, select(x > y, g, 0)), select(x == y, 0.5 * g, select(y > x, g, 0)))",
         "select(x == y, g, select(x > y, g, 0)), select(x == y, 0.5 * g, select(y > x, g, 0)))", "unit:Gradient.*")
constant(f, "select(x == y, 0.5 * g, select(y > x, g, 0)), select(x == y, 0.5 * g, select(x > y, g, 0)))",
         "select(x == y, 0.5 * g, select(y > x, g, 0)), select(x == y, 0, select(x > y, g, 0)))", "unit:Gradient.*")
constant(f, "select(x == 0, 0, g * sign(x))", "g * sign(x)", "unit:Accuracy.*")
constant(f, "select(r > 0, g, 0)", "select(r == 0, 0, g * 0.5)", "unit:Gradient.*")
constant(f, "1.1283791670955126", "1.1283", "unit:Gradient.*")
constant(f, "CLEAVE_OP(reduce, reduction, 1, unary)", "CLEAVE_OP(reduce, reduction, 1, none)", "oracle")
constant(f, 'CLEAVE_INFIX(sub, "-", difference,', 'CLEAVE_INFIX(sub, "-", joint,', "unit:Recording.*")
f = "ops/formula.hpp"
constant(f, "take(6 * scale * cubic)", "take(2 * scale * cubic)", "unit:Gradient.*")
f = "rules/contraction.hpp"
constant(f, "    .propagates_late = true,\n", "", "unit:Complete.*")
f = "rules/remap.hpp"
constant(f, "    .whole_dims = &windows_of,\n", "", "fuzz")
f = "rules/cumulative.hpp"
constant(f, "    .moves = &moves_of_cumulative,\n", "", "fuzz")
