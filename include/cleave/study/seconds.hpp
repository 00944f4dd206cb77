// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/plan/price.hpp>
#include <cleave/study/device_memory.hpp>
#include <cleave/study/machine.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 {

/// The time of a plan on a machine, in seconds, and how it is spent on the busiest device.
struct prediction {
  /// From the first step to the last: the longer of computation and communication, with overlapping work counted once.
  double seconds = 0;
  /// Products, and the other passes over memory.
  double products = 0, passes = 0;
  /// Collectives, and the part of them during which the device computes nothing.
  double network = 0, exposed = 0;
  /// Operations of products, bytes through memory, and bytes that the device receives.
  double flops = 0, memory_bytes = 0, network_bytes = 0;
  /// The seconds that the products would take at the peak rate of their element types.
  double at_peak = 0;

  /// The part of the machine's peak that the products reach over the whole time, repeated work included.
  constexpr double utilization() const { return at_peak / seconds; }
};

/// A step on one of the two queues of a device: of computation, or of the network. Times are those of the first
/// iteration of the loops around it, in seconds from the beginning of the call.
struct timed_step {
  std::size_t step = 0;
  bool network = false;
  double begin = 0, end = 0;
  /// How often the step runs; and the seconds of all iterations during which the device only waits for it.
  double times = 1, exposed = 0;
};

