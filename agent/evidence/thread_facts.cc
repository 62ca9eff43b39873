#include "agent/evidence/thread_facts.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace strobe::agent {
namespace {

// The content of a small file, without the end of its last line; empty if it cannot be read.
std::string ReadProcFile(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::array<char, 1024> text{};
  const ssize_t got = read(file, text.data(), text.size());
  close(file);
  std::string_view read_text(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!read_text.empty() && read_text.back() == '\n') read_text.remove_suffix(1);
  return std::string(read_text);
}

std::string ReadOfThread(std::uint64_t tid, const char* file) {
  std::array<char, 96> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/task/%llu/%s",
                static_cast<unsigned long long>(tid), file);
  return ReadProcFile(path.data());
}

// The name of the file's program may hold any character, so that the fields begin behind the last
// parenthesis.
std::string_view BehindName(std::string_view stat) {
  const std::size_t end = stat.rfind(')');
  return end == std::string_view::npos ? std::string_view() : stat.substr(end + 1);
}

std::string OrDash(std::string text) { return text.empty() ? "-" : text; }

}  // namespace

char StateIn(std::string_view stat) {
  const std::string_view fields = BehindName(stat);
  return fields.size() >= 2 && fields[0] == ' ' ? fields[1] : '?';
}

ThreadFacts FactsOf(std::uint64_t tid) {
  ThreadFacts facts;
  if (tid == 0) return facts;
  facts.state = StateIn(ReadOfThread(tid, "stat"));
  facts.wchan = OrDash(ReadOfThread(tid, "wchan"));
  const std::string syscall = ReadOfThread(tid, "syscall");
  facts.syscall = OrDash(syscall.substr(0, syscall.find(' ')));
  facts.name = OrDash(ReadOfThread(tid, "comm"));
  const std::string schedstat = ReadOfThread(tid, "schedstat");
  facts.ran = OrDash(schedstat.substr(0, schedstat.find(' ')));
  return facts;
}

std::string AsleepIn(std::string_view stat, std::string schedstat) {
  // What kernels say that do not count it.
  constexpr std::string_view kNotCounted = "0 0 0";
  const char state = StateIn(stat);
  const bool sleeps = state == 'S' || state == 'D' || state == 'T';
  return sleeps && schedstat != kNotCounted ? std::move(schedstat) : std::string();
}

std::string AsleepText(std::uint64_t tid) {
  return AsleepIn(ReadOfThread(tid, "stat"), ReadOfThread(tid, "schedstat"));
}

}  // namespace strobe::agent
