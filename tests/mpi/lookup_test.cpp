// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "evaluated.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Rows looked up in tables and added up in them, with tables, indices and results sharded in many ways, on real ranks:
// what the plain evaluator gives.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"word"> word;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"place"> place;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
template <auto Layout>
using i32 = cleave::tensor_in<int, Layout>;

/// Some whose devices share memory, and some that communicate by MPI alone.
std::vector<cleave::grid> grids() {
  std::vector<cleave::grid> all = support::grids(mesh);
  const support::only_mpi travels;
  for (cleave::grid& g : support::grids(mesh)) all.push_back(std::move(g));
  return all;
}
struct extents {
  std::int64_t words, embed, batch, indices;
};
constexpr extents shapes[] = {{16, 4, 6, 5}, {7, 3, 5, 1}, {2, 1, 3, 4}, {5, 2, 0, 3}, {3, 0, 4, 2}, {1, 2, 9, 2}};

template <class Tensor>
void fill(Tensor& t) {
  t.fill_by([](const auto& at) {
    double sum = 0.3;
    for (std::size_t i = 0; i < at.size(); ++i) sum += static_cast<double>(at[i]) * (0.7 + static_cast<double>(i));
    return std::sin(sum);
  });
}
/// Some indices twice, some in no table.
template <class Tensor>
void fill_indices(Tensor& t, std::int64_t words) {
  t.fill_by([&](const auto& at) {
    std::int64_t n = 1;
    for (std::size_t i = 0; i < at.size(); ++i) n = n * 31 + at[i] * 7;
    return static_cast<int>(n % (words + 2) - 1);
  });
}

template <class Result, class F, class... Args>
void check(const F& f, Result& result, const Args&... args) {
  const cleave::graph g = cleave::recording<F, Result(Args...)>::record();
  cleave::sizes at;
  std::vector<cleave::host_array> in;
  for (std::size_t d = 0; d < g.dims.size(); ++d) at.dims[d] = g.dims[d].extent;
  const auto take = [&](const auto& t) {
    const cleave::tensor_type& type = g.nodes[g.inputs[in.size()]].type;
    cleave::shape e;
    e.rank = type.rank;
    for (int i = 0; i < type.rank; ++i) at.dims[type[i]] = e[i] = t.extents()[static_cast<std::size_t>(i)];
    cleave::host_array a(e);
    const auto whole = t.to_global();
    for (std::size_t i = 0; i < whole.size(); ++i) a.data[i] = static_cast<double>(whole[i]);
    in.push_back(a);
  };
  (take(args), ...);
  for (int i = 0; i < g.output_types[0].rank; ++i)
    at.dims[g.output_types[0][i]] = result.extents()[static_cast<std::size_t>(i)];
  for (auto& a : at.axes.of) a = 1;
  const std::vector<cleave::host_array> wanted = support::evaluated(result.get_grid(), g, at, in);
  for (int times = 0; times < 2; ++times) {
    result = f(args...);
    const auto got = result.to_global();
    ASSERT_EQ(cleave::first_difference(wanted[0].data, std::vector<double>(got.begin(), got.end()), 1e-13), -1);
  }
}

constexpr cleave::function look_up([](auto table, auto ids) { return 2 * gather(table, word, ids); });
constexpr cleave::function table_gradient([](auto table, auto ids, auto weight) {
  return cleave::grad(cleave::function([](auto t, auto i, auto w) { return sum(gather(t, word, i) * w); }))(table, ids,
                                                                                                            weight);
});
constexpr cleave::function segments([](auto rows, auto ids) { return scatter_add(rows, ids, word); });

