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

void Must(const profiler::Status& status) {
  if (status) return;
  std::fprintf(stderr, "profiler_program: %s\n", status.error.c_str());
  std::exit(1);
}

void UseEverything(const std::string& file) {
  profiler::Config config;
  config.filename = file;
  config.profile_all = true;
  config.aggregate_stats = true;
  profiler::Domain domain("training \"quoted\"");
  profiler::Task load(domain, "load"), skipped(domain, "skipped");
  profiler::Frame frame(domain, "iteration");
  profiler::Event event("evaluate");
  profiler::Counter images(domain, "images", 5);
  profiler::Marker marker(domain, "epoch");
  Must(profiler::set_config(config));
  { profiler::Scope before(skipped); }  // The profiler is not running yet.
  Must(profiler::set_state("run"));
  for (int i = 0; i < 3; ++i) {
    profiler::Scope round(frame);
    profiler::Scope scope(load);
    std::this_thread::sleep_for(milliseconds(2));
    images += 32;
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      profiler::Task task(domain, "on a thread");
      for (int j = 0; j < 100; ++j) profiler::Scope scope(task);
    });
  }
  for (std::thread& thread : threads) thread.join();
  images.decrement(6);
  event.start();
  event.stop();
  marker.mark();
  marker.mark(profiler::MarkerScope::kThread);
  profiler::pause();
  { profiler::Scope scope(skipped); }
  marker.mark();
  profiler::resume();
  Must(profiler::set_state("stop"));
  { profiler::Scope scope(skipped); }
  Must(profiler::dump());
  std::printf("%s---\n", profiler::dumps().c_str());
  std::printf("%s\n---\n", profiler::dumps(false, profiler::Format::kJson).c_str());
  using profiler::Format, profiler::SortBy;
  std::printf("%s", profiler::dumps(true, Format::kTable, SortBy::kCount, true).c_str());
  if (profiler::dumps().find("load") != std::string::npos) std::exit(3);  // dumps(true) resets.
}

void DumpContinuously(const std::string& file) {
  profiler::Config config;
  config.filename = file;
  config.continuous_dump = true;
  config.dump_period = 0.1;
  Must(profiler::set_config(config));
  Must(profiler::set_state("run"));
  profiler::Domain domain("d");
  profiler::Task task(domain, "work");
  for (int i = 0; i < 1000; ++i) {
    { profiler::Scope scope(task); }
    std::this_thread::sleep_for(milliseconds(1));
    if (i == 500) std::printf("half\n"), std::fflush(stdout);
  }
  Must(profiler::set_state("stop"));
}

void MakeMistakes(const std::string& file) {
  const auto say = [](const profiler::Status& status) {
    std::printf("%s\n", status.error.c_str());
  };
  profiler::Config config;
  config.filename = "";
  say(profiler::set_config(config));
  config.filename = file;
  config.dump_period = 0;
  say(profiler::set_config(config));
  config.dump_period = 1;
  say(profiler::set_state("walk"));
  Must(profiler::set_state("run"));
  say(profiler::set_config(config));
  Must(profiler::set_state("stop"));
  config.filename = "/nowhere/profile.json";
  Must(profiler::set_config(config));
  say(profiler::dump());
}

void CountWhatIsNoNumber(const std::string& file) {
  profiler::Config config;
  config.filename = file;
  Must(profiler::set_config(config));
  Must(profiler::set_state("run"));
  profiler::Domain domain("training");
  profiler::Counter loss(domain, "loss", 1.5);
  loss.set_value(std::nan(""));
  loss.set_value(-HUGE_VAL);
  Must(profiler::dump());
}

// Threads hold the profiler's locks most of the time while the program forks. Prints how many
// children hung, and how many believed that the profiler still ran.
void ForkWhileThreadsMeasure(const std::string& file) {
  profiler::Config config;
  config.filename = file;
  config.continuous_dump = true;
  Must(profiler::set_config(config));
  Must(profiler::set_state("run"));
  profiler::Domain domain("training");
  profiler::Counter images(domain, "images");
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
  Must(profiler::set_state("stop"));
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
