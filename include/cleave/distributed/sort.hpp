// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/sorting.hpp>
#include <cleave/distributed/errors.hpp>
#include <cleave/distributed/row_routes.hpp>
#include <cleave/kernels/sort_slices.hpp>

#include <limits>
#include <memory>
#include <numeric>

namespace cleave { inline namespace v0 {

/// Copies runs of elements from one array to another. Strides are constant.
template <class T>
struct copy_runs {
  const T* from;
  T* to;
  const std::int64_t* source;
  const std::int64_t* target;
  const std::int64_t* length;
  std::int64_t from_stride, to_stride;

  CLEAVE_FUNCTION void operator()(std::int64_t run) const {
    for (std::int64_t i = 0; i < length[run]; ++i)
      to[target[run] + i * to_stride] = from[source[run] + i * from_stride];
  }
};
/// Slices along the middle dim of an array [outer][length][inner], one after the other.
template <class T>
struct gather_slices {
  const T* from;
  T* keys;
  std::int32_t* indices;
  std::int64_t length, inner, begin;

  CLEAVE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t along = i / inner % length, slice = i / (inner * length) * inner + i % inner;
    keys[slice * length + along] = from[i];
    if (indices != nullptr) indices[slice * length + along] = static_cast<std::int32_t>(begin + along);
  }
};
/// How many elements of each sorted slice come before each cut.
template <class T>
struct count_before {
  const T* keys;
  const std::int32_t* indices;
  const T* cut_keys;
  const std::int64_t* cut_indices;
  std::int64_t* counts;
  std::int64_t length, cuts, begin;
  in_order<T> order;

  CLEAVE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t first = i / cuts * length;
    std::int64_t low = 0, high = length;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2, at = first + middle;
      const std::int64_t index = indices != nullptr ? indices[at] : begin + middle;
      const bool tie = !order(keys[at], cut_keys[i]) && !order(cut_keys[i], keys[at]);
      if (tie ? index < cut_indices[i] : order(keys[at], cut_keys[i])) low = middle + 1;
      else high = middle;
    }
    counts[i] = cut_indices[i] == beyond_all ? length : low;
  }
  /// The index of a cut that comes after all elements.
  static constexpr std::int64_t beyond_all = std::numeric_limits<std::int64_t>::max();
};

/// The tensor that is sorted, on one device.
struct sorted_tensor {
  tensor_type type{};
  layout where{};
  dim_id along = no_dim;
  bool descending = false;
  bool indices = false;
  sizes at{};
};

/// Sorts the slices of a tensor along a dim: parallel sorting by regular sampling (Shi and Schaeffer 1992). Then
/// elements outside a device's block are forwarded to the device that owns them, so that the result is sharded as the
/// operand is.
/// Communication if the dim is sharded: all-to-alls of samples, counts and elements, and all-gathers of the cuts and of
/// the sizes of parts, all in the group of devices that share the slices. See sort_cost.
template <class T>
class bound_sort final : public comm::data_routed {
 public:
  /// Collective over the grid when these axes are asked for in this order for the first time.
  bound_sort(grid_state& grid, const sorted_tensor& t)
      : how_(1, 0, {}), grid_(grid), order_{t.descending}, element_(t.type.element), wants_indices_(t.indices) {
    const int along = t.type.find(t.along);
    const axis_list list = t.where[along];
    if (grid.sizes().product(list) > 1) group_ = grid.connected(list);
    const box mine = box_of(shape_of(t.type, t.at), t.where, grid.here(), t.at.axes);
    for (int i = 0; i < t.type.rank; ++i)
      if (i != along) (i < along ? outer_ : inner_) *= mine[i].size();
    how_ = sorting(group_.size, outer_ * inner_, t.at.along(t.along));
    begin_ = mine[along].begin;
    length_ = mine[along].size();
    if (t.indices && how_.extent > std::numeric_limits<std::int32_t>::max())
      raise<shape_error>(wording::too_long_to_index(how_.extent));
  }

