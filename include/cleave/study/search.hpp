// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/study/study.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cleave { inline namespace v0 {

/// Tensors that get one layout table, and the dims that a search may shard in it.
struct searched_group {
  /// The names of arguments and results, in which `*` stands for any letters.
  std::vector<std::string> tensors{};
  /// Also the values that the function pins with `constrain`.
  bool values = false;
  /// In the order in which dims of a tensor get an axis that two of them have.
  std::vector<std::string> dims{};
  layout_table start{};
};

/// A layout that a search has planned: a table for each group, seconds of a call, and bytes of a device's memory.
struct searched_layout {
  std::vector<layout_table> tables{};
  double seconds = 0;
  double memory = 0;
};

struct search_options {
  /// Bytes of a device's memory. 0: those of the machine.
  double memory = 0;
  /// Up to this many layouts all are planned, which gives the best one; of more, a local search plans some.
  std::int64_t enumerated = 1024;
  /// Local searches that start from random layouts, after the one from the given tables.
  int restarts = 0;
  std::uint64_t seed = 1;
  /// Is called when a better layout is found, with the number of plans so far.
  std::function<void(const searched_layout&, std::int64_t)> progress{};
};

struct search_result {
  searched_layout best{};
  /// `studied_plan::asserts` of the best one; its tables print themselves as C++.
  std::string best_asserts{};
  /// Layouts of which none has less time and less memory than another: from the fastest to the smallest.
  std::vector<searched_layout> front{};
  std::int64_t plans = 0;
  /// Layouts without a plan.
  std::int64_t refused = 0;
  bool exact = false;

  /// The front as a table of a document, one line for each layout.
  std::string table() const {
    std::string text = "| seconds | GiB | layouts |\n|---|---|---|\n";
    for (const searched_layout& l : front) {
      char line[64];
      std::snprintf(line, sizeof line, "| %.4g | %.4g |", l.seconds, l.memory / (1 << 30));
      text += line;
      for (const layout_table& t : l.tables) text.append(" {").append(t.text()).append("}");
      text += " |\n";
    }
    return text;
  }
  /// The front as a picture: seconds to the right, memory upwards, from zero.
  std::string svg() const {
    constexpr double width = 480, height = 320, edge = 40;
    const double most_seconds = front.back().seconds, most_memory = front.front().memory;
    std::string line, dots;
    char text[200];
    for (const searched_layout& l : front) {
      const double x = edge + (width - 2 * edge) * l.seconds / most_seconds;
      const double y = height - edge - (height - 2 * edge) * l.memory / most_memory;
      std::snprintf(text, sizeof text, "%.1f,%.1f ", x, y);
      line += text;
      std::snprintf(text, sizeof text,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>%.4g s, %.4g GiB</title></circle>\n", x, y,
                    l.seconds, l.memory / (1 << 30));
      dots += text;
    }
    std::snprintf(text, sizeof text, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\">\n", width,
                  height);
    std::string all = text;
    std::snprintf(text, sizeof text, "<path fill=\"none\" stroke=\"gray\" d=\"M%.0f %.0fV%.0fH%.0f\"/>\n", edge, edge,
                  height - edge, width - edge);
    all.append(text).append("<polyline fill=\"none\" stroke=\"black\" points=\"").append(line).append("\"/>\n");
    std::snprintf(text, sizeof text,
                  "<text x=\"%.0f\" y=\"%.0f\">%.3g s</text>\n<text x=\"%.0f\" y=\"%.0f\">%.3g GiB</text>\n",
                  width - 2 * edge, height - edge / 2, most_seconds, edge, edge / 2, most_memory / (1 << 30));
    return all.append(dots).append(text).append("</svg>\n");
  }
};

namespace detail {

/// A search by changes of one or two entries: whether an axis shards a dim of a group. The state is a set of entries.
class layout_search {
 public:
  layout_search(const study& s, const std::vector<searched_group>& groups, std::vector<named_size> sizes,
                const machine& m, const search_options& options)
      : study_(s), groups_(groups), sizes_(std::move(sizes)), machine_(m), options_(options),
        limit_(options.memory > 0 ? options.memory : m.memory) {
    const mesh_value& mesh = s.recorded().mesh;
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const std::string& dim : groups[g].dims)
        for (int a = 0; a < mesh.size(); ++a) entries_.push_back({g, dim, std::string(mesh.axes[a].name)});
  }

  search_result run() {
    const state start = given();
    evaluate(start);
    if (entries_.size() < 62 && (std::int64_t{1} << entries_.size()) <= options_.enumerated) {
      found_.exact = true;
      for (std::int64_t word = 0; word < std::int64_t{1} << entries_.size(); ++word) {
        state all(entries_.size());
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = (word >> i & 1) != 0;
        evaluate(all);
      }
    } else {
      climb(start);
      for (int r = 0; r < options_.restarts; ++r) climb(random_state());
    }
    const auto best = std::min_element(known_.begin(), known_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best->second == refused) raise<plan_error>(wording::no_layout_has_a_plan());
    found_.best = layout_with(best->first, best->second);
    found_.best_asserts = planned(best->first).asserts();
    make_front();
    return found_;
  }

