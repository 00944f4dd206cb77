// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cases.hpp"

#include "../shrunk.hpp"

#include <cleave/simulate/evaluate.hpp>

#include <Kokkos_Core.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>

namespace cases {

namespace {

using nlohmann::json;

/// CLEAVE_CASES is the path of the file; null where it has no such case.
const json& recorded_case(const std::string& id) {
  static const json all = [] {
    std::ifstream file(CLEAVE_CASES);
    return file ? json::parse(file) : json();
  }();
  static const json none;
  if (all.is_object())
    for (const json& c : all.at("cases"))
      if (c.at("id") == id) return c;
  return none;
}

cleave::element element_named(const std::string& dtype) {
  static const std::map<std::string, cleave::element> known{
      {"float32", cleave::element::f32}, {"bfloat16", cleave::element::bf16}, {"int32", cleave::element::i32},
      {"uint32", cleave::element::u32},  {"complex64", cleave::element::c64}, {"bool", cleave::element::boolean}};
  return known.at(dtype);
}
std::optional<double> number(const json& of, const char* key) {
  const json& n = of.at(key);
  return n.is_null() ? std::nullopt : std::optional(n.get<double>());
}
/// A spec of the file as layout: null, an axis, or axes with the major one first, for every dim.
cleave::layout layout_of(const json& spec, const cleave::mesh_value& mesh) {
  cleave::layout l;
  for (std::size_t d = 0; d < spec.size(); ++d) {
    const auto divide = [&](const json& axis) { l.append(static_cast<int>(d), mesh.find(axis.get<std::string>())); };
    if (spec[d].is_array()) std::for_each(spec[d].begin(), spec[d].end(), divide);
    else if (!spec[d].is_null()) divide(spec[d]);
  }
  return l;
}
std::vector<std::int64_t> extents_of(const cleave::tensor_type& type, const cleave::sizes& at) {
  std::vector<std::int64_t> all;
  for (int i = 0; i < type.rank; ++i) all.push_back(at[type[i]]);
  return all;
}

/// Fixed extents stay; of the others every second one is twice the least, so that dims are not taken for one another.
cleave::sizes shrunk(const cleave::program& p, const cleave::sizes& real) {
  cleave::sizes small = real;
  const auto open = [&](cleave::dim_id d) { return p.dims[d].extent == cleave::dynamic; };
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    if (!open(static_cast<cleave::dim_id>(d))) continue;
    const std::int64_t least = shrunk_extent(real.dims[d], real.axes);
    small.dims[d] = d % 2 == 1 && 2 * least <= real.dims[d] && shrunk_extent(2 * least, real.axes) == least ? 2 * least
                                                                                                            : least;
  }
  for (const cleave::derived_extent& rule : p.rules.derived)
    if (open(rule.dim)) small.dims[rule.dim] = cleave::dynamic;
  for (const cleave::dim_product& rule : p.rules.products)
    if (open(rule[0])) small.dims[rule[0]] = cleave::dynamic;
  EXPECT_TRUE(derive_extents(p.rules, small));
  return small;
}

double wave(std::int64_t i, std::size_t which) {
  return std::sin(0.3 + 1.7 * static_cast<double>(which) + 0.71 * static_cast<double>(i));
}
/// Whole numbers below n, as evenly over blocks of 0..n as can be among any consecutive ones.
std::int64_t place(std::int64_t i, std::int64_t n) { return n % 8 != 0 ? i % n : i % 8 * (n / 8) + i / 8 % (n / 8); }

template <class T>
void store(void* to, double x) {
  const T stored = static_cast<T>(x);
  std::memcpy(to, &stored, sizeof(T));
}
template <class T>
double loaded(const void* from) {
  T stored;
  std::memcpy(&stored, from, sizeof(T));
  return static_cast<double>(stored);
}
double element_at(const unsigned char* data, cleave::element e) {
  switch (e) {
    case cleave::element::bf16: return static_cast<double>(loaded<cleave::bfloat16>(data));
    case cleave::element::i32: return loaded<std::int32_t>(data);
    case cleave::element::u32: return loaded<std::uint32_t>(data);
    case cleave::element::boolean: return loaded<bool>(data);
    default: return loaded<float>(data);
  }
}
void set_element(unsigned char* data, cleave::element e, double x) {
  switch (e) {
    case cleave::element::bf16: return store<cleave::bfloat16>(data, x);
    case cleave::element::i32: return store<std::int32_t>(data, x);
    case cleave::element::u32: return store<std::uint32_t>(data, x);
    default: return store<float>(data, x);
  }
}
/// Complex numbers are two elements.
std::int64_t numbers_in(cleave::element e) { return e == cleave::element::c64 ? 2 : 1; }
std::vector<double> whole(const cleave::tensor_state& t, const cleave::layout& where) {
  const cleave::indexed_vector<unsigned char> bytes = cleave::gather_bytes(t, where, [] {});
  const std::size_t size = static_cast<std::size_t>(size_of(t.element) / numbers_in(t.element));
  std::vector<double> all(bytes.size() / size);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = element_at(bytes.data() + i * size, t.element);
  return all;
}
double tolerance_of(cleave::element e) {
  return !is_floating(e) && e != cleave::element::c64 ? 0
         : e == cleave::element::bf16                 ? 2e-2
         : e == cleave::element::c64                  ? 1e-4
                                                      : 2e-5;
}

bool is(const cleave::step& s, cleave::step_kind what) { return s.kind == what; }
/// Whether some maps of an exchange have offsets that come from the run.
bool at_run_time(const cleave::program& p, const cleave::step& s) {
  for (std::size_t m = 0; m < s.maps; ++m)
    if (p.maps[s.first_map + m].at_run_time != 0) return is(s, cleave::step_kind::exchange);
  return false;
}

/// What each step of a program moved on this rank: steps are regions of Kokkos, whose tools are told of them.
struct step_charges {
  static inline std::vector<std::int64_t> moved{};
  static inline std::int64_t before = 0;
  static inline int depth = 0;

