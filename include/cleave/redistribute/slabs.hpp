// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/comm/errors.hpp>
#include <cleave/comm/mpi.hpp>
#include <cleave/redistribute/redistribution.hpp>
#include <cleave/tensor/tensor.hpp>

#include <algorithm>
#include <climits>
#include <exception>
#include <memory>
#include <vector>

// A tensor that one rank cannot hold as a whole comes to it slab by slab.

namespace cleave { inline namespace v0 {

namespace detail {

/// A box inside of a row-major array, as one datatype of MPI. Its extents are ints; their product need not be one.
class box_type {
 public:
  box_type(const shape& all, const shape& part, const shape& from, element e) {
    int sizes[max_rank]{}, lengths[max_rank]{}, begins[max_rank]{};
    for (int d = 0; d < all.rank; ++d) {
      sizes[d] = static_cast<int>(all[d]);
      lengths[d] = static_cast<int>(part[d]);
      begins[d] = static_cast<int>(from[d]);
    }
    comm::check(MPI_Type_create_subarray(all.rank, sizes, lengths, begins, MPI_ORDER_C, comm::datatype_of(e), &handle_),
                "MPI_Type_create_subarray");
    comm::check(MPI_Type_commit(&handle_), "MPI_Type_commit");
  }
  box_type(const box_type&) = delete;
  box_type& operator=(const box_type&) = delete;
  ~box_type() { MPI_Type_free(&handle_); }
  operator MPI_Datatype() const { return handle_; }

 private:
  MPI_Datatype handle_ = MPI_DATATYPE_NULL;
};

/// The consumer of a slab on the rank that collects: it is given its first row, how many rows, and their elements.
struct slab_taker {
  void* context;
  void (*take)(void* context, std::int64_t first, std::int64_t rows, const void* elements);
};

/// Sends slabs of whole rows to one rank. Every part comes from the first rank that has it.
class slab_gathering {
 public:
  slab_gathering(const tensor_state& t, int root, std::int64_t most_bytes)
      : t_(t), all_(t.grid.state().everyone()), root_(root), shards_(shards_of(t, false)) {
    // The largest root, the smallest one, and the least memory of all ranks.
    const std::int64_t mine[3] = {root, -root, -most_bytes};
    std::int64_t agreed[3] = {};
    t.grid.state().largest(mine, agreed, 3, all_);
    if (agreed[0] != -agreed[1]) raise<mesh_error>(wording::mesh_parts_disagree());
    if (root < 0 || root >= all_.size) raise<mesh_error>(wording::mesh_part_outside(root, 1, root, all_.size));
    for (int d = 1; d < t.global.rank; ++d)
      if (t.global[d] > INT_MAX) raise<shape_error>(wording::too_many_for_one_call(INT_MAX, t.global[d]));
    const comm::sending_turns turns(shards_);
    for (const std::vector<int>& owners : turns.owners()) owners_.push_back(owners.front());
    sends_ = std::find(owners_.begin(), owners_.end(), all_.rank) != owners_.end();
    row_bytes_ = size_of(t.element);
    for (int d = 1; d < t.global.rank; ++d) row_bytes_ *= t.global[d];
    rows_ = std::max<std::int64_t>(-agreed[2] / std::max<std::int64_t>(row_bytes_, 1), 1);
    rows_ = std::min<std::int64_t>(rows_, INT_MAX);
  }
  void run(const slab_taker& to) {
    t_.grid.state().guarded([&] { comm::allocate_on_all(all_.handle, [&] { in_ = as<const char>(t_.packed()); }); });
    if (!t_.where.unreduced().empty() && t_.grid.active())
      in_ = as<const char>((reduced_ = reduced_shard(t_, in_)).get());
    wait_for_kernels();
    if (row_bytes_ == 0) return;
    const std::int64_t rows = t_.global[0];
    std::unique_ptr<char[]> slab;
    t_.grid.state().guarded([&] {
      comm::allocate_on_all(all_.handle, [&] {
        if (all_.rank == root_) slab.reset(new char[as_size(std::min(rows, rows_) * row_bytes_)]);
        if (!on_host && sends_) staged_.reset(new char[as_size(std::min(rows, rows_) * row_bytes_)]);
      });
    });
    std::exception_ptr thrown;
    for (std::int64_t first = 0; first < rows; first += rows_) {
      const range taken{first, std::min(first + rows_, rows)};
      t_.grid.state().guarded([&] { gather(taken, slab.get()); });
      if (all_.rank != root_ || thrown) continue;
      try {
        to.take(to.context, taken.begin, taken.size(), slab.get());
      } catch (...) {
        thrown = std::current_exception(); // the others still send
      }
    }
    if (thrown) std::rethrow_exception(thrown);
  }

