// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/show/page_text.hpp>
#include <cleave/show/plan_json.hpp>

#include <string>
#include <string_view>

namespace cleave { inline namespace v0 {

namespace show { namespace detail {

/// Text in a page.
inline std::string in_page(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (c == '<') made += "&lt;";
    else if (c == '>') made += "&gt;";
    else if (c == '&') made += "&amp;";
    else made += c;
  }
  return made;
}
/// JSON in a script: `<` begins the end of the script, and may stand only in strings, which can spell it otherwise.
inline std::string in_script(std::string_view json) {
  std::string made;
  for (const char c : json)
    if (c == '<') made += "\\u003c";
    else made += c;
  return made;
}

}} // namespace show::detail

/// One self-contained page of HTML about a plan: sums, a search, every step with its arrays, layouts, bytes and source
/// line, the arcs from producers to consumers, collectives, costs of loops, memory over the steps, and with a machine
/// the timeline. The record is in the page as JSON. Write it to a file and open it: nothing is loaded from elsewhere.
inline std::string plan_page(const plan_record& plan, std::string_view title = "Plan") {
  std::string page(show::detail::page_text);
  const auto put = [&](std::string_view mark, const std::string& text) {
    for (std::size_t at = 0; (at = page.find(mark, at)) != std::string::npos; at += text.size())
      page.replace(at, mark.size(), text);
  };
  put("@TITLE@", show::detail::in_page(title));
  put("@PLAN@", show::detail::in_script(to_json(plan)));
  return page;
}

}} // namespace cleave::v0
