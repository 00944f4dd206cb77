// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/bound_step.hpp>
#include <cleave/execute/errors.hpp>
#include <cleave/execute/host_number.hpp>
#include <cleave/kernels/gemm.hpp>
#include <cleave/ops/meaning.hpp>

#include <cmath>

// Matrix products, maybe scaled and added to an array.

namespace cleave { inline namespace v0 {

namespace detail {

/// The factors of a scaled product: alpha, and beta of the array that is added. Both may depend on numbers in memory.
class scaling {
 public:
  [[gnu::cold]] scaling(const binder& b, const step& s) {
    for (const fused_op& o : fused_ops_of(b.program, s)) {
      entry& made = entries_.emplace_back(entry{o, 0, 0});
      if (o.code != op::input) {
        made.number = role_of(o.code) == fused_role::operation ? 0 : literal_of(o, b.at);
      } else if (o.arg == 0) {
        made.of_product = 1;
      } else if (const buffer& x = b.operand(s, o.arg); x.type.rank > 0) {
        made.of_product = -1;
        addend_ = s.in[o.arg];
      } else {
        made.buffer = s.in[o.arg];
        read_ = true;
      }
    }
    numbers_.resize(entries_.size());
    value_.resize(entries_.size());
  }
  /// Whether an array is added; its buffer.
  bool adds() const { return addend_ != no_buffer; }
  std::size_t addend() const { return addend_; }
  /// Whether the factors depend on numbers in memory.
  bool reads_numbers() const { return read_; }

  /// Of the product and of the array that is added.
  struct factors {
    double alpha = 1, beta = 0;
    /// Whether a library may multiply by them. Its order of the multiplications is another one, so factors must be far
    /// from the ends of the range of float; 0 is a factor if a number is 0.
    bool moderate = true;
  };
  [[gnu::cold]] factors factors_for(const indexed_vector<void*>& at) const {
    const double* const numbers = read_numbers(at);
    bool any_zero = false;
    for (std::size_t t = 0; t < entries_.size(); ++t)
      any_zero = any_zero || (entries_[t].buffer != no_buffer && numbers[t] == 0);
    const auto is_moderate = [&](double f) {
      const double size = std::fabs(f);
      return (size >= 0x1p-60 && size <= 0x1p60) || (f == 0 && any_zero);
    };
    const double alpha = evaluated<double>(numbers, 1, 0), beta = adds() ? evaluated<double>(numbers, 0, 1) : 0;
    return {alpha, beta, !read_ || (is_moderate(alpha) && (!adds() || is_moderate(beta)))};
  }
  /// Numbers in memory, and literals; by entry.
  [[gnu::cold]] const double* read_numbers(const indexed_vector<void*>& at) const {
    for (std::size_t t = 0; t < entries_.size(); ++t) {
      const entry& e = entries_[t];
      numbers_[t] = e.buffer == no_buffer ? e.number : host_number(at[e.buffer], e.what.type).floating();
    }
    return numbers_.data();
  }
  /// The expression, for an element of the product and one of the array that is added. Each operation is rounded to T.
  template <class T>
  [[gnu::cold]] T evaluated(const double* numbers, T product, T addend) const {
    indexed_vector<double>& value = value_;
    const auto rounded = [](double x) { return static_cast<double>(static_cast<T>(x)); };
    for (std::size_t t = 0; t < entries_.size(); ++t) {
      const entry& e = entries_[t];
      const fused_op& o = e.what;
      if (e.of_product != 0) value[t] = static_cast<double>(e.of_product == 1 ? product : addend);
      else if (e.buffer != no_buffer || role_of(o.code) != fused_role::operation) value[t] = rounded(numbers[t]);
      else
        value[t] = rounded(
            rounded_to(o.type, plain::applied(o.code, o.type, o.type, value[o.in[0]], value[o.in[1]], 0)));
    }
    return static_cast<T>(value.back());
  }

 private:
  static constexpr std::size_t no_buffer = ~std::size_t{0};
  struct entry {
    fused_op what;
    double number;
    /// 1: it stands for the product; -1: for the addend.
    int of_product;
    std::size_t buffer = no_buffer;
  };

  indexed_vector<entry> entries_{};
  /// Of each entry the number that it reads, and its value: kept, since calls allocate nothing.
  mutable indexed_vector<double> numbers_{}, value_{};
  std::size_t addend_ = no_buffer;
  bool read_ = false;
};

} // namespace detail

template <class = void>
class gemm_step : public bound_step {
 public:
  /// Runs a product of some element type.
  using runner = void (*)(const bound_gemm&, const void* left, const void* right, void* result, char* scratch);

