// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/nn/errors.hpp>
#include <cleave/tensor/make.hpp>

#include <initializer_list>

namespace cleave { inline namespace v0 { namespace nn {

namespace detail {
template <class A>
struct is_parameter : std::bool_constant<is_tensor<A> || Number<A>> {};
} // namespace detail

/// Calls `f` with every tensor of nested aggregates, in the order in which they are written.
template <class A, class F>
void for_each_tensor(A& all, F&& f) {
  for_each_leaf<detail::is_parameter>(all, [&]<class Leaf>(Leaf& leaf) {
    if constexpr (is_tensor<std::remove_const_t<Leaf>>) f(leaf);
  });
}

/// All tensors of an aggregate, filled with zeros, from the sizes of their dims:
/// `make_parameters<Model>(grid, {embed = 64, heads = 4})`. Fixed extents need no size, and sizes of other dims are
/// ignored, so that one list serves several models. Collective. Throws shape_error on all ranks if a size is missing.
template <class A>
A make_parameters(const grid& g, std::initializer_list<named_size> sizes) {
  A all{};
  for_each_tensor(all, [&]<class Tensor>(Tensor& t) {
    constexpr spec layout = typename Tensor::sharding_type{};
    std::array<std::int64_t, as_size(Tensor::rank)> extents{};
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const dim_ref& d = layout.dims[i].dim;
      extents[i] = look_up_size({sizes.begin(), sizes.end()}, &named_size::is_of_dim, d.name, d.extent).size;
      if (extents[i] == dynamic) raise<shape_error>(wording::size_missing(d.name));
    }
    t = Tensor(g, indexed_span<const std::int64_t>(extents));
  });
  return all;
}

/// The number of layers of a stage. Throws shape_error if the stages would differ in length.
inline std::int64_t layers_of_a_stage(std::int64_t layers, std::int64_t stages) {
  if (stages < 1 || layers % stages != 0) raise<shape_error>(wording::stages_unequal(layers, stages));
  return layers / stages;
}

/// The number of elements of all tensors of an aggregate.
template <class A>
std::int64_t count_parameters(const A& all) {
  std::int64_t total = 0;
  for_each_tensor(all, [&](const auto& t) { total += t.size(); });
  return total;
}

}}} // namespace cleave::v0::nn
