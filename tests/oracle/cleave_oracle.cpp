// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the planner with recorded decisions of XLA's SPMD partitioner, and checks every plan by simulating it.
//
//   cleave_oracle FILE [--verbose] [--family NAME] [--id PART] [--plans FILE]
//
// Each case is built through the recorder from its op, einsum and parameters, planned for the fewest bytes within the
// case's redundancy, priced for its real sizes, and simulated with small random data against the plain evaluator.
//
//   wrong        a value differs, the simulated bytes are not the priced ones, more products are repeated than the case
//                allows, or there is no plan
//   above gspmd  more bytes than GSPMD's with its all-reduce + slice charged as a reduce-scatter, and 64
//   above bound  more bytes than the bound and its tolerance
//   geomean      of ours / GSPMD's own bytes, over the cases where both move something
#include "../plan_text.hpp"
#include "../shrunk.hpp"
#include "../without_kernels.hpp"

#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/random.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/linalg/fft_recorded.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/mixture_of_experts.hpp>
#include <cleave/nn/self_attention.hpp>
#include <cleave/ops/print.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/simulate/simulate.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

namespace {

using nlohmann::json;

/// Recorded bounds that no program can reach, and what one needs at least.
struct corrected_bound {
  const char* id;
  double bytes;
  const char* why;
};
constexpr corrected_bound corrected_bounds[] = {
    // Recorded: 57,344, the input taken from the sequence to the input channels. Partial sums over those would still
    // have to be scattered. A device makes 4 output channels of 7/8 of the positions from rows that it does not hold; 4
    // numbers a position are the least that says them: 8 * 896 * 4 * 4 bytes, and a halo.
    {"conv1d/_.x.___to___._.x__k3s1d1/m8", 114688 + 1024, "the output exchanged, and a halo"},
};

/// A file that is not what it should be; one sentence says what and where.
struct malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const json& field(const json& of, const std::string& key) {
  if (!of.is_object()) throw malformed("the parent of '" + key + "' is no object");
  const auto at = of.find(key);
  if (at == of.end()) throw malformed("'" + key + "' is missing");
  return *at;
}
const json& list(const json& of, const std::string& key) {
  const json& value = field(of, key);
  if (!value.is_array()) throw malformed("'" + key + "' is no list");
  return value;
}
std::string string_of(const json& value, const std::string& what) {
  if (!value.is_string()) throw malformed(what + " is no string");
  return value.get<std::string>();
}
double number_of(const json& value, const std::string& what) {
  if (!value.is_number()) throw malformed(what + " is no number");
  return value.get<double>();
}
/// Extents and axis sizes.
std::int64_t size_of(const json& value, const std::string& what, std::int64_t least) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < least)
    throw malformed(what + " is no integer from " + std::to_string(least));
  return value.get<std::int64_t>();
}
/// A number or null.
std::optional<double> optional_number(const json& of, const std::string& key) {
  const json& value = field(of, key);
  if (value.is_null()) return std::nullopt;
  return number_of(value, "'" + key + "'");
}

/// Owns the names that graphs refer to.
class names {
 public:
  std::string_view keep(std::string text) { return owned_.emplace_back(std::move(text)); }

 private:
  std::deque<std::string> owned_;
};

cleave::element element_named(const std::string& dtype) {
  static const std::map<std::string, cleave::element> known{
      {"float32", cleave::element::f32}, {"float64", cleave::element::f64}, {"bfloat16", cleave::element::bf16},
      {"float16", cleave::element::f16}, {"int32", cleave::element::i32},   {"int64", cleave::element::i64},
      {"uint32", cleave::element::u32},  {"bool", cleave::element::boolean}};
  const auto at = known.find(dtype);
  if (at == known.end()) throw malformed("dtype '" + dtype + "' is unknown");
  return at->second;
}

inline constexpr cleave::dim<"a"> dim_a;
inline constexpr cleave::dim<"b"> dim_b;
inline constexpr cleave::dim<"c"> dim_c;
/// The dim of the real and the imaginary parts. The evaluator and the simulator know real numbers only, so that
/// complex64 is written as two float32 along one more dim, which is never sharded: a transform still needs its own dim
/// whole and nothing else, and every element has its eight bytes, so that plans and charges are those of complex
/// numbers.
constexpr char parts = '2';
inline constexpr cleave::dim<"2", 2> dim_parts;

/// The Fourier transform of complex numbers in two parts, along those of the dims a, b and c whose bits are set.
template <std::size_t Along>
struct transform_in_parts {
  static constexpr std::string_view name = "fft";
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}

  static void reference(std::span<const cleave::reference_shard> in, const cleave::reference_shard& out) {
    std::vector<double> from(in[0].data, in[0].data + out.local.elements());
    const cleave::dim_ref dims[]{dim_a, dim_b, dim_c};
    for (std::size_t d = 0; d < 3; ++d) {
      if ((Along >> d & 1) == 0) continue;
      transform_one(from.data(), out, out.dims.find(dims[d]));
      from.assign(out.data, out.data + out.local.elements());
    }
  }

 private:
  static void transform_one(const double* in, const cleave::reference_shard& out, int place) {
    std::int64_t outer = 1, inner = 1;
    for (int i = 0; i < out.local.rank; ++i)
      if (i != place) (i < place ? outer : inner) *= out.local[i];
    const std::int64_t n = out.local[place];
    const double turn = n == 0 ? 0 : -2 * std::acos(-1.0) / static_cast<double>(n);
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t k = 0; k < n; ++k)
        for (std::int64_t s = 0; s < inner; s += 2) {
          double re = 0, im = 0;
          for (std::int64_t j = 0; j < n; ++j) {
            const double* from = in + (o * n + j) * inner + s;
            const double c = std::cos(turn * static_cast<double>(j * k % n)),
                         d = std::sin(turn * static_cast<double>(j * k % n));
            re += from[0] * c - from[1] * d;
            im += from[0] * d + from[1] * c;
          }
          double* to = out.data + (o * n + k) * inner + s;
          to[0] = re;
          to[1] = im;
        }
  }
};

/// The half spectrum of real numbers along the last dim, in two parts.
struct half_spectrum_in_parts {
  static constexpr std::string_view name = "rfft";
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}

  static void reference(std::span<const cleave::reference_shard> in, const cleave::reference_shard& out) {
    const std::int64_t n = in[0].local[in[0].local.rank - 1], half = out.local[out.local.rank - 2];
    for (std::int64_t row = 0; n > 0 && row < in[0].local.elements() / n; ++row)
      for (std::int64_t k = 0; k < half; ++k) {
        double* to = out.data + (row * half + k) * 2;
        to[0] = to[1] = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const double turn = -2 * std::acos(-1.0) * static_cast<double>(j * k % n) / static_cast<double>(n);
          to[0] += in[0].data[row * n + j] * std::cos(turn);
          to[1] += in[0].data[row * n + j] * std::sin(turn);
        }
      }
  }
};

/// Records one case: its inputs with letters for dims, then its op.
class case_builder {
 public:
  case_builder(const json& description, names& pool) : c_(description), pool_(pool), in_(read_mesh()) {}

  /// Throws `malformed` for what it cannot read: no case is left out.
  void build() {
    if (!recorded_op()) throw malformed("its op '" + string_of(field(c_, "op"), "'op'") + "' in this form is unknown");
    if (values_.size() != list(c_, "inputs").size()) throw malformed("its op does not take all inputs");
  }
  cleave::recorder& recorded() { return in_; }

