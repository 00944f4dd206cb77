// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/messages.hpp>
#include <cleave/comm/parts.hpp>

#include <algorithm>
#include <utility>

namespace cleave { inline namespace v0 { namespace comm {

/// Boxes of elements that travel between devices: each message has the boxes for one device. Whoever knows which
/// indices each device has before and after adds the messages that this one sends and receives, and the boxes that
/// stay. A message that is one run of memory is neither packed nor unpacked, nor is one box between linked ranks, which
/// is packed during the transfer.
class box_messages {
 public:
  /// A box to copy, and the numbers of the arrays that it is read from and written to.
  struct part {
    box_copy copy;
    std::size_t from = 0, to = 0;
  };
  struct message {
    int rank = 0;
    std::int64_t elements = 0;
    /// The offset among the packed messages of its direction, if it is packed.
    std::int64_t offset = 0;
    indexed_vector<part> parts{};
    /// Whether it is one run of memory.
    bool direct = false;
    /// Whether it is sent as a part of a joined message.
    bool joined = false;

    /// Adds a box that is read with these strides: to a message that this device sends.
    void pack(const shape& extents, const strides& stride, std::int64_t offset, std::size_t array = 0) {
      append({make_copy(extents, stride, offset, strides_of(extents), elements), array, 0});
    }
    /// Adds a box that is written with these strides: to a message that it receives.
    void unpack(const shape& extents, const strides& stride, std::int64_t offset, std::size_t array = 0) {
      append({make_copy(extents, strides_of(extents), elements, stride, offset), 0, array});
    }

   private:
    void append(const part& p) {
      parts.push_back(p);
      elements += p.copy.elements;
    }
  };
  using message_list = indexed_vector<message>;

  box_messages(const group& ranks, element e) : ranks_(ranks), element_(e) {}

  /// The boxes that stay on this device.
  indexed_vector<part>& kept() { return kept_; }
  message_list& sent() { return sent_; }
  message_list& received() { return received_; }
  bool communicates() const { return !sent_.empty() || !received_.empty(); }
  /// Adds a message to or from a rank, unless it is empty.
  void add_sent(message m, int rank) { add(std::move(m), rank, sent_, sent_elements_); }
  void add_received(message m, int rank) { add(std::move(m), rank, received_, received_elements_); }
  /// The same for a part of a shard alone; the array of the shard has these strides.
  void add_sent(const box& part, const box& shard, const strides& stride, int rank) {
    message m;
    m.pack(part.extents(), stride, position_in(shard, part, stride));
    add_sent(std::move(m), rank);
  }
  void add_received(const box& part, const box& shard, int rank) {
    message m;
    m.unpack(part.extents(), strides_of(shard.extents()), position_in(shard, part));
    add_received(std::move(m), rank);
  }
  void clear() {
    kept_.clear();
    sent_.clear();
    received_.clear();
    sent_elements_ = received_elements_ = requests_ = 0;
  }
  /// Reserves memory for the requests of all messages. To be called after the last one was added.
  void reserve() {
    messages_.reserve(requests_);
    receiving_at_ = sent_bytes();
  }
  /// Reserves for as many elements of so many messages, which may be added later on in place of these.
  [[gnu::cold]] void reserve_for(std::int64_t sent, std::int64_t received, std::int64_t count) {
    sent_elements_ = sent;
    received_elements_ = received;
    requests_ = count * messages::requests_for(std::max(sent, received));
    reserve();
  }
  /// The packed messages of both directions, one after the other: the memory, and its copy on the host.
  scratch_bytes needs() const {
    const std::int64_t bytes = sent_bytes() + aligned(received_elements_ * size());
    return {bytes, port_.staged() ? bytes : 0};
  }
  std::int64_t sent_bytes() const { return aligned(sent_elements_ * size()); }
  /// From now on the received messages are packed so many bytes after the beginning of the scratch memory.
  void place(std::int64_t receiving_at) { receiving_at_ = receiving_at; }
  std::int64_t size() const { return size_of(element_); }

  /// Of one array to one other array.
  void run(const void* in, void* out, const scratch& s) {
    begin(in, out, s);
    finish();
  }
  void begin(const void* in, void* out, const scratch& s) {
    only_ = out;
    begin(&in, &only_, s);
  }
  /// `in` has the addresses of the arrays; `out` too, until `finish`.
  void begin(const void* const* in, void* const* out, const scratch& s) {
    take(out, s);
    for (const message& m : received_) receive(m);
    for (const message& m : sent_) pack(m, in);
    for (const message& m : sent_) send(m, in);
    keep(in);
  }
  bool progress() { return messages_.progress(); }
  void finish() {
    messages_.wait();
    for (const message& m : received_) arrive(m);
  }

