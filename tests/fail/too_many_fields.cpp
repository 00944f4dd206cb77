// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an aggregate of tensors has at most 64 fields" too_many_fields Layers too_many_fields.cpp:@here
// lines-clang: 38 the struct is found wrong in the middle of the signature's templates
// fix: Put repeated fields into a `std::array`, as in `std::array<Tensor<float, mesh(embed, hidden / model)>, 65> w`,
// fix: or nest structs.
#include "names.hpp"

using namespace fail_test;

template <template <class, auto> class Tensor>
struct Layers {
  Tensor<float, mesh(embed, hidden / model)> w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15, w16,
      w17, w18, w19, w20, w21, w22, w23, w24, w25, w26, w27, w28, w29, w30, w31, w32, w33, w34, w35, w36, w37, w38, w39,
      w40, w41, w42, w43, w44, w45, w46, w47, w48, w49, w50, w51, w52, w53, w54, w55, w56, w57, w58, w59, w60, w61, w62,
      w63, w64;
};
constexpr cleave::function f([](auto x, auto layers) { return dot(x, layers.w0, embed); });
constexpr auto plan = cleave::plan<H(X, Layers<cleave::abstract>)>(f); // here

int main() {}
