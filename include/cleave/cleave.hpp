// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Everything that most programs need: tensors, grids, functions, their derivatives, operations of your own, plans.

#include <cleave/base/rejected.hpp>
#include <cleave/expr/associative_scan.hpp>
#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/mathematics.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/operation.hpp>
#include <cleave/expr/random.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/redistribute/copy.hpp>
#include <cleave/study/explain_plan.hpp>
#include <cleave/tensor/make.hpp>
#include <cleave/version.hpp>
