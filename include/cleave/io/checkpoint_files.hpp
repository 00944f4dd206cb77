// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/files/json.hpp>
#include <cleave/io/agree.hpp>
#include <cleave/io/members.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A checkpoint is a folder: data_R.bin of each rank R, index.json, which says where each piece of each array lies, and
// commit.json, which is written last. A folder without it is none.

namespace cleave { inline namespace v0 { namespace io { namespace detail { namespace checkpoint {

inline constexpr std::int64_t block_bytes = std::int64_t{1} << 20, chunk_bytes = 8 * block_bytes;
inline constexpr std::string_view format = "cleave checkpoint 1", begun = ".new", prefix = "step_";

inline std::string folder_name(const std::string& within, std::int64_t step) {
  return within + "/" + std::string(prefix) + std::to_string(step);
}
inline std::string data_name(int rank) { return "data_" + std::to_string(rank) + ".bin"; }
inline std::string part_name(int rank) { return "part_" + std::to_string(rank) + ".json"; }
inline bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}
template <class F>
void change_folder(file_call which, const std::string& path, F&& change) {
  called(which, path, [&] {
    std::error_code code;
    change(path, code);
    errno = code.value();
    return code ? -1 : 0;
  });
}
inline void remove_folder(const std::string& path) {
  change_folder(file_call::remove, path, [](const auto& at, auto& code) { std::filesystem::remove_all(at, code); });
}
inline void make_folder(const std::string& path) {
  change_folder(file_call::folder, path,
                [](const auto& at, auto& code) { std::filesystem::create_directories(at, code); });
}
/// Whether all files of a folder are those of a checkpoint.
inline bool has_a_checkpoint_only(const std::string& path) {
  std::error_code code;
  auto at = std::filesystem::directory_iterator(path, code);
  for (; !code && at != std::filesystem::directory_iterator(); at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with("data_") && !name.starts_with("part_") && !name.starts_with("index.json") &&
        !name.starts_with("commit.json"))
      return false;
  }
  return !code;
}

/// The data of one rank: a copy of its parts, in the order of its file.
class rank_data {
 public:
  /// Copies the parts that this rank owns. No communication.
  void take(const grid& g, std::vector<member>& members) {
    rank_ = g.state().everyone().rank;
    pieces_.clear();
    arrays_ = "";
    std::int64_t end = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const member& m = members[i];
      arrays_ += (i == 0 ? "" : ",\n") + json_text(m.name) + ":" + described(m);
      const std::optional<box> part = m.owned(as_signed(i));
      if (!part) continue;
      const std::int64_t bytes = part->elements() * size_of(m.element), unit = bytes < 4096 ? 64 : 4096;
      end = (end + unit - 1) / unit * unit;
      pieces_.push_back({i, m.name, *part, end, bytes});
      end += bytes;
    }
    if (end > room_) {
      buffer_.reset();
      room_ = 0;
      buffer_.reset(new char[as_size(end)]);
      room_ = end;
    }
    end_ = end;
    // The bytes between the parts.
    std::int64_t written = 0;
    for (const piece& p : pieces_) {
      std::memset(buffer_.get() + written, 0, as_size(p.begin - written));
      written = p.begin + p.bytes;
    }
    const host_memory memory(members, host_memory::how::reads, std::vector<bool>(members.size(), true));
    for (const piece& p : pieces_) {
      const member& m = members[p.member];
      file_part copied = part_of(p.at, m.held, p.at, strides_of(p.at.extents()), 0);
      const std::int64_t size = size_of(m.element);
      for_each_run(copied.copy, [&](const file_run& r) {
        copy_run<false>(memory[p.member] + r.to * size, r.stride, buffer_.get() + p.begin + r.at * size, r.count, size);
      });
    }
  }
  /// Writes the file of this rank, and then, as a sign that it is complete, its part of the index.
  void write(const std::string& folder) const {
    file out = file::fresh(folder + "/" + data_name(rank_));
    for (std::int64_t at = 0; at < end_; at += chunk_bytes)
      out.write(at, buffer_.get() + at, std::min(chunk_bytes, end_ - at));
    std::string text; // while the disk writes
    for (const piece& p : pieces_) {
      std::vector<std::uint32_t> sums;
      for (std::int64_t at = 0; at < p.bytes; at += block_bytes)
        sums.push_back(crc<crc32c>::of(buffer_.get() + p.begin + at, std::min(block_bytes, p.bytes - at)));
      std::vector<std::int64_t> begin, extents;
      for (int d = 0; d < p.at.rank; ++d) begin.push_back(p.at[d].begin), extents.push_back(p.at[d].size());
      text += ",\n{\"array\":" + json_text(p.name) + ",\"file\":\"" + data_name(rank_) +
              "\",\"offset\":" + std::to_string(p.begin) + ",\"begin\":" + json_list(begin) +
              ",\"shape\":" + json_list(extents) + ",\"crc32c\":" + json_list(sums) + "}";
    }
    out.sync();
    out.close();
    const std::string part = folder + "/" + part_name(rank_), begun_part = written_aside(part, text);
    sync_folder(folder);
    show_file(begun_part, part); // the last call: rank 0 may rename the folder now
  }
  /// The index of all ranks, from their parts.
  std::string index(const std::string& folder, int ranks) const {
    std::string pieces;
    for (int r = 0; r < ranks; ++r) {
      const file part(folder + "/" + part_name(r));
      pieces += part.text(0, part.size());
    }
    if (!pieces.empty()) pieces[0] = ' ';
    return "{\"format\":" + json_text(format) + ",\"block\":" + std::to_string(block_bytes) + ",\n\"arrays\":{\n" +
           arrays_ + "},\n\"pieces\":[\n" + pieces + "]}\n";
  }
  std::int64_t bytes() const { return end_; }

