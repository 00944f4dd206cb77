// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/io/field_file.hpp>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// Fields are written on all ranks, and read back on rank 0 by HDF5 itself.

namespace CLEAVE_SOURCE {

namespace io = cleave::io;

inline constexpr cleave::axis<"a"> a;
inline constexpr cleave::axis<"b"> b;
inline constexpr cleave::mesh mesh{a, b};
inline constexpr cleave::dim<"i"> i;
inline constexpr cleave::dim<"j"> j;
inline constexpr cleave::dim<"k"> k;

std::vector<cleave::grid> all_grids() {
  const std::int64_t n = support::ranks();
  std::vector<cleave::grid> all{cleave::grid(mesh, MPI_COMM_WORLD, {n, 1}), cleave::grid(mesh, MPI_COMM_WORLD, {1, n})};
  // Rank 0, which writes, is no device of this one.
  if (n > 1) all.emplace_back(mesh, MPI_COMM_WORLD, std::vector<std::int64_t>{n - 1, 1}, cleave::on_ranks{1, 1});
  return all;
}
/// A folder of rank 0 that is gone at the end of the test.
class folder {
 public:
  folder() {
    int number = int(getpid());
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    at_ = std::filesystem::temp_directory_path() / ("cleave_fields_" + std::to_string(number));
    if (support::rank() == 0) std::filesystem::create_directories(at_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (support::rank() == 0) std::filesystem::remove_all(at_, ignored);
  }
  std::string operator/(const char* name) const { return (at_ / name).string(); }

 private:
  std::filesystem::path at_;
};

template <class T>
T value(std::int64_t place, int step) {
  const auto n = static_cast<T>(place * 7 + step * 1000 - 11);
  if constexpr (std::is_floating_point_v<T>) return n / 3;
  else if constexpr (std::is_same_v<T, std::int64_t>) return n * (std::int64_t{1} << 40);
  else return n;
}
template <class Tensor>
Tensor filled(const cleave::grid& g, const typename Tensor::extents_type& extents, int step) {
  Tensor x(g, extents);
  x.fill_by([&](const auto& at) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < at.size(); ++d) place = place * extents[d] + at[d];
    return value<typename Tensor::element_type>(place, step);
  });
  return x;
}

