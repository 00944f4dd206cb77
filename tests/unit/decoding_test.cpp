// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The choice of tokens, compared with numpy (tests/reference) and with all texts that there are.
#include "../reference/decoding_numpy.hpp"

#include <cleave/nn/decoding.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace CLEAVE_SOURCE {

namespace nn = cleave::nn;
using tokens = std::vector<std::int32_t>;

constexpr std::int32_t words = 5;

// A model that is a formula, as in tests/reference/decoding_numpy.py.
std::vector<float> scores_after(const tokens& text, double offset = 0) {
  double so_far = 0;
  for (std::size_t i = 0; i < text.size(); ++i) so_far += static_cast<double>(i + 1) * (text[i] + 1);
  std::vector<float> made;
  for (int w = 0; w < words; ++w) made.push_back(static_cast<float>(2 * std::sin(1.3 * w + 0.7 * so_far + offset)));
  return made;
}

TEST(Decoding, RepetitionIsPenalisedAsInNumpy) {
  std::vector<float> scores = scores_after({3, 1});
  nn::penalize_repetition(scores, tokens{3, 1, 1, 9, -1}, 1.7);
  ASSERT_EQ(scores.size(), recorded_texts::penalised.size());
  for (std::size_t i = 0; i < scores.size(); ++i)
    EXPECT_NEAR(static_cast<double>(scores[i]), recorded_texts::penalised[i], 1e-6);
}

TEST(Decoding, RepetitionChangesTheChoice) {
  std::mt19937_64 random(1);
  const std::vector<float> scores{1.0F, 3.0F, 2.5F, -1.0F};
  nn::sampling how{};
  EXPECT_EQ(how.choose(scores, random), 1);
  EXPECT_EQ(how.choose(scores, random, tokens{1}), 1);
  how.repetition = 1.5;
  EXPECT_EQ(how.choose(scores, random), 1);
  EXPECT_EQ(how.choose(scores, random, tokens{1}), 2);
  EXPECT_EQ(how.choose(scores, random, tokens{1, 2}), 1);
}

TEST(Decoding, SamplesAreAsLikelyAsTheirScoresSay) {
  std::mt19937_64 random(7);
  const std::vector<float> scores{std::log(0.1F), std::log(0.5F), std::log(0.4F)};
  const auto counted = [&](const nn::sampling& how) {
    std::vector<double> shares(3);
    for (int i = 0; i < 20000; ++i) shares[static_cast<std::size_t>(how.choose(scores, random))] += 1.0 / 20000;
    return shares;
  };
  EXPECT_NEAR(counted({.temperature = 1})[1], 0.5, 0.02);
  EXPECT_NEAR(counted({.temperature = 0.5})[1], 25.0 / 42, 0.02);
  EXPECT_NEAR(counted({.temperature = 1, .top_k = 2})[2], 4.0 / 9, 0.02);
  EXPECT_EQ(counted({.temperature = 1, .top_p = 0.8})[0], 0);
  EXPECT_NEAR(counted({.temperature = 1, .top_p = 0.4})[1], 1, 1e-9);
}

// The choice as it is defined: the tokens sorted, cut off by number and by share, and one of them drawn.
std::int32_t chosen_of_all(const nn::sampling& how, const std::vector<float>& scores, std::mt19937_64& random) {
  std::vector<std::pair<double, std::int32_t>> all;
  for (const float s : scores)
    all.emplace_back(-std::exp(static_cast<double>(s) / how.temperature), static_cast<std::int32_t>(all.size()));
  std::sort(all.begin(), all.end());
  if (how.top_k > 0) all.resize(std::min(all.size(), static_cast<std::size_t>(how.top_k)));
  const auto total = [&] {
    return std::accumulate(all.begin(), all.end(), 0.0, [](double sum, const auto& a) { return sum - a.first; });
  };
  std::size_t n = 0;
  for (double kept = 0, most = how.top_p * total(); n < all.size() && kept < most; ++n) kept -= all[n].first;
  all.resize(std::max(n, std::size_t{1}));
  double at = static_cast<double>(random() >> 11) * 0x1p-53 * total();
  for (const auto& [share, token] : all)
    if ((at += share) < 0) return token;
  return all.back().second;
}
TEST(Decoding, ChoosesAmongTheLikeliest) {
  std::mt19937_64 random(3);
  for (const nn::sampling how : {nn::sampling{.temperature = 1},
                                 {.temperature = 0.7, .top_k = 5},
                                 {.temperature = 1.5, .top_p = 0.9},
                                 {.temperature = 2, .top_k = 300, .top_p = 0.4}})
    for (int i = 0; i < 100; ++i) {
      std::vector<float> scores;
      // Several are equal.
      for (int w = 0; w < 200; ++w) scores.push_back(0.25F * static_cast<float>(random() % 32));
      std::mt19937_64 same = random;
      const std::int32_t token = how.choose(scores, random);
      EXPECT_EQ(token, chosen_of_all(how, scores, same)) << how.temperature << " " << i;
      EXPECT_EQ(random, same);
    }
}

// Searches for texts after prompts, whose models are shifted against each other.
std::vector<std::vector<nn::hypothesis>> searched(const nn::beam_options& o, const std::vector<double>& offsets) {
  nn::beam_search search(std::ssize(offsets), o);
  std::vector<tokens> rows(offsets.size() * static_cast<std::size_t>(o.beams));
  while (!search.done()) {
    std::vector<float> scores;
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (const float s : scores_after(rows[r], offsets[r / static_cast<std::size_t>(o.beams)])) scores.push_back(s);
    search.advance(scores);
    const std::vector<tokens> before = rows;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      rows[r] = before[static_cast<std::size_t>(search.parents()[r])];
      rows[r].push_back(search.tokens()[r]);
    }
  }
  std::vector<std::vector<nn::hypothesis>> found;
  for (std::int64_t p = 0; p < std::ssize(offsets); ++p) found.push_back(search.texts(p));
  return found;
}