namespace detail {

/// The average number of wires that an element of an all-to-all crosses, divided by the number of wires that work at
/// once: 1 for a crossbar, n / 4 for a ring of n, and a torus of k axes is k rings of the k-th root of n.
constexpr double crossings(const link& l, double devices) {
  if (l.shape == wiring::crossbar) return 1;
  double side = devices;
  if (const int k = l.shape == wiring::torus ? l.torus_axes : 1; k > 1) {
    // The k-th root by halving: constant evaluation has no pow.
    double low = 1, high = devices;
    for (int i = 0; i < 64; ++i) {
      const double middle = (low + high) / 2;
      double power = 1;
      for (int j = 0; j < k; ++j) power *= middle;
      (power < devices ? low : high) = middle;
    }
    side = high * k;
  }
  return std::max(1.0, side / 4);
}

/// The seconds of a collective along one axis. `bytes`: those that the busiest device receives.
constexpr double seconds_along(const link& l, kind what, double bytes, std::int64_t messages, std::int64_t devices) {
  const auto n = static_cast<double>(devices);
  const double crossed = what == kind::all_to_all ? crossings(l, n) : 1;
  // Messages to many devices are sent at once: a device waits as long as for a tree.
  const auto rounds = static_cast<double>(std::min(messages, 2 * collectives::rounds(devices)));
  if (l.near == 0 || devices <= l.near) return bytes * crossed / l.bandwidth + rounds * l.latency;
  const auto near = static_cast<double>(l.near), groups = n / near;
  // A halo or a shift crosses the edge of a group on some device.
  double slow = 1, fast = 0;
  if (what == kind::all_to_all) {
    slow = (n - near) / (n - 1);
    fast = (near - 1) / (n - 1);
  } else if (what == kind::all_gather || what == kind::reduce_scatter || what == kind::all_reduce) {
    // In two stages: between groups, each device a part of its group's; then within the group.
    slow = (groups - 1) / groups / near * n / (n - 1);
    fast = (near - 1) / near * n / (n - 1);
  }
  return bytes * slow / l.far_bandwidth + bytes * fast * crossed / l.bandwidth + rounds * (l.latency + l.far_latency);
}

/// The seconds of one collective, with those that share its messages: its slowest axis decides. 0: the step does not
/// communicate, or shares the messages of another.
constexpr double seconds_of_collective(const program_view& p, const step& s, const sizes& at, const machine& m) {
  if (s.move == kind::none || !words_of(s.move).communicates || s.joined) return 0;
  const std::size_t first = as_size(&s - p.steps.data()), end = end_of_joined(p.steps, first);
  double most = 0;
  std::int64_t apart = 1; // neighbours along the axis
  for (int a = p.mesh.size(); a-- > 0; apart *= at.axes[a]) {
    cost along{};
    for (std::size_t i = first; i < end && at.axes[a] > 1; ++i) {
      if (!p.steps[i].axes.contains(a)) continue;
      const cost c = step_cost(p, p.steps[i], at);
      along.bytes += c.bytes;
      along.messages = std::max(along.messages, c.messages);
    }
    if (along.bytes > 0)
      most = std::max(most, seconds_along(m.link_of(p.mesh.axes[a].name, apart), s.move,
                                          static_cast<double>(along.bytes), along.messages, at.axes[a]));
  }
  return most;
}

/// The extent of a product's dims on a device.
constexpr double local_extent(const program_view& p, const step& s, const tensor_type& dims, const sizes& at) {
  double n = 1;
  for (int i = 0; i < dims.rank; ++i)
    for (std::uint16_t b : {s.in[0], s.in[1], s.out}) {
      const buffer& f = p.buffers[b];
      const int position = f.type.find(dims[i]);
      if (position < 0) continue;
      const std::int64_t parts = at.axes.product(f.where[position]);
      n *= as_double(at.along(dims[i]).longest(parts));
      break;
    }
  return n;
}

/// Values that a kernel of fused attention never stores: results of products that are larger than both operands, and
/// contract few features, and all values that have the same dims, such as their exponentials and cotangents.
constexpr indexed_vector<bool> values_on_chip(const program_view& p, const sizes& at, const machine& m) {
  indexed_vector<bool> all(p.buffers.size(), false);
  if (m.fused_features == 0) return all;
  const auto elements = [&](std::uint16_t b) { return largest_elements(p.buffers[b], p.maps, at); };
  for (const step& s : p.steps) {
    if (s.kind != step_kind::gemm || local_extent(p, s, s.k, at) > static_cast<double>(m.fused_features)) continue;
    if (elements(s.out) <= std::max(elements(s.in[0]), elements(s.in[1]))) continue;
    const dim_set scores = p.buffers[s.out].type.set();
    for (std::size_t b = 0; b < p.buffers.size(); ++b)
      all[b] = all[b] || (p.buffers[b].role == role::workspace && p.buffers[b].type.set().includes(scores));
  }
  for (const step& s : p.steps)
    if (s.kind == step_kind::gemm && !m.fused_products) all[s.in[0]] = all[s.in[1]] = all[s.out] = false;
  return all;
}

/// The bytes that steps save on a machine that reads and adds to entries of tables in place: of copies of one entry, of
/// passes that add to carried sums, and of the steps that make a table of one entry for them.
constexpr indexed_vector<double> bytes_saved_in_place(const program_view& p, const sizes& at, const machine& m) {
  indexed_vector<double> saved(p.steps.size(), 0.0);
  if (m.sums == sums_in_loops::in_passes) return saved;
  indexed_vector<int> readers(p.buffers.size(), 0), made_by(p.buffers.size(), -1);
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    for (const std::uint16_t b : p.steps[i].in) ++readers[b];
    made_by[p.steps[i].out] = static_cast<int>(i);
  }
  const auto bytes_of = [&](const step& s) {
    const pass_bytes b = bytes_of_pass(p, s, at);
    return static_cast<double>(b.read) + static_cast<double>(b.written);
  };
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const step& s = p.steps[i];
    if (s.kind == step_kind::gather && s.move == kind::none && largest_elements(p.buffers[s.in[1]], p.maps, at) == 1)
      saved[i] = bytes_of(s);
    if (s.kind != step_kind::map || s.code != op::loop_yield || is_in_pass(s)) continue;
    if (s.in.size() == 1 && p.buffers[s.out].form == form::slice && m.sums == sums_in_loops::in_products &&
        made_by[s.in[0]] >= 0 && readers[s.in[0]] == 1 && p.steps[as_size(made_by[s.in[0]])].kind == step_kind::gemm)
      saved[i] = bytes_of(s);
    if (s.in.size() != 2) continue;
    const auto adds = [](const fused_op& o) { return o.code == op::input || entry_of(o.code).sums != linearity::none; };
    const auto ops = fused_ops_of(p, s);
    if (!std::all_of(ops.begin(), ops.end(), adds)) continue;
    for (const int k : {0, 1}) {
      const buffer &sum = p.buffers[s.in[k]], &out = p.buffers[s.out];
      const std::uint16_t added = s.in[1 - k];
      if (sum.role != out.role || sum.index != out.index || sum.form != form::shard || readers[s.in[k]] != 1) continue;
      const step* of = made_by[added] < 0 || readers[added] != 1 ? nullptr : &p.steps[as_size(made_by[added])];
      if (of != nullptr && of->kind == step_kind::scatter && of->move == kind::none) {
        const buffer& entry = p.buffers[of->in[0]];
        saved[as_size(made_by[added])] = bytes_of(*of);
        saved[i] = bytes_of(s) -
                   3 * static_cast<double>(largest_elements(entry, p.maps, at) * size_of(entry.type.element));
      }
      if (m.sums == sums_in_loops::in_products) saved[i] = bytes_of(s);
      break;
    }
  }
  return saved;
}

