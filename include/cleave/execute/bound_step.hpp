// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/recorded_calls.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/storage/element_type.hpp>

#include <string>

namespace cleave { inline namespace v0 {

struct run_state;
struct fold_progress;

/// Rows `first` to `last` of a step that is cut into `rows` equal parts. One thread computes the rows from `begin` to
/// `end`, some at a time and in order, and these are the next ones.
struct row_block {
  std::int64_t first, last, rows, begin, end;
  /// Of each reduction to one number in the group: how far this thread is.
  fold_progress* progress;
};
/// The settings of a step before its rows run.
struct row_setup {
  /// A later step reads each part of the result as soon as it is written.
  bool read_again;
  /// As many bytes as the step asked for in `shared_bytes`.
  void* scratch;
  /// The number of this step among the reductions to one number.
  std::size_t fold;
};

/// A step with everything that depends on sizes and on the device. Each kind of step is a class in execute/steps/,
/// which documents there how it is bound and run.
class bound_step {
 public:
  bound_step() = default;
  bound_step(const bound_step&) = delete;
  bound_step& operator=(const bound_step&) = delete;
  virtual ~bound_step() = default;

  virtual void run(run_state& r) = 0;
  /// Ends an exchange or move that overlaps with other steps, if it is in flight.
  virtual void finish([[maybe_unused]] run_state& r) {}
  /// Scratch memory, which all steps share.
  virtual comm::scratch_bytes shared_bytes() const { return {}; }
  /// Memory of its own. `settle` gives it, when the addresses of the workspace are known.
  virtual comm::scratch_bytes own_bytes() const { return {}; }
  /// Whether it needs that memory until its wait, and not when it has nothing in flight.
  virtual bool frees_when_waited() const { return false; }
  virtual void settle([[maybe_unused]] const comm::scratch& own, [[maybe_unused]] run_state& r) {}
  /// How many of the first dims of its loop `run_rows` may cut the step along; 0: it runs as a whole.
  virtual int row_dims() const { return 0; }
  /// Whether it reduces all rows to one number. `finish_rows` computes it from the partial results of the threads.
  virtual bool folds_all_rows() const { return false; }
  /// Before `run_rows`.
  virtual void prepare_rows([[maybe_unused]] run_state& r, [[maybe_unused]] const row_setup& setup) {}
  /// The rows that need no message that may still be in flight. The others run after `await_messages`.
  virtual range free_rows([[maybe_unused]] run_state& r, std::int64_t rows) const { return {0, rows}; }
  virtual void await_messages([[maybe_unused]] run_state& r) {}
  /// Some rows of the step. Threads call it at the same time for different rows.
  virtual void run_rows([[maybe_unused]] run_state& r, [[maybe_unused]] const row_block& rows) const {}
  /// After all rows, on one thread. Each thread had the rows between two neighbours of `cuts`.
  virtual void finish_rows([[maybe_unused]] run_state& r, [[maybe_unused]] const indexed_vector<std::int64_t>& cuts) {}
  /// Whether the result may be written to the memory of an operand, by the number of the buffer. It reads no element
  /// after it is overwritten, or keeps a copy.
  virtual bool may_replace([[maybe_unused]] std::size_t buffer) const { return false; }
  /// The next step; `number` is its own.
  virtual std::size_t next(std::size_t number) const { return number + 1; }
};

/// Steps `first` to `last`, which may run together.
class step_group {
 public:
  step_group() = default;
  step_group(const step_group&) = delete;
  step_group& operator=(const step_group&) = delete;
  virtual ~step_group() = default;

  /// False if they have to run one by one; nothing has run then.
  virtual bool run(run_state& r) = 0;
  /// Scratch memory: of all its steps, which use it at the same time.
  std::int64_t shared_bytes = 0;

  std::size_t first = 0, last = 0;
};

/// An observer of the steps of a call while they run: checked mode. An interface, so that the run time does not depend
/// on it.
class call_hooks {
 public:
  /// The address of each buffer.
  using addresses = indexed_vector<void*>;

  call_hooks() = default;
  call_hooks(const call_hooks&) = delete;
  call_hooks& operator=(const call_hooks&) = delete;
  virtual ~call_hooks() = default;

