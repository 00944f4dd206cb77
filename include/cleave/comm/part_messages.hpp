// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/messages.hpp>
#include <cleave/comm/parts.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// Messages of parts of shards between devices, one box per message. A contiguous part is neither packed nor unpacked.
class part_messages {
 public:
  part_messages(const group& ranks, element e) : ranks_(ranks), element_(e) {}

  /// The part of the operand's shard that stays on this device, and its place in the result's.
  void keep(const box_copy& c) { keep_ = c; }
  /// Adds a part of the operand's shard, whose array has these strides, for another rank.
  void send(int rank, const box& part, const box& shard, const strides& stride) {
    add(sent_, rank,
        make_copy(part.extents(), stride, position_in(shard, part, stride), strides_of(part.extents()),
                  sent_.elements));
  }
  /// Adds a part of the result's shard that another rank sends.
  void receive(int rank, const box& part, const box& shard) {
    add(received_, rank, copy_from_packed(part, shard, received_.elements));
  }
  /// Reserves memory for the requests of all messages. To be called after the last one was added.
  void reserve() { messages_.reserve(sent_.requests + received_.requests); }

  scratch_bytes needs() const {
    const std::int64_t bytes = aligned(sent_.elements * size()) + aligned(received_.elements * size());
    return {bytes, port_.staged() ? bytes : 0};
  }
  void run(const void* in, void* out, const scratch& s) {
    begin(in, out, s);
    finish(out, s);
  }
  void begin(const void* in, void* out, const scratch& s) {
    const scratch receiving = receiving_in(s);
    for (const message& m : received_.all)
      if (unpacked(m)) messages_.receive(m.copy, out, element_, m.rank, ranks_);
      else
        messages_.receive(port_.incoming(landing(m, out, s), receiving.host + m.offset * size()), m.elements, element_,
                          m.rank, ranks_);
    for (const message& m : sent_.all)
      if (!m.copy.contiguous() && !unpacked(m)) copy_box(m.copy, in, s.memory, size());
    for (const message& m : sent_.all) {
      if (unpacked(m)) {
        messages_.send(m.copy, in, element_, m.rank, ranks_);
        continue;
      }
      const void* from = m.copy.contiguous() ? element_at(in, m.copy.from_offset, element_)
                                             : s.memory + m.offset * size();
      messages_.send(port_.outgoing(from, s.host + m.offset * size(), m.elements * size()), m.elements, element_,
                     m.rank, ranks_);
    }
    copy_box(keep_, in, out, size());
  }
  bool progress() { return messages_.progress(); }
  void finish(void* out, const scratch& s) {
    const scratch receiving = receiving_in(s);
    messages_.wait();
    for (const message& m : received_.all) {
      if (unpacked(m)) continue;
      port_.arrived(landing(m, out, s), receiving.host + m.offset * size(), m.elements * size());
      if (!m.copy.contiguous()) copy_box(m.copy, receiving.memory, out, size());
    }
  }

 private:
  struct message {
    int rank;
    std::int64_t elements;
    /// The offset among the packed messages of its direction, if it is packed.
    std::int64_t offset;
    box_copy copy;
  };
  /// The messages of one direction, and the elements of those that are packed.
  struct direction {
    indexed_vector<message> all{};
    std::int64_t elements = 0, requests = 0;
  };

  std::int64_t size() const { return size_of(element_); }
  /// The receive buffer follows the send buffer.
  scratch receiving_in(const scratch& s) const {
    const std::int64_t second = aligned(sent_.elements * size());
    return {s.memory + second, s.host + second};
  }
  void* landing(const message& m, void* out, const scratch& s) const {
    return m.copy.contiguous() ? element_at(out, m.copy.to_offset, element_)
                               : receiving_in(s).memory + m.offset * size();
  }
  [[gnu::cold]] void add(direction& d, int rank, const box_copy& copy) {
    d.all.push_back({rank, copy.elements, d.elements, copy});
    d.requests += messages::requests_for(copy.elements);
    // A contiguous message, or one packed during the transfer, needs no memory here; the host's copy has all messages.
    if (port_.staged() || !(copy.contiguous() || unpacked(d.all.back()))) d.elements += copy.elements;
  }
  /// Whether a box is packed and unpacked during the transfer.
  bool unpacked(const message& m) const { return messages::on_node(m.rank, ranks_) && !port_.staged(); }

  group ranks_;
  element element_;
  port port_{};
  box_copy keep_{};
  direction sent_{}, received_{};
  messages messages_{};
};

}}} // namespace cleave::v0::comm