template <class T>
hid_t memory_type() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  else if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  else if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  else return H5T_NATIVE_INT64;
}
/// Compares a data set of the file with what was filled in, on rank 0.
template <class T>
void expect_stored(const std::string& path, const std::string& name, const std::vector<std::int64_t>& extents,
                   int step) {
  if (support::rank() != 0) return;
  SCOPED_TRACE(path + " " + name);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t set = H5Dopen2(file, name.c_str(), H5P_DEFAULT), space = H5Dget_space(set), type = H5Dget_type(set);
  EXPECT_GE(set, 0);
  EXPECT_GT(H5Tequal(type, memory_type<T>()), 0);
  std::vector<hsize_t> found(static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(space), 0)));
  H5Sget_simple_extent_dims(space, found.data(), nullptr);
  EXPECT_EQ(std::vector<std::int64_t>(found.begin(), found.end()), extents);
  std::vector<T> all(static_cast<std::size_t>(std::max<hssize_t>(H5Sget_simple_extent_npoints(space), 0)));
  EXPECT_GE(H5Dread(set, memory_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()), 0);
  std::int64_t wrong = 0;
  for (std::size_t n = 0; n < all.size(); ++n) wrong += all[n] == value<T>(static_cast<std::int64_t>(n), step) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
}
double stored_time(const std::string& path, const char* group) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t attribute = H5Aopen_by_name(file, group, "time", H5P_DEFAULT, H5P_DEFAULT);
  double time = -1;
  H5Aread(attribute, H5T_NATIVE_DOUBLE, &time);
  H5Aclose(attribute);
  H5Fclose(file);
  return time;
}
std::string text_of(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}
int times_in(const std::string& text, const std::string& words) {
  int n = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++n;
  return n;
}
/// The sentence of the exception on this rank, which must be the same everywhere.
template <class Error, class F>
std::string said_everywhere(F&& f) {
  std::string mine;
  try {
    f();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    mine = e.what();
  }
  std::string first = mine;
  int length = static_cast<int>(first.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  first.resize(static_cast<std::size_t>(length));
  MPI_Bcast(first.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_EQ(mine, first);
  return mine;
}

TEST(fields_io, every_rank_type_and_layout_over_several_steps) {
  const folder temporary;
  for (const cleave::grid& g : all_grids())
    for (const std::int64_t buffer : {std::int64_t{1}, std::int64_t{300}, std::int64_t{1} << 25}) {
      const std::string one = temporary / "one.h5", two = temporary / "two.h5", three = temporary / "three.h5";
      io::field_file line(g, one, {.buffer = buffer}), plane(g, two, {.buffer = buffer}),
          space(g, three, {.buffer = buffer});
      for (int step = 0; step < 3; ++step) {
        const auto f = filled<cleave::tensor<float, mesh(i / a / b)>>(g, {13}, step);
        line.write(step, io::field{"f", f});
        const auto rows = filled<cleave::tensor<double, mesh(i / a, j / b)>>(g, {7, 11}, step);
        const auto columns = filled<cleave::tensor<std::int32_t, mesh(i, j / a)>>(g, {7, 11}, step);
        const auto copies = filled<cleave::tensor<std::int64_t, mesh(i, j)>>(g, {7, 11}, step);
        plane.write(0.5 * step, io::field{"rows", rows}, io::field{"columns", columns}, io::field{"copies", copies});
        const auto block = filled<cleave::tensor<float, mesh(i / b, j, k / a)>>(g, {5, 2, 9}, step);
        space.write(step, io::field{"block", block});
      }
      EXPECT_EQ(plane.steps(), 3);
      for (int step = 0; step < 3; ++step) {
        const std::string group = "/step_00000" + std::to_string(step) + "/";
        expect_stored<float>(one, group + "f", {13}, step);
        expect_stored<double>(two, group + "rows", {7, 11}, step);
        expect_stored<std::int32_t>(two, group + "columns", {7, 11}, step);
        expect_stored<std::int64_t>(two, group + "copies", {7, 11}, step);
        expect_stored<float>(three, group + "block", {5, 2, 9}, step);
        if (support::rank() == 0) {
          EXPECT_EQ(stored_time(two, group.c_str()), 0.5 * step);
        }
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
}

TEST(fields_io, partial_values_and_wrapped_views) {
  const folder temporary;
  const std::string path = temporary / "partial.h5";
  const std::int64_t n = support::ranks();
  const cleave::grid g(mesh, MPI_COMM_WORLD, {n, 1});
  cleave::tensor<double, mesh(i, j, cleave::unreduced(a))> sums(g, {4, 6});
  sums.fill_by([](const auto& at) { return value<double>(at[0] * 6 + at[1], 0); });
  cleave::tensor<double, mesh(i / a, j)> shape_only(g, {4, 6});
  Kokkos::View<double**, Kokkos::LayoutLeft, cleave::memory_space> mine(
      "columns", static_cast<std::size_t>(shape_only.local_extents()[0]), 6);
  cleave::tensor<double, mesh(i / a, j)> wrapped(g, {4, 6}, mine);
  wrapped.fill_by([](const auto& at) { return value<double>(at[0] * 6 + at[1], 0); });
  io::field_file out(g, path);
  out.write(0, io::field{"sums", sums}, io::field{"wrapped", wrapped});
  expect_stored<double>(path, "/step_000000/sums", {4, 6}, 0);
  expect_stored<double>(path, "/step_000000/wrapped", {4, 6}, 0);
}

TEST(fields_io, the_xdmf_file_is_complete_after_each_step) {
  const folder temporary;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  const auto f = filled<cleave::tensor<double, mesh(i / a, j)>>(g, {7, 11}, 0);
  io::field_file points(g, temporary / "a&b.h5", {.spacing = {0.5, 0.25}, .origin = {-1, 2}}),
      cells(g, temporary / "cells", {.cells = true});
  for (int step = 0; step < 3; ++step) {
    points.write(0.125 * step, io::field{"f<1>", f});
    if (support::rank() != 0) continue;
    const std::string text = text_of(temporary / "a&b.xmf");
    EXPECT_EQ(times_in(text, "<Time Value="), step + 1);
    EXPECT_EQ(times_in(text, "<Topology TopologyType=\"2DCoRectMesh\" Dimensions=\"7 11\"/>"), step + 1);
    EXPECT_EQ(times_in(text, ">-1 2</DataItem>"), step + 1);
    EXPECT_EQ(times_in(text, ">0.5 0.25</DataItem>"), step + 1);
    EXPECT_EQ(times_in(text, ">a&amp;b.h5:/step_00000" + std::to_string(step) + "/f&lt;1&gt;</DataItem>"), 1);
    EXPECT_EQ(times_in(text, "</Xdmf>"), 1);
  }
  cells.write(0, io::field{"f", f});
  if (support::rank() == 0) {
    EXPECT_EQ(times_in(text_of(temporary / "cells.xmf"), "Dimensions=\"8 12\"/>"), 1);
  }
}

TEST(fields_io, what_is_wrong_is_said_on_all_ranks) {
  const folder temporary;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  const auto f = filled<cleave::tensor<double, mesh(i / a, j)>>(g, {7, 11}, 0);
  const auto other = filled<cleave::tensor<double, mesh(i / a, j)>>(g, {7, 12}, 0);
  EXPECT_EQ(said_everywhere<cleave::file_error>([&] { io::field_file(g, "/nowhere/f.h5"); }),
            "cleave: cannot write '/nowhere/f.h5': No such file or directory");
  if (std::filesystem::exists("/dev/full"))
    said_everywhere<cleave::file_error>([&] { io::field_file(g, "/dev/full"); });
  io::field_file out(g, temporary / "f.h5", {.spacing = {1, 1}});
  EXPECT_EQ(said_everywhere<cleave::shape_error>([&] { out.write(0, io::field{"f", f}, io::field{"g", other}); }),
            "cleave: the extents of field 'f' are 7 11, but those of 'g' in the same step are 7 12");
  EXPECT_EQ(said_everywhere<cleave::file_error>([&] { out.write(0, io::field{"f", f}, io::field{"f", f}); }),
            "cleave: two fields of one step have the name 'f'");
  EXPECT_EQ(said_everywhere<cleave::file_error>([&] { out.write(0, io::field{"a/b", f}); }),
            "cleave: a field in a file cannot have the name 'a/b'");
  io::field_file line(g, temporary / "line.h5", {.origin = {1}});
  EXPECT_EQ(said_everywhere<cleave::shape_error>([&] { line.write(0, io::field{"f", f}); }),
            "cleave: field 'f' has 2 dims, but origin has 1 numbers");
  EXPECT_THROW(gather_slabs(f, support::ranks(), 100, [](auto...) {}), cleave::mesh_error);
  out.write(0, io::field{"f", f}); // the mistakes have changed nothing
  expect_stored<double>(temporary / "f.h5", "/step_000000/f", {7, 11}, 0);
}

/// As on a full disk: files of this process cannot grow further.
TEST(fields_io, a_full_disk_is_an_error_on_all_ranks_and_ends_the_file) {
  const folder temporary;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  const auto f = filled<cleave::tensor<double, mesh(i / a, j)>>(g, {100, 100}, 0);
  io::field_file out(g, temporary / "full.h5", {.buffer = 10000});
  out.write(0, io::field{"f", f});
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit low{100000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &low);
  const std::string said = said_everywhere<cleave::file_error>([&] { out.write(1, io::field{"f", f}); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(said, "cleave: cannot write '" + (temporary / "full.h5") + "': File too large");
  EXPECT_EQ(out.steps(), 1);
  EXPECT_EQ(said_everywhere<cleave::file_error>([&] { out.write(1, io::field{"f", f}); }), said);
  expect_stored<double>(temporary / "full.h5", "/step_000000/f", {100, 100}, 0); // what was there still is
  if (support::rank() == 0) {
    EXPECT_EQ(times_in(text_of(temporary / "full.xmf"), "<Time "), 1);
  }
}

TEST(fields_io, what_takes_slabs_may_throw) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  const auto f = filled<cleave::tensor<double, mesh(i / a, j)>>(g, {40, 3}, 0);
  const int last = support::ranks() - 1;
  std::int64_t slabs = 0, rows = 0;
  bool thrown = false;
  gather_slabs(f, last, 7 * 3 * 8, [&](std::int64_t first, std::int64_t n, const double* elements) {
    EXPECT_EQ(first, rows);
    EXPECT_LE(n, 7);
    EXPECT_EQ(elements[n * 3 - 1], value<double>((first + n) * 3 - 1, 0));
    rows += n;
    ++slabs;
  });
  EXPECT_EQ(slabs, support::rank() == last ? 6 : 0);
  EXPECT_EQ(rows, support::rank() == last ? 40 : 0);
  try {
    gather_slabs(f, last, 24, [&](std::int64_t first, std::int64_t, const double*) {
      if (first == 3) throw std::runtime_error("enough");
      EXPECT_LT(first, 3);
    });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  EXPECT_EQ(thrown, support::rank() == last);
}

} // namespace CLEAVE_SOURCE
