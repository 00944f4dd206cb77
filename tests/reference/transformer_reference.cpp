// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trains the decoder of examples/ from the parameters, on the words and with the optimizer that a file has of a run of
// JAX, and compares losses and the first gradient.
//
//   cleave_transformer_reference FILE MESH [LAYOUT]
#include "../../examples/options.hpp"
#include "compare.hpp"

#include <algorithm>
#include <optional>

// The steps are those of the objects that train_lm has.
extern template struct decoder::trainer<decoder::tensor_parallel>;
extern template struct decoder::trainer<decoder::sequence_parallel>;
extern template struct decoder::trainer<decoder::finalized>;
extern template struct decoder::trainer<decoder::fully_sharded>;
extern template struct decoder::trainer<decoder::zero1>;
extern template struct decoder::trainer<decoder::pipeline_parallel>;
extern template struct decoder::trainer<decoder::ring_attention>;

namespace reference {

constexpr std::string_view usage =
    "usage: cleave_transformer_reference FILE MESH [LAYOUT]\n"
    "  FILE      an HDF5 file of a run of JAX: configuration, parameters, words, losses, first gradient\n"
    "  MESH      processes along data x model, as 2x2\n"
    "  LAYOUT    tensor (default), sequence, finalized, fsdp, zero1, pipeline or ring\n";

struct layout_entry {
  std::string_view name;
  errors (*run)(const hdf5_file&, const configuration&, const cleave::grid&);
};
constexpr layout_entry layouts[] = {{"tensor", compare<tensor_parallel>},
                                    {"sequence", compare<sequence_parallel>},
                                    {"finalized", compare<finalized>},
                                    {"fsdp", compare<fully_sharded>},
                                    {"zero1", compare<zero1>},
                                    {"pipeline", compare<pipeline_parallel>},
                                    {"ring", compare<ring_attention>}};

/// The file and what it says, on all ranks or on none.
struct input {
  std::optional<hdf5_file> file{};
  std::optional<configuration> sizes{};

  explicit input(const std::string& path) {
    std::string problem = "another process cannot read " + path;
    int fine = 1;
    try {
      file.emplace(path);
      sizes.emplace(*file);
    } catch (const std::exception& e) {
      problem = e.what();
      fine = 0;
    }
    MPI_Allreduce(MPI_IN_PLACE, &fine, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (fine == 0) throw std::runtime_error(problem);
  }
};

int run(examples::options& given, int, bool speaks) {
  const std::string path = given.word(), shape = given.word(), asked = given.word(),
                    layout = asked.empty() ? "tensor" : asked;
  given.done();
  if (shape.empty()) throw std::runtime_error("FILE and MESH are missing, see --help");
  const std::array<long, 2> mesh_sizes = examples::options::sizes_in("MESH", shape);
  const auto chosen = std::ranges::find(layouts, layout, &layout_entry::name);
  if (chosen == std::end(layouts))
    throw std::runtime_error("there is no layout '" + layout +
                             "', only tensor, sequence, finalized, fsdp, zero1, pipeline, ring");
  const cleave::grid grid(mesh, MPI_COMM_WORLD, {mesh_sizes[0], mesh_sizes[1]});
  const input in(path);
  const configuration& c = *in.sizes;
  const errors e = chosen->run(*in.file, c, grid);
  if (speaks)
    std::printf("reference: steps %lld, worst loss error %.3g, gradient error %.3g\n", static_cast<long long>(c.steps),
                e.loss, e.gradient);
  return e.loss <= 1e-5 && e.gradient <= 1e-5 ? 0 : 1;
}

} // namespace reference

int main(int argc, char** argv) { return examples::run(argc, argv, reference::usage, reference::run); }
