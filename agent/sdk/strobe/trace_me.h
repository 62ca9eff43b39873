// Annotations for C++ programs. Header only; requires C++17 and -ldl and links no Strobe library.
// While no capture runs, or if there is no agent, a scope costs a load and a compare.
//
//   strobe::TraceMe scope("load_batch");
//   strobe::TraceMe scope([&] { return strobe::TraceMeEncode("matmul", {{"m", m}, {"n", n}}); });
//   strobe::StepTraceMe step("train", step_number);   // XProf groups a capture by steps.
//   strobe::TraceMeProducer send("enqueue");          // The viewer draws an arrow from here ...
//   strobe::TraceMeConsumer take("work", send.id());  // ... to here, even on another thread.
#pragma once
#include <dlfcn.h>

#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "strobe/agent_api.h"

namespace strobe {

// A scope is recorded if its level is at most the capture's tracers.host.
enum TraceMeLevel : int { kCritical = 1, kInfo = 2, kVerbose = 3 };

namespace trace_me_internal {

inline const std::uint32_t kOff = 0;
inline const strobe_agent_api kNoAgent = {
    1,
    sizeof(strobe_agent_api),
    &kOff,
    []() -> std::uint64_t { return 0; },
    [](int, std::uint64_t, std::uint64_t, const char*, std::size_t) {},
    &kOff,
    [](const char*, std::size_t) {},
    [](const char*, std::size_t, std::int64_t) -> std::uint64_t { return 0; },
    [](std::uint64_t) {}};

// A process must have only one agent, because CUPTI has only one subscriber. So the agent that
// CUDA's driver loads comes first, and the pod's, which is the same file in injected pods, before
// others.
inline const strobe_agent_api* FindAgent() {
  using Get = const strobe_agent_api* (*)();
  auto* get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "strobe_agent_api_v1"));
  const auto try_open = [&](const std::string& path) {
    if (get != nullptr || path.empty()) return;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      get = reinterpret_cast<Get>(dlsym(library, "strobe_agent_api_v1"));
  };
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string name = "/libstrobe_agent.so", cuda = variable("CUDA_INJECTION64_PATH");
  if (cuda.size() > name.size() && cuda.compare(cuda.size() - name.size(), name.size(), name) == 0)
    try_open(cuda);
  const std::string dir = variable("STROBE_DIR");
  if (!dir.empty()) try_open(dir + "/lib" + name);
  try_open(variable("STROBE_AGENT"));
  if (get == nullptr) return &kNoAgent;
  const strobe_agent_api* found = get();
  return found->version >= 1 ? found : &kNoAgent;
}

// Valid before and after static initialization. The agent is looked up when the program starts.
inline const strobe_agent_api* agent = &kNoAgent;
inline const bool looked = (agent = FindAgent(), true);

}  // namespace trace_me_internal

// A key and its value. Text must not contain '#', and contains commas only within quotes or
// brackets.
class TraceMeArg {
 public:
  template <typename T>
  TraceMeArg(std::string_view key, const T& value) : key_(key) {
    if constexpr (std::is_same_v<T, bool>) {
      size_ = 1;
      digits_[0] = value ? '1' : '0';
    } else if constexpr (std::is_arithmetic_v<T>) {
      size_ = static_cast<std::size_t>(std::to_chars(digits_, digits_ + sizeof digits_, value).ptr -
                                       digits_);
    } else {
      text_ = std::string_view(value);
      is_text_ = true;
    }
  }
  std::string_view key() const { return key_; }
  std::string_view value() const { return is_text_ ? text_ : std::string_view(digits_, size_); }

 private:
  std::string_view key_, text_;
  char digits_[32];
  std::size_t size_ = 0;
  bool is_text_ = false;
};

// Returns "name#key=value,key=value#".
inline std::string TraceMeEncode(std::string_view name, std::initializer_list<TraceMeArg> args) {
  std::size_t size = name.size() + 2;
  for (const TraceMeArg& arg : args) size += arg.key().size() + arg.value().size() + 2;
  std::string text;
  text.reserve(size);
  text.append(name);
  char separator = '#';
  for (const TraceMeArg& arg : args) {
    text.push_back(separator);
    text.append(arg.key()).push_back('=');
    text.append(arg.value());
    separator = ',';
  }
  if (separator == ',') text.push_back('#');
  return text;
}

// A scope of the calling thread, from construction to Stop() or destruction. Do not use it in
// signal handlers; see agent_api.h.
class TraceMe {
 public:
  // True if a capture records scopes of this level. A scope with a mask other than 0 is recorded
  // only if the mask and the capture's filter have a bit in common, so that a capture can select
  // parts of a program.
  static bool Active(int level = kCritical, std::uint32_t mask = 0) {
    return __atomic_load_n(trace_me_internal::agent->control, __ATOMIC_RELAXED) >=
               static_cast<std::uint32_t>(level) &&
           (mask == 0 ||
            (mask & __atomic_load_n(trace_me_internal::agent->filter, __ATOMIC_RELAXED)) != 0);
  }

  // `name` is not copied and must stay valid until the scope ends.
  explicit TraceMe(std::string_view name, int level = kCritical, std::uint32_t mask = 0) {
    if (!Active(level, mask)) return;
    name_ = name;
    Begin(level);
  }
  explicit TraceMe(const char* name, int level = kCritical, std::uint32_t mask = 0)
      : TraceMe(std::string_view(name), level, mask) {}
  // Takes ownership of the name.
  explicit TraceMe(std::string&& name, int level = kCritical, std::uint32_t mask = 0) {
    if (!Active(level, mask)) return;
    Own(std::move(name));
    Begin(level);
  }
  // Calls `generator` for the name only if the scope is recorded.
  template <typename Generator, std::enable_if_t<std::is_invocable_v<Generator>, bool> = true>
  explicit TraceMe(Generator&& generator, int level = kCritical, std::uint32_t mask = 0) {
    if (!Active(level, mask)) return;
    Own(std::forward<Generator>(generator)());
    Begin(level);
  }
  ~TraceMe() { Stop(); }
  TraceMe(const TraceMe&) = delete;
  TraceMe& operator=(const TraceMe&) = delete;

