// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/program.hpp>

#include <array>

namespace cleave {

/// A finished program of fixed size: the constant that the run time unrolls.
template <std::size_t Buffers, std::size_t Steps, std::size_t Maps>
using frozen_program = basic_program<std::array<buffer, Buffers>, std::array<step, Steps>, std::array<dim_map, Maps>>;

namespace detail {

/// How many buffers, steps and maps a program has.
struct program_counts {
  std::size_t buffers = 0, steps = 0, maps = 0;
};

/// A program in containers of another kind; those of fixed size may be larger than what there is.
template <class To, class From>
constexpr To copied(const From& from, const program_counts& n) {
  To to;
  to.mesh = from.mesh;
  to.dims = from.dims;
  to.rules = from.rules;
  to.loops = from.loops;
  to.arguments = from.arguments;
  to.results = from.results;
  to.slots = from.slots;
  to.found = from.found;
  if constexpr (requires { to.steps.resize(n.steps); }) {
    to.buffers.resize(n.buffers);
    to.steps.resize(n.steps);
    to.maps.resize(n.maps);
  }
  for (std::size_t i = 0; i < n.buffers; ++i) to.buffers[i] = from.buffers[i];
  for (std::size_t i = 0; i < n.steps; ++i) to.steps[i] = from.steps[i];
  for (std::size_t i = 0; i < n.maps; ++i) to.maps[i] = from.maps[i];
  return to;
}

/// A program in arrays that may be larger than it is: what constant evaluation can return, and from which the arrays of
/// the right size follow.
template <std::size_t Buffers, std::size_t Steps, std::size_t Maps>
struct roomy_program {
  frozen_program<Buffers, Steps, Maps> kept{};
  program_counts count{};
};
template <std::size_t Buffers, std::size_t Steps, std::size_t Maps>
constexpr roomy_program<Buffers, Steps, Maps> freeze(const program& p) {
  const program_counts n{p.buffers.size(), p.steps.size(), p.maps.size()};
  return {copied<frozen_program<Buffers, Steps, Maps>>(p, n), n};
}

} // namespace detail

} // namespace cleave
