// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cleave/files/names.hpp>

#include "../read_arrays.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

std::size_t most_bytes_allocated();
void forget_most_bytes_allocated();

namespace CLEAVE_SOURCE {

namespace io = cleave::io::detail;
using cleave::element;
using read_arrays::format;

/// A folder that is gone at the end of the test.
class folder {
 public:
  folder() : at_(std::filesystem::temp_directory_path() / ("cleave_formats_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(at_);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() { std::filesystem::remove_all(at_); }
  std::string operator/(const std::string& name) const { return (at_ / name).string(); }

 private:
  std::filesystem::path at_;
};
void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
std::string contents(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path, std::ios::binary).rdbuf();
  return all.str();
}
std::string said(format f, const std::string& path) {
  try {
    read_arrays::read(f, path);
  } catch (const cleave::file_error& e) {
    return e.what();
  }
  return "";
}

TEST(io_formats, checks_of_parts_are_combined) {
  const std::string text = "123456789";
  EXPECT_EQ(io::crc<io::crc32c>::of(text.data(), 9), 0xE3069283u);
  EXPECT_EQ(io::crc<io::crc32_of_zip>::of(text.data(), 9), 0xCBF43926u);
  std::mt19937 random(1);
  std::string bytes(5000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (const auto kind : {io::block_checks::by::zip, io::block_checks::by::castagnoli}) {
    const io::block_checks how{kind, 777};
    std::vector<std::uint32_t> sums(7);
    // Two ranks have parts of the blocks, in runs.
    io::running_checks mine(how, 5000, sums.data()), theirs(how, 5000, sums.data());
    for (std::int64_t at = 0, n = 1; at < 5000; at += n, n = 1 + n * 7 % 31)
      (n % 2 == 0 ? mine : theirs).add(at, bytes.data() + at, std::min<std::int64_t>(n, 5000 - at));
    mine.finish(), theirs.finish();
    for (std::int64_t b = 0; b < 7; ++b) {
      const std::int64_t n = std::min<std::int64_t>(777, 5000 - 777 * b);
      const char* const at = bytes.data() + 777 * b;
      const std::uint32_t sum = sums[cleave::as_size(b)];
      if (kind == io::block_checks::by::zip)
        EXPECT_EQ(io::crc<io::crc32_of_zip>::finished(sum, n), io::crc<io::crc32_of_zip>::of(at, n));
      else EXPECT_EQ(io::crc<io::crc32c>::finished(sum, n), io::crc<io::crc32c>::of(at, n));
    }
  }
}

TEST(io_formats, json_is_read_or_refused) {
  const auto skips = [](const std::string& text) {
    try {
      io::json_reader in(text);
      in.skip();
      in.end();
      return true;
    } catch (const io::malformed&) {
      return false;
    }
  };
  for (const char* text :
       {"{}", " [ ] ", "[1,-0,2.5e-3,\"a\\u00e4\\ud83d\\ude00\",true,false,null]", "{\"a\":{\"b\":[{}]}}"})
    EXPECT_TRUE(skips(text)) << text;
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "{\"a\":1,}", "01", "1.", "+1", "nul", "\"\\x\"", "\"\\ud800\"",
                           "\"a", "[1] 2", "{a:1}", "\"\n\"", "[1 2]", "--1"})
    EXPECT_FALSE(skips(text)) << text;
  EXPECT_FALSE(skips(std::string(100000, '[')));
  io::json_reader in("\"a\\u00e4\\ud83d\\ude00\\n\"");
  EXPECT_EQ(in.string(), "a\u00e4\U0001F600\n");
  EXPECT_EQ(io::json_text("a\"\\\n\u00e4"), "\"a\\\"\\\\\\u000a\u00e4\"");
}

TEST(io_formats, patterns_with_stars) {
  std::vector<std::string> found;
  EXPECT_TRUE(io::fits("layers.*.kernel", "layers.a.b.kernel", found));
  EXPECT_EQ(found, std::vector<std::string>{"a.b"});
  for (const auto& [pattern, text, does] : {std::tuple{"*", "", true},
                                            {"a*", "ba", false},
                                            {"*a*", "bab", true},
                                            {"a", "ab", false},
                                            {"*.x", "a.xy", false}})
    EXPECT_EQ(io::fits_any({pattern}, text), does) << pattern << " " << text;
}

/// What a rank reads is what it would pick from the whole array, element by element, and no element is read twice.
TEST(io_formats, parts_of_arrays_are_read_in_the_order_of_the_file) {
  const folder temporary;
  std::mt19937 random(2);
  const auto below = [&](std::int64_t n) { return std::int64_t(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    const int rank = int(below(5));
    cleave::box whole, wanted;
    whole.rank = wanted.rank = rank;
    int order[8] = {0, 1, 2, 3, 4};
    std::shuffle(order, order + rank, random);
    cleave::strides stride{};
    std::int64_t elements = 1;
    for (int d = 0; d < rank; ++d) {
      whole[d] = {0, 1 + below(6)};
      const std::int64_t begin = below(whole[d].end);
      wanted[d] = {begin, begin + 1 + below(whole[d].end - begin)};
    }
    for (int d = rank; d-- > 0;) stride[order[d]] = elements, elements *= whole[order[d]].end;
    std::string bytes;
    for (std::int64_t n = 0; n < elements; ++n) bytes.append(reinterpret_cast<const char*>(&n), 4);
    write(temporary / "array", "12345" + bytes);
    std::vector<io::file> files;
    files.emplace_back(temporary / "array");
    io::file_part part = io::part_of(wanted, wanted, whole, stride, 0);
    std::vector<std::int32_t> got(cleave::as_size(wanted.elements()), -1);
    std::uint32_t sum = 0;
    part.begin = 5, part.element_bytes = 4, part.memory = reinterpret_cast<char*>(got.data());
    part.sums = &sum, part.checks = {io::block_checks::by::castagnoli, 1 << 20}, part.piece_bytes = 4 * elements;
    const cleave::io::traffic moved = io::file_mover(files, true).run({part});
    EXPECT_EQ(moved.needed, wanted.elements() * 4);
    EXPECT_LE(moved.ratio(), 1.05);
    std::string only(bytes.size(), '\0'); // the array with zeros for all that is not read
    std::vector<std::int64_t> at(cleave::as_size(rank));
    for (std::int64_t n = 0; n < wanted.elements(); ++n) {
      std::int64_t rest = n, place = 0;
      for (int d = rank; d-- > 0; rest /= wanted[d].size())
        place += (wanted[d].begin + rest % wanted[d].size()) * stride[d];
      ASSERT_EQ(got[cleave::as_size(n)], place);
      only.replace(cleave::as_size(4 * place), 4, bytes, cleave::as_size(4 * place), 4);
    }
    EXPECT_EQ(io::crc<io::crc32c>::finished(sum, 4 * elements), io::crc<io::crc32c>::of(only.data(), std::ssize(only)));
  }
}

const std::string two_arrays =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]}})";
std::string safetensors(const std::string& header, std::size_t bytes) {
  const std::uint64_t length = header.size();
  std::string all(reinterpret_cast<const char*>(&length), 8);
  all += header;
  for (std::size_t i = 0; i < bytes; ++i) all += static_cast<char>(i * 37 + 1);
  return all;
}
std::string npz_of(const std::vector<std::pair<element, std::vector<std::int64_t>>>& arrays) {
  io::catalogue all;
  for (const auto& [type, extents] : arrays) {
    io::stored_array& a = all.arrays.emplace_back();
    a.name = "array." + std::to_string(all.arrays.size());
    a.element = type, a.extents = extents, a.bytes = io::bytes_of_extents(extents, size_of(type));
  }
  auto members = io::npz::members_of(all);
  std::string text;
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::string data;
    for (std::int64_t n = 0; n < all.arrays[i].bytes; ++n) data += static_cast<char>(n * 11 + 3);
    members[i].check = io::crc<io::crc32_of_zip>::of((members[i].header + data).data(), members[i].bytes);
    text += members[i].in_front() + data;
  }
  return text + io::npz::list_of(members, std::ssize(text));
}
std::string npy_of(const std::string& header, std::size_t bytes) {
  std::string all("\x93NUMPY\x01\x00", 8);
  io::npz::append(all, static_cast<std::uint16_t>(header.size()));
  return all + header + std::string(bytes, '\7');
}

