// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/recorded_calls.hpp>
#include <cleave/ops/table.hpp>

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

// A run as a trace that Perfetto and Chrome open: one event for each call and each step.

namespace cleave { inline namespace v0 { namespace comm {

/// The file of this process: a list of events (Trace Event Format, JSON array), which ends with the process.
class trace_file final : public call_tracer {
 public:
  static trace_file& own() {
    static trace_file file;
    return file;
  }
  trace_file(const trace_file&) = delete;
  trace_file& operator=(const trace_file&) = delete;
  ~trace_file() override {
    tracer = nullptr;
    // A child of this process has a copy of the text that is not written yet.
    if (file_ == nullptr || ::getpid() != process_) return;
    std::fputs("\n]\n", file_);
    std::fclose(file_);
  }
  /// Each process writes `name.RANK-PROCESS.json` of `name.json`: communicators of several grids may have the same
  /// ranks.
  [[gnu::cold]] void open(std::string name, int rank) {
    const std::string_view ending = ".json";
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
    process_ = ::getpid();
    name.append(".").append(std::to_string(rank)).append("-").append(std::to_string(process_)).append(ending);
    file_ = std::fopen(name.c_str(), "w");
    if (file_ == nullptr) {
      std::fprintf(stderr, "cleave: rank %d cannot write the trace '%s'\n", rank, name.c_str());
      return;
    }
    std::fprintf(file_, "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}",
                 static_cast<int>(process_), rank);
    tracer = this;
  }
  /// Before the process is ended at once.
  void flush() {
    if (tracer != nullptr && mutex_.try_lock()) std::fflush(file_);
  }
  /// Microseconds, by a clock that the ranks share as far as their hosts agree on the time.
  double now() const override {
    return began_ + std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_).count();
  }
  /// `words`: a second name, after the first one and " for ".
  [[gnu::cold]] void add(std::string_view name, std::string_view words, const step* s, std::int64_t bytes, double begin,
                         const char* category = "step") {
    static std::atomic<int> threads{0};
    static thread_local const int thread = threads++;
    const double end = now();
    const std::lock_guard lock(mutex_);
    std::fprintf(file_, ",\n{\"name\":\"%.*s%s%.*s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d",
                 static_cast<int>(name.size()), name.data(), words.empty() ? "" : " for ",
                 static_cast<int>(words.size()), words.data(), category, static_cast<int>(process_), thread);
    // As integers: another locale has another point.
    const auto put = [&](const char* what, double microseconds) {
      const auto ns = static_cast<long long>(1000 * microseconds);
      std::fprintf(file_, ",\"%s\":%lld.%03lld", what, ns / 1000, ns % 1000);
    };
    put("ts", begin);
    put("dur", end - begin);
    std::fputs(",\"args\":{\"line\":\"", file_);
    if (s != nullptr && s->where.line != 0) {
      const std::string_view file = s->where.name();
      std::fprintf(file_, "%.*s:%d", static_cast<int>(file.size()), file.data(), static_cast<int>(s->where.line));
    }
    std::fprintf(file_, "\",\"gradient\":%s,\"bytes\":%lld}}", s != nullptr && s->gradient ? "true" : "false",
                 static_cast<long long>(bytes));
  }
  [[gnu::cold]] void add(const char* call, const step* first, double begin) override {
    add(call, {}, first, 0, begin, "call");
  }
  [[gnu::cold]] void add(const step& s, std::int64_t bytes, double begin) override {
    const std::string_view what = class_of(s.code) == op_class::reduction ? name_of(s.combine) : name_of(s.code);
    const bool moves = is_collective(s);
    if (s.kind == step_kind::wait) add("wait", {}, &s, bytes, begin);
    else add(moves ? name_of(s.move) : what, moves ? what : "", &s, bytes, begin);
  }

 private:
  trace_file() = default;

  std::FILE* file_ = nullptr;
  ::pid_t process_ = 0;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double began_ =
      std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch()).count();
};

/// Begins the trace that CLEAVE_TRACE asks for.
[[gnu::cold]] inline void begin_trace(int rank) {
  if (const char* const name = std::getenv("CLEAVE_TRACE"); name != nullptr && *name != '\0')
    trace_file::own().open(name, rank);
}

}}} // namespace cleave::v0::comm
