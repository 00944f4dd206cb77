// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/files/stored.hpp>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The formats of numpy: npy, an array behind a header in Python's notation, and npz, a zip file of these.

namespace cleave { inline namespace v0 { namespace io { namespace detail { namespace npz {

struct type_name {
  std::string_view name;
  cleave::element element;
};
/// numpy knows bfloat16 as 2 bytes without a meaning (|V2), for which ml_dtypes has the meaning.
inline constexpr type_name types[] = {{"|b1", element::boolean}, {"|i1", element::i8},   {"|u1", element::u8},
                                      {"<i4", element::i32},     {"<u4", element::u32},  {"<i8", element::i64},
                                      {"<u8", element::u64},     {"|V2", element::bf16}, {"<V2", element::bf16},
                                      {"<f2", element::f16},     {"<f4", element::f32},  {"<f8", element::f64},
                                      {"<c8", element::c64},     {"<c16", element::c128}};

inline constexpr std::int64_t longest_header = std::int64_t{1} << 16, local_bytes = 30, wide_bytes = 20,
                              central_bytes = 46, end_bytes = 22, wide_end_bytes = 56, locator_bytes = 20;
inline constexpr std::uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50,
                               wide_end_mark = 0x06064b50, locator_mark = 0x07064b50;

/// A number of a zip file, which is little-endian.
template <class Number>
Number number_at(std::string_view bytes, std::int64_t at) {
  Number n;
  std::memcpy(&n, bytes.data() + at, sizeof n);
  return n;
}
template <class Number>
void append(std::string& bytes, Number n) {
  bytes.append(reinterpret_cast<const char*>(&n), sizeof n);
}

inline void append_words(std::string& bytes, std::initializer_list<int> all) {
  for (const int n : all) append(bytes, static_cast<std::uint16_t>(n));
}

/// Reads the header of npy: a dict of Python with a word, a bool and a tuple of numbers.
class header_reader {
 public:
  header_reader(std::string_view text, const catalogue& all, stored_array& into) : text_(text), all_(all), into_(into) {
    take('{');
    unsigned seen = 0;
    while (!take_if('}')) {
      const std::string key = word();
      take(':');
      const unsigned bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (bit == 0 || (seen & bit) != 0) refuse();
      seen |= bit;
      if (bit == 1) type(word());
      else if (bit == 2) into_.first_axis_fastest = truth();
      else extents();
      if (!take_if(',')) {
        take('}');
        break;
      }
    }
    spaces();
    if (seen != 7 || at_ != text_.size()) refuse();
  }

 private:
  [[noreturn]] void refuse() const { all_.refuse("array '" + into_.name + "' has a malformed header"); }
  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take_if(char c) {
    spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void take(char c) {
    if (!take_if(c)) refuse();
  }
  std::string word() {
    const char quote = take_if('\'') ? '\'' : (take('"'), '"');
    const auto end = text_.find(quote, at_);
    if (end == std::string_view::npos) refuse();
    const std::string made(text_.substr(at_, end - at_));
    at_ = end + 1;
    return made;
  }
  bool truth() {
    spaces();
    for (const std::string_view w : {"True", "False"})
      if (text_.substr(at_, w.size()) == w) return at_ += w.size(), w == "True";
    refuse();
  }
  void extents() {
    take('(');
    while (!take_if(')')) {
      std::int64_t n = 0;
      const std::size_t first = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text_[at_] - '0', &n)) refuse();
      if (at_ == first) refuse();
      into_.extents.push_back(n);
      if (!take_if(',')) {
        take(')');
        break;
      }
    }
  }
  void type(const std::string& name) {
    for (const type_name& t : types)
      if (t.name == name) into_.element = t.element, into_.type = t.name;
    if (into_.element == element::none)
      all_.refuse("array '" + into_.name + "' has the type '" + name + "', which tensors do not have");
  }

  std::string_view text_;
  const catalogue& all_;
  stored_array& into_;
  std::size_t at_ = 0;
};

/// The array in the bytes from `begin` to `end` of a file. Returns its header, with all that stands before elements.
inline std::string read_array(const file& in, std::int64_t begin, std::int64_t end, stored_array& a,
                              const catalogue& all) {
  const auto refuse = [&] { all.refuse("array '" + a.name + "' is no npy file"); };
  if (end - begin < 12) refuse();
  std::string head = in.text(begin, 12);
  const bool is_long = head[6] != 1;
  if (head.substr(0, 6) != "\x93NUMPY" || head[6] < 1 || head[6] > 3) refuse();
  const std::int64_t length = is_long ? number_at<std::uint32_t>(head, 8) : number_at<std::uint16_t>(head, 8);
  const std::int64_t before = is_long ? 12 : 10;
  if (length > longest_header || length > end - begin - before) refuse();
  head = in.text(begin, before + length);
  header_reader(std::string_view(head).substr(as_size(before)), all, a);
  a.begin = begin + std::ssize(head);
  a.bytes = bytes_of_extents(a.extents, size_of(a.element));
  if (a.bytes != end - a.begin) all.refuse("array '" + a.name + "' has another shape than its bytes");
  return head;
}
inline catalogue read_npy(const std::string& path) {
  catalogue all{"npy", path, {path}, {}, {}};
  const file in(path);
  read_array(in, 0, in.size(), all.arrays.emplace_back(), all);
  return all;
}

/// Reads the list of members at the end of a zip file.
class zip_reader {
 public:
  explicit zip_reader(const std::string& path) : all_{"npz", path, {path}, {}, {block_checks::by::zip, 0}}, in_(path) {
    find_list();
    // In portions, as the list may be as long as the file.
    for (std::int64_t i = 0; i < members_; ++i) read_member();
    if (at_ != end_) all_.refuse("its list of members has another length");
    all_.check_places(0, 0, end_ - listed_, false);
    all_.sort();
  }
  catalogue take() { return std::move(all_); }