 private:
  bool recorded_op() {
    const std::string op = string_of(field(c_, "op"), "'op'");
    if (op == "einsum") return einsum();
    if (op == "reshard") return input("abcdefg"), finish(values_[0]);
    if (op == "add") return add();
    if (op == "softmax") return input("abcdefg"), finish(softmax(values_[0], along_or_last()));
    if (op == "log_softmax") return input("abcdefg"), finish(log_softmax(values_[0], along_or_last()));
    if (op == "layernorm") {
      input("abcdefg");
      const std::string row(1, along_letter(letters_.size() - 1));
      return input(row), input(row), finish(layer_norm(values_[0], along_or_last(), values_[1], values_[2]));
    }
    if (op == "mlp_grad") return mlp_grad();
    if (op == "mlp")
      return input(rank_of(0) == 2 ? "bd" : "bsd"), input("dh"), input("hd"),
             finish(mlp(values_[0], values_[1], values_[2]));
    if (op == "attention") return attention();
    if (op == "sum" || op == "max" || op == "min" || op == "mean" || op == "prod" || op == "logsumexp")
      return reduction(op);
    if (op == "moments" || op == "mean_var" || op == "mean_and_variance") return mean_and_variance();
    if (op == "take_along" || op == "take_along_axis") return taken_along();
    if (op == "cross_entropy" || op == "cross_entropy_grad") {
      const std::string tokens = std::string("bst").substr(0, rank_of(0) - 1);
      input(tokens + "v"), input(tokens);
      if (op == "cross_entropy") return finish(cross_entropy(values_[0], values_[1]), "");
      return finish(gradient([&](auto x) { return cross_entropy(x, values_[1]); }, values_[0]), tokens + "v");
    }
    if (op == "lm_head")
      return input("bd"), input("dv"), input("b"),
             finish(cross_entropy(cleave::nn::unembedding(values_[0], values_[1], dim('d')), values_[2]), "");
    if (op == "lm_head_grad") return lm_head_grad();
    if (op == "scale" || op == "scale_rep" || op == "lt_devices" || op == "two_d")
      return input("abcdefg"), finish(values_[0] * 2.0);
    if (op == "reshard_back") return input("abcdefg"), finish(values_[0] * 1.5);
    if (op == "matmul_contract")
      return input("ab"), input("bc"), finish(product(values_[0], "ab", values_[1], "bc", "ac"), "ac");
    if (op == "reshape_merge") return merged();
    if (op == "transpose") return transpose();
    if (op == "reshape") return reshape();
    if (op == "iota") return lower_triangle();
    if (op == "stencil") return stencil();
    if (op == "gather") return looked_up();
    if (op == "scatter_add") return added_up();
    if (op == "top_k") return largest();
    if (op == "cumsum" || op == "cumprod" || op == "cummax" || op == "cummin") return running_total(op);
    const auto order = says("descending") ? cleave::order::descending : cleave::order::ascending;
    if (op == "sort") return input("abcdefg"), finish(sort(values_[0], along(), order));
    if (op == "argsort") {
      input("abcdefg");
      type_ = cleave::element::i32;
      return finish(argsort(values_[0], along(), order));
    }
    if (op == "moe") return mixture_of_experts();
    if (op == "scan") return layers();
    if (op == "pipeline") return pipeline();
    if (op == "conv") return convolution();
    if (op == "conv_grad") return convolution_gradient();
    if (op == "reduce_window") return pooling();
    if (op == "roll") return rolled();
    if (op == "slice") return sliced();
    if (op == "pad") return padded();
    if (op == "concat") return concatenated();
    if (op == "reverse" || op == "flip") return reversed();
    if (op == "repeat" || op == "tile") return repeated();
    if (op == "diag") return input("ab"), finish(diagonal(values_[0], dim('a'), dim('b')), "a");
    if (op == "dynamic_slice") return sliced_at();
    if (op == "dynamic_update_slice") return updated_at();
    if (op == "argmax" || op == "argmin") {
      input("abcdefg");
      type_ = cleave::element::i32;
      const cleave::value x = values_[0];
      return finish(op == "argmax" ? argmax(x, along()) : argmin(x, along()), without(along_letter(0)));
    }
    if (op == "rng") return normal_numbers();
    if (op == "cholesky") return input(batch(0, 2) + "ab"), finish(cleave::linalg::cholesky(values_[0], dim_a, dim_b));
    if (op == "triangular_solve") {
      const std::string shared = batch(0, 2), columns = rank_of(1) == rank_of(0) ? "c" : "";
      return input(shared + "ab"), input(shared + "a" + columns),
             finish(cleave::linalg::triangular_solve(values_[0], values_[1], dim_a, dim_b), shared + "b" + columns);
    }
    if (op == "fft" || op == "rfft" || op == "rfft2") return fourier(op);
    return elementwise(op);
  }
  cleave::mesh_value read_mesh() {
    cleave::mesh_value mesh;
    const json &axes = list(field(c_, "mesh"), "axes"), &sizes = list(field(c_, "mesh"), "sizes");
    if (axes.size() != sizes.size() || axes.size() > cleave::max_axes)
      throw malformed("'mesh' needs as many axes as sizes, at most 7");
    for (std::size_t i = 0; i < axes.size(); ++i)
      mesh.axes.push_back({pool_.keep(string_of(axes[i], "a mesh axis")), size_of(sizes[i], "a size of the mesh", 1)});
    return mesh;
  }
  cleave::dim_ref dim(char letter) {
    const auto at = extents_.find(letter);
    if (at == extents_.end()) throw malformed(std::string("the result has dim '") + letter + "', which no input has");
    return {pool_.keep(std::string(1, letter)), at->second};
  }

  cleave::spec layout(const std::string& letters, const json& axes) {
    cleave::spec s;
    s.mesh = in_.made().mesh;
    const std::size_t written = letters.size() - (letters.ends_with(parts) ? 1 : 0);
    // As in JAX, the dims that a spec does not reach are not sharded.
    if (!axes.is_array() || axes.size() > written)
      throw malformed("a spec has more dims than the " + std::to_string(letters.size()) +
                      " of its tensor: " + axes.dump());
    for (std::size_t i = 0; i < letters.size(); ++i) {
      cleave::placement p(dim(letters[i]));
      const auto divide = [&](const json& axis) {
        const std::string name = string_of(axis, "an axis in the spec " + axes.dump());
        if (p.axes.full() || s.mesh.find(name) < 0) throw malformed("axis '" + name + "' of a spec is not in the mesh");
        p.axes.push_back(pool_.keep(name));
      };
      const json none, &own = i < axes.size() && i < written ? axes[i] : none;
      if (own.is_array()) std::for_each(own.begin(), own.end(), divide);
      else if (!own.is_null()) divide(own);
      s.dims.push_back(p);
    }
    return s;
  }

  /// The next input, its dims called by the first letters given.
  void input(std::string letters) {
    const std::string which = "input " + std::to_string(values_.size());
    if (values_.size() >= list(c_, "inputs").size()) throw malformed(which + " is missing");
    const json& i = list(c_, "inputs")[values_.size()];
    const json& shape = list(i, "shape");
    if (letters.size() < shape.size() || shape.size() > cleave::max_rank)
      throw malformed(which + " has more dims than its op takes");
    letters.resize(shape.size());
    for (std::size_t d = 0; d < letters.size(); ++d) {
      const std::int64_t extent = size_of(shape[d], "an extent of " + which, 0);
      const auto [known, fresh] = extents_.emplace(letters[d], extent);
      if (!fresh && known->second != extent)
        throw malformed("dim " + std::to_string(d) + " of " + which + " has extent " + std::to_string(extent) +
                        ", elsewhere it has " + std::to_string(known->second));
    }
    const std::string dtype = string_of(field(i, "dtype"), "a dtype");
    const cleave::element type = element_named(dtype == "complex64" ? "float32" : dtype);
    if (dtype == "complex64") {
      extents_[parts] = 2;
      letters.push_back(parts);
    }
    if (values_.empty()) {
      letters_ = letters;
      type_ = type;
    }
    const cleave::value x = in_.input(type, layout(letters, field(i, "spec")));
    values_.push_back(values_.empty() ? pinned(x) : x);
  }
  /// The first input with the layout that a case pins inside, if it does.
  cleave::value pinned(cleave::value x) {
    const auto inner = c_.find("inner_constraint");
    return inner == c_.end() || inner->is_null() ? x : constrain(x, layout(letters_, *inner));
  }
  bool finish(cleave::value result) { return finish(result, letters_); }
  /// Asks for the result in the requested layout, or in the one that was chosen where none was requested.
  bool finish(cleave::value result, const std::string& letters) {
    return finish(std::vector{result}, std::vector{letters});
  }
  bool finish(const std::vector<cleave::value>& results, const std::vector<std::string>& letters) {
    const std::size_t count = results.size();
    if (list(c_, "outputs_requested").size() != count || list(c_, "outputs").size() != count)
      throw malformed("there must be " + std::to_string(count) + " outputs");
    for (std::size_t r = 0; r < count; ++r) {
      const json& requested = list(c_, "outputs_requested")[r];
      in_.output(results[r], type_,
                 layout(letters[r], requested.is_null() ? field(list(c_, "outputs")[r], "spec") : requested));
    }
    return true;
  }
  /// The gradient of a number by one argument.
  template <class F>
  cleave::value gradient(F f, cleave::value x) {
    const auto [loss, pullback] = vjp(f, x);
    return pullback(in_.constant(1, in_.at(loss).type.element, {}));
  }

