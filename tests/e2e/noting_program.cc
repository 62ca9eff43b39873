// noting_program NOTES STEPS_PER_SECOND [MODE...]: simulates a trainer that annotates its steps and
// notes each of them, by its own clocks, in the file NOTES. Tests compare a capture's trace with
// the notes.
//
// A line of notes is "PROCESS STEP MONOTONIC_BEGIN MONOTONIC_END WALL_BEGIN WALL_END", times in ns.
// The begin is read before the annotation begins and the end after it has ended. A step that is in
// a window according to its notes is therefore also in it according to its annotation.
//
// Modes: fork=N       forks a child every N ms that notes three steps and leaves by _exit, like the
//                     workers of a data loader; its PROCESS is "child-PID".
//        close        closes all descriptors except its output and notes, as daemons do.
//        daemon       forks; the parent ends and the child trains.
//        exec         after a second, replaces itself by this program without the mode exec.
//        jitter=P     varies the pause between steps by up to P percent.
//        barrier=FILE:RANK:RANKS:N   waits every N steps for the other ranks, which share FILE.
//        rank=NAME    sets its PROCESS; the default is "main".
//        silent       annotates its steps without telling that they are steps.
//        hostile      uses invalid UTF-8 in its thread's name and in some annotations.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strobe/trace_me.h"

namespace {

volatile std::sig_atomic_t stop = 0;

long long Now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

void SleepMs(double ms) {
  timespec left{static_cast<time_t>(ms / 1000),
                static_cast<long>(static_cast<long long>(ms * 1e6) % 1'000'000'000)};
  nanosleep(&left, nullptr);
}

void Annotate(const char* text) { strobe::TraceMe me(text); }

class Notes {
 public:
  // Each line is one write with O_APPEND, so that lines of several processes do not mix.
  explicit Notes(const char* path)
      : file_(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}
  int descriptor() const { return file_; }
  bool hostile = false, silent = false;
  void Step(const std::string& process, long long step) const {
    const long long wall = Now(CLOCK_REALTIME), monotonic = Now(CLOCK_MONOTONIC);
    if (silent) {
      strobe::TraceMe me(process);
      SleepMs(1);
    } else {
      strobe::StepTraceMe me(process, step);
      if (hostile) Annotate("\xff\xfe\xe2\x82#key\xc3=\xed\xa0\x80#");
      SleepMs(1);
    }
    char line[256];
    const int size =
        std::snprintf(line, sizeof line, "%s %lld %lld %lld %lld %lld\n", process.c_str(), step,
                      monotonic, Now(CLOCK_MONOTONIC), wall, Now(CLOCK_REALTIME));
    if (write(file_, line, static_cast<std::size_t>(size)) != size) std::abort();
  }

 private:
  const int file_;
};

// Waits for other processes, as collectives do.
class Barrier {
 public:
  explicit Barrier(const std::string& mode) {
    char path[512];
    if (std::sscanf(mode.c_str(), "%511[^:]:%d:%d:%lld", path, &rank_, &ranks_, &every_) != 4)
      std::abort();
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    const std::size_t size = static_cast<std::size_t>(ranks_) * sizeof(std::atomic<long long>);
    if (ftruncate(file, static_cast<off_t>(size)) != 0) std::abort();
    steps_ = static_cast<std::atomic<long long>*>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    if (steps_ == MAP_FAILED) std::abort();
  }
  void Wait(long long step) {
    if (step % every_ != 0) return;
    steps_[rank_] = step;
    for (int i = 0; i < ranks_; ++i) {
      while (steps_[i] < step && stop == 0) SleepMs(0.1);
    }
  }

 private:
  int rank_ = 0, ranks_ = 0;
  long long every_ = 1;
  std::atomic<long long>* steps_ = nullptr;
};

void Child(const Notes& notes) {
  const std::string process = "child-" + std::to_string(getpid());
  for (int step = 0; step < 3; ++step) notes.Step(process, step);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::srand(static_cast<unsigned>(getpid()));
  std::signal(SIGTERM, [](int) { stop = 1; });
  std::signal(SIGCHLD, SIG_IGN);
  std::string process = "main";
  std::optional<Barrier> barrier;
  double fork_every_ms = 0, jitter = 0;
  bool replace = false, daemon = false, close_all = false, hostile = false, silent = false;
  for (int i = 3; i < argc; ++i) {
    const std::string_view mode = argv[i];
    if (mode.rfind("fork=", 0) == 0) fork_every_ms = std::atof(argv[i] + 5);
    if (mode.rfind("jitter=", 0) == 0) jitter = std::atof(argv[i] + 7) / 100;
    if (mode.rfind("barrier=", 0) == 0) barrier.emplace(argv[i] + 8);
    if (mode.rfind("rank=", 0) == 0) process = argv[i] + 5;
    replace = replace || mode == "exec";
    daemon = daemon || mode == "daemon";
    close_all = close_all || mode == "close";
    hostile = hostile || mode == "hostile";
    silent = silent || mode == "silent";
  }
  Notes notes(argv[1]);
  notes.hostile = hostile;
  notes.silent = silent;
  if (hostile) prctl(PR_SET_NAME, "\xe2\x82 \xff\n\x1b[31m");
  if (daemon && fork() != 0) _exit(0);
  if (close_all) {
    for (int fd = 3; fd < 1024; ++fd) {
      if (fd != notes.descriptor()) close(fd);
    }
  }
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  const double pause_ms = 1000 / std::atof(argv[2]) - 1;
  const long long began = Now(CLOCK_MONOTONIC);
  long long forked = began;
  for (long long step = 0; !stop; ++step) {
    if (barrier) barrier->Wait(step);
    notes.Step(process, step);
    const long long now = Now(CLOCK_MONOTONIC);
    if (fork_every_ms > 0 && static_cast<double>(now - forked) > fork_every_ms * 1e6) {
      forked = now;
      if (fork() == 0) Child(notes);
    }
    if (replace && now - began > 1'000'000'000) {
      process += "-again";
      const std::string rank = "rank=" + process;
      execl("/proc/self/exe", argv[0], argv[1], argv[2], rank.c_str(), nullptr);
    }
    const double random = static_cast<double>(std::rand()) / RAND_MAX * 2 - 1;
    if (pause_ms > 0) SleepMs(pause_ms * (1 + jitter * random));
  }
  return 0;
}
