// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/exchange_pieces.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/storage/fill.hpp>

#include <vector>

namespace cleave::comm {

/// Fills a buffer with elements of others under other indices: halos, shifts, slices, paddings, concatenations. Every device
/// receives just the elements that it needs and does not hold, each once.
/// Communication: one message for each device that has something that another one needs; none for empty ones. Offsets that only the
/// run knows are read from the device that has computed them, which waits for its kernels.
class exchange final : public bound_exchange {
 public:
  exchange(grid_state& grid, exchange_spec spec) : grid_(&grid), e_(std::move(spec)), element_(e_.out.type.element), port_(staged()), staged_host_(staged()) {
    for (const dim_map& m : e_.maps) at_run_time_ = at_run_time_ || m.at_run_time != 0;
    for (std::size_t k = 0; k < e_.in.size(); ++k)
      if (e_.takes_from(k)) over_ = static_cast<axis_set>(over_ | e_.fetched(k));
    const axis_sizes& sizes = grid.sizes();
    for (std::int64_t d = 0; d < sizes.devices(); ++d) {
      const coordinates at = coordinates_of(d, sizes);
      bool alike = true;
      for (std::size_t a = 0; a < max_axes; ++a) alike = alike && ((over_ >> a & 1) != 0 || at[a] == grid.here()[a]);
      if (alike) members_.push_back({static_cast<int>(d), at});
    }
    zero_ = allocate(16);
    fill_identity(zero_.get(), 16 / size_of(element_), element_, reduction::sum);
    const std::array<std::int64_t, max_arity> somewhere{};
    plan(somewhere);
    if (at_run_time_) reserve_for_any();
    needed_ = {aligned(sent_ * size()) + aligned(received_ * size()) + aligned(staging_ * size()), staged_host_ ? aligned(sent_ * size()) + aligned(received_ * size()) : 0};
  }

  scratch_bytes needs() const override { return needed_; }

  void begin(const void* const* in, void* out, const scratch& s) override {
    if (at_run_time_) plan(read_offsets(in));
    scratch_ = s;
    out_ = out;
    char* const sending = s.memory;
    char* const host_sending = s.host;
    for (const box_copy& c : blank_) copy_box(c, zero_.get(), out, size());
    for (const message& m : receive_) messages_.receive(port_.incoming(place_of(m), host_receiving() + m.offset * size()), m.elements, element_, m.peer, grid_->world().handle);
    for (const message& m : send_)
      if (!m.direct)
        for (const box_copy& c : m.copies) copy_box(c, in[c_operand(m, c)], sending, size());
    for (const message& m : send_) {
      const void* from = m.direct ? element_at(in[m.operands[0]], m.copies[0].from_offset, element_) : sending + m.offset * size();
      messages_.send(port_.outgoing(from, host_sending + m.offset * size(), m.elements * size()), m.elements, element_, m.peer, grid_->world().handle);
    }
    for (const local_copy& l : keep_) copy_box(l.copy, in[l.operand], target(l.stage), size());
  }
  void progress() override { messages_.progress(); }
  void finish() override {
    messages_.wait();
    for (const message& m : receive_) {
      port_.arrived(place_of(m), host_receiving() + m.offset * size(), m.elements * size());
      if (m.direct) continue;
      for (std::size_t i = 0; i < m.copies.size(); ++i) copy_box(m.copies[i], receiving(), target(m.stages[i]), size());
    }
    for (const local_copy& l : spread_) copy_box(l.copy, target(l.stage), out_, size());
  }

 private:
  struct message {
    int peer = 0;
    std::int64_t elements = 0;
    std::int64_t offset = 0;
    std::vector<box_copy> copies{};
    std::vector<std::size_t> operands{};
    std::vector<std::int64_t> stages{};
    bool direct = false;
    std::int64_t stage = -1;
  };
  struct local_copy {
    box_copy copy;
    std::size_t operand;
    /// Where in the staging memory, or -1: the result itself.
    std::int64_t stage;
  };
  struct member {
    int device;
    coordinates at;
  };

