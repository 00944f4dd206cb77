// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/files/errors.hpp>
#include <cleave/layout/blocks.hpp>
#include <cleave/type/element.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The XDMF file of an HDF5 file, which tells ParaView and others where its fields lie.

namespace cleave { inline namespace v0 { namespace io {

/// Where the points of fields lie, and how fields are written.
struct field_options {
  /// The distance of neighbours along each dim, in the order of the dims; empty stands for 1.
  std::vector<double> spacing{};
  /// The corner of the field with the lowest coordinates, in the order of the dims; empty stands for 0.
  std::vector<double> origin{};
  /// Whether the elements are values of cells, not of points. Fields of cells have one point more along each dim.
  bool cells = false;
  /// The most bytes of a field that rank 0 holds at a time. It holds one index of the first dim at least.
  std::int64_t buffer = std::int64_t{32} << 20;
};

namespace detail {

inline std::string number_text(double x) {
  // Whatever the locale of the program is.
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x, std::chars_format::general, 17).ptr};
}
inline std::string escaped(std::string_view plain) {
  std::string text;
  for (const char c : plain) {
    if (c == '&') text += "&amp;";
    else if (c == '<') text += "&lt;";
    else if (c == '>') text += "&gt;";
    else if (c == '"') text += "&quot;";
    else text += c;
  }
  return text;
}
inline std::string extents_text(const shape& s, std::int64_t more) {
  std::string text;
  for (int d = 0; d < s.rank; ++d) text += (d == 0 ? "" : " ") + std::to_string(s[d] + more);
  return text;
}
/// Numbers along each dim of a mesh, which has two dims at least.
inline std::string along_dims(const std::vector<double>& given, int rank, double missing) {
  std::string text = rank == 1 ? number_text(missing) + " " : "";
  for (int d = 0; d < rank; ++d) text += (d == 0 ? "" : " ") + number_text(given.empty() ? missing : given[as_size(d)]);
  return text;
}

class xdmf_file {
 public:
  xdmf_file(const std::string& data, field_options options) : options_(std::move(options)) {
    std::filesystem::path beside(data);
    name_ = escaped(beside.filename().string());
    path_ = beside.extension() == ".xmf" ? data + ".xmf" : beside.replace_extension(".xmf").string();
  }
  /// Adds a step with fields on points that have these extents.
  void begin_step(double time, const shape& extents) {
    const int rank = std::max(extents.rank, 2);
    const std::string numbers = std::to_string(rank);
    const std::string corner = extents.rank == 1 ? (options_.cells ? "2 " : "1 ") : "";
    const auto item = [&](const std::string& values) {
      return "<DataItem Dimensions=\"" + numbers + "\" NumberType=\"Float\" Precision=\"8\" Format=\"XML\">" + values +
             "</DataItem>";
    };
    steps_ += "   <Grid Name=\"step\" GridType=\"Uniform\">\n    <Time Value=\"" + number_text(time) +
              "\"/>\n    <Topology TopologyType=\"" + numbers + "DCoRectMesh\" Dimensions=\"" + corner +
              extents_text(extents, options_.cells ? 1 : 0) + "\"/>\n    <Geometry GeometryType=\"" +
              (rank == 2 ? "ORIGIN_DXDY" : "ORIGIN_DXDYDZ") + "\">\n     " +
              item(along_dims(options_.origin, extents.rank, 0)) + "\n     " +
              item(along_dims(options_.spacing, extents.rank, 1)) + "\n    </Geometry>\n";
  }
  void add_field(const std::string& name, const std::string& within, element e, const shape& extents) {
    const bool real = e == element::f32 || e == element::f64;
    steps_ += "    <Attribute Name=\"" + escaped(name) + "\" AttributeType=\"Scalar\" Center=\"" +
              (options_.cells ? "Cell" : "Node") + "\">\n     <DataItem Dimensions=\"" + extents_text(extents, 0) +
              "\" NumberType=\"" + (real ? "Float" : "Int") + "\" Precision=\"" + std::to_string(size_of(e)) +
              "\" Format=\"HDF\">" + name_ + ":" + escaped(within) + "</DataItem>\n    </Attribute>\n";
  }
  void end_step() { steps_ += "   </Grid>\n"; }
  /// Replaces the file as a whole, so that nobody reads a part of it.
  void write() const {
    const std::string fresh = path_ + ".new";
    {
      std::ofstream out(fresh, std::ios::binary);
      out << "<?xml version=\"1.0\" ?>\n<Xdmf Version=\"3.0\">\n <Domain>\n"
             "  <Grid Name=\"fields\" GridType=\"Collection\" CollectionType=\"Temporal\">\n"
          << steps_ << "  </Grid>\n </Domain>\n</Xdmf>\n";
      out.close();
      if (!out) fail();
    }
    if (std::rename(fresh.c_str(), path_.c_str()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    const int code = errno;
    raise<file_error>(wording::file_not_written(path_, std::strerror(code)));
  }

  field_options options_;
  std::string name_{}, path_{}, steps_{};
};

} // namespace detail

}}} // namespace cleave::v0::io
