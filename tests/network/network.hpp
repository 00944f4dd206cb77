// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include <time.h>

#include <cstdint>
#include <list>
#include <vector>

// A network that is slower than the memory of the machine: what stands in the wrappers of MPI (tests/mpi/pmpi.cpp,
// bench/network.cpp) in place of the calls that it delays.
//
// A message leaves when those that its rank sent before have left, takes its bytes over the bandwidth, and is seen by
// the receiver after the latency. The time at which it is there travels with it, so that a receive that was posted long
// before is delayed as well; all ranks are on one machine and have one clock. Nothing runs meanwhile: a request is
// complete once its time has come, and whoever waits for it sleeps. Collectives begin when all ranks are there.

namespace network {

/// How slow it is. Without a bandwidth nothing is delayed.
struct speed {
  double latency = 0;   // seconds
  double bandwidth = 0; // bytes per second that a rank sends
};
inline speed& simulated() {
  static speed s;
  return s;
}
inline bool is_slow() { return simulated().bandwidth > 0; }

namespace detail {

/// One clock for all processes; MPI_Wtime may begin where each of them did.
inline double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
/// MPI moves long messages only while it is called.
inline void let_mpi_work() {
  int found = 0;
  PMPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
}
inline void sleep_until(double then) {
  for (double left = then - now(); left > 0; left = then - now()) {
    let_mpi_work();
    const timespec pause{0, static_cast<long>((left < 1e-4 ? left : 1e-4) * 1e9)};
    nanosleep(&pause, nullptr);
  }
}

/// A request that is under way: of a receive, the time at which its message is there is itself received.
struct pending {
  MPI_Request data = MPI_REQUEST_NULL;
  MPI_Request stamped = MPI_REQUEST_NULL;
  /// Of a send: when the memory is free again. Its own time travels from here.
  double time = 0;
};
/// They stay where they are, for MPI writes the times into them.
inline std::list<pending>& under_way() {
  static std::list<pending> all;
  return all;
}
inline pending* find(MPI_Request r) {
  if (r == MPI_REQUEST_NULL) return nullptr;
  for (pending& p : under_way())
    if (p.data == r) return &p;
  return nullptr;
}
/// When this rank has sent all that it was given.
inline double& idle_from() {
  static double time = 0;
  return time;
}
/// The time of a message has a tag that follows from that of the message.
constexpr int stamp_tag = 40000;

/// Whether the time of all requests has come; the last of their times, as far as they are known.
inline bool due(int count, const MPI_Request requests[], double& last) {
  bool known = true;
  for (int i = 0; i < count; ++i) {
    pending* const p = find(requests[i]);
    if (p == nullptr) continue;
    int there = 1;
    if (p->stamped != MPI_REQUEST_NULL) PMPI_Test(&p->stamped, &there, MPI_STATUS_IGNORE);
    known = known && there != 0;
    if (there != 0 && p->time > last) last = p->time;
  }
  return known && last <= now();
}
/// A handle that MPI gives out again is another request: what had it ended in a way that is not seen here.
inline void begins(MPI_Request request) {
  if (pending* const ended = find(request)) ended->data = MPI_REQUEST_NULL;
}
inline void forget(int count, const MPI_Request requests[]) {
  for (int i = 0; i < count; ++i)
    for (auto p = under_way().begin(); p != under_way().end(); ++p)
      if (p->data == requests[i] && requests[i] != MPI_REQUEST_NULL) {
        under_way().erase(p);
        break;
      }
}

} // namespace detail

/// After a message was sent, whose request this is.
inline void sent(std::int64_t bytes, int target, int tag, MPI_Comm comm, MPI_Request request) {
  detail::begins(request);
  if (!is_slow()) return;
  double& idle = detail::idle_from();
  idle = (idle > detail::now() ? idle : detail::now()) + static_cast<double>(bytes) / simulated().bandwidth;
  const double there = idle + simulated().latency;
  detail::pending& p = detail::under_way().emplace_back();
  p.data = request;
  p.time = idle;
  // Eight bytes are on their way before the call returns.
  PMPI_Send(&there, 1, MPI_DOUBLE, target, detail::stamp_tag + tag, comm);
}
/// After a receive was posted, whose request this is.
inline void posted(int source, int tag, MPI_Comm comm, MPI_Request request) {
  detail::begins(request);
  if (!is_slow()) return;
  detail::pending& p = detail::under_way().emplace_back();
  p.data = request;
  PMPI_Irecv(&p.time, 1, MPI_DOUBLE, source, detail::stamp_tag + tag, comm, &p.stamped);
}
inline int wait_all(int count, MPI_Request requests[], MPI_Status statuses[]) {
  for (int i = 0; is_slow() && i < count; ++i) {
    detail::pending* const p = detail::find(requests[i]);
    if (p == nullptr) continue;
    for (int there = 0; there == 0 && p->stamped != MPI_REQUEST_NULL;) {
      PMPI_Test(&p->stamped, &there, MPI_STATUS_IGNORE);
      if (there == 0) detail::sleep_until(detail::now() + 2e-5);
    }
    detail::sleep_until(p->time);
  }
  detail::forget(is_slow() ? count : 0, requests);
  return PMPI_Waitall(count, requests, statuses);
}
inline int test_all(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  double last = 0;
  if (is_slow() && !detail::due(count, requests, last)) {
    *done = 0;
    detail::let_mpi_work();
    return MPI_SUCCESS;
  }
  std::vector<MPI_Request> before;
  if (is_slow()) before.assign(requests, requests + count);
  const int code = PMPI_Testall(count, requests, done, statuses);
  if (is_slow() && *done != 0) detail::forget(count, before.data());
  return code;
}
/// A collective of which this rank receives so many bytes, as `call` makes it.
template <class Call>
int collective(std::int64_t bytes, MPI_Comm comm, Call&& call) {
  if (!is_slow()) return call();
  PMPI_Barrier(comm);
  int ranks = 1, rounds = 0;
  PMPI_Comm_size(comm, &ranks);
  while (1 << rounds < ranks) ++rounds;
  const double there = detail::now() + rounds * simulated().latency +
                       static_cast<double>(bytes) / simulated().bandwidth;
  const int code = call();
  if (ranks > 1) detail::sleep_until(there);
  return code;
}

} // namespace network
