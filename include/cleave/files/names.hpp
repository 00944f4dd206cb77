// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/files/stored.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cleave { inline namespace v0 { namespace io {

/// Which array of a file a member is: `{"layers.*.kernel", "encoder.layer.{i}.*.weight", "(heads head) embed"}`.
///
/// `member` is a name such as `layers.query.kernel`; each `*` stands for any text, and the first `*` of `stored` for
/// the same as the first one of `member`. The first rule that fits a member holds. A member
/// without a rule has its own name.
///
/// `{i}` in `stored` is an index of the dim of the tensor that `dims` does not have: the arrays `encoder.layer.0.`...,
/// `encoder.layer.1.`... are stacked along it. Without `dims` it is the first dim of the tensor.
///
/// `dims` are the dims along the axes of the array. `embed heads head` are three axes, `(heads head) embed` two: the
/// first is a merge of `heads` and `head`. `0:3` is the first of three parts along an axis, or of a merge:
/// `embed (0:3 heads head)` is the first third of the second axis. Without `dims` the array has the dims of the tensor,
/// in its order.
struct name_rule {
  std::string member{}, stored{}, dims{};
};
/// Rules for all members, of which the first one that fits holds.
using name_table = std::vector<name_rule>;

namespace detail {

/// Whether a text fits a pattern; `found` are the texts of its stars.
inline bool fits(std::string_view pattern, std::string_view text, std::vector<std::string>& found) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  pattern.remove_prefix(star + 1);
  text.remove_prefix(star);
  for (std::size_t n = 0; n <= text.size(); ++n) { // the shortest text that fits
    found.emplace_back(text.substr(0, n));
    if (fits(pattern, text.substr(n), found)) return true;
    found.pop_back();
  }
  return false;
}
inline bool fits_any(const std::vector<std::string>& patterns, std::string_view text) {
  std::vector<std::string> found;
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return fits(p, text, found); });
}

/// A factor of an axis of an array: a dim of the tensor, or one of several parts.
struct axis_factor {
  int dim = -1;
  std::int64_t part = 0, parts = 1;
};
using axis_factors = std::vector<axis_factor>;

/// The part of an array that a member is, such as (0:3 embed): its number, and of how many, along the axes with parts.
struct array_part {
  std::vector<std::int64_t> number{}, of{};

  explicit array_part(const std::vector<axis_factors>& axes) {
    for (const axis_factors& axis : axes)
      for (const axis_factor& f : axis)
        if (f.dim < 0) number.push_back(f.part), of.push_back(f.parts);
  }
};
/// Whether these are different parts of one division of an array.
inline bool divide_an_array(const std::vector<array_part>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (parts[i].of != parts[j].of || parts[i].number == parts[j].number) return false;
  return true;
}

/// A member as the formats see it.
struct member_type {
  std::string name{};
  cleave::element element = cleave::element::none;
  shape extents{};
  std::vector<std::string_view> dims{};
};

/// The rule of a table for a member.
class source_of_member {
 public:
  source_of_member(const member_type& m, const name_table& table) : member_(m), name_(m.name) {
    for (const name_rule& r : table) {
      std::vector<std::string> found;
      if (!fits(r.member, m.name, found)) continue;
      apply(r, found);
      return;
    }
  }
  /// The dim along which arrays are stacked, or -1.
  int stacked() const { return stacked_; }
  /// Whether the rule lists the dims of the axes.
  bool gives_axes() const { return !axes_.empty(); }
  /// The array, or that of an index of the dim along which arrays are stacked.
  std::string name(std::int64_t index) const {
    return stacked_ < 0 ? name_ : name_.substr(0, mark_) + std::to_string(index) + name_.substr(mark_ + 3);
  }
  /// The factors of the axes of an array that may know its own dims.
  std::vector<axis_factors> axes(const std::vector<std::string>& known = {}) const {
    if (!axes_.empty()) return axes_;
    std::vector<axis_factors> by_name, by_position;
    for (const std::string& d : known)
      if (const int at = find(d); at >= 0 && at != stacked_) by_name.push_back({{at}});
    for (int d = 0; d < member_.extents.rank; ++d)
      if (d != stacked_) by_position.push_back({{d}});
    return by_name.size() == by_position.size() ? by_name : by_position;
  }
  std::int64_t extent(const axis_factors& axis) const {
    std::int64_t n = 1;
    for (const axis_factor& f : axis) n *= f.dim < 0 ? f.parts : member_.extents[f.dim];
    return n;
  }
  /// The words of a rule for an axis.
  std::string words(const axis_factors& axis) const {
    std::string text;
    for (const axis_factor& f : axis)
      text += (text.empty() ? "" : " ") + (f.dim < 0 ? std::to_string(f.part) + ":" + std::to_string(f.parts)
                                                     : std::string(member_.dims[as_size(f.dim)]));
    return axis.size() == 1 ? text : "(" + text + ")";
  }

