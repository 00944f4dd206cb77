// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two programs timed side by side in one process, and what was measured as a line of JSON.
#pragma once

#include "machine.hpp"
#include "round_trip.hpp"

#include <Kokkos_Core.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace measure {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Seconds of a call of the slowest rank, and ours over theirs: medians over repetitions. The ratio is taken within
/// each repetition, so that other work on the machine, which comes and goes, meets both alike.
struct timing {
  double ours = 0, theirs = 0, ratio = 0;
  int repetitions = 0;
};

/// Seconds per call of `calls` calls, of the slowest rank, all of which start together.
template <class F>
double once(MPI_Comm comm, int calls, F& f) {
  MPI_Barrier(comm);
  const double start = MPI_Wtime();
  for (int i = 0; i < calls; ++i) f();
  double seconds = MPI_Wtime() - start;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm);
  return seconds / calls;
}

/// Runs both in turn, each first every other time, for so many seconds. All ranks agree on the number of repetitions.
template <class F, class G>
timing compare(MPI_Comm comm, int calls, double seconds, F ours, G theirs) {
  for (int i = 0; i < 3; ++i) once(comm, calls, ours), once(comm, calls, theirs);
  std::vector<double> a, b;
  double spent = 0;
  while ((spent < seconds || a.size() < 20) && a.size() < 5000) {
    const bool first = a.size() % 2 == 0;
    if (first) a.push_back(once(comm, calls, ours));
    b.push_back(once(comm, calls, theirs));
    if (!first) a.push_back(once(comm, calls, ours));
    spent += (a.back() + b.back()) * calls;
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return {median(a), median(b), median(ratios), static_cast<int>(a.size())};
}

/// What a program computes, or moves between memory and caches at least, on all ranks together: for its share of what
/// the machine can do.
struct work {
  enum class kind { none, float_product, double_product, float_flops, double_flops, bytes };

  kind of = kind::none;
  double amount = 0;

  /// Multiply-adds of a BLAS library count twice.
  template <class T = float>
  static work products(double flops) {
    return {sizeof(T) == sizeof(float) ? kind::float_product : kind::double_product, flops};
  }
  template <class T = float>
  static work flops(double flops) {
    return {sizeof(T) == sizeof(float) ? kind::float_flops : kind::double_flops, flops};
  }
  static work bytes(double bytes) { return {kind::bytes, bytes}; }

  bool is_product() const { return of == kind::float_product || of == kind::double_product; }
  /// Of so many seconds, and the peak in the same unit.
  double rate(double seconds) const { return amount / seconds * 1e-9; }
  double peak(const machine& m) const {
    if (of == kind::none) return 0;
    if (of == kind::bytes) return m.gigabytes;
    return of == kind::float_product || of == kind::float_flops ? m.float_gflops : m.double_gflops;
  }
};

/// Products that are slower than this share of the peak are those of another library than was meant. Small ones are
/// slow in any library.
constexpr double least_share_of_products = 0.1, least_flops_of_products = 1e8;

/// Appends one measurement to a file; rank 0 writes.
class results {
 public:
  results(const std::string& path, MPI_Comm comm) {
    int rank = 0, ranks = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    round_trip_ = round_trip_ns(comm);
    if (rank == 0) {
      file_ = std::fopen(path.c_str(), "a");
      machine_ = read_machine(path, ranks);
    }
  }
  ~results() {
    if (file_ != nullptr) std::fclose(file_);
  }
  results(const results&) = delete;
  results& operator=(const results&) = delete;

  /// The time of a program against the hand-written one, or another library, which it may exceed by a factor.
  void factor(const std::string& name, const timing& t, double limit, const work& w = {},
              const char* reference = "hand-written") {
    write(name, t.ours, 1e3, "ms", t, "limit_ratio", limit, reference, w);
  }
  /// The time of a small call, which may exceed that of the raw calls by so many microseconds.
  void above(const std::string& name, const timing& t, double limit) {
    write(name, t.ours, 1e6, "us", t, "limit_above", limit, "hand-written", {});
  }
  /// The time of a call against that of another call of the same program, which it may exceed by a factor.
  void growth(const std::string& name, const timing& t, double limit, const char* other) {
    write(name, t.ours, 1e3, "ms", t, "limit_ratio", limit, other, {});
  }

  /// How much of so many seconds of communication a program hides: how much sooner it is over than the one that waits.
  /// At least so much is wanted.
  void share(const std::string& name, const timing& t, double communication, double least) {
    if (file_ == nullptr) return;
    const double hidden = (t.theirs - t.ours) / communication;
    std::fprintf(file_,
                 "{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"\", \"seconds\": %.6g, \"seconds_apart\": %.6g, "
                 "\"seconds_of_communication\": %.6g, \"limit_least\": %g, \"repetitions\": %d}\n",
                 name.c_str(), hidden, t.ours, t.theirs, communication, least, t.repetitions);
    std::fflush(file_);
    std::printf("%-64s %6.3f\n", name.c_str(), hidden);
    std::fflush(stdout);
  }

 private:
  void write(const std::string& name, double seconds, double scale, const char* unit, const timing& t,
             const char* limit_name, double limit, const char* compared, const work& w) {
    if (file_ == nullptr) return;
    std::fprintf(file_,
                 "{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"reference\": \"%s\", "
                 "\"reference_value\": %.6g, "
                 "\"ratio\": %.4f, \"%s\": %g, \"repetitions\": %d",
                 name.c_str(), seconds * scale, unit, compared, t.theirs * scale, t.ratio, limit_name, limit,
                 t.repetitions);
    const double peak = w.peak(machine_), share = peak > 0 ? w.rate(seconds) / peak : 0;
    if (w.of != work::kind::none)
      std::fprintf(file_, ", \"%s\": %.4g", w.of == work::kind::bytes ? "gigabytes" : "gflops", w.rate(seconds));
    if (peak > 0) std::fprintf(file_, ", \"share\": %.4f", share);
    if (round_trip_ > 0) std::fprintf(file_, ", \"round_trip_ns\": %.0f", round_trip_);
    std::fprintf(file_, "}\n");
    std::fflush(file_);
    std::printf("%-44s %10.4g %s  ratio %.3f", name.c_str(), seconds * scale, unit, t.ratio);
    if (peak > 0) std::printf("  %.2f of the %s", share, w.of == work::kind::bytes ? "triad" : "FMA peak");
    std::printf("\n");
    if (peak > 0 && w.is_product() && w.amount >= least_flops_of_products && share < least_share_of_products)
      std::printf(
          "warning: products run at %.1f %% of the FMA peak. Is the BLAS a reference BLAS, or does "
          "OPENBLAS_CORETYPE name an old processor?\n",
          100 * share);
    std::fflush(stdout);
  }
  std::FILE* file_ = nullptr;
  machine machine_{};
  double round_trip_ = 0;
};

/// What a program measures with, on all ranks: RESULTS.jsonl, seconds for each measurement, and the name of the only
/// part that is asked for, if one is.
struct task {
  results& out;
  MPI_Comm comm;
  int ranks;
  double seconds;
  std::string only;
};

/// The main function of a program that measures: `NAME RESULTS.jsonl [SECONDS [PART]]`.
template <class F>
int run(int argc, char** argv, double seconds, F&& part) {
  int provided = 0, status = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    try {
      if (argc < 2) throw std::runtime_error(std::string("usage: ") + argv[0] + " RESULTS.jsonl [SECONDS [PART]]");
      results out(argv[1], MPI_COMM_WORLD);
      part(task{out, MPI_COMM_WORLD, ranks, argc > 2 ? std::atof(argv[2]) : seconds, argc > 3 ? argv[3] : ""});
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
      status = 1;
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Finalize();
  return status;
}

} // namespace measure