 private:
  struct piece {
    std::size_t member;
    std::string name;
    box at;
    std::int64_t begin, bytes;
  };
  static std::string described(const member& m) {
    std::string dims;
    for (const std::string_view d : m.dims) dims += (dims.empty() ? "" : ",") + json_text(d);
    return "{\"type\":\"" + std::string(name_of(m.element)) +
           "\",\"shape\":" + json_list(std::vector<std::int64_t>(m.extents.extent, m.extents.extent + m.extents.rank)) +
           ",\"dims\":[" + dims + "]}";
  }

  int rank_ = 0;
  std::vector<piece> pieces_{};
  std::string arrays_{};
  std::unique_ptr<char[]> buffer_{};
  std::int64_t room_ = 0, end_ = 0;
};

/// The contents of commit.json.
struct commitment {
  std::int64_t step = -1, index_bytes = 0, index_check = 0;
  std::optional<double> metric{};

  std::string text() const {
    return "{\"format\":" + json_text(format) + ",\"step\":" + std::to_string(step) +
           ",\"index_bytes\":" + std::to_string(index_bytes) + ",\"index_crc32c\":" + std::to_string(index_check) +
           (metric ? ",\"metric\":" + json_number(*metric) : "") + "}\n";
  }
  static commitment read(const std::string& folder) {
    const file in(folder + "/commit.json");
    commitment made;
    try {
      if (in.size() > 4096) throw malformed("too many bytes");
      const std::string text = in.text(0, in.size());
      json_reader read(text);
      bool known = false;
      read.object([&](const std::string& key) {
        if (key == "format") known = read.string() == format;
        else if (key == "step") made.step = read.whole();
        else if (key == "index_bytes") made.index_bytes = read.whole();
        else if (key == "index_crc32c") made.index_check = read.whole();
        else if (key == "metric" && !read.is_null()) made.metric = read.real();
      });
      read.end();
      if (!known) throw malformed("another format");
    } catch (const malformed& e) {
      raise<file_error>(wording::file_malformed(in.path(), "checkpoint", e.what()));
    }
    return made;
  }
};

/// Reads the index of a checkpoint.
class index_reader {
 public:
  explicit index_reader(const std::string& folder)
      : all_{"checkpoint", folder, {}, {}, {block_checks::by::castagnoli, 0}} {
    const commitment commit = commitment::read(folder);
    const file in(folder + "/index.json");
    if (in.size() != commit.index_bytes) all_.refuse("its index has another length than when it was written");
    const std::string text = in.text(0, in.size());
    if (crc<crc32c>::of(text.data(), in.size()) != static_cast<std::uint32_t>(commit.index_check))
      all_.refuse("its index has another checksum than when it was written");
    try {
      json_reader read(text);
      read.object([&](const std::string& key) {
        if (key == "block") all_.checks.block = read.whole();
        else if (key == "arrays") read.object([&](const std::string& name) { add_array(read, name); }), all_.sort();
        else if (key == "pieces") read.list([&] { add_piece(read); });
        else read.skip();
      });
      read.end();
    } catch (const malformed& e) {
      all_.refuse(std::string("its index has ") + e.what());
    }
    check();
  }
  catalogue take() { return std::move(all_); }

