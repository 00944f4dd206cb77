// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Goes on with texts by a published model like Llama: prompts are read at once, then each token is computed from a
// cache of keys and values. Reads the checkpoints of llama2.c and safetensors files.
#include "llama.hpp"
#include "llama_files.hpp"
#include "progress.hpp"
#if defined(CLEAVE_HDF5)
#include "hdf5_file.hpp"
#endif

#include <cleave/nn/decoding.hpp>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

namespace llama {

constexpr std::string_view usage =
    "usage: llama --weights FILE [options]\n"
    "Goes on with a text, token by token.\n"
    "  --weights FILE   a checkpoint of llama2.c (.bin), or safetensors (or its .index.json) with config.json beside "
    "it\n"
    "  --tokenizer F    the tokens as llama2.c has them (tokenizer.bin beside the weights)\n"
    "  --prompt TEXT    what is gone on with; may be given several times, for as many texts at once\n"
    "  --ids N,N,...    the same as tokens; no tokenizer is needed then\n"
    "  --steps N        tokens that are added at most (64)\n"
    "  --temperature T  0: always the likeliest token (0.8)\n"
    "  --top-k N        choose among the N likeliest tokens; 0: all (0)\n"
    "  --top-p P        choose among the likeliest tokens that have a share P together (0.9)\n"
    "  --repetition X   makes tokens that were there less likely; 1: not (1)\n"
    "  --seed N         of the choices (0)\n"
    "  --stop TEXT      ends a text before it; may be given several times\n"
    "  --beams N        search for the likeliest texts, N at a time, instead of choosing by chance\n"
    "  --length X       likelier: texts with a higher log p / length^X, with --beams (0)\n"
    "  --mesh DxM       processes along data x model (as square as possible)\n"
    "  --log FILE       a CSV file for the seconds of each token\n"
    "  --check          compute all scores again at once, and fail if they differ from those of the cache by 1e-4; "
    "with\n"
    "                   enough beams for all texts compare with all of them\n"
    "  --input FILE     an HDF5 file with token_ids and scores to compare with; needs HDF5\n"
    "  --plan           show the plan of a token\n";

/// A model on a grid with a cache.
class decoder {
 public:
  decoder(const cleave::grid& grid, const std::string& path, bool speaks)
      : grid_(grid), config_(configuration_of(grid, path, speaks)), weights_(load(grid, path, config_)) {
    if (speaks)
      std::printf("%lld parameters in %lld layers, %lld heads\n",
                  static_cast<long long>(nn::count_parameters(weights_)), static_cast<long long>(config_.layers),
                  static_cast<long long>(config_.heads * config_.group));
  }
  const configuration& config() const { return config_; }
  /// Throws if a token is none of the vocabulary.
  void check(const std::vector<std::int32_t>& ids) const {
    for (const std::int32_t id : ids)
      if (id < 0 || id >= config_.vocabulary)
        throw std::runtime_error("llama: token " + std::to_string(id) + " is not one of the " +
                                 std::to_string(config_.vocabulary) + " of the vocabulary");
  }

