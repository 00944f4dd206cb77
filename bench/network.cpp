// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../tests/network/network.hpp"

// The calls of MPI that overlap_time.cpp makes, as slow as it says. What a collective moves is charged as in
// tests/mpi/pmpi.cpp.

namespace {

std::int64_t size_of(MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return size;
}
std::int64_t others(MPI_Comm comm) {
  int n = 0;
  PMPI_Comm_size(comm, &n);
  return n - 1;
}

} // namespace

extern "C" {

#define CLEAVE_SLOW_CALLS(suffix, count_type)                                                                        \
  int MPI_Allgather##suffix(const void* in, count_type sent, MPI_Datatype sent_type, void* out, count_type count,    \
                            MPI_Datatype type, MPI_Comm comm) {                                                      \
    return network::collective(others(comm) * count * size_of(type), comm,                                           \
                               [&] { return PMPI_Allgather##suffix(in, sent, sent_type, out, count, type, comm); }); \
  }                                                                                                                  \
  int MPI_Allreduce##suffix(const void* in, void* out, count_type count, MPI_Datatype type, MPI_Op op,               \
                            MPI_Comm comm) {                                                                         \
    return network::collective(2 * others(comm) * count * size_of(type) / (others(comm) + 1), comm,                  \
                               [&] { return PMPI_Allreduce##suffix(in, out, count, type, op, comm); });              \
  }                                                                                                                  \
  int MPI_Reduce_scatter_block##suffix(const void* in, void* out, count_type count, MPI_Datatype type, MPI_Op op,    \
                                       MPI_Comm comm) {                                                              \
    return network::collective(others(comm) * count * size_of(type), comm,                                           \
                               [&] { return PMPI_Reduce_scatter_block##suffix(in, out, count, type, op, comm); });   \
  }                                                                                                                  \
  int MPI_Irecv##suffix(void* out, count_type count, MPI_Datatype type, int source, int tag, MPI_Comm comm,          \
                        MPI_Request* request) {                                                                      \
    const int code = PMPI_Irecv##suffix(out, count, type, source, tag, comm, request);                               \
    network::posted(source, tag, comm, *request);                                                                    \
    return code;                                                                                                     \
  }                                                                                                                  \
  int MPI_Isend##suffix(const void* in, count_type count, MPI_Datatype type, int target, int tag, MPI_Comm comm,     \
                        MPI_Request* request) {                                                                      \
    const int code = PMPI_Isend##suffix(in, count, type, target, tag, comm, request);                                \
    network::sent(count * size_of(type), target, tag, comm, *request);                                               \
    return code;                                                                                                     \
  }

CLEAVE_SLOW_CALLS(, int)
#if MPI_VERSION >= 4
CLEAVE_SLOW_CALLS(_c, MPI_Count)
#endif

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  return network::wait_all(count, requests, statuses);
}
int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  return network::test_all(count, requests, done, statuses);
}

} // extern "C"
