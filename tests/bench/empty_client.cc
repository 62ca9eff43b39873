// A CUPTI client that provides buffers and takes them back unread, from the program's start on. The
// benchmark subtracts its cost, which is that of CUPTI itself, from the agent's. Loaded by
// $CUDA_INJECTION64_PATH. With $EMPTY_CLIENT=Kernels, it enables only what that mode of the agent
// does.
#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace {

constexpr std::size_t kBytes = 128 << 10;  // As large as the agent's buffers.
std::mutex mutex;
std::vector<std::uint8_t*> idle;

void CUPTIAPI Give(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  std::lock_guard<std::mutex> lock(mutex);
  if (idle.empty()) idle.push_back(static_cast<std::uint8_t*>(std::aligned_alloc(8, kBytes)));
  *buffer = idle.back();
  idle.pop_back();
  *size = kBytes;
  *most = 0;
}

void CUPTIAPI Take(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t) {
  std::lock_guard<std::mutex> lock(mutex);
  idle.push_back(buffer);
}

}  // namespace

extern "C" int InitializeInjection() {
  void* cupti = dlopen("libcupti.so.12", RTLD_NOW);
  if (cupti == nullptr) std::abort();
  const auto find = [&](const char* name) { return dlsym(cupti, name); };
  CUpti_SubscriberHandle subscriber;
  const auto nothing = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
  reinterpret_cast<decltype(&cuptiSubscribe)>(find("cuptiSubscribe"))(&subscriber, nothing,
                                                                      nullptr);
  reinterpret_cast<decltype(&cuptiActivityRegisterCallbacks)>(
      find("cuptiActivityRegisterCallbacks"))(&Give, &Take);
  const auto enable = reinterpret_cast<decltype(&cuptiActivityEnable)>(find("cuptiActivityEnable"));
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    enable(kind);
  const char* mode = std::getenv("EMPTY_CLIENT");
  if (mode != nullptr && std::strcmp(mode, "Kernels") == 0) return 1;
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_MARKER})
    enable(kind);
  return 1;
}
