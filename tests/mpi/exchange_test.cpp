// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exchanges of random programs, each run by itself on real ranks: every element is the one that its map names, and what
// MPI was charged is the price.
// g++ 12 warns of strings of the library, inlined here, where there is nothing to warn of (its bug 105329).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wrestrict"
#endif
#include "../given_blocks.hpp"
#include "../random_movement.hpp"
#include "support.hpp"

#include <cleave/comm/joined_exchange.hpp>
#include <cleave/simulate/remap.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <set>

namespace CLEAVE_SOURCE {

using namespace cleave;

/// A number for each element of an operand, not 0.
double number(std::size_t operand, std::size_t flat) {
  return 1000.0 * static_cast<double>(operand + 1) + static_cast<double>(flat);
}

bool is_offset(const comm::exchange_spec& e, std::size_t operand) {
  for (const dim_map& m : e.maps)
    if (m.at_run_time != 0 && m.at_run_time == operand) return true;
  return false;
}

void check(grid_state& grid, const program& p, const step& s, const sizes& at, std::int64_t place, unsigned seed) {
  comm::exchange_spec e = comm::exchange_of(p, s, at);
  // What is taken from nowhere becomes 0 here.
  e.keeps = false;
  const coordinates& here = grid.here();
  const auto whole = [&](const tensor_type& t) { return box_of(shape_of(t, at), layout{}, {}, at.axes); };
  std::vector<support::on_device<double>> shards;
  std::vector<const void*> in;
  std::vector<std::int64_t> offsets(max_arity, place);
  for (std::size_t k = 0; k < e.in.size(); ++k) {
    const box mine = box_of(shape_of(e.in[k].type, at), e.in[k].where, here, at.axes);
    std::vector<double> shard(static_cast<std::size_t>(mine.elements()) + 1, 0);
    simulation::for_each_index(mine, [&](const simulation::position& i, std::size_t flat) {
      shard[flat] = number(k, simulation::offset_in(whole(e.in[k].type), i));
    });
    shards.emplace_back(shard);
  }
  const support::on_device<std::int64_t> offset({place});
  for (std::size_t k = 0; k < e.in.size(); ++k)
    in.push_back(is_offset(e, k) ? static_cast<const void*>(offset.data()) : shards[k].data());

  comm::exchange<> x(grid, e);
  const support::scratch_memory scratch(x.needs());
  const box mine = indices_of(e.out, e.region, at, here);
  constexpr double untouched = -7;
  for (int times = 0; times < 2; ++times) {
    std::vector<double> out(static_cast<std::size_t>(elements_of(e.out, e.region, at, here)) + 1, untouched);
    support::reset_charges();
    const support::on_device<double> result(out);
    void* const filled = result.data();
    x.run(in.data(), &filled, scratch);
    out = result.read();
    const std::int64_t charged = support::over_ranks(support::charged_bytes()), priced = step_bytes(p, s, at);
    bool at_run_time = false;
    for (std::size_t k = 0; k < e.in.size(); ++k) at_run_time = at_run_time || is_offset(e, k);
    if (at_run_time) ASSERT_LE(charged, priced) << "seed " << seed;
    else ASSERT_EQ(charged, priced) << "seed " << seed << "\n" << explain(p, at);
    ASSERT_EQ(out.back(), untouched) << "seed " << seed;
    std::int64_t wrong = 0;
    simulation::for_each_index(mine, [&](const simulation::position& i, std::size_t flat) {
      std::uint32_t part = 0, digit = 1;
      for (const dim_map& m : e.region) {
        const int d = e.out.type.find(m.from);
        const range block = held(at.along(m.to), e.out.where[d], here, at.axes);
        const std::int64_t index = i[static_cast<std::size_t>(d)];
        part += digit * (!surrounds(m) ? 1u : index < block.begin ? 0u : index < block.end ? 1u : 2u);
        digit *= 3;
      }
      if (e.is_region() && (e.parts >> part & 1) == 0) return;
      // The parts of a halo lie one after the other.
      std::size_t at_part = flat;
      if (e.out.form == form::halo)
        at_part = static_cast<std::size_t>(offset_of_part(e.out, part, e.region, at, here)) +
                  simulation::offset_in(part_of_halo(e.out, part, e.region, at, here), i);
      double wanted = 0;
      for (std::size_t k = 0; k < e.in.size(); ++k) {
        if (!e.takes_from(k)) continue;
        const auto source = simulation::source_of(e.maps, static_cast<std::uint8_t>(k), e.in[k].type, e.out.type, i, at,
                                                  offsets);
        if (source) wanted = number(k, simulation::offset_in(whole(e.in[k].type), *source));
      }
      wrong += out[at_part] != wanted;
    });
    ASSERT_EQ(support::over_ranks(wrong), 0) << "seed " << seed << "\n" << explain(p, at);
  }
}

/// Every third program goes through the memory of the host.
comm::gpu_aware staging_of(unsigned seed) { return seed % 3 == 0 ? comm::gpu_aware::never : comm::gpu_aware_mode(); }

/// What a plan predicts is what the exchange asks for, where all goes through MPI, and no less elsewhere. Whether it is
/// anything.
bool check_memory(grid_state& grid, grid_state& by_mpi, const comm::exchange_spec& e) {
  const std::int64_t predicted = comm::room_of(e, grid.here()).bytes(e.out.type.element);
  if (comm::staged()) return predicted > 0;
  EXPECT_EQ(comm::exchange<>(by_mpi, e).needs().memory, predicted);
  EXPECT_LE(comm::exchange<>(grid, e).needs().memory, predicted);
  return predicted > 0;
}

/// Not inlined: g++ 12 warns of its strings where there is nothing to warn of.
[[gnu::noinline]] std::shared_ptr<grid_state> made_apart(const mesh_value& mesh,
                                                         const std::vector<std::int64_t>& axis_extents) {
  return std::make_shared<grid_state>(mesh, MPI_COMM_WORLD, axis_extents, std::nullopt, &comm::shared_memory);
}

TEST(exchange, of_random_programs) {
  int run = 0, regions = 0, packing = 0;
  for (std::size_t axes = 1; axes <= 2; ++axes)
    for (const auto& axis_sizes_ : support::factorings(support::ranks(), axes)) {
      mesh_value mesh = support::mesh_of(axes);
      const std::shared_ptr<grid_state> grid = made_apart(mesh, axis_sizes_);
      const std::shared_ptr<grid_state> by_mpi = [&] {
        const support::only_mpi here;
        return made_apart(mesh, axis_sizes_);
      }();
      for (std::size_t a = 0; a < axes; ++a) mesh.axes[a].size = axis_sizes_[a];
      for (unsigned seed = 0; seed < 250 && !::testing::Test::HasFatalFailure(); ++seed) {
        random_programs::random_movement p(seed, mesh);
        p.build(2);
        p.operate();
        p.finish();
        sizes at = p.at();
        const program planned = partition(p.made(), at, policy::time());
        ASSERT_TRUE(planned.found.ok()) << "seed " << seed;
        // Every other plan runs with blocks of given sizes.
        std::list<block_table> tables;
        if (seed % 2 != 0) support::give_blocks(p.made(), at, seed, tables);
        const std::int64_t place = static_cast<std::int64_t>(seed % 23) - 11;
        for (const step& s : planned.steps)
          // The elements here are doubles; what is reversed may be the indices that are cast to them.
          if (s.kind == step_kind::exchange && planned.buffers[s.out].type.element == element::f64) {
            {
              const support::setting staged(comm::gpu_aware_mode(), staging_of(seed));
              check(*grid, planned, s, at, place, seed);
            }
            packing += check_memory(*grid, *by_mpi, comm::exchange_of(planned, s, at));
            ++run;
            regions += has_neighbours(planned.buffers[s.out]);
          }
      }
    }
  EXPECT_GT(run, 200);
  EXPECT_GT(regions, 50);
  EXPECT_TRUE(support::ranks() == 1 || support::over_ranks(packing) > 20);
}

/// Whether an exchange has no offsets that only the run knows.
bool has_fixed_offsets(const program& p, const step& s) {
  for (const dim_map& m : std::span(p.maps).subspan(s.first_map, s.maps))
    if (m.at_run_time != 0) return false;
  return s.kind == step_kind::exchange;
}
/// Bytes of any exchange: those of an operand, and those that it fills.
std::int64_t filled_bytes(const comm::exchange_spec& e, const grid_state& grid) {
  return elements_of(e.out, e.region, e.at, grid.here()) * size_of(e.out.type.element);
}
std::vector<unsigned char> operand_bytes(const comm::exchange_spec& e, std::size_t k, const grid_state& grid) {
  const box mine = box_of(shape_of(e.in[k].type, e.at), e.in[k].where, grid.here(), e.at.axes);
  std::vector<unsigned char> bytes(static_cast<std::size_t>(mine.elements() * size_of(e.in[k].type.element)) + 1);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(37 * i + 11 * k + 101 * static_cast<std::size_t>(support::rank()) + 1);
  return bytes;
}

/// Runs exchanges one by one and then together, which must fill the same bytes, move as much, and send no more than one
/// message to each device.
void check_together(grid_state& grid, const std::vector<comm::exchange_spec>& specs, unsigned seed) {
  std::vector<support::on_device<unsigned char>> operands;
  std::vector<const void*> in;
  for (const comm::exchange_spec& e : specs)
    for (std::size_t k = 0; k < e.in.size(); ++k) operands.emplace_back(operand_bytes(e, k, grid));
  for (const auto& each : operands) in.push_back(each.data());
  // What a halo or a region does not need stays as it was.
  const auto untouched = [&](const comm::exchange_spec& e) {
    return std::vector<unsigned char>(static_cast<std::size_t>(filled_bytes(e, grid)) + 1, 0xA5);
  };
  std::vector<std::vector<unsigned char>> wanted;
  std::int64_t charged = 0, sent = 0, most_sent = 0, memory = 0;
  std::size_t first = 0;
  for (const comm::exchange_spec& e : specs) {
    comm::exchange<> alone(grid, e);
    const support::scratch_memory scratch(alone.needs());
    const support::on_device<unsigned char> result(untouched(e));
    void* const out = result.data();
    support::reset_charges();
    alone.run(in.data() + first, &out, scratch);
    charged += support::charged_bytes();
    sent += support::sent_messages();
    most_sent = std::max(most_sent, support::sent_messages());
    memory += alone.needs().memory;
    wanted.push_back(result.read());
    first += e.in.size();
  }
  comm::joined_exchange<> together(grid, specs);
  const support::scratch_memory scratch(together.needs());
  // What travels together is packed, and the host has a copy of all, with padding between messages of different
  // elements.
  const std::int64_t most = comm::staged() ? memory + 2 * 64 + 2 * 16 * support::ranks()
                                           : comm::joined_scratch(specs, grid.here());
  EXPECT_LE(together.needs().memory, most) << "seed " << seed;
  for (int times = 0; times < 2; ++times) {
    std::vector<support::on_device<unsigned char>> results;
    std::vector<void*> out;
    for (const comm::exchange_spec& e : specs) results.emplace_back(untouched(e));
    for (const auto& each : results) out.push_back(each.data());
    support::reset_charges();
    together.run(in.data(), out.data(), scratch);
    ASSERT_EQ(support::charged_bytes(), charged) << "seed " << seed;
    ASSERT_LE(support::sent_messages(), std::min<std::int64_t>(sent, support::ranks() - 1)) << "seed " << seed;
    ASSERT_GE(support::sent_messages(), most_sent) << "seed " << seed;
    std::int64_t wrong = 0;
    for (std::size_t k = 0; k < specs.size(); ++k) wrong += results[k].read() != wanted[k];
    ASSERT_EQ(support::over_ranks(wrong), 0) << "seed " << seed;
  }
}

// Exchanges of random programs that share messages: several of one program, of elements of all sizes.
TEST(exchange, together_as_one_by_one) {
  constexpr element of_size[] = {element::u8, element::bf16, element::f32, element::f64, element::c128};
  int run = 0;
  for (const auto& axis_sizes_ : support::factorings(support::ranks(), 2)) {
    mesh_value mesh = support::mesh_of(2);
    const std::shared_ptr<grid_state> grid = made_apart(mesh, axis_sizes_);
    const std::shared_ptr<grid_state> by_mpi = [&] {
      const support::only_mpi here;
      return made_apart(mesh, axis_sizes_);
    }();
    for (std::size_t a = 0; a < 2; ++a) mesh.axes[a].size = axis_sizes_[a];
    for (unsigned seed = 0; seed < 120 && !::testing::Test::HasFatalFailure(); ++seed) {
      std::vector<comm::exchange_spec> specs;
      for (unsigned n = 0; n < 4; ++n) {
        random_programs::random_movement p(4 * seed + n, mesh);
        p.build(2);
        p.operate();
        p.finish();
        const sizes at = p.at();
        const program planned = partition(p.made(), at, policy::time());
        for (const step& s : planned.steps) {
          if (!has_fixed_offsets(planned, s) || s.keeps) continue;
          comm::exchange_spec e = comm::exchange_of(planned, s, at);
          e.out.type.element = of_size[(seed + specs.size()) % 5];
          for (buffer& b : e.in) b.type.element = e.out.type.element;
          specs.push_back(e);
        }
      }
      if (specs.size() < 2) continue;
      {
        const support::setting staged(comm::gpu_aware_mode(), staging_of(seed));
        check_together(*grid, specs, seed);
      }
      ++run;
      const std::int64_t predicted = comm::joined_scratch(specs, grid->here());
      if (comm::staged()) continue;
      EXPECT_EQ(comm::joined_exchange<>(*by_mpi, specs).needs().memory, predicted) << "seed " << seed;
    }
  }
  EXPECT_GT(run, 50);
}

} // namespace CLEAVE_SOURCE
