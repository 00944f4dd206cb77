// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/study/study.hpp>

#include <algorithm>
#include <cmath>
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

/// One form of a searched function: with layers that are computed again, for example, or in 4 stages of 8 microbatches.
struct searched_variant {
  std::string name{};
  study of;
  /// Sizes of its own, in addition to those of all variants: of its stages, or of axes that it does not leave open.
  std::vector<named_size> sizes{};
};

/// A planned layout: a table for each group, seconds of a call, and bytes of a device's memory.
struct searched_layout {
  std::vector<layout_table> tables{};
  double seconds = 0;
  double memory = 0;
  std::string variant{};
  /// The sizes of the axes.
  std::vector<named_size> mesh{};

  /// The sizes of the axes as text: `data = 2, model = 4`.
  std::string mesh_text() const {
    std::string text;
    for (const named_size& n : mesh)
      text.append(text.empty() ? "" : ", ").append(n.name).append(" = ").append(std::to_string(n.size));
    return text;
  }
};

struct search_options {
  /// Bytes of a device's memory. 0: those of the machine.
  double memory = 0;
  /// Axes whose size is given nowhere get all sizes with which the mesh has so many devices. 0: none does.
  std::int64_t devices = 0;
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
  /// Layouts of which none has less time and less memory than another: from the fastest to the smallest.
  std::vector<searched_layout> front{};
  std::int64_t plans = 0;
  /// Layouts without a plan.
  std::int64_t refused = 0;
  bool exact = false;
  /// Bytes of a device's memory. 0: they are not limited.
  double limit = 0;
  /// The names of each group, the sizes of the best one, and `studied_plan::asserts` of it.
  std::vector<std::string> groups{};
  std::vector<named_size> sizes{};
  std::string asserts{};

