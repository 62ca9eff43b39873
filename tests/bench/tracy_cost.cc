// Measures the cost of a zone of Tracy's client in nanoseconds, and prints JSON. No server is
// connected: compiled with TRACY_ON_DEMAND it records nothing ("off"), compiled without it the
// client records zones into memory ("on").
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <tracy/Tracy.hpp>
#include <vector>

int main() {
  constexpr int kScopes = 200'000, kRounds = 7;
  const auto measure = [](const auto& body) {
    std::vector<double> rounds;
    for (int round = 0; round < kRounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kScopes; ++i) {
        body(i);
        asm volatile("" ::: "memory");
      }
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - begin;
      rounds.push_back(took.count() / kScopes);
    }
    std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
    return rounds[kRounds / 2];
  };
  const double loop = measure([](int) {});
  const double zone = measure([](int) { ZoneScopedN("step"); });
  const double value = measure([](int i) {
    ZoneScopedN("step");
    ZoneValue(static_cast<uint64_t>(i));
    ZoneValue(7);
  });
  std::printf("{\"zone\": %.2f, \"zone_two_values\": %.2f}\n", zone - loop, value - loop);
  std::fflush(stdout);
  std::_Exit(0);  // Skips destructors, in which Tracy waits for a server to fetch the data.
}