 private:
  static std::vector<std::int64_t> numbers(json_reader& read) {
    std::vector<std::int64_t> all;
    read.list([&] { all.push_back(read.whole()); });
    return all;
  }
  void add_array(json_reader& read, const std::string& name) {
    stored_array& a = all_.arrays.emplace_back();
    a.name = name;
    read.object([&](const std::string& key) {
      if (key == "shape") a.extents = numbers(read);
      else if (key == "dims") read.list([&] { a.dims.push_back(read.string()); });
      else if (key != "type") read.skip();
      else {
        const std::string type = read.string();
        for (auto e = element::boolean; e <= element::c128; e = element(underlying(e) + 1))
          if (name_of(e) == type) a.element = e;
      }
    });
    a.type = name_of(a.element);
    a.bytes = bytes_of_extents(a.extents, size_of(a.element));
    if (a.element == element::none || a.bytes < 0) read.refuse("a malformed array");
  }
  void add_piece(json_reader& read) {
    stored_piece p;
    std::vector<std::int64_t> begin, extents, sums;
    stored_array* of = nullptr;
    read.object([&](const std::string& key) {
      if (key == "array") of = const_cast<stored_array*>(all_.find(read.string()));
      else if (key == "file") p.file = number_of(read.string());
      else if (key == "offset") p.begin = read.whole();
      else if (key == "begin") begin = numbers(read);
      else if (key == "shape") extents = numbers(read);
      else if (key == "crc32c") sums = numbers(read);
      else read.skip();
    });
    if (of == nullptr || p.begin < 0 || begin.size() != of->extents.size() || extents.size() != begin.size())
      read.refuse("a malformed piece");
    std::int64_t bytes = size_of(of->element);
    for (std::size_t d = 0; d < begin.size(); ++d) {
      if (begin[d] < 0 || extents[d] < 0 || extents[d] > of->extents[d] || begin[d] > of->extents[d] - extents[d])
        read.refuse("a piece outside of its array");
      p.along.push_back({begin[d], begin[d] + extents[d]});
      bytes *= extents[d];
    }
    for (const std::int64_t s : sums) p.sums.push_back(static_cast<std::uint32_t>(s));
    if (all_.checks.block <= 0 || std::ssize(sums) != (bytes + all_.checks.block - 1) / all_.checks.block)
      read.refuse("a piece with another number of checksums");
    of->pieces.push_back(std::move(p));
  }
  std::int64_t number_of(const std::string& name) {
    if (name.empty() || name.find('/') != std::string::npos) all_.refuse("its index names a file elsewhere");
    const auto [at, fresh] = files_.emplace(name, std::ssize(all_.files));
    if (fresh) all_.files.push_back(all_.path + "/" + name);
    return at->second;
  }
  void check() const {
    for (const stored_array& a : all_.arrays) {
      std::int64_t bytes = 0;
      for (const stored_piece& p : a.pieces) {
        std::int64_t of_piece = size_of(a.element);
        for (const range& r : p.along) of_piece *= r.size();
        bytes += of_piece;
      }
      if (bytes != a.bytes) all_.refuse("the pieces of '" + a.name + "' do not make it up");
    }
  }

  catalogue all_;
  std::map<std::string, std::int64_t> files_{};
};

/// The contents of a folder: the steps of its checkpoints, ascending, and the paths of those that were not committed,
/// because the run ended before. Other files and folders are none of them.
struct contents {
  std::vector<std::int64_t> steps{};
  std::vector<std::string> left{};

  explicit contents(const std::string& folder) {
    std::error_code code;
    for (auto at = std::filesystem::directory_iterator(folder, code);
         !code && at != std::filesystem::directory_iterator(); at.increment(code)) {
      const std::string name = at->path().filename().string();
      if (!name.starts_with(prefix)) continue;
      std::int64_t step = 0;
      const auto [end, wrong] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
      const std::string_view rest(end, as_size(name.data() + name.size() - end));
      if (wrong != std::errc() || (!rest.empty() && rest != begun) ||
          name != std::string(prefix) + std::to_string(step) + std::string(rest) || step < 0)
        continue;
      const std::string path = at->path().string();
      if (rest.empty() && exists(path + "/commit.json")) steps.push_back(step);
      else if (has_a_checkpoint_only(path)) left.push_back(path);
    }
    std::sort(steps.begin(), steps.end());
  }
};

}}}}} // namespace cleave::v0::io::detail::checkpoint