  cleave::value product(cleave::value a, const std::string& la, cleave::value b, const std::string& lb,
                        const std::string& out) {
    std::vector<cleave::dim_ref> over;
    for (char l : la)
      if (lb.find(l) != std::string::npos && out.find(l) == std::string::npos) over.push_back(dim(l));
    return in_.dot(a, b, over, {});
  }
  bool einsum() {
    if (field(c_, "einsum").is_null()) {
      // The two that are sums of products, told apart by what they read.
      const std::size_t inputs = list(c_, "inputs").size();
      if (inputs == 2 && string_of(field(list(c_, "inputs").at(1), "dtype"), "a dtype").starts_with("int")) {
        input("vd"), input("bs");
        return finish(dot(cleave::one_hot(values_[1], dim('v')), values_[0], dim('v')), "bsd");
      }
      if (inputs == 4) {
        input("ab"), input("bc"), input("ad"), input("dc");
        return finish(product(values_[0], "ab", values_[1], "bc", "ac") +
                          product(values_[2], "ad", values_[3], "dc", "ac"),
                      "ac");
      }
      if (inputs == 3) {
        input("ab"), input("bc"), input("ac");
        return finish(2.0 * product(values_[0], "ab", values_[1], "bc", "ac") - values_[2], "ac");
      }
      return false;
    }
    std::string text = string_of(field(c_, "einsum"), "'einsum'");
    std::erase(text, ' ');
    const std::size_t arrow = text.find("->");
    if (arrow == std::string::npos || text.find('.') != std::string::npos)
      throw malformed("einsum '" + text + "' is not a,b->c");
    const std::string out = text.substr(arrow + 2);
    std::vector<std::string> letters(1);
    for (char l : text.substr(0, arrow))
      if (l == ',') letters.emplace_back();
      else letters.back().push_back(l);
    for (std::string& of : letters) {
      if (std::set<char>(of.begin(), of.end()).size() != of.size())
        throw malformed("einsum '" + text + "' has a dim twice in one operand");
      input(of);
    }
    // From the left: a dim is summed as soon as no other operand and the result do not have it.
    cleave::value x = values_[0];
    std::string have = letters[0];
    for (std::size_t k = 1; k <= letters.size(); ++k) {
      std::string later = out;
      for (std::size_t j = k + 1; j < letters.size(); ++j) later += letters[j];
      const std::string own = k < letters.size() ? letters[k] : std::string();
      std::string kept;
      for (char l : have + own)
        if (later.find(l) != std::string::npos && kept.find(l) == std::string::npos) kept.push_back(l);
      std::vector<cleave::dim_ref> alone;
      for (char l : have)
        if (own.find(l) == std::string::npos && kept.find(l) == std::string::npos) alone.push_back(dim(l));
      if (!alone.empty()) x = in_.reduce(cleave::reduction::sum, x, alone, {});
      if (k < letters.size()) x = product(x, have, values_[k], own, kept);
      have = kept;
    }
    return finish(x, out);
  }
  /// NumPy's broadcasting: the second operand has the last dims of the first.
  bool add() {
    input("abcdefg");
    input_beside();
    return finish(values_[0] + values_[1]);
  }
  /// Of one operand, or of two as `add`.
  bool elementwise(const std::string& op) {
    static const std::map<std::string, cleave::op> known{
        {"neg", cleave::op::neg},         {"abs", cleave::op::abs},      {"sign", cleave::op::sign},
        {"exp", cleave::op::exp},         {"expm1", cleave::op::expm1},  {"log", cleave::op::log},
        {"tanh", cleave::op::tanh},       {"sqrt", cleave::op::sqrt},    {"rsqrt", cleave::op::rsqrt},
        {"erf", cleave::op::erf},         {"gelu", cleave::op::gelu},    {"relu", cleave::op::relu},
        {"sigmoid", cleave::op::sigmoid}, {"sin", cleave::op::sin},      {"cos", cleave::op::cos},
        {"floor", cleave::op::floor},     {"sub", cleave::op::sub},      {"mul", cleave::op::mul},
        {"div", cleave::op::div},         {"pow", cleave::op::pow},      {"maximum", cleave::op::maximum},
        {"minimum", cleave::op::minimum}, {"subtract", cleave::op::sub}, {"multiply", cleave::op::mul},
        {"divide", cleave::op::div}};
    const auto at = known.find(op);
    if (at == known.end() || list(c_, "inputs").size() != static_cast<std::size_t>(arity_of(at->second))) return false;
    input("abcdefg");
    if (arity_of(at->second) == 1) return finish(in_.elementwise(at->second, std::array{values_[0]}, {}));
    input_beside();
    return finish(in_.elementwise(at->second, std::array{values_[0], values_[1]}, {}));
  }
  /// An operand with the last dims of the first one.
  void input_beside() {
    if (rank_of(1) > letters_.size()) throw malformed("the second operand has more dims than the first");
    input(letters_.substr(letters_.size() - rank_of(1)));
  }
  std::size_t rank_of(std::size_t input) const {
    if (input >= list(c_, "inputs").size()) throw malformed("input " + std::to_string(input) + " is missing");
    return list(list(c_, "inputs")[input], "shape").size();
  }
  /// The axes of the result in another order of the operand's.
  bool transpose() {
    input("abcdefg");
    std::string order;
    for (const json& from : list(field(c_, "params"), "permutation"))
      order.push_back(letters_.at(static_cast<std::size_t>(size_of(from, "an entry of 'permutation'", 0))));
    return finish(values_[0], order);
  }
  /// Groups of dims with equal products become one dim each, and that is split again.
  bool reshape() {
    input("abcdefg");
    std::vector<std::int64_t> to;
    for (const json& e : list(field(c_, "params"), "to_shape")) to.push_back(size_of(e, "an extent of 'to_shape'", 0));
    cleave::value x = values_[0];
    std::string result, fresh = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const auto new_dim = [&](std::int64_t extent) {
      const char l = fresh.back();
      fresh.pop_back();
      extents_[l] = extent;
      return l;
    };
    std::size_t i = 0, j = 0;
    while (i < letters_.size() || j < to.size()) {
      std::string from;
      std::vector<std::int64_t> parts_to;
      std::int64_t have = 1, want = 1;
      do {
        if (i < letters_.size() && (have <= want || j == to.size())) {
          from.push_back(letters_[i]);
          have *= extents_.at(letters_[i++]);
        } else if (j < to.size()) {
          parts_to.push_back(to[j]);
          want *= to[j++];
        } else {
          throw malformed("'to_shape' has another number of elements than input 0");
        }
      } while (have != want || parts_to.empty() || from.empty());
      while (j < to.size() && to[j] == 1) parts_to.push_back(to[j++]);
      while (i < letters_.size() && extents_.at(letters_[i]) == 1) from.push_back(letters_[i++]);
      char whole = from[0];
      for (std::size_t k = 1; k < from.size(); ++k) {
        const char longer = new_dim(extents_.at(whole) * extents_.at(from[k]));
        x = merge(x, dim(whole), dim(from[k]), dim(longer));
        whole = longer;
      }
      for (std::size_t k = 0; k + 1 < parts_to.size(); ++k) {
        std::int64_t rest = 1;
        for (std::size_t n = k + 1; n < parts_to.size(); ++n) rest *= parts_to[n];
        const char major = new_dim(parts_to[k]), minor = new_dim(rest);
        x = split(x, dim(whole), dim(major), dim(minor));
        result.push_back(major);
        whole = minor;
      }
      result.push_back(whole);
    }
    return finish(x, result);
  }
  /// What is on and below the diagonal.
  bool lower_triangle() {
    input("ab");
    const cleave::value row = in_.iota(dim('a'), cleave::element::i32, {}),
                        column = in_.iota(dim('b'), cleave::element::i32, {});
    const cleave::value below = in_.elementwise(cleave::op::greater_equal, std::array{row, column}, {},
                                                cleave::element::boolean, true);
    return finish(select(below, values_[0], 0));
  }
  /// A parameter that is a whole number.
  std::int64_t number(const json& params, const char* key, std::int64_t least) {
    return size_of(field(params, key), std::string("'") + key + "'", least);
  }
  /// The dim at a position, which counts from the end if it is negative.
  char letter_of(const json& params, const char* key) { return letter_at(field(params, key)); }
  char letter_at(const json& position) const {
    const auto rank = static_cast<std::int64_t>(letters_.size()), at = size_of(position, "a dim", -rank);
    if (at >= rank) throw malformed("input 0 has no dim " + std::to_string(at));
    return letters_[static_cast<std::size_t>(at < 0 ? at + rank : at)];
  }

