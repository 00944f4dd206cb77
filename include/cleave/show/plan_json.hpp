// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/files/json.hpp>
#include <cleave/show/errors.hpp>
#include <cleave/show/plan_record.hpp>

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cleave { inline namespace v0 {
namespace show { namespace detail {

/// The members of a record by name. One list for the writer and the reader.
template <class R, class F>
void for_each_member(R& r, F&& f) {
  using record = std::remove_const_t<R>;
  if constexpr (std::is_same_v<record, size_record>) {
    f("name", r.name), f("size", r.size);
  } else if constexpr (std::is_same_v<record, array_record>) {
    f("name", r.name), f("type", r.type), f("role", r.role), f("bytes", r.bytes), f("first", r.first);
    f("last", r.last), f("slot", r.slot);
  } else if constexpr (std::is_same_v<record, step_record>) {
    f("pass", r.pass), f("operation", r.operation), f("file", r.file), f("line", r.line), f("reads", r.reads);
    f("writes", r.writes), f("loop", r.loop), f("times", r.times), f("bytes_read", r.bytes_read);
    f("bytes_written", r.bytes_written), f("bytes_moved", r.bytes_moved), f("flops", r.flops);
    f("collective", r.collective), f("axes", r.axes), f("from", r.from), f("to", r.to), f("why", r.why);
    f("communicates", r.communicates), f("joined", r.joined), f("begin", r.begin), f("end", r.end),
        f("network_begin", r.network_begin);
    f("network_end", r.network_end), f("exposed", r.exposed);
  } else {
    f("axes", r.axes), f("dims", r.dims), f("arrays", r.arrays), f("steps", r.steps), f("bytes", r.bytes);
    f("messages", r.messages), f("flops", r.flops), f("passes", r.passes), f("bytes_read", r.bytes_read);
    f("bytes_written", r.bytes_written), f("arguments", r.arguments), f("results", r.results);
    f("workspace", r.workspace), f("machine", r.machine), f("seconds", r.seconds);
  }
}

inline void write_json(std::string& to, const std::string& text) {
  to += '"';
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      constexpr const char* digits = "0123456789abcdef";
      to.append("\\u00").append(1, digits[c / 16]).append(1, digits[c % 16]);
    } else {
      if (c == '"' || c == '\\') to += '\\';
      to += c;
    }
  }
  to += '"';
}
inline void write_json(std::string& to, bool b) { to += b ? "true" : "false"; }
template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
void write_json(std::string& to, T number) {
  char text[32];
  to.append(text, std::to_chars(text, text + sizeof text, number).ptr);
}
template <class R>
  requires std::is_class_v<R>
void write_json(std::string& to, const R& r);
template <class T>
void write_json(std::string& to, const std::vector<T>& list) {
  to += '[';
  for (const T& t : list) {
    if (&t != list.data()) to += std::is_class_v<T> ? ",\n" : ",";
    write_json(to, t);
  }
  to += ']';
}
template <class R>
  requires std::is_class_v<R>
void write_json(std::string& to, const R& r) {
  char before = '{';
  for_each_member(r, [&](std::string_view name, const auto& member) {
    to.append(1, before).append("\"").append(name).append("\":");
    write_json(to, member);
    before = ',';
  });
  to += '}';
}

using io::detail::json_reader;
inline void read_json(json_reader& from, std::string& text) { text = from.string(); }
inline void read_json(json_reader& from, bool& b) { b = from.boolean(); }
inline void read_json(json_reader& from, double& x) { x = from.real(); }
inline void read_json(json_reader& from, std::int64_t& n) { n = from.whole(); }
inline void read_json(json_reader& from, int& n) {
  const std::int64_t wide = from.whole();
  n = static_cast<int>(wide);
  if (n != wide) from.refuse("no number of 32 bits");
}
template <class R>
  requires std::is_class_v<R>
void read_json(json_reader& from, R& r);
template <class T>
void read_json(json_reader& from, std::vector<T>& list) {
  list.clear();
  from.list([&] { read_json(from, list.emplace_back()); });
}
template <class R>
  requires std::is_class_v<R>
void read_json(json_reader& from, R& r) {
  from.object([&](const std::string& key) {
    bool known = false;
    for_each_member(r, [&](std::string_view name, auto& member) {
      if (name != key) return;
      read_json(from, member);
      known = true;
    });
    if (!known) from.skip();
  });
}

}} // namespace show::detail

/// A record of a plan as JSON: an object of the members of `plan_record`.
inline std::string to_json(const plan_record& plan) {
  std::string text;
  show::detail::write_json(text, plan);
  return text += '\n';
}

/// Reads a text of `to_json`. Members that it does not know are skipped, those that are missing are 0 or empty.
/// Throws file_error if the text is no JSON of a plan.
inline plan_record plan_of_json(std::string_view text) {
  plan_record plan;
  try {
    io::detail::json_reader from(text);
    show::detail::read_json(from, plan);
    from.end();
  } catch (const io::detail::malformed& e) {
    raise<file_error>(wording::no_json_of_a_plan(e.what()));
  }
  const auto count = static_cast<int>(plan.arrays.size());
  const auto check = [&](int array) {
    if (array < 0 || array >= count)
      raise<file_error>(wording::no_json_of_a_plan("a step names an array that is not there"));
  };
  for (const step_record& s : plan.steps) {
    check(s.writes);
    for (const int array : s.reads) check(array);
  }
  return plan;
}

}} // namespace cleave::v0
