// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/layout/layout.hpp>

#include <string_view>

namespace cleave::inline v0 {

/// A dim by name, with its extent if it is fixed. `dim<"batch">` converts to it; functions take it as an argument.
struct dim_ref {
  std::string_view name{};
  std::int64_t extent = dynamic;
  /// The extent is promised to be a multiple of the number of devices over which the dim is sharded.
  bool divisible = false;
};

/// The name of a dim in place of what has been reported as wrong already.
inline constexpr text refused_dim{"(a mistake)"};

/// One dim of a specification and the names of the axes that shard it, major axis first.
struct placement {
  dim_ref dim{};
  static_vector<std::string_view, max_axes> axes{};

  constexpr placement() = default;
  constexpr placement(dim_ref d) : dim(d) {}
};

/// A sharding by names, before it is resolved against the dims of a tensor and the axes of a mesh. `mesh(batch / data)`
/// converts to it.
struct spec {
  mesh_value mesh{};
  static_vector<placement, max_rank> dims{};
  static_vector<std::string_view, max_axes> unreduced{};
  reduction combine = reduction::sum;
  /// False for a type whose error has been reported already.
  bool well_formed = true;

  /// The number of dims.
  constexpr int rank() const { return static_cast<int>(dims.size()); }
  /// The position of the dim of that name, or -1.
  constexpr int find(std::string_view name) const {
    for (int i = 0; i < rank(); ++i)
      if (dims[i].dim.name == name) return i;
    return -1;
  }
};

} // namespace cleave::inline v0
