// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/grid.hpp>
#include <cleave/io/errors.hpp>

#include <mpi.h>

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

// How an error of one rank becomes the same error of all.

namespace cleave { inline namespace v0 { namespace io { namespace detail {

/// An exception as data, so that one rank can send it to the others.
class failure {
 public:
  failure() = default;
  explicit failure(std::string sentence) : sentence_(std::move(sentence)), kind_(0) {}
  /// Of the exception that is being handled.
  [[gnu::cold]] static failure caught(int rank) {
    failure made("");
    try {
      throw;
    } catch (const error& e) {
      made.sentence_ = e.what();
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((dynamic_cast<const std::tuple_element_t<I, kinds>*>(&e) != nullptr ? void(made.kind_ = int{I}) : void()),
         ...);
      }(std::make_index_sequence<std::tuple_size_v<kinds>>{});
    } catch (const std::bad_alloc&) {
      made = failure(wording::no_memory_for_files(rank));
      made.kind_ = memory;
    } catch (const std::exception& e) {
      made.sentence_ = e.what();
    } catch (...) {
      made = failure(wording::unknown_exception(rank));
    }
    return made;
  }
  explicit operator bool() const { return kind_ >= 0; }
  const std::string& sentence() const { return sentence_; }
  /// Throws it, if it is one.
  void raise_it() const {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((kind_ == int{I} ? raise<std::tuple_element_t<I, kinds>>(sentence_) : void()), ...);
    }(std::make_index_sequence<std::tuple_size_v<kinds>>{});
  }
  /// That of the lowest rank that has one, on all ranks. Collective over the communicator of the grid.
  [[gnu::cold]] failure agreed(const grid& g) && {
    const comm::recorded call("reading or writing files");
    const comm::group& all = g.state().everyone();
    g.state().guarded([&] {
      const int mine = kind_ >= 0 ? all.rank : all.size;
      int first = 0;
      comm::check(MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, all.handle), "MPI_Allreduce");
      if (first == all.size) return;
      int numbers[2] = {kind_, as_int(sentence_.size())};
      comm::check(MPI_Bcast(numbers, 2, MPI_INT, first, all.handle), "MPI_Bcast");
      kind_ = numbers[0];
      sentence_.resize(as_size(numbers[1]));
      comm::check(MPI_Bcast(sentence_.data(), numbers[1], MPI_CHAR, first, all.handle), "MPI_Bcast");
    });
    return std::move(*this);
  }

 private:
  /// Others become the first.
  using kinds = std::tuple<file_error, shape_error, layout_error, view_error, grid_error, number_error,
                           environment_error, memory_error>;
  static constexpr int memory = 7;
  std::string sentence_{};
  int kind_ = -1;
};

/// Runs `f` on each rank, which does not communicate. If a rank throws, all ranks throw the exception of the lowest
/// one. Collective over the communicator of the grid. Communication: an MPI_Allreduce of one number.
template <class F>
void on_all_ranks(const grid& g, F&& f) {
  failure mine;
  try {
    f();
  } catch (...) {
    mine = failure::caught(g.state().everyone().rank);
  }
  std::move(mine).agreed(g).raise_it();
}

}}}} // namespace cleave::v0::io::detail
