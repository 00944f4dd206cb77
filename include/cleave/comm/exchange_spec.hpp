// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/staging.hpp>
#include <cleave/program/exchange_spec.hpp>

namespace cleave { inline namespace v0 { namespace comm {

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
