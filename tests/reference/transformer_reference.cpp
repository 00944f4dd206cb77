// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trains the decoder of examples/ from the parameters, on the words and with the optimizer that a file has of a run of JAX, and compares
// losses and the first gradient.
//
//   cleave_transformer_reference FILE MESH [LAYOUT]
#include "../../examples/options.hpp"
#include "compare.hpp"

namespace reference {

// A layout takes half a minute to compile, so each third is a source of its own.
extern template errors compare<fully_sharded>(const hdf5_file&, const configuration&, const cleave::grid&);
extern template errors compare<zero1>(const hdf5_file&, const configuration&, const cleave::grid&);
extern template errors compare<pipeline_parallel>(const hdf5_file&, const configuration&, const cleave::grid&);
extern template errors compare<ring_attention>(const hdf5_file&, const configuration&, const cleave::grid&);

constexpr std::string_view usage =
    "usage: cleave_transformer_reference FILE MESH [LAYOUT]\n"
    "  FILE      an HDF5 file of a run of JAX: configuration, parameters, words, losses, first gradient\n"
    "  MESH      processes along data x model, as 2x2\n"
    "  LAYOUT    tensor (default), sequence, fsdp, zero1, pipeline or ring\n";

int run(examples::options& given, int, bool speaks) {
  const std::string path = given.word(), sizes = given.word(), layout = given.word();
  given.done();
  if (sizes.empty()) throw std::runtime_error(std::string(usage));
  const std::array<long, 2> mesh_sizes = examples::options::sizes_in("MESH", sizes);
  const hdf5_file file(path);
  const configuration c(file);
  const cleave::grid grid(mesh, MPI_COMM_WORLD, {mesh_sizes[0], mesh_sizes[1]});
  errors e;
  if (layout.empty() || layout == "tensor") e = compare<tensor_parallel>(file, c, grid);
  else if (layout == "sequence") e = compare<sequence_parallel>(file, c, grid);
  else if (layout == "fsdp") e = compare<fully_sharded>(file, c, grid);
  else if (layout == "zero1") e = compare<zero1>(file, c, grid);
  else if (layout == "pipeline") e = compare<pipeline_parallel>(file, c, grid);
  else if (layout == "ring") e = compare<ring_attention>(file, c, grid);
  else throw std::runtime_error("no layout '" + layout + "': tensor, sequence, fsdp, zero1, pipeline, ring");
  if (speaks) std::printf("reference: steps %lld, worst loss error %.3g, gradient error %.3g\n", static_cast<long long>(c.steps), e.loss, e.gradient);
  return e.loss <= 1e-5 && e.gradient <= 1e-5 ? 0 : 1;
}

} // namespace reference

int main(int argc, char** argv) { return examples::run(argc, argv, reference::usage, reference::run); }
