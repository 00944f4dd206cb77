// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trains a two-layer classifier on handwritten digits, its batch sharded over `data` and its hidden layer over `model`.
//
//   mpirun -n 4 digits examples/data/digits.csv [--mesh 2x2] [--epochs 60] [--hidden 256] [--rate 0.2] [--double]
#include "digits_data.hpp"
#include "digits_model.hpp"
#include "progress.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::string_view usage =
    "usage: digits FILE [options]\n"
    "  FILE          images as lines: 64 pixels and the digit\n"
    "  --mesh DxM    processes along data x model (as nearly square as their number allows)\n"
    "  --epochs N    passes over the images (60)\n"
    "  --hidden N    hidden units (256)\n"
    "  --rate X      learning rate to begin with (0.2)\n"
    "  --double      in double precision\n";

struct settings {
  std::array<long, 2> mesh;
  long epochs, hidden;
  double rate;
};

template <class Real>
double train(const settings& s, const digits::data_set& all, bool speaks) {
  using types = digits::of<Real>;
  cleave::grid grid(digits::mesh, MPI_COMM_WORLD, {s.mesh[0], s.mesh[1]});

  if (speaks) {
    std::printf("mesh data %ld x model %ld; the plan of one training step on 180 images:\n\n%s\n", s.mesh[0], s.mesh[1],
                explain(types::train_plan, {digits::batch = 180, digits::hidden = s.hidden, digits::data = s.mesh[0],
                                            digits::model = s.mesh[1]})
                    .c_str());
  }

  auto state = digits::start<Real>(grid, s.hidden);
  const std::vector<digits::image> images = all.training();
  const auto batches = digits::batches<Real>(grid, images, 8);
  typename types::Scalar loss(grid, {});
  examples::progress shown(speaks, s.epochs, static_cast<long>(images.size()), "images");
  for (long epoch = 1; epoch <= s.epochs; ++epoch) {
    double total = 0;
    // The rate falls along half a cosine.
    const Real rate = static_cast<Real>(
        s.rate * 0.5 *
        (1 + std::cos(3.14159265358979 * static_cast<double>(epoch - 1) / static_cast<double>(s.epochs))));
    for (const auto& b : batches) {
      types::train(state.weights, state.momentum, b.images, b.labels, rate).into(state.weights, state.momentum, loss);
      total += static_cast<double>(loss.item());
    }
    shown.show(epoch, {{"loss", total / static_cast<double>(batches.size())}});
  }
  shown.leave();

  const auto test = digits::batches<Real>(grid, all.testing(), 1).front();
  typename types::Scalar fraction(grid, {});
  fraction = types::accuracy(state.weights, test.images, test.labels);
  return static_cast<double>(fraction.item());
}

int run(examples::options& given, int ranks, bool speaks) {
  const settings s{examples::mesh_of(given.sizes("--mesh"), ranks), given.number("--epochs", 60L),
                   given.number("--hidden", 256L), given.number("--rate", 0.2)};
  const bool in_double = given.flag("--double");
  const std::string file = given.word();
  given.done();
  if (file.empty()) throw std::runtime_error("a file of images is missing, see --help");
  const digits::data_set all = digits::read(file);
  const double accuracy = in_double ? train<double>(s, all, speaks) : train<float>(s, all, speaks);
  if (speaks) std::printf("test accuracy %.3f\n", accuracy);
  return 0;
}

} // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, usage, run); }