  /// The letter of the dim that a case names, or the one at a position.
  char along_letter(std::size_t otherwise) {
    const json& params = field(c_, "params");
    for (const char* key : {"dim", "axis", "dimension"})
      if (params.is_object() && params.contains(key)) return letter_of(params, key);
    if (otherwise >= letters_.size()) throw malformed("input 0 has no dim " + std::to_string(otherwise));
    return letters_[otherwise];
  }
  cleave::dim_ref along(std::size_t otherwise = 0) { return dim(along_letter(otherwise)); }
  cleave::dim_ref along_or_last() { return along(letters_.size() - 1); }
  /// Whether the parameters say so.
  bool says(const char* key) const {
    const json& params = field(c_, "params");
    return params.is_object() && params.contains(key) && params[key] == true;
  }
  /// The letters of input 0 without one.
  std::string without(char gone) const {
    std::string rest = letters_;
    rest.erase(rest.find(gone), 1);
    return rest;
  }
  /// Letters for all but the last dims of an input.
  std::string batch(std::size_t input, std::size_t last) const {
    if (rank_of(input) < last) throw malformed("input " + std::to_string(input) + " has too few dims");
    return std::string("ghij").substr(0, rank_of(input) - last);
  }
  const json& shape_of_output(std::size_t r) { return list(list(c_, "outputs").at(r), "global_shape"); }

  /// The dims along which a part of a tensor is cut, with their windows and starts: those that have another extent, or
  /// all where each has a start.
  struct cut {
    char from, window;
    std::size_t start;
  };
  std::vector<cut> cuts(const json& part, std::size_t first_start) {
    const std::size_t starts = list(c_, "inputs").size() - first_start;
    if (part.size() != letters_.size()) throw malformed("what is cut has not the rank of input 0");
    std::vector<cut> all;
    for (std::size_t d = 0; d < letters_.size(); ++d) {
      const std::int64_t length = size_of(part[d], "an extent of what is cut", 0);
      if (length == extents_.at(letters_[d]) && starts != letters_.size()) continue;
      const char window = static_cast<char>('P' + d);
      extents_[window] = length;
      all.push_back({letters_[d], window, first_start + all.size()});
    }
    if (all.size() != starts)
      throw malformed(std::to_string(starts) + " starts for " + std::to_string(all.size()) + " dims that are cut");
    return all;
  }
  bool sliced_at() {
    input("abcdefg");
    const std::vector<cut> all = cuts(shape_of_output(0), 1);
    std::string result = letters_;
    cleave::value x = values_[0];
    const cleave::element type = type_;
    for (const cut& k : all) {
      input("");
      x = dynamic_slice(x, dim(k.from), dim(k.window), values_[k.start]);
      result[result.find(k.from)] = k.window;
    }
    type_ = type;
    return finish(x, result);
  }
  /// Along several dims: the slice along the first is updated along the others, and written back.
  cleave::value updated(cleave::value x, cleave::value by, std::span<const cut> along) {
    const cut& k = along[0];
    const cleave::value start = values_[k.start];
    if (along.size() > 1) by = updated(dynamic_slice(x, dim(k.from), dim(k.window), start), by, along.subspan(1));
    return dynamic_update(x, dim(k.from), by, dim(k.window), start);
  }
  bool updated_at() {
    input("abcdefg");
    const std::vector<cut> all = cuts(list(list(c_, "inputs").at(1), "shape"), 2);
    std::string part = letters_;
    for (const cut& k : all) part[part.find(k.from)] = k.window;
    input(part);
    for (std::size_t k = 0; k < all.size(); ++k) input("");
    return finish(updated(values_[0], values_[1], all));
  }
  /// Elements at indices along a dim that both have, or along one beside common batch dims.
  bool taken_along() {
    input("abcdefg");
    const char l = along_letter(letters_.size() - 1);
    const std::int64_t taken = size_of(list(list(c_, "inputs").at(1), "shape").at(letters_.find(l)), "an extent", 0);
    std::string indices = letters_;
    const bool as_long = taken == extents_.at(l);
    if (!as_long) indices[indices.find(l)] = 'z';
    input(indices);
    if (as_long) return finish(take_along(values_[0], values_[1], dim(l)));
    // The result of gather has the dims of the indices first, and all others are batch dims.
    return finish(gather(values_[0], dim(l), values_[1]), indices);
  }
  bool running_total(const std::string& op) {
    input("abcdefg");
    const bool backward = says("reverse"), exclusive = says("exclusive");
    const cleave::running order = backward
                                      ? (exclusive ? cleave::running::backward_exclusive : cleave::running::backward)
                                  : exclusive ? cleave::running::forward_exclusive
                                              : cleave::running::forward;
    const cleave::value x = values_[0];
    return finish(op == "cumsum"    ? cumulative_sum(x, along(), order)
                  : op == "cumprod" ? cumulative_prod(x, along(), order)
                  : op == "cummax"  ? cumulative_max(x, along(), order)
                                    : cumulative_min(x, along(), order));
  }
  bool mean_and_variance() {
    input("abcdefg");
    const std::string kept = kept_of_reduction();
    std::vector<cleave::dim_ref> over;
    for (char l : letters_)
      if (kept.find(l) == std::string::npos) over.push_back(dim(l));
    const cleave::value x = values_[0];
    const auto mean_of = [&](const cleave::value& v) {
      double count = 1;
      for (const cleave::dim_ref& d : over) count *= static_cast<double>(d.extent);
      return in_.reduce(cleave::reduction::sum, v, over, {}) * (1 / count);
    };
    const cleave::value middle = mean_of(x), off = x - middle;
    return finish({middle, mean_of(off * off)}, {kept, kept});
  }

  /// Elements of a table along a dim, the first one if none is named, at indices of any rank.
  bool looked_up() {
    std::string table = std::string("abcdefg").substr(0, rank_of(0));
    letters_ = table;
    const char along = along_letter(0);
    const std::string at = std::string("rst").substr(0, rank_of(1));
    input(table);
    input(at);
    // NumPy puts the dims of the indices where the dim was.
    std::string result = table;
    result.replace(result.find(along), 1, at);
    return finish(gather(values_[0], dim(along), values_[1]), result);
  }
  /// Rows added up in a table of zeros, in segments, or in a table that is given first.
  bool added_up() {
    const json& shape = list(list(c_, "outputs").at(0), "global_shape");
    const auto is_ids = [&](std::size_t k) {
      const std::string dtype = string_of(field(list(c_, "inputs").at(k), "dtype"), "a dtype");
      return dtype.starts_with("int") || dtype.starts_with("uint");
    };
    const std::size_t first = list(c_, "inputs").size() == 3 ? 1 : 0, ids = is_ids(first) ? first : first + 1,
                      rows = 2 * first + 1 - ids;
    const std::string places = std::string("bst").substr(0, rank_of(ids)),
                      columns = std::string("def").substr(0, rank_of(rows) - rank_of(ids));
    if (first == 1) input("v" + columns);
    for (std::size_t k = first; k < first + 2; ++k) input(k == ids ? places : places + columns);
    extents_['v'] = size_of(shape.at(0), "an extent of the output", 0);
    type_ = element_named(string_of(field(list(c_, "inputs").at(rows), "dtype"), "a dtype"));
    const cleave::value added = cleave::scatter_add(values_[rows], values_[ids], dim('v'));
    return finish(first == 1 ? values_[0] + added : added, "v" + columns);
  }
  /// The largest along the last dim, and where they are.
  bool largest() {
    input("abcdefg");
    extents_['k'] = number(field(c_, "params"), "k", 1);
    const char l = along_letter(letters_.size() - 1);
    const auto [values, indices] = top_k(values_[0], dim(l), dim('k'));
    std::string result = letters_;
    result[result.find(l)] = 'k';
    const auto asked = [&](std::size_t r) {
      const json& requested = list(c_, "outputs_requested").at(r);
      return layout(result, requested.is_null() ? field(list(c_, "outputs").at(r), "spec") : requested);
    };
    in_.output(values, type_, asked(0));
    in_.output(indices, cleave::element::i32, asked(1));
    return true;
  }
  /// One index of a dim, which goes.
  cleave::value at_index(cleave::value x, char along, std::int64_t index) {
    extents_['z'] = 1;
    return sum(slice(x, dim(along), dim('z'), index, index + 1), dim('z'));
  }
  /// Layers with stacked weights, one after the other.
  bool layers() {
    input(rank_of(0) == 2 ? "bd" : "bsd"), input("ldh"), input("lhd");
    constexpr struct {
      cleave::nn::layer_by_layer<> schedule;
    } in_order{};
    return finish(cleave::nn::blocks(in_order, dim('l'), values_[0], std::array{values_[1], values_[2]},
                                     [this](const cleave::value& x, const std::array<cleave::value, 2>& w) {
                                       return mlp(x, w[0], w[1]);
                                     }));
  }
  /// The stages' buffer goes on by one stage a tick, a microbatch enters the first, and all compute; one tick, or one a
  /// microbatch.
  bool pipeline() {
    input("pbd"), input("pdf"), input("tbd");
    const bool one = string_of(field(c_, "id"), "'id'").find("/step/") != std::string::npos;
    const auto tick = [this](const cleave::value& state, const cleave::value& microbatch) {
      const cleave::value entered = shift(state, dim('p'), 1) + cleave::nn::in_first_stage(microbatch, dim('p'));
      return rename(dot(entered, values_[1], dim('d')), dim('f'), dim('d'));
    };
    return finish(one ? tick(values_[0], at_index(values_[2], 't', 0)) : scan(dim('t'), values_[0], values_[2], tick));
  }
  /// GShard's layer of experts (Lepikhin et al. 2020): the two best experts of every token, as far as their capacity
  /// goes.
  bool mixture_of_experts() {
    input("gsm"), input("me"), input("emh"), input("ehm");
    const json& params = field(c_, "params");
    const json dispatch = params.is_object() && params.contains("constrain_dispatch") ? params["constrain_dispatch"]
                                                                                      : json();
    extents_['c'] = 2 * (2 * extents_.at('s') / extents_.at('e'));
    const auto pin = [&](const cleave::value& v) {
      return dispatch.is_null() ? v : constrain(v, layout("egcm", dispatch));
    };
    const auto experts = [&](const cleave::value& sent) {
      return dot(relu(dot(sent, values_[2], dim('m'))), values_[3], dim('h'));
    };
    return finish(cleave::nn::mixture_of_experts(values_[0], values_[1], {dim('s'), dim('m'), dim('e'), dim('c')},
                                                 cleave::nn::experts_per_token::two, experts, pin)
                      .mixed);
  }
  bool stencil() {
    input("abc");
    const json& params = field(c_, "params");
    const std::string form = string_of(field(params, "form"), "'form'");
    const double neighbours = 2.0 * static_cast<double>(letters_.size());
    const bool rolls = form == "roll", keeps = form == "set" || form == "dus" || form == "mask";
    if (!rolls && !keeps && form != "pad") return false;
    cleave::value u = values_[0];
    for (std::int64_t n = number(params, "sweeps", 1); n > 0; --n) {
      std::optional<cleave::value> total;
      for (char l : letters_)
        for (int by : {1, -1}) {
          const cleave::value next = shift(u, dim(l), by, rolls ? cleave::border::periodic : cleave::border::zero);
          total = total ? *total + next : next;
        }
      if (!keeps) u = *total - neighbours * u;
      else if (letters_.size() == 2) u = interior(*total * (1 / neighbours), u, 1, dim('a'), dim('b'));
      else u = interior(*total * (1 / neighbours), u, 1, dim('a'), dim('b'), dim('c'));
    }
    return finish(u);
  }