template <auto TableLayout, auto IndicesLayout, auto RowsLayout>
void check_layouts() {
  using Table = f64<TableLayout>;
  using Indices = i32<IndicesLayout>;
  using Rows = f64<RowsLayout>;
  for (const cleave::grid& g : grids())
    for (const extents& e : shapes) {
      Table table(g, {e.words, e.embed}), slope(g, {e.words, e.embed});
      Indices ids(g, {e.batch, e.indices});
      Rows rows(g, {e.batch, e.indices, e.embed}), weight(g, {e.batch, e.indices, e.embed});
      fill(table);
      fill(weight);
      fill_indices(ids, e.words);
      check(look_up, rows, table, ids);
      check(table_gradient, slope, table, ids, weight);
      check(segments, slope, weight, ids);
    }
}
TEST(lookup, table_divided_by_rows) {
  check_layouts<mesh(word / ax, embed), mesh(batch, place), mesh(batch, place, embed)>();
}
TEST(lookup, table_and_indices_sharded_alike) {
  check_layouts<mesh(word / ax, embed), mesh(batch / ax, place), mesh(batch / ax, place, embed)>();
}
TEST(lookup, table_and_places_divided_differently) {
  check_layouts<mesh(word / ay, embed), mesh(batch / ax, place), mesh(batch / ax, place, embed)>();
}
TEST(lookup, table_divided_by_columns) {
  check_layouts<mesh(word, embed / ax), mesh(batch, place / ay), mesh(batch, place / ay, embed / ax)>();
}
TEST(lookup, table_divided_over_both_axes) {
  check_layouts<mesh(word / ay / ax, embed), mesh(batch / ax, place / ay), mesh(batch / ax / ay, place, embed)>();
}

// A dim that table and indices share is common to both: NumPy's take_along_axis.
constexpr cleave::function take_along([](auto table, auto ids) { return gather(table, word, ids); });
constexpr cleave::function take_along_gradient([](auto table, auto ids, auto weight) {
  return cleave::grad(cleave::function([](auto t, auto i, auto w) { return sum(gather(t, word, i) * w); }))(table, ids,
                                                                                                            weight);
});
TEST(lookup, along_a_dim_of_both) {
  using Table = f64<mesh(batch / ax, word / ay)>;
  using Indices = i32<mesh(batch / ax, place)>;
  using Result = f64<mesh(batch / ax, place)>;
  for (const cleave::grid& g : grids())
    for (const extents& e : shapes) {
      Table table(g, {e.batch, e.words}), slope(g, {e.batch, e.words});
      Indices ids(g, {e.batch, e.indices});
      Result result(g, {e.batch, e.indices}), weight(g, {e.batch, e.indices});
      fill(table);
      fill(weight);
      fill_indices(ids, e.words);
      check(take_along, result, table, ids);
      check(take_along_gradient, slope, table, ids, weight);
    }
}

// One table for each index of a dim, to which its own rows are added.
constexpr cleave::function segments_of_each([](auto rows, auto ids) { return scatter_add(rows, ids, word, batch); });
template <auto TablesLayout, auto IndicesLayout, auto RowsLayout>
void check_tables() {
  for (const cleave::grid& g : grids())
    for (const extents& e : shapes) {
      f64<TablesLayout> tables(g, {e.words, e.batch, e.embed});
      i32<IndicesLayout> ids(g, {e.batch, e.indices});
      f64<RowsLayout> rows(g, {e.batch, e.indices, e.embed});
      fill(rows);
      fill_indices(ids, e.words);
      check(segments_of_each, tables, rows, ids);
    }
}
TEST(lookup, a_table_for_each_index) {
  check_tables<mesh(word, batch / ax, embed), mesh(batch / ax, place), mesh(batch / ax, place, embed)>();
  check_tables<mesh(word / ay, batch, embed / ax), mesh(batch, place / ax), mesh(batch, place / ax, embed / ay)>();
}