  std::int64_t size() const { return size_of(element_); }
  // What is sent, what is received, what is spread from there; on the host the first two.
  char* receiving() const { return scratch_.memory + aligned(sent_ * size()); }
  char* host_receiving() const { return scratch_.host + aligned(sent_ * size()); }
  void* target(std::int64_t stage) const { return stage < 0 ? out_ : static_cast<void*>(receiving() + aligned(received_ * size()) + stage * size()); }
  void* place_of(const message& m) const { return m.direct ? element_at(target(m.stage), m.copies[0].to_offset, element_) : receiving() + m.offset * size(); }
  static std::size_t c_operand(const message& m, const box_copy& c) { return m.operands[static_cast<std::size_t>(&c - m.copies.data())]; }
  box shard_of(std::size_t operand, const coordinates& at) const {
    const buffer& b = e_.in[operand];
    return box_of(shape_of(b.type, e_.at), b.where, at, e_.at.axes);
  }
  bool same_outside(const coordinates& a, const coordinates& b, axis_set axes) const {
    for (std::size_t i = 0; i < max_axes; ++i)
      if ((axes >> i & 1) == 0 && a[i] != b[i]) return false;
    return true;
  }

  std::array<std::int64_t, max_arity> read_offsets(const void* const* in) const {
    std::array<std::int64_t, max_arity> offsets{};
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
          offsets[m.at_run_time] = static_cast<std::int64_t>(value);
        }
      });
    }
    return offsets;
  }

  /// Adds the pieces that one device fills from a shard of another to a message of theirs.
  void add(message& m, const filling& f, std::size_t operand, const box& shard, const shape& target, std::int64_t stage, bool packs) {
    for_each_piece(f, shard, target, [&](const exchange_piece& p) {
      const auto packed = strides_of(p.extents);
      const std::int64_t at = m.offset + m.elements;
      m.copies.push_back(packs ? make_copy(p.extents, p.from, p.from_offset, packed, at) : make_copy(p.extents, packed, at, p.to, p.to_offset));
      m.operands.push_back(operand);
      m.stages.push_back(stage);
      m.elements += p.elements;
    });
  }

  void plan(std::span<const std::int64_t> offsets) {
    keep_.clear();
    spread_.clear();
    blank_.clear();
    send_.clear();
    receive_.clear();
    sent_ = received_ = staging_ = 0;
    const coordinates here = grid_->here();
    const shape mine = indices_of(e_.out, e_.region, e_.at, here).extents();
    std::int64_t requests = 0;

    // What this device receives, by sender.
    std::vector<message> from(members_.size());
    for (std::uint32_t part = 0; part < e_.part_count(); ++part) {
      if (e_.is_region() && (e_.parts >> part & 1) == 0) continue;
      std::int64_t filled = 0;
      for (std::size_t k = 0; k < e_.in.size(); ++k) {
        if (!e_.takes_from(k)) continue;
        const filling f = fill_of(e_, k, part, here, offsets);
        if (f.empty) continue;
        filled += f.filled;
        const std::int64_t stage = f.staged ? staging_ : -1;
        const shape target = f.staged ? staging_extents(f, mine) : mine;
        if (f.staged) {
          staging_ += target.elements();
          for_each_spread(f, target, mine, [&](const exchange_piece& p) {
            spread_.push_back({make_copy(p.extents, p.from, p.from_offset, p.to, p.to_offset), k, stage});
          });
        }
        for (std::size_t m = 0; m < members_.size(); ++m) {
          if (members_[m].device == grid_->world().rank) {
            for_each_piece(f, shard_of(k, here), target, [&](const exchange_piece& p) {
              keep_.push_back({make_copy(p.extents, p.from, p.from_offset, p.to, p.to_offset), k, stage});
            });
          } else if (same_outside(members_[m].at, here, e_.fetched(k))) {
            add(from[m], f, k, shard_of(k, members_[m].at), target, stage, false);
          }
        }
      }
      const box_copy all = blank_copy(part, mine, here);
      if (filled < all.elements) blank_.push_back(all);
    }
    for (std::size_t m = 0; m < members_.size(); ++m) close(from[m], members_[m].device, received_, receive_, requests);

    // What it sends: the same, as the receivers find it.
    for (const member& to : members_) {
      if (to.device == grid_->world().rank) continue;
      message out;
      const shape theirs = indices_of(e_.out, e_.region, e_.at, to.at).extents();
      for (std::uint32_t part = 0; part < e_.part_count(); ++part) {
        if (e_.is_region() && (e_.parts >> part & 1) == 0) continue;
        for (std::size_t k = 0; k < e_.in.size(); ++k) {
          if (!e_.takes_from(k) || !same_outside(to.at, here, e_.fetched(k))) continue;
          const filling f = fill_of(e_, k, part, to.at, offsets);
          add(out, f, k, shard_of(k, here), f.staged ? staging_extents(f, theirs) : theirs, -1, true);
        }
      }
      close(out, to.device, sent_, send_, requests);
    }
    messages_.reserve(requests);
  }
  /// Gives a message its place among the others of its direction, and sends it from or receives it where it lies, if it is one run.
  void close(message& m, int peer, std::int64_t& total, std::vector<message>& list, std::int64_t& requests) {
    if (m.elements == 0) return;
    m.peer = peer;
    m.offset = total;
    const bool packs = &list == &send_;
    for (box_copy& c : m.copies) (packs ? c.to_offset : c.from_offset) += total;
    m.direct = m.copies.size() == 1 && m.copies[0].contiguous();
    m.stage = m.stages[0];
    total += m.elements;
    requests += messages::pieces(m.elements);
    list.push_back(m);
  }

  box_copy blank_copy(std::uint32_t part, const shape& mine, const coordinates& here) const {
    shape extents = mine;
    std::int64_t offset = 0;
    const auto stride = strides_of(mine);
    for (std::size_t m = 0; m < e_.region.size() && e_.is_region(); ++m) {
      const dim_map& map = e_.region[m];
      const int i = e_.out.type.find(map.from);
      const range block = held(e_.at[map.to], e_.out.where[i], here, e_.at.axes), wanted = part_along(map, block, digit_of(part, m));
      extents[i] = wanted.size();
      offset += (wanted.begin - region_range(map, block).begin) * stride[static_cast<std::size_t>(i)];
    }
    return make_copy(extents, {}, 0, stride, extents.elements() == 0 ? 0 : offset);
  }

  /// The most that any offsets could ask for.
  void reserve_for_any() {
    std::int64_t mine = 0, others = 0;
    for (std::size_t k = 0; k < e_.in.size(); ++k)
      if (e_.takes_from(k)) mine = std::max(mine, shard_of(k, grid_->here()).elements());
    for (const member& m : members_) others += std::min(mine, indices_of(e_.out, e_.region, e_.at, m.at).elements());
    sent_ = others;
    received_ = indices_of(e_.out, e_.region, e_.at, grid_->here()).elements();
    staging_ = received_;
    messages_.reserve(2 * static_cast<std::int64_t>(members_.size()) * messages::pieces(std::max(sent_, received_)));
  }

  grid_state* grid_;
  exchange_spec e_;
  element element_;
  port port_;
  bool staged_host_;
  bool at_run_time_ = false;
  axis_set over_ = 0;
  std::vector<member> members_{};
  std::vector<local_copy> keep_{}, spread_{};
  std::vector<box_copy> blank_{};
  std::vector<message> send_{}, receive_{};
  std::int64_t sent_ = 0, received_ = 0, staging_ = 0;
  scratch_bytes needed_{};
  scratch scratch_{};
  void* out_ = nullptr;
  std::shared_ptr<void> zero_{};
  messages messages_{};
};

inline std::unique_ptr<bound_exchange> make_exchange(grid_state& grid, exchange_spec spec) { return std::make_unique<exchange>(grid, std::move(spec)); }

} // namespace cleave::comm
