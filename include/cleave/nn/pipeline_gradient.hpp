// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/nn/pipeline.hpp>

// Forward and backward passes of a pipeline in turn (1F1B; Narayanan et al. 2019, 2021). The derivative of
// `nn::pipeline` begins after its last tick, so it keeps all microbatches. Here every tick of one loop has a forward
// pass of one microbatch and a backward pass of another in each stage, and adds to the gradient.

namespace cleave { inline namespace v0 { namespace nn {

namespace detail {
/// Between two ticks: the results of the stages, the cotangents of their arguments, the arguments that backward passes
/// will read, and the sums so far.
template <class W>
struct pipeline_state {
  value results, slopes, arguments, loss;
  W gradient;
};
} // namespace detail

/// Inside a function: the sum over microbatches of `end(weights.end, y, given)`, and its gradient with respect to the
/// weights, an aggregate with the members `begin`, `stages` and `end`, which may be aggregates. y is what `f(x,
/// weights.stages)`, one stage after the other, makes of `begin(weights.begin, given)`. All tensors of `given`, a value
/// or an aggregate, have dim `microbatch`; `begin` and `end` receive one index of it. `f` receives and returns values
/// with dim `stage` first, and all its weights have that dim. `pin` constrains values with dim `stage`. `end` returns a
/// number. The loop has microbatches + 2 * (stages - 1) ticks, each with a forward and a backward pass in every stage.
/// A device keeps the arguments of its stage for 2 * stages - 1 microbatches, however many there are, and the values
/// within a stage for one: they are computed again in the backward pass. Communication: if `stage` is sharded over an
/// axis, each tick exchanges one microbatch with the next device and its cotangent with the one before, and moves one
/// microbatch out of the last stage and the cotangent of one out of the first. Stages to which no microbatch has come
/// work on zeros and on their images, so all three functions and their derivatives have to be finite there. The loss
/// and the gradients are added up in the element types of `end` and of the weights: give weights in float, and cast
/// within `f`. Faults: dim_missing, dim_used_twice, rank_too_high.
template <class W, class Given, class Begin, class F, class End, class Pin = std::identity>
constexpr std::pair<value, W> pipeline_value_and_grad(const W& weights, const Given& given, dim_ref stage,
                                                      dim_ref microbatch, const Begin& begin, const F& f,
                                                      const End& end, const Pin& pin = {},
                                                      const char* file = __builtin_FILE(),
                                                      unsigned line = __builtin_LINE()) {
  using state = detail::pipeline_state<W>;
  value any;
  static_cast<void>(tree_map([&](const value& v) { return any = v; }, given));
  const operand beside(any, file, line);
  recorder& in = *beside.from.in;
  const std::pair<value, W> missing{value{&in, no_node}, weights};
  const dim_ref tick = derived_dim<"turn ">(beside, "pipeline", stage),
                kept = derived_dim<"kept ">(beside, "pipeline", stage),
                one{derived_dim<"one ">(beside, "pipeline", stage).name, 1},
                alone = derived_dim<"lone ">(beside, "pipeline", stage);
  if (!beside.from.ok() || tick.name.empty() ||
      !define_extent(beside, "pipeline", tick, -2, {{microbatch}, {stage, 2}}) ||
      !define_extent(beside, "pipeline", kept, -1, {{stage, 2}}))
    return missing;
  state before;
  value ticks, number, last, microbatches;
  const auto taken = [&](const value& index) {
    return tree_map([&](const value& v) { return gather(v, microbatch, index); }, given);
  };
  {
    const called_at user(beside);
    ticks = iota(beside, tick);
    number = iota(beside, stage);
    last = count<std::int32_t>(number, stage) - 1;
    microbatches = count<std::int32_t>(beside, microbatch);
    // Only the types of these values are read.
    const value one_of_them = begin(weights.begin, taken(last)), like = in_first_stage(one_of_them, stage);
    if (!like.ok()) return missing;
    before = {pin(zeros_like(like)), pin(zeros_like(like)), pin(zeros_like(in_first_stage(like, kept))),
              zeros_like(end(weights.end, one_of_them, taken(last))),
              tree_map([](const value& w) { return zeros_like(w); }, weights)};
  }
  const auto at_tick = [&](const state& now, const value& t) {
    const called_at user(beside);
    // Forward: stage s has microbatch t - s.
    const value x = pin(shift(now.results, stage, 1) + in_first_stage(begin(weights.begin, taken(t)), stage));
    const value length = 2 * last + 1;
    // Not pinned, so that it is updated in place.
    const value arguments = dynamic_update(now.arguments, kept, in_first_stage(x, one), one,
                                           detail::remainder(t, length));
    const value results = pin(f(x, weights.stages));
    // The end of a microbatch that has left the last stage.
    const value leaving = t - last, counts = (leaving >= 0) & (leaving < microbatches);
    const auto of_end = [&](const auto& w, const value& y) { return end(w, y, taken(leaving)); };
    const auto [loss, through_end] = vjp(of_end, weights.end, sum(slice(results, stage, alone, -1), alone));
    const value once = select(counts, zeros_like(loss) + 1.0, 0);
    const auto [to_end, to_last] = through_end(once);
    // Backward: stage s has microbatch t - 2 * last + s, whose argument came 2 * (last - s) ticks ago.
    const value then = pin(gather(arguments, kept, detail::remainder(t + 2 * number + 1, length)));
    const value slope = pin(shift(now.slopes, stage, -1) + detail::in_stage(to_last, stage, 0, number == last));
    const auto [to_stages, to_arguments] = [&] {
      const auto [dx, dw] = vjp(f, then, weights.stages).second(slope);
      return std::pair(dw, pin(dx));
    }();
    const auto of_begin = [&](const auto& w) { return begin(w, taken(t - 2 * last)); };
    const auto to_begin = vjp(of_begin, weights.begin).second(sum(slice(to_arguments, stage, alone, 0, 1), alone));
    W part = weights;
    part.begin = to_begin, part.stages = to_stages, part.end = to_end;
    return state{results, to_arguments, arguments, now.loss + loss * once,
                 tree_map([](const value& a, const value& b) { return value(a + b); }, now.gradient, part)};
  };
  const state after = scan(tick, before, ticks, at_tick, direction::forward, file, line);
  return {after.loss, after.gradient};
}

}}} // namespace cleave::v0::nn
