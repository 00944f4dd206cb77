// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models like Llama in files: the checkpoints and the tokens of llama2.c (https://github.com/karpathy/llama2.c), and
// safetensors with the names of published models.
#pragma once

#include "llama.hpp"
#include "text_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace llama {

struct configuration {
  std::int64_t layers = 0, embed = 0, heads = 0, group = 0, head = 0, hidden = 0, vocabulary = 0, positions = 0;
  /// The scores have a table of their own.
  bool own_scores = false;
  numbers<float> all{1e-5f, 10000, 1, 1, 4, 8192};

  /// Of all heads and those of keys: heads of keys, and queries for each.
  void set_heads(std::int64_t queries, std::int64_t keys) {
    if (queries < 1 || keys < 1 || queries % keys != 0)
      throw std::runtime_error("llama: " + std::to_string(queries) + " heads of queries for " + std::to_string(keys) +
                               " heads of keys");
    heads = keys;
    group = queries / keys;
  }
};

/// A file in memory, whose pages are read when they are looked at.
class mapped_file {
 public:
  explicit mapped_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat found{};
    if (file >= 0 && ::fstat(file, &found) == 0 && found.st_size > 0) {
      size_ = static_cast<std::size_t>(found.st_size);
      data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (file >= 0) ::close(file);
    if (data_ == MAP_FAILED) throw std::runtime_error("llama: cannot read '" + path + "'");
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file() { ::munmap(data_, size_); }
  const char* data() const { return static_cast<const char*>(data_); }
  std::size_t size() const { return size_; }

 private:
  void* data_ = MAP_FAILED;
  std::size_t size_ = 0;
};

/// The seven numbers at the beginning of a checkpoint of llama2.c.
struct checkpoint_header {
  static constexpr std::size_t bytes = 7 * sizeof(std::int32_t);
  configuration config{};

