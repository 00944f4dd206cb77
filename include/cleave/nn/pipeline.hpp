// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/record/numbered_names.hpp>

#include <functional>

// Layers in stages: each device of an axis has some of the layers, and microbatches go from device to device. With a dim `stage` in front,
// divided over the axis, that is an ordinary program (GSPMD, Xu et al. 2021, section 3.3): a buffer with one microbatch for each stage
// is shifted by one along `stage` at every tick, and all stages compute at once.

namespace cleave::nn {

/// The dims of a pipeline, and its schedule. With `rounds` above 1 the schedule is circular (Narayanan et al. 2021):
/// microbatches go around `rounds` times, each device has `rounds` shorter stages, and the pipeline bubble shrinks by a
/// factor of `rounds`. Otherwise the schedule is that of GPipe (Huang et al. 2019).
struct pipeline_dims {
  dim_ref stage, microbatch;
  int rounds = 1;
  dim_ref round{"round"};
};

namespace detail {

/// The ticks of a pipeline, and the waves of microbatches that go around together, called by the numbers of the dims of stages and of microbatches.
inline constexpr auto ticks_of_dims = cleave::detail::names_of_pairs("tick");
inline constexpr auto waves_of_dims = cleave::detail::names_of_pairs("wave");

constexpr value remainder(const value& a, const value& b) { return a - a / b * b; }

} // namespace detail

/// x in the first stage: x with the new dim `stage` at position `place` of its dims, and 0 for the other stages. The
/// sum of `shift(state, stage, 1)` and this value is the state of all stages at the next tick.
constexpr value in_first_stage(operand x, dim_ref stage, int place = 0) {
  const called_at user(x);
  recorder& in = *x.from.in;
  const int s = in.dim(stage, "in_first_stage", x.where);
  if (s < 0 || !x.from.ok()) return {&in, no_node};
  const tensor_type one = in.at(x.from).type;
  if (one.rank == max_rank) return in.fail(fault::rank_too_high, "in_first_stage", x.where, stage.name);
  tensor_type all;
  all.element = one.element;
  for (int i = 0; i <= one.rank; ++i) {
    if (i == place) all.append(static_cast<dim_id>(s));
    if (i < one.rank) all.append(one[i]);
  }
  return select(iota(x, stage) == 0, in.broadcast(x.from, all, x.where), 0);
}

/// Applies `f(x, weights)` of one stage after the other to x [microbatch, ...]. Weights have dim `stage`, and dim
/// `round` if there are several rounds. `f` receives the weights of all stages of a round, and an x with dim `stage` in
/// place of `microbatch`. It keeps the dims of x. `pin` constrains values with dim `stage`. The pipeline takes
/// microbatches * rounds + stages - 1 ticks. Communication: if `stage` is sharded over an axis, every tick moves one
/// microbatch from each device to the next by one exchange, and one more exchange brings the results out of the last
/// stage. A circular schedule needs a number of microbatches that is a multiple of the stages, otherwise the first call
/// throws shape_error. Differentiable. Faults: dim_missing, rank_too_high.
template <class W, class F, class Pin = std::identity>
constexpr value pipeline(operand x, const W& weights, const pipeline_dims& d, const F& f, const Pin& pin = {}) {
  const source where = x.where;
  recorder& in = *x.from.in;
  if (!x.from.ok()) return x.from;
  const int stage = in.dim(d.stage, "pipeline", where), batch = in.dim(d.microbatch, "pipeline", where);
  if (stage < 0 || batch < 0) return {&in, no_node};
  const dim_ref tick{cleave::detail::name_of_pair(detail::ticks_of_dims, stage, batch)}, wave{cleave::detail::name_of_pair(detail::waves_of_dims, stage, batch)};
  const int ticks = in.dim(tick, "pipeline", where);
  if (ticks < 0) return {&in, no_node};
  const tensor_type one = in.at(x.from).type;
  if (!one.has(static_cast<dim_id>(batch))) return in.fail(fault::dim_missing, "pipeline", where, d.microbatch.name);
  if (one.rank == max_rank) return in.fail(fault::rank_too_high, "pipeline", where);
  extent_sum length = cleave::detail::sum_of(-1, static_cast<dim_id>(batch), d.rounds);
  length.terms.push_back({static_cast<dim_id>(stage), 1});
  if (!in.extent_follows({static_cast<dim_id>(ticks), length, 1}, "pipeline", where)) return {&in, no_node};

  // Microbatch g * stages + j enters at tick g * rounds * stages + j; each of its rounds takes as many ticks as there are stages.
  value feed, now, width, first;
  {
    const called_at user(x);
    width = in.count(dim_bit(static_cast<dim_id>(stage)), element::i32, where);
    if (d.rounds > 1) split(iota(x, d.microbatch), d.microbatch, wave, d.stage);  // a multiple, or an error
    now = iota(x, tick);
    first = iota(x, d.stage) == 0;
    const value turn = now / width, group = turn / d.rounds;
    const value enters = select(turn == group * d.rounds, group * width + detail::remainder(now, width), -1);
    feed = pin(in_first_stage(gather(x, d.microbatch, enters), d.stage, 1));
  }
  tensor_type at_hand;
  at_hand.element = one.element;
  at_hand.append(static_cast<dim_id>(stage));
  for (int i = 0; i < one.rank; ++i)
    if (one[i] != batch) at_hand.append(one[i]);
  const value empty = in.zeros(at_hand, where);
  const auto at_tick = [&](const value& state, const std::array<value, 2>& given) {
    value entered;
    W chosen = weights;
    {
      const called_at user(x);
      const auto& [fed, t] = given;
      if (d.rounds == 1) {
        entered = pin(shift(state, d.stage, 1) + fed);
      } else {
        const value turn = t / width;
        const value fresh = broadcast(turn == turn / d.rounds * d.rounds, d.stage) & first;
        entered = pin(select(fresh, 0, roll(state, d.stage, 1)) + fed);
        // Stage s is s ticks behind; before its first microbatch any round will do.
        const value around = (t - iota(x, d.stage) + width * d.rounds) / width;
        chosen = tree_map([&](const value& w) { return pin(gather(w, d.round, around - around / d.rounds * d.rounds)); }, weights);
      }
    }
    const value next = pin(f(entered, chosen));
    return std::pair(next, next);
  };
  const value states = scan(tick, pin(empty), std::array{feed, now}, at_tick, direction::forward, where.file, where.line).second;

  const called_at user(x);
  const value number = iota(x, d.microbatch), group = number / width;
  const value leaves = (group * d.rounds + d.rounds) * width + detail::remainder(number, width) - 1;
  const dim_ref last{"last stage"};
  return sum(slice(gather(states, tick, leaves), d.stage, last, -1), last);
}

} // namespace cleave::nn
