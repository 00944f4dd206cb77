// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program with every kind of communication, whose values are known, and wrappers of MPI that inject a fault into one
// of its ranks. faults.py has the faults and the expected outcome of each.
//
// INJECT is `what:rank:place[:number]`. The place is a call of MPI, c and its number, or a part of the program, p and
// its number. INJECT_JITTER is `seed:microseconds` that each call of MPI is late at most; INJECT_REVERSED completes
// requests from the last to the first.
#include <cleave/cleave.hpp>
#include <cleave/io/checkpoints.hpp>
#include <cleave/nn/embedding.hpp>

#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

/// The fault that the environment asks for.
struct fault {
  std::string what{}, place{};
  int rank = -1;
  double number = 0;

  fault() {
    const char* const text = std::getenv("INJECT");
    std::istringstream in(text == nullptr ? "" : text);
    std::string rank_text, number_text;
    std::getline(in, what, ':');
    std::getline(in, rank_text, ':');
    std::getline(in, place, ':');
    std::getline(in, number_text, ':');
    if (!rank_text.empty()) rank = std::stoi(rank_text);
    if (!number_text.empty()) number = std::stod(number_text);
  }
};
const fault injected;
int own_rank = 0, ranks = 1;
long calls = 0;

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
bool is_here(const std::string& place) { return injected.rank == own_rank && injected.place == place; }
bool is_here(std::string_view what, const std::string& place) { return is_here(place) && injected.what == what; }

/// Lets this process take so many bytes more than it has.
void leave_memory(std::uint64_t bytes) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + bytes;
  setrlimit(RLIMIT_AS, &limit);
}
/// What can happen anywhere.
void strike() {
  std::printf("rank %d: %s at %s\n", own_rank, injected.what.c_str(), injected.place.c_str());
  std::fflush(stdout);
  if (injected.what == "late") pause(injected.number);
  if (injected.what == "stops") std::raise(SIGSTOP);
  if (injected.what == "is killed") std::raise(SIGKILL);
  if (injected.what == "leaves") pause(6), _exit(0);
  if (injected.what == "loops")
    for (;;) pause(1);
  if (injected.what == "no memory") leave_memory(static_cast<std::uint64_t>(injected.number));
  if (injected.what == "full disk") {
    const rlimit limit{static_cast<rlim_t>(injected.number), static_cast<rlim_t>(injected.number)};
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (injected.what == "throws") throw std::runtime_error("it has no input");
}

/// Before each call of MPI; returns the error of the call, or success.
int before_call() {
  static const char* const jitter = std::getenv("INJECT_JITTER");
  static std::mt19937_64 random(jitter == nullptr ? 0 : static_cast<std::uint64_t>(std::atoi(jitter) * 100 + own_rank));
  if (jitter != nullptr) {
    const double most = std::atof(std::string(jitter).substr(std::string(jitter).find(':') + 1).c_str());
    if (random() % 4 == 0) pause(1e-6 * most * static_cast<double>(random() % 1000) / 1000);
  }
  if (injected.rank != own_rank || injected.place != "c" + std::to_string(++calls)) return MPI_SUCCESS;
  if (injected.what == "fails") return std::printf("rank %d: fails\n", own_rank), MPI_ERR_OTHER;
  return strike(), MPI_SUCCESS;
}
bool is_reversed() {
  static const bool is = std::getenv("INJECT_REVERSED") != nullptr;
  return is;
}

} // namespace

#define INJECTED(name, parameters, ...)                           \
  extern "C" int MPI_##name parameters {                          \
    const int code = before_call();                               \
    return code != MPI_SUCCESS ? code : PMPI_##name(__VA_ARGS__); \
  }
INJECTED(Allreduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), a, b, n, t, o, c)
INJECTED(Reduce_scatter, (const void* a, void* b, const int* n, MPI_Datatype t, MPI_Op o, MPI_Comm c), a, b, n, t, o, c)
INJECTED(Reduce_scatter_block, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), a, b, n, t, o, c)
INJECTED(Allgather, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c), a, n, t, b, m,
         u, c)