  step_charges() {
    moved.clear();
    Kokkos::Tools::Experimental::set_push_region_callback([](const char*) {
      if (depth++ == 0) before = support::charged_bytes();
    });
    Kokkos::Tools::Experimental::set_pop_region_callback([] {
      if (--depth == 0) moved.push_back(support::charged_bytes() - before);
    });
  }
  ~step_charges() {
    Kokkos::Tools::Experimental::set_push_region_callback(nullptr);
    Kokkos::Tools::Experimental::set_pop_region_callback(nullptr);
  }
  step_charges(const step_charges&) = delete;
  step_charges& operator=(const step_charges&) = delete;
};

} // namespace

trial::trial(compiled program, reference serial) : program_(std::move(program)), serial_(std::move(serial)) {
  const json& c = recorded_case(program_.id);
  EXPECT_TRUE(c.is_object()) << "no such case in " << CLEAVE_CASES;
  const cleave::program& p = program_.plan;
  for (int a = 0; a < p.mesh.size(); ++a) mesh_sizes_.push_back(p.mesh.axes[static_cast<std::size_t>(a)].size);
  small_ = shrunk(p, program_.real);
  if (!c.is_object()) return;

  EXPECT_EQ(mesh_sizes_, c.at("mesh").at("sizes").get<std::vector<std::int64_t>>());
  for (std::size_t a = 0; a < p.mesh.axes.size(); ++a)
    EXPECT_EQ(p.mesh.axes[a].name, c.at("mesh").at("axes").at(a).get<std::string>());
  EXPECT_EQ(p.arguments, c.at("inputs").size());
  EXPECT_EQ(p.results, c.at("outputs").size());
  for (std::size_t b = 0;
       b < std::min<std::size_t>(p.arguments + p.results, c.at("inputs").size() + c.at("outputs").size()); ++b) {
    const bool argument = b < p.arguments;
    const std::size_t r = b - p.arguments;
    const json& tensor = argument ? c.at("inputs").at(b) : c.at("outputs").at(r);
    const json& asked = argument || c.at("outputs_requested").at(r).is_null() ? tensor.at("spec")
                                                                              : c.at("outputs_requested").at(r);
    const auto shape = tensor.at(argument ? "shape" : "global_shape").get<std::vector<std::int64_t>>();
    EXPECT_EQ(extents_of(p.buffers[b].type, program_.real), shape) << "tensor " << b;
    EXPECT_TRUE(p.buffers[b].where == layout_of(asked, p.mesh)) << "tensor " << b;
    EXPECT_EQ(p.buffers[b].type.element, element_named(tensor.at("dtype").get<std::string>())) << "tensor " << b;
  }
  // As the oracle: convolutions are products here but not in XLA.
  const bool unlimited = c.at("op").get<std::string>().starts_with("conv");
  EXPECT_EQ(program_.repeat, number(c, "redundancy").value_or(unlimited ? 0 : 1));

  // What the oracle finds, which looks as far as the policy goes.
  EXPECT_EQ(bytes(p, program_.real),
            bytes(partition(program_.recorded, program_.real, cleave::policy::bytes_first(program_.repeat)),
                  program_.real));
  // XLA's CPU pipeline widens bf16 to f32.
  const double widened = c.at("inputs").at(0).at("dtype") == "bfloat16" ? 0.5 : 1.0;
  if (const auto gspmd = number(c.at("gspmd"), "bytes_with_reduce_scatter"))
    price_at_most(*gspmd * widened + 64, "GSPMD moves");
  if (const auto bound = number(c, "bound_bytes"))
    price_at_most(*bound + number(c, "tolerance_bytes").value_or(0), "the bound is");
}

void trial::price_at_most(double recorded, const char* whose) const {
  EXPECT_LE(static_cast<double>(bytes(program_.plan, program_.real)), recorded) << whose << " less";
}

std::vector<std::int64_t> trial::extents(std::size_t tensor) const {
  return extents_of(program_.plan.buffers[tensor].type, small_);
}

