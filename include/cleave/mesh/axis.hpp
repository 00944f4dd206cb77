// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/text.hpp>
#include <cleave/mesh/mesh_value.hpp>

#include <concepts>
#include <type_traits>

namespace cleave {

struct axis_tag {};

/// A mesh axis by name; its size comes from the run, or is fixed: `axis<"data", 8>`.
template <text Name, std::int64_t Size = dynamic>
struct axis : axis_tag {
  static_assert(Size == dynamic || Size > 0, "cleave: a mesh axis has at least one device");
  static constexpr axis_info info{Name.view(), Size};
  /// `data = 8`: a size by name, for pricing a plan.
  constexpr named_size operator=(std::int64_t size) const { return {Name.view(), size}; }
};

template <class A>
concept MeshAxis = std::derived_from<std::remove_cvref_t<A>, axis_tag>;

} // namespace cleave