  explicit checkpoint_header(const mapped_file& file) {
    std::array<std::int32_t, 7> n{};
    if (file.size() < bytes) throw std::runtime_error("llama: the checkpoint is too short for its header");
    std::memcpy(n.data(), file.data(), bytes);
    for (const std::int32_t& x : n)
      if (x == 0 || x == std::numeric_limits<std::int32_t>::min() || (x < 0 && &x != &n[5]))
        throw std::runtime_error("llama: the file is no checkpoint of llama2.c of version 0");
    config.embed = n[0];
    config.hidden = n[1];
    config.layers = n[2];
    config.set_heads(n[3], n[4]);
    config.vocabulary = n[5] < 0 ? -n[5] : n[5];
    config.own_scores = n[5] < 0;
    config.positions = n[6];
    if (config.embed % n[3] != 0 || config.embed / n[3] % 2 != 0)
      throw std::runtime_error("llama: " + std::to_string(n[3]) + " heads do not divide " + std::to_string(n[0]) +
                               " elements into heads of even length");
    config.head = config.embed / n[3];
    // Products of a damaged header may exceed 64 bits. As doubles they do not, and those of real files are exact.
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    const double wide = real(config.embed), head = real(config.head);
    const double maps = 2 * wide * head * real(config.heads) * real(config.group + 1) + 3 * wide * real(config.hidden) +
                        2 * wide;
    const double floats = real(config.vocabulary) * wide * (config.own_scores ? 2 : 1) + real(config.layers) * maps +
                          wide + real(config.positions) * head;
    const double expected = static_cast<double>(bytes) + floats * static_cast<double>(sizeof(float));
    if (static_cast<double>(file.size()) != expected) {
      std::array<char, 64> text{};
      std::snprintf(text.data(), text.size(), "%.0f", expected);
      throw std::runtime_error("llama: the checkpoint has " + std::to_string(file.size()) +
                               " bytes, but its header says " + text.data());
    }
  }
};

/// Of a checkpoint of llama2.c: one array after the other. Neighbours are pairs in its heads, halves in ours.
inline weights load_checkpoint(const cleave::grid& grid, const mapped_file& file, const configuration& c) {
  auto all = nn::make_parameters<weights>(grid, {layer = c.layers, embed = c.embed, heads = c.heads, group = c.group,
                                                 head = c.head, hidden = c.hidden, vocabulary = c.vocabulary});
  const char* at = file.data() + checkpoint_header::bytes;
  const auto number = [&at](std::int64_t i) {
    float x = 0;
    std::memcpy(&x, at + i * static_cast<std::int64_t>(sizeof x), sizeof x);
    return x;
  };
  const auto read = [&](auto& to, int turned = -1) {
    const auto extents = to.extents();
    to.fill_by([&](const auto& where) {
      std::int64_t i = 0;
      for (std::size_t d = 0; d < extents.size(); ++d) {
        std::int64_t index = where[d];
        if (static_cast<int>(d) == turned) index = index < c.head / 2 ? 2 * index : 2 * (index - c.head / 2) + 1;
        i = i * extents[d] + index;
      }
      return number(i);
    });
    at += to.size() * static_cast<std::int64_t>(sizeof(float));
  };
  read(all.words);
  auto& l = all.stack;
  read(l.before_attention);
  read(l.attention.query, 3);
  read(l.attention.key, 2);
  read(l.attention.value);
  read(l.attention.out);
  read(l.before_feed_forward);
  read(l.gate);
  read(l.down);
  read(l.up);
  read(all.at_the_end);
  at += c.positions * c.head * static_cast<std::int64_t>(sizeof(float)); // the cosines and sines of positions
  if (!c.own_scores) at = file.data() + checkpoint_header::bytes;
  read(all.scores);
  return all;
}

/// Of safetensors with config.json.
inline configuration configuration_of(const cleave::grid& grid, const std::string& path, bool reads) {
  configuration c;
  if (path.ends_with(".bin")) {
    examples::on_all_ranks([&] { c = checkpoint_header(mapped_file(path)).config; });
    return c;
  }
  const auto all = cleave::io::arrays_in(grid, path);
  const auto find = [&](const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.name == name; });
  };
  const auto extent = [&](const std::string& name, std::size_t axis) {
    const auto found = find(name);
    if (found == all.end() || found->extents.size() != 2)
      throw std::runtime_error("llama: " + path + " has no matrix '" + name + "'");
    return found->extents[axis];
  };
  const std::string words = "model.embed_tokens.weight", first = "model.layers.0.";
  c.vocabulary = extent(words, 0);
  c.embed = extent(words, 1);
  c.hidden = extent(first + "mlp.gate_proj.weight", 0);
  c.own_scores = find("lm_head.weight") != all.end();
  while (find("model.layers." + std::to_string(c.layers) + ".input_layernorm.weight") != all.end()) ++c.layers;
  const std::string beside = std::filesystem::path(path).replace_filename("config.json");
  const std::optional<std::string> text = examples::text_of(beside, reads);
  if (!text) throw std::runtime_error("llama: cannot read '" + beside + "'");
  // NaN is in no range.
  const auto entry = [&](const std::string& key, double otherwise, double least, double most, bool counts) {
    const std::string found = examples::entry_of(*text, key);
    if (found.empty() || found == "null") return otherwise;
    char* end = nullptr;
    const double number = std::strtod(found.c_str(), &end);
    if (*end != '\0' || !(number >= least && number <= most) || (counts && number != std::trunc(number)))
      throw std::runtime_error("llama: '" + key + "' of '" + beside + "' is " + found + ", which is no " +
                               (counts ? "count" : "positive number"));
    return number;
  };
  const auto whole = [&](const std::string& key, std::int64_t otherwise) {
    constexpr double most = std::numeric_limits<std::int32_t>::max(); // tokens have 32-bit places
    return static_cast<std::int64_t>(entry(key, static_cast<double>(otherwise), 1, most, true));
  };
  const std::int64_t queries = whole("num_attention_heads", 0);
  c.set_heads(queries, whole("num_key_value_heads", queries));
  c.head = extent(first + "self_attn.q_proj.weight", 0) / queries;
  c.positions = whole("max_position_embeddings", 2048);
  for (const char* key : {"rope_type", "type"})
    if (const std::string kind = examples::entry_of(*text, key); !kind.empty() && kind != "llama3" && kind != "default")
      throw std::runtime_error("llama: this program has no rotation of the type '" + kind + "'");
  const auto positive = [&](const char* key, double otherwise, double least = 1e-30) {
    return static_cast<float>(entry(key, otherwise, least, 1e30, false));
  };
  c.all = {positive("rms_norm_eps", 1e-6, 0),
           positive("rope_theta", 10000),
           positive("factor", 1),
           positive("low_freq_factor", 1),
           positive("high_freq_factor", 4),
           positive("original_max_position_embeddings", 8192)};
  if (c.all.low >= c.all.high)
    throw std::runtime_error("llama: 'low_freq_factor' of '" + beside + "' is not below 'high_freq_factor'");
  return c;
}
/// Elements of 16 bits become floats.
inline weights load_arrays(const cleave::grid& grid, const std::string& path, const configuration& c) {
  auto all = nn::make_parameters<weights>(grid, {layer = c.layers, embed = c.embed, heads = c.heads, group = c.group,
                                                 head = c.head, hidden = c.hidden, vocabulary = c.vocabulary});
  const std::string in = "model.layers.{i}.";
  const cleave::io::name_table names{{"words", "model.embed_tokens.weight"},
                                     {"scores", c.own_scores ? "lm_head.weight" : "model.embed_tokens.weight"},
                                     {"at_the_end", "model.norm.weight"},
                                     {"stack.before_attention", in + "input_layernorm.weight"},
                                     {"stack.before_feed_forward", in + "post_attention_layernorm.weight"},
                                     {"stack.attention.query", in + "self_attn.q_proj.weight",
                                      "(heads group head) embed"},
                                     {"stack.attention.key", in + "self_attn.k_proj.weight", "(heads head) embed"},
                                     {"stack.attention.value", in + "self_attn.v_proj.weight", "(heads head) embed"},
                                     {"stack.attention.out", in + "self_attn.o_proj.weight",
                                      "embed (heads group head)"},
                                     {"stack.*", in + "mlp.*_proj.weight"}};
  // The rates of the rotation are in some files too.
  cleave::io::load(grid, path, all, {.names = names, .ignore = {"*rotary_emb*"}});
  return all;
}
inline weights load(const cleave::grid& grid, const std::string& path, const configuration& c) {
  if (path.ends_with(".bin")) {
    std::optional<mapped_file> file;
    examples::on_all_ranks([&] { file.emplace(path); });
    return load_checkpoint(grid, *file, c);
  }
  return load_arrays(grid, path, c);
}