  void run(const void* const* in, void* out) override {
    const std::int64_t n = how_.slices * length_;
    if (!has_memory_) take_memory();
    launch("cleave sort", n,
           gather_slices<T>{as<T>(in[0]), own_.keys.get(), own_.indices.get(), length_, inner_, begin_});
    wait_for_kernels();
    start_.clear();
    for (std::int64_t s = 0; s <= how_.slices; ++s) start_.push_back(s * length_);
    sort_in_place({}, 0);
    if (how_.devices == 1) {
      runs_.clear();
      for (std::int64_t s = 0; s < how_.slices; ++s) runs_.add(s * length_, result_at(s, 0), length_, inner_);
      return write(own_, out);
    }
    exchange_parts();
    forward(out);
  }

 private:
  using numbers = indexed_vector<std::int64_t>;
  struct sample {
    T key;
    std::int64_t index;
    std::int64_t weight;
  };
  /// Elements, and their indices if those are wanted.
  template <class Space = memory_space>
  struct element_list {
    bool indexed;
    kept_memory<T, Space> keys{};
    kept_memory<std::int32_t, Space> indices{};

    void at_least(std::int64_t n) {
      keys.at_least(n);
      if (indexed) indices.at_least(n);
    }
  };
  /// Where to copy what, in pieces that are short enough for many threads.
  struct run_list {
    static constexpr std::int64_t longest = 4096;
    numbers source{}, target{}, length{};
    std::int64_t elements = 0;

    void reserve(std::int64_t elements_of_all, std::int64_t runs) {
      const std::size_t n = as_size(elements_of_all / longest + runs);
      source.reserve(n), target.reserve(n), length.reserve(n);
    }
    void clear() {
      source.clear(), target.clear(), length.clear();
      elements = 0;
    }
    void add(std::int64_t from, std::int64_t to, std::int64_t n, std::int64_t to_stride = 1) {
      elements += n;
      for (std::int64_t i = 0; i < n; i += longest) {
        source.push_back(from + i);
        target.push_back(to + i * to_stride);
        length.push_back(std::min(longest, n - i));
      }
    }
  };

  /// Where the element of a rank within this device's block of a slice is in the result.
  std::int64_t result_at(std::int64_t slice, std::int64_t rank) const {
    return (slice / inner_ * length_ + rank) * inner_ + slice % inner_;
  }
  /// Where the number for a device and a slice is in a list of all of them.
  std::int64_t slot(std::int64_t device, std::int64_t slice) const { return device * how_.slices + slice; }
  std::int64_t cuts() const { return how_.devices - 1; }
  /// A sample is the middle of the elements that it represents.
  std::int64_t position_of_sample(std::int64_t sample, std::int64_t length) const {
    return std::min(sample * how_.stride() + how_.stride() / 2, length - 1);
  }