 private:
  void find_list() {
    const std::int64_t size = in_.size(), most = std::min<std::int64_t>(size, end_bytes + 0xFFFF);
    const std::string tail = in_.text(size - most, most);
    std::int64_t at = most - end_bytes;
    while (at >= 0 && (number_at<std::uint32_t>(tail, at) != end_mark ||
                       number_at<std::uint16_t>(tail, at + 20) != most - end_bytes - at))
      --at;
    if (at < 0) all_.refuse("it has no end of a zip file");
    members_ = number_at<std::uint16_t>(tail, at + 10);
    listed_ = number_at<std::uint32_t>(tail, at + 12);
    at_ = number_at<std::uint32_t>(tail, at + 16);
    end_ = size - most + at;
    const bool wide = members_ == 0xFFFF || listed_ == 0xFFFFFFFF || at_ == 0xFFFFFFFF;
    if (wide && end_ >= locator_bytes + wide_end_bytes) {
      const std::string locator = in_.text(end_ - locator_bytes, locator_bytes);
      if (number_at<std::uint32_t>(locator, 0) == locator_mark) {
        end_ = number_at<std::int64_t>(locator, 8);
        if (end_ < 0 || end_ > in_.size() - locator_bytes - wide_end_bytes) all_.refuse("its end lies outside");
        const std::string record = in_.text(end_, wide_end_bytes);
        if (number_at<std::uint32_t>(record, 0) != wide_end_mark) all_.refuse("it has no end of a large zip file");
        members_ = number_at<std::int64_t>(record, 32);
        listed_ = number_at<std::int64_t>(record, 40);
        at_ = number_at<std::int64_t>(record, 48);
      }
    }
    if (at_ < 0 || listed_ < 0 || at_ > end_ || listed_ != end_ - at_ || members_ < 0 ||
        members_ > listed_ / central_bytes)
      all_.refuse("its list of members lies outside");
  }
  void read_member() {
    if (end_ - at_ < central_bytes) all_.refuse("its list of members ends too early");
    const std::string head = in_.text(at_, central_bytes);
    const std::int64_t name = number_at<std::uint16_t>(head, 28), extra = number_at<std::uint16_t>(head, 30),
                       comment = number_at<std::uint16_t>(head, 32);
    if (number_at<std::uint32_t>(head, 0) != central_mark || end_ - at_ < central_bytes + name + extra + comment)
      all_.refuse("its list of members is malformed");
    const std::string more = in_.text(at_ + central_bytes, name + extra);
    at_ += central_bytes + name + extra + comment;
    std::int64_t bytes = number_at<std::uint32_t>(head, 24), packed = number_at<std::uint32_t>(head, 20),
                 begin = number_at<std::uint32_t>(head, 42);
    widen(std::string_view(more).substr(as_size(name)), {&bytes, &packed, &begin});
    stored_array a;
    a.name = more.substr(0, as_size(name));
    if (a.name.size() < 4 || a.name.substr(a.name.size() - 4) != ".npy") return; // for others than numpy
    a.name.resize(a.name.size() - 4);
    if (number_at<std::uint16_t>(head, 10) != 0 || packed != bytes)
      all_.refuse("array '" + a.name + "' is compressed, and only arrays of numpy.savez are read");
    if ((number_at<std::uint16_t>(head, 8) & 1) != 0) all_.refuse("array '" + a.name + "' is encrypted");
    const std::int64_t least = end_ - listed_;
    if (begin < 0 || bytes < 0 || begin > least - local_bytes || bytes > least - local_bytes - begin)
      all_.refuse("array '" + a.name + "' does not lie within the file");
    const std::string local = in_.text(begin, local_bytes);
    const std::int64_t skipped = number_at<std::uint16_t>(local, 26) + number_at<std::uint16_t>(local, 28);
    if (number_at<std::uint32_t>(local, 0) != local_mark || number_at<std::uint16_t>(local, 26) != name ||
        bytes > least - local_bytes - begin - skipped ||
        in_.text(begin + local_bytes, name) != more.substr(0, as_size(name)))
      all_.refuse("array '" + a.name + "' is not where the list of members says");
    begin += local_bytes + skipped;
    const std::string header = read_array(in_, begin, begin + bytes, a, all_);
    add_checks(a, header, number_at<std::uint32_t>(head, 16));
    all_.arrays.push_back(std::move(a));
  }
  /// Numbers that do not fit into 32 bits stand in an extra field, those alone.
  static void widen(std::string_view extra, std::initializer_list<std::int64_t*> numbers) {
    while (extra.size() >= 4) {
      const auto length = std::size_t{number_at<std::uint16_t>(extra, 2)} + 4;
      if (length > extra.size()) return;
      std::size_t at = 4;
      if (number_at<std::uint16_t>(extra, 0) == 1)
        for (std::int64_t* n : numbers)
          if (*n == 0xFFFFFFFF && at + 8 <= length) *n = number_at<std::int64_t>(extra, as_signed(at)), at += 8;
      extra.remove_prefix(length);
    }
  }
  /// The check of a member is one of its header too.
  static void add_checks(stored_array& a, const std::string& header, std::uint32_t whole) {
    using check = crc<crc32_of_zip>;
    stored_piece p{0,
                   a.begin,
                   {},
                   {whole ^ check::times(check::factor(a.bytes), check::of(header.data(), std::ssize(header)))}};
    for (const std::int64_t n : a.extents) p.along.push_back({0, n});
    a.pieces.push_back(std::move(p));
  }