  /// Makes room for so many sequences of so many tokens. Sequences begin at these indices of the cache.
  void begin(std::int64_t room, const std::vector<std::int32_t>& begins) {
    count_ = static_cast<std::int64_t>(begins.size());
    begin_ = places(grid_, {count_});
    begin_.fill_by([&](const auto& at) { return begins[static_cast<std::size_t>(at[0])]; });
    room_ = static_cast<std::int32_t>(room);
    cache_ = nn::make_parameters<cache>(grid_, {sequence = count_, source = sources(room), heads = config_.heads,
                                                head = config_.head});
    next_ = 0;
  }
  /// Reads as many further tokens of each sequence, and gives the scores after the last of them.
  std::vector<float> last(const std::vector<std::int32_t>& ids) {
    last_scores scores(grid_, {count_, config_.vocabulary});
    step<false>(weights_, cache_, filled(ids), begin_, next_, room_, config_.all).into(scores, cache_);
    next_ += static_cast<std::int32_t>(static_cast<std::int64_t>(ids.size()) / count_);
    return scores.to_global();
  }
  /// The same for the scores after each of them.
  std::vector<float> all(const std::vector<std::int32_t>& ids) {
    const std::int64_t length = static_cast<std::int64_t>(ids.size()) / count_;
    all_scores scores(grid_, {count_, length, config_.vocabulary});
    step<true>(weights_, cache_, filled(ids), begin_, next_, room_, config_.all).into(scores, cache_);
    next_ += static_cast<std::int32_t>(length);
    return scores.to_global();
  }
  /// Continues other sequences: each has read the tokens of the one of this number.
  void reorder(const std::vector<std::int32_t>& parents) {
    bool same = true;
    for (std::size_t i = 0; i < parents.size(); ++i) same = same && parents[i] == static_cast<std::int32_t>(i);
    if (same) return;
    places from(grid_, {count_});
    from.fill_by([&](const auto& at) { return parents[static_cast<std::size_t>(at[0])]; });
    reordered(cache_, from).into(cache_);
  }
  std::string plan(std::int64_t room) const {
    constexpr auto made = cleave::plan<std::tuple<last_scores, cache>(weights, cache, tokens, places, std::int32_t,
                                                                      std::int32_t, numbers<float>)>(step<false>);
    return explain(made, {sequence = count_, position = 1, source = sources(room), layer = config_.layers,
                          embed = config_.embed, heads = config_.heads, group = config_.group, head = config_.head,
                          hidden = config_.hidden, vocabulary = config_.vocabulary, data = grid_.size(data),
                          model = grid_.size(model)});
  }

 private:
  /// Those of all layers, and at least a span.
  std::int64_t sources(std::int64_t room) const { return std::max(config_.layers * room, span.ref.extent); }
  tokens filled(const std::vector<std::int32_t>& ids) const {
    const std::int64_t length = static_cast<std::int64_t>(ids.size()) / count_;
    tokens made(grid_, {count_, length});
    made.fill_by([&](const auto& at) { return ids[static_cast<std::size_t>(at[0] * length + at[1])]; });
    return made;
  }

  cleave::grid grid_;
  configuration config_;
  weights weights_;
  cache cache_{};
  places begin_{};
  std::int64_t count_ = 0;
  std::int32_t next_ = 0, room_ = 0;
};

/// The largest difference of two lists of scores, over the largest score; infinite if there is a number that is none.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0, most = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    off = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(off, d);
    most = std::max(most, std::fabs(static_cast<double>(b[i])));
  }
  return off / most;
}

/// Compares the scores after each token, read at once and one by one, with those of a file.
int compare(decoder& model, const std::string& path, bool speaks) {
#if defined(CLEAVE_HDF5)
  std::vector<std::int64_t> extents;
  std::vector<std::int32_t> ids;
  std::vector<float> wanted;
  examples::on_all_ranks([&] {
    const examples::hdf5_file in(path);
    extents = in.extents("token_ids");
    if (extents.size() != 2 || extents[0] < 1 || extents[1] < 1)
      throw std::runtime_error("token_ids of " + path + " are no matrix [sequence, position] with a token");
    ids = in.read<std::int32_t>("token_ids", extents);
    model.check(ids);
    wanted = in.read<float>("scores", {extents[0], extents[1], model.config().vocabulary});
  });

  const auto count = static_cast<std::size_t>(extents[0]), length = static_cast<std::size_t>(extents[1]),
             words = static_cast<std::size_t>(model.config().vocabulary);
  const std::vector<std::int32_t> begins(count, 0);
  model.begin(extents[1], begins);
  const double at_once = difference(model.all(ids), wanted);
  model.begin(extents[1] + 3, begins);
  std::vector<float> got(wanted.size());
  for (std::size_t t = 0; t < length; ++t) {
    std::vector<std::int32_t> column;
    for (std::size_t s = 0; s < count; ++s) column.push_back(ids[s * length + t]);
    const std::vector<float> scores = model.last(column);
    for (std::size_t s = 0; s < count; ++s)
      std::copy_n(scores.begin() + static_cast<std::ptrdiff_t>(s * words), words,
                  got.begin() + static_cast<std::ptrdiff_t>((s * length + t) * words));
  }
  const double one_by_one = difference(got, wanted);
  if (speaks) std::printf("llama: scores at once differ by %.3g, with a cache by %.3g\n", at_once, one_by_one);
  return at_once <= 1e-5 && one_by_one <= 1e-5 ? 0 : 1;
#else
  static_cast<void>(model), static_cast<void>(path), static_cast<void>(speaks);
  throw std::runtime_error("llama: --input needs HDF5, which was not found");
#endif
}

