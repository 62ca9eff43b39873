// annotated_program THREADS SCOPES_PER_SECOND [SCOPES]: simulates a trainer with annotations.
// Prints the total number of scopes when it ends. With 0 scopes per second, the threads do not
// pause. With SCOPES, it begins when a capture does, each thread makes SCOPES rounds, and it waits
// for SIGTERM.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "strobe/trace_me.h"

namespace {

std::atomic<bool> stop{false};

void Train(int thread, double per_second, long scopes, std::atomic<long>& made) {
  pthread_setname_np(pthread_self(), ("trainer-" + std::to_string(thread)).c_str());
  for (long step = 0; step < scopes && !stop; ++step) {
    if (thread == 0 && per_second > 0) {
      strobe::StepTraceMe me("train", step);
      strobe::TraceMe inner([&] {
        return strobe::TraceMeEncode("load",
                                     {{"batch", step}, {"file", "shard.bin"}, {"hit", true}});
      });
      inner.AppendMetadata([] { return strobe::TraceMeEncode("", {{"rows", 128}}); });
      strobe::TraceMe detail("detail", strobe::kVerbose);
      strobe::TraceMe masked("masked", strobe::kInfo, 1u << 4);
      strobe::TraceMeProducer send("send", strobe::TraceMeContext::kThreadpool);
      strobe::TraceMeConsumer take("take", send.id(), strobe::TraceMeContext::kThreadpool);
      made += 6;
    } else {
      strobe::TraceMe me("compute");
      ++made;
    }
    if (per_second > 0) std::this_thread::sleep_for(std::chrono::duration<double>(1 / per_second));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const double per_second = argc > 2 ? std::atof(argv[2]) : 100;
  const long scopes = argc > 3 ? std::atol(argv[3]) : 1'000'000'000;
  std::signal(SIGTERM, [](int) { stop = true; });
  const bool exact = argc > 4;
  std::vector<std::thread> trainers;
  std::vector<std::atomic<long>> made(static_cast<std::size_t>(threads));
  std::printf("ready\n");
  std::fflush(stdout);
  while (exact && !strobe::TraceMe::Active())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int i = 0; i < threads; ++i)
    trainers.emplace_back(Train, i, per_second, scopes,
                          std::ref(made[static_cast<std::size_t>(i)]));
  for (std::thread& trainer : trainers) trainer.join();
  long all = 0;
  for (const auto& one : made) all += one;
  std::printf("made %ld\n", all);
  std::fflush(stdout);
  while (exact && !stop) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return 0;
}
