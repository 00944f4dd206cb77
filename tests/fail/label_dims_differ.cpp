// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "labels must have the dims of the scores" label_dims_differ line<@here> op=cross_entropy dim=batch
// fix: Give the labels a dim for each dim of the scores except the classes: `tensor<int, mesh(batch / data)>` for scores `mesh(batch / data, embed)`. Where one label holds for all, say so: `broadcast(label, batch)`.
#include "names.hpp"

#include <cleave/nn/embedding.hpp>

using namespace fail_test;

using Label = cleave::abstract<int, mesh()>;
using Loss = cleave::abstract<float, mesh()>;
constexpr cleave::function f([](auto x, auto label) {
  return mean(cleave::nn::cross_entropy(x, label, embed)); // here
});
constexpr auto plan = cleave::plan<Loss(X, Label)>(f);

int main() {}
