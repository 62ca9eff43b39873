// An in-process profiler with the interface of MXNet's profiler: it writes chrome://tracing files
// and tables of statistics. Header only, C++17. It works without a sidecar. If a sidecar captures
// the program, tasks, frames, events and marks appear in the trace as annotations. With
// STROBE_WITH_ITT they appear in VTune as well (itt.h).
//
//   namespace profiler = strobe::profiler;
//   profiler::Config config;
//   config.filename = "profile.json";
//   config.aggregate_stats = true;
//   profiler::set_config(config);
//   profiler::set_state("run");
//   profiler::Domain domain("training");
//   profiler::Task load(domain, "load");
//   {
//     profiler::Scope scope(load);
//     ...
//   }
//   profiler::set_state("stop");
//   profiler::dump();
//   std::cout << profiler::dumps();
#pragma once
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "strobe/itt.h"
#include "strobe/trace_me.h"

namespace strobe::profiler {

// The result of a call. `error` is empty on success.
struct Status {
  std::string error{};
  explicit operator bool() const { return error.empty(); }
};

struct Config {
  std::string filename = "profile.json";  // The file that dump writes.
  // Accepted for compatibility and ignored. In MXNet they select operators of its engine. Objects
  // are always measured.
  bool profile_all = false, profile_symbolic = false, profile_imperative = false;
  bool profile_memory = false, profile_api = false;
  bool continuous_dump = false;  // Write the file every dump_period seconds while running.
  double dump_period = 1;        // In seconds, 0.1 to 3600.
  bool aggregate_stats = false;  // Collect the statistics that dumps() prints.
};

namespace internal {

using Clock = std::chrono::steady_clock;

inline std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// A small number per thread, in the order in which threads first measure something.
inline int ThreadNumber() {
  static std::atomic<int> last{0};
  thread_local const int number = ++last;
  return number;
}

inline std::string JsonText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      out += escaped;
    } else {
      out.push_back(c);
    }
  }
  return out + '"';
}

struct Measured {
  char kind;  // The phase in chrome://tracing: X (duration), C (counter) or i (instant).
  MarkerScope scope;
  int thread;
  std::string category, name;
  std::int64_t begin_ns, length_ns;
  double value;
};

struct Total {
  std::uint64_t count = 0;
  std::int64_t sum_ns = 0, min_ns = 0, max_ns = 0;
};

// The state of the profiler, shared by the functions below.
class State {
 public:
  // Events beyond this number are counted, but left out of the file.
  static constexpr std::size_t kMaxEvents = 1'000'000;

  static State& The() {
    static State& state = *[] {
      auto* made = new State;  // Never destroyed: objects may measure until the process ends.
      pthread_atfork(nullptr, nullptr, [] { The().StopAtOnce(); });
      return made;
    }();
    return state;
  }

  // The lock of an object at this address. It is here, and not in the object, so that a forked
  // child gets new ones. There are several, so that few objects share one.
  std::mutex& LockOf(const void* object) {
    return locks_[reinterpret_cast<std::uintptr_t>(object) / 64 % locks_.size()];
  }

  bool recording() const { return recording_.load(std::memory_order_relaxed); }

  Status Configure(Config config) {
    if (config.filename.empty()) return {"filename must be the path of a file"};
    if (!(config.dump_period >= 0.1 && config.dump_period <= 3600))
      return {"dump_period must be a number of seconds from 0.1 to 3600"};
    std::lock_guard<std::mutex> lock(mutex_);
    if (running_) return {"the profiler is running; call set_state(\"stop\") before set_config"};
    config_ = std::move(config);
    return {};
  }

  Status SetState(std::string_view state) {
    if (state != "run" && state != "stop")
      return {"state must be run or stop, not " + std::string(state)};
    std::lock_guard<std::mutex> order(changing_);
    std::unique_lock<std::mutex> lock(mutex_);
    if ((state == "run") == running_) return {};
    running_ = state == "run";
    recording_ = running_;
    if (running_) {
      events_.clear();
      totals_.clear();
      dropped_ = 0;
      if (config_.continuous_dump) dumper_ = std::thread([this] { DumpAgainAndAgain(); });
      return {};
    }
    stopped_.notify_all();
    std::thread dumper = std::move(dumper_);
    lock.unlock();
    if (!dumper.joinable()) return {};
    dumper.join();
    return Write();
  }

