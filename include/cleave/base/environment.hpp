// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace cleave { inline namespace v0 {

/// The word that a variable of the environment has, one of `words`; the first of them if it is not set or empty. Throws
/// environment_error if it has another one: a misspelt word would silently change nothing.
[[gnu::cold]] inline std::string_view word_of_environment(const char* name,
                                                          std::initializer_list<std::string_view> words) {
  const char* const given = std::getenv(name);
  if (given == nullptr || *given == '\0') return *words.begin();
  std::string expected;
  for (const std::string_view& word : words) {
    if (word == given) return word;
    expected.append(expected.empty() ? "" : &word + 1 == words.end() ? " or " : ", ").append(word);
  }
  raise<environment_error>(wording::environment_word(name, expected, given));
}

/// The number above 0 that a variable of the environment has; `otherwise` if it is not set or empty, or has that.
/// Throws environment_error if it has anything else.
template <class Number>
[[gnu::cold]] Number number_of_environment(const char* name, Number otherwise) {
  const char* const given = std::getenv(name);
  if (given == nullptr || *given == '\0') return otherwise;
  char* end = nullptr;
  const double value = std::strtod(given, &end);
  const bool fits = *end == '\0' && value >= 0 && value <= static_cast<double>(std::numeric_limits<Number>::max());
  const Number n = fits ? static_cast<Number>(value) : Number{-1};
  if (static_cast<double>(n) != value || (n <= 0 && n != otherwise))
    raise<environment_error>(
        wording::environment_word(name, std::is_integral_v<Number> ? "a whole number above 0" : "a number above 0",
                                  given));
  return n;
}

/// The word of CLEAVE_FFT_PLANS. The grid reads it too, since the transforms of some rank may come first.
inline std::string_view fft_plans_of_environment() {
  return word_of_environment("CLEAVE_FFT_PLANS", {"measured", "estimated"});
}

}} // namespace cleave::v0
