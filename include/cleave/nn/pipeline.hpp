// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/values.hpp>

#include <functional>

// Layers in stages: each device of an axis has some of the layers, and microbatches go from device to device. With a
// leading dim `stage` that is sharded over the axis, this is an ordinary program (GSPMD, Xu et al. 2021, section 3.3):
// a buffer with one microbatch for each stage is shifted by one along `stage` at every tick, and all stages compute at
// the same time.

namespace cleave { inline namespace v0 { namespace nn {

/// The dims of a pipeline, and its schedule. With `rounds` above 1 the schedule is circular (Narayanan et al. 2021):
/// microbatches go around `rounds` times, each device has `rounds` shorter stages, and the pipeline bubble shrinks by a
/// factor of `rounds`. Otherwise the schedule is that of GPipe (Huang et al. 2019).
struct pipeline_dims {
  dim_ref stage, microbatch;
  int rounds = 1;
  dim_ref round{"round"};
};

namespace detail {
/// x in the stages that hold, and 0 in the others.
constexpr value in_stage(operand x, dim_ref stage, int position, const value& holds) {
  recorder& in = *x.from.in;
  const int s = in.dim(stage, "in_first_stage", x.where);
  if (s < 0 || !x.from.ok()) return {&in, no_node};
  const tensor_type one = in.at(x.from).type;
  if (one.rank == max_rank) return in.fail(fault::rank_too_high, "in_first_stage", x.where, stage.name);
  tensor_type all;
  all.element = one.element;
  for (int i = 0; i <= one.rank; ++i) {
    if (i == position) all.append(s);
    if (i < one.rank) all.append(one[i]);
  }
  return select(holds, in.broadcast(x.from, all, x.where), 0);
}
} // namespace detail

/// x in the first stage: x with the new dim `stage` at `position` of its dims, and 0 for the other stages. The sum of
/// `shift(state, stage, 1)` and this value is the state of all stages at the next tick.
constexpr value in_first_stage(operand x, dim_ref stage, int position = 0) {
  const called_at user(x);
  return detail::in_stage(x, stage, position, iota(x, stage) == 0);
}

namespace detail {

constexpr value remainder(const value& a, const value& b) { return a - a / b * b; }

/// The stage of each microbatch at each tick. Microbatch g * stages + j enters at tick g * rounds * stages + j; each of
/// its rounds takes as many ticks as there are stages.
struct pipeline_schedule {
  pipeline_dims dims;
  dim_ref tick, wave;
  /// The number of stages.
  value stages{};

