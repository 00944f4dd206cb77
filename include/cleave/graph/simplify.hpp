// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/compose_maps.hpp>
#include <cleave/graph/constants.hpp>
#include <cleave/graph/order.hpp>
#include <cleave/graph/permutes.hpp>

#include <bit>
#include <optional>
#include <type_traits>

namespace cleave { inline namespace v0 {

namespace detail {

/// Whether two nodes call the same kernel. Under its sanitizers g++ cannot compare the addresses of two kernels while
/// compiling; that of one with itself it can.
constexpr bool same_kernel(const user_entry* a, const user_entry* b) {
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
  if (std::is_constant_evaluated() && !__builtin_constant_p(a == b)) return false;
#endif
  return a == b;
}
constexpr bool same_operation(const node& a, const node& b, const indexed_vector<dim_map>& maps) {
  // By their bits: 0 and -0 are two numbers.
  if (a.code != b.code || std::bit_cast<std::uint64_t>(a.scalar) != std::bit_cast<std::uint64_t>(b.scalar) ||
      a.arity != b.arity || a.maps != b.maps || a.halos != b.halos || a.loop != b.loop)
    return false;
  for (int k = 0; k < a.arity; ++k)
    if (a.in.items[k] != b.in.items[k]) return false;
  for (std::uint8_t m = 0; m < a.maps; ++m)
    if (!(maps[a.first_map + m] == maps[b.first_map + m])) return false;
  for (std::uint8_t m = 0; m < a.halos; ++m)
    if (!(maps[a.first_halo + m] == maps[b.first_halo + m])) return false;
  return a.type == b.type && a.over.word == b.over.word && a.combine == b.combine && a.which == b.which &&
         a.pin.word == b.pin.word && a.pinned == b.pinned && same_kernel(a.user, b.user) && a.local == b.local &&
         a.backwards == b.backwards && a.exclusive == b.exclusive && a.of == b.of;
}

constexpr std::uint64_t hash_of(const node& n) {
  constexpr std::uint64_t prime = 0x100000001b3u;
  std::uint64_t h = static_cast<std::uint64_t>(n.code) * 0x9e3779b97f4a7c15u;
  for (int k = 0; k < n.arity; ++k) h = (h ^ n.in.items[k]) * prime;
  h = (h ^ n.over.word) * prime;
  for (int i = 0; i < 3; ++i) h = (h ^ n.which.items[i]) * prime;
  for (int i = 0; i < n.type.rank; ++i) h = (h ^ (n.type.dims.items[i] + 1u)) * prime;
  return h ^ (h >> 29);
}

/// The labels and the dim of the classes of a one-hot form; no labels if the value is none.
struct one_hot_form {
  node_id labels = no_node;
  dim_id classes = no_dim;
  /// See `labels_are_indices`.
  double checks = 0;
};
constexpr one_hot_form one_hot_of(const graph& g, node_id v) {
  const node& hot = g.nodes[v];
  if (hot.code != op::cast || is_complex(hot.type.element) || g.nodes[hot.in[0]].code != op::equal) return {};
  const node& hit = g.nodes[hot.in[0]];
  for (std::size_t k = 0; k < 2; ++k) {
    const node &index = g.nodes[hit.in[1 - k]], &labels = g.nodes[hit.in[k]];
    if (index.code != op::iota || is_floating(labels.type.element) || labels.type.has(index.which[0])) continue;
    if (hit.type.rank == labels.type.rank + 1 && (labels.type.set() | dim_bit(index.which[0])) == hit.type.set())
      return {hit.in[k], index.which[0], hit.scalar};
  }
  return {};
}
/// A product with a one-hot form is a look-up, or a sum of rows at indices: nothing of the size of the one-hot form is
/// made or moved.
constexpr bool without_one_hot(const graph& g, node& n) {
  if (n.code != op::dot) return false;
  for (std::size_t k = 0; k < 2; ++k) {
    const one_hot_form form = one_hot_of(g, n.in[k]);
    if (form.labels == no_node) continue;
    const node_id other = n.in[1 - k];
    const dim_set labels = g.nodes[form.labels].type.set(), rows = g.nodes[other].type.set(),
                  classes = dim_bit(form.classes);
    const bool looks_up = n.over == classes && (rows & classes) != 0;
    const bool adds_up = n.over == labels && n.over != 0 && (rows & classes) == 0 && (rows & labels) == labels;
    if (!looks_up && !adds_up) continue;
    n.code = looks_up ? op::gather : op::scatter_add;
    if (looks_up) n.over = 0;
    n.which[0] = form.classes;
    n.in[0] = other;
    n.in[1] = form.labels;
    n.scalar = form.checks;
    return true;
  }
  return false;
}

/// The operand that an elementwise operation returns unchanged: of a product with 1, a quotient by 1, a difference from
/// 0, a choice between a value and itself, a conjugate of real numbers. A sum with 0 is none: it makes 0 of -0. None in
/// a loop: the next value of a carry is computed anew in every iteration.
constexpr std::optional<std::size_t> unchanged_operand(const graph& g, const node& n) {
  if (n.loop != 0) return std::nullopt;
  const auto unchanged = [&](std::size_t k, double number) {
    return g.nodes[n.in[k]].type == n.type && is_the_number(g, n.in[1 - k], number);
  };
  switch (n.code) {
    case op::conj: return is_complex(n.type.element) ? std::nullopt : std::optional<std::size_t>(0);
    case op::mul:
      if (unchanged(1, 1)) return 1;
      [[fallthrough]];
    case op::div: return unchanged(0, 1) ? std::optional<std::size_t>(0) : std::nullopt;
    case op::select:
      return n.in[1] == n.in[2] && g.nodes[n.in[1]].type == n.type ? std::optional<std::size_t>(1) : std::nullopt;
    case op::sub: return unchanged(0, 0) ? std::optional<std::size_t>(0) : std::nullopt;
    default: return std::nullopt;
  }
}
/// Makes a choice between a value and itself that value, along the dims of the predicate too.
constexpr bool chooses_one_value(const graph& g, node& n) {
  if (n.code != op::select || n.loop != 0 || n.in[1] != n.in[2]) return false;
  n.code = g.nodes[n.in[1]].type.rank < n.type.rank ? op::broadcast : op::cast;
  n.in[0] = n.in[1];
  n.in[1] = n.in[2] = no_node;
  n.arity = 1;
  return true;
}
/// Whether an operation only changes the dims along which a broadcast repeats its operand: a view or a remap along dims
/// that the operand of the broadcast lacks, in which nothing comes from outside, or from the other end of the same dim:
/// an empty dim would have no other end.
constexpr bool repeats_the_same(const graph& g, const node& n) {
  if (n.arity != 1 || n.pinned != 0 || g.nodes[n.in[0]].code != op::broadcast) return false;
  const bool view = n.code == op::rename || n.code == op::split || n.code == op::merge;
  if (!view && n.maps == 0) return false;
  const tensor_type& repeated = g.nodes[g.nodes[n.in[0]].in[0]].type;
  for (const dim_map& m : maps_of(g, n))
    if (m.at_run_time != 0 || (!stays_inside(g, m) && (m.outside == border::zero || m.from != m.to || m.divisor != 1)))
      return false;
  for (int i = 0; i < repeated.rank; ++i)
    if (!n.type.has(repeated[i])) return false;
  // The other dims of the operand are those that it had before.
  for (const dim_map& m : maps_of(g, n))
    if (repeated.has(m.from) || repeated.has(m.to) || (m.window != no_dim && repeated.has(m.window))) return false;
  for (int k = 0; view && k < 3; ++k)
    if (n.which[k] != no_dim && repeated.has(n.which[k])) return false;
  return true;
}
/// Makes such an operation a broadcast to its own dims.
constexpr void repeat_the_same(const graph& g, node& n) {
  node made = g.nodes[n.in[0]];
  made.type = n.type;
  made.where = n.where;
  made.origin = n.origin;
  made.gradient = n.gradient;
  made.loop = n.loop;
  n = made;
}
/// Whether the result of an operation is its first operand.
constexpr bool gives_its_operand(const graph& g, const node& n) {
  if (n.maps != 0) return permutes(g, n) && std::ranges::all_of(maps_of(g, n), is_identity);
  return runs_over_one(g, n) && !n.exclusive && n.arity == 1 && n.type == g.nodes[n.in[0]].type;
}

/// Whether a product sums over all dims of both operands, in the same order.
constexpr bool is_inner_product(const graph& g, const node& n) {
  if (n.code != op::dot || n.over == 0 || n.type.rank != 0) return false;
  return g.nodes[n.in[0]].type == g.nodes[n.in[1]].type;
}
/// Appends the products of the elements, whose sum the inner product becomes: it is fused with the producers of its
/// operands, and runs in bands with their other readers.
constexpr void become_sum(graph& to, node& n) {
  node products;
  products.code = op::mul;
  products.type = to.nodes[n.in[0]].type;
  products.arity = 2;
  products.in = n.in;
  products.where = n.where;
  products.origin = n.origin;
  products.gradient = n.gradient;
  products.loop = n.loop;
  n.code = op::reduce;
  n.combine = reduction::sum;
  n.arity = 1;
  n.in[0] = narrowed(to.nodes.size());
  n.in[1] = no_node;
  to.nodes.push_back(products);
}

/// Writes an operation as two, of which the first is appended: as a constant that is broadcast, as a reduction whose
/// result is permuted, as a product that is summed. Whether it is one of these.
constexpr bool becomes_two(graph& to, const graph& from, node_id permutation, dim_set empty, dim_set ones, node& n) {
  if (const auto number = same_everywhere(to, n, empty, ones)) become_constant(to, n, *number);
  else if (is_inner_product(to, n)) become_sum(to, n);
  else return permutation != no_node && n.code == op::reduce && permute_reduced(to, from, from.nodes[permutation], n);
  return true;
}

/// The slot of an equal operation in a table of hashes, or the free slot for this one.
constexpr std::size_t slot_of(const node& n, const node_id* table, std::size_t buckets, const node* kept,
                              const indexed_vector<dim_map>& maps) {
  std::size_t slot = hash_of(n) & (buckets - 1);
  while (table[slot] != no_node && !same_operation(kept[table[slot]], n, maps)) slot = (slot + 1) & (buckets - 1);
  return slot;
}

/// The nodes that some result needs, and those without which the loops that run would not be themselves.
constexpr indexed_vector<std::uint8_t> live_nodes(const graph& from) {
  const std::size_t count = from.nodes.size();
  indexed_vector<std::uint8_t> found(count, 0);
  std::uint8_t* live = found.data();
  const node* nodes = from.nodes.data();
  for (node_id r : from.outputs) live[r] = 1;
  // The next value of a carry is recorded after it, so this visits loops until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    bool runs[max_loops + 1]{};
    for (std::size_t v = count; v-- > 0;) {
      const node& n = nodes[v];
      if (n.code == op::input) live[v] = 1;
      const bool follows = (n.code == op::loop_yield && live[n.in.items[1]] != 0) ||
                           (n.of != 0 && limits_loop(n.code) && runs[n.of]);
      if (follows && live[v] == 0) live[v] = 1, changed = true;
      if (!live[v]) continue;
      runs[n.loop] = true;
      for (int k = 0; k < n.arity; ++k) {
        const node_id u = n.in.items[k];
        changed = changed || (live[u] == 0 && nodes[u].code == op::carry);
        live[u] = 1;
      }
    }
    // A loop that runs makes those around it run.
    for (std::size_t l = from.loops.size(); l > 0; --l)
      runs[from.loops[l - 1].around] = runs[from.loops[l - 1].around] || runs[l];
    for (std::size_t v = 0; v < count; ++v)
      if (live[v] == 0 && limits_loop(nodes[v].code) && runs[nodes[v].of]) live[v] = 1, changed = true;
  }
  return found;
}

/// A graph with all but the nodes of another.
constexpr graph without_nodes(const graph& from) {
  graph to;
  to.mesh = from.mesh;
  to.dims = from.dims;
  to.rules = from.rules;
  to.maps = from.maps;
  to.loops = from.loops;
  to.outputs_pinned = from.outputs_pinned;
  to.output_layouts = from.output_layouts;
  to.output_types = from.output_types;
  to.found = from.found;
  return to;
}

} // namespace detail

/// The same computation without equal operations done twice, without operations that no result needs, without other
/// names for one value, and, unless `compose` is false, with remaps of remaps as one. Inputs stay, in order, used or
/// not.
constexpr graph simplify(const graph& recorded, bool compose = true, int again = 2) {
  graph arranged;
  if (!recorded.loops.empty()) arranged = ordered(recorded);
  const graph& from = recorded.loops.empty() ? recorded : arranged;
  bool rewritten = false;
  const dim_set empty = detail::dims_of_extent(from, 0), ones = detail::dims_of_extent(from, 1);
  const std::size_t count = from.nodes.size();
  const indexed_vector<std::uint8_t> live = detail::live_nodes(from);
  graph to = detail::without_nodes(from);
  to.nodes.reserve(count);
  const std::size_t buckets = std::bit_ceil(2 * count + 1);
  indexed_vector<std::uint8_t> readers;
  indexed_vector<node_id> of_hash(buckets, no_node), renamed(count, no_node);
  node_id *table = of_hash.data(), *now = renamed.data(), made = 0;
  const node *recorded_nodes = from.nodes.data(), *kept = to.nodes.data();
  const detail::later_permutations later(from, live, compose);
  const node_id* behind = later.behind.empty() ? nullptr : later.behind.data();
  const std::uint8_t* lives = live.data();
  for (std::size_t v = 0; v < count; ++v) {
    if (!lives[v]) continue;
    node n = recorded_nodes[v];
    const node_id permutation = behind != nullptr ? behind[v] : no_node;
    for (int k = 0; k < n.arity; ++k)
      if (node_id& u = n.in.items[k]; u == permutation) u = now[recorded_nodes[u].in.items[0]];
      else u = now[u];
    const bool restores = n.maps != 0 && permutation != no_node;
    if (restores || is_alias(n.code) || (n.pinned == 0 && constrains(n.code))) {
      now[v] = n.in.items[0];
      rewritten = rewritten || restores;
      if (n.computes_halo) to.nodes[now[v]].computes_halo = true;
      continue;
    }
    rewritten = (n.code == op::dot && detail::without_one_hot(to, n)) || rewritten;
    if (compose && n.maps != 0 && kept[n.in.items[0]].maps != 0) {
      if (readers.empty()) readers = detail::readers_in(from, live);
      if (detail::reads_alone(from, readers, v)) rewritten = detail::compose_remaps(to, n) || rewritten;
    }
    if (compose && n.maps != 0 && permutation == no_node &&
        detail::computes_elements[underlying(kept[n.in.items[0]].code)]) {
      if (readers.empty()) readers = detail::readers_in(from, live);
      if (const int passed = detail::operations_to_pass(from, readers, v); passed > 0) {
        to.nodes.reserve(to.nodes.size() + count - v + as_size(passed));
        detail::permute_earlier(to, from, now, v, passed, n);
        kept = to.nodes.data(), made = narrowed(to.nodes.size()), rewritten = true;
      }
    }
    if (compose && n.maps != 0 && detail::shifted_choice::chooses(kept[n.in.items[0]].code))
      if (detail::shifted_choice choice{to, n}; choice.applies()) {
        to.nodes.reserve(to.nodes.size() + count - v + choice.made);
        n = choice.at(n.in[0]);
        kept = to.nodes.data(), made = narrowed(to.nodes.size()), rewritten = true;
      }
    const bool runs = n.code == op::cumulative || n.code == op::sort;
    if ((n.maps != 0 || runs) && detail::gives_its_operand(to, n)) {
      now[v] = n.in.items[0];
      continue;
    }
    if (n.arity == 1 && kept[n.in.items[0]].code == op::broadcast && n.loop == kept[n.in.items[0]].loop &&
        detail::repeats_the_same(to, n)) {
      detail::repeat_the_same(to, n);
      rewritten = true;
    }
    if (ones.word != 0) detail::read_unreduced(to, n, ones);
    const bool two = n.arity == 2;
    const node_id first = n.in.items[0], second = n.in.items[1];
    const op left = two ? kept[first].code : op::input, right = two ? kept[second].code : op::input;
    if (n.code == op::conj || n.code == op::select ||
        (two && (left == op::broadcast || left == op::constant || right == op::broadcast || right == op::constant)))
      if (const auto k = detail::unchanged_operand(to, n)) {
        now[v] = n.in[*k];
        rewritten = true;
        continue;
      }
    rewritten = (n.code == op::select && detail::chooses_one_value(to, n)) || rewritten || permutation != no_node;
    const bool negative = left == op::neg || left == op::sub || right == op::neg || right == op::sub;
    const bool may_cancel = two && (first == second || (n.code == op::add && negative));
    if ((runs || n.code == op::dot || n.maps != 0 || may_cancel || permutation != no_node || empty.word != 0 ||
         ones.word != 0) &&
        detail::becomes_two(to, from, permutation == no_node || later.passes[v] != 0 ? no_node : permutation, empty,
                            ones, n)) {
      to.nodes.reserve(to.nodes.size() + count - v);
      kept = to.nodes.data(), made = narrowed(to.nodes.size()), rewritten = true;
    }
    const bool unique = n.code == op::input || n.code == op::carry;
    node_id none = no_node;
    node_id& known = unique ? none : table[detail::slot_of(n, table, buckets, kept, to.maps)];
    now[v] = known != no_node ? known : made;
    if (known != no_node) {
      if (n.computes_halo) to.nodes[known].computes_halo = true;
      continue;
    }
    known = made++;
    to.nodes.push_back(n);
  }
  for (node_id i : from.inputs) to.inputs.push_back(now[i]);
  for (node_id r : from.outputs) to.outputs.push_back(now[r]);
  // Nodes that only rewritten operations read are dead now. `again`: how often more operations may be rewritten after
  // others.
  if (rewritten && again > 0) return simplify(to, compose, again - 1);
  return to;
}

}} // namespace cleave::v0
