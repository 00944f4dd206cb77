// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The verification of finished programs, and the pass that lets exchanges overlap, on steps written by hand: each
// program breaks one rule.
#include <cleave/plan/lower/lower.hpp>
#include <cleave/plan/workspace.hpp>
#include <cleave/program/verify.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace CLEAVE_SOURCE {

using namespace cleave;

/// Buffers 0 and 1 are an argument and a result; the others are workspace, each in a slot of its own.
struct written_program {
  program p{};

  explicit written_program(int workspace) {
    p.mesh.axes.push_back({"x", 4});
    p.arguments = p.results = 1;
    p.slots = static_cast<std::uint16_t>(workspace);
    for (int i = 0; i < 2 + workspace; ++i) {
      buffer b;
      b.role = i == 0 ? role::input : i == 1 ? role::output : role::workspace;
      b.index = static_cast<std::uint16_t>(i < 2 ? 0 : i - 2);
      b.type.element = element::f32;
      p.buffers.push_back(b);
    }
  }
  written_program& step_of(step_kind kind, std::initializer_list<std::uint16_t> in, std::uint16_t out,
                           bool in_flight = false) {
    step s;
    s.kind = kind;
    s.out = out;
    for (std::uint16_t b : in) s.in.push_back(b);
    if (kind == step_kind::exchange) s.move = cleave::kind::exchange;
    s.in_flight = in_flight;
    p.steps.push_back(s);
    return *this;
  }
  written_program& wait(std::uint16_t begun) {
    step_of(step_kind::wait, {}, p.steps[begun].out);
    p.steps.back().begun = begun;
    return *this;
  }
  written_program& in_loop(std::uint8_t loop) {
    p.steps.back().in_loop = loop;
    return *this;
  }
};
using written = written_program;

TEST(Verify, AcceptsWhatCanRun) {
  EXPECT_TRUE(verify(written(1).step_of(step_kind::map, {0}, 2).step_of(step_kind::map, {2}, 1).p));
  // In place, element by element.
  EXPECT_TRUE(verify(
      written(1).step_of(step_kind::map, {0}, 2).step_of(step_kind::map, {2}, 2).step_of(step_kind::map, {2}, 1).p));
  EXPECT_TRUE(verify(written(2)
                         .step_of(step_kind::map, {0}, 2)
                         .step_of(step_kind::exchange, {2}, 3, true)
                         .step_of(step_kind::gemm, {0, 2}, 1)
                         .wait(1)
                         .step_of(step_kind::map, {3}, 1)
                         .p));
}

TEST(Verify, RefusesWhatReadsNothingOrWritesWhatIsNotItsOwn) {
  EXPECT_FALSE(verify(written(1).step_of(step_kind::map, {2}, 1).p));
  EXPECT_FALSE(verify(written(1).step_of(step_kind::map, {0}, 2).p)); // no result
  EXPECT_FALSE(verify(written(1).step_of(step_kind::map, {0}, 1).step_of(step_kind::map, {1}, 0).p));
  // A product over what it reads.
  EXPECT_FALSE(verify(written(1)
                          .step_of(step_kind::map, {0}, 2)
                          .step_of(step_kind::gemm, {0, 2}, 2)
                          .step_of(step_kind::map, {2}, 1)
                          .p));
}

TEST(Verify, RefusesToTouchWhatAnExchangeInFlightSendsOrBrings) {
  const auto meanwhile = [](step_kind kind, std::initializer_list<std::uint16_t> in, std::uint16_t out) {
    return verify(written(2)
                      .step_of(step_kind::map, {0}, 2)
                      .step_of(step_kind::exchange, {2}, 3, true)
                      .step_of(kind, in, out)
                      .wait(1)
                      .step_of(step_kind::map, {3}, 1)
                      .p);
  };
  EXPECT_TRUE(meanwhile(step_kind::map, {0}, 1));
  EXPECT_TRUE(meanwhile(step_kind::map, {2}, 1));
  EXPECT_FALSE(meanwhile(step_kind::map, {0}, 2)); // what is sent
  EXPECT_FALSE(meanwhile(step_kind::map, {0}, 3)); // what is brought
  EXPECT_FALSE(meanwhile(step_kind::map, {3}, 1));
}

