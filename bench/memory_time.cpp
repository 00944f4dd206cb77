// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that memory and messages decide, against the same by hand with memory that the ranks share.
//
//   mpirun -n 2 memory_time RESULTS.jsonl [seconds for each measurement [product, reshard, chain, entropy or small]]
#include "by_hand_chain.hpp"
#include "by_hand_memory.hpp"
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/embedding.hpp>

#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"i"> di;
inline constexpr cleave::dim<"j"> dj;
inline constexpr cleave::dim<"k"> dk;
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"word"> word;
using Rows = cleave::tensor<float, mesh(di / line, dj)>;
using Columns = cleave::tensor<float, mesh(di, dj / line)>;
using Whole = cleave::tensor<float, mesh(di, dj)>;

/// A number between -0.5 and 0.5 for a position.
float number(long i, long j) {
  auto x = static_cast<unsigned long>(i * 65537 + j + 1) * 0x9e3779b97f4a7c15ul;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebul;
  return static_cast<float>(x >> 40) * (1.0f / 16777216.0f) - 0.5f;
}
template <class Tensor>
void fill(const Tensor& t, float scale) {
  t.fill_by([&](const auto& at) {
    return scale * number(static_cast<long>(at[0]), Tensor::rank > 1 ? static_cast<long>(at[1 % Tensor::rank]) : 0);
  });
}
/// Both programs must have computed the same, or their times say nothing.
void expect_same(const float* ours, const float* theirs, long n, const std::string& what, double tolerance) {
  double off = 0, size = 0;
  for (long i = 0; i < n; ++i) {
    off = std::max(off, std::fabs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])));
    size = std::max(size, std::fabs(static_cast<double>(theirs[i])));
  }
  if (!(off <= tolerance * size)) throw std::runtime_error("the two programs differ in " + what);
}

struct measured {
  const measure::task& with;
  const cleave::grid& grid;
  std::string where;

  bool wanted(const char* part) const { return with.only.empty() || with.only == part; }
  template <class Tensor, class F, class G>
  void against(const std::string& what, double limit, const measure::work& w, int calls, const Tensor& result,
               const float* theirs, F f, G g) const {
    f();
    g();
    expect_same(result.data(), theirs, static_cast<long>(result.local_size()), what, 1e-5);
    with.out.factor(what + where, measure::compare(with.comm, calls, with.seconds, f, g), limit, w);
  }
};

/// Of a square product.
measure::work multiplied(long n) {
  return measure::work::products(2.0 * static_cast<double>(n * n) * static_cast<double>(n));
}
/// Of so many floats that are read or written, where they are too many for the caches.
measure::work passed(long floats) { return measure::work::bytes(4.0 * static_cast<double>(floats)); }

/// Products whose contracted dim is sharded: the shards are partial sums.
void run_products(const measured& m, long n, int calls, double limit) {
  using Left = cleave::tensor<float, mesh(di, dk / line)>;
  using Right = cleave::tensor<float, mesh(dk / line, dj)>;
  Left a(m.grid, {n, n});
  Right b(m.grid, {n, n});
  Whole c(m.grid, {n, n});
  Rows s(m.grid, {n, n});
  fill(a, 1);
  fill(b, 1);
  const by_hand::window w(m.with.comm, static_cast<std::size_t>(2 * n * n));
  std::vector<float> out(static_cast<std::size_t>(n * n));
  const std::string size = std::to_string(n) + "^2 product, ";
  const long mine = n / m.with.ranks;
  m.against(
      size + "all-reduce", limit, multiplied(n), calls, c, out.data(), [&] { c = dot(a, b, dk); },
      [&] {
        by_hand::product(n, n, mine, a.data(), b.data(), w.own());
        by_hand::all_reduce(w, n * n, out.data());
      });
  m.against(
      size + "reduce-scatter", limit, multiplied(n), calls, s, out.data(), [&] { s = dot(a, b, dk); },
      [&] {
        by_hand::product(n, n, mine, a.data(), b.data(), w.own());
        by_hand::reduce_scatter(w, n * n, out.data());
      });
}
void run_whole_product(const measured& m, long n, int calls, double limit) {
  using Left = cleave::tensor<float, mesh(di / line, dk)>;
  using Right = cleave::tensor<float, mesh(dk, dj)>;
  Left a(m.grid, {n, n});
  Right b(m.grid, {n, n});
  Rows c(m.grid, {n, n});
  fill(a, 1);
  fill(b, 1);
  std::vector<float> out(static_cast<std::size_t>(n * n));
  m.against(
      std::to_string(n) + "^2 product, rows sharded", limit, multiplied(n), calls, c, out.data(),
      [&] { c = dot(a, b, dk); }, [&] { by_hand::product(n / m.with.ranks, n, n, a.data(), b.data(), out.data()); });
}

/// From rows sharded to columns sharded; the hand-written operand lives in the window.
void run_reshard(const measured& m, long n, int calls, double limit) {
  Rows x(m.grid, {n, n});
  Columns y(m.grid, {n, n});
  fill(x, 1);
  const by_hand::window w(m.with.comm, static_cast<std::size_t>(x.local_size()));
  std::copy_n(x.data(), x.local_size(), w.own());
  std::vector<float> out(static_cast<std::size_t>(y.local_size()));
  m.against(
      std::to_string(n) + "^2 reshard", limit, n > 1024 ? passed(2 * n * n) : measure::work{}, calls, y, out.data(),
      [&] { y = x; }, [&] { by_hand::reshard(w, n, out.data()); });
}