 private:
  using state = std::vector<bool>;
  /// Less is better: the bytes above the limit, then the seconds; and the bytes.
  using price = std::tuple<double, double, double>;
  static constexpr price refused{1e300, 1e300, 1e300};
  struct entry {
    std::size_t group;
    std::string dim, axis;
  };

  state given() const {
    state s(entries_.size());
    for (std::size_t i = 0; i < s.size(); ++i)
      for (const layout_table::rule& r : groups_[entries_[i].group].start.rules())
        if (r.dim == entries_[i].dim)
          s[i] = s[i] || std::find(r.axes.begin(), r.axes.end(), entries_[i].axis) != r.axes.end();
    return s;
  }
  state random_state() {
    state s(entries_.size());
    for (std::size_t i = 0; i < s.size(); ++i) {
      random_ = random_ * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX
      s[i] = (random_ >> 62) == 0; // a quarter of the entries
    }
    return s;
  }
  std::vector<layout_table> tables_of(const state& s) const {
    std::vector<layout_table> all;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::string text;
      for (const std::string& dim : groups_[g].dims) {
        std::string axes;
        for (std::size_t i = 0; i < s.size(); ++i)
          if (s[i] && entries_[i].group == g && entries_[i].dim == dim) axes += " / " + entries_[i].axis;
        if (!axes.empty()) text.append(text.empty() ? "" : ", ").append(dim).append(axes);
      }
      all.emplace_back(text);
    }
    return all;
  }
  searched_layout layout_with(const state& s, const price& p) const {
    return {tables_of(s), std::get<1>(p), std::get<2>(p)};
  }
  studied_plan planned(const state& s) const {
    study laid_out = study_;
    const std::vector<layout_table> tables = tables_of(s);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const std::string& pattern : groups_[g].tensors) laid_out.lay_out(pattern, tables[g]);
      if (groups_[g].values) laid_out.constrain(tables[g]);
    }
    policy rule = policy_of(machine_);
    rule.takes_ties = true;
    return laid_out.plan(indexed_span<const named_size>(sizes_.data(), sizes_.size()), rule);
  }
  price evaluate(const state& s) {
    const auto [at, is_new] = known_.try_emplace(s, refused);
    if (!is_new) return at->second;
    ++found_.plans;
    try {
      const studied_plan p = planned(s);
      const double bytes = static_cast<double>(p.memory_of_first_device().total());
      at->second = {limit_ > 0 ? std::max(0.0, bytes - limit_) : 0, p.predict(machine_).seconds, bytes};
    } catch (const plan_error&) {
      ++found_.refused;
    }
    if (options_.progress && at->second < best_) {
      options_.progress(layout_with(s, at->second), found_.plans);
      best_ = at->second;
    }
    return at->second;
  }
  /// Takes changes of one entry while one is better, then of two.
  void climb(state s) {
    price here = evaluate(s);
    for (bool better = true; better;) {
      better = false;
      for (std::size_t i = 0; i < s.size(); ++i) better = try_change(s, here, i, i) || better;
      for (std::size_t i = 0; i < s.size() && !better; ++i)
        for (std::size_t j = i + 1; j < s.size() && !better; ++j) better = try_change(s, here, i, j);
    }
  }
  bool try_change(state& s, price& here, std::size_t i, std::size_t j) {
    state other = s;
    other[i] = !other[i];
    if (j != i) other[j] = !other[j];
    const price there = evaluate(other);
    if (!(there < here)) return false;
    s = std::move(other);
    here = there;
    return true;
  }
  void make_front() {
    std::vector<std::pair<price, const state*>> all;
    for (const auto& [s, p] : known_)
      if (p != refused) all.push_back({{0, std::get<1>(p), std::get<2>(p)}, &s});
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    double least = 1e300;
    for (const auto& [p, s] : all)
      if (std::get<2>(p) < least) {
        least = std::get<2>(p);
        found_.front.push_back(layout_with(*s, p));
      }
  }

  const study& study_;
  const std::vector<searched_group>& groups_;
  std::vector<named_size> sizes_;
  const machine& machine_;
  const search_options& options_;
  double limit_;
  std::vector<entry> entries_;
  std::map<state, price> known_;
  search_result found_;
  price best_ = refused;
  std::uint64_t random_ = options_.seed;
};

} // namespace detail

/// Searches the layouts of groups of tensors for the least predicted time on a machine, among those that fit its
/// memory; if none fits, for the least memory. Small spaces are enumerated. In large ones a local search changes one
/// or two entries of the tables at a time. Memory is that of the first device. Throws plan_error if no layout has a
/// plan.
inline search_result search(const study& s, const std::vector<searched_group>& groups, std::vector<named_size> sizes,
                            const machine& m, const search_options& options = {}) {
  return detail::layout_search(s, groups, std::move(sizes), m, options).run();
}

}} // namespace cleave::v0