struct choices {
  std::int64_t steps = 0;
  nn::sampling how{};
  std::uint64_t seed = 0;
  std::vector<std::string> stops{};
  std::int64_t beams = 0;
  double length = 0;
  bool checks = false, shows_plan = false;
};

/// Prompts that end at the same index of the cache: shorter ones begin later.
struct aligned {
  aligned(const std::vector<std::vector<std::int32_t>>& prompts, std::int64_t steps, std::int64_t positions) {
    for (const auto& p : prompts) longest = std::max(longest, p.size());
    room = std::min(static_cast<std::int64_t>(longest) + steps, positions);
    if (static_cast<std::int64_t>(longest) >= room)
      throw std::runtime_error("llama: the prompt has " + std::to_string(longest) + " tokens, but the model has only " +
                               std::to_string(positions) + " positions");
    for (const auto& p : prompts) {
      begins.push_back(static_cast<std::int32_t>(longest - p.size()));
      texts.emplace_back(longest - p.size(), p[0]);
      texts.back().insert(texts.back().end(), p.begin(), p.end());
    }
  }
  std::vector<std::int32_t> ids() const {
    std::vector<std::int32_t> all;
    for (const auto& t : texts) all.insert(all.end(), t.begin(), t.end());
    return all;
  }
  /// The tokens of a text without its padding.
  std::span<const std::int32_t> own(std::size_t s) const {
    return std::span<const std::int32_t>(texts[s]).subspan(static_cast<std::size_t>(begins[s]));
  }
  std::int64_t added() const { return room - static_cast<std::int64_t>(longest); }

  std::vector<std::vector<std::int32_t>> texts{};
  std::vector<std::int32_t> begins{};
  std::size_t longest = 0;
  std::int64_t room = 0;
};

/// The text of a token, after the one before it.
std::string text_of(const std::optional<token_table>& words, std::int32_t token, std::int32_t before) {
  return words ? words->text(token, before) : std::to_string(token) + " ";
}

/// Continues the prompts, and writes the first text as it comes. True if a check finds nothing wrong.
bool generate(decoder& model, const std::vector<std::vector<std::int32_t>>& prompts,
              const std::optional<token_table>& words, const choices& c, examples::csv_log& log, bool speaks) {
  const std::size_t count = prompts.size();
  aligned all(prompts, c.steps, model.config().positions);
  std::vector<std::int32_t> ids = all.ids();
  model.check(ids);
  model.begin(all.room, all.begins);
  if (speaks && c.shows_plan) std::printf("\n%s\n", model.plan(all.room).c_str());

  std::vector<nn::text_stream<>> streams(count, nn::text_stream<>(c.stops));
  std::vector<std::string> later(count);
  const auto say = [&](std::size_t s, const std::string& text) {
    if (s > 0) later[s] += text;
    else if (speaks) std::printf("%s", text.c_str()), std::fflush(stdout);
  };
  for (std::size_t s = 0; s < count; ++s)
    for (std::size_t i = words ? 1 : 0; i < prompts[s].size(); ++i)
      say(s, text_of(words, prompts[s][i], i > 0 ? prompts[s][i - 1] : 0));
  std::mt19937_64 random(c.seed);
  std::vector<std::vector<float>> seen(count);
  const double start = MPI_Wtime();
  double after_prompt = start;
  std::int64_t made = 0;
  bool ended = false;
  for (std::int64_t step = 0; step < all.added() && !ended; ++step) {
    const double before = MPI_Wtime();
    const std::vector<float> scores = model.last(ids);
    log.write({static_cast<double>(step + 1), MPI_Wtime() - before});
    if (step == 0) after_prompt = MPI_Wtime();
    ids.clear();
    ended = true;
    const std::size_t vocabulary_size = scores.size() / count;
    for (std::size_t s = 0; s < count; ++s) {
      const std::span<const float> own(&scores[s * vocabulary_size], vocabulary_size);
      if (c.checks) seen[s].insert(seen[s].end(), own.begin(), own.end());
      ids.push_back(c.how.choose(own, random, all.own(s)));
      // The token that begins a text also ends it. Texts that have ended continue unseen.
      if (words && (ids[s] == 1 || ids[s] == 2)) say(s, streams[s].rest());
      say(s, streams[s].push(text_of(words, ids[s], all.texts[s].back())));
      all.texts[s].push_back(ids[s]);
      ended = ended && streams[s].ended();
    }
    ++made;
  }
  for (std::size_t s = 0; s < count; ++s) say(s, streams[s].rest());
  const double seconds = MPI_Wtime() - after_prompt;
  if (speaks) std::printf("\n");
  for (std::size_t s = 1; s < count && speaks; ++s) std::printf("%s\n", later[s].c_str());
  if (speaks && made > 1)
    std::printf("prompt in %.3f s, then %.1f tokens/s\n", after_prompt - start,
                static_cast<double>((made - 1) * static_cast<std::int64_t>(count)) / seconds);
  if (!c.checks) return true;

  // All at once: the scores after the last token of the prompt and after each that was added but the last.
  std::vector<std::int32_t> whole;
  const std::size_t length = all.texts[0].size() - 1;
  for (const auto& t : all.texts) whole.insert(whole.end(), t.begin(), t.end() - 1);
  model.begin(static_cast<std::int64_t>(length), all.begins);
  const std::vector<float> full = model.all(whole);
  const std::size_t vocabulary_size = full.size() / (count * length);
  double worst = 0;
  for (std::size_t s = 0; s < count; ++s) {
    const auto first = full.begin() + static_cast<std::ptrdiff_t>((s * length + all.longest - 1) * vocabulary_size);
    worst = std::max(worst, difference(seen[s], std::vector<float>(first, first + std::ssize(seen[s]))));
  }
  if (speaks) std::printf("llama: cached scores differ from the full forward pass by %.3g\n", worst);
  return worst <= 1e-4;
}

