// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/simulate/remap.hpp>

#include <algorithm>
#include <numeric>

namespace cleave { inline namespace v0 { namespace simulation {

/// The arguments of an operation of op_class::sort, of a node or of a step.
struct slice_operation {
  op what;
  dim_id along;
  bool backwards;
};
/// A tensor, or the part of it that a device computes on.
struct slice_tensor {
  placed place;
  const host_array* array;
};

/// The order of numbers: NaN comes after all others.
inline bool comes_before(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

/// Each slice along a dim in order, or the indices that its elements had: equal ones in the order of their indices, NaN
/// after all numbers, and before them in descending order.
inline void sort_slices(const slice_operation& o, const slice_tensor& in, host_array& out) {
  const int along = in.place.type.find(o.along);
  const std::int64_t length = in.array->extents[along], step = in.place.step(o.along);
  auto order = indexed_vector<std::int64_t>::filled(length);
  for_each_index(whole_box(in.array->extents), [&](const position& index, std::int64_t offset) {
    if (index[along] != 0) return;
    const auto element = [&](std::int64_t i) { return in.array->data[offset + i * step]; };
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      const double x = element(o.backwards ? b : a), y = element(o.backwards ? a : b);
      return comes_before(x, y) || (!comes_before(y, x) && a < b);
    });
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t from = order[i];
      out.data[offset + i * step] = o.what == op::argsort ? as_double(from) : element(from);
    }
  });
}

/// How many elements of each slice come before each value, or do not come after it.
inline void search_slices(const slice_operation& o, const slice_tensor& sorted, const slice_tensor& values,
                          const tensor_type& type, host_array& out) {
  const std::int64_t length = sorted.array->extents[sorted.place.type.find(o.along)], step = sorted.place.step(o.along);
  for_each_index(whole_box(out.extents), [&](const position& index, std::int64_t offset) {
    std::int64_t at_value = 0, at_slice = 0;
    for (int i = 0; i < type.rank; ++i) {
      at_value += index[i] * values.place.step(type[i]);
      at_slice += index[i] * sorted.place.step(type[i]);
    }
    const double value = values.array->data[at_value];
    double count = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const double element = sorted.array->data[at_slice + i * step];
      count += o.backwards ? !comes_before(value, element) : comes_before(element, value);
    }
    out.data[offset] = count;
  });
}

/// An operation of op_class::sort on whole slices. The evaluator and the simulator call it.
inline void compute_on_slices(const slice_operation& o, indexed_span<const slice_tensor> in, const tensor_type& type,
                              host_array& out) {
  if (o.what == op::searchsorted) return search_slices(o, in[0], in[1], type, out);
  sort_slices(o, in[0], out);
}

}}} // namespace cleave::v0::simulation
