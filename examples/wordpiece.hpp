// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tokens of a text, as the encoders of Devlin et al. (2019) have them: words and signs in lower case and without
// accents, each cut into the longest pieces that a vocabulary has.
#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace examples {

class wordpiece {
 public:
  /// Reads the vocabulary: a token on each line, whose id is the number of its last line. Throws std::runtime_error.
  explicit wordpiece(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot open the vocabulary '" + path + "'");
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      ids_.insert_or_assign(line, lines_++);
    }
    for (const auto& [token, id] : {std::pair{"[CLS]", &first_}, {"[SEP]", &last_}, {"[UNK]", &unknown_}}) {
      const auto found = ids_.find(token);
      if (found == ids_.end()) throw std::runtime_error("the vocabulary '" + path + "' has no token " + token);
      *id = found->second;
    }
  }
  /// Lines, which is one more than the largest id.
  std::int64_t size() const { return lines_; }

  /// The tokens of a text with those of its ends, at most so many.
  std::vector<std::int32_t> operator()(std::string_view text, std::size_t most) const {
    std::vector<std::int32_t> all{first_};
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) cut(word, all);
      word.clear();
    };
    while (!text.empty()) {
      char32_t c = lower(next(text));
      if (c == 0 || c == 0xfffd || is_mark(c)) continue;
      if (is_space(c)) {
        end_word();
      } else if (is_control(c)) {
        continue;
      } else if (stands_alone(c)) {
        end_word();
        append(word, c);
        end_word();
      } else {
        append(word, c);
      }
    }
    end_word();
    if (all.size() + 1 > most) all.resize(most - 1);
    all.push_back(last_);
    return all;
  }

 private:
  /// Takes one character of UTF-8; bytes that are none are 0xfffd.
  static char32_t next(std::string_view& text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char head = byte(0);
    const std::size_t length = head < 0x80 ? 1 : head >= 0xf0 ? 4 : head >= 0xe0 ? 3 : head >= 0xc0 ? 2 : 0;
    char32_t c = length == 1 ? head : head & (0x7fu >> length);
    bool fine = length > 0 && length <= text.size();
    for (std::size_t i = 1; fine && i < length; ++i) {
      fine = (byte(i) & 0xc0) == 0x80;
      c = c << 6 | (byte(i) & 0x3fu);
    }
    text.remove_prefix(fine ? length : 1);
    return fine ? c : 0xfffd;
  }
  static void append(std::string& to, char32_t c) {
    const auto add = [&](char32_t byte) { to += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (c < 0x80) return add(c);
    if (c < 0x800) return add(0xc0 | c >> 6), add(0x80 | (c & 0x3f));
    if (c < 0x10000) return add(0xe0 | c >> 12), add(0x80 | (c >> 6 & 0x3f)), add(0x80 | (c & 0x3f));
    add(0xf0 | c >> 18), add(0x80 | (c >> 12 & 0x3f)), add(0x80 | (c >> 6 & 0x3f)), add(0x80 | (c & 0x3f));
  }
  /// In lower case and, of Latin letters, without the accent. Other scripts keep their accents.
  static char32_t lower(char32_t c) {
    // From U+00C0 to U+017F; a blank is a letter that has no accent.
    constexpr std::string_view plain =
        "AAAAAA CEEEEIIII NOOOOO  UUUUY  aaaaaa ceeeeiiii nooooo  uuuuy y"
        "AaAaAaCcCcCcCcDd  EeEeEeEeEeGgGgGgGgHh  IiIiIiIiI   JjKk LlLlLl    NnNnNn   "
        "OoOoOo  RrRrRrSsSsSsSsTtTt  UuUuUuUuUuUuWwYyYZzZzZz ";
    if (c >= 0xc0 && c - 0xc0 < plain.size() && plain[c - 0xc0] != ' ') c = static_cast<unsigned char>(plain[c - 0xc0]);
    if (c >= 'A' && c <= 'Z') return c + 32;
    if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) || (c >= 0x410 && c <= 0x42f))
      return c + 32;
    if (c >= 0x400 && c <= 0x40f) return c + 80;
    if (c == 0x110 || c == 0x126 || c == 0x132 || c == 0x141 || c == 0x152 || c == 0x14a || c == 0x166) return c + 1;
    return c;
  }
  static bool is_mark(char32_t c) { return c >= 0x300 && c <= 0x36f; }
  static bool is_space(char32_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
  }
  static bool is_control(char32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2060 && c <= 0x2064) || c == 0xfeff;
  }
  /// Signs, and Chinese characters, are words of their own.
  static bool stands_alone(char32_t c) {
    const bool sign = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126) ||
                      c == 0xa1 || c == 0xa7 || c == 0xab || c == 0xb6 || c == 0xb7 || c == 0xbb || c == 0xbf ||
                      (c >= 0x2010 && c <= 0x2027) || (c >= 0x2030 && c <= 0x205e && c != 0x2044 && c != 0x2052) ||
                      (c >= 0x3001 && c <= 0x3003) || (c >= 0x3008 && c <= 0x3011);
    const bool chinese = (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0xf900 && c <= 0xfaff) ||
                         (c >= 0x20000 && c <= 0x2ceaf);
    return sign || chinese;
  }
  /// The longest pieces from the left; a word that has none is unknown as a whole.
  void cut(const std::string& word, std::vector<std::int32_t>& all) const {
    constexpr std::size_t longest = 100;
    std::size_t characters = 0;
    for (const char c : word) characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    std::vector<std::int32_t> pieces;
    for (std::size_t begin = 0; begin < word.size();) {
      std::size_t end = characters > longest ? begin : word.size();
      auto found = ids_.end();
      for (; end > begin && found == ids_.end(); --end)
        found = ids_.find((begin > 0 ? "##" : "") + word.substr(begin, end - begin));
      if (found == ids_.end()) return all.push_back(unknown_);
      pieces.push_back(found->second);
      begin = end + 1;
    }
    all.insert(all.end(), pieces.begin(), pieces.end());
  }

  std::unordered_map<std::string, std::int32_t> ids_{};
  std::int32_t lines_ = 0, first_ = 0, last_ = 0, unknown_ = 0;
};

} // namespace examples
