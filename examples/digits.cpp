// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trains a two-layer classifier on handwritten digits, its batch divided over `data` and its hidden layer over `model`.
//
//   mpirun -n 4 digits examples/data/digits.csv [--mesh 2x2] [--epochs 60] [--hidden 256] [--rate 0.2] [--double]
#include "digits_data.hpp"
#include "digits_model.hpp"

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct options {
  std::string file;
  long data = 0, model = 0;
  int epochs = 60;
  long hidden = 256;
  double rate = 0.2;
  bool in_double = false;
};

struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Number>
Number parse(std::string_view option, std::string_view text) {
  Number number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || number <= 0)
    throw usage_error("digits: " + std::string(option) + " takes a positive number, got '" + std::string(text) + "'");
  return number;
}

options read_options(int argc, char** argv, int ranks) {
  options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (!name.starts_with("--")) {
      o.file = name;
      continue;
    }
    if (name == "--double") {
      o.in_double = true;
      continue;
    }
    if (i + 1 == argc) throw usage_error("digits: " + std::string(name) + " needs a value");
    const std::string_view value = argv[++i];
    if (name == "--mesh") {
      const std::size_t x = value.find('x');
      if (x == std::string_view::npos) throw usage_error("digits: --mesh takes DATAxMODEL, as 2x2");
      o.data = parse<long>(name, value.substr(0, x));
      o.model = parse<long>(name, value.substr(x + 1));
    } else if (name == "--epochs") {
      o.epochs = parse<int>(name, value);
    } else if (name == "--hidden") {
      o.hidden = parse<long>(name, value);
    } else if (name == "--rate") {
      o.rate = parse<double>(name, value);
    } else {
      throw usage_error("digits: unknown option '" + std::string(name) + "'");
    }
  }
  if (o.file.empty()) throw usage_error("usage: digits FILE [--mesh 2x2] [--epochs 60] [--hidden 256] [--rate 0.2] [--double]");
  if (o.data == 0) {
    o.model = ranks % 2 == 0 ? 2 : 1;
    o.data = ranks / o.model;
  }
  return o;
}

void show_progress(int epoch, int epochs, double loss) {
  constexpr int width = 40;
  const int done = epoch * width / epochs;
  std::printf("\r[%.*s%.*s] epoch %d/%d  loss %.5f", done, "########################################", width - done,
              "........................................", epoch, epochs, loss);
  if (epoch == epochs) std::printf("\n");
  std::fflush(stdout);
}

template <class Real>
double run(const options& o, const digits::data_set& all, MPI_Comm comm, bool speaks) {
  using types = digits::of<Real>;
  cleave::grid grid(digits::mesh, comm, {o.data, o.model});

  if (speaks) {
    std::printf("mesh data %ld x model %ld; the plan of one training step on 180 images:\n\n%s\n", o.data, o.model,
                explain(types::train_plan, {digits::batch = 180, digits::hidden = o.hidden, digits::data = o.data,
                                            digits::model = o.model})
                    .c_str());
  }

  auto state = digits::start<Real>(grid, o.hidden);
  const auto batches = digits::batches<Real>(grid, all.training(), 8);
  typename types::Scalar loss(grid, {});
  for (int epoch = 1; epoch <= o.epochs; ++epoch) {
    double total = 0;
    // The rate falls along half a cosine.
    const Real rate = static_cast<Real>(o.rate * 0.5 * (1 + std::cos(3.14159265358979 * (epoch - 1) / o.epochs)));
    for (const auto& b : batches) {
      types::train(state.weights, state.momentum, b.images, b.labels, rate).into(state.weights, state.momentum, loss);
      total += static_cast<double>(loss.item());
    }
    if (speaks) show_progress(epoch, o.epochs, total / static_cast<double>(batches.size()));
  }

  const auto test = digits::batches<Real>(grid, all.testing(), 1).front();
  typename types::Scalar fraction(grid, {});
  fraction = types::accuracy(state.weights, test.images, test.labels);
  return static_cast<double>(fraction.item());
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int rank = 0, ranks = 1, status = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  {
    Kokkos::ScopeGuard kokkos(argc, argv);
    try {
      const options o = read_options(argc, argv, ranks);
      const digits::data_set all = digits::read(o.file);
      const double accuracy = o.in_double ? run<double>(o, all, MPI_COMM_WORLD, rank == 0) : run<float>(o, all, MPI_COMM_WORLD, rank == 0);
      if (rank == 0) std::printf("test accuracy %.3f\n", accuracy);
    } catch (const std::exception& e) {
      // Every rank meets the same fault; one of them says it.
      if (rank == 0) std::fprintf(stderr, "%s\n", e.what());
      status = 1;
    }
  }
  MPI_Finalize();
  return status;
}