  // Adds metadata that was not known at the start. `generator` returns TraceMeEncode("", {...}).
  template <typename Generator>
  void AppendMetadata(Generator&& generator) {
    if (begin_ == 0) return;
    const std::string more = std::forward<Generator>(generator)();
    if (more.size() < 3) return;
    if (!owned_) Own(std::string(name_));
    if (!text_.empty() && text_.back() == '#') {
      text_.back() = ',';
      text_.append(more, 1);
    } else {
      text_.append(more);
    }
  }

  void Stop() {
    if (begin_ == 0) return;
    const strobe_agent_api& agent = *trace_me_internal::agent;
    const std::string_view name = owned_ ? std::string_view(text_) : name_;
    agent.scope(level_, begin_, agent.now(), name.data(), name.size());
    begin_ = 0;
    if (owned_) text_.~basic_string();
    owned_ = false;
  }

  // For scopes that do not nest. Pass the result of ActivityStart to ActivityEnd on the same
  // thread.
  static std::uint64_t ActivityStart(int level = kCritical) {
    return Active(level) ? trace_me_internal::agent->now() : 0;
  }
  static void ActivityEnd(std::uint64_t started, std::string_view name, int level = kCritical) {
    if (started == 0) return;
    const strobe_agent_api& agent = *trace_me_internal::agent;
    agent.scope(level, started, agent.now(), name.data(), name.size());
  }
  static void InstantActivity(std::string_view name, int level = kCritical) {
    if (!Active(level)) return;
    const strobe_agent_api& agent = *trace_me_internal::agent;
    const std::uint64_t now = agent.now();
    agent.scope(level, now, now, name.data(), name.size());
  }

 private:
  void Begin(int level) {
    level_ = level;
    begin_ = trace_me_internal::agent->now();
  }
  void Own(std::string name) {
    new (&text_) std::string(std::move(name));
    owned_ = true;
  }

  std::uint64_t begin_ = 0;  // In ticks; 0 if the scope is not recorded.
  bool owned_ = false;       // The name is in text_; otherwise in name_.
  int level_;
  union {
    std::string_view name_;
  };
  union {
    std::string text_;
  };
};

namespace trace_me_internal {

// Tells when a step begins and ends, whether or not a capture runs.
class ReportedStep {
 public:
  ReportedStep(std::string_view loop, std::int64_t number) {
    constexpr std::size_t kSize = offsetof(strobe_agent_api, end_step) + sizeof agent->end_step;
    if (agent->size >= kSize) reported_ = agent->begin_step(loop.data(), loop.size(), number);
  }
  ~ReportedStep() {
    if (reported_ != 0) agent->end_step(reported_);
  }
  ReportedStep(const ReportedStep&) = delete;
  ReportedStep& operator=(const ReportedStep&) = delete;

 private:
  std::uint64_t reported_ = 0;
};

}  // namespace trace_me_internal

// A training step. XProf's step views need these annotations, and captures can begin at a step.
// While no capture runs, a step costs two readings of a clock. The order of the bases matters:
// TraceMe is destroyed first, so that the step's record is complete before its end is told.
class StepTraceMe : private trace_me_internal::ReportedStep, public TraceMe {
 public:
  explicit StepTraceMe(std::string_view name, std::int64_t step)
      : ReportedStep(name, step), TraceMe([&] {
          return TraceMeEncode(name, {{"_r", 1}, {"step_num", step}});
        }) {}
};

// The kind of hand-over that an arrow shows. The numbers are those of XProf.
enum class TraceMeContext : int {
  kGeneric = 0,
  kExecutor = 2,
  kBatch = 4,
  kRuntime = 5,
  kLaunch = 9,
  kThreadpool = 15
};

// Marks the place where work is handed over, such as a queue's push. Pass its id along with the
// work.
class TraceMeProducer : public TraceMe {
 public:
  explicit TraceMeProducer(std::string_view name, TraceMeContext type = TraceMeContext::kGeneric,
                           int level = kInfo)
      : TraceMeProducer(name, Active(level) ? NewId() : 0, type, level) {}
  std::uint64_t id() const { return id_; }

 private:
  TraceMeProducer(std::string_view name, std::uint64_t id, TraceMeContext type, int level)
      : TraceMe(
            [&] {
              return TraceMeEncode(name, {{"_pt", static_cast<int>(type)}, {"_p", id}});
            },
            level),
        id_(id) {}
  // Unique within the process. It starts at the current time, so that ids of other processes most
  // likely differ.
  static std::uint64_t NewId() {
    // The top bit is clear, because XProf reads a signed number.
    static std::atomic<std::uint64_t> last{trace_me_internal::agent->now() << 20 >> 1 | 1};
    return last.fetch_add(1, std::memory_order_relaxed);
  }

  const std::uint64_t id_;
};

// Marks the place where the work is done. There is no arrow if the producer was not recorded (id
// 0).
class TraceMeConsumer : public TraceMe {
 public:
  TraceMeConsumer(std::string_view name, std::uint64_t id,
                  TraceMeContext type = TraceMeContext::kGeneric, int level = kInfo)
      : TraceMe(
            [&] {
              return id == 0 ? std::string(name)
                             : TraceMeEncode(name, {{"_ct", static_cast<int>(type)}, {"_c", id}});
            },
            level) {}
};

}  // namespace strobe