  /// The windows of a convolution along some dims, called k, l, m, and what the dims are called in the result.
  struct looked_at {
    std::vector<cleave::window> windows{};
    std::string result{};
  };
  /// A parameter for all dims of space, or a list of one for each; `otherwise` if there is none.
  static std::int64_t for_dim(const json& params, const char* key, std::size_t i, std::int64_t otherwise) {
    if (!params.contains(key)) return otherwise;
    const json& all = params[key];
    return size_of(all.is_array() ? all.at(i) : all, std::string("'") + key + "'", 1);
  }
  looked_at windows_along(const std::string& spatial, const std::string& names, const json& params) {
    looked_at made;
    const std::string padding = string_of(field(params, "padding"), "'padding'");
    if (padding != "SAME" && padding != "VALID") throw malformed("padding '" + padding + "' is unknown");
    for (std::size_t i = 0; i < spatial.size(); ++i) {
      const std::int64_t stride = for_dim(params, "stride", i, 1), dilation = for_dim(params, "dilation", i, 1),
                         length = extents_.at(names[i]);
      const std::int64_t n = extents_.at(spatial[i]), reach = dilation * (length - 1);
      std::int64_t out = (n - reach - 1) / stride + 1, low = 0, high = 0;
      if (padding == "SAME") {
        out = (n + stride - 1) / stride;
        const std::int64_t total = std::max<std::int64_t>((out - 1) * stride + reach + 1 - n, 0);
        low = total / 2;
        high = total - low;
      }
      const char to = out == n ? spatial[i] : static_cast<char>('A' + i);
      extents_[to] = out;
      made.result.push_back(to);
      made.windows.push_back({dim(spatial[i]), dim(to), dim(names[i]), stride, dilation, low, high});
    }
    return made;
  }
  static cleave::value all_windows(cleave::value x, const std::vector<cleave::window>& w) {
    return w.size() == 1 ? windows(x, w[0]) : w.size() == 2 ? windows(x, w[0], w[1]) : windows(x, w[0], w[1], w[2]);
  }
  /// Channels last: x[b, space, i], kernel[window, i, o].
  cleave::value convolved(cleave::value x, cleave::value kernel, const looked_at& l) {
    std::vector<cleave::dim_ref> over;
    for (const cleave::window& w : l.windows) over.push_back(w.at);
    over.push_back(dim('i'));
    return in_.dot(all_windows(x, l.windows), kernel, over, {});
  }
  looked_at convolution_inputs(json params) {
    const std::size_t space = rank_of(0) - 2;
    if (rank_of(0) < 3 || space > 3) throw malformed("a convolution has 1 to 3 dims of space");
    const std::string spatial = std::string("stu").substr(0, space), names = std::string("klm").substr(0, space);
    input("b" + spatial + "i");
    input(names + "io");
    if (!params.is_object()) params = json::object();
    if (!params.contains("padding")) params["padding"] = "SAME";
    return windows_along(spatial, names, params);
  }
  bool convolution() {
    const looked_at l = convolution_inputs(field(c_, "params"));
    return finish(convolved(values_[0], values_[1], l), "b" + l.result + "o");
  }
  bool convolution_gradient() {
    const looked_at l = convolution_inputs(field(c_, "params"));
    input("b" + l.result + "o");
    const json& params = field(c_, "params");
    const std::string by = params.is_object() && params.contains("with_respect_to")
                               ? string_of(params["with_respect_to"], "'with_respect_to'")
                               : "kernel";
    if (by == "kernel") {
      const auto [made, pullback] = vjp([&](auto kernel) { return convolved(values_[0], kernel, l); }, values_[1]);
      return finish(pullback(values_[2]), std::string("klm").substr(0, l.windows.size()) + "io");
    }
    if (by != "input") return false;
    const auto [made, pullback] = vjp([&](auto image) { return convolved(image, values_[1], l); }, values_[0]);
    return finish(pullback(values_[2]), letters_);
  }
  bool pooling() {
    const json& params = field(c_, "params");
    const std::string how = string_of(field(params, "reduce"), "'reduce'");
    const std::string spatial = std::string("stu").substr(0, rank_of(0) - 2);
    input("b" + spatial + "i");
    double count = 1;
    for (std::size_t i = 0; i < spatial.size(); ++i) {
      const std::int64_t length = for_dim(params, "window", i, 1);
      extents_["klm"[i]] = length;
      count *= static_cast<double>(length);
    }
    const looked_at l = windows_along(spatial, "klm", params);
    std::vector<cleave::dim_ref> over;
    for (const cleave::window& w : l.windows) over.push_back(w.at);
    cleave::value seen = all_windows(values_[0], l.windows);
    if (how == "sum" || how == "mean" || how == "avg") {
      const cleave::value total = in_.reduce(cleave::reduction::sum, seen, over, {});
      return finish(how == "sum" ? total : total * (1 / count), "b" + l.result + "i");
    }
    if (how != "max" && how != "min") return false;
    // Outside the image there are zeros, which an extremum must not see.
    const double outside = how == "max" ? -std::numeric_limits<double>::infinity()
                                        : std::numeric_limits<double>::infinity();
    for (const cleave::window& w : l.windows) {
      const auto index = [&](cleave::dim_ref d) { return in_.iota(d, cleave::element::i32, {}); };
      const cleave::recorder::outer_products any_dims(in_);
      const cleave::value at = index(w.to) * cleave::operand(w.stride) +
                               (index(w.at) * cleave::operand(w.dilation) - cleave::operand(w.low));
      seen = select((at >= 0) & (at < cleave::operand(extents_.at(w.from.name[0]))), seen, outside);
    }
    const cleave::reduction most = how == "max" ? cleave::reduction::max : cleave::reduction::min;
    return finish(in_.reduce(most, seen, over, {}), "b" + l.result + "i");
  }
  bool rolled() {
    input("abcdefg");
    const json& params = field(c_, "params");
    cleave::value x = values_[0];
    if (!params.contains("shift")) return finish(roll(x, dim(along_letter(0)), 1));
    const json &by = params["shift"], &named = params.contains("dims") ? params["dims"] : field(params, "dim");
    const json dims = named.is_array() ? named : json::array({named});
    for (std::size_t i = 0; i < dims.size(); ++i)
      x = roll(x, dim(letter_at(dims[i])), size_of(by.is_array() ? by.at(i) : by, "a shift", -1000000));
    return finish(x);
  }
  /// Entry `i` of a parameter that is a number or a list; `otherwise` if there is none.
  static std::int64_t entry(const json& params, const char* key, std::size_t i, std::optional<std::int64_t> otherwise) {
    if (otherwise && !params.contains(key)) return *otherwise;
    const json& all = field(params, key);
    return size_of(all.is_array() ? all.at(i) : all, std::string("'") + key + "'",
                   std::numeric_limits<std::int64_t>::min());
  }
  /// The dims that a case names, each once.
  std::vector<char> letters_named(const json& params) {
    const json& named = params.contains("dims")   ? params["dims"]
                        : params.contains("axis") ? params["axis"]
                                                  : field(params, "dim");
    std::vector<char> all;
    for (const json& d : named.is_array() ? named : json::array({named})) all.push_back(letter_at(d));
    return all;
  }
  bool sliced() {
    input("abcdefg");
    const json& params = field(c_, "params");
    cleave::value x = values_[0];
    std::string result = letters_;
    const std::vector<char> along = letters_named(params);
    for (std::size_t i = 0; i < along.size(); ++i) {
      const char l = along[i], to = static_cast<char>('P' + i);
      const std::int64_t n = extents_.at(l), start = entry(params, "start", i, std::nullopt),
                         limit = entry(params, "limit", i, std::nullopt), stride = entry(params, "stride", i, 1);
      if (stride < 1) throw malformed("'stride' is no integer from 1");
      const std::int64_t first = start < 0 ? start + n : start, last = limit < 0 ? limit + n : limit;
      extents_[to] = (last - first + stride - 1) / stride;
      x = slice(x, dim(l), dim(to), first, last, stride);
      result[result.find(l)] = to;
      if (!says("drop_dim")) continue;
      x = sum(x, dim(to));
      std::erase(result, to);
    }
    return finish(x, result);
  }
  /// Negative numbers of elements are taken away.
  bool padded() {
    input("abcdefg");
    const json& params = field(c_, "params");
    cleave::value x = values_[0];
    std::string result = letters_;
    const std::vector<char> along = letters_named(params);
    for (std::size_t i = 0; i < along.size(); ++i) {
      const char l = along[i], to = static_cast<char>('P' + i), whole = static_cast<char>('U' + i);
      const std::int64_t low = entry(params, "low", i, 0), high = entry(params, "high", i, 0),
                         interior = entry(params, "interior", i, 0), n = extents_.at(l);
      const std::int64_t more_low = std::max<std::int64_t>(low, 0), more_high = std::max<std::int64_t>(high, 0);
      const bool cut = low < 0 || high < 0;
      extents_[to] = n + low + high + interior * (n - 1);
      extents_[whole] = n + more_low + more_high + interior * (n - 1);
      x = pad(x, dim(l), dim(cut ? whole : to), more_low, more_high, interior);
      if (cut)
        x = slice(x, dim(whole), dim(to), more_low - low, extents_.at(whole) - (more_high - high), std::int64_t{1});
      result[result.find(l)] = to;
    }
    return finish(x, result);
  }
  bool concatenated() {
    input("abcdefg");
    const char l = letter_of(field(c_, "params"), "dim");
    std::string result = letters_;
    result[result.find(l)] = 'z';
    extents_['z'] = extents_.at(l);
    // Pieces by pieces, which become one exchange.
    cleave::value all = values_[0];
    const std::size_t count = list(c_, "inputs").size();
    for (std::size_t k = 1; k < count; ++k) {
      const char piece = static_cast<char>('A' + k), so_far = k == 1 ? l : static_cast<char>('K' + k),
                 longer = k + 1 == count ? 'z' : static_cast<char>('L' + k);
      std::string other = letters_;
      other[other.find(l)] = piece;
      input(other);
      extents_[longer] = extents_.at(so_far) + extents_.at(piece);
      all = concat(dim(longer), cleave::piece(all, dim(so_far)), cleave::piece(values_[k], dim(piece)));
    }
    return finish(all, result);
  }
  bool reversed() {
    input("abcdefg");
    cleave::value x = values_[0];
    for (const char l : letters_named(field(c_, "params"))) x = flip(x, dim(l));
    return finish(x);
  }
  bool repeated() {
    input("abcdefg");
    const json& params = field(c_, "params");
    const char l = letter_of(params, "dim");
    const std::int64_t times = number(params, "times", 1);
    extents_['z'] = extents_.at(l) * times;
    std::string result = letters_;
    result[result.find(l)] = 'z';
    const bool tiled = params.contains("form") ? string_of(params["form"], "'form'") == "tile"
                                               : string_of(field(c_, "op"), "'op'") == "tile";
    const cleave::value x = values_[0];
    return finish(tiled ? tile(x, dim(l), dim('z'), times) : repeat(x, dim(l), dim('z'), times), result);
  }
  /// Normal numbers of a key of two words: the first, into which the second is folded.
  bool normal_numbers() {
    input("k");
    const json& shape = list(list(c_, "outputs").at(0), "global_shape");
    if (shape.empty() || shape.size() > 3) throw malformed("the output of rng has not one to three dims");
    const std::string made = std::string("abc").substr(0, shape.size());
    for (std::size_t d = 0; d < made.size(); ++d) extents_[made[d]] = size_of(shape[d], "an extent of the output", 0);
    const cleave::value place = in_.iota(dim('k'), cleave::element::u32, {});
    const auto word = [&](int i) { return sum(select(place == i, values_[0], 0), dim('k')); };
    type_ = cleave::element::f32;
    const cleave::value key = fold_in(word(0), word(1));
    return finish(made.size() == 1   ? cleave::normal<float>(key, dim('a'))
                  : made.size() == 2 ? cleave::normal<float>(key, dim('a'), dim('b'))
                                     : cleave::normal<float>(key, dim('a'), dim('b'), dim('c')),
                  made);
  }
  /// Along the last dim, or along all of two or three; in the library's order of dims. Of real numbers first the half
  /// spectrum along the last dim.
  bool fourier(const std::string& op) {
    input("abc");
    const json& params = field(c_, "params");
    const std::string form = params.is_object() && params.contains("form") ? string_of(params["form"], "'form'") : op;
    const bool of_real = op != "fft" || form.starts_with("rfft"),
               all = form.starts_with("3d") || form.starts_with("2d") || op == "rfft2" || form.starts_with("rfft2");
    const auto kernels = []<std::size_t... Along>(std::index_sequence<Along...>) {
      return std::array{&cleave::detail::shard_operation<transform_in_parts<Along>>...};
    }(std::make_index_sequence<8>{});
    const cleave::dim_ref dims[]{dim_a, dim_b, dim_c};
    cleave::value x = values_[0];
    std::size_t last = rank_of(0);
    std::string result = letters_;
    if (of_real) {
      if (letters_.ends_with(parts)) throw malformed("the operand of rfft is not real");
      const cleave::dim_ref from = dim(letters_.back());
      extents_['h'] = extents_.at(letters_.back()) / 2 + 1;
      extents_[parts] = 2;
      result.back() = 'h';
      result.push_back(parts);
      cleave::tensor_type type = in_.at(x).type;
      type.dims[type.rank - 1] = static_cast<cleave::dim_id>(in_.dim(dim('h'), "rfft", {}));
      type.append(in_.dim(dim_parts, "rfft", {}));
      x = cleave::detail::recorded_call(in_, cleave::detail::shard_operation<half_spectrum_in_parts>, std::array{x},
                                        std::array{from, dim('h'), cleave::dim_ref(dim_parts)}, type, {});
      --last;
    }
    std::vector<std::size_t> along;
    std::vector<cleave::dim_id> ids;
    for (std::size_t d = 0; d < last; ++d)
      if (all || (!of_real && d + 1 == last)) {
        along.push_back(d);
        ids.push_back(static_cast<cleave::dim_id>(in_.made().find_dim(dims[d].name)));
      }
    for (const std::size_t set : cleave::linalg::detail::kernels_of(in_, x, ids)) {
      std::size_t bits = 0;
      std::vector<cleave::dim_ref> whole;
      for (std::size_t k = 0; k < along.size(); ++k)
        if ((set >> k & 1) != 0) {
          bits |= std::size_t{1} << along[k];
          whole.push_back(dims[along[k]]);
        }
      if (whole.empty()) continue;
      whole.push_back(dim_parts);
      x = cleave::detail::recorded_call(in_, *kernels[bits], std::array{x}, whole, in_.at(x).type, {});
    }
    return finish(x, result);
  }
  bool merged() {
    input("ab");
    extents_['w'] = extents_.at('a') * extents_.at('b');
    return finish(merge(values_[0], dim('a'), dim('b'), dim('w')), "w");
  }
  /// The letters that a reduction keeps: those of a named dim go, or the first ones that leave the shape of the result.
  std::string kept_of_reduction() {
    const json &params = field(c_, "params"), &shape = shape_of_output(0);
    for (const char* key : {"dims", "axes", "axis", "dim"})
      if (params.is_object() && params.contains(key)) {
        std::string rest = letters_;
        const json all = params[key].is_array() ? params[key] : json::array({params[key]});
        for (const json& d : all) std::erase(rest, letter_at(d));
        return rest;
      }
    for (unsigned gone = 0; gone < 1u << letters_.size(); ++gone) {
      std::string rest;
      for (std::size_t d = 0; d < letters_.size(); ++d)
        if ((gone >> d & 1u) == 0) rest.push_back(letters_[d]);
      bool fits = rest.size() == shape.size();
      for (std::size_t d = 0; fits && d < rest.size(); ++d) fits = shape[d] == extents_.at(rest[d]);
      if (fits) return rest;
    }
    std::string kept;
    for (std::size_t d = 0; d < letters_.size() && shape.size() == letters_.size(); ++d)
      if (shape[d] == extents_.at(letters_[d])) kept.push_back(letters_[d]);
      else if (shape[d] != 1) kept = letters_;
    if (kept.size() < letters_.size() && !kept.empty()) return kept;
    throw malformed("the result of a reduction has not the extents of dims of its operand");
  }
  bool reduction(const std::string& op) {
    input("abcdefg");
    const std::string kept = kept_of_reduction();
    std::vector<cleave::dim_ref> over;
    double count = 1;
    for (char l : letters_)
      if (kept.find(l) == std::string::npos) {
        over.push_back(dim(l));
        count *= static_cast<double>(over.back().extent);
      }
    const cleave::reduction how = op == "max"         ? cleave::reduction::max
                                  : op == "min"       ? cleave::reduction::min
                                  : op == "prod"      ? cleave::reduction::prod
                                  : op == "logsumexp" ? cleave::reduction::logsumexp
                                                      : cleave::reduction::sum;
    const cleave::value total = in_.reduce(how, values_[0], over, {});
    const cleave::value result = op == "mean" ? total * (1 / count) : total;
    if (shape_of_output(0).size() == kept.size()) return finish(result, kept);
    // The reduced dims stay, with extent 1.
    std::string all = letters_;
    std::vector<cleave::dim_ref> dims;
    for (std::size_t d = 0; d < all.size(); ++d) {
      if (kept.find(all[d]) == std::string::npos) extents_[all[d] = static_cast<char>('P' + d)] = 1;
      dims.push_back(dim(all[d]));
    }
    return finish(in_.broadcast(result, dims, {}), all);
  }
  cleave::value mlp(cleave::value x, cleave::value up, cleave::value down) {
    return x + dot(relu(dot(x, up, dim('d'))), down, dim('h'));
  }
  /// The gradient of mean((mlp(x) - y)^2) by both weights, which are the first inputs.
  bool mlp_grad() {
    input("dh"), input("hd"), input(rank_of(2) == 2 ? "bd" : "bsd"), input(rank_of(3) == 2 ? "bd" : "bsd");
    const auto [loss, pullback] = vjp(
        [&](auto up, auto down) {
          const cleave::value off = mlp(values_[2], up, down) - values_[3];
          return mean(off * off);
        },
        values_[0], values_[1]);
    const auto [up, down] = pullback(in_.constant(1, in_.at(loss).type.element, {}));
    return finish({up, down}, {"dh", "hd"});
  }
  /// The gradient of the cross entropy of hidden @ table by both.
  bool lm_head_grad() {
    input("bd"), input("dv"), input("b");
    const auto [loss, pullback] =
        vjp([&](auto h, auto table) { return cross_entropy(cleave::nn::unembedding(h, table, dim('d')), values_[2]); },
            values_[0], values_[1]);
    const auto [hidden, table] = pullback(in_.constant(1, in_.at(loss).type.element, {}));
    return finish({hidden, table}, {"bd", "dv"});
  }
  /// mean(logsumexp(logits) - logits[label])
  cleave::value cross_entropy(cleave::value logits, cleave::value labels) {
    return mean(cleave::nn::cross_entropy(logits, labels, dim('v')));
  }
  /// x + causal softmax(q k^T / sqrt(key)) v, projected back. The sequence has a second name where it is attended to.
  bool attention() {
    input("bsd"), input("dhk"), input("dhk"), input("dhk"), input("hkd");
    extents_['t'] = extents_.at('s');
    const cleave::nn::attention_weights weights{values_[1], values_[2], values_[3], values_[4]};
    const auto own = [](const cleave::value& v) { return v; };
    return finish(values_[0] + cleave::nn::self_attention(values_[0], weights, dim('d'), {dim('s'), dim('t'), dim('k')},
                                                          cleave::nn::self_attention_options{cleave::nn::all_scores{},
                                                                                             cleave::nn::causal{}, own},
                                                          dim('h')));
  }

