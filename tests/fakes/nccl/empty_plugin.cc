// A profiler plugin that asks for the same events as Strobe's and does nothing with them: the peer
// of the benchmark.
#include "tests/fakes/nccl/plugin_bytes.h"

using namespace fake_nccl;

namespace {

int Init(void** context, std::uint64_t, int* mask, const char*, int, int, int, void*) {
  *mask = kColl | kP2p;
  *context = mask;
  return 0;
}
int Start(void*, void** handle, void*) {
  static char any;
  *handle = &any;
  return 0;
}
int Stop(void*) { return 0; }
int State(void*, int, void*) { return 0; }
int Finish(void*) { return 0; }

}  // namespace

extern "C" {
__attribute__((visibility("default")))
Object ncclProfiler_v6 = {"Empty",
                          {reinterpret_cast<void*>(&Init), reinterpret_cast<void*>(&Start),
                           reinterpret_cast<void*>(&Stop), reinterpret_cast<void*>(&State),
                           reinterpret_cast<void*>(&Finish)}};
}
