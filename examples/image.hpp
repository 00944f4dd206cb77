// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a field as a PNG image, without a library: the deflate stream of the file is not compressed.
#pragma once

#include "options.hpp"

#include <cleave/redistribute/copy.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

class png_file {
 public:
  /// The field is row-major. The lowest colour is that of `low`, the highest that of `high`.
  png_file(const std::vector<double>& field, std::size_t rows, std::size_t cols, double low, double high) {
    std::string raw;
    for (std::size_t i = 0; i < rows; ++i) {
      raw += '\0'; // the row is not filtered
      for (std::size_t j = 0; j < cols; ++j) raw += colour((field[i * cols + j] - low) / (high - low));
    }
    bytes_ = "\x89PNG\r\n\x1a\n";
    chunk("IHDR", big_endian(cols) + big_endian(rows) + std::string("\x08\x02\x00\x00\x00", 5)); // 8 bits, RGB
    chunk("IDAT", stored(raw));
    chunk("IEND", {});
  }
  /// Whether the file could be written.
  bool write(const std::string& path) const {
    std::ofstream file(path, std::ios::binary);
    file.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    return static_cast<bool>(file.flush());
  }

 private:
  /// From dark blue over turquoise to a light yellow.
  static std::string colour(double at) {
    constexpr double stops[4][3] = {{0.05, 0.08, 0.30}, {0.10, 0.42, 0.62}, {0.35, 0.78, 0.66}, {0.98, 0.97, 0.75}};
    const double x = std::isfinite(at) ? 3 * std::clamp(at, 0.0, 1.0) : 0;
    const int n = std::min(static_cast<int>(x), 2);
    std::string rgb;
    for (int c = 0; c < 3; ++c)
      rgb += static_cast<char>(static_cast<int>(255 * (stops[n][c] + (x - n) * (stops[n + 1][c] - stops[n][c]))));
    return rgb;
  }
  static std::string big_endian(std::size_t n) {
    std::string s;
    for (int shift = 24; shift >= 0; shift -= 8) s += static_cast<char>(n >> shift & 255);
    return s;
  }
  /// A zlib stream of blocks that are stored as they are, up to 65535 bytes each.
  static std::string stored(std::string_view raw) {
    std::string s = "\x78\x01";
    std::uint32_t a = 1, b = 0;
    for (const char c : raw) {
      a = (a + static_cast<unsigned char>(c)) % 65521;
      b = (b + a) % 65521;
    }
    while (!raw.empty()) {
      const std::string_view block = raw.substr(0, 65535);
      raw.remove_prefix(block.size());
      const auto n = static_cast<unsigned>(block.size());
      s += static_cast<char>(raw.empty() ? 1 : 0);
      for (const unsigned word : {n, ~n}) s += {static_cast<char>(word & 255), static_cast<char>(word >> 8 & 255)};
      s += block;
    }
    return s + big_endian(b << 16 | a);
  }
  void chunk(std::string_view name, std::string_view data) {
    const std::string body = std::string(name) + std::string(data);
    std::uint32_t crc = ~0u;
    for (const char c : body) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
    }
    bytes_ += big_endian(data.size()) + body + big_endian(~crc);
  }
  std::string bytes_{};
};

/// Writes a field of two dims, with a line that says so; rank 0 does. Collective; throws on every rank where the file
/// cannot be written. No path: no image.
template <class Field>
void write_image(const std::string& path, const Field& field, const char* what, bool speaks) {
  if (path.empty()) return;
  const std::vector<double> all = gather_to(field, 0);
  bool written = true;
  if (speaks) {
    const auto [low, high] = std::minmax_element(all.begin(), all.end());
    const png_file image(all, static_cast<std::size_t>(field.extent(0)), static_cast<std::size_t>(field.extent(1)),
                         *low, *high);
    written = image.write(path);
    if (written) std::printf("%s: %s from %.3f to %.3f\n", path.c_str(), what, *low, *high);
  }
  if (!agreed(written)) throw std::runtime_error("cannot write the image '" + path + "'");
}

} // namespace examples
