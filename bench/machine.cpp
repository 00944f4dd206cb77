// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What this machine can do: the peak of fused multiply-adds, and the bandwidth of a triad, of one rank alone and of
// all ranks at the same time. Writes a line of JSON for each. A file that has them is left as it is.
//
//   mpirun -n 2 machine machine.jsonl
#include <mpi.h>

#include <unistd.h>

#if defined(__SSE__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T>
struct vector_of {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
/// Independent sums: enough for two units with a latency of six cycles, and for sixteen registers.
constexpr int sums = 12;
constexpr long long rounds = 2'000'000;
constexpr double flops_of_round = 2.0 * sums;

/// This file is compiled so that a * x + y is one instruction where the processor has it.
template <class T>
[[gnu::noinline]] T multiply_add(long long n, T x, T y) {
  using vector = typename vector_of<T>::type;
  vector a[sums];
  for (int j = 0; j < sums; ++j) a[j] = vector{} + static_cast<T>(j);
  const vector factor = vector{} + x, more = vector{} + y;
  for (long long i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < sums; ++j) a[j] = a[j] * factor + more;
  }
  T total = 0;
  for (int j = 0; j < sums; ++j)
    for (std::size_t k = 0; k < vector_bytes / sizeof(T); ++k) total += a[j][k];
  return total;
}

[[gnu::noinline]] void triad(float* __restrict a, const float* __restrict b, const float* __restrict c, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
}
/// The same with stores past the caches, which do not read what they replace.
[[gnu::noinline]] void triad_non_temporal(float* a, const float* b, const float* c, std::size_t n) {
#if defined(__AVX512F__)
  const __m512 three = _mm512_set1_ps(3.0f);
  for (std::size_t i = 0; i < n; i += 16)
    _mm512_stream_ps(a + i, _mm512_add_ps(_mm512_loadu_ps(b + i), _mm512_mul_ps(three, _mm512_loadu_ps(c + i))));
  _mm_sfence();
#elif defined(__SSE__)
  const __m128 three = _mm_set1_ps(3.0f);
  for (std::size_t i = 0; i < n; i += 4)
    _mm_stream_ps(a + i, _mm_add_ps(_mm_loadu_ps(b + i), _mm_mul_ps(three, _mm_loadu_ps(c + i))));
  _mm_sfence();
#else
  triad(a, b, c, n);
#endif
}

volatile double kept = 0;

/// The best of several runs in units for each second: what the machine can do, not what others leave of it.
template <class F>
double best(MPI_Comm comm, double units, F f) {
  f();
  double most = 0;
  for (int i = 0; i < 9; ++i) {
    MPI_Barrier(comm);
    const double start = MPI_Wtime();
    f();
    double seconds = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm);
    most = std::max(most, units / seconds);
  }
  return most;
}

template <class T>
double multiply_adds(MPI_Comm comm, int ranks) {
  const double flops = flops_of_round * (vector_bytes / sizeof(T)) * static_cast<double>(rounds) * ranks;
  volatile T near_one = static_cast<T>(0.999999), small = static_cast<T>(1e-6);
  return best(comm, flops, [&] { kept = static_cast<double>(multiply_add<T>(rounds, near_one, small)); }) * 1e-9;
}
/// GB/s of two arrays read and one written, 64 MiB each for all ranks together.
double triads(MPI_Comm comm, int ranks) {
  const std::size_t n = (std::size_t{1} << 24) / static_cast<std::size_t>(ranks) / 64 * 64;
  const double bytes = 3.0 * sizeof(float) * static_cast<double>(n) * ranks;
  const auto aligned = [n](int value) {
    float* const at = static_cast<float*>(std::aligned_alloc(64, n * sizeof(float)));
    if (at == nullptr) MPI_Abort(MPI_COMM_WORLD, 1);
    std::fill_n(at, n, static_cast<float>(value));
    return at;
  };
  float *const a = aligned(0), *const b = aligned(1), *const c = aligned(2);
  const double plain = best(comm, bytes, [&] { triad(a, b, c, n); });
  const double past = best(comm, bytes, [&] { triad_non_temporal(a, b, c, n); });
  kept = a[n / 2];
  for (float* at : {a, b, c}) std::free(at);
  return std::max(plain, past) * 1e-9;
}

/// Ranks that wait here leave their cores to the others.
void wait_for_all(MPI_Comm comm) {
  MPI_Request open;
  MPI_Ibarrier(comm, &open);
  for (int done = 0; done == 0;) {
    MPI_Test(&open, &done, MPI_STATUS_IGNORE);
    if (done == 0) usleep(2000);
  }
}

void measure_ranks(MPI_Comm comm, int ranks, std::string& lines) {
  const auto add = [&](const char* name, double value, const char* unit) {
    char line[160];
    std::snprintf(line, sizeof line, "{\"name\": \"%s\", \"ranks\": %d, \"value\": %.5g, \"unit\": \"%s\"}\n", name,
                  ranks, value, unit);
    lines += line;
  };
  add("fma float", multiply_adds<float>(comm, ranks), "GFLOP/s");
  add("fma double", multiply_adds<double>(comm, ranks), "GFLOP/s");
  add("triad", triads(comm, ranks), "GB/s");
}

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1, status = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 2) {
    if (rank == 0) std::fprintf(stderr, "usage: %s machine.jsonl\n", argv[0]);
    MPI_Finalize();
    return 2;
  }
  int there = rank == 0 && access(argv[1], F_OK) == 0 ? 1 : 0;
  MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (there == 0) {
    std::string lines;
    if (rank == 0) measure_ranks(MPI_COMM_SELF, 1, lines);
    wait_for_all(MPI_COMM_WORLD);
    if (ranks > 1) measure_ranks(MPI_COMM_WORLD, ranks, lines);
    if (rank == 0) {
      // A measurement that was interrupted leaves no file.
      const std::string part = std::string(argv[1]) + ".part";
      std::FILE* const file = std::fopen(part.c_str(), "w");
      if (file == nullptr || std::fputs(lines.c_str(), file) < 0 || std::fclose(file) != 0 ||
          std::rename(part.c_str(), argv[1]) != 0) {
        std::perror(argv[1]);
        status = 1;
      }
      std::printf("%s", lines.c_str());
    }
  }
  MPI_Finalize();
  return status;
}