INJECTED(Allgatherv,
         (const void* a, int n, MPI_Datatype t, void* b, const int* m, const int* d, MPI_Datatype u, MPI_Comm c), a, n,
         t, b, m, d, u, c)
INJECTED(Alltoall, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c), a, n, t, b, m, u,
         c)
INJECTED(Bcast, (void* a, int n, MPI_Datatype t, int r, MPI_Comm c), a, n, t, r, c)
INJECTED(Barrier, (MPI_Comm c), c)
INJECTED(Exscan, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), a, b, n, t, o, c)
INJECTED(Isend, (const void* a, int n, MPI_Datatype t, int r, int tag, MPI_Comm c, MPI_Request* q), a, n, t, r, tag, c,
         q)
INJECTED(Irecv, (void* a, int n, MPI_Datatype t, int r, int tag, MPI_Comm c, MPI_Request* q), a, n, t, r, tag, c, q)
INJECTED(Iallreduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* q), a, b, n, t,
         o, c, q)
INJECTED(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm* d), c, color, key, d)
INJECTED(Comm_dup, (MPI_Comm c, MPI_Comm* d), c, d)
INJECTED(Wait, (MPI_Request * q, MPI_Status* s), q, s)
extern "C" int MPI_Waitall(int n, MPI_Request all[], MPI_Status*) {
  int code = before_call();
  for (int i = 0; i < n && code == MPI_SUCCESS; ++i)
    code = PMPI_Wait(&all[is_reversed() ? n - 1 - i : i], MPI_STATUS_IGNORE);
  return code;
}
extern "C" int MPI_Testsome(int n, MPI_Request all[], int* some, int which[], MPI_Status*) {
  // One at a time, and not always the first.
  *some = 0;
  for (int i = 0; i < n && is_reversed(); ++i) {
    int done = 0;
    MPI_Request& q = all[n - 1 - i];
    if (q == MPI_REQUEST_NULL) continue;
    if (const int code = PMPI_Test(&q, &done, MPI_STATUS_IGNORE); code != MPI_SUCCESS) return code;
    if (done != 0) return which[0] = n - 1 - i, *some = 1, MPI_SUCCESS;
  }
  return is_reversed() ? MPI_SUCCESS : PMPI_Testsome(n, all, some, which, MPI_STATUSES_IGNORE);
}

// Not without a name: fields of an aggregate have the names of its objects.
namespace injected_run {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"item"> item;
using Rows = cleave::tensor<double, mesh(row / data, col)>;
using Cols = cleave::tensor<double, mesh(row, col / data)>;
using Whole = cleave::tensor<double, mesh(row, col)>;
using Line = cleave::tensor<double, mesh(row / data)>;
using Ids = cleave::tensor<std::int32_t, mesh(item / data)>;
using Found = cleave::tensor<double, mesh(item / data, col)>;
using Number = cleave::tensor<double, mesh()>;

constexpr std::int64_t rows = 24, cols = 10;
double at(std::int64_t r, std::int64_t c) { return static_cast<double>(100 * r + c); }

// What another binary has in these places: another literal, operation, dim, order of operations, and a call more.
constexpr cleave::function total([](auto x) { return sum(x * 2.0); });
constexpr cleave::function other_literal([](auto x) { return sum(x * 3.0); });
constexpr cleave::function other_operation([](auto x) { return max(x * 2.0); });
constexpr cleave::function other_layout([](auto x) { return sum(sum(x, row) * 2.0); });
constexpr cleave::function other_order([](auto x) { return sum(x) * 2.0; });
constexpr cleave::function blended([](auto x, auto w, auto part) { return x * (1.0 - part) + w * part; });
constexpr cleave::function halved([](auto x, auto least) {
  return cleave::repeat_until(
      x, [](const auto& v) { return v * 0.5; }, [&](const auto& v) { return max(abs(v)) < least; }, 100);
});
constexpr cleave::function neighbours([](auto x) { return shift(x, row, 1) + shift(x, row, -1); });
constexpr cleave::function products([](auto x, auto y) { return dot(x, rename(y, row, item), col); });
constexpr cleave::function loss([](auto scores, auto labels) {
  return mean(cleave::nn::cross_entropy(scores, labels, col));
});
struct refuses {
  static constexpr std::string_view name = "refuses";
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {
    if (is_here("the kernel throws", "p1")) throw std::runtime_error("the kernel refuses");
  }
};
constexpr cleave::function with_kernel([](auto x) { return sum(cleave::call<refuses>(cleave::whole(col), x)); });

struct saved_state {
  Rows x;
  std::int64_t step = 0;
};

class program {
 public:
  explicit program(std::string folder)
      : folder_(std::move(folder)), g_(mesh, MPI_COMM_WORLD, {ranks}), x_(g_, {rows, cols}), y_(g_, {rows, cols}),
        z_(g_, {rows, cols}), w_(g_, {rows, cols}), line_(g_, {rows}), sorted_(g_, {rows}), ids_(g_, {rows}),
        found_(g_, {rows, cols}), n_(g_, {}) {}