TEST(io_formats, what_is_wrong_in_safetensors_is_said) {
  const folder temporary;
  const std::string path = temporary / "a.safetensors";
  write(path, safetensors(two_arrays, 26));
  const auto arrays = read_arrays::read(format::safetensors, path);
  EXPECT_EQ(arrays.at("a").extents, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(arrays.at("b").element, element::bf16);
  EXPECT_EQ(arrays.at("b").bytes, contents(path).substr(8 + two_arrays.size() + 24));
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string header = two_arrays;
    header.replace(header.find(part), part.size(), other);
    write(path, safetensors(header, 26));
    return said(format::safetensors, path);
  };
  const auto expect = [&](const std::string& part, const std::string& other, const std::string& words) {
    const std::string sentence = with(part, other);
    EXPECT_NE(sentence.find(words), std::string::npos) << other << ": " << sentence;
    EXPECT_NE(sentence.find("a.safetensors"), std::string::npos) << sentence;
  };
  expect("[2,3]", "[2,4]", "another shape");
  expect("[2,3]", "[9223372036854775807,9223372036854775807]", "another shape");
  expect("[2,3]", "[-2,-3]", "another shape");
  expect("[2,3]", "[2.0,3]", "no whole number");
  expect("F32", "F33", "unknown type 'F33'");
  expect("[0,24]", "[24,0]", "wrong offsets");
  expect("[0,24]", "[9223372036854775783,9223372036854775807]", "within the file");
  expect("[24,26]", "[20,22]", "overlaps");
  expect("[24,26]", "[25,27]", "within the file");
  expect("\"b\"", "\"a\"", "two arrays have the name 'a'");
  expect(",\"shape\":[]", "", "without dtype, shape");
  expect("\"shape\":[]", "\"shape\":[],\"shape\":[]", "twice");
  expect("[]", "[", "its header has");
  const auto of_bytes = [&](const std::string& bytes) {
    write(path, bytes);
    return said(format::safetensors, path);
  };
  EXPECT_NE(of_bytes("").find("no header"), std::string::npos);
  EXPECT_NE(of_bytes(std::string(8, '\xFF')).find("longer than the file"), std::string::npos);
  EXPECT_NE(of_bytes(safetensors(two_arrays, 25)).find("within the file"), std::string::npos);
  EXPECT_NE(of_bytes(safetensors(two_arrays, 27)).find("no array at the end"), std::string::npos);
  EXPECT_EQ(said(format::safetensors, temporary / "none").find("cleave: cannot read '"), 0u);
  EXPECT_EQ(said(format::safetensors, temporary / "."),
            "cleave: cannot read '" + (temporary / ".") + "': it is no file");
  // A pipe that nobody writes to is not waited for.
  const std::string pipe = temporary / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(said(format::safetensors, pipe), "cleave: cannot read '" + pipe + "': it is no file");
}

