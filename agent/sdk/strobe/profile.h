// Records this program into a logdir while an object lives. Header only; requires POSIX, C++17,
// -ldl, and the programs `strobe` and `strobe-sidecar`.
//
//   int main() {
//     strobe::Profile profile("logdir");  // Before other threads begin.
//     train();
//     if (!profile.Stop()) std::fprintf(stderr, "%s\n", profile.error().c_str());
//   }
#pragma once
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "strobe/trace_me.h"

extern char** environ;

namespace strobe {

struct ProfileOptions {
  int host_tracer_level = 2;  // Annotations: 0 none, 1 critical, 2 info, 3 verbose.
  // 0 records no activity of GPUs, 1 launches and kernels, 2 only kernels, 4 CUDA graphs as a
  // whole, and 5 all that CUPTI tells.
  int device_tracer_level = 1;
  std::string run{};  // Name of the run in the logdir; empty: <time>_capture_<digits>.
  // host:port of a profiler server in this program, to record from it as well.
  std::string framework{};
  // The folder of `strobe`, `strobe-sidecar` and libstrobe_agent.so. If empty, the programs are
  // looked up in $PATH, and the agent is looked up as in trace_me.h.
  std::string programs{};
};

namespace profile_internal {

// A child process whose output goes to a temporary file.
class Child {
 public:
  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (output_ >= 0) close(output_);
  }

