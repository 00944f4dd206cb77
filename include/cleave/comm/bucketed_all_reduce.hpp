// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/all_reduce.hpp>
#include <cleave/program/buckets.hpp>

#include <utility>

namespace cleave { inline namespace v0 { namespace comm {

/// Several small all-reduces over the same axes as one message, their bucket.
/// Communication: one MPI_Allreduce of all of them.
class bucketed_all_reduce {
 public:
  /// A value and its offset in the bucket, in bytes. A value that is stored in the bucket is not copied.
  struct part {
    std::size_t from = 0;
    std::size_t to = 0;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    bool lives_there = false;
  };

  /// `like` is any of the transfers; `bytes` the length of the bucket.
  bucketed_all_reduce(grid_state& grid, const transfer& like, indexed_vector<part> parts, std::int64_t bytes)
      : parts_(std::move(parts)), bytes_(bytes), all_(grid, whole(like, bytes / size_of(like.element))) {}

  const indexed_vector<part>& parts() const { return parts_; }
  std::int64_t bytes() const { return bytes_; }
  scratch_bytes needs() const { return all_.needs(); }

  /// `at` gives the address of a buffer; `bucket` is separate memory.
  template <class Address>
  void run(const Address& at, char* bucket, const scratch& s) {
    for (const part& p : parts_)
      if (!p.lives_there) copy_bytes(bucket + p.offset, at(p.from), p.bytes);
    all_.run(bucket, bucket, s);
    for (const part& p : parts_)
      if (!p.lives_there) copy_bytes(at(p.to), bucket + p.offset, p.bytes);
  }
  /// The transfer of one unsharded value, as long as the bucket.
  static transfer whole(const transfer& like, std::int64_t elements) {
    transfer t = like;
    t.global = {};
    t.global.rank = 1;
    t.global[0] = elements;
    t.from = {};
    t.to = {};
    t.from.set_partial(like.axes, like.combine);
    return t;
  }

 private:
  indexed_vector<part> parts_;
  std::int64_t bytes_;
  all_reduce all_;
};

}}} // namespace cleave::v0::comm
