// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/exchange.hpp>

#include <utility>

namespace cleave { inline namespace v0 { namespace comm {

/// Several exchanges, of any element types, whose messages to one device are joined into one. None of them has offsets
/// that are known only at run time.
/// Communication: one message for each pair of devices that exchange elements; long messages are sent separately.
template <class = void>
class joined_exchange final : public bound_exchange {
 public:
  [[gnu::cold]] joined_exchange(grid_state& grid, indexed_vector<exchange_spec> specs) : grid_(&grid) {
    std::size_t operands = 0;
    for (exchange_spec& e : specs) {
      const std::size_t own = e.in.size(), number = parts_.size();
      parts_.push_back({owned<exchange<>>(new exchange<>(grid, std::move(e))), operands, number});
      operands += own;
      // Larger elements come first in a message, so that all are aligned to their size.
      for (std::size_t i = number; i > 0 && parts_[i - 1].one->size() < parts_[i].one->size(); --i)
        std::swap(parts_[i - 1], parts_[i]);
    }
    const std::int64_t sent = join(send_, true), received = join(receive_, false);
    receiving_at_ = aligned(sent);
    std::int64_t bytes = receiving_at_ + aligned(received);
    needed_.host = port_.staged() ? bytes : 0;
    for (part& p : parts_) {
      p.boxes().place(receiving_at_);
      p.one->staging_at_ = bytes;
      bytes += aligned(p.one->staging_ * p.one->size());
    }
    needed_.memory = bytes;
  }

  scratch_bytes needs() const override { return needed_; }

  void begin(const void* const* in, void* const* out, const scratch& s) override {
    scratch_ = s;
    const group& devices = grid_->devices();
    for (part& p : parts_) {
      p.one->start(out[p.number], s);
      p.boxes().take(p.one->to_, s);
    }
    for (const joined& j : receive_)
      messages_.receive(port_.incoming(landing(j), host_landing(j)), j.bytes, element::u8, as_int(j.device), devices);
    for (part& p : parts_)
      for (const message& m : p.boxes().received())
        if (!m.joined) p.boxes().receive(m);
    for (part& p : parts_)
      for (const message& m : p.boxes().sent()) p.boxes().pack(m, in + p.first_operand);
    for (const joined& j : send_)
      messages_.send(port_.outgoing(s.memory + j.offset, s.host + j.offset, j.bytes), j.bytes, element::u8,
                     as_int(j.device), devices);
    for (part& p : parts_)
      for (const message& m : p.boxes().sent())
        if (!m.joined) p.boxes().send(m, in + p.first_operand);
    for (part& p : parts_) p.boxes().keep(in + p.first_operand);
  }
  bool communicates() const override {
    for (const part& p : parts_)
      if (p.one->communicates()) return true;
    return false;
  }
  void progress() override {
    messages_.progress();
    for (part& p : parts_) p.one->progress();
  }
  void finish() override {
    messages_.wait();
    for (const joined& j : receive_) port_.arrived(landing(j), host_landing(j), j.bytes);
    for (part& p : parts_) {
      for (const message& m : p.boxes().received())
        if (m.joined) p.boxes().unpack(m);
      p.boxes().wait();
      for (const message& m : p.boxes().received())
        if (!m.joined) p.boxes().arrive(m);
      p.one->spread();
    }
  }

 private:
  using message = box_messages::message;
  /// One of the exchanges, the index of its first operand, and its number in the given order.
  struct part {
    owned<exchange<>> one;
    std::size_t first_operand, number;

    box_messages& boxes() const { return one->boxes_; }
  };
  using joined = joined_messages::joined;

  char* landing(const joined& j) const { return scratch_.memory + receiving_at_ + j.offset; }
  char* host_landing(const joined& j) const { return scratch_.host + receiving_at_ + j.offset; }

  /// Finds the joined messages of a direction, and assigns memory to all messages of the direction; returns its bytes.
  [[gnu::cold]] std::int64_t join(indexed_vector<joined>& together, bool sends) {
    const auto messages_of = [&](part& p) -> box_messages::message_list& {
      return sends ? p.boxes().sent() : p.boxes().received();
    };
    joined_messages laid;
    for (part& p : parts_)
      for (const message& m : messages_of(p)) laid.add(m.rank, m.elements * p.one->size(), p.boxes().takes_memory(m));
    const std::int64_t total = laid.lay_out(parts_.front().one->size());
    const joined_messages::one* next = laid.all.data();
    for (part& p : parts_)
      for (message& m : messages_of(p)) {
        m.joined = next->joined;
        m.direct = m.direct && !m.joined;
        if (next->joined || next->packed) box_messages::move_to(m, next->offset / p.one->size(), sends);
        ++next;
      }
    for (const joined& j : laid.together) requests_ += messages::requests_for(j.bytes);
    messages_.reserve(requests_);
    together = std::move(laid.together);
    return total;
  }

  grid_state* grid_;
  port port_{};
  indexed_vector<part> parts_{};
  indexed_vector<joined> send_{}, receive_{};
  std::int64_t requests_ = 0, receiving_at_ = 0;
  scratch_bytes needed_{};
  scratch scratch_{};
  messages messages_{};
};

}}} // namespace cleave::v0::comm
