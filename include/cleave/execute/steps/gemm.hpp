// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/step_form.hpp>
#include <cleave/kernels/gemm.hpp>

// Matrix products.

namespace cleave::inline v0 {

template <class = void>
class gemm_step final : public bound_step {
 public:
  /// Runs a product of some element type.
  using runner = void (*)(const bound_gemm&, const void* left, const void* right, void* result, char* scratch);

  [[gnu::cold]] gemm_step(const binder& b, const step& s, runner run) : step_(s), run_(run) {
    const gemm_dims dims = as_gemm(s);
    const buffer* const arrays[3] = {&b.operand(s, 0), &b.operand(s, 1), &b.result(s)};
    for (int x = 0; x < 3; ++x) {
      extents_[x] = b.local(*arrays[x]);
      address_[x] = b.addresses(*arrays[x]);
    }
    const auto group = [&](const tensor_type& list) {
      gemm_group g;
      for (int i = 0; i < list.rank; ++i) append(g, b, arrays, list[i]);
      return g;
    };
    const element stored = b.result(s).type.element, computed = accumulator_of(stored);
    gemm_ = bind_gemm(group(dims.batch), group(dims.m), group(dims.n), group(dims.k), size_of(computed));
    bytes_ = gemm_.scratch;
    for (int x = 0; x < 3 && computed != stored; ++x) bytes_ += gemm_.widened(x);
  }
  comm::scratch_bytes shared_bytes() const override { return {bytes_, 0}; }
  void run(run_state& r) override {
    run_(gemm_, r.at[step_.in[0]], r.at[step_.in[1]], r.at[step_.out], r.scratch.memory);
  }
  /// What it computes if it is many small products.
  const small_gemm& small() const { return gemm_.small; }

 private:
  /// Adds a dim to a group. All arrays that have it must agree on its extent.
  [[gnu::cold]] void append(gemm_group& g, const binder& b, const buffer* const (&arrays)[3], dim_id d) const {
    std::int64_t extent = -1, stride[3] = {};
    for (int x = 0; x < 3; ++x) {
      const int position = arrays[x]->type.find(d);
      if (position < 0) continue;
      const std::int64_t own = extents_[x][position];
      if (extent >= 0 && own != extent)
        raise<shape_error>(wording::plan_inconsistent(name_of(step_.code), b.program.dims[d].name, extent, own));
      extent = own;
      stride[x] = stride_along(*arrays[x], address_[x], d);
    }
    g.append(extent, stride[0], stride[1], stride[2]);
  }

  const step& step_;
  runner run_;
  shape extents_[3]{};
  addressing address_[3]{};
  bound_gemm gemm_{};
  std::int64_t bytes_ = 0;
};

namespace detail {
template <class T>
owned<bound_step> bind_gemm_of(const binder& b, const step& s, const void*) {
  // Products of 16-bit numbers have a function of their own; make_step cannot choose between the two.
  const gemm_step<>::runner run = &run_gemm<T>;
  return make_step<gemm_step<>>(b, s, run);
}
} // namespace detail

template <>
struct step_code<step_kind::gemm> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    return {&detail::bind_gemm_of<detail::element_at<Plan, Plan::frozen.steps[I].out>>, nullptr};
  }
};

} // namespace cleave::inline v0