  void SetPaused(bool paused) {
    std::lock_guard<std::mutex> lock(mutex_);
    recording_ = running_ && !paused;
  }

  void Add(Measured measured) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (measured.kind == 'X' && config_.aggregate_stats) {
      Total& total = totals_[measured.name];
      const std::int64_t length = measured.length_ns;
      total.min_ns = total.count == 0 ? length : std::min(total.min_ns, length);
      total.max_ns = std::max(total.max_ns, length);
      total.sum_ns += length;
      ++total.count;
    }
    if (events_.size() < kMaxEvents)
      events_.push_back(std::move(measured));
    else
      ++dropped_;
  }

  // Writes a temporary file and renames it, so that readers never see a partial file.
  Status Write() {
    std::lock_guard<std::mutex> one(writing_);
    std::vector<Measured> events;
    std::string filename;
    std::uint64_t dropped = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      events = events_;
      filename = config_.filename;
      dropped = dropped_;
    }
    const std::string hidden = filename + ".partial";
    std::ofstream file(hidden);
    file << "{\"traceEvents\":[";
    const char* separator = "\n";
    const auto pid = static_cast<long>(getpid());
    for (const Measured& event : events) {
      char numbers[160];
      file << separator << "{\"ph\":\"" << event.kind << "\",\"name\":" << JsonText(event.name)
           << ",\"cat\":" << JsonText(event.category);
      std::snprintf(numbers, sizeof numbers, ",\"pid\":%ld,\"tid\":%d,\"ts\":%.3f", pid,
                    event.thread, static_cast<double>(event.begin_ns) / 1e3);
      file << numbers;
      if (event.kind == 'X') {
        std::snprintf(numbers, sizeof numbers, ",\"dur\":%.3f",
                      static_cast<double>(event.length_ns) / 1e3);
        file << numbers;
      } else if (event.kind == 'C') {
        std::snprintf(numbers, sizeof numbers, "%.17g", event.value);
        // JSON knows neither NaN nor infinity: readers would refuse the whole file.
        file << ",\"args\":{" << JsonText(event.name) << ':'
             << (std::isfinite(event.value) ? numbers : "null") << '}';
      } else {
        constexpr char kScopes[] = {'p', 't', 'g', 't', 't'};
        file << ",\"s\":\"" << kScopes[static_cast<int>(event.scope)] << '"';
      }
      file << '}';
      separator = ",\n";
    }
    file << "\n],\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_events\":" << dropped
         << "}}\n";
    file.close();
    if (!file || std::rename(hidden.c_str(), filename.c_str()) != 0)
      return {"cannot write " + filename};
    return {};
  }

  std::vector<std::pair<std::string, Total>> Totals(bool reset, std::uint64_t& dropped) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::pair<std::string, Total>> rows(totals_.begin(), totals_.end());
    dropped = dropped_;
    if (reset) totals_.clear();
    return rows;
  }

 private:
  State() = default;

  // For a forked child. The threads that may have held locks, or have been changing members, are
  // not in it. The members are not destroyed, because they may be incomplete.
  void StopAtOnce() {
    Config config = config_;
    new (this) State;
    config_ = std::move(config);
  }

  void DumpAgainAndAgain() {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::chrono::duration<double> period(config_.dump_period);
    while (!stopped_.wait_for(lock, period, [this] { return !running_; })) {
      lock.unlock();
      Write();  // A full disk does not stop the profiler; the last dump reports the error.
      lock.lock();
    }
  }

  std::array<std::mutex, 16> locks_;  // See LockOf.
  std::mutex changing_;               // Serializes calls of set_state.
  std::mutex writing_;                // Serializes writes of the file.
  std::mutex mutex_;                  // Guards the members below.
  std::condition_variable stopped_;
  Config config_;
  bool running_ = false;
  std::atomic<bool> recording_{false};
  std::thread dumper_;
  std::vector<Measured> events_;
  std::map<std::string, Total> totals_;
  std::uint64_t dropped_ = 0;
};

}  // namespace internal

// Sets the configuration. Fails while the profiler runs.
inline Status set_config(Config config) {
  return internal::State::The().Configure(std::move(config));
}

