// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/lookup.hpp>

namespace cleave { inline namespace v0 { namespace nn {

/// Rows of a table for word ids: [dims of the ids, other dims of the table]. Communication: if the vocabulary is
/// sharded, ids are sent to the devices that own the rows and rows come back, or each device contributes its own rows
/// and the sums are reduced. No device has the whole table. An id outside the vocabulary gives 0 and has no gradient;
/// checked mode names it, unless it is ignored, as that of padding.
constexpr value embedding(operand table, operand ids, dim_ref vocabulary) {
  const value rows = gather(table, vocabulary, ids);
  return rows.ok() ? rows.in->marked(rows, labels_are_indices) : rows;
}
constexpr value embedding(operand table, operand ids, dim_ref vocabulary, ignore ignored) {
  return gather(table, vocabulary, ids, ignored);
}
CLEAVE_LIFT(embedding)

/// The scores of all words from an embedding table: the product with it over its other dim (tied weights, Press and
/// Wolf 2017). If the vocabulary is sharded, the scores are too.
constexpr value unembedding(operand x, operand table, dim_ref embed) { return dot(x, table, embed); }
CLEAVE_LIFT(unembedding)

namespace detail {
/// The cross entropy, 0 where the label is ignored if `ignored` is a value.
constexpr value cross_entropy_of(const operand& scores, const operand& labels, dim_ref vocabulary, double smoothing,
                                 const ignore* ignored) {
  const called_at user(scores, "cross_entropy");
  value s = scores.from;
  if (!s.ok()) return s;
  recorder& in = *s.in;
  const value of = in.index_of(labels, "cross_entropy");
  const int classes = in.dim(vocabulary, "cross_entropy", scores.where);
  if (!(smoothing >= 0 && smoothing <= 1)) return in.fail(fault::not_a_probability, "cross_entropy", scores.where);
  if (!of.ok() || classes < 0) return in.missing("cross_entropy", labels.where);
  const dim_set asked = in.at(s).type.set().without(classes), given = in.at(of).type.set();
  if (!is_integer(in.at(of).type.element)) return in.fail(fault::not_an_index, "cross_entropy", labels.where);
  if (const dim_set differ = asked ^ given; !differ.empty())
    return in.fail(fault::label_dims_differ, "cross_entropy", labels.where, in.made().dims[*differ.begin()].name);
  value none;
  if (ignored != nullptr) {
    none = labels == operand(ignored->label, labels.where.file, labels.where.line);
    // The gradient is 0 there, whatever the scores are.
    s = select(none, 0, s);
  }
  const value hit = in.marked(one_hot(labels, vocabulary, element::boolean),
                              ignored == nullptr ? labels_are_indices : labels_are_indices_but(ignored->label));
  const value of_label = sum(select(hit, s, 0), vocabulary);
  // Scores less the largest one: large scores keep their digits.
  const value most = stop_gradient(max(s, vocabulary)), below = widened(s) - widened(most);
  const value right = widened(of_label) - widened(most);
  const value expected = smoothing == 0 ? right : right * (1 - smoothing) + mean(below, vocabulary) * smoothing;
  const value loss = in_type(log(sum(exp(below), vocabulary)) - expected, in.at(s).type.element);
  return ignored == nullptr ? loss : select(none, 0, loss);
}
} // namespace detail

/// -log of the probability that softmax gives to each label, from scores along the vocabulary. Communication: if the
/// vocabulary is sharded, three numbers for each label are reduced, never the scores: the largest score, the sum of the
/// exponentials, and the score of the label.
/// `smoothing` is the share of the probability that is spread evenly over all words (Szegedy et al. 2016). Labels have
/// an integer element type and the dims of the scores except the vocabulary. Where a label is ignored, the loss is 0
/// and so is its gradient, also if the scores are infinite or NaN: `cross_entropy(scores, labels, word, ignore{-100})`.
/// `weighted_mean` is the mean over the others. Any other label outside the vocabulary is a mistake: its loss is the
/// logsumexp of the scores, which pushes all of them down. Checked mode names it. Faults: not_an_index,
/// label_dims_differ, dim_missing, not_a_probability.
constexpr value cross_entropy(operand scores, operand labels, dim_ref vocabulary, double smoothing = 0) {
  return detail::cross_entropy_of(scores, labels, vocabulary, smoothing, nullptr);
}
constexpr value cross_entropy(operand scores, operand labels, dim_ref vocabulary, ignore ignored,
                              double smoothing = 0) {
  return detail::cross_entropy_of(scores, labels, vocabulary, smoothing, &ignored);
}
CLEAVE_LIFT(cross_entropy)

}}} // namespace cleave::v0::nn