  // The parts of `begin` and `finish`.
  void take(void* const* out, const scratch& s) {
    out_ = out;
    scratch_ = s;
  }
  void receive(const message& m) {
    if (const part& first = m.parts.front(); is_box(m))
      messages_.receive(first.copy, out_[first.to], element_, m.rank, ranks_);
    else messages_.receive(port_.incoming(landing(m), host_landing(m)), m.elements, element_, m.rank, ranks_);
  }
  void pack(const message& m, const void* const* in) const {
    if (m.direct || is_box(m)) return;
    for (const part& p : m.parts) copy_box(p.copy, in[p.from], scratch_.memory, size());
  }
  void send(const message& m, const void* const* in) {
    const part& first = m.parts.front();
    if (is_box(m)) return messages_.send(first.copy, in[first.from], element_, m.rank, ranks_);
    const void* from = m.direct ? element_at(in[first.from], first.copy.from_offset, element_)
                                : element_at(scratch_.memory, m.offset, element_);
    messages_.send(port_.outgoing(from, scratch_.host + m.offset * size(), m.elements * size()), m.elements, element_,
                   m.rank, ranks_);
  }
  void keep(const void* const* in) const {
    for (const part& p : kept_) copy_box(p.copy, in[p.from], out_[p.to], size());
  }
  void wait() { messages_.wait(); }
  void arrive(const message& m) const {
    if (is_box(m)) return;
    port_.arrived(landing(m), host_landing(m), m.elements * size());
    if (!m.direct) unpack(m);
  }
  void unpack(const message& m) const {
    for (const part& p : m.parts) copy_box(p.copy, scratch_.memory + receiving_at_, out_[p.to], size());
  }
  /// Whether a message has memory among the packed ones. The host's copy has all messages.
  bool takes_memory(const message& m) const { return port_.staged() || !(m.direct || is_box(m)); }
  /// Gives a message another offset among those of its direction.
  static void move_to(message& m, std::int64_t offset, bool sends) {
    for (part& p : m.parts) (sends ? p.copy.to_offset : p.copy.from_offset) += offset - m.offset;
    m.offset = offset;
  }

 private:
  /// Whether a message is one box that is packed and unpacked during the transfer.
  bool is_box(const message& m) const {
    return m.parts.size() == 1 && !m.joined && messages::is_linked(m.rank, ranks_) && !port_.staged();
  }
  void* landing(const message& m) const {
    const part& first = m.parts.front();
    return m.direct ? element_at(out_[first.to], first.copy.to_offset, element_)
                    : element_at(scratch_.memory + receiving_at_, m.offset, element_);
  }
  char* host_landing(const message& m) const { return scratch_.host + receiving_at_ + m.offset * size(); }
  [[gnu::cold]] void add(message m, int rank, message_list& all, std::int64_t& total) {
    if (m.elements == 0) return;
    m.rank = rank;
    move_to(m, total, &all == &sent_);
    m.direct = m.parts.size() == 1 && m.parts.front().copy.contiguous();
    if (takes_memory(m)) total += m.elements;
    requests_ += messages::requests_for(m.elements);
    all.push_back(std::move(m));
  }

  group ranks_;
  element element_;
  port port_{};
  indexed_vector<part> kept_{};
  message_list sent_{}, received_{};
  std::int64_t sent_elements_ = 0, received_elements_ = 0, requests_ = 0, receiving_at_ = 0;
  scratch scratch_{};
  void* const* out_ = nullptr;
  void* only_ = nullptr;
  messages messages_{};
};

/// From any layout to any other, with partial values unchanged: every device receives only the elements that it lacks,
/// each part of a source shard from one of its owners. Senders and receivers follow from sizes and layouts alone, so
/// ranks need no negotiation.
/// Communication: one message for each source shard that a device needs a part of; none for empty parts.
class collective_permute : public box_messages {
 public:
  [[gnu::cold]] collective_permute(grid_state& grid, const transfer& t) : box_messages(grid.devices(), t.element) {
    const box have = held_before(grid, t), want = held_after(grid, t);
    const permuted_parts parts(t, grid.sizes(), grid.here());
    kept().push_back({copy_between(intersect(want, have), have, want)});
    parts.for_each_sent([&](std::int64_t device, const box& part) {
      add_sent(part, have, strides_of(have.extents()), rank_number(device));
    });
    parts.for_each_received(
        [&](std::int64_t device, const box& part) { add_received(part, want, rank_number(device)); });
    reserve();
  }
  /// Also if this device has no message.
  static bool communicates() { return true; }
};

}}} // namespace cleave::v0::comm