// Starts ("run") or stops ("stop") measuring. Starting forgets what was measured before; stopping
// writes the file when continuous_dump is on. In a forked child it is stopped.
inline Status set_state(std::string_view state) { return internal::State::The().SetState(state); }

// Stops measuring until resume().
inline void pause() {
  itt::Pause();
  internal::State::The().SetPaused(true);
}
inline void resume() {
  itt::Resume();
  internal::State::The().SetPaused(false);
}

// Writes the measurements to the file, for chrome://tracing and Perfetto. If `finished` is true,
// stops the profiler first.
inline Status dump(bool finished = true) {
  if (finished) {
    if (Status status = set_state("stop"); !status) return status;
  }
  return internal::State::The().Write();
}

enum class SortBy { kTotal, kAverage, kMin, kMax, kCount };
enum class Format { kTable, kJson };

// Returns the aggregate statistics, in milliseconds. They are collected while aggregate_stats is
// on. `reset` clears them afterwards.
inline std::string dumps(bool reset = false, Format format = Format::kTable,
                         SortBy sort_by = SortBy::kTotal, bool ascending = false) {
  std::uint64_t dropped = 0;
  auto rows = internal::State::The().Totals(reset, dropped);
  const auto key = [&](const internal::Total& total) -> double {
    switch (sort_by) {
      case SortBy::kAverage:
        return static_cast<double>(total.sum_ns) / static_cast<double>(total.count);
      case SortBy::kMin:
        return static_cast<double>(total.min_ns);
      case SortBy::kMax:
        return static_cast<double>(total.max_ns);
      case SortBy::kCount:
        return static_cast<double>(total.count);
      case SortBy::kTotal:
        break;
    }
    return static_cast<double>(total.sum_ns);
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return ascending ? key(a.second) < key(b.second) : key(a.second) > key(b.second);
  });
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  const auto average = [&](const internal::Total& total) {
    return ms(total.sum_ns) / static_cast<double>(total.count);
  };
  char numbers[200];
  if (format == Format::kJson) {
    std::string out =
        "{\"unit\": \"ms\", \"dropped_events\": " + std::to_string(dropped) + ", \"time\": {";
    const char* separator = "";
    for (const auto& [name, total] : rows) {
      std::snprintf(
          numbers, sizeof numbers,
          ": {\"count\": %llu, \"total\": %.6f, \"min\": %.6f, \"max\": %.6f, \"avg\": %.6f}",
          static_cast<unsigned long long>(total.count), ms(total.sum_ns), ms(total.min_ns),
          ms(total.max_ns), average(total));
      out += separator + internal::JsonText(name) + numbers;
      separator = ", ";
    }
    return out + "}}";
  }
  std::size_t width = 4;
  for (const auto& [name, total] : rows) width = std::max(width, name.size());
  const auto padded = [&](std::string name) {
    name.resize(width, ' ');
    return name;
  };
  std::snprintf(numbers, sizeof numbers, "  %11s  %12s  %13s  %13s  %13s\n", "Total Count",
                "Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)");
  std::string out = "Profile Statistics\n" + padded("Name") + numbers;
  for (const auto& [name, total] : rows) {
    std::snprintf(numbers, sizeof numbers, "  %11llu  %12.4f  %13.4f  %13.4f  %13.4f\n",
                  static_cast<unsigned long long>(total.count), ms(total.sum_ns), ms(total.min_ns),
                  ms(total.max_ns), average(total));
    out += padded(name) + numbers;
  }
  if (dropped > 0)
    out += std::to_string(dropped) +
           " events did not fit into memory and are missing from the file, not from this table\n";
  return out;
}

// A name that groups objects. It must outlive them.
class Domain {
 public:
  explicit Domain(std::string name) : name_(std::move(name)), itt_(name_) {}
  const std::string& name() const { return name_; }
  const itt::Domain& itt() const { return itt_; }

 private:
  const std::string name_;
  const itt::Domain itt_;
};

