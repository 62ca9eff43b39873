// What NCCL and RCCL look for in the library that $NCCL_PROFILER_PLUGIN names.
#include <cstdlib>
#include <string_view>

#include "agent/nccl/plugin.h"
#include "agent/recorder/disabled.h"
#include "agent/recorder/own_file.h"

namespace strobe {
namespace {

using nccl::CollectivePlugin;
using nccl::EventV4;
using nccl::EventV5;
using nccl::Logger;
using nccl::StateDetails;

nccl::PluginSettings SettingsOfProcess() {
  if (agent::IsDisabled("collectives")) return {};
  const char* const asked = std::getenv("STROBE_COLLECTIVES");
  const std::string ring = agent::OwnRingPath();
  if (ring.empty()) return {};
  return {.path = wire::CollectivePath(ring),
          .device_times = asked != nullptr && std::string_view(asked) == "times"};
}

constinit CollectivePlugin the_plugin;

int Begin(const CollectivePlugin::Caller& caller, void** context, int* mask,
          const nccl::ChainedCommunicator& communicator) {
  try {
    return the_plugin.Init(caller, context, mask, communicator);
  } catch (...) {  // Without memory, the program goes on without us.
    return nccl::kSuccess;
  }
}

template <int kVersion>
int InitNewer(void** context, std::uint64_t communicator, int* mask, const char* name, int nodes,
              int ranks, int rank, Logger logger) {
  return Begin({kVersion, __builtin_return_address(0), &SettingsOfProcess}, context, mask,
               {.id = communicator,
                .name = name,
                .nodes = nodes,
                .ranks = ranks,
                .rank = rank,
                .logger = logger});
}

int InitOlder(void** context, int* mask, const char* name, std::uint64_t communicator, int nodes,
              int ranks, int rank, Logger logger) {
  return Begin({4, __builtin_return_address(0), &SettingsOfProcess}, context, mask,
               {.id = communicator,
                .name = name,
                .nodes = nodes,
                .ranks = ranks,
                .rank = rank,
                .logger = logger});
}

int Start(void* context, void** handle, EventV5* event) {
  return the_plugin.Start(context, handle, *event);
}
int StartOlder(void* context, void** handle, EventV4* event) {
  return the_plugin.StartVersion4(context, handle, *event);
}
int Stop(void* handle) { return the_plugin.Stop(handle); }
int State(void* handle, int state, StateDetails* details) {
  return the_plugin.State(handle, state, details);
}
int Finish(void* context) { return the_plugin.Finish(context); }

constexpr char kPluginName[] = "Strobe";

}  // namespace

namespace agent {

void ForgetCollectives() { the_plugin.AfterFork(); }

}  // namespace agent
}  // namespace strobe

extern "C" {
__attribute__((visibility("default"))) strobe::nccl::PluginV5 ncclProfiler_v6 = {
    strobe::kPluginName, &strobe::InitNewer<6>, &strobe::Start,
    &strobe::Stop,       &strobe::State,        &strobe::Finish};
__attribute__((visibility("default"))) strobe::nccl::PluginV5 ncclProfiler_v5 = {
    strobe::kPluginName, &strobe::InitNewer<5>, &strobe::Start,
    &strobe::Stop,       &strobe::State,        &strobe::Finish};
__attribute__((visibility("default"))) strobe::nccl::PluginV4 ncclProfiler_v4 = {
    strobe::kPluginName, &strobe::InitOlder, &strobe::StartOlder,
    &strobe::Stop,       &strobe::State,     &strobe::Finish};
}
