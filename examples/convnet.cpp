// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A small convolution net on the handwritten digits, sharded over space: every process has a part of each image.
// Neighbours exchange the edges of their parts. One line, `Images`, decides that; everything else follows.
//
//   mpirun -n 4 convnet examples/data/digits.csv [--mesh 2x2] [--epochs 4]
#include "digits_data.hpp"
#include "options.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/convolution.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/optim/sgd.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace convnet {

namespace nn = cleave::nn;

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};

inline constexpr cleave::dim<"image"> image;
inline constexpr cleave::dim<"row", 8> row;
inline constexpr cleave::dim<"col", 8> col;
inline constexpr cleave::dim<"feature", 8> feature; // what the first convolution finds,
inline constexpr cleave::dim<"shape", 16> shape; // and the second
inline constexpr cleave::dim<"kr", 3> kr; // the windows of the convolutions
inline constexpr cleave::dim<"kc", 3> kc;
inline constexpr cleave::dim<"pr", 2> pr; // and of the pooling, which leaves
inline constexpr cleave::dim<"pc", 2> pc;
inline constexpr cleave::dim<"half_row", 4> half_row; // half as many rows
inline constexpr cleave::dim<"half_col", 4> half_col; // and columns
inline constexpr cleave::dim<"digit", 10> digit;

using OverSpace = cleave::tensor<float, mesh(image, row / ay, col / ax)>;
using OverBatch = cleave::tensor<float, mesh(image / ay / ax, row, col)>;
using Images = OverSpace; // change this line to divide the batch
using Labels = cleave::tensor<int, mesh(image)>;
using Number = cleave::tensor<float, mesh()>;

template <template <class, auto> class Tensor = cleave::tensor>
struct weights {
  nn::linear_weights<Tensor<float, mesh(kr, kc, feature)>, Tensor<float, mesh(feature)>> first;
  nn::linear_weights<Tensor<float, mesh(kr, kc, feature, shape)>, Tensor<float, mesh(shape)>> second;
  nn::linear_weights<Tensor<float, mesh(half_row, half_col, shape, digit)>, Tensor<float, mesh(digit)>> dense;
};
using Weights = weights<>;

// Windows of 3 x 3, zeros beyond the edge of the image; and of 2 x 2 at each second place.
constexpr cleave::window over_rows = nn::centred(row, kr), over_cols = nn::centred(col, kc);
constexpr cleave::window pooled_rows{row, half_row, pr, 2}, pooled_cols{col, half_col, pc, 2};

constexpr cleave::function scores([](const auto& w, const auto& images) {
  const auto features = relu(nn::depthwise_convolution(images, w.first, over_rows, over_cols));
  const auto shapes = relu(nn::convolution(features, w.second, feature, over_rows, over_cols));
  return nn::linear(nn::max_pool(shapes, pooled_rows, pooled_cols), w.dense, half_row, half_col, shape);
});
constexpr cleave::function loss([](auto w, auto images, auto labels) {
  return -mean(sum(one_hot<float>(labels, digit) * log_softmax(scores(w, images), digit), digit), image);
});
constexpr cleave::function train([](auto w, auto momentum, auto images, auto labels, auto rate) {
  const auto [value, slope] = cleave::value_and_grad(loss)(w, images, labels);
  return std::tuple_cat(cleave::optim::sgd(w, momentum, slope, rate, 0.9), std::tuple(value));
});
constexpr cleave::function accuracy([](auto w, auto images, auto labels) {
  const auto s = scores(w, images);
  return mean(cast<float>(sum(one_hot<float>(labels, digit) * s, digit) >= max(s, digit)), image);
});

// Forward over space: each convolution looks around its block once, pooling does only where blocks end at an odd place,
// and the scores, 10 numbers an image, are summed. Images and maps never move as a whole.
constexpr auto over_space = cleave::plan<Number(Weights, OverSpace, Labels)>(loss);
static_assert(over_space.count(cleave::kind::exchange) == 3 && over_space.count(cleave::kind::all_reduce) == 1);
static_assert(over_space.collectives() == 4);
// On 2 x 2 processes: 9 places around a block of 4 x 4, with 1 number of the image, then 8 features; and the sum of the
// scores.
static_assert(over_space.bytes({image = 60, ay = 2, ax = 2}) == 60 * 9 * (1 + 8) * 4 + 2 * 3 * (60 * 10 * 4) / 4);
// Forward over the batch: only the losses are summed.
constexpr auto over_batch = cleave::plan<Number(Weights, OverBatch, Labels)>(loss);
static_assert(over_batch.count(cleave::kind::all_reduce) == 1 && over_batch.collectives() == 1);