TEST(Verify, RefusesToTouchWhatAMoveInFlightSendsOrBrings) {
  // To other memory, and in place: buffer 4 is the memory of buffer 2 before the all-reduce.
  const auto meanwhile = [](bool in_place, step_kind kind, std::initializer_list<std::uint16_t> in, std::uint16_t out,
                            auto&& change) {
    written w(2);
    w.p.buffers.push_back(w.p.buffers[2]);
    w.p.buffers[4].where.set_partial(axis_bit(0), reduction::sum);
    const std::uint16_t to = in_place ? 2 : 3;
    w.step_of(step_kind::map, {0}, 4).step_of(step_kind::move, {4}, to, true);
    w.p.steps.back().move = cleave::kind::all_reduce;
    w.p.steps.back().axes = axis_bit(0);
    w.step_of(kind, in, out).wait(1).step_of(step_kind::map, {to}, 1);
    change(w.p.steps);
    return verify(w.p);
  };
  const auto none = [](indexed_vector<step>&) {};
  for (bool in_place : {false, true}) {
    const std::uint16_t to = in_place ? 2 : 3;
    EXPECT_TRUE(meanwhile(in_place, step_kind::map, {0}, 1, none));
    EXPECT_FALSE(meanwhile(in_place, step_kind::map, {0}, 4, none)); // what is sent
    EXPECT_FALSE(meanwhile(in_place, step_kind::map, {0}, to, none));
    EXPECT_FALSE(meanwhile(in_place, step_kind::map, {to}, 1, none)); // what is brought
    EXPECT_EQ(meanwhile(in_place, step_kind::map, {4}, 1, none), !in_place);
    // No wait; in pieces of a product as well; a step that no other device takes part in.
    EXPECT_FALSE(meanwhile(in_place, step_kind::map, {0}, 1, [](indexed_vector<step>& s) { s.erase(s.begin() + 3); }));
    EXPECT_FALSE(meanwhile(in_place, step_kind::map, {0}, 1, [](indexed_vector<step>& s) { s[1].pieces = 2; }));
    EXPECT_FALSE(meanwhile(in_place, step_kind::map, {0}, 1, [](indexed_vector<step>& s) { s[2].in_flight = true; }));
  }
}

TEST(Verify, StepsThatAreNotInFlightTogetherHoldTheSameMemory) {
  written w(4);
  w.step_of(step_kind::exchange, {0}, 2, true).step_of(step_kind::exchange, {0}, 3, true).wait(0);
  w.step_of(step_kind::exchange, {0}, 4, true).step_of(step_kind::exchange, {0}, 5, true).wait(1).wait(3).wait(4);
  const auto begin = [&](std::int64_t first, std::int64_t second, std::int64_t third, std::int64_t fourth) {
    const held_memory h = share_until_waited(w.p, {first, second, 0, third, fourth, 0, 0, 0});
    return std::vector<std::int64_t>{h.begin[0], h.begin[1], h.begin[3], h.begin[4], h.bytes};
  };
  // The third one takes the place of the first one if it fits there.
  EXPECT_EQ(begin(128, 64, 100, 64), (std::vector<std::int64_t>{0, 128, 0, 192, 256}));
  EXPECT_EQ(begin(64, 64, 128, 64), (std::vector<std::int64_t>{0, 64, 128, 0, 256}));
  EXPECT_EQ(begin(0, 64, 64, 0), (std::vector<std::int64_t>{0, 0, 64, 0, 128}));
}

TEST(Verify, RefusesExchangesThatAreNotWaitedForInTheirLoop) {
  const auto with = [](bool waited_inside) {
    written w(2);
    w.p.loops.push_back({});
    w.step_of(step_kind::map, {0}, 2).step_of(step_kind::loop_begin, {}, 0).in_loop(1);
    w.step_of(step_kind::exchange, {2}, 3, true).in_loop(1).step_of(step_kind::map, {0}, 1).in_loop(1);
    if (waited_inside) w.wait(2).in_loop(1);
    w.step_of(step_kind::loop_end, {}, 0).in_loop(1);
    if (!waited_inside) w.wait(2);
    return verify(w.step_of(step_kind::map, {3}, 1).p);
  };
  EXPECT_TRUE(with(true));
  EXPECT_FALSE(with(false));
  EXPECT_FALSE(verify(written(2)
                          .step_of(step_kind::map, {0}, 2)
                          .step_of(step_kind::exchange, {2}, 3, true)
                          .step_of(step_kind::map, {2}, 1)
                          .p));
}