  /// The best one as C++ to paste, where the names stand for the user's: its tables, its grid, and its plan with
  /// assertions about the collectives and bytes.
  std::string cpp(std::string_view function = "f", std::string_view signature = "signature",
                  std::string_view machine = "machine") const {
    char line[64];
    std::snprintf(line, sizeof line, "%.4g s, %.4g GiB", best.seconds, best.memory / (1 << 30));
    std::string text = "// " + best.variant + (best.variant.empty() ? "" : ": ") + line;
    std::snprintf(line, sizeof line, "; no layout that was planned fits %.4g GiB", limit / (1 << 30));
    text.append(limit > 0 && best.memory > limit ? line : "").append("\n");
    for (std::size_t g = 0; g < groups.size(); ++g)
      text += "constexpr auto rules_" + std::to_string(g) + " = " + best.tables[g].cpp() + "; // " + groups[g] + "\n";
    text.append("constexpr auto plan = cleave::plan<").append(signature).append(">(").append(function);
    text.append(", cleave::for_machine<").append(machine).append(", cleave::ties::broken>{}");
    std::size_t column = 120;
    for (const named_size& n : sizes) {
      const std::string one = "cleave::expect<" + std::string(n.name) + ", " + std::to_string(n.size) + ">{}";
      if (column += one.size() + 2; column > 100) text.append(",\n    "), column = 4 + one.size();
      else text.append(", ");
      text.append(one);
    }
    text.append(");\n").append(asserts);
    return text.append("const cleave::grid grid(mesh, communicator, {").append(best.mesh_text()).append("});\n");
  }
  /// The front as a table of a document, one line for each layout.
  std::string table() const {
    std::string text = "| seconds | GiB | variant | mesh | layouts |\n|---|---|---|---|---|\n";
    for (const searched_layout& l : front) {
      char line[64];
      std::snprintf(line, sizeof line, "| %.4g | %.4g | ", l.seconds, l.memory / (1 << 30));
      text.append(line).append(l.variant).append(" | ").append(l.mesh_text()).append(" |");
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

/// A search by changes of one or two kinds: whether an axis shards a dim of a group, and the variant with the shape of
/// the mesh.
class layout_search {
 public:
  layout_search(const std::vector<searched_variant>& variants, const std::vector<searched_group>& groups,
                const std::vector<named_size>& sizes, const machine& m, const search_options& options)
      : variants_(variants), groups_(groups), machine_(m), options_(options),
        limit_(options.memory > 0 ? options.memory : m.memory) {
    for (std::size_t v = 0; v < variants.size(); ++v) add_forms(v, sizes);
    if (forms_.empty()) raise<layout_error>(wording::no_mesh_of_devices(options.devices));
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const std::string& dim : groups[g].dims)
        for (const searched_variant& v : variants)
          for (const axis_info& axis : v.of.recorded().mesh.axes) {
            const auto same = [&](const entry& e) { return e.group == g && e.dim == dim && e.axis == axis.name; };
            if (std::none_of(entries_.begin(), entries_.end(), same)) entries_.push_back({g, dim, axis.name});
          }
  }

  search_result run() {
    state start{0, std::vector<bool>(entries_.size())};
    for (std::size_t i = 0; i < entries_.size(); ++i)
      for (const layout_table::rule& r : groups_[entries_[i].group].start.rules())
        if (r.dim == entries_[i].dim)
          start.on[i] = start.on[i] || std::find(r.axes.begin(), r.axes.end(), entries_[i].axis) != r.axes.end();
    found_.limit = limit_;
    evaluate(start);
    if (found_.exact = layouts() <= static_cast<double>(options_.enumerated); found_.exact) {
      for (std::size_t f = 0; f < forms_.size(); ++f) enumerate({f, std::vector<bool>(entries_.size())}, 0);
    } else {
      climb(start);
      for (int r = 0; r < options_.restarts; ++r) climb(random_state());
    }
    while (!front_is_exact()) {
    }
    const auto fits = [&](const auto& l) { return limit_ <= 0 || known_[*l].bytes <= limit_; };
    const auto best = std::find_if(front_.begin(), front_.end(), fits);
    const state& s = best == front_.end() ? *front_.back() : **best;
    for (const state* l : front_) found_.front.push_back(layout_of(*l, known_[*l]));
    found_.best = layout_of(s, known_[s]);
    found_.sizes = forms_[s.form].sizes;
    found_.asserts = planned(s).asserts();
    for (const searched_group& g : groups_) {
      std::string names = g.values ? "pinned values" : "";
      for (const std::string& name : g.tensors) names.append(names.empty() ? "" : ", ").append(name);
      found_.groups.push_back(names);
    }
    return found_;
  }

 private:
  /// A variant and the sizes with which it is planned.
  struct form {
    std::size_t variant;
    std::vector<named_size> sizes;
  };
  struct entry {
    std::size_t group;
    std::string dim;
    std::string_view axis;
  };
  /// The entries that are set. Those without effect are not set where states are compared.
  struct state {
    std::size_t form;
    std::vector<bool> on;
    auto operator<=>(const state&) const = default;
  };
  struct price {
    double seconds = 1e300, bytes = 1e300;
    /// Whether the bytes are those of the device that needs most, instead of the first one.
    bool of_all = false;
  };

  const study& study_of(std::size_t form) const { return variants_[forms_[form].variant].of; }
  static std::int64_t size_of_axis(const std::vector<named_size>& sizes, const axis_info& axis) {
    return look_up_size({sizes.data(), sizes.size()}, &named_size::is_of_axis, axis.name, axis.size).size;
  }
  void add_forms(std::size_t variant, const std::vector<named_size>& sizes) {
    form f{variant, sizes};
    f.sizes.insert(f.sizes.end(), variants_[variant].sizes.begin(), variants_[variant].sizes.end());
    if (options_.devices == 0) return forms_.push_back(f);
    std::vector<std::string_view> open;
    std::int64_t given = 1;
    for (const axis_info& axis : variants_[variant].of.recorded().mesh.axes) {
      if (const std::int64_t n = size_of_axis(f.sizes, axis); n != dynamic) given *= n;
      else open.push_back(axis.name);
    }
    if (given > 0 && options_.devices % given == 0) add_shapes(f, open, options_.devices / given);
  }
  /// With all sizes of the open axes whose product is `devices`.
  void add_shapes(form& f, const std::vector<std::string_view>& open, std::int64_t devices, std::size_t done = 0) {
    if (done == open.size()) {
      if (devices == 1) forms_.push_back(f);
      return;
    }
    for (std::int64_t n = done + 1 == open.size() ? devices : 1; n <= devices; ++n) {
      if (devices % n != 0) continue;
      f.sizes.push_back({open[done], n, sized_by::axis});
      add_shapes(f, open, devices / n, done + 1);
      f.sizes.pop_back();
    }
  }
  /// Whether an entry has an effect: a form has the dim, and more than one device along the axis.
  bool matters(std::size_t form, const entry& e) const {
    const graph& g = study_of(form).recorded();
    const int axis = g.mesh.find(e.axis);
    return axis >= 0 && g.find_dim(e.dim) >= 0 && size_of_axis(forms_[form].sizes, g.mesh.axes[axis]) != 1;
  }
  /// The number of all layouts of all forms.
  double layouts() const {
    double all = 0;
    for (std::size_t f = 0; f < forms_.size(); ++f) {
      const auto matter = [&](const entry& e) { return matters(f, e); };
      all += std::exp2(static_cast<double>(std::count_if(entries_.begin(), entries_.end(), matter)));
    }
    return all;
  }
  void enumerate(state s, std::size_t i) {
    if (i == entries_.size()) return void(evaluate(s));
    enumerate(s, i + 1);
    if (!matters(s.form, entries_[i])) return;
    s.on[i] = true;
    enumerate(s, i + 1);
  }
  std::uint64_t random_word() {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX
    return random_ >> 33;
  }
  state random_state() {
    state s{random_word() % forms_.size(), std::vector<bool>(entries_.size())};
    for (std::size_t i = 0; i < entries_.size(); ++i) s.on[i] = random_word() % 4 == 0;
    return s;
  }
  std::vector<layout_table> tables_of(const state& s) const {
    std::vector<layout_table> all;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::string text;
      for (const std::string& dim : groups_[g].dims) {
        std::string axes;
        for (std::size_t i = 0; i < entries_.size(); ++i)
          if (s.on[i] && entries_[i].group == g && entries_[i].dim == dim) axes.append(" / ").append(entries_[i].axis);
        if (!axes.empty()) text.append(text.empty() ? "" : ", ").append(dim).append(axes);
      }
      all.emplace_back(text);
    }
    return all;
  }
  searched_layout layout_of(const state& s, const price& p) const {
    searched_layout l{tables_of(s), p.seconds, p.bytes, variants_[forms_[s.form].variant].name, {}};
    for (const axis_info& axis : study_of(s.form).recorded().mesh.axes)
      if (const std::int64_t n = size_of_axis(forms_[s.form].sizes, axis); n != dynamic)
        l.mesh.push_back({axis.name, n, sized_by::axis});
    return l;
  }
  studied_plan planned(const state& s) const {
    study laid_out = study_of(s.form);
    const std::vector<layout_table> tables = tables_of(s);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const std::string& pattern : groups_[g].tensors) laid_out.lay_out(pattern, tables[g]);
      if (groups_[g].values) laid_out.constrain(tables[g]);
    }
    policy rule = policy_of(machine_);
    rule.takes_ties = true;
    const std::vector<named_size>& sizes = forms_[s.form].sizes;
    return laid_out.plan(indexed_span<const named_size>(sizes.data(), sizes.size()), rule);
  }
  /// Fewer bytes above the limit are better, then less time, then fewer bytes.
  bool is_better(const price& a, const price& b) const {
    const auto above = [&](const price& p) { return limit_ > 0 ? std::max(0.0, p.bytes - limit_) : 0; };
    return std::tuple(above(a), a.seconds, a.bytes) < std::tuple(above(b), b.seconds, b.bytes);
  }
  const price& evaluate(state s) {
    for (std::size_t i = 0; i < entries_.size(); ++i) s.on[i] = s.on[i] && matters(s.form, entries_[i]);
    const auto [at, is_new] = known_.try_emplace(s);
    price& p = at->second;
    if (!is_new) return p;
    ++found_.plans;
    try {
      const studied_plan plan = planned(s);
      p = {plan.predict(machine_).seconds, static_cast<double>(plan.memory_of_first_device().total())};
    } catch (const plan_error&) {
      ++found_.refused;
    }
    if (options_.progress && is_better(p, best_)) options_.progress(layout_of(s, best_ = p), found_.plans);
    return p;
  }
  /// Takes changes of one kind while one is better, then of two.
  void climb(state s) {
    price here = evaluate(s);
    const std::size_t changes = entries_.size() + forms_.size();
    for (bool better = true; better;) {
      better = false;
      for (std::size_t i = 0; i < changes; ++i) better = try_change(s, here, i, i) || better;
      for (std::size_t i = 0; i < entries_.size() && !better; ++i)
        for (std::size_t j = i + 1; j < changes && !better; ++j) better = try_change(s, here, i, j);
    }
  }
  bool try_change(state& s, price& here, std::size_t i, std::size_t j) {
    state other = s;
    for (const std::size_t change : {i, j}) {
      if (change >= entries_.size()) other.form = change - entries_.size();
      else if (change == i || j != i) other.on[change] = !s.on[change];
    }
    const price& there = evaluate(other);
    if (!is_better(there, here)) return false;
    s = std::move(other);
    here = there;
    return true;
  }
  /// Finds the front of the known layouts. False if the memory of all devices makes a layout of it larger: then it
  /// changes.
  bool front_is_exact() {
    std::vector<std::pair<price*, const state*>> all;
    for (auto& [s, p] : known_)
      if (p.seconds < 1e300) all.push_back({&p, &s});
    if (all.empty()) raise<plan_error>(wording::no_layout_has_a_plan());
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.first->seconds, a.first->bytes) < std::tuple(b.first->seconds, b.first->bytes);
    });
    front_.clear();
    bool exact = true;
    for (double least = 1e300; const auto& [p, s] : all) {
      if (p->bytes >= least) continue;
      if (!p->of_all) {
        const auto bytes = static_cast<double>(planned(*s).memory().total());
        exact = exact && bytes == p->bytes;
        p->bytes = bytes, p->of_all = true;
      }
      least = std::min(least, p->bytes);
      front_.push_back(s);
    }
    return exact;
  }

  const std::vector<searched_variant>& variants_;
  const std::vector<searched_group>& groups_;
  const machine& machine_;
  const search_options& options_;
  double limit_;
  std::vector<form> forms_;
  std::vector<entry> entries_;
  std::map<state, price> known_;
  std::vector<const state*> front_;
  search_result found_;
  price best_;
  std::uint64_t random_ = options_.seed;
};

} // namespace detail

/// Searches variants of a function, shapes of the mesh, and the layouts of groups of tensors for the least predicted
/// time on a machine, among those that fit its memory; if none fits, for the least memory. Small spaces are enumerated.
/// In large ones a local search changes the variant and the shape, or one or two entries of the tables, at a time.
/// Throws plan_error if no layout has a plan, layout_error if no mesh has so many devices.
inline search_result search(const std::vector<searched_variant>& variants, const std::vector<searched_group>& groups,
                            const std::vector<named_size>& sizes, const machine& m,
                            const search_options& options = {}) {
  return detail::layout_search(variants, groups, sizes, m, options).run();
}
/// The same for one function.
inline search_result search(const study& s, const std::vector<searched_group>& groups,
                            const std::vector<named_size>& sizes, const machine& m,
                            const search_options& options = {}) {
  return search(std::vector<searched_variant>{{{}, s, {}}}, groups, sizes, m, options);
}

}} // namespace cleave::v0
