// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/field_names.hpp>
#include <cleave/expr/random.hpp>
#include <cleave/nn/parameters.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace cleave { inline namespace v0 { namespace nn {

/// How the initial values of a tensor are drawn: numbers of this deviation, or for `over_fan` of variance scale /
/// (number of inputs that are added up for an output).
struct initial_values {
  enum class kind : unsigned char { constant, normal, uniform };
  kind how = kind::constant;
  double scale = 0;
  bool over_fan = false;
  /// Dims that are not added up: those of the outputs, and of a stack of layers. None given: the last dim.
  std::vector<dim_ref> outputs{};
};
/// Zeros.
inline const initial_values zeros{};
/// Ones.
inline const initial_values ones{initial_values::kind::constant, 1};
/// Normal numbers of a deviation.
inline initial_values normal_values(double deviation) { return {initial_values::kind::normal, deviation}; }
/// Normal numbers of variance 2 / inputs, for relu (He et al. 2015): `he_normal(out)`, `he_normal(layer, heads, head)`.
template <std::convertible_to<dim_ref>... D>
initial_values he_normal(const D&... outputs) {
  return {initial_values::kind::normal, 2, true, {dim_ref(outputs)...}};
}
/// Normal numbers of variance 1 / inputs (LeCun et al. 1998).
template <std::convertible_to<dim_ref>... D>
initial_values lecun_normal(const D&... outputs) {
  return {initial_values::kind::normal, 1, true, {dim_ref(outputs)...}};
}
/// Uniform numbers of variance 1 / (3 inputs): those of PyTorch's linear layers and convolutions.
template <std::convertible_to<dim_ref>... D>
initial_values uniform_values(const D&... outputs) {
  return {initial_values::kind::uniform, 1.0 / 3, true, {dim_ref(outputs)...}};
}

/// A rule: the initial values of tensors whose names fit a pattern, in which `*` stands for any letters.
struct initial_rule {
  std::string_view names;
  initial_values values;
};

namespace detail {
/// A uniform number in (0, 1).
inline double uniform(std::uint32_t word) { return (static_cast<double>(word) + 0.5) / 4294967296.0; }
} // namespace detail

/// Fills the tensors of an aggregate by the first rule that fits the name: `nn::initialise(weights, 7, {{"*.bias",
/// nn::zeros}, {"*", nn::he_normal(out)}})`. Values follow from key, name and index alone, so all meshes and layouts
/// get the same. No communication. Throws shape_error if no rule fits a name.
template <class A>
void initialise(A& all, std::uint64_t key, std::initializer_list<initial_rule> rules) {
  std::vector<std::string> names;
  for_each_named_leaf<detail::is_parameter, A>("", [&]<class Leaf>(std::string_view name) {
    if constexpr (is_tensor<Leaf>) names.emplace_back(name);
  });
  std::size_t next = 0;
  for_each_tensor(all, [&]<class Tensor>(Tensor& t) {
    using number = typename Tensor::element_type;
    const std::string& name = names[next++];
    const initial_values* how = nullptr;
    for (const initial_rule& r : rules)
      if (how == nullptr && fits(name, r.names)) how = &r.values;
    if (how == nullptr) raise<shape_error>(wording::no_initializer(name));
    std::uint64_t own = 14695981039346656037u; // FNV-1a of the name
    for (const char c : name) own = (own ^ static_cast<unsigned char>(c)) * 1099511628211u;
    constexpr spec layout = typename Tensor::sharding_type{};
    const auto extents = t.extents();
    double inputs = 1;
    for (std::size_t i = 0; i < extents.size(); ++i) {
      bool is_output = how->outputs.empty() && i + 1 == extents.size();
      for (const dim_ref& d : how->outputs) is_output = is_output || d.name == layout.dims[i].dim.name;
      if (!is_output) inputs *= static_cast<double>(extents[i]);
    }
    const double deviation = how->over_fan ? std::sqrt(how->scale / std::max(inputs, 1.0)) : how->scale;
    t.fill_by([&](const auto& at) {
      std::uint64_t index = 0;
      for (std::size_t i = 0; i < extents.size(); ++i)
        index = index * static_cast<std::uint64_t>(extents[i]) + static_cast<std::uint64_t>(at[i]);
      const random_words words = random_words_at(key, own, index);
      const double first = detail::uniform(words.word[0]);
      double drawn = 1;
      if (how->how == initial_values::kind::uniform) drawn = std::sqrt(3.0) * (2 * first - 1);
      if (how->how == initial_values::kind::normal)
        drawn = std::sqrt(-2 * std::log(first)) * std::cos(6.283185307179586 * detail::uniform(words.word[1]));
      return static_cast<number>(deviation * drawn);
    });
  });
}

}}} // namespace cleave::v0::nn
