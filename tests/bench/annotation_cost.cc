// Measures the cost of an annotation in nanoseconds per scope, without and during a capture, and
// prints JSON. To simulate the capture, it sets the control words of the ring files in $STROBE_DIR.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "agent/wire/ring_file.h"
#include "strobe/trace_me.h"

namespace {

constexpr int kScopes = 1'000'000;
constexpr int kRounds = 9;

// The median over the rounds. It includes the loop itself, which callers subtract.
template <typename Body>
double NanosPerScope(const Body& body) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kScopes; ++i) {
      body(i);
      asm volatile("" ::: "memory");
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    rounds.push_back(took.count() / kScopes);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

// For comparison, the simplest implementation: a queue behind a mutex.
struct Queued {
  std::uint64_t begin, end;
  std::string name;
};
std::mutex g_mutex;
std::vector<Queued> g_queue;

class QueuedScope {
 public:
  explicit QueuedScope(const char* name) : name_(name), begin_(Now()) {}
  ~QueuedScope() {
    const std::lock_guard<std::mutex> lock(g_mutex);
    if (g_queue.size() >= 100'000) g_queue.clear();
    g_queue.push_back({begin_, Now(), name_});
  }

 private:
  static std::uint64_t Now() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  const char* name_;
  std::uint64_t begin_;
};

void SetControl(const std::string& directory, std::uint32_t level) {
  for (const auto& file : std::filesystem::directory_iterator(directory))
    strobe::wire::RingFile::Open(file.path()).header()->control.store(level);
}

}  // namespace

int main() {
  const std::string directory = std::string(std::getenv("STROBE_DIR")) + "/agent";
  const double loop = NanosPerScope([](int) {});
  const auto scope = [](int) { strobe::TraceMe me("step"); };
  const auto with_ints = [](int i) {
    strobe::TraceMe me([&] { return strobe::TraceMeEncode("step", {{"a", i}, {"b", 7}}); });
  };
  const double off = NanosPerScope(scope) - loop;
  const double off_ints = NanosPerScope(with_ints) - loop;
  SetControl(directory, 3);
  const double on = NanosPerScope(scope) - loop;
  const double on_ints = NanosPerScope(with_ints) - loop;
  const double ticks =
      NanosPerScope([](int) { (void)strobe::trace_me_internal::agent->now(); }) - loop;
  const double queue = NanosPerScope([](int) { QueuedScope me("step"); }) - loop;
  std::printf(
      "{\"off\": %.2f, \"off_two_ints\": %.2f, \"on\": %.2f, \"on_two_ints\": %.2f, "
      "\"one_time_stamp\": %.2f, \"mutex_queue\": %.2f}\n",
      off, off_ints, on, on_ints, ticks, queue);
  return 0;
}
