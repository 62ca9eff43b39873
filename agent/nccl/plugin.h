// Strobe's profiler plugin for NCCL and RCCL. It records the calls of collectives, sends and
// receives of this process at all times, and the devices' times while a sidecar asks for them. It
// stands in front of the plugin that the process would have without it; see chain.h.
//
// The library calls Begin and Start on the program's threads and Start, State and Stop on its own.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>

#include "agent/nccl/chain.h"
#include "agent/nccl/interface.h"
#include "agent/nccl/links.h"
#include "agent/nccl/recorder.h"
#include "agent/wire/collective_layout.h"

namespace strobe::nccl {

// Which versions of NCCL and RCCL may measure the devices' times. POSIX only.
struct Library {
  wire::CollectiveLibrary kind = wire::CollectiveLibrary::kUnknown;
  int version = 0;  // 22809 is 2.28.9; 0 if it is not known.
};

// The library that has this address, for example that of a function which it passed. Loads nothing.
Library LibraryAt(const void* address);

// What is true of the devices' times with this library, if a pod asks for them. The begins of calls
// are taken with every version: they cost the same in all of them.
wire::DeviceTimes DeviceTimesOf(const Library& library);

// What the process decides about the plugin.
struct PluginSettings {
  std::string path{};         // The file to write; empty to record nothing.
  bool device_times = false;  // The pod allows to measure the devices' times.
};

// One per process. It has no constructor to run, and all its members are zeros at first.
class CollectivePlugin {
 public:
  struct Context;

  // How the library calls the plugin.
  struct Caller {
    int interface = 0;                       // The version of the interface.
    const void* address = nullptr;           // An address in the library.
    PluginSettings (*settings)() = nullptr;  // Asked once, at the first use.
  };
  // Never fails: after a failure, NCCL counts the users of the plugin wrongly.
  int Init(const Caller& caller, void** context, int* mask,
           const ChainedCommunicator& communicator);
  int Start(void* context, void** handle, const EventV5& event);
  int StartVersion4(void* context, void** handle, const EventV4& event);
  int Stop(void* handle);
  int State(void* handle, int state, StateDetails* details);
  int Finish(void* context);
  // For a forked child, in which the library cannot go on.
  void AfterFork();

 private:
  void Begin(const Caller& caller);
  void ApplyMask(const Context& context) const;
  bool WantsDeviceTimes() const;
  // The record of an event; kNoRecord if it has none.
  static constexpr std::uint64_t kNoRecord = ~0ull;
  struct Noted {
    std::uint64_t number = kNoRecord;
    bool marked = false;  // See Chain::Wants.
  };
  Noted Note(const Context& context, const EventV5& event, bool looks_up);
  Noted RecordOf(const void* handle) const;
  bool TheirsIsMarked(const EventV5& event, const Noted& parent) const;
  int StartEvent(const Context& context, void** handle, const EventV5& event, bool looks_up);

  std::mutex beginning_;
  bool has_begun_ = false;
  Recorder recorder_;
  Chain chain_;
  Links links_;
  OwnHandles own_;
};

}  // namespace strobe::nccl