/// The tokens of llama2.c: bytes and their score for each.
class token_table {
 public:
  token_table(const std::string& path, std::int64_t count) : path_(path) {
    const mapped_file file(path);
    const char *at = file.data(), *const end = at + file.size();
    const auto take = [&](void* to, std::size_t bytes) {
      if (static_cast<std::size_t>(end - at) < bytes)
        throw std::runtime_error("llama: '" + path + "' has fewer than " + std::to_string(count) + " tokens");
      std::memcpy(to, at, bytes);
      at += bytes;
    };
    std::uint32_t longest = 0;
    take(&longest, sizeof longest);
    for (std::int64_t i = 0; i < count; ++i) {
      float score = 0;
      std::int32_t length = 0;
      take(&score, sizeof score);
      take(&length, sizeof length);
      if (length < 0 || length > end - at)
        throw std::runtime_error("llama: token " + std::to_string(i) + " of '" + path + "' has " +
                                 std::to_string(length) + " bytes, but " + std::to_string(end - at) + " are left");
      std::string token(static_cast<std::size_t>(length), ' ');
      take(token.data(), token.size());
      ids_.emplace(token, static_cast<std::int32_t>(i));
      tokens_.push_back(std::move(token));
      scores_.push_back(score);
    }
  }
  /// A text as tokens, after the one that begins a text: characters, or bytes, of which the pair with the highest score
  /// is merged until none is a token.
  std::vector<std::int32_t> tokens(const std::string& text) const {
    constexpr std::int32_t begin = 1, first_byte = 3;
    std::vector<std::int32_t> all{begin};
    const std::string spaced = text.empty() ? text : " " + text;
    for (std::size_t i = 0; i < spaced.size();) {
      std::size_t n = 1;
      while (n < 4 && i + n < spaced.size() && (static_cast<unsigned char>(spaced[i + n]) & 0xc0) == 0x80) ++n;
      if (const auto found = ids_.find(spaced.substr(i, n)); found != ids_.end()) all.push_back(found->second);
      else
        for (std::size_t b = i; b < i + n; ++b) {
          all.push_back(static_cast<unsigned char>(spaced[b]) + first_byte);
          if (all.back() >= std::ssize(tokens_))
            throw std::runtime_error("llama: '" + path_ + "' has " + std::to_string(tokens_.size()) +
                                     " tokens and none for the byte " + std::to_string(all.back() - first_byte) +
                                     " of the text");
        }
      i += n;
    }
    while (true) {
      float best = -std::numeric_limits<float>::infinity();
      std::size_t where = 0;
      std::int32_t merged = -1;
      for (std::size_t i = 1; i + 1 < all.size(); ++i) {
        const auto found = ids_.find(name(all[i]) + name(all[i + 1]));
        if (found == ids_.end() || scores_[static_cast<std::size_t>(found->second)] <= best) continue;
        best = scores_[static_cast<std::size_t>(found->second)];
        where = i;
        merged = found->second;
      }
      if (merged < 0) return all;
      all[where] = merged;
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(where) + 1);
    }
  }
  /// The bytes of a token after another one. A terminal is spared the control characters that a model may make.
  std::string text(std::int32_t id, std::int32_t before) const {
    std::string token = name(id);
    if (before == 1 && !token.empty() && token[0] == ' ') token.erase(0, 1);
    unsigned byte = 0;
    if (token.size() == 6 && std::sscanf(token.c_str(), "<0x%02X>", &byte) == 1)
      token = std::string(1, static_cast<char>(static_cast<unsigned char>(byte)));
    for (char& c : token)
      if ((c >= 0 && c < 32 && c != '\n' && c != '\t') || c == 127) c = '?';
    return token;
  }

 private:
  const std::string& name(std::int32_t id) const { return tokens_.at(static_cast<std::size_t>(id)); }

  std::string path_{};
  std::vector<std::string> tokens_{};
  std::vector<float> scores_{};
  std::unordered_map<std::string, std::int32_t> ids_{};
};

} // namespace llama
