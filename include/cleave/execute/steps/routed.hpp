// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/distributed/row_routes.hpp>
#include <cleave/execute/step_form.hpp>

#include <utility>

namespace cleave::inline v0 {

/// A step that finds out when it runs what goes where.
template <class = void>
class routed_step final : public bound_step {
 public:
  routed_step(const step& s, owned<comm::data_routed> routed) : step_(s), routed_(std::move(routed)) {}
  void run(run_state& r) override { routed_->run(operand_addresses(r, step_).from, r.at[step_.out]); }

 private:
  const step& step_;
  owned<comm::data_routed> routed_;
};

} // namespace cleave::inline v0
