// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compare.hpp"

template reference::errors reference::compare<decoder::fully_sharded>(const reference::hdf5_file&,
                                                                      const reference::configuration&,
                                                                      const cleave::grid&);
template reference::errors reference::compare<decoder::zero1>(const reference::hdf5_file&,
                                                              const reference::configuration&, const cleave::grid&);
