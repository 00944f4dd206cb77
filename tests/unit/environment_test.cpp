// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cleave/base/environment.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace CLEAVE_SOURCE {

constexpr const char* name = "CLEAVE_OF_A_TEST";

/// What `read` gives or says where the variable has this value.
template <class Read>
std::string given(const char* value, const Read& read) {
  setenv(name, value, 1);
  std::string said;
  try {
    said = read();
  } catch (const cleave::environment_error& e) {
    said = e.what();
  }
  unsetenv(name);
  return said;
}
std::string says(const std::string& value, const std::string& expected) {
  return "cleave: CLEAVE_OF_A_TEST is '" + value + "' in the environment; it may be " + expected;
}

TEST(environment, has_one_of_the_words) {
  const auto read = [] { return std::string(cleave::word_of_environment(name, {"auto", "on", "off"})); };
  EXPECT_EQ(read(), "auto");
  for (const char* word : {"auto", "on", "off"}) EXPECT_EQ(given(word, read), word);
  EXPECT_EQ(given("", read), "auto");
  for (const char* word : {"of", "ON", "on "}) EXPECT_EQ(given(word, read), says(word, "auto, on or off"));
}
TEST(environment, has_a_number) {
  const auto whole = [] { return std::to_string(cleave::number_of_environment(name, 0)); };
  EXPECT_EQ(whole(), "0");
  for (const char* n : {"0", "1", "12"}) EXPECT_EQ(given(n, whole), n);
  for (const char* n : {"2.5", "-1", "1e300", "nan", "inf", "3x", "two"})
    EXPECT_EQ(given(n, whole), says(n, "a whole number above 0"));
  const auto seconds = [] { return std::to_string(cleave::number_of_environment(name, 8.0)); };
  EXPECT_EQ(given("", seconds), std::to_string(8.0));
  EXPECT_EQ(given("2.5", seconds), std::to_string(2.5));
  for (const char* n : {"0", "-1", "nan"}) EXPECT_EQ(given(n, seconds), says(n, "a number above 0"));
}

} // namespace CLEAVE_SOURCE
