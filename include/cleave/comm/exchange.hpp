// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/box_messages.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/program/exchange_scratch.hpp>
#include <cleave/storage/element_type.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// Fills a buffer with elements of others under other indices: halos, shifts, slices, paddings, concatenations. Every
/// device receives only the elements that it needs and does not hold, each once.
/// Communication: one message for each pair of devices of which one needs elements of the other; no empty messages.
/// Offsets that are known only at run time are read from device memory, which waits for kernels.
/// A template, so that programs without exchanges do not compile its virtual functions.
template <class = void>
class exchange final : public bound_exchange {
 public:
  [[gnu::cold]] exchange(grid_state& grid, exchange_spec spec)
      : grid_(&grid), e_(std::move(spec)), element_(e_.out.type.element), boxes_(grid.devices(), element_) {
    at_run_time_ = moves_at_run_time(e_);
    for_each_member(e_, grid.here(),
                    [&](std::int64_t device, const coordinates& at) { members_.push_back({rank_number(device), at}); });
    if constexpr (!on_host) {
      zero_ = allocate(sizeof zeros);
      fill_identity(zero_.get(), as_int(sizeof zeros) / size_of(element_), element_, reduction::sum);
    }
    plan(offsets{});
    if (at_run_time_) {
      reserve_for_any();
      find_moving_dims();
    }
    needed_ = boxes_.needs();
    staging_at_ = needed_.memory;
    needed_.memory += aligned(staging_ * size());
  }

  scratch_bytes needs() const override { return needed_; }

  void begin(const void* const* in, void* const* out, const scratch& s) override {
    if (at_run_time_) follow(read_offsets(in));
    start(*out, s);
    boxes_.begin(in, to_, s);
  }
  bool communicates() const override { return boxes_.communicates(); }
  void progress() override { boxes_.progress(); }
  void finish() override {
    boxes_.finish();
    spread();
  }

 private:
  template <class>
  friend class joined_exchange;
  using offsets = fixed_array<std::int64_t, max_arity>;
  /// A zero of any element type, in host memory.
  alignas(16) static constexpr char zeros[16]{};
  const void* zero() const { return on_host ? zeros : zero_.get(); }
  using message = box_messages::message;
  /// Memory that a part of the exchange fills: its extents, its strides and its first index in the result.
  struct memory_part {
    shape extents{};
    strides stride{};
    std::int64_t begin = 0;
  };
  struct member {
    int device;
    coordinates at;
  };
  /// A dim with an offset known at run time; this device holds all its indices on both sides.
  struct moving_dim {
    std::size_t operand, offset;
    std::int64_t sign, constant, from_extent, to_extent, from_stride, to_stride;

    enum class whole { neither, result, operand };
    /// Which side is used from its first index to its last. There copies move on the other side with the offset.
    whole at(const offsets& known) const {
      const std::int64_t first = constant + sign * known[offset];
      if (first >= 0 && first + to_extent <= from_extent) return whole::result;
      return first <= 0 && first + to_extent >= from_extent ? whole::operand : whole::neither;
    }
  };

  std::int64_t size() const { return size_of(element_); }
  void start(void* out, const scratch& s) {
    to_[of_result] = out;
    to_[of_stage] = s.memory + staging_at_;
    for (const box_copy& c : blank_) {
      // On a device this would be a copy between two fences.
      if (on_host && c.writes_one_run()) zero_bytes(element_at(out, c.to_offset, element_), c.elements * size());
      else copy_box(c, zero(), out, size());
    }
  }
  void spread() const {
    for (const box_copy& c : spread_) copy_box(c, to_[of_stage], to_[of_result], size());
  }
  box shard_of(std::size_t operand, const coordinates& at) const { return comm::shard_of(e_, operand, at); }
  strides own_strides(std::size_t operand) const { return strides_of_operand(e_, operand, grid_->here()); }
  shape extents_at(const coordinates& at, std::uint32_t part = 0) const { return e_.filled_by(part, at).extents(); }
  bool shares(std::size_t operand, const coordinates& a, const coordinates& b) const {
    return comm::shares(e_, operand, a, b);
  }