/// Runs the steps of a plan on two clocks, of computation and of communication. An iteration of a loop stands for all.
class clocks {
 public:
  constexpr clocks(const program_view& p, const sizes& at, const machine& m)
      : p_(p), at_(at), m_(m), done_(p.steps.size(), 0.0), exposed_(p.steps.size(), 0.0),
        on_chip_(values_on_chip(p, at, m)), saved_(bytes_saved_in_place(p, at, m)) {
    frames_.push_back({});
    frames_[0].quiet = false;
    for (std::size_t i = 0; i < p.steps.size(); ++i) advance(i);
    all_.seconds = std::max({frames_[0].compute, frames_[0].network, frames_[0].issued});
  }
  constexpr const prediction& result() const { return all_; }
  /// In the order of the steps.
  constexpr indexed_vector<timed_step> timeline() const {
    indexed_vector<timed_step> all = queued_;
    for (timed_step& t : all)
      if (t.network) t.exposed = exposed_[t.step];
    return all;
  }

 private:
  struct frame {
    double compute = 0, network = 0, begin = 0;
    /// Waits in the first iteration alone, for moves that began before the loop.
    double once = 0;
    double times = 1;
    /// The seconds of the host in one iteration.
    double issued = 0;
    /// No collective began in it so far.
    bool quiet = true;
  };

