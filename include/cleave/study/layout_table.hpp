// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>
#include <cleave/study/errors.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace cleave { inline namespace v0 {

/// Layout rules as data: the axes that shard each dim, for all tensors of a kind. `nn::layout_rules` is the same as a
/// type; if two dims of a tensor have rules for the same axis, the first rule wins, as there.
class layout_table {
 public:
  struct rule {
    std::string dim;
    /// From the major axis to the minor one.
    std::vector<std::string> axes;
  };

  layout_table() = default;
  /// Reads the rules as a C++ program has them: `layout_table("heads / Y, hidden / Y, embed / X")`. Throws
  /// layout_error if the text is malformed, or if it gives a dim two rules.
  explicit layout_table(std::string_view text) {
    if (trimmed(text).empty()) return;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      add(text.substr(begin, end - begin), text);
      begin = end + 1;
    }
  }
  /// The rules of a type: `layout_table(nn::layout_rules{mesh, heads / Y})`.
  template <class Rules>
    requires requires { Rules::list(); }
  explicit layout_table(const Rules&) {
    for (const placement& p : Rules::list()) {
      rule r{std::string(p.dim.name), {}};
      for (std::string_view axis : p.axes) r.axes.emplace_back(axis);
      rules_.push_back(std::move(r));
    }
  }

  const std::vector<rule>& rules() const { return rules_; }
  /// The rules as text that the constructor reads.
  std::string text() const {
    std::string all;
    for (const rule& r : rules_) {
      all.append(all.empty() ? "" : ", ").append(r.dim);
      for (const std::string& axis : r.axes) all.append(" / ").append(axis);
    }
    return all;
  }
  /// The rules as C++ to paste into a program whose mesh, dims and axes have these names.
  std::string cpp(std::string_view mesh = "mesh") const {
    return "cleave::nn::layout_rules{" + std::string(mesh) + (rules_.empty() ? "" : ", ") + text() + "}";
  }

  /// The layout of a tensor with these dims. Throws layout_error if the mesh lacks an axis.
  layout of(const tensor_type& type, const dim_table& dims, const mesh_value& mesh) const {
    layout l;
    unsigned used = 0;
    for (const rule& r : rules_)
      for (int i = 0; i < type.rank; ++i) {
        if (dims[type[i]].name != r.dim) continue;
        axis_list axes;
        for (const std::string& name : r.axes) {
          const int axis = mesh.find(name);
          if (axis < 0) raise<layout_error>(wording::rule_for_unknown_axis(r.dim, name));
          if ((used >> axis & 1u) != 0) continue;
          used |= 1u << axis;
          axes.push_back(axis);
        }
        l.set(i, axes);
      }
    return l;
  }

  friend bool operator==(const layout_table& a, const layout_table& b) { return a.text() == b.text(); }

 private:
  static std::string_view trimmed(std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
  }
  void add(std::string_view one, std::string_view all) {
    rule r;
    for (std::size_t begin = 0, part = 0; begin <= one.size(); ++part) {
      const std::size_t end = std::min(one.find('/', begin), one.size());
      const std::string_view name = trimmed(one.substr(begin, end - begin));
      if (name.empty() || name.find_first_of(" \t\n{}()") != name.npos)
        raise<layout_error>(wording::rule_malformed(all));
      if (part == 0) r.dim = name;
      else if (std::find(r.axes.begin(), r.axes.end(), name) == r.axes.end()) r.axes.emplace_back(name);
      begin = end + 1;
    }
    for (const rule& other : rules_)
      if (other.dim == r.dim) raise<layout_error>(wording::two_rules_for_dim(r.dim));
    rules_.push_back(std::move(r));
  }

  std::vector<rule> rules_;
};

}} // namespace cleave::v0
