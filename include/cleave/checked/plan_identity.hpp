// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/comm/agreement.hpp>
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

/// A plan as checked mode compares and names it. Plans of two binaries differ if a device does something else in one
/// step, apart from functions of the user.
class plan_identity {
 public:
  [[gnu::cold]] explicit plan_identity(const program_view& p) {
    for (const dim_info& d : p.dims) all_.mix_all(d.name, d.extent, d.blocks);
    for (const loop_info& l : p.loops) all_.mix_all(l.along, l.backwards, l.around, l.iterations, l.once);
    for (const dim_map& m : p.maps) {
      all_.mix_all(m.operand, m.from, m.to, m.window, m.stride, m.dilation, m.divisor, m.outside, m.floors);
      all_.mix_all(m.at_run_time, m.sign, m.offset.constant);
      for (const auto& t : m.offset.terms) all_.mix_all(t.dim, t.times);
    }
    for (const buffer& b : p.buffers) {
      all_.mix_all(b.type.element, b.role, b.index, b.where.word, b.form, b.of, b.loop, b.first_map, b.maps, b.parts);
      for (int i = 0; i < b.type.rank; ++i) all_.mix(b.type[i]);
    }
    unsigned line = 0;
    for (const step& s : p.steps) {
      all_.mix_all(s.kind, s.move, s.axes, s.out, s.combine, s.what, s.backwards, s.first_map, s.code, s.space.word);
      all_.mix_all(s.exclusive, s.keeps, s.pieces, s.panels, s.in_flight, s.joined, s.in_loop);
      for (int i = 0; i < s.loop.rank; ++i) all_.mix(s.loop[i]);
      for (std::uint16_t in : s.in) all_.mix(in);
      for (const fused_op& o : fused_ops_of(p, s))
        all_.mix_all(o.code, o.type, o.arg, o.scalar, o.over, o.in[0], o.in[1], o.in[2]);
      // As the first step with a line.
      if (name.empty() || (line == 0 && s.where.line != 0)) name = operation_of(s) + place_of(s), line = s.where.line;
    }
    if (name.empty()) name = "a copy of arguments";
    all_.mix(name);
  }
  std::uint64_t hash() const { return all_.value; }
  static std::uint64_t hash_of(indexed_span<const std::int64_t> extents) {
    comm::word_hash h;
    for (std::int64_t n : extents) h.mix(n);
    return h.value;
  }

  std::string name{};

 private:
  comm::word_hash all_{};
};

}}} // namespace cleave::v0::detail