  constexpr double iterations() const {
    double n = 1;
    for (const frame& f : frames_) n *= f.times;
    return n;
  }
  constexpr void advance(std::size_t i) {
    const step& s = p_.steps[i];
    switch (s.kind) {
      case step_kind::loop_begin: enter(s); return;
      case step_kind::loop_end: leave(); return;
      case step_kind::wait: wait_for(s); return;
      default: run(i);
    }
  }
  constexpr void enter(const step& s) {
    const loop_info& l = p_.loops[s.in_loop - 1u];
    frame f;
    f.compute = f.begin = frames_.back().compute;
    f.network = frames_.back().network;
    f.times = static_cast<double>(l.along != no_dim ? at_[l.along] : l.iterations);
    frames_.push_back(f);
  }
  constexpr void leave() {
    const frame f = frames_.back();
    frames_.pop_back();
    const double one = std::max(f.compute - f.begin - f.once, f.issued);
    frames_.back().compute += f.once + f.times * one;
    frames_.back().issued += f.times * f.issued;
    // A move in flight at the end of an iteration ends in the next one.
    frames_.back().network = f.network + (f.times - 1) * one;
  }
  constexpr void wait_for(const step& s) {
    frame& f = frames_.back();
    const double until = done_[s.begun];
    if (until <= f.compute) return;
    const bool began_outside = p_.steps[s.begun].in_loop != s.in_loop;
    expose(s.begun, (began_outside ? iterations() / f.times : iterations()) * (until - f.compute));
    if (began_outside) f.once += until - f.compute;
    f.compute = until;
  }
  constexpr double network_seconds(const step& s) {
    const double seconds = seconds_of_collective(p_, s, at_, m_);
    if (s.move != kind::none) all_.network_bytes += iterations() * static_cast<double>(step_bytes(p_, s, at_));
    all_.network += iterations() * seconds;
    return seconds;
  }
  /// Bytes of arrays that a step reads and writes, of those that go through memory.
  constexpr double memory_bytes(const step& s) const {
    const pass_bytes b = bytes_of_pass(p_, s, at_);
    double bytes = static_cast<double>(b.read) + static_cast<double>(b.written) - saved_[as_size(&s - p_.steps.data())];
    const auto leave_out = [&](std::uint16_t array) {
      const buffer& of = p_.buffers[array];
      if (on_chip_[array]) bytes -= static_cast<double>(largest_elements(of, p_.maps, at_) * size_of(of.type.element));
    };
    leave_out(s.out);
    if (b.read > 0)
      for (std::uint16_t array : arrays_read(p_, s)) leave_out(array);
    return std::max(bytes, 0.0);
  }
  constexpr double local_seconds(const step& s, bool communicates) {
    const double bytes = memory_bytes(s);
    if (s.kind == step_kind::gemm) {
      const auto flops = static_cast<double>(pricing_of(s.kind).most_flops.call(placed(p_, s), at_));
      const double width = std::min(
          {local_extent(p_, s, s.m, at_), local_extent(p_, s, s.n, at_), local_extent(p_, s, s.k, at_)});
      // Fused attention has 16-bit operands, and casts the values that it keeps on the chip.
      const bool fused = on_chip_[s.out] || on_chip_[s.in[0]] || on_chip_[s.in[1]];
      const element e = fused ? element::bf16 : p_.buffers[s.in[0]].type.element;
      const double rate = fused && m_.fused_efficiency > 0
                              ? m_.peak(e) * m_.fused_efficiency
                              : m_.product_rate(e, width, local_extent(p_, s, s.batch, at_) > 1);
      const double seconds = std::max(flops / rate, bytes / m_.memory_rate()) + m_.launch;
      all_.flops += iterations() * flops;
      all_.at_peak += iterations() * flops / m_.peak(e);
      all_.memory_bytes += iterations() * bytes;
      all_.products += iterations() * seconds;
      return seconds;
    }
    // A collective's own copies are part of its rate.
    const bool moves = s.kind == step_kind::move || s.kind == step_kind::exchange;
    if (moves && (communicates || s.move == kind::none)) return 0;
    const double seconds = bytes / m_.memory_rate() + (is_in_pass(s) ? 0 : m_.launch);
    all_.memory_bytes += iterations() * bytes;
    all_.passes += iterations() * seconds;
    return seconds;
  }
  constexpr void expose(std::size_t i, double seconds) {
    all_.exposed += seconds;
    exposed_[i] += seconds;
  }
  /// The first collective in a loop follows moves that began before the loop: only the first iteration waits for them.
  constexpr void begin_network(std::size_t i) {
    frame& f = frames_.back();
    const double until = std::max(f.compute, f.network), waits = f.quiet ? until - f.compute : 0;
    double times = iterations();
    for (std::size_t k = frames_.size(); k-- > 0 && frames_[k].quiet;) {
      frames_[k].once += waits;
      times /= frames_[k].times;
    }
    for (frame& any : frames_) any.quiet = false;
    f.compute += waits;
    if (waits > 0) expose(i, times * waits);
  }
  constexpr void queue(std::size_t i, bool network, double begin, double seconds) {
    if (seconds > 0) queued_.push_back({i, network, begin, begin + seconds, iterations()});
  }
  constexpr void run(std::size_t i) {
    const step& s = p_.steps[i];
    const double network = network_seconds(s), work = local_seconds(s, network > 0), n = iterations();
    frame& f = frames_.back();
    if ((network > 0 || work > 0) && !is_in_pass(s)) f.issued += m_.issue;
    if (network > 0) begin_network(i);
    const auto follows = [&](std::size_t first) {
      return m_.overlaps && first + 1 < p_.steps.size() && go_together(p_.steps[first], p_.steps[first + 1]);
    };
    if (network > 0) {
      const double begin = std::max(f.compute, f.network);
      queue(i, true, begin, network);
      if (s.in_flight && m_.overlaps) {
        done_[i] = f.network = begin + network;
      } else if (s.kind == step_kind::move && s.pieces != 0 && follows(i)) {
        // The product behind it begins when the first piece is there.
        done_[i] = f.network = begin + network;
        f.compute += network / s.pieces;
        expose(i, n * network / s.pieces);
      } else if (s.kind == step_kind::move && s.pieces != 0 && i > 0 && follows(i - 1)) {
        // It scatters the result of the product before it; the last piece is left.
        f.compute += network / s.pieces;
        f.network = std::max(f.network, f.compute);
        expose(i, n * network / s.pieces);
      } else {
        expose(i, n * (begin + network - f.compute));
        f.network = begin + network;
        queue(i, false, f.network, work);
        f.compute = f.network + work;
      }
      return;
    }
    queue(i, false, f.compute, work);
    f.compute += work;
    if (s.kind == step_kind::gemm && s.pieces != 0 && i > 0 && follows(i - 1) && done_[i - 1] > f.compute) {
      expose(i - 1, n * (done_[i - 1] - f.compute));
      f.compute = done_[i - 1];
    }
  }

