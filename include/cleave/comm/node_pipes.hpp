// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/node_segment.hpp>
#include <cleave/comm/transport.hpp>
#include <cleave/storage/box.hpp>

#include <algorithm>
#include <memory>
#include <utility>

namespace cleave::inline v0::comm {

/// Messages between the ranks of a node. Every ordered pair of them has a pipe in shared memory: a ring of chunks, of
/// which some are written while others are read. Messages of a pair arrive in the order in which they were sent, as with MPI. All
/// messages of a grid are here, so that whoever waits for some moves the others too.
class node_pipes {
 public:
  /// Collective over the group, whose ranks are on one node. Null on all ranks if they cannot share memory.
  static std::unique_ptr<node_pipes> shared_by(const group& g) {
    const std::int64_t chunk = std::clamp<std::int64_t>((256 << 10) / g.size / 64 * 64, 4 << 10, 64 << 10);
    auto memory = node_segment::shared_by(g, segment_header + std::int64_t{g.size} * g.size * pipe_bytes(chunk));
    return memory ? std::unique_ptr<node_pipes>(new node_pipes(g, std::move(memory), chunk)) : nullptr;
  }

  /// A message to a rank of the group: memory, or a box in it, which is packed on its way. `open` counts up now, and
  /// down when all of it has left.
  void send(int to, const void* from, std::int64_t bytes, const box_copy* box, std::int64_t element_bytes,
            std::int64_t& open) {
    ++traffic().messages;
    lane& l = out_[to];
    l.append({const_cast<char*>(as<char>(from)), box, element_bytes, 0, bytes, &open});
    push(to, l);
  }
  /// A message from a rank of the group, to memory or to a box in it. `open` counts up now, and down when all of it is
  /// here.
  void receive(int from, void* into, std::int64_t bytes, const box_copy* box, std::int64_t element_bytes,
               std::int64_t& open) {
    traffic().bytes += bytes;
    ++traffic().calls;
    in_[from].append({as<char>(into), box, element_bytes, 0, bytes, &open});
  }
  /// Moves what can be moved now; whether something was.
  bool progress() {
    bool moved = false;
    for (int r = 0; r < group_.size; ++r) {
      if (!out_[r].empty()) moved = push(r, out_[r]) || moved;
      if (!in_[r].empty()) moved = pull(r, in_[r]) || moved;
    }
    return moved;
  }
  patience waiting() const { return {group_.handle, crowded_}; }

 private:
  /// Chunks of a pipe.
  static constexpr int ring = 8;

  struct item {
    char* at;
    const box_copy* box;
    std::int64_t element_bytes;
    /// Bytes that have moved, and those that have not.
    std::int64_t done, bytes;
    std::int64_t* open;

    void put(char* into, std::int64_t n) const {
      if (box == nullptr) std::memcpy(into, at + done, as_size(n));
      else pack_range(*box, done / element_bytes, n / element_bytes, at, into, element_bytes);
    }
    void take(const char* from, std::int64_t n) const {
      if (box == nullptr) std::memcpy(at + done, from, as_size(n));
      else unpack_range(*box, done / element_bytes, n / element_bytes, from, at, element_bytes);
    }
  };
  /// What is under way to one rank, or from it, the oldest first.
  struct lane {
    indexed_vector<item> items{};
    std::size_t first = 0;
    std::uint64_t chunks = 0;

    bool empty() const { return first == items.size(); }
    void append(const item& i) {
      ++*i.open;
      items.push_back(i);
    }
    /// So many bytes of the first item are done.
    void advance(std::int64_t bytes) {
      item& i = items[first];
      i.done += bytes;
      i.bytes -= bytes;
      ++chunks;
      if (i.bytes != 0) return;
      --*i.open;
      if (++first == items.size()) items.clear(), first = 0;
    }
  };
  /// The chunks that the sender has written, and those that the receiver has read.
  struct pipe {
    shared_count written, read;
  };

  node_pipes(const group& g, std::unique_ptr<node_segment> memory, std::int64_t chunk)
      : group_(g), memory_(std::move(memory)), chunk_(chunk), crowded_(patience::is_crowded(g.size)),
        out_(as_size(g.size)), in_(as_size(g.size)) {
    for (int r = 0; r < g.size; ++r) out_[r].items.reserve(16), in_[r].items.reserve(16);
  }
  static std::int64_t pipe_bytes(std::int64_t chunk) { return std::int64_t{sizeof(pipe)} + ring * chunk; }
  pipe& between(int from, int to) const {
    return *reinterpret_cast<pipe*>(memory_->data() + segment_header +
                                    (std::int64_t{from} * group_.size + to) * pipe_bytes(chunk_));
  }
  char* chunk_of(pipe& p, std::uint64_t number) const {
    return reinterpret_cast<char*>(&p + 1) + static_cast<std::int64_t>(number % ring) * chunk_;
  }

  bool push(int to, lane& l) {
    pipe& p = between(group_.rank, to);
    bool moved = false;
    for (; !l.empty() && l.chunks - p.read.read() < ring; moved = true) {
      const std::int64_t n = std::min(l.items[l.first].bytes, chunk_);
      l.items[l.first].put(chunk_of(p, l.chunks), n);
      p.written.write(l.chunks + 1);
      l.advance(n);
    }
    return moved;
  }
  bool pull(int from, lane& l) {
    pipe& p = between(from, group_.rank);
    bool moved = false;
    for (; !l.empty() && p.written.read() > l.chunks; moved = true) {
      const std::int64_t n = std::min(l.items[l.first].bytes, chunk_);
      l.items[l.first].take(chunk_of(p, l.chunks), n);
      p.read.write(l.chunks + 1);
      l.advance(n);
    }
    return moved;
  }

  group group_;
  std::unique_ptr<node_segment> memory_;
  std::int64_t chunk_;
  bool crowded_;
  indexed_vector<lane> out_, in_;
};

} // namespace cleave::inline v0::comm
