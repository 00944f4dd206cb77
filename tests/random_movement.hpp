// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/simulate/evaluate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <random>
#include <stdexcept>

/// Chains of random slices, paddings, shifts, windows and concatenations, with random layouts and extents.
namespace random_programs {

using namespace cleave;

constexpr std::string_view axis_names[] = {"x", "y", "z"};

class random_movement {
 public:
  explicit random_movement(unsigned seed) : random_(seed), in_(some_mesh()) {}
  random_movement(unsigned seed, const mesh_value& mesh) : random_(seed), in_(mesh) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void build(int most_ops) {
    for (std::int64_t& e : extents_) {
      constexpr std::int64_t choices[] = {0, 1, 2, 3, 5, 7, 8, 8, 12, 13};
      e = choices[below(10)];
    }
    std::vector<dim_ref> dims{{"a", dynamic}, {"b", dynamic}, {"c", dynamic}};
    std::shuffle(dims.begin(), dims.end(), random_);
    dims.resize(static_cast<std::size_t>(1 + below(3)));
    values_.push_back(in_.input(element::f64, some_spec(dims)));
    place_ = in_.input(element::i64, spec{in_.made().mesh});
    places_ = in_.input(element::i32, some_spec({{"d", dynamic}}));
    most_ops_ = most_ops;
  }
  void operate() {
    const int ops = 1 + below(most_ops_);
    for (int n = 0; n < ops; ++n) step();
  }
  /// The loss, a number, and its gradient by the first input.
  void differentiate() {
    differentiates_ = true;
    const auto [loss, pullback] = vjp(
        [&](const value& x) {
          values_[0] = x;
          operate();
          return sum(values_.back() * sin(values_.back()));
        },
        values_[0]);
    in_.output(loss, element::f64, spec{in_.made().mesh});
    // In the order of the input's dims, sharded in any way.
    std::vector<dim_ref> dims;
    const tensor_type& type = in_.at(values_[0]).type;
    for (int i = 0; i < type.rank; ++i) dims.push_back({in_.made().dims[type[i]].name});
    in_.output(pullback(in_.constant(1, element::f64, {})), element::f64, some_spec(dims));
  }
  void finish() {
    const value v = values_.back();
    std::vector<dim_ref> out;
    for (int i = 0; i < in_.at(v).type.rank; ++i) out.push_back({in_.made().dims[in_.at(v).type[i]].name});
    std::shuffle(out.begin(), out.end(), random_);
    if (below(3) == 0) in_.output(v);
    else in_.output(v, element::f64, some_spec(out));
  }
  recorder& in() { return in_; }
  const graph& made() const { return in_.made(); }
  /// Whether the extents are long enough for the gradients of borders.
  bool possible() const { return static_cast<void>(at()), possible_; }
  value first() const { return values_.front(); }
  value last() const { return values_.back(); }
  sizes at() const {
    sizes s = sizes_for(made());
    for (std::size_t d = 0; d < made().dims.size(); ++d) s.dims[d] = made().dims[d].extent;
    for (std::size_t d = 0; d < made().dims.size(); ++d) {
      const std::string_view name = made().dims[d].name;
      if (name.size() == 1) s.dims[d] = extents_[name[0] - 'a'];
    }
    possible_ = derive_extents(made().rules, s);
    for (std::size_t d = made().dims.size(); d < s.dims.size(); ++d) s.dims[d] = 0;
    return s;
  }
  std::vector<host_array> data() {
    std::vector<host_array> inputs;
    const int place = below(40) - 20;
    for (node_id i : made().inputs) {
      host_array a(shape_of(made().nodes[i].type, at()));
      for (double& x : a.data)
        x = made().nodes[i].type.element == element::i64   ? place
            : made().nodes[i].type.element == element::i32 ? below(9) - 1
                                                           : std::uniform_real_distribution<double>(0.1, 1)(random_);
      inputs.push_back(a);
    }
    return inputs;
  }

 private:
  mesh_value some_mesh() {
    mesh_value m;
    const int axes = 1 + below(3);
    for (int a = 0; a < axes; ++a) m.axes.push_back({axis_names[a], 1 + below(axes == 1 ? 8 : axes == 2 ? 4 : 3)});
    return m;
  }
  spec some_spec(const std::vector<dim_ref>& dims) {
    spec s;
    s.mesh = in_.made().mesh;
    for (const dim_ref& d : dims) s.dims.push_back(placement(d));
    for (int a = 0; a < s.mesh.size(); ++a)
      if (const int where = below(static_cast<int>(dims.size()) + 1); where < static_cast<int>(dims.size()))
        s.dims[static_cast<std::size_t>(where)].axes.push_back(s.mesh.axes[static_cast<std::size_t>(a)].name);
    return s;
  }
  dim_ref fresh(std::int64_t extent = dynamic) {
    // Characters by hand: g++ 12 warns of std::to_string where there is nothing to warn of.
    auto& name = names_.emplace_back();
    name[0] = 'n';
    const char* const end = std::to_chars(name.data() + 1, name.data() + name.size(), names_.size()).ptr;
    return {std::string_view(name.data(), static_cast<std::size_t>(end - name.data())), extent};
  }
  dim_ref some_dim(value v) { return {in_.made().dims[in_.at(v).type[below(in_.at(v).type.rank)]].name}; }
  std::int64_t extent(dim_ref d) const { return at().dims[static_cast<std::size_t>(made().find_dim(d.name))]; }