 private:
  [[noreturn, gnu::cold]] void refuse(const std::string& why) const {
    raise<layout_error>(wording::name_rule(member_.name, why));
  }
  int find(std::string_view dim) const {
    const auto at = std::find(member_.dims.begin(), member_.dims.end(), dim);
    return at == member_.dims.end() ? -1 : as_int(at - member_.dims.begin());
  }
  void apply(const name_rule& r, const std::vector<std::string>& found) {
    name_.clear();
    std::size_t stars = 0;
    for (const char c : r.stored) {
      if (c != '*') name_ += c;
      else if (stars == found.size()) refuse("'" + r.stored + "' has more stars than '" + r.member + "'");
      else name_ += found[stars++];
    }
    mark_ = name_.find("{i}");
    const bool stacks = mark_ != std::string::npos;
    std::vector<bool> seen(member_.dims.size());
    if (!r.dims.empty()) read_dims(r.dims, seen);
    else if (stacks && !seen.empty()) std::fill(seen.begin() + 1, seen.end(), true);
    else std::fill(seen.begin(), seen.end(), true);
    const auto left = std::count(seen.begin(), seen.end(), false);
    if (left != (stacks ? 1 : 0))
      refuse(stacks ? "one dim must be left for {i}" : "'" + r.dims + "' lacks a dim of the tensor");
    if (stacks) stacked_ = as_int(std::find(seen.begin(), seen.end(), false) - seen.begin());
  }
  void read_dims(const std::string& dims, std::vector<bool>& seen) {
    bool merges = false;
    for (std::size_t at = 0; at < dims.size();) {
      const char c = dims[at];
      if (c == ' ') {
        ++at;
      } else if (c == '(' || c == ')') {
        if (merges == (c == '(')) refuse("the brackets of '" + dims + "' do not match");
        merges = c == '(';
        if (merges) axes_.emplace_back();
        ++at;
      } else {
        const std::size_t end = std::min(dims.find_first_of(" ()", at), dims.size());
        if (!merges) axes_.emplace_back();
        axes_.back().push_back(factor(dims.substr(at, end - at), seen));
        at = end;
      }
    }
    if (merges) refuse("the brackets of '" + dims + "' do not match");
  }
  axis_factor factor(const std::string& word, std::vector<bool>& seen) const {
    if (const int dim = find(word); dim >= 0) {
      if (seen[as_size(dim)]) refuse("dim '" + word + "' occurs twice");
      seen[as_size(dim)] = true;
      return {dim};
    }
    axis_factor f;
    const auto colon = word.find(':');
    if (colon == std::string::npos) refuse("the tensor has no dim '" + word + "'");
    const auto number = [&](std::string_view digits, std::int64_t& n) {
      const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
      if (code != std::errc() || end != digits.data() + digits.size()) refuse("'" + word + "' is no part such as 0:3");
    };
    number(std::string_view(word).substr(0, colon), f.part);
    number(std::string_view(word).substr(colon + 1), f.parts);
    if (f.part < 0 || f.part >= f.parts || f.parts > 1 << 20) refuse("'" + word + "' is no part such as 0:3");
    return f;
  }

  const member_type& member_;
  std::string name_;
  std::size_t mark_ = std::string::npos;
  int stacked_ = -1;
  std::vector<axis_factors> axes_{};
};

/// The elements of a member that a piece of an array has, and where they lie in it.
struct member_piece {
  box at{};
  strides stride{};
  std::int64_t first = 0;
};
/// A piece with these ranges along the axes, for the index of the stacked dim. Nothing if an axis that is a merge is
/// cut.
inline std::optional<member_piece> view_of_piece(const source_of_member& source, const std::vector<axis_factors>& axes,
                                                 const std::vector<range>& along, bool first_axis_fastest,
                                                 const shape& extents, std::int64_t index) {
  member_piece p;
  p.at.rank = extents.rank;
  if (source.stacked() >= 0) p.at[source.stacked()] = {index, index + 1};
  std::int64_t step = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t a = first_axis_fastest ? i : axes.size() - 1 - i;
    const bool is_dim = axes[a].size() == 1 && axes[a][0].dim >= 0;
    if (!is_dim && along[a] != range{0, source.extent(axes[a])}) return {};
    std::int64_t within = step;
    for (std::size_t f = axes[a].size(); f-- > 0;) {
      const axis_factor& factor = axes[a][f];
      if (factor.dim < 0) {
        p.first += factor.part * within;
        within *= factor.parts;
      } else {
        p.at[factor.dim] = is_dim ? along[a] : range{0, extents[factor.dim]};
        p.stride[factor.dim] = within;
        within *= extents[factor.dim];
      }
    }
    step *= along[a].size();
  }
  return p;
}

} // namespace detail

}}} // namespace cleave::v0::io