/// The logarithms of the probabilities of texts of one length after a prompt, each read as a whole.
std::vector<double> log_p_of(decoder& model, const std::vector<std::int32_t>& prompt,
                             const std::vector<std::vector<std::int32_t>>& texts) {
  std::vector<std::int32_t> ids;
  const std::size_t added = texts[0].size(), length = prompt.size() + added - 1;
  for (const auto& t : texts) {
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    ids.insert(ids.end(), t.begin(), t.end() - 1);
  }
  model.begin(static_cast<std::int64_t>(length), std::vector<std::int32_t>(texts.size(), 0));
  const std::vector<float> scores = model.all(ids);
  const std::size_t words = scores.size() / (texts.size() * length);
  std::vector<double> made;
  for (std::size_t t = 0; t < texts.size(); ++t) {
    made.push_back(0);
    for (std::size_t i = 0; i < added; ++i) {
      const std::span<const float> own(&scores[(t * length + prompt.size() - 1 + i) * words], words);
      double total = 0;
      for (const float s : own) total += std::exp(static_cast<double>(s));
      made.back() += static_cast<double>(own[static_cast<std::size_t>(texts[t][i])]) - std::log(total);
    }
  }
  return made;
}
/// Whether no text of so many tokens is likelier than the one that was found, and that one as likely as it was found
/// to be.
bool likeliest(decoder& model, const std::vector<std::int32_t>& prompt, const nn::hypothesis& found, bool speaks) {
  std::vector<std::vector<std::int32_t>> all(1);
  const auto words = static_cast<std::int32_t>(model.config().vocabulary);
  if (std::pow(static_cast<double>(words), static_cast<double>(found.tokens.size())) > 1e5)
    throw std::runtime_error("--check with --beams compares all texts: there are too many, reduce --steps");
  for (std::size_t i = 0; i < found.tokens.size(); ++i) {
    std::vector<std::vector<std::int32_t>> longer;
    for (const auto& t : all)
      for (std::int32_t w = 0; w < words; ++w) longer.push_back(t), longer.back().push_back(w);
    all = std::move(longer);
  }
  const std::vector<double> log_p = log_p_of(model, prompt, all);
  const auto best = static_cast<std::size_t>(std::max_element(log_p.begin(), log_p.end()) - log_p.begin());
  const double off = std::fabs(log_p[best] - found.log_p);
  const bool same = all[best] == found.tokens && off <= 1e-4;
  if (speaks)
    std::printf("llama: the likeliest of all %zu texts %s, log p differs by %.3g\n", all.size(),
                same ? "was found" : "is another one", off);
  return same;
}