  /// The microbatch that enters the first stage at each tick.
  constexpr value fed(const operand& x, const value& tick_number) const {
    const value turn = tick_number / stages, group = turn / dims.rounds;
    const value enters = select(turn == group * dims.rounds, group * stages + remainder(tick_number, stages), -1);
    return in_first_stage(gather(x, dims.microbatch, enters), dims.stage, 1);
  }
  /// The tick after which each microbatch leaves the last stage.
  constexpr value leaves(const operand& x) const {
    const value number = iota(x, dims.microbatch), group = number / stages;
    return (group * dims.rounds + dims.rounds) * stages + remainder(number, stages) - 1;
  }
  /// Whether a microbatch enters the first stage at a tick, instead of one that comes around again.
  constexpr value enters(const value& tick_number, const value& is_first) const {
    const value turn = tick_number / stages;
    return broadcast(turn == turn / dims.rounds * dims.rounds, dims.stage) & is_first;
  }
  /// The round of each stage at a tick. Stage s is s ticks behind; before its first microbatch any round will do.
  constexpr value round(const operand& x, const value& tick_number) const {
    const value around = (tick_number - iota(x, dims.stage) + stages * dims.rounds) / stages;
    return around - around / dims.rounds * dims.rounds;
  }
};

/// Checks x and makes the dim of the ticks. The name of the tick is empty after a fault.
constexpr pipeline_schedule schedule_of(operand x, const pipeline_dims& d) {
  recorder& in = *x.from.in;
  pipeline_schedule s{d, derived_dim<"tick">(x, "pipeline", d.stage, d.microbatch),
                      derived_dim<"wave">(x, "pipeline", d.stage, d.microbatch)};
  if (s.tick.name.empty() || in.dim(s.tick, "pipeline", x.where) < 0) return {};
  const tensor_type one = in.at(x.from).type;
  const auto refused = [&](fault what, std::string_view dim) {
    in.refuse(what, "pipeline", x.where, dim);
    return pipeline_schedule{};
  };
  if (!one.has(in.made().find_dim(d.microbatch.name))) return refused(fault::dim_missing, d.microbatch.name);
  if (one.rank == max_rank) return refused(fault::rank_too_high, {});
  if (!define_extent(x, "pipeline", s.tick, -1, {{d.microbatch, d.rounds}, {d.stage}})) return {};
  return s;
}
/// Zeros of the type of x, with the stages in place of the microbatches.
constexpr value no_microbatches(const operand& x, const pipeline_dims& d) {
  recorder& in = *x.from.in;
  const tensor_type one = in.at(x.from).type;
  const int microbatch = in.made().find_dim(d.microbatch.name);
  tensor_type all;
  all.element = one.element;
  all.append(in.made().find_dim(d.stage.name));
  for (int i = 0; i < one.rank; ++i)
    if (one[i] != microbatch) all.append(one[i]);
  return in.zeros(all, x.where);
}

} // namespace detail

/// Applies `f(x, weights)` of one stage after the other to x [microbatch, ...]. Weights have dim `stage`, and dim
/// `round` if there are several rounds. `f` receives the weights of all stages of a round, and an x with dim `stage` in
/// place of `microbatch`. It keeps the dims of x. `pin` constrains values with dim `stage`. The pipeline takes
/// microbatches * rounds + stages - 1 ticks. Communication: if `stage` is sharded over an axis, every tick moves one
/// microbatch from each device to the next by one exchange, and one more exchange brings the results out of the last
/// stage. A circular schedule needs a number of microbatches that is a multiple of the stages, otherwise the first call
/// throws shape_error. Stages to which no microbatch has come apply `f` to zeros, so `f` and its derivative have to be
/// finite there. Differentiable. Faults: dim_missing, rank_too_high.
template <class W, class F, class Pin = std::identity>
constexpr value pipeline(operand x, const W& weights, const pipeline_dims& d, const F& f, const Pin& pin = {}) {
  const source where = x.where;
  if (!x.from.ok()) return x.from;
  detail::pipeline_schedule s = detail::schedule_of(x, d);
  if (s.tick.name.empty()) return {x.from.in, no_node};
  value feed, now, first;
  {
    const called_at user(x);
    s.stages = count<std::int32_t>(x, d.stage);
    if (d.rounds > 1)
      static_cast<void>(split(iota(x, d.microbatch), d.microbatch, s.wave, d.stage)); // a multiple, or an error
    now = iota(x, s.tick);
    first = iota(x, d.stage) == 0;
    feed = pin(s.fed(x, now));
  }
  const value empty = detail::no_microbatches(x, d);
  const auto at_tick = [&](const value& state, const std::array<value, 2>& given) {
    value entered;
    W chosen = weights;
    {
      const called_at user(x);
      const auto& [fed, t] = given;
      if (d.rounds == 1) {
        entered = pin(shift(state, d.stage, 1) + fed);
      } else {
        entered = pin(select(s.enters(t, first), 0, roll(state, d.stage, 1)) + fed);
        const value round = s.round(x, t);
        chosen = tree_map([&](const value& w) { return pin(gather(w, d.round, round)); }, weights);
      }
    }
    const value next = pin(f(entered, chosen));
    return std::pair(next, next);
  };
  const value states =
      scan(s.tick, pin(empty), std::array{feed, now}, at_tick, direction::forward, where.file, where.line).second;

  const called_at user(x);
  const dim_ref last{"last stage"};
  return sum(slice(gather(states, s.tick, s.leaves(x)), d.stage, last, -1), last);
}

}}} // namespace cleave::v0::nn
