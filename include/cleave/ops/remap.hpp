// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/rules/remap.hpp>
#include <cleave/ops/table.hpp>

#include <algorithm>
#include <vector>
