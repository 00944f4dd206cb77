// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/exchange.hpp>
#include <cleave/distributed/row_lookup.hpp>
#include <cleave/distributed/sort.hpp>
#include <cleave/execute/bind.hpp>
#include <cleave/execute/kernel_of.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace cleave {

namespace detail {

/// The addresses that a step reads.
inline std::array<const void*, max_operands> operands_of(const bound_program& p, const step& s) {
  std::array<const void*, max_operands> from{};
  for (std::size_t k = 0; k < s.in.size(); ++k) from[k] = p.at(s.in[k]);
  return from;
}

// clang refuses folds over more than 256 operands, so steps are walked in blocks.
inline constexpr std::size_t steps_in_block = 64;

inline void run_move(bound_program& p, bound_step& b, const step& s) {
  if (b.joined) return;
  if (b.joins) b.joins->run([&](std::size_t buffer) { return p.at(buffer); }, b.message, p.scratch());
  else b.move->run(p.at(s.in[0]), p.at(s.out), p.scratch());
}

inline void run_call(bound_program& p, bound_step& b, const step& s) {
  const std::size_t operands = s.in.size();
  for (std::size_t k = 0; k < operands; ++k) b.shards[k].data = p.at(s.in[k]);
  b.shards[operands].data = p.at(s.out);
  s.user->on_shards(local_context(p.grid()), std::span<const shard>(b.shards.data(), operands), b.shards[operands]);
}

template <class Plan, std::size_t I>
void run_step(bound_program& p) {
  using here = step_at<Plan, I>;
  static constexpr const step& s = here::value;
  bound_step& b = p[I];
  p.begins(I);
  Kokkos::Profiling::pushRegion(b.name);
  if constexpr (s.kind == step_kind::move) {
    run_move(p, b, s);
  } else if constexpr (is_routed(s)) {
    b.routed->run(operands_of(p, s).data(), p.at(s.out));
  } else if constexpr (s.kind == step_kind::scan) {
    run_scan<typename element_type<Plan::buffers[s.out].type.element>::type, s.combine>(b.scan, p.at(s.in[0]), p.at(s.out), p.scratch());
  } else if constexpr (s.kind == step_kind::exchange) {
    if constexpr (s.in_flight) p.begin_exchange(I, operands_of(p, s).data(), p.at(s.out));
    else b.exchange->run(operands_of(p, s).data(), p.at(s.out), p.scratch());
  } else if constexpr (s.kind == step_kind::wait) {
    p.finish_exchange(s.begun);
  } else if constexpr (s.kind == step_kind::call) {
    run_call(p, b, s);
  } else if constexpr (s.kind == step_kind::gemm) {
    constexpr element type = Plan::buffers[s.out].type.element;
    run_gemm<typename element_type<type>::type>(b.gemm, p.at(s.in[0]), p.at(s.in[1]), p.at(s.out), p.scratch().memory);
  } else {
    using kernel = typename expression_of<here, std::make_index_sequence<s.tape.size()>>::type;
    const auto from = operands_of(p, s);
    if constexpr (s.kind == step_kind::map) {
      run_map<kernel>(b.loops, from.data(), p.at(s.out));
    } else {
      constexpr bool folded = here::inner.folded || here::inner.position < 0;
      run_fold<kernel, s.combine, folded>(b.loops, from.data(), p.at(s.out), p.scratch().memory);
    }
  }
  p.progress();
  Kokkos::Profiling::popRegion();
  p.ends(I);
}

template <class Plan, std::size_t First, std::size_t... I>
void run_block(bound_program& p, std::index_sequence<I...>) {
  (run_step<Plan, First + I>(p), ...);
}
/// The steps of a stretch without a loop.
template <class Plan, std::size_t First, std::size_t Last>
void run_straight(bound_program& p) {
  if constexpr (Last - First > steps_in_block) {
    run_block<Plan, First>(p, std::make_index_sequence<steps_in_block>{});
    run_straight<Plan, First + steps_in_block, Last>(p);
  } else {
    run_block<Plan, First>(p, std::make_index_sequence<Last - First>{});
  }
}
/// The first step from `first` on that begins a loop, or `last`.
template <class Plan>
constexpr std::size_t next_loop(std::size_t first, std::size_t last) {
  while (first < last && Plan::steps[first].kind != step_kind::loop_begin) ++first;
  return first;
}
template <class Plan>
constexpr std::size_t end_of_loop(std::size_t begin) {
  std::size_t end = begin;
  for (std::size_t depth = 1; depth > 0;) {
    ++end;
    if (Plan::steps[end].kind == step_kind::loop_begin) ++depth;
    if (Plan::steps[end].kind == step_kind::loop_end) --depth;
  }
  return end;
}
/// A number of rank 0, the same on all devices, as the host sees it.
inline std::int64_t number_on_host(const bound_program& p, std::size_t buffer, element e) {
  std::array<char, 8> bytes{};
  wait_for_kernels();
  copy_bytes<Kokkos::HostSpace, memory_space>(bytes.data(), p.at(buffer), size_of(e));
  std::int64_t number = 0;
  with_element(e, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      std::memcpy(&zero, bytes.data(), sizeof(T));
      number = static_cast<std::int64_t>(zero);
    }
  });
  return number;
}

