// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An encoder and a decoder (Vaswani et al. 2017) that translate numbers from German to English, byte by byte:
// dreiundvierzig is forty three. The parallel text is generated, an eighth of it is held out, and a beam search
// translates some of that at the end, token by token, with a cache of keys and values. Heads and hidden units are
// sharded over `model`, sentences over `data`.
//
//   mpirun -n 4 translate [--mesh 2x2] [--steps 600] [--say dreiundvierzig]
#include "byte_tokens.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "transformer.hpp"

#include <cleave/cleave.hpp>
#include <cleave/io/loader.hpp>
#include <cleave/nn/convolution.hpp>
#include <cleave/nn/decoding.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/initial_values.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/clip.hpp>
#include <cleave/optim/schedule.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace translate {

using namespace transformer;
using examples::byte_tokens;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"place"> place; // in the sentence that is translated; `position` is in the translation
inline constexpr cleave::dim<"seen"> seen; // a place that is looked at

inline constexpr nn::model_layout layout{nn::layout_rules{mesh, heads / model, hidden / model},
                                         nn::layout_rules{mesh, batch / data, heads / model, hidden / model}};

template <template <class, auto> class Tensor>
struct decoder_layers {
  typename weights<layout.parameters>::template biased<Tensor> own;
  typename weights<layout.parameters>::template scales_and_biases<Tensor> before_crossing;
  typename weights<layout.parameters>::template attending<Tensor> crossing;
};
template <template <class, auto> class Tensor>
struct parameters {
  Tensor<float, layout.parameters(vocabulary, embed)> words;
  typename weights<layout.parameters>::template biased<Tensor> encoder;
  decoder_layers<Tensor> decoder;
  nn::norm_weights<Tensor<float, layout.parameters(embed)>> after_encoder, at_the_end;
};
using Parameters = parameters<cleave::tensor>;
using Scalar = cleave::tensor<float, mesh()>;
using State = cleave::optim::adam_state<Parameters, Scalar>;
using Sentences = cleave::tensor<std::int32_t, layout.activations(batch, place)>;
using Translations = cleave::tensor<std::int32_t, layout.activations(batch, position)>;
using NextWords = cleave::tensor<float, layout.activations(batch, vocabulary)>;
/// The keys and values of the sentences, as each layer of the decoder sees them.
using Seen = nn::kv_cache<cleave::tensor<float, layout.activations(layer, batch, place, heads, head)>>;
using Cache = nn::kv_cache<cleave::tensor<float, layout.activations(layer, batch, source, heads, head)>>;
using Rows = cleave::tensor<std::int32_t, layout.activations(batch)>;