  bool Start(std::vector<std::string> command) {
    char name[] = "/tmp/strobe-profile-XXXXXX";
    output_ = mkostemp(name, O_CLOEXEC);
    if (output_ < 0) return false;
    unlink(name);
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output_, 1);
    posix_spawn_file_actions_adddup2(&files, output_, 2);
    // A process group of its own, so that Ctrl-C reaches only this program.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const int error =
        posix_spawnp(&pid_, arguments[0], &files, &attributes, arguments.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) pid_ = -1;
    errno = error;
    return error == 0;
  }
  // Returns what the child has printed so far, at most the first megabyte.
  std::string Output() const {
    std::string text;
    char some[4096];
    for (ssize_t got = 0;
         text.size() < 1 << 20 &&
         (got = pread(output_, some, sizeof some, static_cast<off_t>(text.size()))) > 0;)
      text.append(some, static_cast<std::size_t>(got));
    return text;
  }
  // Waits until the child has printed the text. Returns false if the child ends or the time is over
  // before that.
  bool AwaitOutput(const char* text, std::chrono::seconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    for (;;) {
      const bool ended = !Running();
      if (Output().find(text) != std::string::npos) return true;
      if (ended || std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  bool Running() {
    if (pid_ <= 0) return false;
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == 0) return true;
    OnExit(ended == pid_ ? status : -1);
    return false;
  }
  void Signal(int number) {
    if (Running()) kill(pid_, number);
  }
  // Waits for its end and returns the exit code; -1 if it is not known.
  int Wait() {
    while (pid_ > 0) {
      int status = 0;
      const pid_t ended = waitpid(pid_, &status, 0);
      if (ended < 0 && errno == EINTR) continue;
      OnExit(ended == pid_ ? status : -1);
    }
    return code_;
  }

 private:
  void OnExit(int status) {
    pid_ = -1;
    code_ = status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  pid_t pid_ = -1;
  int output_ = -1, code_ = -1;
};

inline std::string LastLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace profile_internal

class Profile {
 public:
  // Starts to record, and returns when recording has begun or has failed; see recording() and
  // error(). `logdir` is a path or a URL (s3, gs, az). If $STROBE_DIR is not set, this sets it and
  // looks for the agent again; meanwhile no other thread may use the environment or annotations. A
  // recording ends by itself after ten minutes.
  explicit Profile(const std::string& logdir, const ProfileOptions& options = {}) {
    PrepareAgent(options);
    const std::string folder = options.programs.empty() ? "" : options.programs + "/";
    if (!StartSidecar(folder, options)) return;
    std::vector<std::string> command = {folder + "strobe",
                                        "capture",
                                        "--insecure-plaintext",
                                        "--workers",
                                        address_,
                                        "--logdir",
                                        logdir,
                                        "--duration",
                                        "10m",
                                        "--attempts",
                                        "1",
                                        "--progress",
                                        "json",
                                        "--host-tracer-level",
                                        std::to_string(options.host_tracer_level),
                                        "--device-tracer-level",
                                        std::to_string(options.device_tracer_level)};
    if (!options.run.empty()) command.insert(command.end(), {"--run", options.run});
    if (!capture_.Start(std::move(command))) {
      error_ = "cannot start " + folder + "strobe: " + std::strerror(errno);
      return;
    }
    recording_ = capture_.AwaitOutput("\"phase\":\"record\"", std::chrono::seconds(60));
    if (!recording_) error_ = profile_internal::LastLine(capture_.Output());
  }
  ~Profile() {
    Stop();
    sidecar_.Signal(SIGTERM);
    sidecar_.Wait();
    if (!own_directory_.empty()) RemoveOwnDirectory();
  }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  bool recording() const { return recording_; }
  // Why nothing was recorded, or why the trace was not saved. Empty on success.
  const std::string& error() const { return error_; }
  // Ends the recording and waits until the trace is in the logdir. True if it is there and
  // complete.
  bool Stop() {
    if (!recording_) {
      capture_.Signal(SIGTERM);
      capture_.Wait();
      return saved_;
    }
    recording_ = false;
    capture_.Signal(SIGINT);
    saved_ = capture_.Wait() == 0;
    if (!saved_) error_ = profile_internal::LastLine(capture_.Output());
    return saved_;
  }

 private:
  void PrepareAgent(const ProfileOptions& options) {
    if (!options.programs.empty())
      setenv("STROBE_AGENT", (options.programs + "/libstrobe_agent.so").c_str(), 0);
    const char* directory = std::getenv("STROBE_DIR");
    if (directory == nullptr || *directory == '\0') {
      char name[64];
      std::snprintf(name, sizeof name, "%s/strobe-XXXXXX",
                    access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
      if (mkdtemp(name) == nullptr) return;
      own_directory_ = name;
      setenv("STROBE_DIR", name, 1);
    }
    trace_me_internal::agent = trace_me_internal::FindAgent();
  }

  bool StartSidecar(const std::string& folder, const ProfileOptions& options) {
    const char* directory = std::getenv("STROBE_DIR");
    if (directory == nullptr) {
      error_ = "there is no directory to share with a sidecar; set STROBE_DIR";
      return false;
    }
    const std::string framework = options.framework.empty() ? "localhost:1" : options.framework;
    if (!sidecar_.Start({folder + "strobe-sidecar", "--listen", "127.0.0.1:0", "--framework",
                         framework, "--agent-dir", std::string(directory) + "/agent",
                         "--insecure-plaintext", "--exit-with-parent", "--agent-only-parent"})) {
      error_ = "cannot start " + folder + "strobe-sidecar: " + std::strerror(errno);
      return false;
    }
    const bool serves = sidecar_.AwaitOutput("strobe-sidecar serves", std::chrono::seconds(10));
    const std::string said = sidecar_.Output();
    const std::size_t port = said.find(" port=");
    if (!serves || port == std::string::npos) {
      error_ = "strobe-sidecar did not start: " + profile_internal::LastLine(said);
      return false;
    }
    address_ = "127.0.0.1:" + std::to_string(std::atoi(said.c_str() + port + 6));
    return true;
  }

  // Removes the shared directory. The agent's ring file in it stays mapped until the program ends.
  void RemoveOwnDirectory() {
    profile_internal::Child remove;
    if (remove.Start({"rm", "-rf", own_directory_})) remove.Wait();
  }

  profile_internal::Child sidecar_, capture_;
  std::string address_, error_, own_directory_;
  bool recording_ = false, saved_ = false;
};

}  // namespace strobe