  const program_view& p_;
  const sizes& at_;
  const machine& m_;
  prediction all_{};
  indexed_vector<frame> frames_{};
  /// When the moves in flight are over; and how long each step was waited for.
  indexed_vector<double> done_, exposed_;
  indexed_vector<bool> on_chip_;
  indexed_vector<double> saved_;
  indexed_vector<timed_step> queued_{};
};

} // namespace detail

/// Predicts how long a plan takes on a machine, from the work of each step on the busiest device: products at the
/// machine's rate for their shape, other passes at the rate of its memory, collectives at the rates of their axes.
constexpr prediction predict(const program_view& p, const sizes& at, const machine& m) {
  return detail::clocks(p, at, m).result();
}
/// The steps of the prediction, each on its queue.
constexpr indexed_vector<timed_step> timeline(const program_view& p, const sizes& at, const machine& m) {
  return detail::clocks(p, at, m).timeline();
}
/// The same for a compiled plan, with sizes by name: `predict(plan, machines::a100, {batch = 512, data = 8})`.
template <class Plan, class Verdict>
constexpr prediction predict(const planned<Plan, Verdict>& plan, const machine& m,
                             std::initializer_list<named_size> named = {}) {
  return predict(plan.view(), plan.sized(named), m);
}

/// Whether equally cheap layouts, of which none is natural, are an error or the first one is taken.
enum class ties : std::uint8_t { refused, broken };
/// Plans for the rates of a machine instead of the default ones: `with(f, for_machine<cluster>{})`, where `cluster` is
/// a constant of namespace scope.
template <const machine& Machine, ties Ties = ties::refused>
struct for_machine : option_tag {
  static constexpr policy rule = [] {
    policy p = policy_of(Machine);
    p.takes_ties = Ties == ties::broken;
    return p;
  }();
};

/// Bytes of a device's memory by their use.
struct memory_parts {
  std::int64_t arguments = 0, results = 0;
  workspace_parts workspace{};

