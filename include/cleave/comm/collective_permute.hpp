// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/parts.hpp>

#include <vector>

namespace cleave::comm {

/// Any layout to any other, partial values left as they are: every device receives just what it lacks, each part of a source
/// shard from one of its owners. Who sends what follows from sizes and layouts alone, so nothing has to be agreed.
/// Communication: one message for each source shard that a device needs a part of; none for empty parts.
class collective_permute {
 public:
  collective_permute(grid_state& grid, const transfer& t)
      : element_(t.element), world_(grid.world()), port_(staged()), staged_(staged()) {
    const axis_sizes& sizes = grid.sizes();
    const coordinates& here = grid.here();
    const box have = box_of(t.global, t.from, here, sizes), want = box_of(t.global, t.to, here, sizes);

    // Partial values travel between devices with the same coordinates on the partial axes.
    const axis_set divided = t.from.sharded(), partial = t.from.unreduced();
    axis_set copies = 0;
    for (int a = 0; a < max_axes; ++a)
      if (((divided | partial) >> a & 1) == 0) copies = static_cast<axis_set>(copies | axis_bit(a));

    const auto same = [](const coordinates& a, const coordinates& b, axis_set axes) {
      for (std::size_t i = 0; i < max_axes; ++i)
        if ((axes >> i & 1) != 0 && a[i] != b[i]) return false;
      return true;
    };
    // Calls f(device) for every receiver of the shard that `owner` has, in the order of devices.
    const auto for_receivers = [&](const coordinates& owner, const box& shard, auto&& f) {
      for (std::int64_t d = 0; d < sizes.devices(); ++d) {
        const coordinates at = coordinates_of(d, sizes);
        if (!same(at, owner, partial) || same(at, owner, divided)) continue;
        const box part = intersect(shard, box_of(t.global, t.to, at, sizes));
        if (part.elements() != 0) f(d, part);
      }
    };
    const std::int64_t replicas = sizes.product(copies);
    const auto replica_of = [&](const coordinates& at) {
      std::int64_t index = 0;
      for (int a = 0; a < max_axes; ++a)
        if ((copies >> a & 1) != 0) index = index * sizes[a] + at[static_cast<std::size_t>(a)];
      return index;
    };
    const auto replica = [&](coordinates owner, std::int64_t index) {
      for (int a = max_axes - 1; a >= 0; --a)
        if ((copies >> a & 1) != 0) {
          owner[static_cast<std::size_t>(a)] = static_cast<std::int32_t>(index % sizes[a]);
          index /= sizes[a];
        }
      return device_of(owner, sizes);
    };

    const box kept = intersect(want, have);
    keep_ = copy_between(kept, have, want);

    // What this device sends: the receivers of its shard take turns among the replicas.
    std::int64_t turn = 0;
    for_receivers(here, have, [&](std::int64_t d, const box& part) {
      if (turn++ % replicas != replica_of(here)) return;
      send_.push_back({static_cast<int>(d), part.elements(), sent_, copy_to_packed(part, have, sent_)});
      sent_ += part.elements();
    });
    // What it receives: the same turns, seen from here.
    for (std::int64_t shard_index = 0; shard_index < sizes.product(divided); ++shard_index) {
      coordinates owner = here;
      std::int64_t rest = shard_index;
      for (int a = max_axes - 1; a >= 0; --a)
        if ((divided >> a & 1) != 0) {
          owner[static_cast<std::size_t>(a)] = static_cast<std::int32_t>(rest % sizes[a]);
          rest /= sizes[a];
        }
      if (same(owner, here, divided)) continue;
      const box shard = box_of(t.global, t.from, owner, sizes);
      const box part = intersect(want, shard);
      if (part.elements() == 0) continue;
      std::int64_t mine = 0, count = 0;
      for_receivers(owner, shard, [&](std::int64_t d, const box&) {
        if (d == world_.rank) mine = count;
        ++count;
      });
      const std::int64_t from = replica(owner, mine % replicas);
      receive_.push_back({static_cast<int>(from), part.elements(), received_, copy_from_packed(part, want, received_)});
      received_ += part.elements();
    }
    std::int64_t requests = 0;
    for (const message& m : send_) requests += messages::pieces(m.elements);
    for (const message& m : receive_) requests += messages::pieces(m.elements);
    messages_.reserve(requests);
  }
  scratch_bytes needs() const {
    const std::int64_t bytes = aligned(sent_ * size_of(element_)) + aligned(received_ * size_of(element_));
    return {bytes, staged_ ? bytes : 0};
  }

  void run(const void* in, void* out, const scratch& s) {
    const std::int64_t size = size_of(element_), second = aligned(sent_ * size);
    // A part that is one run of memory is sent from and received where it lies.
    for (const message& m : receive_) {
      void* into = m.copy.contiguous() ? element_at(out, m.copy.to_offset, element_) : s.memory + second + m.offset * size;
      messages_.receive(port_.incoming(into, s.host + second + m.offset * size), m.elements, element_, m.peer, world_.handle);
    }
    for (const message& m : send_)
      if (!m.copy.contiguous()) copy_box(m.copy, in, s.memory, size);
    for (const message& m : send_) {
      const void* from = m.copy.contiguous() ? element_at(in, m.copy.from_offset, element_) : s.memory + m.offset * size;
      messages_.send(port_.outgoing(from, s.host + m.offset * size, m.elements * size), m.elements, element_, m.peer,
                     world_.handle);
    }
    copy_box(keep_, in, out, size);
    messages_.wait();
    for (const message& m : receive_) {
      void* into = m.copy.contiguous() ? element_at(out, m.copy.to_offset, element_) : s.memory + second + m.offset * size;
      port_.arrived(into, s.host + second + m.offset * size, m.elements * size);
      if (!m.copy.contiguous()) copy_box(m.copy, s.memory + second, out, size);
    }
  }
  /// Elements that this device receives from others.
  std::int64_t received() const { return received_; }

 private:
  struct message {
    int peer;
    std::int64_t elements;
    std::int64_t offset;
    box_copy copy;
  };

  element element_;
  group world_;
  port port_;
  bool staged_;
  box_copy keep_{};
  std::vector<message> send_{}, receive_{};
  std::int64_t sent_ = 0, received_ = 0;
  messages messages_{};
};

} // namespace cleave::comm
