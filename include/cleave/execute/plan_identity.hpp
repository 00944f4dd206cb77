// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/ops/print.hpp>
#include <cleave/program/program_view.hpp>

#include <string>

namespace cleave { inline namespace v0 { namespace detail {

/// ` at main.cpp:31`, or nothing if the line is not known.
[[gnu::cold]] inline std::string place_of(std::string_view file, unsigned line) {
  std::string text;
  if (line != 0) text.append(" at ").append(file).append(":").append(std::to_string(line));
  return text;
}
inline std::string place_of(const step& s) { return place_of(s.where.name(), s.where.line); }

/// `gradient of sum`: the operation of the user that a step is for.
[[gnu::cold]] inline std::string operation_of(const step& s) {
  if (class_of(s.code) != op_class::reduction) return origin_name(s.code, s.gradient);
  return std::string(s.gradient ? "gradient of " : "").append(name_of(s.combine));
}

/// A plan as checked mode compares and names it.
class plan_identity {
 public:
  [[gnu::cold]] explicit plan_identity(const program_view& p) {
    for (const buffer& b : p.buffers) {
      mix(hash, underlying(b.type.element) + 64u * underlying(b.role) + 4096u * b.index);
      for (int i = 0; i < b.type.rank; ++i) mix(hash, b.type[i]);
      mix(hash, b.where.word);
    }
    for (const step& s : p.steps) {
      mix(hash, underlying(s.kind) + 64u * underlying(s.move) + 4096u * s.axes.bits() + (std::uint64_t{s.out} << 32));
      for (std::uint16_t in : s.in) mix(hash, in);
      for (const fused_op& t : fused_ops_of(p, s)) mix(hash, underlying(t.code) + 1024u * underlying(t.type));
      if (name.empty() || (named_without_line_ && s.where.line != 0)) {
        name = operation_of(s) + place_of(s);
        named_without_line_ = s.where.line == 0;
      }
    }
    if (name.empty()) name = "a copy of arguments";
  }
  static std::uint64_t hash_of(indexed_span<const std::int64_t> extents) {
    std::uint64_t h = 1;
    for (std::int64_t n : extents) mix(h, as_size(n));
    return h;
  }

  std::uint64_t hash = 0xCBF29CE484222325u;
  std::string name{};

 private:
  static void mix(std::uint64_t& h, std::uint64_t x) { h = (h ^ x) * 0x100000001B3u ^ h >> 29; }
  bool named_without_line_ = true;
};

}}} // namespace cleave::v0::detail
