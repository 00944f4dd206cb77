// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/lookup.hpp>
#include <cleave/expr/values.hpp>
#include <cleave/nn/errors.hpp>
#include <cleave/nn/self_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// The choice of tokens by scores, on the host. All ranks have the same scores and the same random numbers, so all
// choose the same.

namespace cleave { inline namespace v0 { namespace nn {

/// Makes tokens that were there before less likely: their positive scores are divided by the penalty, their negative
/// ones multiplied (Keskar et al. 2019). A token counts once; tokens outside of the scores are ignored.
inline void penalize_repetition(std::span<float> scores, std::span<const std::int32_t> so_far, double penalty) {
  if (penalty == 1) return;
  std::vector<bool> done(scores.size());
  for (const std::int32_t token : so_far) {
    const auto at = static_cast<std::size_t>(token);
    if (token < 0 || at >= scores.size() || done[at]) continue;
    done[at] = true;
    const double score = static_cast<double>(scores[at]);
    scores[at] = static_cast<float>(score > 0 ? score / penalty : score * penalty);
  }
}

/// How a token is chosen by its score.
struct sampling {
  /// Scores are divided by it; 0: the likeliest token.
  double temperature = 0;
  /// How many of the likeliest tokens are left; 0: all.
  std::int64_t top_k = 0;
  /// The likeliest tokens are left that have this share together (Holtzman et al. 2020); 1: all.
  double top_p = 1;
  /// The penalty of `penalize_repetition`; 1: none.
  double repetition = 1;

  /// The next token, by the scores of all and the tokens before it.
  std::int32_t choose(std::span<const float> given, std::mt19937_64& random,
                      std::span<const std::int32_t> so_far = {}) const {
    std::vector<float> changed;
    std::span<const float> scores = given;
    if (repetition != 1) {
      changed.assign(given.begin(), given.end());
      penalize_repetition(changed, so_far, repetition);
      scores = changed;
    }
    const auto most = std::max_element(scores.begin(), scores.end());
    if (temperature == 0) return static_cast<std::int32_t>(most - scores.begin());
    std::vector<double> shares(scores.size());
    double total = 0;
    for (std::size_t i = 0; i < scores.size(); ++i)
      total += shares[i] = std::exp(static_cast<double>(scores[i] - *most) / temperature);
    // The likeliest tokens first, and of equal ones the lower. A heap has sorted as many of them as were asked for:
    // few, if few have most of the share.
    std::vector<std::int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const auto share = [&](std::int32_t i) { return shares[static_cast<std::size_t>(i)]; };
    const auto later = [&](std::int32_t a, std::int32_t b) {
      return share(a) != share(b) ? share(a) < share(b) : a > b;
    };
    std::make_heap(order.begin(), order.end(), later);
    std::size_t sorted = 0;
    const auto likeliest = [&](std::size_t n) {
      while (sorted <= n) std::pop_heap(order.begin(), order.end() - static_cast<std::ptrdiff_t>(sorted++), later);
      return order[order.size() - 1 - n];
    };
    std::size_t left = order.size();
    if (top_k > 0 && top_k < std::ssize(order)) {
      left = static_cast<std::size_t>(top_k);
      total = 0;
      for (std::size_t n = 0; n < left; ++n) total += share(likeliest(n));
    }
    if (top_p < 1) {
      double kept = 0;
      std::size_t n = 0;
      while (n < left && kept < top_p * total) kept += share(likeliest(n++));
      left = std::max(n, std::size_t{1});
      total = kept;
    }
    double at = static_cast<double>(random() >> 11) * 0x1p-53 * total;
    for (std::size_t n = 0; n < left; ++n)
      if ((at -= share(likeliest(n))) < 0) return likeliest(n);
    // Rounded sums may leave a rest, which no token without a share gets.
    while (left > 1 && share(likeliest(left - 1)) == 0) --left;
    return likeliest(left - 1);
  }
};

/// A text that grows piece by piece and ends before the first stop word: a std::string, or a std::vector of tokens.
/// If several are found, that counts which is complete first, and of these the longest. Text that may be the beginning
/// of a stop word is held back until that is decided.
template <class Text = std::string>
class text_stream {
 public:
  text_stream() = default;
  explicit text_stream(std::vector<Text> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const Text& t) { return t.empty(); });
  }

