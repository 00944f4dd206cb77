// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of one new token to the used positions of a cache of keys and values, in plain loops.
#pragma once

#include <vector>

namespace by_hand {

/// The caches are [head, position, feature].
class decoder {
 public:
  decoder(long heads, long positions, long features);
  /// Writes key and value [head, feature] to position `at`. The attention of the query to the positions up
  /// to it is `out`.
  void step(const float* query, const float* key, const float* value, long at);

  std::vector<float> keys, values, out;

 private:
  long heads_, positions_, features_;
  std::vector<float> scores_;
};

} // namespace by_hand