constexpr auto pin = [](const auto& v) { return constrain(v, layout.activations); };
/// Embeddings of tokens and of where they are.
constexpr auto embedded = [](const auto& p, const auto& tokens, const auto& along, const auto& start) {
  const auto x = nn::embedding(p.words, tokens, vocabulary);
  return pin(x + 0.1 * nn::sinusoidal(x, iota<std::int32_t>(x, along) + start, embed));
};
/// The sentences as the decoder sees them: [batch, place, embed].
constexpr auto memory_of = [](const auto& p, const auto& sentences) {
  const auto is_seen = rename(sentences != byte_tokens::pad, place, seen);
  const auto self = [&](const auto& x, const auto& w) {
    const auto mask = [&](const auto&, const auto&) { return is_seen; };
    const nn::self_attention_options o{nn::all_scores{}, mask, pin};
    const auto a = nn::self_attention(nn::layer_norm(x, w.before_attention, embed), w.attention, embed,
                                      {place, seen, head}, o, heads);
    return with_feed_forward<layout>(pin(x + a), w);
  };
  return nn::layer_norm(nn::blocks(layout, layer, embedded(p, sentences, place, 0), p.encoder, self), p.after_encoder,
                        embed);
};
/// The rest of a layer of the decoder, after its attention to the translation. `memory`: the sentences, or their keys
/// and values.
constexpr auto crossed = [](const auto& h, const auto& w, const auto& memory, const auto& sentences) {
  const auto mask = [&](const auto&, const auto&) { return sentences != byte_tokens::pad; };
  const nn::self_attention_options o{nn::all_scores{}, mask, pin};
  const auto a = nn::cross_attention(nn::layer_norm(h, w.before_crossing, embed), memory, w.crossing, embed,
                                     {position, place, head}, o, heads);
  return with_feed_forward<layout>(pin(h + a), w.own);
};
constexpr auto scores_of = [](const auto& p, const auto& x) {
  return nn::unembedding(nn::layer_norm(x, p.at_the_end, embed), p.words, embed);
};
/// The scores of the tokens that may follow each position of a translation: [batch, position, vocabulary].
constexpr auto scores = [](const auto& p, const auto& sentences, const auto& begun) {
  const auto memory = memory_of(p, sentences);
  const auto layer_of = [&](const auto& x, const auto& w) {
    return crossed(with_attention<layout>(x, w.own), w, memory, sentences);
  };
  return scores_of(p, nn::blocks(layout, layer, embedded(p, begun, position, 0), p.decoder, layer_of));
};
constexpr cleave::function loss([](const auto& p, const auto& sentences, const auto& begun, const auto& next) {
  const auto each = nn::cross_entropy(scores(p, sentences, begun), next, vocabulary, cleave::ignore{byte_tokens::pad});
  return weighted_mean(each, next != byte_tokens::pad);
});
template <std::int64_t Positions = 32, class Body>
constexpr auto planned(Body body) {
  return cleave::with(cleave::function(body), cleave::expect<batch, 32>{}, cleave::expect<position, Positions>{},
                      cleave::expect<place, 32>{}, cleave::expect<seen, 32>{}, cleave::expect<source, 32>{},
                      cleave::expect<layer, 2>{}, cleave::expect<embed, 48>{}, cleave::expect<heads, 4>{},
                      cleave::expect<head, 12>{}, cleave::expect<hidden, 96>{}, cleave::expect<vocabulary, 259>{});
}
constexpr auto step = planned([](const auto& p, const auto& state, const auto& sentences, const auto& begun,
                                 const auto& next, const auto& rate) {
  const auto [value, slope] = cleave::value_and_grad(loss)(p, sentences, begun, next);
  constexpr cleave::optim::adam_options options{.beta2 = 0.98};
  return std::tuple_cat(cleave::optim::adam(p, state, cleave::optim::clip_by_global_norm(slope, 1.0), rate, options),
                        std::tuple(value));
});
constexpr auto encoded = planned([](const auto& p, const auto& sentences) {
  return nn::keys_and_values(memory_of(p, sentences), p.decoder.crossing, embed, pin);
});
/// Reads the token at index `start` of each translation: the scores of the next one, and the cache.
constexpr auto decode = planned<1>([](const auto& p, const auto& seen_by_all, const auto& sentences, const auto& token,
                                      const auto& so_far, const auto& start) {
  const auto layer_of = [&](const auto& x, const auto& stacked) {
    const auto& [w, sentences_seen, cache] = stacked;
    const nn::self_attention_options o{nn::all_scores{}, nn::no_mask{}, pin};
    const auto [a, filled] = nn::self_attention(nn::layer_norm(x, w.own.before_attention, embed), w.own.attention,
                                                embed, {position, source, head}, o, cache, start, heads);
    return std::pair(cleave::value(crossed(pin(x + a), w, sentences_seen, sentences)), filled);
  };
  const cleave::value first = embedded(p, token, position, start);
  const auto [end, filled] = scan(layer, first, std::tuple(p.decoder, seen_by_all, so_far), layer_of);
  return std::tuple(sum(scores_of(p, end), position), filled); // of one position
});
constexpr cleave::function reordered([](const auto& cache, const auto& from) {
  return nn::reordered(cache, batch, from);
});
/// The same scores without a cache: those after position `at`.
constexpr auto after = planned([](const auto& p, const auto& sentences, const auto& begun, const auto& at) {
  return gather(scores(p, sentences, begun), position, at);
});

