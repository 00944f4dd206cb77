// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compare.hpp"

template reference::errors reference::compare<decoder::pipeline_parallel>(const reference::hdf5_file&,
                                                                          const reference::configuration&,
                                                                          const cleave::grid&);
template reference::errors reference::compare<decoder::ring_attention>(const reference::hdf5_file&,
                                                                       const reference::configuration&,
                                                                       const cleave::grid&);
