// The plugin that the process would have without Strobe. It gets exactly the events that it would
// get alone: of those that the library sends, the ones that it asks for and their parents. Its
// handles are handed to the library as they are, so that no parent needs to be translated.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "agent/nccl/interface.h"

namespace strobe::nccl {

// A library that may hold the plugin.
struct PluginCandidate {
  std::string library{};     // Empty for the program itself.
  bool loaded_only = false;  // It is taken only if it is loaded already.
};

// A communicator, as the library tells it.
struct ChainedCommunicator {
  std::uint64_t id = 0;
  const char* name = nullptr;
  int nodes = 0, ranks = 0, rank = 0;
  Logger logger = nullptr;
};

class Chain {
 public:
  // Looks for the plugin. It is called by the library through the version `interface` of Strobe's,
  // and would take the newest of the other's that is not newer. Call it once.
  void Find(int interface);
  // The version of the other plugin's interface; 0 if there is none.
  int version() const { return version_; }
  // What the other asks for now.
  int mask() const;

  // False if the other failed; it then gets nothing of this communicator.
  bool Init(void** context, const ChainedCommunicator& communicator);
  // True if the library would send it an event of this type, were it alone. `marked`: the event's
  // parent was started while the other asked for the times of channels.
  bool Wants(std::uint64_t type, bool marked) const;
  int Start(void* context, void** handle, const EventV5& event);
  int Stop(void* handle);
  int State(void* handle, int state, StateDetails* details);
  int Finish(void* context);

 private:
  bool Take(void* library, int interface);

  int version_ = 0;
  int mask_ = 0;  // The other plugin writes it.
  PluginV5* newer_ = nullptr;
  PluginV4* older_ = nullptr;
};

// In the order in which NCCL itself tries them. `named` and `net` are what the pod set in
// NCCL_PROFILER_PLUGIN and in NCCL_NET_PLUGIN; null or empty if it set nothing. Pure.
std::vector<PluginCandidate> PluginCandidates(const char* named, const char* net);

// The event as version 4 has it.
EventV4 AsVersion4(const EventV5& event);

}  // namespace strobe::nccl
