// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string_view>

namespace cleave::inline v0 {

/// A line of the user's code. The builtins work on every supported compiler, std::source_location does not.
struct source {
  const char* file = "";
  unsigned line = 0;

  static constexpr source here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  /// The file without its folders.
  constexpr std::string_view name() const {
    std::string_view path = file;
    const auto slash = path.find_last_of('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
  }
  friend constexpr bool operator==(const source& a, const source& b) {
    return a.line == b.line && std::string_view(a.file) == std::string_view(b.file);
  }
};

/// Everything that can be wrong with a program. Operators and passes find it; base/rejected.hpp (compile time) and
/// base/error.hpp (run time) have the sentences.
enum class fault : std::uint8_t {
  none,
  /// Was reported where the type was written, and is not reported again.
  already_reported,
  axis_not_in_mesh,
  axis_used_twice,
  dim_used_twice,
  dim_missing,
  contracted_dim_missing,
  extents_differ,
  dims_do_not_broadcast,
  unreduced_into_nonlinear,
  assignment_to_other_dims,
  pinned_layouts_conflict,
  element_types_differ,
  meshes_differ,
  contract_broken,
  workspace_too_large,
  too_many_dims,
  too_many_nodes,
  too_many_views,
  too_many_loops,
  carry_changes,
  operator_changes_type,
  not_a_count,
  not_a_predicate,
  iterations_not_known,
  rank_too_high,
  window_open,
  neighbour_too_far,
  step_too_small,
  dim_too_short,
  too_many_pieces,
  not_a_start_index,
  not_an_index,
  value_missing,
  label_dims_differ,
  not_in_statement,
  too_many_axes,
  axis_empty,
  extent_negative,
  not_an_element,
  not_an_argument,
  too_many_fields,
  layouts_tie,
  result_count,
  no_such_argument,
  loss_not_scalar,
  not_differentiable,
  cotangent_does_not_fit,
  captures_a_variable,
  not_for_make,
  view_elements_differ,
  view_out_of_reach,
  cyclic_dims,
  not_a_matrix,
  /// Operations of the user.
  no_derivative,
  no_function_for_element,
  not_elementwise,
  operand_count,
  not_a_view,
  not_for_complex,
  complex_parts,
  not_a_key,
  not_a_probability,
  not_floating,
  /// Mistakes of C++ in the body of a function.
  captures,
  arguments_do_not_fit,
  result_missing,
  value_as_condition,
  tensor_as_condition,
  value_indexed,
  changed_in_place,
  member_of_tensor,
  not_an_operand,
  no_operator,
  short_circuit,
  larger_of_two,
  standard_function,
  sizes_without_braces,
  not_a_layout,
  comma_of_names,
  comparison_of_bools,
  logic_of_numbers,
  sum_of_bools,
  nothing_contracted,
  literal_too_long,
  not_a_whole_number,
  fraction_into_integers,
  size_is_fixed,
  results_in_tuple,
  index_negative,
  value_of_a_body,
  literal_does_not_fit,
  not_a_signature,
  number_from_branch,
  branch_no_function,
  scan_without_dim,
  dim_as_number,
  wrong_arguments,
  dims_in_braces,
  type_of_cast,
  operation_as_member,
  value_unpacked,
  not_a_function,
  reference_returned,
  wrong_construction,
  tensor_as_view,
  tensor_indexed,
  statement_as_number,
  written_otherwise,
  not_a_fill,
  not_an_option,
  name_missing,
  not_assignable,
  /// A pass broke an invariant: a fault of the library.
  internal,
};

/// What a pass found: the fault and the names that belong in its sentence.
struct verdict {
  cleave::fault fault = fault::none;
  source where{};
  std::string_view op{};
  std::string_view dim{};
  std::string_view axis{};
  std::int64_t expected = 0;
  std::int64_t got = 0;
  /// The fault is in the derivative of `op`.
  bool gradient = false;

  constexpr bool ok() const { return fault == cleave::fault::none; }
};

} // namespace cleave::inline v0