  template <class X>
  void copy(const X* from, X* to, const run_list& runs, std::int64_t to_stride) {
    const std::int64_t n = std::ssize(runs.source);
    if (n == 0) return;
    launch("cleave sort", n,
           copy_runs<X>{from, to, sources_.put(runs.source), targets_.put(runs.target), lengths_.put(runs.length), 1,
                        to_stride});
    wait_for_kernels();
  }
  void write(const element_list<>& from, void* out) {
    if (wants_indices_) copy(from.indices.get(), as<std::int32_t>(out), runs_, inner_);
    else copy(from.keys.get(), as<T>(out), runs_, inner_);
  }
  template <class F>
  numbers by_device(F&& elements) const {
    numbers counts;
    for (std::int64_t d = 0; d < how_.devices; ++d) counts.push_back(elements(d));
    return counts;
  }
  void reserve(element_list<>& list, std::int64_t n) {
    comm::allocate_everywhere(grid_, bytes_of<T>(n) + (wants_indices_ ? bytes_of<std::int32_t>(n) : 0),
                              [&] { list.at_least(n); });
  }
  /// In the first run, the memory that all runs need, whatever they sort: a device that found none in a later one would
  /// throw alone. Only parts of more than two blocks have to find more, which are those of many devices and odd data.
  /// Collective over the grid.
  [[gnu::cold]] void take_memory() {
    const std::int64_t slices = how_.slices,
                       own = how_.decided_by(group_.rank) * how_.devices * how_.samples_of(how_.block),
                       part = slices * std::min(how_.longest_part(), 2 * how_.block + sorting::samples);
    const bool alone = how_.devices == 1;
    const std::int64_t here = alone ? slices * length_ : part, there = alone ? 0 : std::max(part, own);
    const auto take = [&] {
      own_.at_least(here);
      sent_.at_least(there);
      received_.at_least(there);
      if (on_host) {
        spare_.at_least(here);
        if (wants_indices_) places_.at_least(here);
      }
      start_.reserve(as_size(slices + 1));
      runs_.reserve(here, slices * std::max(how_.devices, alone ? 1 : how_.samples_of(length_)));
      if (alone) return;
      host_.at_least(own);
      decided_keys_.at_least(how_.decided_by(group_.rank) * cuts());
      cut_keys_.at_least(slices * cuts());
      counted_.at_least(slices * cuts());
      run_start_.reserve(as_size(slices * how_.devices));
      sizes_.reserve(as_size(slices));
    };
    grid_.agree_on_memory(finds_memory(take), bytes_of<T>(here + 2 * there), "the elements of a sort");
    has_memory_ = true;
  }
  void sort_in_place(indexed_span<const std::int64_t> run_start, std::int64_t runs) {
    std::int32_t* places = nullptr;
    if (on_host) {
      spare_.at_least(start_.back());
      if (wants_indices_) places = places_.at_least(start_.back());
    }
    sort_slices<T>({own_.keys.get(), own_.indices.get(), start_, run_start, runs, order_, spare_.keys.get(),
                    spare_.indices.get(), places});
  }
  /// The exchanged keys, with their indices if they are wanted.
  void exchange_elements(const numbers& to, const numbers& from, std::int64_t received) {
    reserve(received_, received);
    large_.run(sent_.keys.get(), to, received_.keys.get(), from, 1, element_, group_);
    if (wants_indices_) large_.run(sent_.indices.get(), to, received_.indices.get(), from, 1, element::i32, group_);
  }
  /// Copies the runs from one list to another one.
  void copy_elements(const element_list<>& from, element_list<>& to) {
    reserve(to, runs_.elements);
    copy(from.keys.get(), to.keys.get(), runs_, 1);
    if (wants_indices_) copy(from.indices.get(), to.indices.get(), runs_, 1);
  }