  const json& c_;
  names& pool_;
  cleave::recorder in_;
  std::map<char, std::int64_t> extents_{};
  std::vector<cleave::value> values_{};
  std::string letters_{};
  cleave::element type_ = cleave::element::f32;
};

/// Every dim shrunk; those that shrink to the same extent alternate with twice that, so that a plan that takes one for
/// the other is found.
cleave::sizes shrunk(const cleave::graph& g, const cleave::sizes& real) {
  cleave::sizes small = real;
  // What is cut at indices that the operation names keeps its extent; what is looked at nearby may be smaller.
  cleave::dim_set kept = 0;
  for (const cleave::dim_map& m : g.maps) {
    kept |= m.window != cleave::no_dim ? cleave::dim_bit(m.window) : cleave::dim_set{};
    if (m.from != m.to || m.stride != 1 || m.offset.constant < -2 || m.offset.constant > 2)
      kept |= cleave::dim_bit(m.from) | cleave::dim_bit(m.to);
  }
  // One extent as two products keeps its own.
  for (const cleave::dim_product& p : g.rules.products)
    for (const cleave::dim_product& q : g.rules.products)
      if (p[0] == q[0] && !(p == q))
        for (const cleave::dim_id d : {p[0], p[1], p[2], q[1], q[2]})
          if (d != cleave::no_dim) kept |= cleave::dim_bit(d);
  for (const cleave::node& n : g.nodes)
    if (n.code == cleave::op::call && g.nodes[n.in[0]].type.set() != n.type.set())
      kept |= g.nodes[n.in[0]].type.set() | n.type.set();
  for (std::size_t d = 0; d < g.dims.size(); ++d) {
    if ((kept >> d & 1) != 0) continue;
    const std::int64_t least = shrunk_extent(real.dims[d], real.axes);
    small.dims[d] = d % 2 == 1 && 2 * least <= real.dims[d] && shrunk_extent(2 * least, real.axes) == least ? 2 * least
                                                                                                            : least;
  }
  // What is as long as others together, or one extent under two names.
  for (std::size_t n = 0; n < g.rules.products.size(); ++n)
    for (const cleave::dim_product& p : g.rules.products)
      small.dims[p[0]] = small.dims[p[1]] * (p[2] == cleave::no_dim ? 1 : small.dims[p[2]]);
  return small;
}