TEST(io_formats, sets_of_files_and_their_index) {
  const folder temporary;
  const std::string one = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
                    two = R"({"b":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})";
  write(temporary / "1.safetensors", safetensors(one, 3));
  write(temporary / "2.safetensors", safetensors(two, 8));
  const std::string path = temporary / "m.safetensors.index.json";
  write(path, R"({"metadata":{"total_size":11},"weight_map":{"b":"2.safetensors","a":"1.safetensors"}})");
  const auto arrays = read_arrays::read(format::index, path);
  EXPECT_EQ(arrays.at("a").bytes, contents(temporary / "1.safetensors").substr(8 + one.size()));
  EXPECT_EQ(arrays.at("b").element, element::i64);
  for (const auto& [text, words] :
       {std::pair{R"({"weight_map":{"b":"2.safetensors"}, "x":)", "malformed"},
        {R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors"}})", "no file has array 'b'"},
        {R"({"weight_map":{"c":"1.safetensors"}})", "does not say that 'a'"},
        {R"({"weight_map":{"a":"../1.safetensors"}})", "the file name"},
        {R"({"weight_map":{"a":"3.safetensors"}})", "cannot read"},
        {R"({})", "no weight_map"}}) {
    write(path, text);
    const std::string sentence = said(format::index, path);
    EXPECT_TRUE(sentence.find(words) != std::string::npos || (std::string(words) == "malformed" && !sentence.empty()))
        << text << ": " << sentence;
  }
}