  [[gnu::cold]] gemm_step(const binder& b, const step& s, runner run) : step_(s), run_(run) {
    for (int x = 0; x < 3; ++x) {
      address_[x] = b.addresses(array(b, x));
      for (int y = 0; y < x; ++y) check_extents(b, x, y);
    }
    const element stored = b.result(s).type.element, computed = accumulator_of(stored);
    gemm_ = bound(b);
    bytes_ = gemm_.scratch;
    for (int x = 0; x < 3 && computed != stored; ++x) bytes_ += gemm_.widened(x);
  }
  comm::scratch_bytes shared_bytes() const override { return {bytes_, 0}; }
  void run(run_state& r) override {
    prepare(r);
    run_(gemm_, r.at[step_.in[0]], r.at[step_.in[1]], r.at[step_.out], r.scratch.memory);
    complete(r);
  }
  /// The steps before the product itself, and after it.
  virtual void prepare(run_state&) {}
  virtual void complete(run_state&) {}
  /// Whether a later operation of this step needs the whole product.
  virtual bool completes() const { return false; }
  /// A part of the product, and where it begins in the three arrays, in elements.
  struct part {
    bound_gemm gemm{};
    std::int64_t offset[3] = {};
  };
  /// That with some of the indices of one dim.
  [[gnu::cold]] part part_of(const binder& b, dim_id d, range along) const {
    part p;
    p.gemm = bound(b, d, along.size());
    for (int x = 0; x < 3; ++x) p.offset[x] = along.begin * stride_along(array(b, x), address_[x], d);
    return p;
  }
  /// Runs a part. `adds`: to the old result.
  void run_part(part& p, run_state& r, bool adds, char* scratch) const {
    p.gemm.alpha = gemm_.alpha;
    p.gemm.beta = adds ? 1 : gemm_.beta;
    char* at[3];
    for (int x = 0; x < 3; ++x)
      at[x] = as<char>(r.at[x < 2 ? step_.in[as_size(x)] : step_.out]) + p.offset[x] * gemm_.element_bytes;
    run_(p.gemm, at[0], at[1], at[2], scratch);
  }
  /// The whole product.
  const bound_gemm& whole() const { return gemm_; }
  /// The form that it computes if it is many small products.
  const small_gemm& small() const { return gemm_.small; }

 protected:
  bound_gemm gemm_{};

 private:
  const buffer& array(const binder& b, int x) const { return x == 2 ? b.result(step_) : b.operand(step_, as_size(x)); }
  /// The product, with `kept` indices along the dim `cut`.
  [[gnu::cold]] bound_gemm bound(const binder& b, dim_id cut = no_dim, std::int64_t kept = 0) const {
    const buffer* const of[3] = {&array(b, 0), &array(b, 1), &array(b, 2)};
    addressing at[3] = {address_[0], address_[1], address_[2]};
    for (int x = 0; x < 3; ++x)
      if (const int i = of[x]->type.find(cut); i >= 0) at[x].extents[i] = kept;
    return bind_gemm(groups_of_product(step_, of, at), size_of(accumulator_of(of[2]->type.element)));
  }
  /// Arrays must agree on the extents of the dims that both have.
  [[gnu::cold]] void check_extents(const binder& b, int x, int y) const {
    const tensor_type &own = array(b, x).type, &other = array(b, y).type;
    for (int i = 0; i < own.rank; ++i)
      if (const int j = other.find(own[i]); j >= 0 && address_[y].extents[j] != address_[x].extents[i])
        raise<shape_error>(wording::plan_inconsistent(name_of(step_.code), b.program.dims[own[i]].name,
                                                      address_[y].extents[j], address_[x].extents[i]));
  }