/// What is wrong with the values or the bytes of a plan, if anything.
std::optional<std::string> check(const cleave::graph& g, const cleave::program& p, const cleave::sizes& at) {
  std::mt19937_64 random(7);
  std::vector<cleave::host_array> inputs;
  for (cleave::node_id i : g.inputs) {
    const cleave::tensor_type& type = g.nodes[i].type;
    cleave::host_array a(shape_of(type, at));
    // Integers are labels: they name an index of some dim.
    for (double& x : a.data)
      x = is_floating(type.element) ? std::uniform_real_distribution<double>(-1, 1)(random)
                                    : static_cast<double>(std::uniform_int_distribution<int>(0, 7)(random));
    // Matrices that are factored or solved with must be far from singular.
    const bool solved = std::any_of(g.nodes.begin(), g.nodes.end(),
                                    [](const cleave::node& n) { return n.code == cleave::op::call; });
    if (solved && a.extents.rank == 2 && a.extents[0] == a.extents[1])
      for (std::int64_t r = 0; r < a.extents[0]; ++r)
        a.data[static_cast<std::size_t>(r * (a.extents[0] + 1))] += static_cast<double>(a.extents[0]);
    inputs.push_back(std::move(a));
  }
  const auto wanted = evaluate(g, at, inputs);
  const cleave::simulated got = simulate(p, at, inputs);
  if (!got.problem.empty()) return got.problem;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    const cleave::buffer& result = p.buffers[p.arguments + r];
    if (result.type != g.output_types[r] || !(result.where == g.output_layouts[r]))
      return "the result is in another layout than asked for";
    if (const std::int64_t i = cleave::first_difference(wanted[r].data, got.results[r].data, 1e-9); i >= 0)
      return "element " + std::to_string(i) + " is " +
             std::to_string(got.results[r].data[static_cast<std::size_t>(i)]) + " instead of " +
             std::to_string(wanted[r].data[static_cast<std::size_t>(i)]);
  }
  if (const std::int64_t priced = bytes(p, at); priced != got.bytes)
    return "priced " + std::to_string(priced) + " bytes, simulated " + std::to_string(got.bytes);
  if (const std::int64_t priced = flops(p, at); priced != got.flops)
    return "priced " + std::to_string(priced) + " flops, simulated " + std::to_string(got.flops);
  return std::nullopt;
}