  /// Adds a piece, and returns the text that may be shown now.
  Text push(const Text& piece) {
    if (ended_) return {};
    held_.insert(held_.end(), piece.begin(), piece.end());
    auto end = held_.end();
    std::ptrdiff_t complete = std::numeric_limits<std::ptrdiff_t>::max();
    for (const Text& stop : stops_) {
      const auto at = std::search(held_.begin(), held_.end(), stop.begin(), stop.end());
      const std::ptrdiff_t behind = at - held_.begin() + std::ssize(stop);
      if (at == held_.end() || behind > complete || (behind == complete && at > end)) continue;
      end = at;
      complete = behind;
    }
    ended_ = end != held_.end();
    if (!ended_) end = held_.end() - static_cast<std::ptrdiff_t>(undecided());
    Text shown(held_.begin(), end);
    held_.erase(held_.begin(), ended_ ? held_.end() : end);
    return shown;
  }
  /// Whether a stop word has come. Nothing follows then.
  bool ended() const { return ended_; }
  /// Ends the text, and returns the rest that was held back.
  Text rest() {
    ended_ = true;
    return std::exchange(held_, Text{});
  }

 private:
  /// The length of the longest end of the text that is the beginning of a stop word.
  std::size_t undecided() const {
    std::size_t most = 0;
    for (const Text& stop : stops_)
      for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > most; --n)
        if (std::equal(held_.end() - static_cast<std::ptrdiff_t>(n), held_.end(), stop.begin())) most = n;
    return most;
  }

  std::vector<Text> stops_{};
  Text held_{};
  bool ended_ = false;
};

/// Options of `beam_search`.
struct beam_options {
  /// How many texts are followed for each prompt.
  std::int64_t beams = 4;
  /// Tokens that are added at most.
  std::int64_t steps = 64;
  /// The token that ends a text; -1: none.
  std::int32_t end = -1;
  /// Texts are compared by log p / length^penalty (Wu et al. 2016, with length alone); 0: by log p.
  double length_penalty = 0;
  /// As of `sampling`, on the tokens that were added.
  double repetition = 1;
};
/// A continuation that was found: its tokens, with the one that ended it, and the logarithm of their probability.
struct hypothesis {
  std::vector<std::int32_t> tokens{};
  double log_p = 0;
  /// log p / length^penalty.
  double score = 0;
};

/// A search for the likeliest continuations of prompts (Reddy 1977; Sutskever, Vinyals and Le 2014). A prompt has
/// `beams` rows of scores and of the cache, one after the other. The caller reads the prompts into all rows, and then
/// repeats: `advance(scores)`, `reordered` of the cache by `parents()`, and a step on `tokens()`. In each step the
/// likeliest `beams` texts that have not ended stay, and the best `beams` that have. With as many beams as there are
/// texts before the last step it finds the likeliest of all. At equal scores the first row and the lower token win.
/// Throws shape_error if there is no prompt, no beam or no step.
class beam_search {
 public:
  beam_search(std::int64_t prompts, const beam_options& o) : o_(o), live_(checked(prompts, o)), found_(live_.size()) {
    for (auto& rows : live_) rows.emplace_back();
  }