  const step& step_;
  runner run_;
  addressing address_[3]{};
  std::int64_t bytes_ = 0;
};

/// alpha times a product, plus beta times an array. With factors that a library must not multiply by, the user's
/// expression is computed on the host, element by element, after the plain product.
template <class = void>
class scaled_gemm_step final : public gemm_step<> {
 public:
  [[gnu::cold]] scaled_gemm_step(const binder& b, const step& s, runner run)
      : gemm_step(b, s, run), scaling_(b, s), out_(s.out), type_(b.result(s).type.element) {
    if (!scaling_.reads_numbers()) set_factors({});
    const buffer& to = b.result(s);
    const shape local = b.local(to);
    const strides own = strides_in(b.addresses(to));
    elements_ = local.elements();
    result_to_line_ = make_copy(local, own, 0, strides_of(local), 0);
    if (!scaling_.adds()) return;
    const strides from = strides_in(b.addresses(b.program.buffers[scaling_.addend()]));
    addend_ = make_copy(local, from, 0, own, 0);
    addend_to_line_ = make_copy(local, from, 0, strides_of(local), 0);
    pack_ = gemm_.array[2].copy.reversed();
  }
  void prepare(run_state& r) override {
    if (scaling_.reads_numbers()) set_factors(r.at);
    if (!scaling_.adds()) return;
    void *const to = r.at[out_], *const addend = r.at[scaling_.addend()];
    // The product may overwrite it.
    if (completes_) return on_host(addend_to_line_, addend, kept_addend_);
    if (addend != to) copy_box(addend_, addend, to, gemm_.element_bytes);
    // The library adds to a packed array.
    if (const auto& c = gemm_.array[2]; c.packed)
      copy_box(pack_, to, as<char>(r.scratch.memory) + c.scratch_at, gemm_.element_bytes);
  }
  void complete(run_state& r) override {
    if (!completes_) return;
    indexed_vector<char> result;
    on_host(result_to_line_, r.at[out_], result);
    const double* const numbers = scaling_.read_numbers(r.at);
    if (type_ == element::f32) apply<float>(numbers, result);
    else apply<double>(numbers, result);
    const std::shared_ptr<void> line = allocate(bytes());
    copy_bytes<memory_space, Kokkos::HostSpace>(line.get(), result.data(), bytes());
    copy_box(result_to_line_.reversed(), line.get(), r.at[out_], gemm_.element_bytes);
    wait_for_kernels();
    kept_addend_ = {};
  }
  bool completes() const override { return completes_; }

 private:
  void set_factors(const indexed_vector<void*>& at) {
    const detail::scaling::factors f = scaling_.factors_for(at);
    completes_ = !f.moderate;
    gemm_.alpha = completes_ ? 1 : f.alpha;
    gemm_.beta = completes_ ? 0 : f.beta;
  }
  std::int64_t bytes() const { return elements_ * gemm_.element_bytes; }
  /// The elements of an array one after the other.
  [[gnu::cold]] void on_host(const box_copy& to_line, const void* from, indexed_vector<char>& host) const {
    const std::shared_ptr<void> line = allocate(bytes());
    copy_box(to_line, from, line.get(), gemm_.element_bytes);
    wait_for_kernels();
    host.resize(as_size(bytes()));
    copy_bytes<Kokkos::HostSpace, memory_space>(host.data(), line.get(), bytes());
  }
  template <class T>
  [[gnu::cold]] void apply(const double* numbers, indexed_vector<char>& result) const {
    T* const x = as<T>(result.data());
    const T* const y = as<T>(kept_addend_.data());
    for (std::int64_t i = 0; i < elements_; ++i)
      x[i] = scaling_.evaluated<T>(numbers, x[i], scaling_.adds() ? y[i] : T(0));
  }

  detail::scaling scaling_;
  std::size_t out_;
  element type_;
  std::int64_t elements_ = 0;
  box_copy addend_{}, pack_{}, result_to_line_{}, addend_to_line_{};
  bool completes_ = false;
  indexed_vector<char> kept_addend_{};
};

namespace detail {
template <class T, template <class> class Step>
owned<bound_step> bind_gemm_of(const binder& b, const step& s, const void*) {
  // Products of 16-bit numbers have a function of their own; make_step cannot choose between the two.
  const gemm_step<>::runner run = &run_gemm<T>;
  return make_step<Step<void>>(b, s, run);
}
/// The form of a product that is pipelined with an adjacent move: steps/product_in_pieces.hpp.
template <class Plan, std::size_t I>
constexpr step_form form_in_pieces();
/// Binds a product that gathers operands panel by panel: steps/product_in_panels.hpp.
template <class T>
owned<bound_step> bind_in_panels(const binder& b, const step& s, const void*);
} // namespace detail

template <>
struct step_code<step_kind::gemm> {
  template <class Plan, std::size_t I>
  static constexpr step_form form() {
    using number = detail::element_at<Plan, Plan::frozen.steps[I].out>;
    if constexpr (Plan::frozen.steps[I].pieces != 0) return detail::form_in_pieces<Plan, I>();
    else if constexpr (Plan::frozen.steps[I].panels != 0) return {&detail::bind_in_panels<number>};
    // A program that scales no product does not compile the code that scales them.
    else if constexpr (is_scaled(Plan::frozen.steps[I])) return {&detail::bind_gemm_of<number, scaled_gemm_step>};
    else return {&detail::bind_gemm_of<number, gemm_step>};
  }
};

}} // namespace cleave::v0