template <class Plan, std::size_t First, std::size_t Last>
void run_steps(bound_program& p) {
  constexpr std::size_t begin = next_loop<Plan>(First, Last);
  run_straight<Plan, First, begin>(p);
  if constexpr (begin != Last) {
    constexpr std::size_t end = end_of_loop<Plan>(begin);
    static constexpr const step &first = Plan::steps[begin], &last = Plan::steps[end];
    const bound_step& loop = p[begin];
    std::int64_t trips = loop.trips;
    if constexpr (!first.in.empty()) trips = p.agreed(number_on_host(p, first.in[0], Plan::buffers[first.in[0]].type.element));
    for (std::int64_t trip = 0; trip < trips; ++trip) {
      p.set_trip(loop, trip, trips);
      run_steps<Plan, begin + 1, end>(p);
      if constexpr (!last.in.empty())
        if (p.agreed(number_on_host(p, last.in[0], element::boolean)) != 0) break;
    }
    run_steps<Plan, end + 1, Last>(p);
  }
}
template <class Plan>
constexpr loop_list loops_of() {
  if constexpr (requires { Plan::loops; }) return Plan::loops;
  else return {};
}

/// Look-ups and sorting are bound here, where their element type is known: others need not be compiled.
template <class Plan, std::size_t I>
void bind_routed(bound_program& p, grid_state& grid, const sizes& at) {
  static constexpr const step& s = step_at<Plan, I>::value;
  if constexpr (s.kind == step_kind::gather || s.kind == step_kind::scatter) {
    constexpr bool scatters = s.kind == step_kind::scatter;
    const buffer &first = Plan::buffers[s.in[0]], &places = Plan::buffers[s.in[1]], &out = Plan::buffers[s.out];
    const buffer &table = scatters ? out : first, &rows = scatters ? first : out;
    const comm::row_tensors t{table.type, rows.type, places.type, table.where, rows.where, places.where, s.k[0], at};
    p[I].routed = std::make_unique<comm::row_lookup<typename element_type<Plan::buffers[s.out].type.element>::type>>(grid, t, s.axes, scatters);
  } else if constexpr (s.kind == step_kind::sort) {
    const buffer& in = Plan::buffers[s.in[0]];
    const sorted_tensor t{in.type, in.where, s.k[0], s.backwards, s.indices, at};
    p[I].routed = std::make_unique<bound_sort<typename element_type<Plan::buffers[s.in[0]].type.element>::type>>(grid, t);
  }
}
template <class Plan, std::size_t First, std::size_t... I>
void bind_routed_of_block(bound_program& p, grid_state& grid, const sizes& at, std::index_sequence<I...>) {
  (bind_routed<Plan, First + I>(p, grid, at), ...);
}
template <class Plan, std::size_t... Block>
void bind_all_routed(bound_program& p, grid_state& grid, const sizes& at, std::index_sequence<Block...>) {
  constexpr std::size_t all = Plan::steps.size();
  (bind_routed_of_block<Plan, Block * steps_in_block>(
       p, grid, at, std::make_index_sequence<(all - Block * steps_in_block < steps_in_block ? all - Block * steps_in_block : steps_in_block)>{}),
   ...);
}
template <class Plan>
inline constexpr bool has_routed = [] {
  for (const step& s : Plan::steps)
    if (is_routed(s)) return true;
  return false;
}();