/// Searches for the likeliest continuations of the prompts. True if a check finds nothing wrong.
bool search(decoder& model, const std::vector<std::vector<std::int32_t>>& prompts,
            const std::optional<token_table>& words, const choices& c, bool speaks) {
  std::vector<std::vector<std::int32_t>> rows;
  for (const auto& p : prompts) rows.insert(rows.end(), static_cast<std::size_t>(c.beams), p);
  const aligned all(rows, c.steps, model.config().positions);
  std::vector<std::int32_t> ids = all.ids();
  model.check(ids);
  model.begin(all.room, all.begins);
  nn::beam_search found(std::ssize(prompts), {c.beams, all.added(), words ? 2 : -1, c.length, c.how.repetition});
  const double start = MPI_Wtime();
  std::int64_t made = 0;
  for (;; ++made) {
    found.advance(model.last(ids));
    if (found.done()) break;
    model.reorder(found.parents());
    ids = found.tokens();
  }
  if (speaks)
    std::printf("%lld steps of %zu rows in %.3f s\n", static_cast<long long>(made + 1), rows.size(),
                MPI_Wtime() - start);
  bool right = true;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    const std::vector<nn::hypothesis>& texts = found.texts(static_cast<std::int64_t>(p));
    for (std::size_t i = 0; i < std::min(texts.size(), std::size_t{4}) && speaks; ++i) {
      nn::text_stream<> stream(c.stops);
      std::string text;
      std::int32_t before = prompts[p].back();
      for (const std::int32_t token : texts[i].tokens) {
        if (!words || token != 2) text += stream.push(text_of(words, token, before));
        before = token;
      }
      std::printf("%.4f %s\n", texts[i].score, (text + stream.rest()).c_str());
    }
    if (c.checks) right = likeliest(model, prompts[p], texts[0], speaks) && right;
  }
  return right;
}

int run(examples::options& given, int ranks, bool speaks) {
  const std::string weights_path = given.text("--weights"), input = given.text("--input"),
                    log_path = given.text("--log"), list = given.text("--ids");
  std::string table = given.text("--tokenizer");
  choices c;
  c.steps = given.number("--steps", std::int64_t{64});
  c.how = {given.number_or_zero("--temperature", 0.8), given.number_or_zero("--top-k", std::int64_t{0}),
           given.number("--top-p", 0.9), given.number("--repetition", 1.0)};
  c.seed = given.number_or_zero("--seed", std::uint64_t{0});
  c.beams = given.number_or_zero("--beams", std::int64_t{0});
  c.length = given.number_or_zero("--length", 0.0);
  for (std::string t = given.text("--stop"); !t.empty(); t = given.text("--stop")) c.stops.push_back(t);
  c.checks = given.flag("--check");
  c.shows_plan = given.flag("--plan");
  std::vector<std::string> texts;
  for (std::string t = given.text("--prompt"); !t.empty(); t = given.text("--prompt")) texts.push_back(t);
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  given.done();
  if (weights_path.empty()) throw std::runtime_error("llama: --weights is missing, see --help");
  if (table.empty()) table = std::filesystem::path(weights_path).replace_filename("tokenizer.bin");

  const cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  examples::csv_log log(speaks, log_path, "token,seconds");
  decoder model(grid, weights_path, speaks);
  if (!input.empty()) return compare(model, input, speaks);
  std::vector<std::vector<std::int32_t>> prompts;
  std::optional<token_table> words;
  if (!list.empty()) {
    prompts.emplace_back();
    const char* const end = list.data() + list.size();
    for (const char* at = list.data(); at <= end;) {
      const auto [next, code] = std::from_chars(at, end, prompts[0].emplace_back());
      if (code != std::errc() || (next != end && *next != ','))
        throw std::runtime_error("llama: --ids takes tokens, as 1,15,7, got '" + list + "'");
      at = next + 1;
    }
  } else {
    if (texts.empty()) texts.emplace_back();
    examples::on_all_ranks([&] {
      words.emplace(table, model.config().vocabulary);
      for (const std::string& t : texts) prompts.push_back(words->tokens(t));
    });
  }
  const bool right = c.beams > 0 ? search(model, prompts, words, c, speaks)
                                 : generate(model, prompts, words, c, log, speaks);
  return right ? 0 : 1;
}

} // namespace llama

int main(int argc, char** argv) { return examples::run(argc, argv, llama::usage, llama::run); }