struct sentence_pair {
  std::string german, english;
};
/// A number below 1000 in both languages.
sentence_pair number_words(int n) {
  static constexpr const char* german[]{"null",     "eins",     "zwei",     "drei",     "vier",
                                        "fünf",     "sechs",    "sieben",   "acht",     "neun",
                                        "zehn",     "elf",      "zwölf",    "dreizehn", "vierzehn",
                                        "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"};
  static constexpr const char* english[]{"zero",    "one",     "two",       "three",    "four",
                                         "five",    "six",     "seven",     "eight",    "nine",
                                         "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                         "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static constexpr const char* german_tens[]{"",        "",        "zwanzig", "dreißig", "vierzig",
                                             "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"};
  static constexpr const char* english_tens[]{"",      "",      "twenty",  "thirty", "forty",
                                              "fifty", "sixty", "seventy", "eighty", "ninety"};
  const auto joined = [](int digit) { return digit == 1 ? std::string("ein") : std::string(german[digit]); };
  if (n < 20) return {german[n], english[n]};
  if (n < 100)
    return {(n % 10 == 0 ? "" : joined(n % 10) + "und") + german_tens[n / 10],
            english_tens[n / 10] + (n % 10 == 0 ? std::string() : std::string(" ") + english[n % 10])};
  const sentence_pair rest = n % 100 == 0 ? sentence_pair{} : number_words(n % 100);
  return {joined(n / 100) + "hundert" + rest.german,
          std::string(english[n / 100]) + " hundred" + (rest.english.empty() ? "" : " " + rest.english)};
}
/// A token of a text, with one that begins it or without, and padding after the end.
std::int32_t token_at(const std::string& text, std::int64_t at) {
  if (at < 0) return byte_tokens::begin;
  if (at < std::ssize(text)) return static_cast<unsigned char>(text[static_cast<std::size_t>(at)]);
  return at == std::ssize(text) ? byte_tokens::end : byte_tokens::pad;
}

constexpr std::int64_t room = 32;

constexpr std::string_view usage =
    "usage: translate [options]\n"
    "  --say TEXT   a German number that is translated at the end; may be given several times (some that are held "
    "out)\n"
    "  --mesh DxM   processes along data x model (as square as possible)\n"
    "  --layers N   layers of the encoder and of the decoder (2)\n"
    "  --embed N    width of the model (48)\n"
    "  --heads N    attention heads; N divides --embed (4)\n"
    "  --batch N    sentences of a step (32)\n"
    "  --steps N    steps of training (600)\n"
    "  --rate X     highest rate of learning (0.004)\n"
    "  --beams N    translations that are followed at a time (4)\n"
    "  --check      compares each score with that of the full forward pass, and fails if they differ by 1e-4\n"
    "  --seed N     of weights and of the order of the sentences (1)\n"
    "  --log FILE   writes step, loss and seconds as CSV, line by line\n"
    "  --plan       prints what a step communicates, with its bytes\n";

/// The likeliest translation. If it `checks`, an error if the scores differ from those of the full forward pass.
std::string translated(const cleave::grid& grid, const Parameters& p, const std::string& text, std::int64_t beams,
                       bool checks) {
  const auto sizes = p.decoder.own.attention.query.extents();
  Sentences sentences(grid, {beams, room});
  Translations token(grid, {beams, 1}), begun(grid, {beams, room});
  NextWords next(grid, {beams, byte_tokens::count}), full(grid, {beams, byte_tokens::count});
  Rows from(grid, {beams});
  const auto made = [&]<class A>(A) {
    return nn::make_parameters<A>(grid, {layer = sizes[0], batch = beams, place = room, source = room, heads = sizes[2],
                                         head = sizes[3]});
  };
  auto seen_by_all = made(Seen{});
  auto cache = made(Cache{});
  sentences.fill_by([&](const auto& at) { return token_at(text, at[1]); });
  encoded(p, sentences).into(seen_by_all);
  std::vector<std::vector<std::int32_t>> rows(cleave::as_size(beams), {byte_tokens::begin});
  nn::beam_search search(1, {.beams = beams, .steps = room - 1, .end = byte_tokens::end, .length_penalty = 0.6});
  for (std::int32_t start = 0;; ++start) {
    token.fill_by([&](const auto& at) { return rows[cleave::as_size(at[0])].back(); });
    decode(p, seen_by_all, sentences, token, cache, start).into(next, cache);
    const std::vector<float> scores = next.to_global();
    if (checks) {
      begun.fill_by([&](const auto& at) {
        return at[1] > start ? byte_tokens::pad : rows[cleave::as_size(at[0])][cleave::as_size(at[1])];
      });
      full = after(p, sentences, begun, start);
      const std::vector<float> wanted = full.to_global();
      for (std::size_t i = 0; i < scores.size(); ++i)
        if (!(std::fabs(scores[i] - wanted[i]) <= 1e-4F * std::max(1.0F, std::fabs(wanted[i]))))
          throw std::runtime_error("the score of token " + std::to_string(i % byte_tokens::count) + " is " +
                                   std::to_string(scores[i]) + " with the cache and " + std::to_string(wanted[i]) +
                                   " without");
    }
    search.advance(scores);
    if (search.done()) return byte_tokens::text(search.texts(0)[0].tokens);
    const std::vector<std::vector<std::int32_t>> before = rows;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      rows[r] = before[cleave::as_size(search.parents()[r])];
      rows[r].push_back(search.tokens()[r]);
    }
    from.fill_by([&](const auto& at) { return search.parents()[cleave::as_size(at[0])]; });
    reordered(cache, from).into(cache);
  }
}