void run_add(const measured& m, long n, int calls, double limit) {
  Rows a(m.grid, {n, n}), b(m.grid, {n, n}), c(m.grid, {n, n});
  fill(a, 1);
  fill(b, 2);
  std::vector<float> out(static_cast<std::size_t>(c.local_size()));
  m.against(
      std::to_string(n) + "^2 sum", limit, {}, calls, c, out.data(), [&] { c = a + b; },
      [&] {
        const float *const x = a.data(), *const y = b.data();
        float* const z = out.data();
        for (std::size_t i = 0; i < out.size(); ++i) z[i] = x[i] + y[i];
        asm volatile("" : : "r"(z) : "memory");
      });
}

constexpr cleave::function chain([](auto x) {
  auto y = x * 1.5;
  y = y + 0.25;
  y = y * y;
  y = y - x;
  y = abs(y);
  y = y + 1.0;
  y = sqrt(y);
  y = y * 0.5;
  y = maximum(y, 0.75);
  return 1.0 / y;
});
void run_chain(const measured& m, long n) {
  using Vector = cleave::tensor<float, mesh(di / line)>;
  Vector x(m.grid, {n}), y(m.grid, {n});
  fill(x, 4);
  std::vector<float> in(x.data(), x.data() + x.local_size()), out(in.size());
  const long mine = static_cast<long>(in.size());
  m.against(
      "ten operations", 1.05, passed(2 * n), 1, y, out.data(), [&] { y = chain(x); },
      [&] { by_hand::chain(in.data(), out.data(), mine); });
  m.against(
      "ten operations in place", 1.05, passed(2 * n), 1, x, in.data(), [&] { x = chain(x); },
      [&] { by_hand::chain_in_place(in.data(), mine); });
  m.against(
      "ten operations, root and quotient rounded", 1.05, passed(2 * n), 1, y, out.data(), [&] { y = chain(x); },
      [&] { by_hand::chain_rounded(in.data(), out.data(), mine); });
  m.against(
      "ten operations in place, root and quotient rounded", 1.05, passed(2 * n), 1, x, in.data(), [&] { x = chain(x); },
      [&] { by_hand::chain_rounded_in_place(in.data(), mine); });
}

constexpr cleave::function entropy([](auto scores, auto labels) {
  return mean(cleave::nn::cross_entropy(scores, labels, word));
});
void run_entropy(const measured& m, long rows, long words) {
  using Scores = cleave::tensor<float, mesh(row, word / line)>;
  using Labels = cleave::tensor<int, mesh(row)>;
  using Loss = cleave::tensor<float, mesh()>;
  constexpr auto sized = [](auto f) {
    return cleave::with(f, cleave::expect<row, 2048>{}, cleave::expect<word, 32768>{}, cleave::expect<line, 2>{});
  };
  static constexpr cleave::function loss = sized(entropy);
  static constexpr cleave::function both = sized(cleave::value_and_grad(entropy));
  Scores s(m.grid, {rows, words}), g(m.grid, {rows, words});
  Labels labels(m.grid, {rows});
  Loss l(m.grid, {});
  fill(s, 4);
  labels.fill_by([&](const auto& at) { return static_cast<int>(at[0] * 7919 % words); });
  by_hand::entropy hand(m.with.comm, rows, words, s.data(), labels.data());
  std::vector<float> gradient(static_cast<std::size_t>(g.local_size()));
  float value = 0;
  m.against(
      "cross entropy", 1.1, passed(rows * words), 1, l, &value, [&] { l = loss(s, labels); },
      [&] { value = hand.loss(); });
  m.against(
      "cross entropy and its gradient", 1.1, passed(3 * rows * words), 1, g, gradient.data(),
      [&] { both(s, labels).into(l, g); }, [&] { value = hand.loss_and_gradient(gradient.data()); });
}

void measure_all(const measure::task& with) {
  const cleave::grid grid(mesh, with.comm, {with.ranks});
  const measured m{with, grid, " on " + std::to_string(with.ranks) + (with.ranks == 1 ? " rank" : " ranks")};
  const bool several = with.ranks > 1;
  if (m.wanted("small")) {
    run_add(m, 64, 500, 1.3);
    run_whole_product(m, 64, 200, 1.3);
    if (several) run_products(m, 64, 200, 1.3), run_reshard(m, 64, 200, 1.3);
  }
  if (m.wanted("reshard") && several) run_reshard(m, 4096, 1, 1.1);
  if (m.wanted("chain")) run_chain(m, 1 << 24);
  if (m.wanted("entropy")) run_entropy(m, 2048, 32768);
  if (m.wanted("product")) {
    run_whole_product(m, 2048, 1, 1.03);
    if (several) run_products(m, 2048, 1, 1.03);
  }
}

} // namespace

int main(int argc, char** argv) { return measure::run(argc, argv, 2, measure_all); }