/// How often the products of a plan are done: flops of all devices over those of the computation.
double repeated(const cleave::graph& recorded, const cleave::program& p, const cleave::sizes& at) {
  const cleave::graph g = simplify(recorded);
  double once = 0;
  for (const cleave::node& n : g.nodes) {
    if (n.code != cleave::op::dot || n.over == 0) continue;
    double work = 2 * static_cast<double>(iterations_of(g.loops, n.loop, at));
    const cleave::dim_set dims = g.nodes[n.in[0]].type.set() | g.nodes[n.in[1]].type.set();
    for (cleave::dim_id d = 0; d < cleave::max_dims; ++d)
      if ((dims & cleave::dim_bit(d)) != 0) work *= static_cast<double>(at[d]);
    once += work;
  }
  return once > 0 ? static_cast<double>(flops(p, at)) * static_cast<double>(at.axes.devices()) / once : 1;
}

struct tally {
  int cases = 0, run = 0, unreadable = 0, wrong = 0, above_gspmd = 0, above_bound = 0, ratios = 0;
  double log_ratio = 0;
};

/// 1234567 as `1,234,567`.
std::string shown(std::optional<double> number) {
  std::string text;
  if (!number) text.push_back('-');
  const std::string digits = number ? std::to_string(std::llround(*number)) : std::string();
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

void run_case(const json& c, names& pool, bool verbose, std::ostream* plans, tally& t) {
  const std::string id = string_of(field(c, "id"), "'id'");
  case_builder builder(c, pool);
  builder.build();
  const cleave::graph& g = builder.recorded().made();
  if (!g.found.ok())
    throw malformed("the recorder rejects '" + std::string(g.found.op) + "' (fault " +
                    std::to_string(static_cast<int>(g.found.fault)) + ", dim '" + std::string(g.found.dim) +
                    "', axis '" + std::string(g.found.axis) + "')");
  ++t.run;
  const cleave::sizes real = cleave::sizes_for(g);
  // Convolutions are products here but not in XLA, whose repeated work was counted in products alone.
  const std::string op = string_of(field(c, "op"), "'op'");
  const double unlimited = op.starts_with("conv") ? 0 : 1;
  const double allowed = optional_number(c, "redundancy").value_or(unlimited);
  const cleave::policy rule = cleave::policy::bytes_first(allowed);
  const cleave::program p = partition(g, real, rule);
  // Also as the default policy plans it, which is what programs get.
  if (plans != nullptr)
    *plans << plan_text(id, p, real, rule)
           << plan_text(id + " by time", partition(g, real), real, cleave::policy::time());
  std::string notes;
  if (!p.found.ok()) {
    ++t.wrong;
    std::printf("%-60s WRONG: no plan (fault %d)\n", id.c_str(), static_cast<int>(p.found.fault));
    return;
  }
  auto problem = check(g, p, shrunk(g, real));
  if (const double times = repeated(g, p, real); !problem && allowed > 0 && times > allowed * (1 + 1e-9))
    problem = "products are done " + std::to_string(times) + " times";
  if (problem) {
    ++t.wrong;
    notes += "  WRONG: " + *problem;
  }
  const json& recorded = field(c, "gspmd");
  // XLA's CPU pipeline widens bf16 to f32.
  const double widened = string_of(field(list(c, "inputs").at(0), "dtype"), "a dtype") == "bfloat16" ? 0.5 : 1.0;
  const auto theirs = [&](const char* key) {
    std::optional<double> number = optional_number(recorded, key);
    if (number) *number *= widened;
    return number;
  };
  const auto plain = theirs("bytes"), scattered = theirs("bytes_with_reduce_scatter"), shardy = theirs("shardy_bytes");
  auto bound = optional_number(c, "bound_bytes");
  const auto tolerance = optional_number(c, "tolerance_bytes");
  for (const corrected_bound& known : corrected_bounds)
    if (bound && id == known.id && *bound < known.bytes) {
      notes += "  (recorded bound " + shown(*bound) + ", least: " + known.why + ")";
      bound = known.bytes;
    }
  const double ours = static_cast<double>(bytes(p, real));
  if (scattered && ours > *scattered + 64) {
    ++t.above_gspmd;
    notes += "  ABOVE GSPMD";
  }
  if (bound && ours > *bound + tolerance.value_or(0)) {
    ++t.above_bound;
    notes += "  ABOVE BOUND";
  }
  if (plain && ours > 0 && *plain > 0) {
    t.log_ratio += std::log(ours / *plain);
    ++t.ratios;
  }
  std::printf("%-60s %14s %14s %14s %14s %14s%s\n", id.c_str(), shown(ours).c_str(), shown(plain).c_str(),
              shown(scattered).c_str(), shown(shardy).c_str(), shown(bound).c_str(), notes.c_str());
  if (verbose) std::printf("%s", plan_text(id, p, real, rule).c_str());
}

/// A message of the JSON library without its own prefix in brackets.
std::string message_of(const json::exception& e) {
  const std::string text = e.what();
  const std::size_t prefix = text.find("] ");
  return text.substr(prefix == std::string::npos ? 0 : prefix + 2);
}

/// Runs a case. One that cannot be read is reported and counted.
void read_and_run(const json& c, names& pool, bool verbose, std::ostream* plans, tally& t) {
  std::string why;
  try {
    return run_case(c, pool, verbose, plans, t);
  } catch (const json::exception& e) {
    why = message_of(e);
  } catch (const std::exception& e) {
    why = e.what();
  }
  ++t.unreadable;
  std::printf("%-60s UNREADABLE: %s\n", string_of(field(c, "id"), "'id'").c_str(), why.c_str());
}

} // namespace

int main(int argc, char** argv) {
  std::string file, family, part, plans;
  bool verbose = false, understood = true;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--verbose") verbose = true;
    else if (option == "--family" && i + 1 < argc) family = argv[++i];
    else if (option == "--id" && i + 1 < argc) part = argv[++i];
    else if (option == "--plans" && i + 1 < argc) plans = argv[++i];
    else if (option.starts_with("--") || !file.empty()) understood = false;
    else file = option;
  }
  if (file.empty() || !understood) {
    std::fprintf(stderr, "usage: cleave_oracle FILE [--verbose] [--family NAME] [--id PART] [--plans FILE]\n");
    return 2;
  }
  tally t;
  std::string current;
  try {
    std::ifstream stream(file);
    if (!stream) throw malformed("the file cannot be opened");
    const json all = json::parse(stream);
    std::ofstream written;
    if (!plans.empty()) written.open(plans);
    if (!plans.empty() && !written) throw malformed("the file of plans cannot be opened");
    names pool;
    std::printf("%-60s %14s %14s %14s %14s %14s\n", "bytes a device", "ours", "GSPMD", "with scatter", "Shardy",
                "bound");
    for (const json& c : list(all, "cases")) {
      current = "case number " + std::to_string(t.cases++) + ": ";
      const std::string id = string_of(field(c, "id"), "'id'"), its = string_of(field(c, "family"), "'family'");
      current = "case '" + id + "': ";
      if (id.find(part) == std::string::npos) continue;
      if (family.empty() || its == family) read_and_run(c, pool, verbose, plans.empty() ? nullptr : &written, t);
    }
  } catch (const json::exception& e) {
    std::fprintf(stderr, "cleave_oracle: %s: %s%s\n", file.c_str(), current.c_str(), message_of(e).c_str());
    return 2;
  } catch (const malformed& e) {
    std::fprintf(stderr, "cleave_oracle: %s: %s%s\n", file.c_str(), current.c_str(), e.what());
    return 2;
  }
  if (t.unreadable > 0) std::printf("cases that cannot be read: %d\n", t.unreadable);
  std::printf("oracle: cases %d, run %d, wrong %d, above gspmd %d, above bound %d, geomean ours/gspmd %.3f\n", t.cases,
              t.run, t.wrong, t.above_gspmd, t.above_bound, t.ratios > 0 ? std::exp(t.log_ratio / t.ratios) : 1.0);
  return t.wrong + t.above_gspmd + t.above_bound + t.unreadable == 0 ? 0 : 1;
}
