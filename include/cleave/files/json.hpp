// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

// JSON as it is read from left to right: the reader keeps nothing, so that it needs no more memory than its caller.

namespace cleave { inline namespace v0 { namespace io { namespace detail {

/// A text is not the JSON that its reader expects; the message says where and why.
struct malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads one value after the other of a text (RFC 8259). Throws `malformed`.
class json_reader {
 public:
  explicit json_reader(std::string_view text) : text_(text) {}

  /// Calls `member(key)` for each member of an object, which reads the value.
  template <class F>
  void object(F&& member) {
    items('{', '}', [&] {
      const std::string key = string();
      take(':');
      member(key);
    });
  }
  /// Calls `item()` for each item of a list, which reads it.
  template <class F>
  void list(F&& item) {
    items('[', ']', item);
  }
  std::string string() {
    take('"');
    std::string made;
    while (true) {
      const char c = next();
      if (c == '"') return made;
      if (static_cast<unsigned char>(c) < 0x20) refuse("a control character in a string");
      if (c != '\\') made += c;
      else escape(made);
    }
  }
  /// A whole number without fraction and exponent.
  std::int64_t whole() {
    std::int64_t n = 0;
    const std::string_view digits = number_text();
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (code != std::errc() || end != digits.data() + digits.size()) refuse("no whole number of 64 bits");
    return n;
  }
  double real() {
    double x = 0;
    const std::string_view digits = number_text();
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), x);
    if (code != std::errc() || end != digits.data() + digits.size()) refuse("no number");
    return x;
  }
  bool boolean() {
    const bool is_true = peek() == 't';
    word(is_true ? "true" : "false");
    return is_true;
  }
  /// Reads `null`, if it is next.
  bool is_null() {
    if (peek() != 'n') return false;
    word("null");
    return true;
  }
  /// Any value, which nobody needs.
  void skip() {
    const char c = peek();
    if (c == '{') object([&](const std::string&) { skip(); });
    else if (c == '[') list([&] { skip(); });
    else if (c == '"') string();
    else if (c == 't') word("true");
    else if (c == 'f') word("false");
    else if (c == 'n') word("null");
    else real();
  }
  /// Only spaces may follow.
  void end() {
    spaces();
    if (at_ != text_.size()) refuse("something behind the end");
  }
  [[noreturn]] void refuse(const std::string& why) const { throw malformed(why + " at byte " + std::to_string(at_)); }

 private:
  static constexpr int deepest = 64;

  template <class F>
  void items(char open, char close, F&& f) {
    take(open);
    if (++depth_ > deepest) refuse("too many brackets within each other");
    if (peek() != close) do
        f();
      while (take_if(','));
    take(close);
    --depth_;
  }
  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  char peek() {
    spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take_if(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void take(char c) {
    if (!take_if(c)) refuse(std::string("no '") + c + "'");
  }
  char next() {
    if (at_ == text_.size()) refuse("the end within a string");
    return text_[at_++];
  }
  void word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) refuse("no value");
    at_ += w.size();
  }
  std::string_view number_text() {
    peek();
    const std::size_t begin = at_;
    const auto digits = [&] {
      const std::size_t first = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      if (at_ == first) refuse("no number");
      return at_ - first;
    };
    const auto is = [&](char c) { return at_ < text_.size() && text_[at_] == c; };
    if (is('-')) ++at_;
    if (const bool zero = is('0'); digits() > 1 && zero) refuse("a number that begins with 0");
    if (is('.')) ++at_, digits();
    if (is('e') || is('E')) {
      ++at_;
      if (is('+') || is('-')) ++at_;
      digits();
    }
    return text_.substr(begin, at_ - begin);
  }
  unsigned hexadecimal() {
    unsigned n = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = next();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) refuse("a wrong escape in a string");
      n = 16 * n + static_cast<unsigned>(digit);
    }
    return n;
  }
  void escape(std::string& made) {
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    const char c = next();
    if (const auto known = letters.find(c); known != std::string_view::npos) {
      made += meanings[known];
      return;
    }
    if (c != 'u') refuse("a wrong escape in a string");
    unsigned code = hexadecimal();
    if (code >= 0xD800 && code < 0xDC00) { // the first half of a pair
      if (next() != '\\' || next() != 'u') refuse("a wrong escape in a string");
      const unsigned low = hexadecimal();
      if (low < 0xDC00 || low >= 0xE000) refuse("a wrong escape in a string");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      refuse("a wrong escape in a string");
    }
    // UTF-8: the first byte says how many follow.
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr unsigned first[] = {0, 0xC0, 0xE0, 0xF0};
    made += static_cast<char>(first[more] | code >> (6 * more));
    for (int i = more; i-- > 0;) made += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// A string of JSON, in quotes.
inline std::string json_text(std::string_view plain) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : plain) {
    if (c == '"' || c == '\\') text += '\\', text += c;
    else if (static_cast<unsigned char>(c) < 0x20) text += "\\u00", text += digits[c >> 4], text += digits[c & 15];
    else text += c;
  }
  return text + '"';
}
/// A list of whole numbers.
template <class Numbers>
std::string json_list(const Numbers& all) {
  std::string text = "[";
  for (const auto& n : all) text += (text.size() == 1 ? "" : ",") + std::to_string(n);
  return text + "]";
}
/// A number, which reads back as the same; JSON has no infinities and no NaN.
inline std::string json_number(double x) {
  if (!std::isfinite(x)) return "null";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x, std::chars_format::general, 17).ptr};
}

}}}} // namespace cleave::v0::io::detail
