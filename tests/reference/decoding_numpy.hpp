// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written by decoding_numpy.py: scores, and then texts as their score, their length and their tokens.
#pragma once

#include <vector>

namespace recorded_texts {

inline const std::vector<double> penalised{-1.2625333070755005, 0.6805173789753634, 1.8814611434936523,
                                           -0.25551381856203076, -1.9618724584579468};
inline const std::vector<double> plain{-0.9769381677559597, 2.0, 1.0, 0.0, -2.167467813822637, 2.0, 2.0, 0.0};
inline const std::vector<double> of_lengths{-0.4884690838779798,
                                            2.0,
                                            1.0,
                                            0.0,
                                            -0.7134106632107091,
                                            5.0,
                                            1.0,
                                            1.0,
                                            3.0,
                                            1.0,
                                            2.0,
                                            -0.7550980061336872,
                                            5.0,
                                            2.0,
                                            4.0,
                                            4.0,
                                            1.0,
                                            1.0};
inline const std::vector<double> without_repetition{
    -0.6596023921263576, 2.0, 1.0, 0.0, -1.5283703138068618, 2.0, 2.0, 0.0, -1.6667775413146346, 3.0, 1.0, 4.0, 0.0};

} // namespace recorded_texts