  offsets read_offsets(const void* const* in) const {
    offsets known{};
    for (const dim_map& m : e_.maps) {
      if (m.at_run_time == 0) continue;
      const element e = e_.in[m.at_run_time].type.element;
      std::int64_t bits = 0;
      wait_for_kernels();
      copy_bytes<Kokkos::HostSpace, memory_space>(&bits, in[m.at_run_time], size_of(e));
      with_element(e, [&]<class T>(T) {
        if constexpr (std::is_integral_v<T>) {
          T value{};
          std::memcpy(&value, &bits, sizeof(T));
          known[m.at_run_time] = static_cast<std::int64_t>(value);
        }
      });
    }
    return known;
  }

  /// If no element comes from other devices, an offset may only move the copies.
  [[gnu::cold]] void find_moving_dims() {
    if (members_.size() > 1 || e_.is_region()) return;
    const strides to = strides_of(extents_at(grid_->here()));
    for (const dim_map& m : e_.maps) {
      if (m.at_run_time == 0) continue;
      const buffer& operand = e_.in[m.operand];
      const int at_from = operand.type.find(m.from), at_to = e_.out.type.find(m.to);
      const index_map bound_to = bound(m, e_.at, 0);
      const bool plain = m.stride == 1 && m.divisor == 1 && m.window == no_dim && m.outside == border::zero;
      if (!plain || !operand.where[at_from].empty() || !e_.out.where[at_to].empty() ||
          major_of(e_, m.operand, m.to) != nullptr) {
        moving_.clear();
        return;
      }
      moving_.push_back({m.operand, m.at_run_time, m.sign, bound_to.offset, bound_to.extent, e_.at[m.to],
                         own_strides(m.operand)[at_from], to[at_to]});
    }
  }
  void follow(const offsets& known) {
    bool same = true;
    for (int k = 0; k < max_arity; ++k) same = same && known[as_size(k)] == planned_[as_size(k)];
    if (!same && !move(known)) plan(known);
  }
  /// Moves the copies to other offsets; false if those offsets need other copies.
  bool move(const offsets& known) {
    if (moving_.empty() || !spread_.empty()) return false;
    for (const moving_dim& d : moving_)
      if (d.at(known) == moving_dim::whole::neither || d.at(known) != d.at(planned_)) return false;
    for (const moving_dim& d : moving_) {
      const std::int64_t by = d.sign * (known[d.offset] - planned_[d.offset]);
      const bool reads_further = d.at(known) == moving_dim::whole::result;
      for (box_messages::part& p : boxes_.kept()) {
        if (p.from != d.operand) continue;
        if (reads_further) p.copy.from_offset += by * d.from_stride;
        else p.copy.to_offset -= by * d.to_stride;
      }
    }
    planned_ = known;
    return true;
  }
  void plan(const offsets& known) {
    planned_ = known;
    boxes_.clear();
    spread_.clear();
    blank_.clear();
    staging_ = 0;
    plan_receives(known);
    plan_sends(known);
    boxes_.reserve();
  }
  /// The boxes that this device fills, by source.
  void plan_receives(const offsets& known) {
    const coordinates& here = grid_->here();
    indexed_vector<message> from(members_.size());
    indexed_vector<std::int64_t> filled(as_size(e_.part_count()), 0);
    const auto memory_of = [&](std::uint32_t part) {
      return memory_part{extents_at(here, part), e_.strides_at(part, here), e_.begins_at(part, here)};
    };
    for_each_filling(e_, here, known, [&](std::size_t k, const filling& f, std::uint32_t part) {
      filled[part] += f.filled;
      plan_filling(f, k, memory_of(part), from);
    });
    for (std::uint32_t part = 0; part < e_.part_count() && !e_.keeps; ++part) {
      if (!e_.needs_part(part)) continue;
      const box_copy all = blank_copy(part, memory_of(part), here);
      if (filled[part] < all.elements) blank_.push_back(all);
    }
    for (std::size_t m = 0; m < members_.size(); ++m) boxes_.add_received(std::move(from[m]), members_[m].device);
  }
  void plan_filling(const filling& f, std::size_t operand, const memory_part& mine, indexed_vector<message>& from) {
    const coordinates& here = grid_->here();
    const shape staged = f.staged ? staging_extents(f, mine.extents) : shape{};
    const strides target = f.staged ? strides_of(staged) : mine.stride;
    const std::int64_t base = f.staged ? staging_ : mine.begin;
    const std::size_t array = f.staged ? of_stage : of_result;
    if (f.staged) {
      staging_ += staged.elements();
      for_each_spread(f, staged, mine.stride, [&](const exchange_piece& p) {
        spread_.push_back(make_copy(p.extents, p.from, base + p.from_offset, p.to, mine.begin + p.to_offset));
      });
    }
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const coordinates& at = members_[m].at;
      if (members_[m].device == grid_->world().rank)
        for_each_piece(f, shard_of(operand, here), own_strides(operand), target, [&](const exchange_piece& p) {
          boxes_.kept().push_back(
              {make_copy(p.extents, p.from, p.from_offset, p.to, base + p.to_offset), operand, array});
        });
      else if (shares(operand, at, here))
        for_each_piece(f, shard_of(operand, at), {}, target,
                       [&](const exchange_piece& p) { from[m].unpack(p.extents, p.to, base + p.to_offset, array); });
    }
  }
  /// The boxes that this device sends: those that the receivers find by `plan_receives`.
  void plan_sends(const offsets& known) {
    for (const member& to : members_) {
      if (to.device == grid_->world().rank) continue;
      message out;
      for_each_sent(e_, grid_->here(), to.at, known,
                    [&](std::size_t k, const exchange_piece& p) { out.pack(p.extents, p.from, p.from_offset, k); });
      boxes_.add_sent(std::move(out), to.device);
    }
  }
  box_copy blank_copy(std::uint32_t part, const memory_part& target, const coordinates& here) const {
    const shape& mine = target.extents;
    if (e_.out.form == form::halo)
      return make_copy(mine, {}, 0, target.stride, mine.elements() == 0 ? 0 : target.begin);
    shape extents = mine;
    std::int64_t offset = 0;
    const strides stride = strides_of(mine);
    for (std::size_t m = 0; m < e_.region.size() && e_.is_region(); ++m) {
      const dim_map& map = e_.region[m];
      const int i = e_.out.type.find(map.from);
      const range block = held(e_.at.along(map.to), e_.out.where[i], here, e_.at.axes),
                  wanted = part_along(map, block, digit_of(part, m));
      extents[i] = wanted.size();
      offset += (wanted.begin - region_range(map, block).begin) * stride[i];
    }
    return make_copy(extents, {}, 0, stride, extents.elements() == 0 ? 0 : offset);
  }

  /// Reserves for the worst case over all offsets.
  [[gnu::cold]] void reserve_for_any() {
    const exchange_room room = room_for_any(e_, grid_->here());
    staging_ = room.staged;
    boxes_.reserve_for(room.sent, room.received, 2 * std::ssize(members_));
  }

  /// The arrays that boxes are written to.
  enum : std::size_t { of_result, of_stage };

  grid_state* grid_;
  exchange_spec e_;
  element element_;
  bool at_run_time_ = false;
  /// The offsets of the copies; and the dims along which the copies may move, if offsets change nothing else.
  offsets planned_{};
  indexed_vector<moving_dim> moving_{};
  indexed_vector<member> members_{};
  box_messages boxes_;
  /// From the staging memory to the result, and zeros.
  indexed_vector<box_copy> spread_{}, blank_{};
  /// Elements of the staging memory, and where in the scratch memory it begins, in bytes: behind the messages.
  std::int64_t staging_ = 0, staging_at_ = 0;
  scratch_bytes needed_{};
  void* to_[2] = {};
  /// On a device.
  std::shared_ptr<void> zero_{};
};

}}} // namespace cleave::v0::comm