/// Restores the limit where a test ends.
struct narrow_offsets {
  std::int64_t before = cleave::comm::narrow_offsets_limit();
  explicit narrow_offsets(std::int64_t limit) { cleave::comm::narrow_offsets_limit() = limit; }
  narrow_offsets(const narrow_offsets&) = delete;
  narrow_offsets& operator=(const narrow_offsets&) = delete;
  ~narrow_offsets() { cleave::comm::narrow_offsets_limit() = before; }
};
/// As for shards that 32 bits do not count: some shapes beyond the limit, and some within it.
TEST(lookup, shards_beyond_the_limit_of_narrow_offsets) {
  const narrow_offsets limit(8);
  check_layouts<mesh(word / ay, embed), mesh(batch / ax, place), mesh(batch / ax, place, embed)>();
  check_tables<mesh(word / ay, batch, embed / ax), mesh(batch, place / ax), mesh(batch, place / ax, embed / ay)>();
}
static_assert(cleave::offset_bytes(std::int64_t{1} << 31) == 8 &&
              cleave::offset_bytes((std::int64_t{1} << 31) - 1) == 4);

/// What a look-up of every row of a table moves beyond its price, where all rows travel: each device asks every one for
/// as many rows, by new indices or by those of the last run.
std::int64_t moved_beyond_price(const cleave::grid& g, bool new_indices = true) {
  using Table = f64<mesh(word / ax, embed)>;
  using Indices = i32<mesh(batch / ax)>;
  using Rows = f64<mesh(batch / ax, embed)>;
  const std::int64_t n = g.size(ax);
  Table table(g, {24 * n, 8});
  Indices ids(g, {24 * n});
  Rows rows(g, {24 * n, 8});
  fill(table);
  const auto fill_ids = [&](std::int64_t first) {
    ids.fill_by([&](const auto& at) { return static_cast<int>(at[0] % n * 24 + (at[0] / n + first) % 24); });
  };
  fill_ids(0);
  constexpr cleave::function f([](auto t, auto i) { return gather(t, word, i); });
  rows = f(table, ids);
  if (new_indices) fill_ids(1);
  support::reset_charges();
  rows = f(table, ids);
  const std::int64_t moved = support::over_ranks(support::charged_bytes());
  return moved - cleave::plan<Rows(Table, Indices)>(f).bytes(
                     {word = 24 * n, batch = 24 * n, embed = 8, ax = n, ay = g.size(ay)});
}

TEST(lookup, wide_offsets_take_eight_bytes) {
  const narrow_offsets limit(0);
  for (const cleave::grid& g : grids()) {
    const std::int64_t n = g.size(ax), indices = 24;
    // Beside the price: how many each device asks for, and four bytes more for each index that travels.
    const std::int64_t more = n > 1 ? indices * 4 * (n - 1) / n : 0;
    EXPECT_LE(moved_beyond_price(g), more + (n > 1 ? 8 * n : 0)) << n;
    EXPECT_GE(moved_beyond_price(g), more) << n;
  }
}
TEST(lookup, moves_no_more_than_its_price_where_places_are_even) {
  for (const cleave::grid& g : grids()) {
    const std::int64_t n = g.size(ax);
    // Beside the price: how many each device asks for.
    EXPECT_LE(moved_beyond_price(g), n > 1 ? 8 * n : 0) << n;
    EXPECT_GE(moved_beyond_price(g), 0);
  }
}
// With the indices of the last run only rows travel.
TEST(lookup, indices_that_stay_are_not_sent_again) {
  for (const cleave::grid& g : grids()) {
    const std::int64_t n = g.size(ax), less = 24 * 4 * (n - 1) / n;
    EXPECT_LE(moved_beyond_price(g, false), -less + (n > 1 ? 8 * n : 0)) << n;
    EXPECT_GE(moved_beyond_price(g, false), -less) << n;
  }
}