 private:
  /// The part of a slab's rows on one rank.
  range rows_of(int r, const range& taken) const {
    const range own = shards_.along(0, r)[0];
    return {std::max(own.begin, taken.begin), std::min(own.end, taken.end)};
  }
  shape part_of(int r, std::int64_t rows) const {
    shape part = shards_.extents(r);
    part[0] = rows;
    return part;
  }
  bool has_rows(int r, const range& taken) const {
    return rows_of(r, taken).size() > 0 && shards_.extents(r).elements() > 0;
  }
  void gather(const range& taken, char* slab) {
    std::vector<MPI_Request> received;
    if (all_.rank == root_) {
      shape whole = t_.global;
      whole[0] = taken.size();
      for (const int r : owners_) {
        if (!has_rows(r, taken)) continue;
        shape from;
        from.rank = whole.rank;
        from[0] = rows_of(r, taken).begin - taken.begin;
        for (int d = 1; d < whole.rank; ++d) from[d] = shards_.along(d, r)[0].begin;
        const box_type box(whole, part_of(r, rows_of(r, taken).size()), from, t_.element);
        comm::check(MPI_Irecv(slab, 1, box, r, tag, all_.handle, &received.emplace_back()), "MPI_Irecv");
      }
    }
    if (sends_ && has_rows(all_.rank, taken)) send(rows_of(all_.rank, taken));
    comm::check(MPI_Waitall(static_cast<int>(received.size()), received.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }
  /// Synchronous, so that no more than a slab waits at the rank that collects.
  void send(const range& rows) {
    const std::int64_t begin = rows.begin - shards_.along(0, all_.rank)[0].begin;
    const shape part = part_of(all_.rank, rows.size());
    const std::int64_t each = part.elements() / part[0] * size_of(t_.element);
    const char* from = in_ + begin * each;
    if constexpr (!on_host) {
      copy_bytes<Kokkos::HostSpace, memory_space>(staged_.get(), from, rows.size() * each);
      from = staged_.get();
    }
    shape zero;
    zero.rank = part.rank;
    const box_type box(part, part, zero, t_.element);
    comm::check(MPI_Ssend(from, 1, box, root_, tag, all_.handle), "MPI_Ssend");
  }

  static constexpr int tag = 7;
  const tensor_state& t_;
  const comm::group& all_;
  int root_;
  distribution shards_;
  std::vector<int> owners_{};
  bool sends_ = false;
  std::int64_t row_bytes_ = 0, rows_ = 1;
  const char* in_ = nullptr;
  std::shared_ptr<void> reduced_{};
  std::unique_ptr<char[]> staged_{};
};

} // namespace detail

/// Gives the whole tensor to one rank of the communicator in slabs of whole rows (indices of the first dim), in their
/// order: there `take(first, rows, elements)` is called with the first row of a slab, the number of its rows, and a
/// pointer to its elements, row-major in host memory. A slab has at most `most_bytes`, or one row. An exception of
/// `take` is thrown on that rank after the last slab, so that the others do not wait.
///
/// Collective over the communicator of the grid; ranks that are not devices call it too. The least `most_bytes` of all
/// ranks holds. Communication: for each slab one message from each shard that has rows of it; a partial tensor also
/// needs one all-reduce. Throws mesh_error on all ranks if there is no such rank or they do not name the same one,
/// shape_error if an extent other than the first is larger than an int, and memory_error.
template <class T, auto Layout, class F>
  requires(tensor<T, Layout>::rank > 0)
void gather_slabs(const tensor<T, Layout>& x, int rank, std::int64_t most_bytes, F&& take) {
  require_kokkos();
  using function = std::remove_reference_t<F>;
  const auto call = [](void* context, std::int64_t first, std::int64_t rows, const void* elements) {
    (*static_cast<function*>(context))(first, rows, static_cast<const T*>(elements));
  };
  detail::slab_gathering(x.state(), rank, most_bytes)
      .run({const_cast<void*>(static_cast<const void*>(std::addressof(take))), call});
}

}} // namespace cleave::v0
