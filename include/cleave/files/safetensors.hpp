// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/files/json.hpp>
#include <cleave/files/stored.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The format safetensors: the length of a header in 8 bytes, the header, which is JSON, and the arrays side by side.

namespace cleave { inline namespace v0 { namespace io { namespace detail { namespace safetensors {

/// A longer header is refused, so that a damaged length allocates nothing large.
inline constexpr std::int64_t longest_header = std::int64_t{12} << 20, most_files = 10000;

struct type_name {
  std::string_view name;
  std::int64_t bytes;
  cleave::element element;
};
/// The types of the format, also those that Cleave does not have.
inline constexpr type_name types[] = {{"BOOL", 1, element::boolean}, {"I8", 1, element::i8},
                                      {"U8", 1, element::u8},        {"I32", 4, element::i32},
                                      {"U32", 4, element::u32},      {"I64", 8, element::i64},
                                      {"U64", 8, element::u64},      {"BF16", 2, element::bf16},
                                      {"F16", 2, element::f16},      {"F32", 4, element::f32},
                                      {"F64", 8, element::f64},      {"C64", 8, element::c64},
                                      {"I16", 2, element::none},     {"U16", 2, element::none},
                                      {"F8_E4M3", 1, element::none}, {"F8_E5M2", 1, element::none},
                                      {"F8_E8M0", 1, element::none}};

/// One array of the header.
inline stored_array read_entry(json_reader& in, const std::string& name, const catalogue& all) {
  stored_array a;
  a.name = name;
  std::vector<std::int64_t> offsets;
  const type_name* type = nullptr;
  unsigned seen = 0;
  const auto once = [&](unsigned bit) {
    if ((seen & bit) != 0) in.refuse("a member twice");
    seen |= bit;
  };
  in.object([&](const std::string& key) {
    if (key == "dtype") {
      once(1);
      const std::string word = in.string();
      for (const type_name& t : types)
        if (t.name == word) type = &t;
      if (type == nullptr) all.refuse("array '" + name + "' has the unknown type '" + word + "'");
    } else if (key == "shape") {
      once(2);
      in.list([&] { a.extents.push_back(in.whole()); });
    } else if (key == "data_offsets") {
      once(4);
      in.list([&] { offsets.push_back(in.whole()); });
    } else {
      in.refuse("an unknown member");
    }
  });
  if (seen != 7 || offsets.size() != 2) in.refuse("an array without dtype, shape or two data_offsets");
  if (offsets[0] < 0 || offsets[1] < offsets[0]) all.refuse("array '" + name + "' has wrong offsets");
  a.element = type->element;
  a.type = type->name;
  a.begin = offsets[0];
  a.bytes = offsets[1] - offsets[0];
  if (bytes_of_extents(a.extents, type->bytes) != a.bytes)
    all.refuse("array '" + name + "' has another shape than its offsets say");
  return a;
}

/// Adds the arrays of one file, which is the last of `all.files`.
inline void read_header(const file& in, catalogue& all) {
  if (in.size() < 8) all.refuse("it has no header");
  std::uint64_t length = 0;
  in.read(0, &length, 8);
  if (length > static_cast<std::uint64_t>(in.size() - 8)) all.refuse("its header is longer than the file");
  if (length > static_cast<std::uint64_t>(longest_header)) all.refuse("its header is longer than 12 MiB");
  const auto bytes = static_cast<std::int64_t>(length);
  const std::string header = in.text(8, bytes);
  const std::int64_t number = std::ssize(all.files) - 1, begin = 8 + bytes;
  try {
    json_reader read(header);
    read.object([&](const std::string& name) {
      if (name == "__metadata__") return read.object([&](const std::string&) { read.string(); });
      stored_array a = read_entry(read, name, all);
      // Within the file, so that the sum does not overflow.
      if (a.begin > in.size() - begin) all.refuse("array '" + name + "' does not lie within the file");
      a.begin += begin;
      a.file = number;
      all.arrays.push_back(std::move(a));
    });
    read.end();
  } catch (const malformed& e) {
    all.refuse(std::string("its header has ") + e.what());
  }
  all.check_places(number, begin, in.size(), true);
}

/// The arrays of a file, or of the files of a set that an index names.
inline catalogue read(const std::string& path, bool is_index) {
  catalogue all{"safetensors", path, {}, {}, {}};
  if (!is_index) {
    all.files.push_back(path);
    read_header(file(path), all);
    return all.sort(), all;
  }
  const file index(path);
  if (index.size() > longest_header) all.refuse("it is longer than 12 MiB");
  std::deque<std::pair<std::string, std::int64_t>> file_of; // much smaller than a map
  std::map<std::string, std::int64_t> numbers;
  try {
    const std::string text = index.text(0, index.size());
    json_reader read(text);
    bool found = false;
    read.object([&](const std::string& key) {
      if (key != "weight_map") return read.skip();
      found = true;
      read.object([&](const std::string& name) {
        const std::string in = read.string();
        if (in.empty() || in.find('/') != std::string::npos) read.refuse("the file name '" + in + "'");
        file_of.emplace_back(name, numbers.emplace(in, std::ssize(numbers)).first->second);
        if (std::ssize(numbers) > most_files) read.refuse("more than 10000 files");
      });
    });
    read.end();
    if (!found) read.refuse("no weight_map");
  } catch (const malformed& e) {
    all.refuse(std::string("it has ") + e.what());
  }
  all.files.resize(numbers.size());
  for (const auto& [name, number] : numbers) {
    catalogue one{"safetensors", folder_of(path) + "/" + name, {}, {}, {}};
    one.files.resize(as_size(number) + 1);
    read_header(file(one.path), one);
    all.files[as_size(number)] = one.path;
    for (stored_array& a : one.arrays) all.arrays.push_back(std::move(a));
  }
  all.sort();
  std::sort(file_of.begin(), file_of.end());
  for (std::size_t i = 0; i < std::max(file_of.size(), all.arrays.size()); ++i) {
    // Both are in the order of the names.
    const bool more = i < file_of.size(), is_there = i < all.arrays.size();
    if (!is_there || (more && file_of[i].first < all.arrays[i].name))
      all.refuse("no file has array '" + file_of[i].first + "'");
    const stored_array& a = all.arrays[i];
    if (!more || file_of[i] != std::pair(a.name, a.file))
      all.refuse("it does not say that '" + a.name + "' is in '" + all.files[as_size(a.file)] + "'");
  }
  return all;
}

/// Gives the arrays of a file their places, in their order, and returns the header before them.
inline std::string header_of(catalogue& all) {
  std::string text = "{";
  std::int64_t begin = 0;
  for (stored_array& a : all.arrays) {
    for (const type_name& t : types)
      if (t.element == a.element) a.type = t.name;
    if (a.type.empty()) raise<file_error>(wording::array_not_stored(all.path, a.name, name_of(a.element)));
    const std::int64_t places[] = {begin, begin + a.bytes};
    text += (text.size() == 1 ? "" : ",") + json_text(a.name) + ":{\"dtype\":\"" + std::string(a.type) +
            "\",\"shape\":" + json_list(a.extents) + ",\"data_offsets\":" + json_list(places) + "}";
    a.begin = begin;
    begin += a.bytes;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > longest_header)
    raise<file_error>(wording::file_not_written(all.path, "its header would be longer than 12 MiB"));
  const std::uint64_t length = text.size();
  for (stored_array& a : all.arrays) a.begin += 8 + static_cast<std::int64_t>(length);
  std::string all_of_it(8, '\0');
  std::memcpy(all_of_it.data(), &length, 8);
  return all_of_it + text;
}

}}}}} // namespace cleave::v0::io::detail::safetensors