  virtual void before_call(const addresses& at) = 0;
  virtual void before_step(std::size_t i, const addresses& at) = 0;
  virtual void after_step(std::size_t i, const addresses& at) = 0;
  /// A number that decides whether a loop continues.
  virtual std::int64_t agreed(std::int64_t number) = 0;
};

/// The state that the steps of a program share while it runs.
struct run_state {
  grid_state& grid;
  /// The address of each buffer.
  indexed_vector<void*> at{};
  comm::scratch scratch{};
  indexed_vector<owned<bound_step>> steps{};
  indexed_vector<owned<step_group>> groups{};
  /// The steps of the plan, and the bytes of their messages and of their results here, for the record of calls.
  const step* plan = nullptr;
  indexed_vector<std::int64_t> bytes{}, results{};
  /// By step: the exchanges whose elements the ghosts of an argument have from an earlier call; empty: none.
  indexed_vector<std::uint8_t> left_out{};
  /// Names of the steps in profiles.
  indexed_vector<std::string> names{};
  /// Exchanges that overlap with other steps.
  indexed_vector<comm::bound_exchange*> in_flight{};
  /// Gives MPI the time to move their messages. The first exchange sets it, so that programs without exchanges do not
  /// compile it; g++ guesses the target of a virtual call, and would.
  void (*progress)(const indexed_vector<comm::bound_exchange*>&) = nullptr;
  /// In checked mode.
  call_hooks* checks = nullptr;

  bool leaves_out(std::size_t step) const { return !left_out.empty() && left_out[step] != 0; }

  /// Runs steps `first` to `last`, loops among them.
  void run_steps(std::size_t first, std::size_t last) {
    comm::step_recorder recorder;
    while (first < last) {
      const bool idle = leaves_out(plan[first].kind == step_kind::wait ? plan[first].begun : first);
      recorder.note(plan[first], idle ? 0 : bytes[first], idle ? 0 : results[first]);
      std::size_t next = run_group(first, last);
      if (next == first) {
        next = steps[first]->next(first);
        if (next == first + 1) run_step(first);
        else steps[first]->run(*this);
      }
      first = next;
    }
  }

 private:
  /// Runs the group that begins with a step, if there is one and it ends before `last`; the step after it.
  std::size_t run_group(std::size_t first, std::size_t last) {
    for (const auto& g : groups)
      if (g->first == first && g->last <= last && g->run(*this)) {
        if (!in_flight.empty()) progress(in_flight);
        return g->last;
      }
    return first;
  }
  void run_step(std::size_t i) {
    if (checks != nullptr) checks->before_step(i, at);
    Kokkos::Profiling::pushRegion(names[i]);
    steps[i]->run(*this);
    if (!in_flight.empty()) progress(in_flight);
    Kokkos::Profiling::popRegion();
    if (checks != nullptr) checks->after_step(i, at);
  }
};

/// A new step. Steps are class templates: g++ compiles the virtual functions of every plain class
/// until it has inlined calls, whether or not anything makes one.
template <class Step, class... From>
[[gnu::cold]] owned<bound_step> make_step(From&&... from) {
  return owned<bound_step>(new Step(std::forward<From>(from)...));
}

/// A step whose work another one does.
template <class = void>
class idle_step final : public bound_step {
 public:
  void run(run_state&) override {}
};

/// The addresses that a step reads.
struct operand_addresses {
  const void* from[max_operands];
  std::size_t count;
  operand_addresses(const run_state& r, const step& s) : count(s.in.size()) {
    for (std::size_t k = 0; k < count; ++k) from[k] = r.at[s.in[k]];
  }
  /// Whether an operand has the address of a result.
  bool has_any(const run_state& r, indexed_span<const step> pass) const {
    for (const step& s : pass)
      for (std::size_t k = 0; k < count; ++k)
        if (from[k] == r.at[s.out]) return true;
    return false;
  }
};

/// The addresses that the maps of a pass write.
struct result_addresses {
  void* to[max_results];
  result_addresses(const run_state& r, indexed_span<const step> pass) {
    for (std::size_t k = 0; k < pass.size(); ++k) to[k] = r.at[pass[k].out];
  }
};

/// How steps of one form are bound: steps that need the same code, for any sizes and layouts, in any plan.
struct step_form {
  owned<bound_step> (*bind)(const binder&, const step&, const void*) = nullptr;
  /// The last argument of `bind`: of maps and folds the functions of their expression.
  const void* code = nullptr;
};

/// The form of the steps of a kind: `step_code<Kind>::form<Plan, I>()` for step I of a plan. Each kind specialises it
/// in its file in execute/steps/, from only those facts of the plan on which the code of the step depends.
template <step_kind Kind>
struct step_code;

namespace detail {

template <class Step>
owned<bound_step> bind_as(const binder& b, const step& s, const void*) {
  return make_step<Step>(b, s);
}
template <class = void>
owned<bound_step> bind_idle(const binder&, const step&, const void*) {
  return make_step<idle_step<>>();
}
/// The code of steps that one function binds.
template <auto Bind>
struct code_bound_by {
  template <class, std::size_t>
  static constexpr step_form form() {
    return {Bind};
  }
};

/// The C++ type of the elements of a buffer of a plan.
template <class Plan, std::size_t Buffer>
using element_at = typename element_type<Plan::frozen.buffers[Buffer].type.element>::type;

} // namespace detail

}} // namespace cleave::v0