TEST(io_formats, what_is_wrong_in_npz_and_npy_is_said) {
  const folder temporary;
  const std::string path = temporary / "a.npz", npy = temporary / "a.npy";
  const std::string good = npz_of({{element::f32, {3, 4}}, {element::boolean, {}}, {element::c128, {0, 5}}});
  write(path, good);
  const auto arrays = read_arrays::read(format::npz, path);
  ASSERT_EQ(arrays.size(), 3u);
  EXPECT_EQ(arrays.at("array.1").extents, (std::vector<std::int64_t>{3, 4}));
  for (std::size_t n : {std::size_t{0}, good.size() / 2, good.size() - 1}) {
    write(path, good.substr(0, n));
    EXPECT_NE(said(format::npz, path).find("no end of a zip file"), std::string::npos);
  }
  std::string damaged = good;
  damaged[good.find("'descr'") + 150] ^= 1; // an element
  write(path, damaged);
  EXPECT_NE(said(format::npz, path), "");
  std::string packed = good;
  packed[packed.find("PK\1\2") + 10] = 8;
  write(path, packed);
  EXPECT_NE(said(format::npz, path).find("compressed"), std::string::npos);

  write(npy, npy_of("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", 24));
  EXPECT_EQ(read_arrays::read(format::npy, npy).at("").extents, (std::vector<std::int64_t>{2, 3}));
  for (const char* header :
       {"{'descr': '>i4', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 4)}",
        "{'descr': '<i4', 'fortran_order': No, 'shape': (2, 3)}", "{'descr': '<i4', 'shape': (2, 3)}", "{'descr': '<i4",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': [('a', '<i4')], 'shape': (6,)}"}) {
    write(npy, npy_of(header, 24));
    EXPECT_NE(said(format::npy, npy).find("a.npy"), std::string::npos) << header;
  }
}

/// Damaged files from a seed: none crashes or takes more memory than its size and 64 MiB, and each is refused, or read
/// as what stands in it.
TEST(io_formats, two_hundred_damaged_files_of_each_format) {
  const folder temporary;
  const std::string shard = safetensors(two_arrays, 26);
  write(temporary / "1.safetensors", shard);
  const std::string index = R"({"metadata":{},"weight_map":{"a":"1.safetensors","b":"1.safetensors"}})";
  const std::string originals[] = {shard, index,
                                   npz_of({{element::f32, {3, 4}}, {element::i64, {2}}, {element::bf16, {7}}}),
                                   npy_of("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 48)};
  std::mt19937 random(3);
  for (const format f : read_arrays::all_formats) {
    const std::string& original = originals[static_cast<int>(f)];
    const std::string path = temporary / "damaged";
    write(path, original);
    const auto right = read_arrays::read(f, path);
    int refused = 0;
    for (int round = 0; round < 200; ++round) {
      std::string bytes = original;
      for (int change = 0, n = 1 + int(random() % 4); change < n; ++change) {
        const std::size_t at = random() % bytes.size();
        switch (random() % 6) {
          case 0: bytes[at] = static_cast<char>(random()); break;
          case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8); break;
          case 2: bytes.resize(at + 1); break;
          case 3: bytes.insert(at, std::string(1 + random() % 9, "9]{\xFF"[random() % 4])); break;
          case 4: bytes.erase(at, 1 + random() % 9); break;
          default: bytes.replace(at, std::min<std::size_t>(8, bytes.size() - at), "\xFF\xFF\xFF\x7F"); break;
        }
        if (bytes.empty()) bytes = "x";
      }
      write(path, bytes);
      forget_most_bytes_allocated();
      try {
        const auto arrays = read_arrays::read(f, path);
        // With a checksum, what is read under the old name and type has the old values.
        for (const auto& [name, a] : arrays)
          if (const auto at = right.find(name); f == format::npz && at != right.end() &&
                                                at->second.extents == a.extents && at->second.element == a.element) {
            EXPECT_EQ(a.bytes, at->second.bytes) << round;
          }
      } catch (const cleave::file_error& e) {
        ++refused;
        EXPECT_EQ(std::string(e.what()).find("cleave: "),
                  e.what() == std::string("another checksum") ? std::string::npos : 0u);
      }
      EXPECT_LE(most_bytes_allocated(), bytes.size() + (std::size_t{64} << 20));
    }
    EXPECT_GT(refused, 100);
  }
}
/// A header may have 12 MiB, and as many arrays as fit: a byte of it takes less than 6.
TEST(io_formats, many_arrays_take_little_memory) {
  const folder temporary;
  std::string header = "{";
  for (int n = 0; header.size() < std::size_t{1} << 20; ++n)
    header += std::string(n == 0 ? "" : ",") + "\"" + std::to_string(n) +
              R"(":{"dtype":"U8","shape":[],"data_offsets":[)" + std::to_string(n) + "," + std::to_string(n + 1) + "]}";
  header += "}";
  write(temporary / "many",
        safetensors(header, static_cast<std::size_t>(std::count(header.begin(), header.end(), '{') - 1)));
  const std::size_t bytes = header.size();
  header = {};
  forget_most_bytes_allocated();
  const std::size_t before = most_bytes_allocated();
  EXPECT_GT(read_arrays::catalogue_of(format::safetensors, temporary / "many").arrays.size(), 15000u);
  EXPECT_LE(most_bytes_allocated() - before, 6 * bytes);
}

} // namespace CLEAVE_SOURCE
