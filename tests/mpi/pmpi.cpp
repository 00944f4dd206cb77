// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../network/network.hpp"
#include "support.hpp"

#include <mpi.h>

#include <vector>

// Wrappers of every call of MPI that moves data, through the profiling interface. They charge each call from its own
// arguments; what the library says about itself plays no part. Messages are charged to their receiver. A test may make
// them as slow as on a network (../network/network.hpp).

namespace {

std::int64_t bytes_moved = 0;
std::int64_t calls_made = 0;
std::int64_t messages_sent = 0;
std::int64_t order = 0;

/// Which of the calls to come return a failure instead of being made.
struct failures {
  std::int64_t next = 0, after = 0;

  bool hit() {
    if (next == 0 || after-- > 0) return false;
    after = 0;
    --next;
    return true;
  }
} failures_of_calls, failures_of_set_up;
bool fails() { return failures_of_calls.hit(); }

std::int64_t size_of(MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return size;
}
std::int64_t ranks_of(MPI_Comm comm) {
  int n = 0;
  PMPI_Comm_size(comm, &n);
  return n;
}
std::size_t rank_of(MPI_Comm comm) {
  int r = 0;
  PMPI_Comm_rank(comm, &r);
  return static_cast<std::size_t>(r);
}
std::int64_t charge(std::int64_t bytes) {
  bytes_moved += bytes;
  ++calls_made;
  return bytes;
}
/// Of the calls that a whole group makes, which and over how many ranks.
void note_order(const char* call, MPI_Comm comm) {
  auto hash = static_cast<std::uint64_t>(order);
  for (; *call != 0; ++call) hash = (hash ^ static_cast<unsigned char>(*call)) * 1099511628211u;
  order = static_cast<std::int64_t>((hash ^ static_cast<std::uint64_t>(ranks_of(comm))) * 1099511628211u);
}
template <class Count>
std::int64_t from_others(const Count counts[], MPI_Datatype type, MPI_Comm comm) {
  std::int64_t elements = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(ranks_of(comm)); ++r)
    if (r != rank_of(comm)) elements += static_cast<std::int64_t>(counts[r]);
  return elements * size_of(type);
}
std::int64_t charge_all_reduce(std::int64_t count, MPI_Datatype type, MPI_Comm comm) {
  const std::int64_t n = ranks_of(comm);
  return charge(2 * (n - 1) * count * size_of(type) / n);
}
std::int64_t charge_blocks(std::int64_t count, MPI_Datatype type, MPI_Comm comm) {
  return charge((ranks_of(comm) - 1) * count * size_of(type));
}
std::int64_t charge_message(std::int64_t count, MPI_Datatype type, int source, MPI_Comm comm) {
  return charge(source == static_cast<int>(rank_of(comm)) ? 0 : count * size_of(type));
}

} // namespace

// What went through shared memory is added: only there the library counts itself.
std::int64_t support::charged_bytes() { return bytes_moved + cleave::comm::traffic().bytes; }
std::int64_t support::charged_calls() { return calls_made + cleave::comm::traffic().calls; }
std::int64_t support::sent_messages() { return messages_sent + cleave::comm::traffic().messages; }
std::int64_t support::collective_order() {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(order) + cleave::comm::traffic().order);
}
void support::fail_calls(std::int64_t next, std::int64_t after) { failures_of_calls = {next, after}; }
void support::fail_set_up(std::int64_t next, std::int64_t after) { failures_of_set_up = {next, after}; }
void support::reset_charges() {
  bytes_moved = 0;
  calls_made = 0;
  messages_sent = 0;
  order = 0;
  cleave::comm::traffic() = {};
}
std::int64_t support::over_ranks(std::int64_t mine) {
  std::int64_t most = 0;
  PMPI_Allreduce(&mine, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

extern "C" {

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_all_reduce(count, type, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Allreduce(in, out, count, type, op, comm); });
}
int MPI_Reduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_blocks(count, type, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Reduce_scatter_block(in, out, count, type, op, comm); });
}
int MPI_Reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge(from_others(counts, type, comm));
  return network::collective(bytes, comm, [&] { return PMPI_Reduce_scatter(in, out, counts, type, op, comm); });
}
int MPI_Exscan(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge(ranks_of(comm) > 1 ? count * size_of(type) : 0);
  return network::collective(bytes, comm, [&] { return PMPI_Exscan(in, out, count, type, op, comm); });
}
int MPI_Allgather(const void* in, int sent, MPI_Datatype sent_type, void* out, int count, MPI_Datatype type,
                  MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_blocks(count, type, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Allgather(in, sent, sent_type, out, count, type, comm); });
}
int MPI_Allgatherv(const void* in, int sent, MPI_Datatype sent_type, void* out, const int counts[], const int offsets[],
                   MPI_Datatype type, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge(from_others(counts, type, comm));
  return network::collective(bytes, comm,
                             [&] { return PMPI_Allgatherv(in, sent, sent_type, out, counts, offsets, type, comm); });
}
int MPI_Alltoall(const void* in, int sent, MPI_Datatype sent_type, void* out, int count, MPI_Datatype type,
                 MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_blocks(count, type, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Alltoall(in, sent, sent_type, out, count, type, comm); });
}
int MPI_Alltoallv(const void* in, const int sent[], const int sent_offsets[], MPI_Datatype sent_type, void* out,
                  const int counts[], const int offsets[], MPI_Datatype type, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge(from_others(counts, type, comm));
  return network::collective(bytes, comm, [&] {
    return PMPI_Alltoallv(in, sent, sent_offsets, sent_type, out, counts, offsets, type, comm);
  });
}
int MPI_Irecv(void* out, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  charge_message(count, type, source, comm);
  const int code = PMPI_Irecv(out, count, type, source, tag, comm, request);
  network::posted(source, tag, comm, *request);
  return code;
}
int MPI_Recv(void* out, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  charge_message(count, type, source, comm);
  return PMPI_Recv(out, count, type, source, tag, comm, status);
}
int MPI_Isend(const void* in, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm, MPI_Request* request) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  ++messages_sent;
  const int code = PMPI_Isend(in, count, type, target, tag, comm, request);
  network::sent(count * size_of(type), target, tag, comm, *request);
  return code;
}
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  const support::uncounted in_mpi;
  return PMPI_Iprobe(source, tag, comm, found, status);
}
int MPI_Reduce_local(const void* in, void* inout, int count, MPI_Datatype type, MPI_Op op) {
  const support::uncounted in_mpi;
  return PMPI_Reduce_local(in, inout, count, type, op);
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  return network::wait_all(count, requests, statuses);
}
int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  const support::uncounted in_mpi;
  return network::test_all(count, requests, done, statuses);
}
int MPI_Reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_all_reduce(count, type, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Reduce(in, out, count, type, op, root, comm); });
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_message(count, type, root, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Bcast(data, count, type, root, comm); });
}
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  const support::uncounted in_mpi;
  return failures_of_set_up.hit() ? MPI_ERR_OTHER : PMPI_Ibcast(data, count, type, root, comm, request);
}
int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  const support::uncounted in_mpi;
  return failures_of_set_up.hit() ? MPI_ERR_OTHER : PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