void trial::fill(const cleave::tensor_state& t, const cleave::layout& where) {
  const std::size_t which = arguments_.size();
  // Whole numbers are places along dim v, where there is one, or the first index of something.
  const int v = program_.recorded.find_dim("v");
  const bool places = !is_floating(t.element) && t.element != cleave::element::c64;
  const bool solved = std::any_of(program_.recorded.nodes.begin(), program_.recorded.nodes.end(),
                                  [](const cleave::node& n) {
                                    return n.code == cleave::op::call && n.type.element == cleave::element::f32;
                                  });
  const std::int64_t numbers = numbers_in(t.element), size = size_of(t.element) / numbers;
  const auto value = [&](std::int64_t flat) {
    if (places)
      return static_cast<double>(t.global.rank == 0 || v < 0 ? 5 + flat
                                                             : place(flat, small_.dims[static_cast<std::size_t>(v)]));
    // What is factored or solved with must be far from singular.
    const bool diagonal = solved && t.global.rank == 2 && t.global[0] == t.global[1] && flat % (t.global[1] + 1) == 0;
    return wave(flat, which) + (diagonal ? static_cast<double>(t.global[0]) : 0);
  };
  std::int64_t mine = 0;
  std::vector<unsigned char> shard(static_cast<std::size_t>(t.bytes()));
  support::for_owned(t.global, where, t.grid.here(), t.grid.sizes(), [&](std::int64_t flat) {
    for (std::int64_t k = 0; k < numbers; ++k)
      set_element(shard.data() + (mine * numbers + k) * size, t.element, value(flat * numbers + k));
    ++mine;
  });
  cleave::copy_bytes<cleave::memory_space, Kokkos::HostSpace>(t.data, shard.data(), t.bytes());
  cleave::host_array a(t.global);
  a.data = whole(t, where);
  arguments_.push_back(std::move(a));
}

void trial::run(const std::function<void()>& program) {
  // One rank computes what is wanted, for all. The first run makes what is kept.
  if (support::rank() == 0) {
    if (serial_) wanted_ = serial_(arguments_);
    else
      for (const cleave::host_array& r : evaluate(program_.recorded, small_, arguments_)) wanted_.push_back(r.data);
  }
  share_wanted();
  program();
  support::reset_charges();
  {
    const step_charges counted;
    program();
  }
  const std::int64_t order = support::collective_order();
  EXPECT_EQ(support::over_ranks(order), order) << "ranks call in another order";
  // A plan's bytes are the sum over its steps of what the busiest device of each moves.
  std::int64_t moved = 0;
  for (const std::int64_t step : step_charges::moved) moved += support::over_ranks(step);
  const cleave::program& p = program_.plan;
  const std::int64_t priced = bytes(p, small_);
  EXPECT_EQ(step_charges::moved.size(), p.steps.size());
  EXPECT_LE(support::over_ranks(support::charged_bytes()), moved);
  std::int64_t asks = 0, offsets = 0, reduces = 0, sorted = 0;
  for (const cleave::step& s : p.steps) {
    asks += is(s, cleave::step_kind::gather) || is(s, cleave::step_kind::scatter) ? 1 : 0;
    sorted += is(s, cleave::step_kind::sort) ? step_bytes(p, s, small_) : 0;
    offsets += at_run_time(p, s) ? 1 : 0;
    reduces += s.move == cleave::kind::all_reduce ? 1 : 0;
  }
  // Where traffic depends on values the price is that of the worst, or of even places, beside which each device says
  // how many it asks for. Which device has the most to send is chance where so few elements are sorted.
  // Small all-reduces travel as one, whose bytes are rounded down once.
  EXPECT_LE(moved, priced + asks * 8 * support::ranks() + std::max<std::int64_t>(reduces - 1, 0) + sorted / 4);
  if (asks + offsets + sorted == 0) {
    EXPECT_GE(moved, priced);
  }
}

void trial::share_wanted() {
  std::int64_t results = std::ssize(wanted_);
  MPI_Bcast(&results, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  wanted_.resize(static_cast<std::size_t>(results));
  for (std::vector<double>& w : wanted_) {
    std::int64_t elements = std::ssize(w);
    MPI_Bcast(&elements, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    w.resize(static_cast<std::size_t>(elements));
    MPI_Bcast(w.data(), static_cast<int>(elements), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  }
}

// Every rank compares: of what it holds itself it sees its own replica, of the rest that of another rank.
void trial::compare(std::size_t result, const cleave::tensor_state& t, const cleave::layout& where) {
  const std::vector<double> got = whole(t, where);
  const std::vector<double>& wanted = wanted_.at(result);
  const std::int64_t i = cleave::first_difference(wanted, got, tolerance_of(t.element));
  if (i >= 0 && static_cast<std::size_t>(i) < std::min(wanted.size(), got.size()))
    ADD_FAILURE() << "result " << result << ": element " << i << " is " << got[static_cast<std::size_t>(i)]
                  << " instead of " << wanted[static_cast<std::size_t>(i)];
  EXPECT_EQ(wanted.size(), got.size()) << "result " << result;
}

} // namespace cases
