// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/environment.hpp>
#include <cleave/comm/mpi.hpp>
#include <cleave/program/exchange_spec.hpp>
#include <cleave/storage/memory.hpp>

#include <string_view>

#if defined(OPEN_MPI) && OPEN_MPI && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace cleave { inline namespace v0 { namespace comm {

/// Whether MPI accepts addresses of device memory. Nothing detects this reliably, so users can set it:
/// CLEAVE_GPU_AWARE_MPI=on or off in the environment, or gpu_aware_mode() = ... before a program is first run.
enum class gpu_aware : std::uint8_t {
  automatic,
  on,
  off,
  /// Stages host memory too; for tests on machines without a device.
  never,
};

inline gpu_aware& gpu_aware_mode() {
  static gpu_aware mode = [] {
    const std::string_view word = word_of_environment("CLEAVE_GPU_AWARE_MPI", {"auto", "on", "off"});
    return word == "on" ? gpu_aware::on : word == "off" ? gpu_aware::off : gpu_aware::automatic;
  }();
  return mode;
}

/// Whether buffers are staged through host memory. A plan keeps the setting of the time when it is bound.
inline bool staged() {
  switch (gpu_aware_mode()) {
    case gpu_aware::never: return true;
    case gpu_aware::on: return false;
    case gpu_aware::off: return !on_host;
    case gpu_aware::automatic: break;
  }
  if constexpr (on_host) return false;
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT && defined(KOKKOS_ENABLE_CUDA)
  return MPIX_Query_cuda_support() == 0;
#else
  return true;
#endif
}

/// Scratch memory of a move: its packing buffer, and the host copy of that buffer if buffers are staged.
struct scratch {
  char* memory = nullptr;
  char* host = nullptr;
};
struct scratch_bytes {
  std::int64_t memory = 0;
  std::int64_t host = 0;
};

using cleave::aligned;

/// Gives MPI the addresses to read and write: the data itself, or its copy on the host if buffers are staged.
class port {
 public:
  port() : port(cleave::comm::staged()) {}
  explicit port(bool through_host) : through_host_(through_host) {}

  bool staged() const { return through_host_; }
  /// Bytes of host memory that `call` needs.
  std::int64_t host_bytes(std::int64_t sent, std::int64_t received) const {
    return staged() ? aligned(sent) + aligned(received) : 0;
  }
  /// Calls f(from, into) with the send and the receive buffer for `in` and `out`; `out` is complete afterwards.
  template <class F>
  void call(const void* in, std::int64_t sent, void* out, std::int64_t received, char* host, F&& f) const {
    char* const landing = staged() ? host + aligned(sent) : nullptr;
    const void* from = outgoing(in, host, sent);
    f(from, incoming(out, landing));
    arrived(out, landing, received);
  }
  /// A function that copies bytes between two addresses given to MPI.
  auto copier() const {
    return [on_host = staged()](void* to, const void* from, std::int64_t bytes) {
      if (on_host) copy_bytes<Kokkos::HostSpace, Kokkos::HostSpace>(to, from, bytes);
      else copy_bytes(to, from, bytes);
    };
  }

  /// The send buffer of MPI: the data itself or its copy on the host.
  const void* outgoing(const void* data, char* host, std::int64_t bytes) const {
    if (!through_host_) {
      wait_for_kernels();
      return data;
    }
    copy_bytes<Kokkos::HostSpace, memory_space>(host, data, bytes);
    return host;
  }
  /// The receive buffer of MPI. MPI may write as soon as a receive is posted, so this waits for kernels that read the
  /// memory. `arrived` must follow.
  void* incoming(void* data, char* host) const {
    if (through_host_) return host;
    wait_for_kernels();
    return data;
  }
  void arrived(void* data, const char* host, std::int64_t bytes) const {
    if (through_host_) copy_bytes<memory_space, Kokkos::HostSpace>(data, host, bytes);
  }

 private:
  bool through_host_;
};

/// An exchange bound to a grid, several that share messages, or a move. An interface, since programs compile only those
/// that they use.
class bound_exchange {
 public:
  virtual ~bound_exchange() = default;
  virtual scratch_bytes needs() const = 0;
  /// Sends and receives; `in` has the addresses of the operands, offsets among them, and `out` those of the results,
  /// for several exchanges one after the other. Until `finish`, which must follow, operands may be read but not
  /// written, and results and scratch must not be accessed.
  virtual void begin(const void* const* in, void* const* out, const scratch& s) = 0;
  virtual void finish() = 0;
  /// Whether this device exchanges messages with others.
  virtual bool communicates() const = 0;
  /// Between `begin` and `finish`: gives MPI the time to transfer messages.
  virtual void progress() = 0;
  virtual void run(const void* const* in, void* const* out, const scratch& s) {
    begin(in, out, s);
    finish();
  }
  /// Of one operand and one result.
  void run_one(const void* in, void* out, const scratch& s) { run(&in, &out, s); }
};

}}} // namespace cleave::v0::comm