// Two exchanges that share messages, each of them broken in one way.
TEST(Verify, RefusesExchangesThatCannotShareMessages) {
  const auto with = [](auto&& change, std::initializer_list<std::uint16_t> halos = {}) {
    written w(4);
    w.p.loops.push_back({});
    for (std::uint16_t h : halos) w.p.buffers[h].form = form::halo;
    w.step_of(step_kind::map, {0}, 2).step_of(step_kind::map, {0}, 3);
    w.step_of(step_kind::exchange, {2}, 4, true).step_of(step_kind::exchange, {3}, 5, true);
    w.p.steps[3].joined = true;
    w.wait(2).wait(3).step_of(step_kind::map, {4, 5}, 1);
    change(w.p.steps);
    return verify(w.p);
  };
  using steps = indexed_vector<step>;
  constexpr auto without = [](steps& s, std::size_t i) {
    steps others;
    for (std::size_t k = 0; k < s.size(); ++k)
      if (k != i) others.push_back(s[k]);
    s = others;
  };
  EXPECT_TRUE(with([](steps&) {}));
  EXPECT_FALSE(with([](steps& s) { s[2].joined = true; })); // with a map
  const auto along_other_axes = [](steps& s) { s[3].axes = axis_bit(0); };
  EXPECT_FALSE(with(along_other_axes));
  EXPECT_FALSE(with(along_other_axes, {4}));
  EXPECT_TRUE(with(along_other_axes, {4, 5}));
  EXPECT_FALSE(with([](steps& s) { s[3].move = kind::none; }));
  EXPECT_FALSE(with([](steps& s) { s[3].in_loop = 1; }));
  EXPECT_FALSE(with([](steps& s) { s[3].in[0] = 4; }));  // what the first one brings
  EXPECT_FALSE(with([](steps& s) { s[3].out = 2; }));    // what the first one sends
  EXPECT_FALSE(with([](steps& s) { s[3].out = 4; }));    // what the first one brings
  EXPECT_FALSE(with([](steps& s) { s[6].joined = true; }));
  EXPECT_FALSE(with([&](steps& s) {
    s[3].in_flight = false;
    without(s, 5);
  }));
  EXPECT_FALSE(with([&](steps& s) {
    s[2].in_flight = false;
    without(s, 4);
    s[4].begun = 3;
  }));
  // Not one right after the other.
  EXPECT_FALSE(with([](steps& s) {
    step between;
    between.in.push_back(0);
    between.out = 1;
    s.insert(s.begin() + 3, between);
    s[6].begun = 4;
  }));
  const auto apart = [](steps& s) {
    for (step& each : s) each.joined = false;
  };
  EXPECT_TRUE(with(apart));
}

// Which exchanges begin together. Halos move up to others, past what they do not depend on; memory is numbered as
// buffers are.
std::vector<step> combined(written w, std::initializer_list<std::uint16_t> halos) {
  std::vector<std::size_t> memory;
  for (std::size_t b = 0; b < w.p.buffers.size(); ++b) memory.push_back(b);
  for (std::uint16_t h : halos) w.p.buffers[h].form = form::halo;
  lowering::combine_exchanges(w.p.steps, w.p.buffers, w.p.maps, memory);
  return w.p.steps;
}
TEST(Verify, HalosMoveUpToTheExchangeBeforeThem) {
  // Where the last exchange is, and whether it shares messages.
  const auto found = [](const std::vector<step>& steps) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i].kind == step_kind::exchange) last = i;
    return std::pair(last, steps[last].joined);
  };
  const auto with = [&](std::initializer_list<std::uint16_t> in, std::uint16_t out,
                        std::initializer_list<std::uint16_t> halos) {
    return found(combined(written(6)
                              .step_of(step_kind::map, {0}, 2)
                              .step_of(step_kind::map, {0}, 3)
                              .step_of(step_kind::exchange, {2}, 4)
                              .step_of(step_kind::map, in, out)
                              .step_of(step_kind::exchange, {3}, 5)
                              .step_of(step_kind::map, {4, 5}, 1),
                          halos));
  };
  EXPECT_EQ(with({2, 4}, 6, {4, 5}), std::pair(std::size_t{3}, true));
  EXPECT_EQ(with({2, 3}, 6, {4, 5}), std::pair(std::size_t{3}, true));
  EXPECT_EQ(with({2, 4}, 3, {4, 5}), std::pair(std::size_t{4}, false)); // it makes what is sent
  EXPECT_EQ(with({2, 5}, 6, {4, 5}), std::pair(std::size_t{4}, false)); // it reads what is overwritten
  EXPECT_EQ(with({2, 4}, 5, {4, 5}), std::pair(std::size_t{4}, false));
  EXPECT_EQ(with({2, 4}, 6, {}), std::pair(std::size_t{4}, false));
  EXPECT_EQ(with({2, 4}, 6, {4}), std::pair(std::size_t{4}, false));
  EXPECT_EQ(with({2, 4}, 6, {5}), std::pair(std::size_t{4}, false));
}
// A third one joins both, unless it depends on one of them.
TEST(Verify, MoreThanTwoExchangesShareMessages) {
  for (const std::uint16_t from : std::initializer_list<std::uint16_t>{2, 4, 5}) {
    const std::vector<step> steps = combined(written(6)
                                                 .step_of(step_kind::map, {0}, 2)
                                                 .step_of(step_kind::exchange, {2}, 4)
                                                 .step_of(step_kind::exchange, {2}, 5)
                                                 .step_of(step_kind::exchange, {from}, 6)
                                                 .step_of(step_kind::map, {4, 5, 6}, 1),
                                             {4, 5, 6});
    EXPECT_TRUE(steps[2].joined);
    EXPECT_EQ(steps[3].joined, from == 2) << from;
  }
}

