// Common code of the C++ peers of um_bench: the protocol of ../peer.py.
//
// A request is one line of flat JSON, as um_bench writes it: {"bytes":4096,"do":"allocate","repeats":64,"round":3}. The reader
// below supports only numbers, true, false and strings without escapes; um_bench sends nothing else to these peers.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace peer {

class Request {
 public:
  explicit Request(std::string line) : line_(std::move(line)) {}

  std::string text(const std::string& key) const {
    const std::string value = after(key);
    if (value.empty() || value[0] != '"') throw std::runtime_error("the request has no text \"" + key + "\"");
    return value.substr(1, value.find('"', 1) - 1);
  }

  std::size_t number(const std::string& key) const {
    const std::string value = after(key);
    if (value.empty() || value[0] < '0' || value[0] > '9') {
      throw std::runtime_error("the request has no number \"" + key + "\"");
    }
    return std::strtoull(value.c_str(), nullptr, 10);
  }

  // A missing flag is false.
  bool flag(const std::string& key) const { return after(key).rfind("true", 0) == 0; }

 private:
  // The text after `"key":`, or an empty text.
  std::string after(const std::string& key) const {
    const std::size_t at = line_.find('"' + key + '"');
    if (at == std::string::npos) return "";
    const std::size_t value = line_.find_first_not_of(" :", at + key.size() + 2);
    return value == std::string::npos ? "" : line_.substr(value);
  }

  std::string line_;
};

struct Answer {
  double seconds;
  bool verified;
};

using Task = std::function<Answer(const Request&)>;

// Only answers are written to the standard output that um_bench reads: output of a library goes to standard error.
class Answers {
 public:
  Answers() : file_(fdopen(dup(STDOUT_FILENO), "w")) { dup2(STDERR_FILENO, STDOUT_FILENO); }

  void error(const std::string& reason) { write("{\"error\":" + quoted(reason) + "}"); }
  void version(const std::string& version) { write("{\"version\":" + quoted(version) + "}"); }
  void answer(const Answer& answer) {
    char text[96];
    std::snprintf(text, sizeof text, "{\"seconds\":%.9e,\"verified\":%s}", answer.seconds,
                  answer.verified ? "true" : "false");
    write(text);
  }

 private:
  void write(const std::string& line) {
    std::fprintf(file_, "%s\n", line.c_str());
    std::fflush(file_);
  }

  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return out + '"';
  }

  FILE* file_;
};

// Answers requests until standard input ends.
inline int serve(Answers& answers, const std::map<std::string, Task>& tasks, const std::string& version) {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const Request request(line);
      const std::string wanted = request.text("do");
      if (wanted == "hello") {
        answers.version(version);
        continue;
      }
      const auto task = tasks.find(wanted);
      if (task == tasks.end()) throw std::runtime_error("this peer does not support " + wanted);
      answers.answer(task->second(request));
    } catch (const std::exception& error) {
      answers.error(error.what());
    }
  }
  return 0;
}

// Answers the first request with the reason why this peer cannot run.
inline int refuse(Answers& answers, const std::string& reason) {
  std::string line;
  std::getline(std::cin, line);
  answers.error(reason);
  return 1;
}

// Seconds for one of `repeats` runs of `work`; `finish` waits for pending work before the clock starts.
template <class Work, class Finish>
double time_each(std::size_t repeats, Work work, Finish finish) {
  finish();
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < repeats; ++i) work();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / static_cast<double>(std::max<std::size_t>(repeats, 1));
}

// Numbers from 1 to 2, plus an amount that depends on the round: different in each round, never zero.
inline void fresh(float* target, std::size_t count, std::size_t round) {
  const float raise = static_cast<float>(round % 1024);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t mixed = static_cast<std::uint32_t>(i) * 0x9E3779B1u;
    target[i] = 1.0f + static_cast<float>(mixed >> 9) * 0x1p-23f + raise;
  }
}

inline bool equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace peer