  void run() {
    for (int round = 0; round < 2; ++round) {
      begin(1);
      x_.fill_by([](const auto& i) { return at(i[0], i[1]); });
      w_.fill_by([](const auto& i) { return at(i[0], i[1]); });
      add();
      expect(n_.item() == 2 * sum_of_all(), "a sum");
      n_ = with_kernel(x_);

      begin(2);
      const double part = is_here("another number", "p2") ? 0.25 : 0.5;
      if (is_here("another replica", "p2")) w_.data()[3] += 1;
      y_ = blended(x_, w_, part);
      expect_shard(y_, [](std::int64_t r, std::int64_t c) { return at(r, c); }, "a map");

      begin(3);
      if (!is_here("skips", "p3")) z_ = x_ + 1.0;
      if (is_here("calls twice", "p3")) z_ = x_ + 1.0;
      const auto one_more = [](std::int64_t r, std::int64_t c) { return at(r, c) + 1; };
      if (!is_here("skips", "p3")) expect_shard(z_, one_more, "an all-to-all");

      begin(4);
      ids_.fill_by([](const auto& i) { return static_cast<int>((7 * i[0] + 3) % rows); });
      found_ = cleave::gather(x_, row, ids_);
      expect_shard(found_, [](std::int64_t r, std::int64_t c) { return at((7 * r + 3) % rows, c); }, "a look-up");

      begin(5);
      line_.fill_by([](const auto& i) { return static_cast<double>((11 * i[0] + 5) % rows); });
      sorted_ = cleave::sort(line_, row);
      expect_shard(sorted_, [](std::int64_t r, std::int64_t) { return static_cast<double>(r); }, "a sort");

      begin(6);
      y_ = neighbours(x_);
      expect_shard(
          y_,
          [](std::int64_t r, std::int64_t c) { return (r > 0 ? at(r - 1, c) : 0) + (r + 1 < rows ? at(r + 1, c) : 0); },
          "neighbours");

      begin(7);
      cleave::tensor<double, mesh(row / data, item)> square(g_, {rows, rows});
      square = products(x_, x_);
      expect_shard(
          square,
          [](std::int64_t r, std::int64_t s) {
            double sum = 0;
            for (std::int64_t c = 0; c < cols; ++c) sum += at(r, c) * at(s, c);
            return sum;
          },
          "a product");

      begin(8);
      const std::vector<double> all = x_.to_global();
      bool right = static_cast<std::int64_t>(all.size()) == rows * cols;
      for (std::int64_t i = 0; right && i < rows * cols; ++i)
        right = all[static_cast<std::size_t>(i)] == at(i / cols, i % cols);
      expect(right, "the whole");

      begin(9);
      const double least = is_here("another tolerance", "p9") ? 1e-9 : 1.0;
      y_ = halved(x_, least);
      expect_shard(y_, [](std::int64_t r, std::int64_t c) { return at(r, c) / 4096; }, "a loop");

      begin(10);
      cleave::tensor<std::int32_t, mesh(row / data)> labels(g_, {rows});
      labels.fill_by([](const auto& i) { return static_cast<int>(i[0] % cols); });
      if (is_here("another label", "p10")) labels.fill_by([](const auto&) { return -7; });
      n_ = loss(x_ * 0.0, labels);
      expect(std::abs(n_.item() - std::log(static_cast<double>(cols))) < 1e-12, "a loss");

      begin(11);
      const std::int64_t longer = is_here("other extents", "p11") ? rows + 3 : rows;
      const Line fresh(g_, {longer});
      n_ = sum(fresh);
      expect(n_.item() == 0, "a new tensor");

      begin(12);
      if (!folder_.empty()) save(round);
      begin(13);
    }
    std::printf("rank %d: all is right\n", own_rank);
  }

