// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// All names lie in an inline namespace, v and the major version, so that one program can contain libraries that were
// built with two versions. Users write cleave:: alone. Whoever raises the major version renames it in all headers;
// tests/rooms checks that.
#define CLEAVE_VERSION_MAJOR 0
#define CLEAVE_VERSION_MINOR 1
#define CLEAVE_VERSION_PATCH 0
#define CLEAVE_VERSION (CLEAVE_VERSION_MAJOR * 10000 + CLEAVE_VERSION_MINOR * 100 + CLEAVE_VERSION_PATCH)