using Trained = std::tuple<Weights, Weights, Number>;
constexpr auto train_plan = cleave::plan<Trained(Weights, Weights, Images, Labels, float)>(train);

struct batch {
  Images images;
  Labels labels;
};
/// The rows cut into `count` batches of nearly equal size, sharded over the grid.
std::vector<batch> batches(const cleave::grid& grid, const std::vector<digits::image>& rows, long count) {
  std::vector<batch> list;
  const long total = static_cast<long>(rows.size());
  for (long b = 0; b < count; ++b) {
    const long begin = b * total / count, size = (b + 1) * total / count - begin;
    batch one{{grid, {size, 8, 8}}, {grid, {size}}};
    const auto at_row = [&](auto i) -> const digits::image& { return rows[static_cast<std::size_t>(begin + i)]; };
    one.images.fill_by([&](const auto& at) {
      return static_cast<float>(at_row(at[0]).pixels[static_cast<std::size_t>(8 * at[1] + at[2])]) / 16;
    });
    one.labels.fill_by([&](const auto& at) { return at_row(at[0]).label; });
    list.push_back(one);
  }
  return list;
}

constexpr std::string_view usage =
    "usage: convnet FILE [options]\n"
    "  FILE             the digits, examples/data/digits.csv\n"
    "  --mesh RxC       processes along the rows x along the columns of an image (as square as possible)\n"
    "  --epochs N       passes over the training images (4)\n"
    "  --batches N      batches in a pass (24)\n"
    "  --rate R         learning rate, falls to 0 along half a cosine (0.05)\n";

int learn(examples::options& given, int ranks, bool speaks) {
  const long epochs = given.number("--epochs", 4L), count = given.number("--batches", 24L);
  const double highest = given.number("--rate", 0.05);
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  const std::string file = given.word();
  given.done();
  if (file.empty()) throw std::runtime_error("a file of images is missing, see --help");
  const digits::data_set all = digits::read(file);
  const std::vector<digits::image> rows = all.training();
  if (count > static_cast<long>(rows.size()))
    throw std::runtime_error("convnet: --batches is at most the number of images, " + std::to_string(rows.size()));

  cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  if (speaks)
    std::printf("%ld x %ld processes; the plan of a training step on 60 images:\n\n%s\n", sizes[0], sizes[1],
                explain(train_plan, {image = 60, ay = sizes[0], ax = sizes[1]}).c_str());

  // Random numbers follow from key and place alone: every mesh starts from the same weights.
  auto w = nn::make_parameters<Weights>(grid, {}), momentum = nn::make_parameters<Weights>(grid, {});
  w.first.kernel = 0.47f * cleave::normal<float>(1, kr, kc, feature); // sqrt(2 / fan-in)
  w.second.kernel = 0.17f * cleave::normal<float>(2, kr, kc, feature, shape);
  w.dense.kernel = 0.06f * cleave::normal<float>(3, half_row, half_col, shape, digit);

  const std::vector<batch> training = batches(grid, rows, count);
  Number value(grid, {});
  const double start = MPI_Wtime();
  for (long epoch = 0; epoch < epochs; ++epoch) {
    double total = 0;
    for (std::size_t b = 0; b < training.size(); ++b) {
      const double done = static_cast<double>(epoch * count + static_cast<long>(b)) /
                          static_cast<double>(epochs * count);
      const float rate = static_cast<float>(highest * 0.5 * (1 + std::cos(std::acos(-1.0) * done)));
      train(w, momentum, training[b].images, training[b].labels, rate).into(w, momentum, value);
      total += static_cast<double>(value.item());
    }
    if (speaks) std::printf("epoch %ld  loss %.5f\n", epoch + 1, total / static_cast<double>(count));
  }
  const double seconds = MPI_Wtime() - start;

  const batch test = batches(grid, all.testing(), 1).front();
  value = accuracy(w, test.images, test.labels);
  const double right = static_cast<double>(value.item());
  if (speaks)
    std::printf("%.2f milliseconds a step\ntest accuracy %.3f\n", 1e3 * seconds / static_cast<double>(epochs * count),
                right);
  return right >= 0.9 ? 0 : 1;
}

} // namespace convnet

int main(int argc, char** argv) { return examples::run(argc, argv, convnet::usage, convnet::learn); }