void expect_texts(const std::vector<nn::hypothesis>& found, const std::vector<double>& want) {
  std::vector<double> have;
  for (const nn::hypothesis& t : found) {
    have.push_back(t.score);
    have.push_back(static_cast<double>(t.tokens.size()));
    have.insert(have.end(), t.tokens.begin(), t.tokens.end());
  }
  ASSERT_EQ(have.size(), want.size());
  for (std::size_t i = 0; i < have.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-6) << i;
}
TEST(Decoding, BeamsAreThoseOfNumpy) {
  const auto one = [](const nn::beam_options& o) { return searched(o, {0})[0]; };
  expect_texts(one({2, 4, 0, 0, 1}), recorded_texts::plain);
  expect_texts(one({3, 5, 0, 1, 1}), recorded_texts::of_lengths);
  expect_texts(one({3, 4, 0, 0.5, 1.4}), recorded_texts::without_repetition);
}

// Every text of at most so many tokens, which token `end` ends.
void for_each_text(tokens text, double log_p, std::int64_t steps, std::int32_t end, double offset,
                   std::vector<std::pair<double, tokens>>& all) {
  if (std::ssize(text) == steps || (!text.empty() && text.back() == end)) {
    all.emplace_back(log_p, text);
    return;
  }
  const std::vector<float> scores = scores_after(text, offset);
  double total = 0;
  for (const float s : scores) total += std::exp(static_cast<double>(s));
  for (std::int32_t w = 0; w < words; ++w) {
    tokens longer = text;
    longer.push_back(w);
    for_each_text(longer, log_p + static_cast<double>(scores[static_cast<std::size_t>(w)]) - std::log(total), steps,
                  end, offset, all);
  }
}
TEST(Decoding, EnoughBeamsFindTheLikeliestOfAllTexts) {
  for (const std::int32_t end : {-1, 0, 3})
    for (const double penalty : {0.0, 1.0, -0.5}) {
      const std::vector<double> offsets{0, 1.1, 2.3};
      const auto found = searched({125, 4, end, penalty, 1}, offsets);
      for (std::size_t p = 0; p < offsets.size(); ++p) {
        std::vector<std::pair<double, tokens>> all;
        for_each_text({}, 0, 4, end, offsets[p], all);
        for (auto& [score, text] : all) score /= std::pow(static_cast<double>(text.size()), penalty);
        std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
        ASSERT_EQ(found[p].size(), 125U);
        for (std::size_t i = 0; i < 20; ++i) {
          EXPECT_EQ(found[p][i].tokens, all[i].second) << end << " " << penalty << " " << p << " " << i;
          EXPECT_NEAR(found[p][i].score, all[i].first, 1e-6);
        }
      }
    }
}
TEST(Decoding, BeamsThatDoNotFit) {
  EXPECT_THROW(nn::beam_search(0, {}), cleave::shape_error);
  EXPECT_THROW(nn::beam_search(1, {.beams = 0}), cleave::shape_error);
  nn::beam_search search(2, {.beams = 2});
  EXPECT_THROW(search.advance(std::vector<float>(7)), cleave::shape_error);
}

TEST(Decoding, TextsEndBeforeStopWords) {
  nn::text_stream<> text({"END", "\n\n", ""});
  EXPECT_EQ(text.push("one "), "one ");
  EXPECT_EQ(text.push("EN"), "");  // may be the beginning of END
  EXPECT_EQ(text.push("EMY E"), "ENEMY ");
  EXPECT_EQ(text.push("\n"), "E");
  EXPECT_FALSE(text.ended());
  EXPECT_EQ(text.push("\nEND more"), "");  // the first of two
  EXPECT_TRUE(text.ended());
  EXPECT_EQ(text.push("more"), "");
  EXPECT_EQ(text.rest(), "");

  nn::text_stream<> whole({"abc"});
  EXPECT_EQ(whole.push("xabab"), "xab");
  EXPECT_EQ(whole.rest(), "ab");
  EXPECT_TRUE(whole.ended());

  nn::text_stream<tokens> ids({{7, 8}, {2}});
  EXPECT_EQ(ids.push({1, 7}), tokens{1});
  EXPECT_EQ(ids.push({7}), tokens{7});
  EXPECT_EQ(ids.push({8, 9}), tokens{});
  EXPECT_TRUE(ids.ended());
}
// Whatever the pieces are, the text ends before the stop word that is complete first.
TEST(Decoding, PiecesDoNotMatter) {
  std::mt19937 random(3);
  for (int run = 0; run < 500; ++run) {
    std::string whole, shown;
    for (int i = 0; i < 30; ++i) whole.push_back("ab"[random() % 2]);
    const std::vector<std::string> stops{"abbab", "aaaa", "bbbbb", "bba", "babba"}; // some inside of others
    std::size_t complete = whole.size() + 1, end = whole.size();
    for (const std::string& stop : stops)
      if (const std::size_t at = whole.find(stop); at != std::string::npos)
        if (const std::size_t behind = at + stop.size(); behind < complete || (behind == complete && at < end)) {
          complete = behind;
          end = at;
        }
    nn::text_stream<> text(stops);
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t n = 1 + random() % 4;
      shown += text.push(whole.substr(at, n));
      at += n;
    }
    EXPECT_EQ(text.ended(), end < whole.size());
    EXPECT_EQ(shown + text.rest(), whole.substr(0, end));
  }
}

} // namespace CLEAVE_SOURCE