// Routes are kept while indices stay the same: the rows of a run are those of its indices, whichever devices changed
// theirs since the last one.
TEST(lookup, indices_that_change_between_runs) {
  using Table = f64<mesh(word / ax, embed)>;
  using Indices = i32<mesh(batch / ax)>;
  using Rows = f64<mesh(batch / ax, embed)>;
  constexpr std::int64_t words = 13, indices = 16;
  for (const cleave::grid& g : grids()) {
    Table table(g, {words, 3}), sums(g, {words, 3});
    Indices ids(g, {indices});
    Rows rows(g, {indices, 3});
    fill(table);
    constexpr cleave::function take([](auto t, auto i) { return gather(t, word, i); });
    const std::int64_t first_changes = indices / g.size(ax);
    // From run to run: nothing changes, the indices of the first device, of the others, of all; back to the first.
    const std::int64_t steps[][2] = {{0, 0}, {0, 0}, {1, 0}, {1, 5}, {2, 7}, {2, 7}, {0, 0}};
    for (const auto& step : steps) {
      ids.fill_by([&](const auto& at) {
        const std::int64_t more = at[0] < first_changes ? step[0] : step[1];
        return static_cast<int>((at[0] * 5 + more) % (words + 2) - 1);
      });
      check(take, rows, table, ids);
      check(segments, sums, rows, ids);
    }
  }
}

/// What is looked up, and what is looked up from, in a table of which each device along x has a block.
struct sharded_look_ups {
  using Table = f64<mesh(word / ax, embed)>;
  using Indices = i32<mesh(batch / ax)>;
  using Rows = f64<mesh(batch / ax, embed)>;
  static constexpr cleave::function take{[](auto t, auto i) { return gather(t, word, i); }};
  static constexpr cleave::function add{[](auto r, auto i) { return scatter_add(r, i, word); }};

  cleave::grid g;
  std::int64_t words, length, indices;
  Indices ids{g, {indices}};
  Rows rows{g, {indices, length}};

  sharded_look_ups(const cleave::grid& on, std::int64_t w, std::int64_t e, std::int64_t p)
      : g(on), words(w), length(e), indices(p) {
    fill_indices(ids, words);
  }
  double value(std::int64_t row, std::int64_t k, int table) const {
    return static_cast<double>(row * 1000 + k + table * 7);
  }
  void fill_table(Table& t, int table) const {
    t.fill_by([&](const auto& at) { return value(at[0], at[1], table); });
  }
  void expect_rows(int table) {
    const auto at = support::elements(ids);
    const auto got = support::elements(rows);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < at.size(); ++i)
      for (std::int64_t k = 0; k < length; ++k) {
        const double want = at[i] >= 0 && at[i] < words ? value(at[i], k, table) : 0;
        wrong += got[i * static_cast<std::size_t>(length) + static_cast<std::size_t>(k)] == want ? 0 : 1;
      }
    EXPECT_EQ(wrong, 0) << "table " << table << " on " << g.size(ax) << " x " << g.size(ay);
  }
  /// Whether any rank sends or receives something in a call, once it has been made before.
  template <class Call>
  static bool moves(const Call& call) {
    call();
    support::reset_charges();
    call();
    return support::over_ranks(support::charged_bytes() + support::sent_messages()) > 0;
  }
};

