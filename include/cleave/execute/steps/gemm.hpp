// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/scaling.hpp>
#include <cleave/execute/step_form.hpp>
#include <cleave/kernels/gemm.hpp>

// Matrix products, maybe scaled and added to an array.

namespace cleave::inline v0 {

template <class = void>
class gemm_step : public bound_step {
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

 protected:
  bound_gemm gemm_{};

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
  std::int64_t bytes_ = 0;
};

/// alpha times a product, plus beta times an array.
template <class = void>
class scaled_gemm_step final : public gemm_step<> {
 public:
  [[gnu::cold]] scaled_gemm_step(const binder& b, const step& s, runner run)
      : gemm_step(b, s, run), scaling_(b, s), out_(s.out) {
    if (!scaling_.reads_numbers()) set_factors({});
    if (!scaling_.adds()) return;
    const buffer& to = b.result(s);
    const strides from = strides_in(b.addresses(b.program.buffers[scaling_.addend()]));
    addend_ = make_copy(b.local(to), from, 0, strides_in(b.addresses(to)), 0);
    pack_ = gemm_.array[2].copy;
    std::swap(pack_.from, pack_.to);
    std::swap(pack_.from_offset, pack_.to_offset);
  }
  void run(run_state& r) override {
    if (scaling_.reads_numbers()) set_factors(r.at);
    if (scaling_.adds()) {
      void *const to = r.at[out_], *const addend = r.at[scaling_.addend()];
      if (addend != to) copy_box(addend_, addend, to, gemm_.element_bytes);
      // The library adds to what is packed.
      if (const auto& c = gemm_.array[2]; c.packed)
        copy_box(pack_, to, as<char>(r.scratch.memory) + c.scratch_at, gemm_.element_bytes);
    }
    gemm_step::run(r);
  }

 private:
  void set_factors(const indexed_vector<void*>& at) {
    gemm_.alpha = scaling_.alpha(at);
    gemm_.beta = scaling_.beta(at);
  }

  detail::scaling scaling_;
  std::size_t out_;
  box_copy addend_{}, pack_{};
};

namespace detail {
template <class T, template <class> class Step>
owned<bound_step> bind_gemm_of(const binder& b, const step& s, const void*) {
  // Products of 16-bit numbers have a function of their own; make_step cannot choose between the two.
  const gemm_step<>::runner run = &run_gemm<T>;
  return make_step<Step<void>>(b, s, run);
}
} // namespace detail

template <>
struct step_code<step_kind::gemm> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    using number = detail::element_at<Plan, Plan::frozen.steps[I].out>;
    // A program that scales no product does not compile what scales them.
    if constexpr (is_scaled(Plan::frozen.steps[I])) return {&detail::bind_gemm_of<number, scaled_gemm_step>, nullptr};
    else return {&detail::bind_gemm_of<number, gemm_step>, nullptr};
  }
};

} // namespace cleave::inline v0
