// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/candidates.hpp>

namespace cleave::detail {

/// A user's kernel may be sharded in every way that its dims allow; a local call has the layouts that the user wrote.
constexpr void offer_calls(const cost_model& m, assignment& a, std::size_t v, std::vector<strategy>& list) {
  if (!m.node_at(v).local) add_all_ways(m, a, v, list);
}

inline constexpr planning_rules call_rules{nullptr, false, nullptr, &offer_calls};

} // namespace cleave::detail
