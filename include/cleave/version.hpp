// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#define CLEAVE_VERSION_MAJOR 0
#define CLEAVE_VERSION_MINOR 1
#define CLEAVE_VERSION_PATCH 0
#define CLEAVE_VERSION (CLEAVE_VERSION_MAJOR * 10000 + CLEAVE_VERSION_MINOR * 100 + CLEAVE_VERSION_PATCH)