  /// The cuts of all slices, on the host of all devices.
  void find_cuts() {
    const std::int64_t own = how_.decided_by(group_.rank), samples = show_samples(own);
    host_.at_least(samples);
    copy_bytes<Kokkos::HostSpace, memory_space>(host_.keys.get(), received_.keys.get(), bytes_of<T>(samples));
    if (wants_indices_)
      copy_bytes<Kokkos::HostSpace, memory_space>(host_.indices.get(), received_.indices.get(),
                                                  bytes_of<std::int32_t>(samples));

    T* const keys = decided_keys_.at_least(own * cuts());
    auto decided = numbers::filled(own * cuts());
    for (std::int64_t s = 0; s < own; ++s)
      decide_cuts(samples_of_slice(s, own), keys + s * cuts(), decided.data() + s * cuts());
    const numbers theirs = by_device([&](std::int64_t d) { return how_.decided_by(d) * cuts(); });
    small_.gather(keys, cut_keys_.at_least(how_.slices * cuts()), theirs, element_, group_);
    cut_indices_ = numbers::filled(how_.slices * cuts());
    small_.gather(decided.data(), cut_indices_.data(), theirs, element::i64, group_);
  }
  /// Sends samples of every slice to the device that decides for the slice. How many this device receives for its `own`
  /// slices.
  std::int64_t show_samples(std::int64_t own) {
    const std::int64_t shown = how_.samples_of(length_);
    runs_.clear();
    for (std::int64_t s = 0; s < how_.slices; ++s)
      for (std::int64_t k = 0; k < shown; ++k)
        runs_.add(s * length_ + position_of_sample(k, length_), s * shown + k, 1);
    copy_elements(own_, sent_);
    const numbers to = by_device([&](std::int64_t d) { return how_.decided_by(d) * shown; });
    const numbers from = by_device([&](std::int64_t d) { return own * how_.samples_of(how_.length_of(d)); });
    const std::int64_t samples = comm::total_of(from);
    exchange_elements(to, from, samples);
    return samples;
  }
  /// The samples of one of the `own` slices that this device decides for, in order.
  indexed_vector<sample> samples_of_slice(std::int64_t slice, std::int64_t own) const {
    indexed_vector<sample> all;
    std::int64_t first = 0;
    for (std::int64_t d = 0; d < how_.devices; ++d) {
      const std::int64_t length = how_.length_of(d), count = how_.samples_of(length);
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t at = first + slice * count + k, left = length - k * how_.stride();
        const std::int64_t index = wants_indices_ ? host_.indices.get()[at]
                                                  : how_.block_of(d).begin + position_of_sample(k, length);
        all.push_back({host_.keys.get()[at], index, std::min(left, how_.stride())});
      }
      first += own * count;
    }
    std::sort(all.begin(), all.end(), [&](const sample& a, const sample& b) {
      return order_(a.key, b.key) || (!order_(b.key, a.key) && a.index < b.index);
    });
    return all;
  }
  /// The cut before a block is the sample of about its rank: the elements before it, and half of those that it
  /// represents.
  void decide_cuts(const indexed_vector<sample>& all, T* keys, std::int64_t* indices) const {
    std::size_t next = 0;
    std::int64_t before = 0;
    for (std::int64_t c = 0; c < cuts(); ++c) {
      const std::int64_t rank = how_.block_of(c).end;
      for (; next < all.size() && before + all[next].weight / 2 < rank; ++next) before += all[next].weight;
      const bool beyond = rank >= how_.extent || next == all.size();
      keys[c] = beyond ? T{} : all[next].key;
      indices[c] = beyond ? count_before<T>::beyond_all : all[next].index;
    }
  }
  /// How many elements of each slice here come before each of its cuts.
  void count_before_cuts() {
    const std::int64_t n = how_.slices * cuts();
    T* const cut_keys = sent_.keys.at_least(n);
    copy_bytes<memory_space, Kokkos::HostSpace>(cut_keys, cut_keys_.get(), bytes_of<T>(n));
    std::int64_t* const counted = counted_.at_least(n);
    launch("cleave sort", n,
           count_before<T>{own_.keys.get(), own_.indices.get(), cut_keys, sources_.put(cut_indices_), counted, length_,
                           cuts(), begin_, order_});
    wait_for_kernels();
    ends_ = numbers::filled(n);
    copy_bytes<Kokkos::HostSpace, memory_space>(ends_.data(), counted, bytes_of<std::int64_t>(n));
  }

  /// Part d of every slice, as this device has it, goes to device d, which merges them.
  void exchange_parts() {
    find_cuts();
    count_before_cuts();
    numbers sent, to;
    runs_.clear();
    for (std::int64_t d = 0; d < how_.devices; ++d) {
      const std::int64_t before = runs_.elements;
      for (std::int64_t s = 0; s < how_.slices; ++s) {
        const auto cut = [&](std::int64_t c) { return c < 0 ? 0 : c == cuts() ? length_ : ends_[s * cuts() + c]; };
        sent.push_back(cut(d) - cut(d - 1));
        runs_.add(s * length_ + cut(d - 1), runs_.elements, cut(d) - cut(d - 1));
      }
      to.push_back(runs_.elements - before);
    }
    copy_elements(own_, sent_);
    const numbers each = by_device([&](std::int64_t) { return how_.slices; });
    const numbers received = small_.exchanged(sent, each, each, group_);
    const numbers from = by_device([&](std::int64_t d) {
      const std::int64_t* const first = received.data() + slot(d, 0);
      return std::accumulate(first, first + how_.slices, std::int64_t{0});
    });
    exchange_elements(to, from, comm::total_of(from));
    merge_parts(received, from);
  }
  /// Merges the parts that came. `received` has the length of each device's run of each slice, `from` the elements of
  /// each device. The runs come device by device: those of one slice are put side by side first.
  void merge_parts(const numbers& received, const numbers& from) {
    start_.assign(1, 0);
    run_start_.clear();
    sizes_.clear();
    numbers next = numbers::filled(how_.devices, 0);
    for (std::int64_t d = 1; d < how_.devices; ++d) next[d] = next[d - 1] + from[d - 1];
    runs_.clear();
    for (std::int64_t s = 0; s < how_.slices; ++s) {
      for (std::int64_t d = 0; d < how_.devices; ++d) {
        const std::int64_t length = received[slot(d, s)];
        run_start_.push_back(runs_.elements);
        runs_.add(next[d], runs_.elements, length);
        next[d] += length;
      }
      sizes_.push_back(runs_.elements - start_.back());
      start_.push_back(runs_.elements);
    }
    copy_elements(received_, own_);
    sort_in_place(run_start_, how_.devices);
  }

  /// The ranks of each device's part of each slice.
  indexed_vector<range> ranks_of_parts() {
    numbers sizes = numbers::filled(how_.devices * how_.slices);
    small_.gather(sizes_.data(), sizes.data(), by_device([&](std::int64_t) { return how_.slices; }), element::i64,
                  group_);
    auto parts = indexed_vector<range>::filled(std::ssize(sizes));
    for (std::int64_t s = 0; s < how_.slices; ++s) {
      std::int64_t next = 0;
      for (std::int64_t d = 0; d < how_.devices; ++d) {
        const std::int64_t end = next + sizes[slot(d, s)];
        parts[slot(d, s)] = {next, end};
        next = end;
      }
    }
    return parts;
  }
  /// Parts are not quite blocks: every device forwards the elements outside its block to the devices that own them.
  void forward(void* out) {
    const indexed_vector<range> parts = ranks_of_parts();
    numbers to, from;
    runs_.clear();
    for (std::int64_t d = 0; d < how_.devices; ++d) {
      const std::int64_t before = runs_.elements;
      for (std::int64_t s = 0; s < how_.slices; ++s) {
        const range own = parts[slot(group_.rank, s)], wanted = intersect(own, how_.block_of(d));
        runs_.add(start_[s] + wanted.begin - own.begin, runs_.elements, wanted.size());
      }
      to.push_back(runs_.elements - before);
    }
    copy_elements(own_, sent_);
    runs_.clear();
    const range mine = how_.block_of(group_.rank);
    for (std::int64_t d = 0; d < how_.devices; ++d) {
      const std::int64_t before = runs_.elements;
      for (std::int64_t s = 0; s < how_.slices; ++s) {
        const range wanted = intersect(parts[slot(d, s)], mine);
        runs_.add(runs_.elements, result_at(s, wanted.begin - mine.begin), wanted.size(), inner_);
      }
      from.push_back(runs_.elements - before);
    }
    exchange_elements(to, from, runs_.elements);
    write(received_, out);
  }

  sorting how_;
  grid_state& grid_;
  in_order<T> order_;
  element element_;
  bool wants_indices_, has_memory_ = false;
  std::int64_t outer_ = 1, inner_ = 1, begin_ = 0, length_ = 0;
  comm::group group_{};
  comm::row_exchange large_{}, small_{};
  comm::device_numbers sources_{}, targets_{}, lengths_{};
  element_list<> own_{wants_indices_}, sent_{wants_indices_}, received_{wants_indices_}, spare_{wants_indices_};
  element_list<Kokkos::HostSpace> host_{wants_indices_};
  kept_memory<std::int32_t> places_{};
  kept_memory<std::int64_t> counted_{};
  kept_memory<T, Kokkos::HostSpace> decided_keys_{}, cut_keys_{};
  run_list runs_{};
  /// Where each slice of the merged keys starts, and each run of it; how long the slices are; the cuts, and how much
  /// comes before them.
  numbers start_{}, run_start_{}, sizes_{}, cut_indices_{}, ends_{};
};

}} // namespace cleave::v0
