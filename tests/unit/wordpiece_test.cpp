// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../../examples/wordpiece.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace CLEAVE_SOURCE {

TEST(wordpiece, an_id_is_the_number_of_the_last_line_with_the_token) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("cleave_vocabulary_" + std::to_string(getpid()))).string();
  std::ofstream(path) << "[UNK]\n\n[CLS]\n[SEP]\none\n\ntwo\none\nthree\n";
  const examples::wordpiece tokens_of(path);
  std::filesystem::remove(path);
  EXPECT_EQ(tokens_of.size(), 9);
  EXPECT_EQ(tokens_of("one two three four", 10), (std::vector<std::int32_t>{2, 7, 6, 8, 0, 3}));
}

} // namespace CLEAVE_SOURCE
