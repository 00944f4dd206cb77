// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A mixture of experts, sharded over the processes along one axis, while the batch is sharded along both: tokens travel
// to the two experts that they like best and back, by one all-to-all each way. It learns a map that is another matrix
// in each of several regions, which one perceptron of the same size per token cannot follow: the experts share the
// regions out among themselves, and the loss that balances them keeps all of them at work.
//
//   mpirun -n 4 moe [--experts 8] [--batch 16] [--tokens 64] [--embed 16] [--hidden 32] [--steps 300] [--top 2] [--mesh
// 2x2] [--log FILE.csv]
#include "options.hpp"
#include "progress.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/mixture_of_experts.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/optim/adam.hpp>

#include <cmath>
#include <cstdio>

namespace experts {

namespace nn = cleave::nn;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"expert axis"> owners;
inline constexpr cleave::mesh mesh{data, owners};
inline constexpr cleave::dim<"batch"> batch; // groups of tokens, each of which has places of its own
inline constexpr cleave::dim<"token"> token;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"expert"> expert;
inline constexpr cleave::dim<"capacity">
    capacity; // places of an expert; a tensor has it, so that the run says how many

inline constexpr nn::layout_rules tokens{mesh, batch / data / owners};
inline constexpr nn::layout_rules at_experts{mesh, expert / owners, batch / data};
inline constexpr nn::layout_rules weights{mesh, expert / owners};

template <template <class, auto> class Tensor>
struct parameters {
  Tensor<float, mesh(embed, expert)> router;
  Tensor<float, weights(expert, embed, hidden)> up;
  Tensor<float, weights(expert, hidden, embed)> down;
};
using Parameters = parameters<cleave::tensor>;
using Tokens = cleave::tensor<float, tokens(batch, token, embed)>;
using Places = cleave::tensor<float, mesh(capacity)>;
using Scalar = cleave::tensor<float, mesh()>;
using State = cleave::optim::adam_state<Parameters, Scalar>;

template <nn::experts_per_token Choices>
struct layer {
  template <class P, class X, class C>
  constexpr auto operator()(const P& p, const X& x, const C&) const {
    const auto perceptrons = [&](const cleave::value& sent) {
      return dot(relu(dot(sent, p.up, embed)), p.down, hidden);
    };
    const auto pin = [](const cleave::value& v) { return constrain(v, at_experts); };
    return nn::mixture_of_experts(x, p.router, {token, embed, expert, capacity}, Choices, perceptrons, pin);
  }
};
template <nn::experts_per_token Choices>
struct apply {
  template <class P, class X, class C>
  constexpr auto operator()(const P& p, const X& x, const C& places) const {
    return layer<Choices>{}(p, x, places).mixed;
  }
};
template <nn::experts_per_token Choices>
struct loss {
  template <class P, class X, class C>
  constexpr auto operator()(const P& p, const X& x, const X& wanted, const C& places) const {
    const auto moe = layer<Choices>{}(p, x, places);
    const auto off = moe.mixed - wanted;
    const auto squares = mean(sum(off * off, embed));
    return std::tuple(squares + 0.01 * moe.load_balancing_loss, squares, moe.load_balancing_loss);
  }
};
template <nn::experts_per_token Choices>
struct step {
  template <class P, class S, class X, class C, class R>
  constexpr auto operator()(const P& p, const S& state, const X& x, const X& wanted, const C& places,
                            const R& rate) const {
    auto [values, slope] = cleave::value_and_grad(cleave::function{loss<Choices>{}})(p, x, wanted, places);
    auto [updated, after] = cleave::optim::adam(p, state, slope, rate);
    return std::tuple(updated, after, std::get<1>(values), std::get<2>(values));
  }
};
template <class Body>
constexpr auto planned(Body) {
  using cleave::expect;
  return cleave::with(cleave::function{Body{}}, expect<batch, 16>{}, expect<token, 64>{}, expect<embed, 16>{},
                      expect<hidden, 32>{}, expect<expert, 8>{}, expect<capacity, 24>{}, expect<data, 2>{},
                      expect<owners, 2>{});
}

// There and back, and nothing else.
template <nn::experts_per_token Choices>
constexpr auto forward_plan = cleave::plan<Tokens(Parameters, Tokens, Places)>(planned(apply<Choices>{}));
static_assert(forward_plan<nn::experts_per_token::two>.count(cleave::kind::all_to_all) == 2 &&
              forward_plan<nn::experts_per_token::two>.collectives() == 2);
static_assert(forward_plan<nn::experts_per_token::one>.count(cleave::kind::all_to_all) == 2 &&
              forward_plan<nn::experts_per_token::one>.collectives() == 2);

struct sizes {
  long experts, batch, tokens, embed, hidden, steps;
  std::string log;
  bool shows_plan;
};

template <nn::experts_per_token Choices>
int train(const cleave::grid& grid, const sizes& s, bool speaks) {
  // A quarter more than an even share.
  const long places = (s.tokens * (Choices == nn::experts_per_token::two ? 2 : 1) * 5 / 4 + s.experts - 1) / s.experts;
  const auto made = [&]<class A>(A) {
    return nn::make_parameters<A>(grid, {batch = s.batch, token = s.tokens, embed = s.embed, hidden = s.hidden,
                                         expert = s.experts, capacity = places});
  };
  if (speaks) std::printf("%ld experts with %ld places for each group of %ld tokens\n", s.experts, places, s.tokens);
  if (speaks && s.shows_plan)
    std::printf("the plan of the forward pass:\n\n%s\n",
                explain(forward_plan<Choices>,
                        {batch = s.batch, token = s.tokens, embed = s.embed, hidden = s.hidden, expert = s.experts,
                         capacity = places, data = grid.size(data), owners = grid.size(owners)})
                    .c_str());
  auto p = made(Parameters{});
  nn::for_each_tensor(p, [&, first = std::int64_t{0}](auto& t) mutable {
    const auto extents = t.extents();
    t.fill_by([&](const auto& at) {
      std::int64_t index = 0;
      for (std::size_t d = 0; d < at.size(); ++d) index = index * extents[d] + at[d];
      return static_cast<float>((2 * examples::noise(first + index) - 1) / std::sqrt(static_cast<double>(s.embed)));
    });
    first += t.size();
  });
  State state{made(Parameters{}), made(Parameters{}), Scalar(grid, {}), Scalar(grid, {})};
  auto x = made(Tokens{}), wanted = made(Tokens{});
  auto capacity_of = made(Places{});
  Scalar squares(grid, {}), balancing(grid, {});

  // The signs of the first three numbers say in which of eight regions a token is; each has a matrix of its own.
  const auto number = [&](std::int64_t step, const auto& at, std::int64_t e) {
    return 2 * examples::noise(((step * s.batch + at[0]) * s.tokens + at[1]) * s.embed + e) - 1;
  };
  const auto answer = [&](std::int64_t step, const auto& at) {
    std::int64_t region = 0;
    for (std::int64_t e = 0; e < 3; ++e) region = 2 * region + (number(step, at, e) > 0 ? 1 : 0);
    double total = 0;
    for (std::int64_t e = 0; e < s.embed; ++e)
      total += number(step, at, e) * (2 * examples::noise((region * s.embed + at[2]) * s.embed + e + 5000000) - 1);
    return static_cast<float>(total / std::sqrt(static_cast<double>(s.embed)) * 1.7);
  };
  constexpr auto train_step = planned(step<Choices>{});
  examples::csv_log log(speaks, s.log, "step,error,load_balancing_loss,seconds");
  examples::progress shown(speaks, s.steps, s.batch * s.tokens, "tokens");
  examples::curve errors;
  double first = 0, last = 0, start = MPI_Wtime();
  for (long i = 0; i < s.steps; ++i) {
    x.fill_by([&](const auto& at) { return static_cast<float>(number(i, at, at[2])); });
    wanted.fill_by([&](const auto& at) { return answer(i, at); });
    train_step(p, state, x, wanted, capacity_of, 0.01f).into(p, state, squares, balancing);
    last = squares.item();
    const double balance = balancing.item();
    if (i == 0) first = last;
    errors.add(last);
    log.write({static_cast<double>(i + 1), last, balance, shown.seconds()});
    shown.show(i + 1, {{"error", last}, {"load balancing", balance}});
  }
  shown.leave();
  const bool right = last < 0.7 * first;
  if (speaks)
    std::printf("%s\n%.2f ms a step; %s\n", errors.drawn("error").c_str(),
                1e3 * (MPI_Wtime() - start) / static_cast<double>(s.steps), right ? "learned" : "WRONG");
  return right ? 0 : 1;
}

constexpr std::string_view usage =
    "usage: moe [options]\n"
    "  --experts N   experts (8)\n"
    "  --top N       how many of them take each token, 1 or 2 (2)\n"
    "  --batch N     groups of tokens (16)\n"
    "  --tokens N    tokens of a group (64)\n"
    "  --embed N     numbers of a token, at least 3 (16)\n"
    "  --hidden N    hidden units of an expert (32)\n"
    "  --steps N     steps of training (300)\n"
    "  --plan        prints the communication of the forward pass, with its bytes\n"
    "  --log FILE    writes step, error, load balancing loss and seconds as CSV, line by line\n"
    "  --mesh DxE    processes; the batch is sharded over all, the experts over E (as square as possible)\n";

int run(examples::options& given, int ranks, bool speaks) {
  sizes s{};
  s.experts = given.number("--experts", 8L);
  s.batch = given.number("--batch", 16L);
  s.tokens = given.number("--tokens", 64L);
  s.embed = given.number("--embed", 16L);
  s.hidden = given.number("--hidden", 32L);
  s.steps = given.number("--steps", 300L);
  s.log = given.text("--log");
  s.shows_plan = given.flag("--plan");
  const long top = given.number("--top", 2L);
  const std::array<long, 2> shape = examples::mesh_of(given.sizes("--mesh"), ranks);
  given.done();
  if (s.embed < 3) throw std::runtime_error("--embed takes at least 3, got " + std::to_string(s.embed));
  if (top != 1 && top != 2) throw std::runtime_error("--top takes 1 or 2, got " + std::to_string(top));
  if (top > s.experts) throw std::runtime_error("--top 2 needs at least two experts");
  const cleave::grid grid(mesh, MPI_COMM_WORLD, {shape[0], shape[1]});
  return top == 2 ? train<nn::experts_per_token::two>(grid, s, speaks)
                  : train<nn::experts_per_token::one>(grid, s, speaks);
}

} // namespace experts

int main(int argc, char** argv) { return examples::run(argc, argv, experts::usage, experts::run); }
