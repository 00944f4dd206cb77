// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/field_names.hpp>
#include <cleave/files/names.hpp>
#include <cleave/io/errors.hpp>
#include <cleave/redistribute/errors.hpp>
#include <cleave/tensor/errors.hpp>
#include <cleave/tensor/tensor.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

// The tensors and numbers of an aggregate, with their names, for code that does not know their types.

namespace cleave { inline namespace v0 { namespace io { namespace detail {

/// A long double is none: files do not have it.
template <class A>
struct is_member : std::bool_constant<is_tensor<A> || (Number<A> && sizeof(A) <= 8)> {};

struct member : member_type {
  /// Null: a number.
  const tensor_state* tensor = nullptr;
  alignas(8) std::array<char, 8> number{};
  /// The part on this rank.
  box held{};
  bool is_here = true;
  /// The number of this rank among those that have the same part, and how many these are.
  std::int64_t replica = 0, replicas = 1;

  /// The part that this rank writes, so that all ranks together write each element once. Ranks that have the same large
  /// part share it; small ones take turns.
  std::optional<box> owned(std::int64_t turn) const {
    if (!is_here || held.empty()) return {};
    box part = held;
    for (int d = 0; d < part.rank && held.elements() >= least_shared; ++d)
      if (part[d].size() >= replicas) {
        const range share = block(part[d].size(), replicas, replica);
        part[d] = {held[d].begin + share.begin, held[d].begin + share.end};
        return part.empty() ? std::optional<box>() : part;
      }
    return replica == turn % replicas ? std::optional<box>(part) : std::nullopt;
  }
  /// Whether this rank reads it, and whether it checks the bytes.
  bool reads() const { return is_here || tensor == nullptr; }
  bool checks() const { return is_here && replica == 0; }

 private:
  static constexpr std::int64_t least_shared = 1 << 16;
};

[[gnu::cold]] inline member member_of(const std::string& name, const tensor_state& t) {
  member m;
  m.name = name;
  m.element = t.element;
  m.extents = t.global;
  for (const placement& p : t.dims->dims) m.dims.push_back(p.dim.name);
  m.tensor = &t;
  m.held = t.held;
  const grid_state& on = t.grid.state();
  m.is_here = on.active();
  if (t.where.unreduced().bits() != 0) raise<layout_error>(wording::member_partial(name));
  axis_set same = t.grid.mesh().all();
  for (int d = 0; d < t.global.rank; ++d) same = same.bits() & ~t.where[d].mask().bits();
  m.replicas = on.sizes().product(same);
  if (m.is_here) m.replica = index_along(same, on.here(), on.sizes());
  return m;
}
/// A number, which all ranks have; rank 0 writes it.
template <class N>
member member_of(const std::string& name, const N& number, int rank) {
  using stored = std::conditional_t<element_of<N> != element::none || sizeof(N) == 8, N, std::int32_t>;
  member m;
  m.name = name;
  m.element = literal_element<stored>;
  m.is_here = rank == 0;
  const auto value = static_cast<stored>(number);
  std::memcpy(m.number.data(), &value, sizeof value);
  return m;
}
template <class N>
void take_number(N& number, const member& m) {
  using stored = std::conditional_t<element_of<N> != element::none || sizeof(N) == 8, N, std::int32_t>;
  stored value;
  std::memcpy(&value, m.number.data(), sizeof value);
  number = static_cast<N>(value);
}

/// All members, in the order of `for_each_leaf`. A tensor alone has the name `array`.
template <class A>
std::vector<member> members_of(const grid& g, A& all) {
  std::vector<std::string> names;
  for_each_named_leaf<is_member, std::remove_cv_t<A>>("", [&]<class>(std::string_view n) { names.emplace_back(n); });
  std::vector<member> members;
  for_each_leaf<is_member>(all, [&]<class Leaf>(Leaf& leaf) {
    const std::string& name = names[members.size()].empty() ? "array" : names[members.size()];
    if constexpr (is_tensor<std::remove_cv_t<Leaf>>) members.push_back(member_of(name, leaf.state()));
    else members.push_back(member_of(name, leaf, g.state().everyone().rank));
  });
  for (const member& m : members) {
    int related = MPI_IDENT;
    if (m.tensor != nullptr && !(m.tensor->grid == g))
      comm::check(MPI_Comm_compare(m.tensor->grid.state().everyone().handle, g.state().everyone().handle, &related),
                  "MPI_Comm_compare");
    if (related != MPI_CONGRUENT && related != MPI_IDENT) raise<grid_error>(wording::grids_unrelated());
  }
  return members;
}
/// Copies loaded numbers to the aggregate.
template <class A>
void take_numbers(A& all, const std::vector<member>& members) {
  std::size_t next = 0;
  for_each_leaf<is_member>(all, [&]<class Leaf>(Leaf& leaf) {
    if constexpr (!is_tensor<Leaf>) take_number(leaf, members[next]);
    ++next;
  });
}

/// The memory of shards for calls of the system: that of the tensors, or copies of it on the host.
class host_memory {
 public:
  enum class how : bool { reads, writes };
  host_memory(std::vector<member>& members, how use, const std::vector<bool>& used) : members_(members), use_(use) {
    wait_for_kernels();
    for (std::size_t i = 0; i < members.size(); ++i) at_.push_back(used[i] ? memory_of(members[i]) : nullptr);
  }
  char* operator[](std::size_t i) const { return at_[i]; }
  /// Copies the memory to the tensors.
  void finish() const {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const tensor_state* t = members_[i].tensor;
      if (t == nullptr || at_[i] == nullptr) continue;
      if constexpr (!on_host) copy_bytes<memory_space, Kokkos::HostSpace>(t->begin_writing(), at_[i], t->bytes());
      t->end_writing();
    }
  }

 private:
  char* memory_of(member& m) {
    if (m.tensor == nullptr) return m.number.data();
    const tensor_state& t = *m.tensor;
    if constexpr (on_host)
      return use_ == how::writes ? as<char>(t.begin_writing()) : const_cast<char*>(as<const char>(t.packed()));
    staged_.emplace_back(new char[as_size(t.bytes()) + 1]);
    if (use_ == how::writes) t.require_writable();
    else copy_bytes<Kokkos::HostSpace, memory_space>(staged_.back().get(), t.packed(), t.bytes());
    return staged_.back().get();
  }

  std::vector<member>& members_;
  how use_;
  std::vector<char*> at_{};
  std::vector<std::unique_ptr<char[]>> staged_{};
};

}}}} // namespace cleave::v0::io::detail