// Which step an exchange must be waited for before, and what is kept until then. Memory is numbered as buffers are.
std::vector<step> overlapped(written w) {
  std::vector<std::size_t> memory;
  for (std::size_t b = 0; b < w.p.buffers.size(); ++b) memory.push_back(b);
  lowering::overlap_exchanges(w.p.steps, w.p.buffers, w.p.maps, memory);
  return w.p.steps;
}
std::size_t waits_before(const std::vector<step>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].kind == step_kind::wait) return i;
  return 0;
}

TEST(Verify, ExchangesAreWaitedForBeforeWhatTheySendIsOverwritten) {
  const std::vector<step> steps = overlapped(written(4)
                                                 .step_of(step_kind::map, {0}, 2)
                                                 .step_of(step_kind::exchange, {2}, 3)
                                                 .step_of(step_kind::gemm, {0, 2}, 4)
                                                 .step_of(step_kind::map, {4}, 2)
                                                 .step_of(step_kind::map, {2, 3}, 1));
  ASSERT_EQ(waits_before(steps), 3u);
  EXPECT_TRUE(steps[1].in_flight);
  // What is sent and what is brought is in use until then.
  EXPECT_TRUE(steps[3].in.contains(2));
  EXPECT_TRUE(steps[3].in.contains(3));
}

TEST(Verify, ExchangesAreWaitedForBeforeWhatTheyBringIsTouched) {
  const auto with = [](std::initializer_list<std::uint16_t> in, std::uint16_t out) {
    return waits_before(overlapped(written(4)
                                       .step_of(step_kind::map, {0}, 2)
                                       .step_of(step_kind::exchange, {2}, 3)
                                       .step_of(step_kind::gemm, {0, 2}, 4)
                                       .step_of(step_kind::map, in, out)
                                       .step_of(step_kind::map, {3, 4}, 1)));
  };
  EXPECT_EQ(with({4, 3}, 5), 3u);
  EXPECT_EQ(with({4}, 3), 3u);
  EXPECT_EQ(with({4}, 5), 4u);
}

TEST(Verify, ExchangesAreWaitedForInTheirLoop) {
  written w(4);
  w.p.loops.push_back({});
  w.step_of(step_kind::map, {0}, 2).step_of(step_kind::loop_begin, {}, 0).in_loop(1);
  w.step_of(step_kind::exchange, {2}, 3).in_loop(1).step_of(step_kind::gemm, {0, 2}, 4).in_loop(1);
  w.step_of(step_kind::loop_end, {}, 0).in_loop(1).step_of(step_kind::map, {3}, 1);
  const std::vector<step> steps = overlapped(w);
  ASSERT_EQ(waits_before(steps), 4u);
  EXPECT_EQ(steps[4].in_loop, 1);
}

// Also where nothing after the loop touches what the exchange brought: the next iteration reads it.
TEST(Verify, ExchangesForTheNextIterationAreWaitedForInTheirLoop) {
  written w(4);
  w.p.loops.push_back({});
  w.step_of(step_kind::map, {0}, 2).step_of(step_kind::map, {0}, 3).step_of(step_kind::loop_begin, {}, 0).in_loop(1);
  w.step_of(step_kind::gemm, {0, 3}, 4).in_loop(1).step_of(step_kind::exchange, {2}, 3).in_loop(1);
  w.step_of(step_kind::gemm, {0, 2}, 5).in_loop(1).step_of(step_kind::loop_end, {}, 0).in_loop(1);
  const std::vector<step> steps = overlapped(w.step_of(step_kind::map, {2}, 1));
  ASSERT_EQ(waits_before(steps), 6u);
  EXPECT_EQ(steps[6].in_loop, 1);
  EXPECT_EQ(steps[7].kind, step_kind::loop_end);
}