// A large table and a small one, whose values change from run to run.
TEST(lookup, rows_of_a_table_that_changes) {
  for (const cleave::grid& g : grids())
    for (const std::int64_t words : {13, 30011}) {
      sharded_look_ups u(g, words, 3, 5000);
      sharded_look_ups::Table table(g, {words, 3});
      for (int run = 0; run < 3; ++run) {
        u.fill_table(table, run);
        EXPECT_EQ(u.moves([&] { u.rows = u.take(table, u.ids); }), g.size(ax) > 1);
        u.expect_rows(run);
      }
    }
}
// Single elements of a sharded table: stretches of indices of one block, of several, and of none.
template <class Index>
void expect_elements(std::int64_t (*index_of)(std::int64_t place, std::int64_t places, std::int64_t words)) {
  constexpr std::int64_t words = 10007, places = 30000;
  constexpr cleave::function take([](auto t, auto i) { return gather(t, word, i); });
  for (const cleave::grid& g : grids()) {
    f64<mesh(word / ax)> table(g, {words});
    f64<mesh(place / ax)> rows(g, {places});
    cleave::tensor<Index, mesh(place / ax)> ids(g, {places});
    table.fill_by([](const auto& at) { return static_cast<double>(at[0] + 1); });
    ids.fill_by([&](const auto& at) { return static_cast<Index>(index_of(at[0], places, words)); });
    rows = take(table, ids);
    const auto got = rows.to_global();
    std::int64_t wrong = 0;
    for (std::int64_t n = 0; n < places; ++n) {
      const std::int64_t i = index_of(n, places, words);
      const double want = i >= 0 && i < words ? static_cast<double>(i + 1) : 0;
      wrong += got[static_cast<std::size_t>(n)] == want ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0);
  }
}
TEST(lookup, single_elements_of_a_sharded_table) {
  constexpr std::int64_t (*all[])(std::int64_t, std::int64_t, std::int64_t){
      [](std::int64_t n, std::int64_t places, std::int64_t words) { return n * words / places; },
      [](std::int64_t n, std::int64_t places, std::int64_t words) { return n * words / places + n % 5 * 600 - 1200; },
      [](std::int64_t n, std::int64_t, std::int64_t words) { return n * 7919 % (words + 20) - 10; },
      [](std::int64_t n, std::int64_t, std::int64_t words) { return n / 200 % 2 == 0 ? words - 1 : words + n % 3; },
      [](std::int64_t n, std::int64_t, std::int64_t words) {
        return n / 200 % 2 == 0 ? words / 2 - n % 2 : -1 - n % 3;
      },
  };
  for (const auto index_of : all) {
    expect_elements<std::int32_t>(index_of);
    expect_elements<std::int64_t>(index_of);
  }
}
// Rows that are sent through shared memory are added to the same bits as rows that are sent by MPI.
TEST(lookup, sums_do_not_depend_on_the_transport) {
  constexpr std::int64_t words = 1003;
  const auto sums_on = [&](const cleave::grid& g) {
    sharded_look_ups u(g, words, 3, 20000);
    sharded_look_ups::Table sums(g, {words, 3});
    fill(u.rows);
    EXPECT_EQ(u.moves([&] { sums = u.add(u.rows, u.ids); }), g.size(ax) > 1) << g.size(ax);
    return support::elements(sums);
  };
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    const auto in_memory = sums_on(cleave::grid(mesh, MPI_COMM_WORLD, sizes));
    const support::only_mpi travels;
    EXPECT_EQ(in_memory, sums_on(cleave::grid(mesh, MPI_COMM_WORLD, sizes)));
  }
}

// The devices of one group share memory, those of another are on two nodes: in checked mode all agree that there is
// memory for the rows that travel.
TEST(lookup, groups_on_one_node_and_on_two) {
  if (support::ranks() < 4 || support::ranks() % 2 != 0) return;
  const int before = cleave::comm::node_ranks();
  cleave::comm::node_ranks() = support::ranks() - 1;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {2, support::ranks() / 2});
  // Communicators of nodes are made when a group is first asked for.
  g.state().group_of(cleave::axis_set{}.with(0));
  cleave::comm::node_ranks() = before;
  g.check({.calls = true, .nans = true, .time_limit = 20});
  constexpr std::int64_t words = 401;
  sharded_look_ups u(g, words, 3, 900);
  sharded_look_ups::Table table(g, {words, 3}), sums(g, {words, 3});
  for (int run = 0; run < 3; ++run) {
    u.fill_table(table, run);
    u.rows = u.take(table, u.ids);
    u.expect_rows(run);
    sums = u.add(u.rows, u.ids);
  }
}