 private:
  void begin(int part) {
    const std::string place = "p" + std::to_string(part);
    if (is_here(place)) strike();
    if (!is_here("swaps", place)) return;
    y_ = x_ + 1.0;
    n_ = sum(x_);
  }
  void add() {
    const int other = injected.rank == own_rank && injected.what == "another binary" ? static_cast<int>(injected.number)
                                                                                     : 0;
    if (other == 1) n_ = other_literal(x_);
    else if (other == 2) n_ = other_operation(x_);
    else if (other == 3) n_ = other_layout(x_);
    else if (other == 4) n_ = other_order(x_);
    else n_ = total(x_);
    if (other == 5) n_ = total(x_);
  }
  void save(int round) {
    cleave::io::checkpoints saved(g_, folder_, {.keep = 1, .asynchronous = false});
    saved_state state{x_, round};
    saved.save(round + 1, state);
    state.x.fill(0);
    saved.restore(state);
    expect_shard(state.x, [](std::int64_t r, std::int64_t c) { return at(r, c); }, "a checkpoint");
  }
  static double sum_of_all() {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) sum += at(r, c);
    return sum;
  }
  static void expect(bool right, const char* what) {
    if (!right) std::printf("rank %d: wrong value of %s\n", own_rank, what);
  }
  template <class Tensor, class F>
  static void expect_shard(const Tensor& t, const F& value, const char* what) {
    const auto& box = t.state().held;
    const std::int64_t width = box.rank > 1 ? box[1].size() : 1;
    bool right = true;
    for (std::int64_t i = 0; i < t.local_size(); ++i)
      right = right && t.data()[i] == value(box[0].begin + i / width, box.rank > 1 ? box[1].begin + i % width : 0);
    expect(right, what);
  }

  std::string folder_;
  cleave::grid g_;
  Rows x_, y_;
  Cols z_;
  Whole w_;
  Line line_, sorted_;
  Ids ids_;
  Found found_;
  Number n_;
};

} // namespace injected_run

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  // A variable of the environment that one rank has: INJECT=environment:rank:NAME=VALUE
  if (injected.what == "environment" && injected.rank == own_rank)
    setenv(injected.place.substr(0, injected.place.find('=')).c_str(),
           injected.place.substr(injected.place.find('=') + 1).c_str(), 1);
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    try {
      injected_run::program(argc > 1 ? argv[1] : "").run();
    } catch (const std::exception& e) {
      std::printf("rank %d: told: %s\n", own_rank, e.what());
      std::fflush(stdout);
      // The others say it too before this one ends them all.
      pause(own_rank == injected.rank ? 6 : 1);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
  }
  MPI_Finalize();
  return 0;
}
