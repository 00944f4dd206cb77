// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer: any bytes are a file, which is read or refused. The first byte chooses the format.
#include "read_arrays.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return -1;
  const int handle = memfd_create("file", 0);
  if (handle < 0 || write(handle, data + 1, size - 1) != static_cast<ssize_t>(size - 1)) std::abort();
  try {
    read_arrays::read(read_arrays::all_formats[data[0] % 4], "/proc/self/fd/" + std::to_string(handle));
  } catch (const cleave::error&) {
  }
  close(handle);
  return 0;
}