// The sum of an element is that of a loop over the indices, to the last bit, in every run: where neighbours are equal,
// where all indices of a stretch are outside of the table, where some are, and where none is.
template <class Index>
void expect_sums_in_order(std::int64_t (*index_of)(std::int64_t place, std::int64_t words)) {
  using Rows = cleave::tensor<float, mesh(place)>;
  using Sums = cleave::tensor<float, mesh(word)>;
  constexpr std::int64_t words = 37, indices = 40000;
  constexpr cleave::function add([](auto r, auto i) { return scatter_add(r, i, word); });
  for (const cleave::grid& g : grids()) {
    Rows rows(g, {indices});
    Sums sums(g, {words});
    cleave::tensor<Index, mesh(place)> ids(g, {indices});
    fill(rows);
    ids.fill_by([&](const auto& at) { return static_cast<Index>(index_of(at[0], words)); });
    sums = add(rows, ids);
    std::vector<float> wanted(words, 0.0f);
    const auto given = rows.to_global();
    for (std::size_t n = 0; n < given.size(); ++n)
      if (const std::int64_t at = index_of(static_cast<std::int64_t>(n), words); at >= 0 && at < words)
        wanted[static_cast<std::size_t>(at)] += given[n];
    const auto got = sums.to_global();
    EXPECT_EQ(std::vector<float>(got.begin(), got.end()), wanted);
  }
}
TEST(lookup, sums_by_index_keep_the_order_of_the_indices) {
  constexpr std::int64_t (*all[])(std::int64_t, std::int64_t){
      [](std::int64_t n, std::int64_t words) { return n * 7919 % (words + 2) - 1; },
      [](std::int64_t n, std::int64_t words) { return n / 5 % words; },
      [](std::int64_t n, std::int64_t words) { return n * n % 11 % words; },
      [](std::int64_t n, std::int64_t words) { return n / 100 % 2 == 0 ? n / 3 % words : words + n % 7; },
      [](std::int64_t n, std::int64_t words) { return n / 150 % 2 == 0 ? n % words : -1 - n % 3; },
      [](std::int64_t, std::int64_t words) { return words - 1; },
  };
  for (const auto index_of : all) {
    expect_sums_in_order<std::int32_t>(index_of);
    expect_sums_in_order<std::int64_t>(index_of);
  }
}

// Steps of one kind share their code within a plan, unless they do different things or read other element types.
constexpr cleave::function with_both_indices([](auto table, auto narrow, auto wide) {
  return std::pair(gather(table, word, narrow), gather(table, word, wide));
});
TEST(lookup, indices_of_two_types_in_one_plan) {
  using Rows = f64<mesh(batch / ax, embed)>;
  for (const cleave::grid& g : grids()) {
    f64<mesh(word / ay, embed)> table(g, {16, 4});
    i32<mesh(batch / ax)> narrow(g, {6});
    cleave::tensor<std::int64_t, mesh(batch / ax)> wide(g, {6});
    table.fill_by([](const auto& at) { return static_cast<double>(at[0] * 10 + at[1]); });
    narrow.fill_by([](const auto& at) { return static_cast<int>(at[0] * 5 % 16); });
    wide.fill_by([](const auto& at) { return (at[0] * 7 + 3) % 16; });
    Rows a(g, {6, 4}), b(g, {6, 4});
    with_both_indices(table, narrow, wide).into(a, b);
    const auto from_narrow = a.to_global(), from_wide = b.to_global();
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t j = 0; j < 4; ++j) {
        EXPECT_EQ(from_narrow[4 * i + j], static_cast<double>(i * 5 % 16 * 10 + j));
        EXPECT_EQ(from_wide[4 * i + j], static_cast<double>((i * 7 + 3) % 16 * 10 + j));
      }
  }
}
constexpr cleave::function order_and_positions([](auto values, auto asked) {
  return std::pair(argsort(values, word), searchsorted(sort(values, word), asked, word));
});
TEST(lookup, an_order_and_positions_in_one_plan) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(word / ax)> values(g, {16});
    f64<mesh(batch)> asked(g, {3});
    values.fill_by([](const auto& at) { return static_cast<double>(at[0] * 5 % 16); });
    asked.fill_by([](const auto& at) { return static_cast<double>(at[0] * 4) + 0.5; });
    i32<mesh(word / ax)> order(g, {16});
    i32<mesh(batch)> positions(g, {3});
    order_and_positions(values, asked).into(order, positions);
    const auto o = order.to_global(), p = positions.to_global();
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(o[i] * 5 % 16, static_cast<int>(i));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(p[i], static_cast<int>(4 * i + 1));
  }
}

} // namespace CLEAVE_SOURCE
