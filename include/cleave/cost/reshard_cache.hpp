// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/exchange.hpp>
#include <cleave/cost/strategy.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// A list that keeps its memory and its elements when it is emptied, so that inner loops write them without a call.
template <class T>
struct flat_list {
  indexed_vector<T> kept{};
  T* at = nullptr;
  std::size_t count = 0, capacity = 0;

  constexpr flat_list() = default;
  flat_list(const flat_list&) = delete;
  flat_list& operator=(const flat_list&) = delete;

  constexpr void push_back(const T& value) { *append(1) = value; }
  /// Room for some more elements, to be set; the first of them.
  constexpr T* append(std::size_t more) {
    if (count + more > capacity) grow(more);
    T* made = at + count;
    count += more;
    return made;
  }
  /// Makes that room; inner loops call this only if there is none.
  constexpr void grow(std::size_t more) {
    capacity = 2 * (count + more) + 64;
    kept.resize(capacity, T{});
    at = kept.data();
  }
};

/// Where a kind is in a list, to which it is added if it is new.
template <class Kind>
constexpr std::uint32_t position_in(indexed_vector<Kind>& all, const Kind& own) {
  const Kind* const known = all.data();
  const std::size_t count = all.size();
  for (std::size_t k = 0; k < count; ++k)
    if (known[k].hash == own.hash && known[k] == own) return static_cast<std::uint32_t>(k);
  all.push_back(own);
  return static_cast<std::uint32_t>(count);
}

/// The prices of taking values from one layout to another. The same prices come up in every layer, so each is computed
/// once. Values of equal extents and element sizes are of one kind, whatever the names of their dims.
class reshard_cache {
 public:
  constexpr reshard_cache(const sizes& at, const policy& rule) : at_(at), rule_(rule), heads_(bucket_count, 0) {}

  /// The kind of a value.
  constexpr std::uint32_t kind_of(const tensor_type& type) {
    shape_kind own{static_cast<std::uint64_t>(size_of(type.element)), {}, size_of(type.element)};
    own.extents.rank = type.rank;
    for (int i = 0; i < type.rank; ++i) {
      own.extents[i] = at_[type[i]];
      own.hash = (own.hash ^ static_cast<std::uint64_t>(at_[type[i]])) * 0x9e3779b97f4a7c15u;
    }
    return position_in(kinds_, own);
  }

  /// The price of a way for values of a kind.
  constexpr double score(std::uint32_t kind, layout from, layout to) {
    const std::uint64_t h = ((from.word * 0x9e3779b97f4a7c15u) ^ (to.word * 0xc2b2ae3d27d4eb4fu) ^ kind) *
                            0x9e3779b97f4a7c15u;
    const std::uint64_t bucket = h >> bucket_shift;
    for (std::uint32_t k = heads_.at[bucket]; k != 0;) {
      const known& w = known_.at[k - 1];
      if (w.from == from.word && w.to == to.word && w.kind == kind) return w.score;
      k = w.next;
    }
    const double found = path_score(kinds_.at[kind].extents, kinds_.at[kind].element_bytes, from, to, at_.axes, rule_);
    known_.push_back({from.word, to.word, found, kind, heads_.at[bucket]});
    heads_.at[bucket] = static_cast<std::uint32_t>(known_.size());
    return found;
  }

  /// How many prices are known.
  constexpr std::size_t size() const { return known_.size(); }

  /// The kind of an exchange. A graph has many along the same maps: shifts of several fields, for example.
  constexpr std::uint32_t kind_of_exchange(const graph& g, const node& n) {
    exchange_kind own{std::uint64_t{n.maps} << 8 | static_cast<std::uint64_t>(n.type.rank), {}, n.type, {}};
    own.maps.append(g.maps.data() + n.first_map, g.maps.data() + n.first_map + n.maps);
    for (std::size_t k = 0; k < n.arity; ++k) own.taken.push_back(g.nodes[n.in[k]].type);
    return position_in(exchange_kinds_, own);
  }

  /// The price of an exchange of a kind, by the axes on both sides; -1 if it is not known yet.
  constexpr double* exchange(std::uint32_t kind, const strategy& s) {
    if (kind >= exchange_heads_.size()) exchange_heads_.resize(exchange_kinds_.size(), 0);
    std::uint32_t& head = exchange_heads_.at[kind];
    for (std::uint32_t k = head; k != 0; k = exchanges_.at[k - 1].next)
      if (exchanges_.at[k - 1].how.divides_like(s)) return &exchanges_.at[k - 1].score;
    exchanges_.push_back({s, -1, head});
    head = static_cast<std::uint32_t>(exchanges_.size());
    return &exchanges_.at[head - 1].score;
  }

 private:
  static constexpr int bucket_shift = 64 - 9;
  static constexpr std::size_t bucket_count = std::size_t{1} << 9;

  struct shape_kind {
    std::uint64_t hash;
    shape extents;
    std::int64_t element_bytes;
    friend constexpr bool operator==(const shape_kind&, const shape_kind&) = default;
  };
  struct exchange_kind {
    std::uint64_t hash;
    indexed_vector<dim_map> maps{};
    tensor_type made{};
    indexed_vector<tensor_type> taken{};
    friend constexpr bool operator==(const exchange_kind&, const exchange_kind&) = default;
  };
  struct known {
    std::uint64_t from, to;
    double score;
    std::uint32_t kind, next;
  };
  struct exchange_score {
    strategy how;
    double score;
    std::uint32_t next;
  };
  const sizes& at_;
  const policy& rule_;
  indexed_vector<shape_kind> kinds_{};
  indexed_vector<known> known_{};
  indexed_vector<exchange_score> exchanges_{};
  indexed_vector<exchange_kind> exchange_kinds_{};
  /// By bucket and by kind, counted from 1.
  indexed_vector<std::uint32_t> heads_{}, exchange_heads_{};
};

}}} // namespace cleave::v0::planner