// Offsets that only the run knows are read when the exchange is made, so it is made whole at its place.
TEST(Verify, ExchangesWithOffsetsOfTheRunAreNotSplit) {
  for (const bool at_run_time : {false, true}) {
    written w(4);
    w.step_of(step_kind::map, {0}, 2).step_of(step_kind::exchange, {2, 0}, 3).step_of(step_kind::gemm, {0, 2}, 4);
    w.step_of(step_kind::map, {3, 4}, 1);
    w.p.maps.push_back({});
    w.p.maps.back().at_run_time = at_run_time ? 1 : 0;
    w.p.steps[1].maps = 1;
    const std::vector<step> steps = overlapped(w);
    EXPECT_EQ(steps[1].in_flight, !at_run_time);
    EXPECT_EQ(steps.size(), at_run_time ? 4u : 5u);
  }
}

TEST(Verify, ExchangesWithoutWorkMeanwhileAreNotSplit) {
  const std::vector<step> steps = overlapped(
      written(4).step_of(step_kind::map, {0}, 2).step_of(step_kind::exchange, {2}, 3).step_of(step_kind::map, {3}, 1));
  EXPECT_EQ(steps.size(), 3u);
  EXPECT_FALSE(steps[1].in_flight);
}

// A value takes the free slot of its size, so that the larger one is there for the larger value.
TEST(Verify, SlotsAreTakenBySize) {
  written w(5);
  w.step_of(step_kind::gemm, {0, 0}, 2).step_of(step_kind::gemm, {0, 2}, 3).step_of(step_kind::gemm, {2, 3}, 4);
  w.step_of(step_kind::gemm, {0, 4}, 5).step_of(step_kind::gemm, {4, 5}, 6).step_of(step_kind::gemm, {5, 6}, 1);
  lowering::emitted e;
  e.made = w.p;
  e.made.slots = 0;
  constexpr std::int64_t bytes[] = {0, 0, 100, 10, 50, 10, 100};
  for (std::size_t b = 0; b < w.p.buffers.size(); ++b) {
    e.memory.push_back(b);
    lowering::storage s;
    s.role = w.p.buffers[b].role;
    s.index = w.p.buffers[b].index;
    s.bytes = bytes[b];
    s.assigned = s.role != role::workspace;
    e.storages.push_back(s);
  }
  const program p = lowering::allocate(std::move(e));
  EXPECT_TRUE(verify(p));
  EXPECT_EQ(p.slots, 3);
  EXPECT_EQ(p.buffers[5].index, p.buffers[3].index);
  EXPECT_EQ(p.buffers[6].index, p.buffers[2].index);
}

// Slots are taken by their lifetimes: what is sent keeps its memory until the exchange is over.
TEST(Verify, MemoryOfAnExchangeInFlightIsNotTakenBeforeItIsOver) {
  written w(5);
  w.step_of(step_kind::map, {0}, 2).step_of(step_kind::exchange, {2}, 3).step_of(step_kind::gemm, {0, 0}, 4);
  w.step_of(step_kind::gemm, {0, 4}, 5).step_of(step_kind::gemm, {0, 5}, 6).step_of(step_kind::gemm, {6, 3}, 1);
  lowering::emitted e;
  e.made = w.p;
  e.made.slots = 0;
  for (std::size_t b = 0; b < w.p.buffers.size(); ++b) {
    e.memory.push_back(b);
    lowering::storage s;
    s.role = w.p.buffers[b].role;
    s.index = w.p.buffers[b].index;
    s.bytes = 4;
    s.assigned = s.role != role::workspace;
    e.storages.push_back(s);
  }
  lowering::overlap_exchanges(e.made.steps, e.made.buffers, e.made.maps, e.memory);
  const program p = lowering::allocate(std::move(e));
  EXPECT_TRUE(verify(p));
  const std::size_t over = waits_before(p.steps);
  ASSERT_EQ(over, 5u);
  for (std::size_t i = 2; i < over; ++i) {
    EXPECT_NE(p.buffers[p.steps[i].out].index, p.buffers[2].index) << "step " << i;
    EXPECT_NE(p.buffers[p.steps[i].out].index, p.buffers[3].index) << "step " << i;
  }
}

} // namespace CLEAVE_SOURCE