  catalogue all_;
  file in_;
  std::int64_t members_ = 0, listed_ = 0, at_ = 0, end_ = 0;
};

/// The header of an array, padded so that its elements are aligned to 64 bytes behind `before` others.
inline std::string header_of(const stored_array& a, const std::string& path, std::int64_t before) {
  std::string_view type;
  for (const type_name& t : types)
    if (t.element == a.element && type.empty()) type = t.name;
  if (type.empty()) raise<file_error>(wording::array_not_stored(path, a.name, name_of(a.element)));
  std::string text = "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t n : a.extents) text += std::to_string(n) + ", ";
  if (a.extents.size() > 1) text.resize(text.size() - 2);
  else if (a.extents.size() == 1) text.pop_back();
  text += "), }";
  text.append(as_size(63 - (before + 10 + std::ssize(text)) % 64), ' ');
  text += '\n';
  std::string all("\x93NUMPY\x01\x00", 8);
  append(all, static_cast<std::uint16_t>(text.size()));
  return all + text;
}

/// The entry of a member in a zip file: in front of it, and in the list at its end. All numbers that may be large are
/// in the extra field.
struct member {
  std::string name;
  std::string header;
  std::int64_t at = 0, bytes = 0;
  std::uint32_t check = 0;

  std::string common() const {
    std::string text;
    append_words(text, {45, 0x800, 0, 0, 0x21}); // version 4.5, UTF-8, stored, 1980-01-01
    append(text, check);
    return text + std::string(8, '\xFF');
  }
  std::string in_front() const {
    std::string text;
    append(text, local_mark);
    text += common();
    append(text, static_cast<std::uint16_t>(name.size()));
    append(text, static_cast<std::uint16_t>(wide_bytes));
    text += name;
    append_words(text, {1, 16});
    append(text, bytes), append(text, bytes);
    return text + header;
  }
  std::string in_list() const {
    std::string text;
    append(text, central_mark);
    append(text, std::uint16_t{45});
    text += common();
    append(text, static_cast<std::uint16_t>(name.size()));
    append(text, static_cast<std::uint16_t>(wide_bytes + 8));
    text += std::string(10, '\0') + std::string(4, '\xFF') + name;
    append_words(text, {1, 24});
    append(text, bytes), append(text, bytes), append(text, at);
    return text;
  }
};
/// Gives the arrays their places in a file, in their order.
inline std::vector<member> members_of(catalogue& all) {
  std::vector<member> made;
  std::int64_t at = 0;
  for (stored_array& a : all.arrays) {
    member m{a.name + ".npy", {}, at, 0, 0};
    const std::int64_t front = local_bytes + std::ssize(m.name) + wide_bytes;
    m.header = header_of(a, all.path, at + front);
    m.bytes = std::ssize(m.header) + a.bytes;
    a.begin = at + front + std::ssize(m.header);
    at += front + m.bytes;
    made.push_back(std::move(m));
  }
  return made;
}
/// The list of members and the end of the file, behind `at` bytes.
inline std::string list_of(const std::vector<member>& all, std::int64_t at) {
  std::string text;
  for (const member& m : all) text += m.in_list();
  const auto count = std::ssize(all), bytes = std::ssize(text);
  append(text, wide_end_mark), append(text, std::int64_t{44});
  append(text, std::uint16_t{45}), append(text, std::uint16_t{45}), append(text, std::int64_t{0});
  append(text, count), append(text, count), append(text, bytes), append(text, at);
  append(text, locator_mark), append(text, std::uint32_t{0}), append(text, at + bytes), append(text, std::uint32_t{1});
  append(text, end_mark), append(text, std::uint32_t{0});
  return text + std::string(12, '\xFF') + std::string(2, '\0');
}

}}}}} // namespace cleave::v0::io::detail::npz
