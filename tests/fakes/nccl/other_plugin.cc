// A profiler plugin of somebody else, of the version FAKE_VERSION. It writes a line for each call
// to $FAKE_NCCL_LOG, in which a handle is the number of its event, so that the logs of two runs can
// be compared. A handle or parent that is not its own is "?". $FAKE_NCCL_MASK is what it asks for.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tests/fakes/nccl/plugin_bytes.h"

using namespace fake_nccl;

namespace {

std::mutex mutex;
std::unordered_map<const void*, int> handles;
int events = 0;
std::FILE* log_file = nullptr;

std::string NumberOf(const void* handle) {
  if (handle == nullptr) return "-";
  const auto found = handles.find(handle);
  return found == handles.end() ? "?" : std::to_string(found->second);
}

int Begin(void** context, int* mask) {
  const std::lock_guard<std::mutex> lock(mutex);
  const char* const path = std::getenv("FAKE_NCCL_LOG");
  const char* const asked = std::getenv("FAKE_NCCL_MASK");
  if (log_file == nullptr && path != nullptr) log_file = std::fopen(path, "w");
  *mask = asked == nullptr ? kGroup | kColl | kP2p | kKernelCh | kProxyOp : std::atoi(asked);
  *context = &mutex;
  return 0;
}

int InitNewer(void** context, std::uint64_t, int* mask, const char*, int, int, int, void*) {
  return Begin(context, mask);
}
int InitOlder(void** context, int* mask, const char*, std::uint64_t, int, int, int, void*) {
  return Begin(context, mask);
}

int Start(void* context, void** handle, void* bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  Event event;
  std::memcpy(event.bytes, bytes, FAKE_VERSION == 4 ? kEventBytes4 : kEventBytes5);
  const std::uint64_t type =
      FAKE_VERSION == 4 ? event.Get<std::uint8_t>(kType) : event.Get<std::uint64_t>(kType);
  const auto parent = event.Get<const void*>(kParent);
  const bool foreign = type == kProxyOp && event.Get<int>(kProxyPid) != getpid();
  std::string what;
  if (type == kColl)
    what = std::string(event.Get<const char*>(kFunc)) + " " +
           std::to_string(event.Get<std::uint64_t>(kSequence)) + " " +
           std::to_string(event.Get<std::size_t>(kCount)) + " " + event.Get<const char*>(kAlgo);
  if (type == kColl && FAKE_VERSION >= 5)
    what += " in " + NumberOf(event.Get<const void*>(kParentGroup));
  if (type == kP2p) what = "peer " + std::to_string(event.Get<int>(kPeer));
  if (type == kP2p && FAKE_VERSION >= 5)
    what += " in " + NumberOf(event.Get<const void*>(kP2pParentGroup));
  if (type == kCollApi) what = event.Get<const char*>(kApiFunc);
  if (type == kKernelCh) what = "channel " + std::to_string(event.Get<std::uint8_t>(kChannelId));
  *handle = std::malloc(8);
  handles[*handle] = events;
  if (log_file != nullptr)
    std::fprintf(log_file, "%d start %d parent %s%s %s\n", events, static_cast<int>(type),
                 foreign ? "elsewhere" : NumberOf(parent).c_str(),
                 context == &mutex ? "" : " of a foreign context", what.c_str());
  ++events;
  return 0;
}

int Stop(void* handle) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (log_file != nullptr) std::fprintf(log_file, "stop %s\n", NumberOf(handle).c_str());
  return 0;
}

int State(void* handle, int state, void*) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (log_file != nullptr)
    std::fprintf(log_file, "state %d of %s\n", state, NumberOf(handle).c_str());
  return 0;
}

int Finish(void*) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (log_file != nullptr) std::fprintf(log_file, "end\n"), std::fflush(log_file);
  return 0;
}

template <typename Function>
void* Pointer(Function function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

extern "C" {
#if FAKE_VERSION == 4
__attribute__((visibility("default"))) Object ncclProfiler_v4 = {
    "Other",
    {Pointer(&InitOlder), Pointer(&Start), Pointer(&Stop), Pointer(&State), Pointer(&Finish)}};
#elif FAKE_VERSION == 5
__attribute__((visibility("default"))) Object ncclProfiler_v5 = {
    "Other",
    {Pointer(&InitNewer), Pointer(&Start), Pointer(&Stop), Pointer(&State), Pointer(&Finish)}};
#else
__attribute__((visibility("default"))) Object ncclProfiler_v6 = {
    "Other",
    {Pointer(&InitNewer), Pointer(&Start), Pointer(&Stop), Pointer(&State), Pointer(&Finish)}};
#endif
}
