// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// One line for each file of steps.
#include <cleave/execute/steps/call.hpp>
#include <cleave/execute/steps/exchange.hpp>
#include <cleave/execute/steps/fold.hpp>
#include <cleave/execute/steps/gemm.hpp>
#include <cleave/execute/steps/loop.hpp>
#include <cleave/execute/steps/map.hpp>
#include <cleave/execute/steps/move.hpp>
#include <cleave/execute/steps/product_in_panels.hpp>
#include <cleave/execute/steps/product_in_pieces.hpp>
#include <cleave/execute/steps/rows.hpp>
#include <cleave/execute/steps/scan.hpp>
#include <cleave/execute/steps/sort.hpp>