/// A program without an exchange does not compile one.
template <class Plan>
constexpr comm::exchange_maker exchange_maker_of() {
  constexpr bool any = [] {
    for (const step& s : Plan::steps)
      if (s.kind == step_kind::exchange) return true;
    return false;
  }();
  if constexpr (any) return &comm::make_exchange;
  else return nullptr;
}

} // namespace detail

/// Runs one plan for one set of sizes on one grid. Binding computes all that depends on sizes and allocates the workspace;
/// running walks the steps, allocates nothing and decides nothing. `Plan` has the constants mesh, dims, buffers, steps, maps,
/// arguments, results and slots.
template <class Plan>
class executor {
 public:
  /// Collective over the grid.
  executor(grid_state& grid, const sizes& at)
      : program_(grid, at, std::span<const dim_info>(Plan::dims.begin(), Plan::dims.end()), std::span<const buffer>(Plan::buffers),
                 std::span<const step>(Plan::steps), std::span<const dim_map>(Plan::maps), Plan::arguments, Plan::results, Plan::slots, detail::exchange_maker_of<Plan>(),
                 detail::loops_of<Plan>()) {
    constexpr std::size_t blocks = (Plan::steps.size() + detail::steps_in_block - 1) / detail::steps_in_block;
    if constexpr (detail::has_routed<Plan>) detail::bind_all_routed<Plan>(program_, grid, at, std::make_index_sequence<blocks>{});
  }

  /// Collective over the grid. Shards of the arguments and of the results, in order; a result may be the memory of an argument.
  void run(const void* const* inputs, void* const* outputs) {
    program_.start(inputs, outputs);
    try {
      detail::run_steps<Plan, 0, Plan::steps.size()>(program_);
    } catch (const mpi_error&) {
      program_.grid().set_broken();
      throw;
    } catch (const agreement_error&) {
      // The other ranks are elsewhere, so there is nobody to finish with.
      program_.grid().set_broken();
      throw;
    } catch (...) {
      // What is thrown by a step on all ranks leaves nothing under way, so that the plan can run again.
      program_.finish_exchanges();
      throw;
    }
    program_.finish(outputs);
  }
  std::int64_t workspace_bytes() const { return program_.workspace_bytes(); }

 private:
  bound_program program_;
};

namespace detail {
/// Its address stands for the plan.
template <class Plan>
inline constexpr char plan_key = 0;
} // namespace detail

/// The executor of a plan on a grid, made at the first call with these extents and kept with the grid. `extents` has one
/// number for each dim of the plan; `complete` turns them into the sizes to bind and is called only where there is no
/// executor yet.
template <class Plan, class Complete>
executor<Plan>& executor_for(grid_state& grid, std::span<const std::int64_t> extents, Complete&& complete) {
  const void* key = &detail::plan_key<Plan>;
  void* found = grid.find_bound(key, extents);
  if (found == nullptr) {
    // Completing may throw; nothing is kept then.
    const sizes at = complete();
    found = grid.keep_bound(key, extents, std::make_shared<executor<Plan>>(grid, at));
  }
  return *static_cast<executor<Plan>*>(found);
}
/// The same for sizes that are complete.
template <class Plan>
executor<Plan>& executor_for(grid_state& grid, const sizes& at) {
  return executor_for<Plan>(grid, std::span(at.dims).first(Plan::dims.size()), [&] { return at; });
}

} // namespace cleave