#if MPI_VERSION >= 4

int MPI_Exscan_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge(ranks_of(comm) > 1 ? count * size_of(type) : 0);
  return network::collective(bytes, comm, [&] { return PMPI_Exscan_c(in, out, count, type, op, comm); });
}
int MPI_Allreduce_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_all_reduce(count, type, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Allreduce_c(in, out, count, type, op, comm); });
}
int MPI_Reduce_scatter_block_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                               MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_blocks(count, type, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Reduce_scatter_block_c(in, out, count, type, op, comm); });
}
int MPI_Reduce_scatter_c(const void* in, void* out, const MPI_Count counts[], MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge(from_others(counts, type, comm));
  return network::collective(bytes, comm, [&] { return PMPI_Reduce_scatter_c(in, out, counts, type, op, comm); });
}
int MPI_Allgather_c(const void* in, MPI_Count sent, MPI_Datatype sent_type, void* out, MPI_Count count,
                    MPI_Datatype type, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_blocks(count, type, comm);
  return network::collective(bytes, comm,
                             [&] { return PMPI_Allgather_c(in, sent, sent_type, out, count, type, comm); });
}
int MPI_Allgatherv_c(const void* in, MPI_Count sent, MPI_Datatype sent_type, void* out, const MPI_Count counts[],
                     const MPI_Aint offsets[], MPI_Datatype type, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge(from_others(counts, type, comm));
  return network::collective(bytes, comm,
                             [&] { return PMPI_Allgatherv_c(in, sent, sent_type, out, counts, offsets, type, comm); });
}
int MPI_Alltoall_c(const void* in, MPI_Count sent, MPI_Datatype sent_type, void* out, MPI_Count count,
                   MPI_Datatype type, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_blocks(count, type, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Alltoall_c(in, sent, sent_type, out, count, type, comm); });
}
int MPI_Alltoallv_c(const void* in, const MPI_Count sent[], const MPI_Aint sent_offsets[], MPI_Datatype sent_type,
                    void* out, const MPI_Count counts[], const MPI_Aint offsets[], MPI_Datatype type, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge(from_others(counts, type, comm));
  return network::collective(bytes, comm, [&] {
    return PMPI_Alltoallv_c(in, sent, sent_offsets, sent_type, out, counts, offsets, type, comm);
  });
}
int MPI_Bcast_c(void* data, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  note_order(__func__, comm);
  const std::int64_t bytes = charge_message(count, type, root, comm);
  return network::collective(bytes, comm, [&] { return PMPI_Bcast_c(data, count, type, root, comm); });
}
int MPI_Irecv_c(void* out, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                MPI_Request* request) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  charge_message(count, type, source, comm);
  const int code = PMPI_Irecv_c(out, count, type, source, tag, comm, request);
  network::posted(source, tag, comm, *request);
  return code;
}
int MPI_Isend_c(const void* in, MPI_Count count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
                MPI_Request* request) {
  const support::uncounted in_mpi;
  if (fails()) return MPI_ERR_OTHER;
  ++messages_sent;
  const int code = PMPI_Isend_c(in, count, type, target, tag, comm, request);
  network::sent(count * size_of(type), target, tag, comm, *request);
  return code;
}

#endif

} // extern "C"
