// What the kernel tells of the threads of this process, which needs no privilege.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace strobe::agent {

struct ThreadFacts {
  char state = '?';  // The kernel's letter, such as S.
  std::string wchan = "-", syscall = "-", name = "-";
  std::string ran = "-";  // On a processor so far, in nanoseconds.
};

ThreadFacts FactsOf(std::uint64_t tid);

// Empty unless the thread sleeps. Otherwise a text that changes if it runs: how long it has run so
// far, and how often.
std::string AsleepText(std::uint64_t tid);

// That by the texts of the thread's files "stat" and "schedstat" in /proc. Pure.
std::string AsleepIn(std::string_view stat, std::string schedstat);

// The state in the text of a file "stat" of /proc; '?' if there is none. Pure.
char StateIn(std::string_view stat);

}  // namespace strobe::agent