int run(examples::options& given, int ranks, bool speaks) {
  const auto number = [&](std::string_view name, std::int64_t otherwise) { return given.number(name, otherwise); };
  const std::int64_t depth = number("--layers", 2), width = number("--embed", 48), head_count = number("--heads", 4),
                     size = number("--batch", 32), steps = number("--steps", 600), beams = number("--beams", 4);
  const double rate = given.number("--rate", 0.004);
  const auto seed = given.number_or_zero("--seed", std::uint64_t{1});
  const std::string log_path = given.text("--log");
  const bool shows_plan = given.flag("--plan"), checks = given.flag("--check");
  std::vector<sentence_pair> asked;
  for (std::string t = given.text("--say"); !t.empty(); t = given.text("--say")) asked.push_back({t, ""});
  const std::array<long, 2> shape = examples::mesh_of(given.sizes("--mesh"), ranks);
  given.done();
  if (width % head_count != 0) throw std::runtime_error("--heads must divide --embed");
  for (const sentence_pair& s : asked)
    if (std::ssize(s.german) >= room) throw std::runtime_error("--say takes at most 31 bytes, got '" + s.german + "'");

  std::vector<sentence_pair> training;
  for (int n = 0; n < 1000; ++n) {
    if (n % 8 != 3) training.push_back(number_words(n));
    else if (n % 200 == 43) asked.push_back(number_words(n));
  }
  const cleave::grid grid(mesh, MPI_COMM_WORLD, {shape[0], shape[1]});
  const auto made = [&]<class A>(A) {
    return nn::make_parameters<A>(grid, {vocabulary = byte_tokens::count, layer = depth, embed = width,
                                         heads = head_count, head = width / head_count, hidden = 2 * width});
  };
  auto p = made(Parameters{});
  nn::initialise(p, seed,
                 {{"*.bias", nn::zeros},
                  {"*.scale", nn::ones},
                  {"words", nn::lecun_normal(vocabulary)},
                  {"*.out", nn::lecun_normal(layer, embed)},
                  {"*.query", nn::lecun_normal(layer, heads, head)},
                  {"*.key", nn::lecun_normal(layer, heads, head)},
                  {"*.value", nn::lecun_normal(layer, heads, head)},
                  {"*.up.*", nn::lecun_normal(layer, hidden)},
                  {"*.down.*", nn::lecun_normal(layer, embed)}});
  State state{made(Parameters{}), made(Parameters{}), Scalar(grid, {}), Scalar(grid, {})};
  Sentences sentences(grid, {size, room});
  Translations begun(grid, {size, room}), next(grid, {size, room});
  Scalar value(grid, {});
  if (speaks) {
    std::printf("%lld parameters on a mesh of %ld x %ld, %zu sentences\n",
                static_cast<long long>(nn::count_parameters(p)), shape[0], shape[1], training.size());
    if (shows_plan) {
      constexpr auto plan = cleave::plan<std::tuple<Parameters, State, Scalar>(Parameters, State, Sentences,
                                                                               Translations, Translations, float)>(
          step);
      std::printf("\n%s\n", explain(plan, {batch = size, place = room, position = room, layer = depth, embed = width,
                                           heads = head_count, head = width / head_count, hidden = 2 * width,
                                           vocabulary = byte_tokens::count, data = shape[0], model = shape[1]})
                                .c_str());
    }
  }

  cleave::io::loader<sentence_pair> loader(sentences, batch, std::ssize(training),
                                           [&](std::int64_t i) { return training[cleave::as_size(i)]; });
  cleave::io::data_position at{seed};
  const cleave::optim::cosine_decay schedule{rate, static_cast<double>(steps) / 20, static_cast<double>(steps)};
  examples::csv_log log(speaks, log_path, "step,loss,seconds");
  examples::progress shown(speaks, steps, size, "sentences");
  examples::curve losses;
  while (at.next < steps) {
    const auto rows = loader.next(at);
    sentences.fill_by([&](const auto& i) { return token_at(rows[i[0]].german, i[1]); });
    begun.fill_by([&](const auto& i) { return token_at(rows[i[0]].english, i[1] - 1); });
    next.fill_by([&](const auto& i) { return token_at(rows[i[0]].english, i[1]); });
    step(p, state, sentences, begun, next, static_cast<float>(schedule(at.next))).into(p, state, value);
    const double now = examples::finite_loss(static_cast<double>(value.item()));
    losses.add(now);
    log.write({static_cast<double>(at.next), now, shown.seconds()});
    shown.show(at.next, {{"loss", now}});
  }
  shown.leave();
  if (speaks) std::printf("%s\n", losses.drawn("loss").c_str());
  for (const sentence_pair& s : asked) {
    const std::string found = translated(grid, p, s.german, beams, checks);
    if (speaks)
      std::printf("%s: %s%s\n", s.german.c_str(), found.c_str(),
                  s.english.empty() || s.english == found ? "" : (" (" + s.english + ")").c_str());
  }
  return 0;
}

} // namespace translate

int main(int argc, char** argv) { return examples::run(argc, argv, translate::usage, translate::run); }