  /// Takes the scores after the last tokens, [prompts * beams, words] in this order, and chooses the next ones. Scores
  /// of a prompt's first step are those of its first row. Throws shape_error if the rows differ in length.
  void advance(std::span<const float> scores) {
    const std::size_t beams = static_cast<std::size_t>(o_.beams), words = scores.size() / (live_.size() * beams);
    if (words == 0 || scores.size() != words * live_.size() * beams)
      raise<shape_error>(wording::beams_unequal(std::ssize(live_), o_.beams, std::ssize(scores)));
    tokens_.assign(live_.size() * beams, std::max(o_.end, 0));
    parents_.resize(tokens_.size());
    std::iota(parents_.begin(), parents_.end(), 0);
    ++step_;
    for (std::size_t p = 0; p < live_.size(); ++p) {
      struct candidate {
        std::size_t row, word;
        double log_p;
      };
      std::vector<candidate> all;
      for (std::size_t row = 0; row < live_[p].size(); ++row) {
        const std::span<const float> given = scores.subspan((p * beams + row) * words, words);
        const std::vector<double> log_p = log_shares(given, live_[p][row].tokens);
        for (std::size_t w = 0; w < words; ++w) all.push_back({row, w, live_[p][row].log_p + log_p[w]});
      }
      const auto first = [&](const candidate& a, const candidate& b) {
        return std::tuple(-a.log_p, a.row, a.word) < std::tuple(-b.log_p, b.row, b.word);
      };
      // As many as may stay and as may end.
      const std::size_t most = std::min(all.size(), 2 * beams);
      std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most), all.end(), first);
      std::vector<hypothesis> next;
      for (std::size_t i = 0; i < most; ++i) {
        const candidate& c = all[i];
        hypothesis text = live_[p][c.row];
        text.tokens.push_back(static_cast<std::int32_t>(c.word));
        text.log_p = c.log_p;
        if (text.tokens.back() == o_.end || step_ == o_.steps) {
          text.score = scored(text.log_p, text.tokens.size());
          found_[p].push_back(std::move(text));
        } else if (next.size() < beams) {
          tokens_[p * beams + next.size()] = text.tokens.back();
          parents_[p * beams + next.size()] = static_cast<std::int32_t>(p * beams + c.row);
          next.push_back(std::move(text));
        }
      }
      std::stable_sort(found_[p].begin(), found_[p].end(),
                       [](const hypothesis& a, const hypothesis& b) { return a.score > b.score; });
      if (found_[p].size() > beams) found_[p].resize(beams);
      // Further tokens only lower log p, so texts whose best case is worse are dropped.
      if (found_[p].size() == beams && !next.empty()) {
        const double best = std::max(scored(next[0].log_p, next[0].tokens.size() + 1),
                                     scored(next[0].log_p, static_cast<std::size_t>(o_.steps)));
        if (best <= found_[p].back().score) next.clear();
      }
      live_[p] = std::move(next);
    }
  }
  /// Whether nothing better can come for any prompt.
  bool done() const {
    return std::all_of(live_.begin(), live_.end(), [](const auto& rows) { return rows.empty(); });
  }
  /// The tokens for the next step, one for each row.
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  /// The row whose text each row continues.
  const std::vector<std::int32_t>& parents() const { return parents_; }
  /// The texts found for a prompt, the best first; before the search is done, those that have ended so far.
  const std::vector<hypothesis>& texts(std::int64_t prompt) const { return found_[static_cast<std::size_t>(prompt)]; }

 private:
  static std::size_t checked(std::int64_t prompts, const beam_options& o) {
    if (prompts < 1 || o.beams < 1 || o.steps < 1) raise<shape_error>(wording::no_beams(prompts, o.beams, o.steps));
    return static_cast<std::size_t>(prompts);
  }
  double scored(double log_p, std::size_t length) const {
    return log_p / std::pow(static_cast<double>(length), o_.length_penalty);
  }
  std::vector<double> log_shares(std::span<const float> given, std::span<const std::int32_t> so_far) const {
    std::vector<float> scores(given.begin(), given.end());
    penalize_repetition(scores, so_far, o_.repetition);
    const double most = static_cast<double>(*std::max_element(scores.begin(), scores.end()));
    double total = 0;
    for (const float s : scores) total += std::exp(static_cast<double>(s) - most);
    std::vector<double> made;
    for (const float s : scores) made.push_back(static_cast<double>(s) - most - std::log(total));
    return made;
  }

  beam_options o_;
  std::int64_t step_ = 0;
  std::vector<std::vector<hypothesis>> live_, found_;
  std::vector<std::int32_t> tokens_{}, parents_{};
};

/// Inside a function: rows of a cache in another order, as `beam_search` wants them: row i of the result is row
/// parents[i]. Communication: if `sequence` is sharded, the rows that come from other devices.
template <class Keys, class Values>
constexpr kv_cache<value> reordered(const kv_cache<Keys, Values>& cache, dim_ref sequence, operand parents) {
  const auto rows = [&](operand x) {
    const called_at user(x, "reordered");
    const dim_ref from = derived_dim<"from ">(x, "reordered", sequence);
    return from.name.empty() ? value{x.from.in, no_node} : gather(rename(x, sequence, from), from, parents);
  };
  return {rows(cache.keys), rows(cache.values)};
}

}}} // namespace cleave::v0::nn
