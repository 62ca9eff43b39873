// Forwards the profiler's objects to VTune through Intel's ITT interface. Requires STROBE_WITH_ITT
// to be defined and ittnotify to be linked; otherwise the functions do nothing. Only profiler.h
// uses this file.
#pragma once
#ifdef STROBE_WITH_ITT
#include <ittnotify.h>
#endif

#include <cstdint>
#include <string>

namespace strobe::profiler {

// MXNet's five scopes. Chrome's format has three; kTask and kMarker reach as far as a thread there.
enum class MarkerScope { kProcess, kThread, kGlobal, kTask, kMarker };

namespace itt {

#ifdef STROBE_WITH_ITT

class Domain {
 public:
  explicit Domain(const std::string& name) : domain_(__itt_domain_create(name.c_str())) {}
  __itt_domain* get() const { return domain_; }

 private:
  __itt_domain* const domain_;
};

class Name {
 public:
  explicit Name(const std::string& name) : handle_(__itt_string_handle_create(name.c_str())) {}
  __itt_string_handle* get() const { return handle_; }

 private:
  __itt_string_handle* const handle_;
};

class Event {
 public:
  explicit Event(const std::string& name)
      : event_(__itt_event_create(name.c_str(), static_cast<int>(name.size()))) {}
  void Begin() const { __itt_event_start(event_); }
  void End() const { __itt_event_end(event_); }

 private:
  const __itt_event event_;
};

class Counter {
 public:
  Counter(const std::string& domain, const std::string& name)
      : counter_(__itt_counter_create_typed(name.c_str(), domain.c_str(), __itt_metadata_double)) {}
  void Set(double value) const { __itt_counter_set_value(counter_, &value); }

 private:
  const __itt_counter counter_;
};

inline void BeginTask(const Domain& domain, const Name& name) {
  __itt_task_begin(domain.get(), __itt_null, __itt_null, name.get());
}
inline void EndTask(const Domain& domain) { __itt_task_end(domain.get()); }
inline void BeginFrame(const Domain& domain) { __itt_frame_begin_v3(domain.get(), nullptr); }
inline void EndFrame(const Domain& domain) { __itt_frame_end_v3(domain.get(), nullptr); }
inline void Mark(const Domain& domain, const Name& name, MarkerScope scope) {
  __itt_scope reach = __itt_scope_track_group;  // The process.
  if (scope == MarkerScope::kGlobal) reach = __itt_scope_global;
  if (scope == MarkerScope::kThread) reach = __itt_scope_track;
  if (scope == MarkerScope::kTask) reach = __itt_scope_task;
  if (scope == MarkerScope::kMarker) reach = __itt_scope_marker;
  __itt_marker(domain.get(), __itt_null, name.get(), reach);
}
inline void Pause() { __itt_pause(); }
inline void Resume() { __itt_resume(); }

#else

struct Domain {
  explicit Domain(const std::string&) {}
};
struct Name {
  explicit Name(const std::string&) {}
};
struct Event {
  explicit Event(const std::string&) {}
  void Begin() const {}
  void End() const {}
};
struct Counter {
  Counter(const std::string&, const std::string&) {}
  void Set(double) const {}
};
inline void BeginTask(const Domain&, const Name&) {}
inline void EndTask(const Domain&) {}
inline void BeginFrame(const Domain&) {}
inline void EndFrame(const Domain&) {}
inline void Mark(const Domain&, const Name&, MarkerScope) {}
inline void Pause() {}
inline void Resume() {}

#endif

}  // namespace itt
}  // namespace strobe::profiler
