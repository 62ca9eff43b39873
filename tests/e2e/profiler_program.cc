// profiler_program FILE WHAT: uses strobe/profiler.h as users do. WHAT: all, continuous, errors,
// nan, fork.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "strobe/profiler.h"

namespace profiler = strobe::profiler;
using std::chrono::milliseconds;

namespace {

void Must(const strobe::profiler::Status& status) {
  if (status) return;
  std::fprintf(stderr, "profiler_program: %s\n", status.error.c_str());
  std::exit(1);
}

void UseEverything(const std::string& file) {
  strobe::profiler::Config config;
  config.filename = file;
  config.profile_all = true;
  config.aggregate_stats = true;
  strobe::profiler::Domain domain("training \"quoted\"");
  strobe::profiler::Task load(domain, "load"), skipped(domain, "skipped");
  strobe::profiler::Frame frame(domain, "iteration");
  strobe::profiler::Event event("evaluate");
  strobe::profiler::Counter images(domain, "images", 5);
  strobe::profiler::Marker marker(domain, "epoch");
  Must(strobe::profiler::set_config(config));
  { strobe::profiler::Scope before(skipped); }  // The profiler is not running yet.
  Must(strobe::profiler::set_state("run"));
  for (int i = 0; i < 3; ++i) {
    strobe::profiler::Scope round(frame);
    strobe::profiler::Scope scope(load);
    std::this_thread::sleep_for(milliseconds(2));
    images += 32;
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      strobe::profiler::Task task(domain, "on a thread");
      for (int j = 0; j < 100; ++j) strobe::profiler::Scope scope(task);
    });
  }
  for (std::thread& thread : threads) thread.join();
  images.decrement(6);
  event.start();
  event.stop();
  marker.mark();
  marker.mark(strobe::profiler::MarkerScope::kThread);
  strobe::profiler::pause();
  { strobe::profiler::Scope scope(skipped); }
  marker.mark();
  strobe::profiler::resume();
  Must(strobe::profiler::set_state("stop"));
  { strobe::profiler::Scope scope(skipped); }
  Must(strobe::profiler::dump());
  std::printf("%s---\n", strobe::profiler::dumps().c_str());
  std::printf("%s\n---\n", strobe::profiler::dumps(false, strobe::profiler::Format::kJson).c_str());
  using strobe::profiler::Format, strobe::profiler::SortBy;
  std::printf("%s", strobe::profiler::dumps(true, Format::kTable, SortBy::kCount, true).c_str());
  if (strobe::profiler::dumps().find("load") != std::string::npos)
    std::exit(3);  // dumps(true) resets.
}

void DumpContinuously(const std::string& file) {
  strobe::profiler::Config config;
  config.filename = file;
  config.continuous_dump = true;
  config.dump_period = 0.1;
  Must(strobe::profiler::set_config(config));
  Must(strobe::profiler::set_state("run"));
  strobe::profiler::Domain domain("d");
  strobe::profiler::Task task(domain, "work");
  for (int i = 0; i < 1000; ++i) {
    { strobe::profiler::Scope scope(task); }
    std::this_thread::sleep_for(milliseconds(1));
    if (i == 500) std::printf("half\n"), std::fflush(stdout);
  }
  Must(strobe::profiler::set_state("stop"));
}

void MakeMistakes(const std::string& file) {
  const auto say = [](const strobe::profiler::Status& status) {
    std::printf("%s\n", status.error.c_str());
  };
  strobe::profiler::Config config;
  config.filename = "";
  say(strobe::profiler::set_config(config));
  config.filename = file;
  config.dump_period = 0;
  say(strobe::profiler::set_config(config));
  config.dump_period = 1;
  say(strobe::profiler::set_state("walk"));
  Must(strobe::profiler::set_state("run"));
  say(strobe::profiler::set_config(config));
  Must(strobe::profiler::set_state("stop"));
  config.filename = "/nowhere/profile.json";
  Must(strobe::profiler::set_config(config));
  say(strobe::profiler::dump());
}

void CountWhatIsNoNumber(const std::string& file) {
  strobe::profiler::Config config;
  config.filename = file;
  Must(strobe::profiler::set_config(config));
  Must(strobe::profiler::set_state("run"));
  strobe::profiler::Domain domain("training");
  strobe::profiler::Counter loss(domain, "loss", 1.5);
  loss.set_value(std::nan(""));
  loss.set_value(-HUGE_VAL);
  Must(strobe::profiler::dump());
}

// Threads hold the profiler's locks most of the time while the program forks. Prints how many
// children hung, and how many believed that the profiler still ran.
void ForkWhileThreadsMeasure(const std::string& file) {
  strobe::profiler::Config config;
  config.filename = file;
  config.continuous_dump = true;
  Must(strobe::profiler::set_config(config));
  Must(strobe::profiler::set_state("run"));
  strobe::profiler::Domain domain("training");
  strobe::profiler::Counter images(domain, "images");
  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!ended) images += 1;
    });
  }
  int hung = 0, ran = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      images += 1;
      _exit(strobe::profiler::internal::State::The().recording() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    hung += WIFSIGNALED(status);
    ran += WIFEXITED(status) && WEXITSTATUS(status) == 1;
  }
  ended = true;
  for (std::thread& thread : threads) thread.join();
  Must(strobe::profiler::set_state("stop"));
  std::printf("%d hung, %d ran\n", hung, ran);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (std::strcmp(argv[2], "all") == 0) UseEverything(argv[1]);
  if (std::strcmp(argv[2], "continuous") == 0) DumpContinuously(argv[1]);
  if (std::strcmp(argv[2], "errors") == 0) MakeMistakes(argv[1]);
  if (std::strcmp(argv[2], "nan") == 0) CountWhatIsNoNumber(argv[1]);
  if (std::strcmp(argv[2], "fork") == 0) ForkWhileThreadsMeasure(argv[1]);
  return 0;
}
