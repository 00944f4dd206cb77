// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/io/arrays.hpp>
#include <cleave/io/checkpoints.hpp>
#include <cleave/io/loader.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/optim/stopping.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

// Aggregates in files of other programs. Each rank writes and reads its part.

namespace CLEAVE_SOURCE {

namespace io = cleave::io;
namespace nn = cleave::nn;

inline constexpr cleave::axis<"a"> a;
inline constexpr cleave::axis<"b"> b;
inline constexpr cleave::mesh mesh{a, b};
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"heads"> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"hidden"> hidden;

struct by_heads {
  static constexpr auto kernel = mesh(layer, embed, heads / b, head);
  static constexpr auto bias = mesh(layer, heads / b, head);
  static constexpr auto square = mesh(embed, hidden / a / b);
  static constexpr auto row = mesh(hidden / b);
};
struct by_rows {
  static constexpr auto kernel = mesh(layer, embed / a / b, heads, head);
  static constexpr auto bias = mesh(layer / a, heads, head);
  static constexpr auto square = mesh(embed / b, hidden / a);
  static constexpr auto row = mesh(hidden);
};
template <class L>
struct model {
  struct attention_weights {
    nn::linear_weights<cleave::tensor<float, L::kernel>, cleave::tensor<float, L::bias>> query, key, value;
  };
  attention_weights layers;
  std::array<cleave::tensor<double, L::square>, 2> squares;
  std::pair<cleave::tensor<cleave::bfloat16, L::row>, cleave::tensor<bool, L::row>> rows;
  cleave::tensor<std::int64_t, mesh()> count;
  double rate = 0;
  std::uint32_t key = 0;
  bool on = false;
};
struct two_squares {
  cleave::tensor<double, mesh(embed, hidden)> squares, more;
};
const std::vector<std::string> names{"layers.query.kernel",
                                     "layers.query.bias",
                                     "layers.key.kernel",
                                     "layers.key.bias",
                                     "layers.value.kernel",
                                     "layers.value.bias",
                                     "squares[0]",
                                     "squares[1]",
                                     "rows.0",
                                     "rows.1",
                                     "count",
                                     "rate",
                                     "key",
                                     "on"};

template <class T>
T value(int which, std::int64_t place) {
  if constexpr (std::is_same_v<T, bool>) return (which + place) % 3 == 0;
  else return static_cast<T>(static_cast<double>((which * 31 + place * 7) % 255 - 100));
}
template <class L>
model<L> make(const cleave::grid& g, bool filled) {
  auto m = nn::make_parameters<model<L>>(g, {layer = 3, embed = 10, heads = 4, head = 3, hidden = 13});
  int which = 0;
  if (filled)
    nn::for_each_tensor(m, [&]<class Tensor>(Tensor& t) {
      ++which;
      const auto extents = t.extents();
      t.fill_by([&](const auto& at) {
        std::int64_t place = 0;
        for (std::size_t d = 0; d < at.size(); ++d) place = place * extents[d] + at[d];
        return value<typename Tensor::element_type>(which, place);
      });
    });
  if (filled) m.rate = 0.1, m.key = 4000000000u, m.on = true;
  return m;
}
template <class M>
void expect_filled(M& m) {
  int which = 0;
  nn::for_each_tensor(m, [&]<class Tensor>(Tensor& t) {
    ++which;
    const auto all = t.to_global();
    std::int64_t wrong = 0;
    for (std::size_t n = 0; n < all.size(); ++n)
      wrong += all[n] == value<typename Tensor::element_type>(which, std::int64_t(n)) ? 0 : 1;
    EXPECT_EQ(wrong, 0) << which;
  });
  EXPECT_EQ(m.rate, 0.1);
  EXPECT_EQ(m.key, 4000000000u);
  EXPECT_TRUE(m.on);
}

std::vector<cleave::grid> all_grids() {
  const std::int64_t n = support::ranks();
  std::vector<cleave::grid> all{cleave::grid(mesh, MPI_COMM_WORLD, {n, 1}), cleave::grid(mesh, MPI_COMM_WORLD, {1, n})};
  if (n > 4) return all; // more ranks than cores, and no other cases
  if (n == 4) all.emplace_back(mesh, MPI_COMM_WORLD, std::vector<std::int64_t>{2, 2});
  // Rank 0 is no device of this one.
  if (n > 1) all.emplace_back(mesh, MPI_COMM_WORLD, std::vector<std::int64_t>{n - 1, 1}, cleave::on_ranks{1, 1});
  return all;
}
/// A folder of rank 0 that is gone at the end of the test.
class folder {
 public:
  folder() {
    int number = int(getpid());
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    at_ = std::filesystem::temp_directory_path() / ("cleave_files_" + std::to_string(number));
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
  std::string operator/(const std::string& name) const { return (at_ / name).string(); }

 private:
  std::filesystem::path at_;
};
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
  first.resize(1000);
  MPI_Bcast(first.data(), 1000, MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_EQ(mine, first.c_str());
  return mine;
}

TEST(files, every_format_between_meshes_and_layouts) {
  const folder temporary;
  for (const cleave::grid& from : all_grids())
    for (const char* ending : {"m.safetensors", "m.npz"}) {
      const std::string path = temporary / ending;
      auto saved = make<by_heads>(from, true);
      const io::traffic written = io::save(from, path, saved);
      EXPECT_EQ(written.moved, written.needed);
      EXPECT_FALSE(std::filesystem::exists(path + ".new"));
      std::vector<std::string> found;
      for (const io::array_info& array : io::arrays_in(from, path)) found.push_back(array.name);
      std::vector<std::string> expected = names;
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(found, expected);
      for (const cleave::grid& to : all_grids()) {
        auto rows = make<by_rows>(to, false);
        const io::traffic read = io::load(to, path, rows);
        EXPECT_LE(read.ratio(), 1.05);
        if (to.active()) expect_filled(rows);
        auto same = make<by_heads>(to, false);
        io::load(to, path, same);
        if (to.active()) expect_filled(same);
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
}

TEST(files, names_layers_transposes_and_heads) {
  const folder temporary;
  const std::string path = temporary / "m.safetensors";
  const cleave::grid g = all_grids()[1];
  auto saved = make<by_heads>(g, true);
  const io::name_table table{{"layers.query.kernel", "h.{i}.attn.query.w", "(heads head) embed"},
                             {"layers.key.kernel", "h.{i}.attn.kv.w", "embed (0:2 heads head)"},
                             {"layers.value.kernel", "h.{i}.attn.kv.w", "embed (1:2 heads head)"},
                             {"layers.*.bias", "h.{i}.attn.*.b"},
                             {"squares[0]", "first", "hidden embed"},
                             {"rows.*", "r*.*"}};
  EXPECT_EQ(said_everywhere<cleave::layout_error>([&] { io::save(g, path, saved, table); }),
            "cleave: the rule for the name of member 'rows.0' is wrong: 'r*.*' has more stars than 'rows.*'");
  io::name_table right = table;
  right.back().stored = "r.*";
  io::save(g, path, saved, right);
  std::map<std::string, std::vector<std::int64_t>> found;
  for (const io::array_info& array : io::arrays_in(g, path)) found[array.name] = array.extents;
  EXPECT_EQ(found["h.2.attn.query.w"], (std::vector<std::int64_t>{12, 10}));
  EXPECT_EQ(found["h.0.attn.kv.w"], (std::vector<std::int64_t>{10, 24}));
  EXPECT_EQ(found["h.1.attn.key.b"], (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(found["first"], (std::vector<std::int64_t>{13, 10}));
  for (const cleave::grid& to : all_grids()) {
    auto m = make<by_rows>(to, false);
    EXPECT_LE(io::load(to, path, m, {.names = right}).ratio(), 1.05);
    if (to.active()) expect_filled(m);
  }
  // Element (layer 1, embed 2, heads 3, head 1) of `query` is element (heads 3 head 1, embed 2) of the array.
  cleave::tensor<float, mesh(embed, hidden)> array(g, {12, 10});
  io::load(g, path, array, {.names = {{"array", "h.1.attn.query.w"}}, .ignore = {"*"}});
  EXPECT_EQ(array.to_global()[10 * 10 + 2], saved.layers.query.kernel.to_global()[((10 + 2) * 4 + 3) * 3 + 1]);
}

TEST(files, one_array_of_numpy) {
  const folder temporary;
  const std::string path = temporary / "x.npy";
  const cleave::grid g = all_grids()[0];
  const auto saved = make<by_rows>(g, true);
  io::save(g, path, saved.squares[1]);
  cleave::tensor<double, mesh(embed / a, hidden)> x(g, {10, 13});
  io::load(g, path, x);
  EXPECT_EQ(x.to_global(), saved.squares[1].to_global());
  // As numpy writes a transposed array.
  if (support::rank() == 0) {
    std::string header = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n";
    std::ofstream out(path, std::ios::binary);
    out << std::string("\x93NUMPY\x01\x00", 8) << char(header.size()) << '\0' << header;
    for (int n = 0; n < 6; ++n) out.write(reinterpret_cast<const char*>(&n), 4);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cleave::tensor<std::int32_t, mesh(embed, hidden / a)> columns(g, {2, 3});
  io::load(g, path, columns);
  EXPECT_EQ(columns.to_global(), (std::vector<std::int32_t>{0, 2, 4, 1, 3, 5}));
}

template <class T, class L>
struct reals {
  cleave::tensor<T, L::kernel> kernel;
  cleave::tensor<T, L::row> row;
  double rate = 0;
};
// Into longer elements by themselves, and into shorter ones if that was asked for.
template <class From, class To>
void check_conversion(const std::string& path, bool loses) {
  const auto made = []<class M>(const cleave::grid& on, M) {
    return nn::make_parameters<M>(on, {layer = 3, embed = 10, heads = 4, head = 3, hidden = 13});
  };
  const cleave::grid g = all_grids()[0];
  const auto number = [](const auto& at) { return 1.0 / 3 + static_cast<double>(at[0]); };
  auto saved = made(g, reals<From, by_heads>{});
  saved.kernel.fill_by([&](const auto& at) { return From(number(at)); });
  saved.row.fill_by([&](const auto& at) { return From(number(at)); });
  const io::name_table layers{{"kernel", "kernel.{i}", "(heads head) embed"}};
  io::save(g, path, saved, layers);
  const std::vector<From> kernel = saved.kernel.to_global(), row = saved.row.to_global();
  for (const cleave::grid& to : all_grids()) {
    auto loaded = made(to, reals<To, by_rows>{});
    if (loses) {
      const std::string said = said_everywhere<cleave::file_error>(
          [&] { io::load(to, path, loaded, {.names = layers}); });
      EXPECT_NE(said.find("member 'kernel' has elements "), std::string::npos) << said;
    }
    EXPECT_LE(io::load(to, path, loaded, {.names = layers, .rounds = loses}).ratio(), 1.05);
    if (!to.active()) continue;
    using number_type = std::conditional_t<std::is_same_v<From, double>, double, float>;
    const auto expect_same = [](const auto& from, const auto& as) {
      std::int64_t wrong = 0;
      for (std::size_t i = 0; i < from.size(); ++i)
        wrong += as[i] == static_cast<To>(static_cast<number_type>(from[i])) ? 0 : 1;
      EXPECT_EQ(wrong, 0);
    };
    expect_same(kernel, loaded.kernel.to_global());
    expect_same(row, loaded.row.to_global());
  }
  MPI_Barrier(MPI_COMM_WORLD);
}
TEST(files, floating_point_numbers_of_other_lengths) {
  const folder temporary;
  const std::string path = temporary / "m.safetensors";
  check_conversion<cleave::bfloat16, float>(path, false);
  check_conversion<cleave::half, double>(path, false);
  check_conversion<float, cleave::bfloat16>(path, true);
  check_conversion<double, cleave::half>(path, true);
  check_conversion<cleave::half, cleave::bfloat16>(path, true);
}

TEST(files, what_is_wrong_is_said_on_all_ranks) {
  const folder temporary;
  const std::string path = temporary / "m.safetensors", begin = "cleave: '" + path + "' ";
  const cleave::grid g = all_grids()[0];
  auto m = make<by_rows>(g, true);
  io::save(g, path, m);
  using file_error = cleave::file_error;
  EXPECT_EQ(said_everywhere<file_error>([&] { io::load(g, path, m.layers); }).substr(0, begin.size()), begin);
  two_squares other{{g, {10, 13}}, {g, {10, 13}}};
  EXPECT_EQ(said_everywhere<file_error>([&] { io::load(g, path, other, {.names = {{"more", "squares[1]"}}}); }),
            begin + "has no arrays for these members: 'squares'");
  EXPECT_EQ(said_everywhere<file_error>([&] {
              io::load(g, path, other, {.names = {{"more", "squares[1]"}}, .keep = {"sq*"}, .ignore = {"layers.*"}});
            }),
            begin + "has arrays for no member: 'count', 'key', 'on', 'rate', 'rows.0' and 2 more");
  const auto load_as = [&](const std::string& array, const std::string& dims = "") {
    return [&, array, dims] { io::load(g, path, other.more, {.names = {{"array", array, dims}}, .ignore = {"*"}}); };
  };
  EXPECT_EQ(said_everywhere<file_error>(load_as("count")),
            "cleave: member 'array' has elements f64, but 'count' in '" + path + "' has i64");
  EXPECT_EQ(said_everywhere<cleave::shape_error>(load_as("rate")),
            "cleave: member 'array' needs an array with 2 axes, but 'rate' in '" + path + "' has 0");
  EXPECT_EQ(said_everywhere<cleave::shape_error>(load_as("squares[0]", "hidden embed")),
            "cleave: member 'array' needs the extent 13 along 'hidden', but 'squares[0]' in '" + path + "' has 10");
  for (const char* dims :
       {"hidden", "hidden hidden", "(hidden embed", "hidden embed)", "hidden embed 3:3", "hidden emb"})
    EXPECT_EQ(said_everywhere<cleave::layout_error>(load_as("squares[0]", dims))
                  .find("cleave: the rule for the name of member 'array' is wrong: "),
              0u);
  said_everywhere<cleave::layout_error>([&] {
    const cleave::tensor<double, mesh(embed, cleave::unreduced(a))> partial(g, {10});
    io::save(g, path, partial);
  });
  said_everywhere<file_error>([&] { io::save(g, temporary / "m.txt", m); });
  said_everywhere<file_error>([&] { io::save(g, path, m, {{"squares*", "same"}}); });
  const char *const first = "(0:2 embed) hidden", *const second = "(1:2 embed) hidden";
  other.squares.fill(1);
  other.more.fill(2);
  said_everywhere<file_error>(
      [&] { io::save(g, temporary / "twice.npz", other, {{"squares", "both", first}, {"more", "both", first}}); });
  // Two members may read the same part.
  io::save(g, temporary / "both.npz", other, {{"squares", "both", first}, {"more", "both", second}});
  io::load(g, temporary / "both.npz", other, {.names = {{"squares", "both", second}, {"more", "both", second}}});
  EXPECT_EQ(std::count(other.squares.data(), other.squares.data() + other.squares.local_size(), 2.0),
            other.squares.local_size());
  said_everywhere<file_error>([&] { io::save(g, "/nowhere/m.npz", m); });
  said_everywhere<file_error>([&] { io::load(g, temporary / "none.npz", m); });
  auto filled = make<by_heads>(g, false);
  io::load(g, path, filled); // the mistakes have changed nothing
  expect_filled(filled);
}

/// As on a full disk, on the rank that writes last.
using plate = cleave::tensor<double, mesh(embed / a, hidden / b)>;
constexpr cleave::function neighbours([](auto u) { return shift(u, embed, 1) - shift(u, hidden, -1); });

/// The rank that cannot read keeps its elements. All ranks exchange their halo in the next call, and not some alone.
TEST(files, a_load_that_fails_on_one_rank_makes_halos_stale_on_all) {
  const folder temporary;
  const std::string path = temporary / "plate.npy";
  for (const cleave::grid& g : all_grids()) {
    const plate alike(g, {13, 11});
    plate kept(g, {13, 11}, cleave::kept_halo{1, 1});
    const auto number_at = [](const auto& at) { return static_cast<double>(100 * at[0] + at[1]); };
    alike.fill_by(number_at);
    kept.fill_by(number_at);
    io::save(g, path, alike);
    const plate before = neighbours(kept);
    EXPECT_THROW(io::load(g, support::rank() == 0 ? temporary / "nowhere.npy" : path, kept), cleave::file_error);
    const plate after = neighbours(kept), expected = neighbours(alike);
    EXPECT_EQ(support::elements(before), support::elements(expected));
    EXPECT_EQ(support::elements(after), support::elements(expected));
  }
}

TEST(files, a_full_disk_is_an_error_on_all_ranks) {
  const folder temporary;
  const std::string path = temporary / "m.npz";
  const cleave::grid g = all_grids()[0];
  auto m = make<by_rows>(g, true);
  io::save(g, path, m);
  io::detail::file_fault = [](io::detail::file_call which, const std::string&) {
    const bool grows = which == io::detail::file_call::write || which == io::detail::file_call::sync;
    return grows && support::rank() == support::ranks() - 1 ? ENOSPC : 0;
  };
  EXPECT_EQ(said_everywhere<cleave::file_error>([&] { io::save(g, path, m); }),
            "cleave: cannot write '" + path + ".new': No space left on device");
  io::detail::file_fault = nullptr;
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  auto filled = make<by_heads>(g, false);
  io::load(g, path, filled); // what was there still is
  expect_filled(filled);
  // One byte of the last array.
  if (support::rank() == 0) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1500, std::ios::end);
    file.put('\x55');
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const std::string said = said_everywhere<cleave::file_error>([&] { io::load(g, path, filled); });
  EXPECT_TRUE(said.find("checksum") != std::string::npos || said.find("not where") != std::string::npos) << said;
}

template <class Reader>
void expect_restored(io::checkpoints& from, const cleave::grid& g, std::int64_t step, const Reader&) {
  auto m = make<Reader>(g, false);
  EXPECT_EQ(from.restore(m), step);
  EXPECT_LE(from.moved().ratio(), 1.05);
  if (g.active()) expect_filled(m);
}

TEST(checkpoints, are_restored_on_other_meshes_and_layouts) {
  const folder temporary;
  int runs = 0;
  for (const cleave::grid& from : all_grids()) {
    const std::string path = temporary / ("run" + std::to_string(runs++));
    {
      io::checkpoints saved(from, path);
      auto m = make<by_heads>(from, true);
      saved.save(7, m);
      // The values are those of the call.
      nn::for_each_tensor(m, [](auto& t) { t.fill({}); });
      m.rate = -1;
      saved.wait();
    }
    for (const cleave::grid& to : all_grids()) {
      io::checkpoints read(to, path);
      expect_restored(read, to, 7, by_heads{});
      expect_restored(read, to, 7, by_rows{});
    }
    // The order of dims comes from their names, and a table has the names that members had.
    struct transposed {
      cleave::tensor<double, mesh(hidden / b, embed)> second;
      double rate = 0;
    } part{{from, {13, 10}}, 0};
    io::checkpoints read(from, path);
    EXPECT_EQ(said_everywhere<cleave::file_error>([&] { read.restore(part); }),
              "cleave: '" + path + "/step_7' has no arrays for these members: 'second'");
    read.restore(part, {.names = {{"second", "squares[1]"}}, .ignore = {"*"}});
    EXPECT_EQ(part.rate, 0.1);
    if (from.active()) {
      EXPECT_EQ(part.second.to_global()[5 * 10 + 2], value<double>(8, 2 * 13 + 5));
    }
  }
}

inline constexpr cleave::dim<"stage"> stage;
struct staged {
  static constexpr auto kernel = mesh(stage / b, layer, embed, hidden / a);
  static constexpr auto row = mesh(stage / b, layer);
};
struct staged_by_layer {
  static constexpr auto kernel = mesh(embed / a, layer / b, stage, hidden);
  static constexpr auto row = mesh(layer, stage);
};
struct unstaged {
  static constexpr auto kernel = mesh(layer / a, embed / b, hidden);
  static constexpr auto row = mesh(layer / b);
};
template <class L>
struct layers_of {
  cleave::tensor<float, L::kernel> kernel;
  cleave::tensor<double, L::row> row;
  cleave::tensor<float, mesh(embed / a)> other;
};
/// The dims of each tensor by name, and the number of the layer with these stages.
template <class L, class F>
layers_of<L> layers_on(const cleave::grid& g, std::int64_t stages, std::int64_t all, F&& each) {
  auto made = nn::make_parameters<layers_of<L>>(g, {stage = stages, layer = all / stages, embed = 5, hidden = 6});
  nn::for_each_tensor(made, [&]<class Tensor>(Tensor& t) {
    std::vector<std::string> dims;
    for (const auto& p : t.state().dims->dims) dims.emplace_back(p.dim.name);
    each(t, [dims, all, stages](const auto& at) {
      std::map<std::string, std::int64_t> i;
      for (std::size_t d = 0; d < dims.size(); ++d) i[dims[d]] = at[d];
      return static_cast<double>(((i["stage"] * (all / stages) + i["layer"]) * 5 + i["embed"]) * 6 + i["hidden"] + 1);
    });
  });
  return made;
}
template <class L>
void expect_layers(io::checkpoints& from, const cleave::grid& g, std::int64_t stages) {
  auto read = layers_on<L>(g, stages, 12, [](auto&, const auto&) {});
  EXPECT_EQ(from.restore(read, {.stacks = {{"stage", "layer"}}}), 1);
  EXPECT_LE(from.moved().ratio(), 1.05);
  const auto wanted = layers_on<L>(g, stages, 12, [](auto& t, const auto& value) { t.fill_by(value); });
  const auto expect_same = [&](const auto& mine, const auto& other) { EXPECT_EQ(mine.to_global(), other.to_global()); };
  if (!g.active()) return;
  expect_same(read.kernel, wanted.kernel), expect_same(read.row, wanted.row), expect_same(read.other, wanted.other);
}
template <class L>
void expect_restaged(const std::string& path, const cleave::grid& from, std::int64_t stages) {
  io::checkpoints saved(from, path);
  saved.save(1, layers_on<L>(from, stages, 12, [](auto& t, const auto& value) { t.fill_by(value); }));
  saved.wait();
  for (const cleave::grid& to : all_grids()) {
    io::checkpoints read(to, path);
    for (const std::int64_t n : {1, 2, 3, 4, 12}) expect_layers<staged>(read, to, n);
    expect_layers<staged_by_layer>(read, to, 6);
    expect_layers<unstaged>(read, to, 1);
  }
  auto fewer = layers_on<staged>(from, 2, 10, [](auto&, const auto&) {});
  const std::string said = said_everywhere<cleave::shape_error>(
      [&] { saved.restore(fewer, {.stacks = {{"stage", "layer"}}}); });
  EXPECT_NE(said.find("member 'kernel' needs the extent 10 along 'stage layer'"), std::string::npos) << said;
  if constexpr (!std::is_same_v<L, unstaged>) {
    said_everywhere<cleave::shape_error>([&] { saved.restore(fewer); });
  }
}
TEST(checkpoints, stages_of_a_pipeline_are_divided_in_other_ways) {
  const folder temporary;
  const std::vector<cleave::grid> grids = all_grids();
  expect_restaged<staged>(temporary / "staged", grids.front(), 2);
  expect_restaged<staged_by_layer>(temporary / "by_layer", grids.back(), 3);
  expect_restaged<unstaged>(temporary / "unstaged", grids.back(), 1);
}

template <class L>
struct run_state {
  cleave::tensor<double, L::row> row;
  io::data_position data;
  cleave::optim::early_stopping stopping;
};
/// So many batches and evaluations of a run, as one list: each record, and the state of the end of the training.
template <class L>
std::vector<double> run_on(const cleave::grid& g, run_state<L>& s, std::int64_t batches) {
  io::loader<std::int64_t> loader(s.row, hidden, 100, [](std::int64_t i) { return i; });
  std::vector<double> seen;
  for (; batches > 0; --batches) {
    const auto rows = loader.next(s.data);
    s.row.fill_by([&](const auto& at) { return static_cast<double>(rows[at[0]]); });
    s.stopping.is_best(s.data.next < 4 ? 1.0 / static_cast<double>(s.data.next) : 1, s.data.next);
    const std::vector<double> all = s.row.to_global();
    if (g.active()) seen.insert(seen.end(), all.begin(), all.end());
    seen.insert(seen.end(), {s.stopping.best, static_cast<double>(s.stopping.best_step),
                             static_cast<double>(s.stopping.waited), s.stopping.stops({6}) ? 1.0 : 0.0});
  }
  return seen;
}
TEST(checkpoints, data_and_the_end_of_a_training_continue_on_other_meshes) {
  const folder temporary;
  const auto begun = []<class S>(const cleave::grid& g, S) {
    auto s = nn::make_parameters<S>(g, {hidden = 13});
    s.data.key = 5;
    return s;
  };
  int number = 0;
  for (const cleave::grid& from : all_grids()) {
    if (from.size(a) * from.size(b) != support::ranks()) continue; // all ranks have seen the records
    const std::string path = temporary / std::to_string(++number);
    auto s = begun(from, run_state<by_heads>{});
    // Over the end of an epoch of 7 batches, and to the end of the training.
    run_on(from, s, 5);
    io::checkpoints(from, path, {.asynchronous = false}).save(5, s);
    const std::vector<double> rest = run_on(from, s, 5);
    EXPECT_EQ(rest.back(), 1);
    for (const cleave::grid& to : all_grids()) {
      auto resumed = begun(to, run_state<by_rows>{});
      resumed.data.key = 0;
      io::checkpoints(to, path).restore(resumed);
      const std::vector<double> continued = run_on(to, resumed, 5);
      if (to.active()) {
        EXPECT_EQ(continued, rest);
      }
    }
  }
}

TEST(checkpoints, the_latest_the_best_and_every_third_stay) {
  const folder temporary;
  const cleave::grid g = all_grids()[0];
  io::checkpoints saved(g, temporary / "run", {.keep = 2, .keep_every = 3, .keep_best = true});
  EXPECT_EQ(saved.latest(), std::nullopt);
  const auto m = make<by_rows>(g, true);
  for (int step = 1; step <= 8; ++step) saved.save(step, m, step == 4 ? 0.5 : 1.0 + step);
  saved.wait();
  EXPECT_EQ(saved.steps(), (std::vector<std::int64_t>{3, 4, 6, 7, 8}));
  EXPECT_EQ(saved.best(), 4);
  EXPECT_EQ(said_everywhere<cleave::file_error>([&] { saved.save(8, m); }),
            "cleave: there is a checkpoint of step 8 in '" + (temporary / "run") + "', or the step is negative");
  auto other = make<by_heads>(g, false);
  EXPECT_EQ(saved.restore(other, {.step = 3}), 3);
  said_everywhere<cleave::file_error>([&] { saved.restore(other, {.step = 5}); });
  io::checkpoints none(g, temporary / "none");
  EXPECT_EQ(said_everywhere<cleave::file_error>([&] { none.restore(other); }),
            "cleave: there is no checkpoint in '" + (temporary / "none") + "'");
}

/// The call of the system from which on all calls of a rank fail, as if it had been killed there.
std::atomic<int> calls_left = 0;
int killed_later(io::detail::file_call which, const std::string&) {
  return which != io::detail::file_call::read && calls_left.fetch_sub(1) <= 0 ? EIO : 0;
}

struct small {
  cleave::tensor<double, mesh(embed / a, hidden / b)> square;
  double rate;
};
/// Whatever call is the last one of a rank, the checkpoint before is restored, or the new one if it was committed.
TEST(checkpoints, a_rank_may_end_at_any_call) {
  if (support::ranks() > 4) GTEST_SKIP() << "the same as with 4 ranks";
  const folder temporary;
  const std::string path = temporary / "run";
  const cleave::grid g = all_grids()[0], h = all_grids()[1];
  small m{{g, {10, 13}}, 0.5};
  m.square.fill(3);
  io::checkpoints(g, path, {.asynchronous = false}).save(1, m);
  for (const int killed : {0, support::ranks() - 1}) {
    bool failed = true;
    for (int calls = 0; failed; ++calls) {
      const std::int64_t before = *io::checkpoints(g, path).latest();
      calls_left = calls;
      MPI_Barrier(MPI_COMM_WORLD);
      if (support::rank() == killed) io::detail::file_fault = &killed_later;
      failed = false;
      io::checkpoints saved(g, path, {.keep = 1});
      try {
        saved.save(before + 1, m);
        saved.wait();
      } catch (const cleave::file_error&) {
        failed = true;
      }
      io::detail::file_fault = nullptr;
      MPI_Barrier(MPI_COMM_WORLD);
      io::checkpoints after(h, path);
      const std::int64_t latest = *after.latest();
      EXPECT_TRUE(latest == before || latest == before + 1);
      EXPECT_TRUE(failed || latest == before + 1);
      small other{{h, {10, 13}}, 0};
      EXPECT_EQ(after.restore(other), latest);
      EXPECT_EQ(other.rate, 0.5);
      EXPECT_EQ(std::count(other.square.data(), other.square.data() + other.square.local_size(), 3.0),
                other.square.local_size());
      ASSERT_LT(calls, 60);
    }
  }
}

std::atomic<int> slow_rank = 0;
/// A rank that is slow to put the name of its part on the disk. Rank 0 renames the folder meanwhile.
int slow_after_its_part(io::detail::file_call which, const std::string& path) {
  if (which == io::detail::file_call::sync &&
      io::detail::checkpoint::exists(path + "/" + io::detail::checkpoint::part_name(slow_rank)))
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return 0;
}
TEST(checkpoints, no_rank_needs_the_folder_once_its_part_is_there) {
  const folder temporary;
  const cleave::grid g = all_grids()[0];
  small m{{g, {10, 13}}, 0.5};
  slow_rank = support::rank();
  if (support::rank() != 0) io::detail::file_fault = &slow_after_its_part;
  io::checkpoints saved(g, temporary / "run");
  saved.save(1, m);
  saved.wait();
  io::detail::file_fault = nullptr;
  EXPECT_EQ(saved.latest(), 1);
}

TEST(checkpoints, what_is_wrong_is_said_on_all_ranks) {
  const folder temporary;
  const std::string path = temporary / "run";
  const cleave::grid g = all_grids()[0];
  auto m = make<by_rows>(g, true);
  io::checkpoints saved(g, path);
  saved.save(1, m);
  saved.save(2, m);
  saved.wait();
  // A full disk is seen at the next call, and what was there stays.
  io::detail::file_fault = [](io::detail::file_call which, const std::string& name) {
    const bool is_data = which == io::detail::file_call::sync && name.ends_with(".bin");
    return is_data && support::rank() == support::ranks() - 1 ? ENOSPC : 0;
  };
  saved.save(3, m);
  const std::string said = said_everywhere<cleave::file_error>([&] { saved.save(4, m); });
  io::detail::file_fault = nullptr;
  EXPECT_EQ(said, "cleave: cannot write '" + path + "/step_3.new/data_" + std::to_string(support::ranks() - 1) +
                      ".bin': No space left on device");
  // Folders and files of others stay.
  const std::vector<std::string> of_others{path + "/step_007", path + "/step_9", path + "/step_-5"};
  if (support::rank() == 0)
    for (const std::string& name : of_others) {
      std::filesystem::create_directory(name);
      std::ofstream(name + "/notes.txt") << "mine";
    }
  MPI_Barrier(MPI_COMM_WORLD);
  saved.save(5, m);
  saved.wait();
  for (const std::string& name : of_others) EXPECT_TRUE(std::filesystem::exists(name + "/notes.txt")) << name;
  EXPECT_EQ(saved.steps(), (std::vector<std::int64_t>{1, 2, 5}));
  said_everywhere<cleave::file_error>([&] { io::checkpoints(g, "/proc/none").save(1, m); });
  // One bit.
  const auto damage = [&](const std::string& name) {
    if (support::rank() == 0) {
      std::fstream file(path + "/step_5/" + name, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(70);
      const int byte = file.get();
      file.seekp(70);
      file.put(static_cast<char>(byte ^ 4));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  };
  auto other = make<by_heads>(g, false);
  damage("data_0.bin");
  EXPECT_NE(said_everywhere<cleave::file_error>([&] { saved.restore(other); }).find("has another checksum than"),
            std::string::npos);
  damage("data_0.bin");
  EXPECT_EQ(saved.restore(other), 5);
  damage("index.json");
  EXPECT_NE(said_everywhere<cleave::file_error>([&] { saved.restore(other); }).find("its index has another checksum"),
            std::string::npos);
  EXPECT_EQ(saved.restore(other, {.step = 2}), 2);
  expect_filled(other);
}

} // namespace CLEAVE_SOURCE