  void step() {
    for (int tries = 0; tries < 50; ++tries) {
      const value v = values_[static_cast<std::size_t>(below(static_cast<int>(values_.size())))];
      if (in_.at(v).type.rank == 0) continue;
      const dim_ref d = some_dim(v);
      const std::int64_t n = extent(d);
      const auto somewhere = [&](std::int64_t most) {
        return static_cast<std::int64_t>(below(static_cast<int>(most) + 1));
      };
      const border edge = static_cast<border>(below(4));
      value r;
      switch (below(21)) {
        case 0: {
          const std::int64_t begin = somewhere(n), end = begin + somewhere(n - begin);
          r = slice(v, d, fresh(), begin, end, 1 + below(3));
          break;
        }
        case 1: r = slice(v, d, fresh(), n > 0 ? -1 - somewhere(n - 1) : 0); break;
        case 2: r = pad(v, d, fresh(), below(4), below(4), below(3)); break;
        case 3: r = shift(v, d, below(9) - 4, edge); break;
        case 4: r = shift(v, d, 1) + shift(v, d, -1) - 2.0 * v; break;
        case 5: r = roll(v, d, below(40) - 20); break;
        case 6: r = flip(v, d); break;
        case 7: r = below(2) != 0 ? repeat(v, d, fresh(), 1 + below(3)) : tile(v, d, fresh(), 1 + below(3)); break;
        case 8: r = concat(fresh(), piece(v, d), piece(2.0 * v, d), piece(v, d)); break;
        case 9: {
          if (in_.at(v).type.rank > 5) break;
          const dim_ref k = fresh(1 + below(3));
          const std::int64_t low = below(3), high = below(3);
          r = below(2) != 0 ? windows(v, window{d, d, k, 1, 1, low, k.extent - 1 - low, edge})
                            : windows(v, window{d, fresh(), k, 1 + below(2), 1 + below(2), low, high, edge});
          if (below(2) != 0) r = sum(r, k);
          break;
        }
        case 10: {
          const dim_ref e = some_dim(v);
          if (e.name == d.name || in_.at(v).type.rank > 5) break;
          const dim_ref k = fresh(3), l = fresh(3);
          r = sum(windows(v, window{d, d, k, 1, 1, 1, 1, edge}, window{e, e, l, 1, 1, 1, 1, edge}), k, l);
          break;
        }
        case 11: r = roll(v, d, place_); break;
        case 12: {
          if (n == 0) break;
          const dim_ref part = fresh(1 + somewhere(std::min<std::int64_t>(n, 4) - 1));
          r = dynamic_slice(v, d, part, place_);
          if (below(2) != 0) r = dynamic_update(v, d, 3.0 * r, part, place_);
          break;
        }
        case 13: r = interior(shift(v, d, 1) + shift(v, d, -1), v, 1, d); break;
        case 14: {
          const auto order = static_cast<running>(below(4));
          const int which = below(4);
          r = which == 0   ? cumulative_max(v, d, order)
              : which == 1 ? cumulative_min(v, d, order)
              : which == 2 ? cumulative_prod(sin(v), d, order)
                           : cumulative_sum(v, d, order);
          // The maximum of nothing is no number that arithmetic keeps.
          if (which < 2) r = minimum(maximum(r, -100.0), 100.0);
          break;
        }
        case 15: {
          const bool there = in_.at(v).type.has(static_cast<dim_id>(made().find_dim("d")));
          if (!there) r = gather(v, d, places_);
          else r = scatter_add(v, places_, fresh(1 + below(6)));
          break;
        }
        case 16: {
          const std::int64_t minor = 1 + below(4);
          if (n == 0 || n % minor != 0 || in_.at(v).type.rank > 5) break;
          r = split(v, d, fresh(n / minor), fresh(minor));
          break;
        }
        case 17: {
          const dim_ref e = some_dim(v);
          if (e.name == d.name || made().dims[static_cast<std::size_t>(made().find_dim(e.name))].extent == dynamic)
            break;
          r = merge(v, d, e, fresh());
          break;
        }
        case 18: {
          const order by = static_cast<order>(below(2));
          // Ties of small whole numbers, which are exact.
          if (differentiates_) r = sort(v, d, by);
          else r = below(2) != 0 ? sort(v, d, by) : cast<double>(argsort(floor(2.0 * v), d, by));
          break;
        }
        case 19: {
          // The extent must be even.
          const dim_ref twice = fresh();
          r = rotate_halves(concat(twice, piece(v, d), piece(2.0 * v, d)), twice);
          break;
        }
        case 20: {
          // Positions are no differentiable function; small whole numbers are equal often.
          if (differentiates_) break;
          const value u = floor(2.0 * v);
          r = cast<double>(searchsorted(sort(u, d), rename(u, d, fresh()), d, static_cast<side>(below(2))));
          break;
        }
        default: break;
      }
      if (r.in != nullptr) {
        if (!r.ok()) throw std::logic_error("a random operation was refused");
        values_.push_back(r);
        return;
      }
    }
  }

  std::mt19937 random_;
  int most_ops_ = 0;
  bool differentiates_ = false;
  mutable bool possible_ = true;
  std::deque<std::array<char, 8>> names_{};
  std::int64_t extents_[4]{};
  recorder in_;
  std::vector<value> values_{};
  value place_{}, places_{};
};

} // namespace random_programs
