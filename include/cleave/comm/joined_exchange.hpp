// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/exchange.hpp>

#include <algorithm>
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
      messages_.receive(port_.incoming(landing(j), host_landing(j)), j.bytes, element::u8, j.rank, devices);
    for (part& p : parts_)
      for (const message& m : p.boxes().received())
        if (!m.joined) p.boxes().receive(m);
    for (part& p : parts_)
      for (const message& m : p.boxes().sent()) p.boxes().pack(m, in + p.first_operand);
    for (const joined& j : send_)
      messages_.send(port_.outgoing(s.memory + j.offset, s.host + j.offset, j.bytes), j.bytes, element::u8, j.rank,
                     devices);
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
  /// A joined message to or from a device: its length in bytes, and its offset among those of its direction.
  struct joined {
    int rank = 0;
    std::int64_t messages = 0, bytes = 0, offset = 0;
  };

  char* landing(const joined& j) const { return scratch_.memory + receiving_at_ + j.offset; }
  char* host_landing(const joined& j) const { return scratch_.host + receiving_at_ + j.offset; }

  /// Finds the joined messages of a direction, and assigns memory to all messages of the direction; returns its bytes.
  /// Both sides of a message know its length, and so decide the same: for each pair of devices first the joined
  /// messages, then the others in the order of the parts.
  [[gnu::cold]] std::int64_t join(indexed_vector<joined>& all, bool sends) {
    const std::int64_t widest = parts_.front().one->size();
    const auto aligned_to = [](std::int64_t bytes, std::int64_t size) { return (bytes + size - 1) / size * size; };
    const auto messages_of = [&](part& p) -> box_messages::message_list& {
      return sends ? p.boxes().sent() : p.boxes().received();
    };
    const auto of_rank = [&](int rank) {
      return std::find_if(all.begin(), all.end(), [&](const joined& j) { return j.rank == rank; });
    };
    const auto is_short = [&](const part& p, const message& m) {
      return m.elements * p.one->size() <= joined_message_bytes;
    };
    for (part& p : parts_)
      for (const message& m : messages_of(p)) {
        if (!is_short(p, m)) continue;
        if (of_rank(m.rank) == all.end()) all.push_back({m.rank});
        joined& j = *of_rank(m.rank);
        ++j.messages;
        j.bytes += m.elements * p.one->size();
      }
    // A joined message with one part stays a single message.
    all.remove_if([](const joined& j) { return j.messages == 1; });
    std::int64_t total = 0, requests = 0;
    for (joined& j : all) {
      j.offset = total = aligned_to(total, widest);
      total += j.bytes;
      requests += messages::requests_for(j.bytes);
      std::int64_t at = j.offset;
      for (part& p : parts_)
        for (message& m : messages_of(p)) {
          if (m.rank != j.rank || !is_short(p, m)) continue;
          m.joined = true;
          m.direct = false;
          box_messages::move_to(m, at / p.one->size(), sends);
          at += m.elements * p.one->size();
        }
    }
    for (part& p : parts_)
      for (message& m : messages_of(p)) {
        if (m.joined || !p.boxes().takes_memory(m)) continue;
        total = aligned_to(total, widest);
        box_messages::move_to(m, total / p.one->size(), sends);
        total += m.elements * p.one->size();
      }
    requests_ += requests;
    messages_.reserve(requests_);
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