// Measures from start() to stop() on one thread. Reusable.
class Duration {
 public:
  void start() {
    traced_ = TraceMe::ActivityStart();
    begin_ns_ = internal::State::The().recording() ? internal::NowNs() : 0;
    Begin();
  }
  void stop() {
    End();
    TraceMe::ActivityEnd(traced_, name_);
    internal::State& state = internal::State::The();
    if (begin_ns_ != 0 && state.recording()) {
      state.Add({'X', MarkerScope::kProcess, internal::ThreadNumber(), category_, name_, begin_ns_,
                 internal::NowNs() - begin_ns_, 0});
    }
    traced_ = 0;
    begin_ns_ = 0;
  }
  const std::string& name() const { return name_; }
  Duration(const Duration&) = delete;
  Duration& operator=(const Duration&) = delete;

 protected:
  Duration(std::string category, std::string name)
      : category_(std::move(category)), name_(std::move(name)) {}
  virtual ~Duration() = default;
  virtual void Begin() = 0;
  virtual void End() = 0;

 private:
  const std::string category_, name_;
  std::uint64_t traced_ = 0;
  std::int64_t begin_ns_ = 0;
};

// Starts a Duration and stops it at the end of the C++ scope.
class Scope {
 public:
  explicit Scope(Duration& duration) : duration_(duration) { duration_.start(); }
  ~Scope() { duration_.stop(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Duration& duration_;
};

// A piece of work that belongs to a domain.
class Task final : public Duration {
 public:
  Task(const Domain& domain, const std::string& name)
      : Duration(domain.name(), name), domain_(domain), itt_(name) {}

 private:
  void Begin() override { itt::BeginTask(domain_.itt(), itt_); }
  void End() override { itt::EndTask(domain_.itt()); }
  const Domain& domain_;
  const itt::Name itt_;
};

// One round of repeated work, such as an iteration.
class Frame final : public Duration {
 public:
  Frame(const Domain& domain, const std::string& name)
      : Duration(domain.name(), name), domain_(domain) {}

 private:
  void Begin() override { itt::BeginFrame(domain_.itt()); }
  void End() override { itt::EndFrame(domain_.itt()); }
  const Domain& domain_;
};

// A piece of work without a domain.
class Event final : public Duration {
 public:
  explicit Event(const std::string& name) : Duration("event", name), itt_(name) {}

 private:
  void Begin() override { itt_.Begin(); }
  void End() override { itt_.End(); }
  const itt::Event itt_;
};

// A value over time. Safe for concurrent use. The file has null for NaN and infinity.
class Counter {
 public:
  Counter(const Domain& domain, std::string name, double value = 0)
      : domain_(domain), name_(std::move(name)), itt_(domain.name(), name_) {
    set_value(value);
  }
  void set_value(double value) {
    std::lock_guard<std::mutex> lock(Lock());
    Set(value);
  }
  void increment(double delta = 1) {
    std::lock_guard<std::mutex> lock(Lock());
    Set(value_ + delta);
  }
  void decrement(double delta = 1) { increment(-delta); }
  Counter& operator+=(double delta) {
    increment(delta);
    return *this;
  }
  Counter& operator-=(double delta) {
    decrement(delta);
    return *this;
  }
  double value() const {
    std::lock_guard<std::mutex> lock(Lock());
    return value_;
  }

 private:
  std::mutex& Lock() const { return internal::State::The().LockOf(this); }
  void Set(double value) {
    value_ = value;
    itt_.Set(value);
    internal::State& state = internal::State::The();
    if (!state.recording()) return;
    state.Add({'C', MarkerScope::kProcess, internal::ThreadNumber(), domain_.name(), name_,
               internal::NowNs(), 0, value});
  }

  const Domain& domain_;
  const std::string name_;
  const itt::Counter itt_;
  double value_ = 0;
};

// A point in time.
class Marker {
 public:
  Marker(const Domain& domain, std::string name)
      : domain_(domain), name_(std::move(name)), itt_(name_) {}
  // `scope` is the extent of the marker in the viewer.
  void mark(MarkerScope scope = MarkerScope::kProcess) const {
    TraceMe::InstantActivity(name_);
    itt::Mark(domain_.itt(), itt_, scope);
    internal::State& state = internal::State::The();
    if (!state.recording()) return;
    state.Add(
        {'i', scope, internal::ThreadNumber(), domain_.name(), name_, internal::NowNs(), 0, 0});
  }

 private:
  const Domain& domain_;
  const std::string name_;
  const itt::Name itt_;
};

}  // namespace strobe::profiler