  /// `donated`: results take the memory of arguments, as an updated state does.
  constexpr std::int64_t total(bool donated = true) const {
    return (donated ? std::max(arguments, results) : arguments + results) + workspace.total();
  }
};
namespace detail {
/// The arguments and the results of a plan on the device that needs most.
constexpr memory_parts memory_of_call(const program_view& p, const sizes& at) {
  memory_parts m;
  // A result may be a buffer of several values, one after the other.
  indexed_vector<std::int64_t> results;
  for (const buffer& b : p.buffers) {
    if (b.form != form::shard) continue;
    const std::int64_t bytes = largest_elements(b, p.maps, at) * size_of(b.type.element);
    if (b.role == role::input) m.arguments += bytes;
    if (b.role != role::output) continue;
    if (results.size() <= b.index) results.resize(b.index + std::size_t{1}, 0);
    results[b.index] = std::max(results[b.index], bytes);
  }
  for (const std::int64_t bytes : results) m.results += bytes;
  return m;
}
} // namespace detail

/// The sizes of a plan whose pipelines keep only the microbatches in flight: with one forward and one backward pass in
/// turn (1F1B; Narayanan et al. 2021, arXiv 2104.04473, section 2.2), the first of p stages has p of them before the
/// first gradient; with v rounds, it has passed p * v + p - 1 parts of a stage (Korthikanti et al. 2022, arXiv
/// 2205.05198, section 4.2.3). The time is that of the plan: it has as many ticks.
constexpr sizes sizes_in_flight(const program_view& p, const sizes& at) {
  sizes in_flight = at;
  for (const derived_extent& rule : p.rules.derived) {
    const auto loop = std::find_if(p.loops.begin(), p.loops.end(),
                                   [&](const loop_info& l) { return l.along == rule.dim; });
    if (loop == p.loops.end() || rule.divisor != 1 || rule.sum.constant != -1 || rule.sum.terms.size() != 2) continue;
    // A tick has a microbatch for each stage: values of all ticks have the stages in place of the microbatches.
    const auto with_ticks = [&](dim_id d) {
      return std::any_of(p.buffers.begin(), p.buffers.end(),
                         [&](const buffer& b) { return b.type.has(rule.dim) && b.type.has(d); });
    };
    for (int first : {0, 1}) {
      const auto microbatches = rule.sum.terms[as_size(first)], stages = rule.sum.terms[as_size(1 - first)];
      if (stages.times != 1 || with_ticks(microbatches.dim) || !with_ticks(stages.dim)) continue;
      const std::int64_t all = at[microbatches.dim], n = at[stages.dim], rounds = microbatches.times;
      in_flight.dims[microbatches.dim] = std::min(all, n);
      in_flight.dims[rule.dim] = rounds == 1 ? std::min(all, n) : std::min(all * rounds, n * rounds + n - 1);
    }
  }
  return in_flight;
}
/// Whether `memory_of` is exact. It is not if so many devices differ that some stand for others, and those may need
/// more: with kernels that ask for memory, with exchanges between blocks that do not advance together, and with general
/// moves of blocks that do not nest, on more than 512 devices.
constexpr bool memory_is_exact(const program_view& p, const sizes& at) { return find_workspace(p, at).exact; }
/// The memory of a plan on the device that needs most.
constexpr memory_parts memory_of(const program_view& p, const sizes& at) {
  memory_parts m = detail::memory_of_call(p, at);
  m.workspace = find_workspace(p, at).parts;
  return m;
}
/// The same, if its pipelines keep only the microbatches in flight, each of which is made in the first stage and
/// consumed in the last one.
constexpr memory_parts memory_in_flight(const program_view& p, const sizes& at) {
  memory_parts m = detail::memory_of_call(p, at);
  m.workspace = find_workspace(p, sizes_in_flight(p, at)).parts;
  return m;
}
/// The same for a compiled plan, with sizes by name.
template <class Plan, class Verdict>
constexpr memory_parts memory_of(const planned<Plan, Verdict>& plan, std::initializer_list<named_size> named = {}) {
  return memory_of(plan.view(), plan.sized(named));
}

}} // namespace cleave::v0
