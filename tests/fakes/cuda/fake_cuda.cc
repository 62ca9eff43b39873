// A fake libcuda.so.1 with only the functions that our programs and the agent call. It has
// $FAKE_CUDA_DEVICES devices (default 1). Kernels take $FAKE_CUDA_KERNEL_NS (default 5,000), and
// streams are queues, as on a real device.
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/activity.h"

namespace {

std::uint64_t Number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

struct Graph;

struct Stream {
  std::uint32_t id = 7;  // The number of the default stream.
  std::uint32_t device = 0;
  std::mutex mutex;
  std::uint64_t busy_until = 0;
  Graph* capturing = nullptr;
};

struct Function {
  std::string name;
};

std::atomic<std::uint32_t> graphs{0};

// A kernel that waits in a graph: what it does, and for how long.
struct Node {
  FakeActivity activity;
  std::uint64_t takes_ns;
  CUdeviceptr stamps;
};

struct Graph {
  std::vector<Node> nodes;
  std::uint32_t id = ++graphs;
};

// What the kernels of tests/e2e/cuda_stamps.cc have noted, by the address that they write to.
struct Stamps {
  std::mutex mutex;
  std::map<CUdeviceptr, std::vector<std::uint64_t>> noted;
};

Stamps& TheStamps() {
  static Stamps& stamps = *new Stamps;
  return stamps;
}

// The device's clock has another zero than the host's. A kernel notes its begin after it has begun.
void NoteStamp(CUdeviceptr to, const FakeActivity& activity) {
  constexpr std::uint64_t kZero = 1'000'000'000'000, kLater = 300, kBefore = 200;
  Stamps& stamps = TheStamps();
  std::lock_guard<std::mutex> lock(stamps.mutex);
  stamps.noted[to].push_back(activity.begin - kZero + kLater);
  stamps.noted[to].push_back(activity.end - kZero - kBefore);
}

std::atomic<FakeActivityHook> hook{nullptr};
std::atomic<std::uint32_t> correlations{0}, streams{12}, ranges{0};
std::atomic<bool> initialized{false};
std::atomic<std::uint64_t> addresses{0x7f0000000000};
thread_local int current_device = 0;
Stream default_streams[16];

Stream& StreamOf(CUstream stream) {
  if (stream != nullptr) return *reinterpret_cast<Stream*>(stream);
  default_streams[current_device].device = static_cast<std::uint32_t>(current_device);
  return default_streams[current_device];
}

// Schedules the work after the earlier work of its stream.
void Schedule(FakeActivity& activity, Stream& stream, std::uint64_t takes_ns, CUdeviceptr stamps) {
  {
    std::lock_guard<std::mutex> lock(stream.mutex);
    activity.begin = std::max(stream.busy_until, activity.call_begin + 2000);
    activity.end = stream.busy_until = activity.begin + takes_ns;
  }
  activity.device = stream.device;
  activity.context = stream.device + 1;
  activity.stream = stream.id;
  if (stamps != 0) NoteStamp(stamps, activity);
}

// Schedules the work and reports it to the hook, or adds it to the graph that is being captured.
void Enqueue(FakeActivity activity, CUstream on, std::uint64_t takes_ns, CUdeviceptr stamps = 0) {
  const FakeActivityHook told = hook.load(std::memory_order_acquire);
  Stream& stream = StreamOf(on);
  if (stream.capturing != nullptr) {
    stream.capturing->nodes.push_back({activity, takes_ns, stamps});
    return;
  }
  activity.call_begin = NowNs();
  Schedule(activity, stream, takes_ns, stamps);
  if (told == nullptr) return;
  activity.call_end = NowNs();
  activity.correlation = ++correlations;
  told(activity);
}

// All kernels of a graph have the correlation of the call that launched it, which is told with the
// first one.
void EnqueueGraph(const Graph& graph, CUstream on) {
  const FakeActivityHook told = hook.load(std::memory_order_acquire);
  Stream& stream = StreamOf(on);
  const std::uint32_t correlation = told == nullptr ? 0 : ++correlations;
  const std::uint64_t begin = NowNs();
  std::uint32_t call = CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch;
  FakeActivity whole{.what = FakeActivity::kGraph};
  for (const Node& node : graph.nodes) {
    FakeActivity activity = node.activity;
    activity.call = std::exchange(call, 0);
    activity.call_begin = begin;
    Schedule(activity, stream, node.takes_ns, node.stamps);
    if (told == nullptr) continue;
    activity.call_end = NowNs();
    activity.correlation = correlation;
    activity.graph = graph.id;
    told(activity);
    const std::uint64_t whole_begin = whole.begin == 0 ? activity.begin : whole.begin;
    whole = activity;
    whole.what = FakeActivity::kGraph;
    whole.begin = whole_begin;
    whole.call = 0;
  }
  if (told != nullptr && whole.graph != 0) told(whole);
}

}  // namespace

extern "C" {

void fake_cuda_set_hook(FakeActivityHook told) { hook = told; }

void fake_cuda_range(const char* name) {
  thread_local std::vector<std::uint32_t> open;
  const FakeActivityHook told = hook.load();
  if (name != nullptr) open.push_back(++ranges);
  if (open.empty()) return;  // Ends a range that never began.
  FakeActivity activity{.what = FakeActivity::kRange, .name = name};
  activity.begin = NowNs();
  activity.correlation = open.back();
  activity.kind = name != nullptr ? 2 : 4;
  if (name == nullptr) open.pop_back();
  if (told != nullptr) told(activity);
}

CUresult CUDAAPI cuInit(unsigned int) {
  if (initialized.exchange(true)) return CUDA_SUCCESS;
  // Loads tools as the real driver does.
  if (const char* path = std::getenv("CUDA_INJECTION64_PATH")) {
    void* tool = dlopen(path, RTLD_NOW);
    auto* initialize =
        tool == nullptr ? nullptr : reinterpret_cast<int (*)()>(dlsym(tool, "InitializeInjection"));
    if (initialize != nullptr) initialize();
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDriverGetVersion(int* version) {
  *version = static_cast<int>(Number("FAKE_CUDA_VERSION", 12080));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetCount(int* count) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *count = static_cast<int>(Number("FAKE_CUDA_DEVICES", 1));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetName(char* name, int size, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake H200");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, 0, sizeof *uuid);
  // Tests set it for programs that are to see different devices.
  uuid->bytes[0] =
      static_cast<char>(Number("FAKE_CUDA_FIRST_UUID", 1) + static_cast<std::uint64_t>(device));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  *bytes = 139ull << 30;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *value = 1980000;
      break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      *value = 3201000;
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      *value = 6016;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      *value = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = 233472;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<std::intptr_t>(device) + 1);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  current_device = static_cast<int>(reinterpret_cast<std::intptr_t>(context) - 1);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void*) {
  *module = reinterpret_cast<CUmodule>(1);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  *function = reinterpret_cast<CUfunction>(new Function{name});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamCreate(CUstream* stream, unsigned int) {
  auto* made = new Stream;
  made->id = ++streams;
  made->device = static_cast<std::uint32_t>(current_device);
  *stream = reinterpret_cast<CUstream>(made);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamSynchronize(CUstream on) {
  Stream& stream = StreamOf(on);
  std::unique_lock<std::mutex> lock(stream.mutex);
  const std::uint64_t until = stream.busy_until;
  lock.unlock();
  const std::uint64_t now = NowNs();
  if (until > now) std::this_thread::sleep_for(std::chrono::nanoseconds(until - now));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy,
                                unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
                                unsigned int shared, CUstream stream, void** arguments, void**) {
  static const std::uint64_t takes = Number("FAKE_CUDA_KERNEL_NS", 5000);
  FakeActivity activity;
  activity.name = reinterpret_cast<Function*>(function)->name.c_str();
  activity.call = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
  const std::uint32_t grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  std::memcpy(activity.grid, grid, sizeof grid);
  std::memcpy(activity.block, block, sizeof block);
  activity.shared = shared;
  const bool notes = reinterpret_cast<Function*>(function)->name == "stamp";
  Enqueue(activity, stream, takes, notes ? *static_cast<CUdeviceptr*>(arguments[0]) : 0);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr, const void*, std::size_t bytes,
                                      CUstream stream) {
  FakeActivity activity{.what = FakeActivity::kCopy,
                        .call = CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2};
  activity.bytes = bytes;
  activity.kind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  Enqueue(activity, stream, 1000 + bytes / 50);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr, unsigned char, std::size_t bytes, CUstream stream) {
  FakeActivity activity{.what = FakeActivity::kSet,
                        .call = CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async};
  activity.bytes = bytes;
  Enqueue(activity, stream, 1000);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  StreamOf(stream).capturing = new Graph;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  *graph = reinterpret_cast<CUgraph>(std::exchange(StreamOf(stream).capturing, nullptr));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* to, CUgraph graph, unsigned long long) {
  *to = reinterpret_cast<CUgraphExec>(graph);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  EnqueueGraph(*reinterpret_cast<Graph*>(graph), stream);
  return CUDA_SUCCESS;
}
// Only what kernels have noted can be copied; the fake's memory is addresses without content.
CUresult CUDAAPI cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  Stamps& stamps = TheStamps();
  std::lock_guard<std::mutex> lock(stamps.mutex);
  const std::vector<std::uint64_t>& noted = stamps.noted[from];
  if (bytes > noted.size() * sizeof noted[0]) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(to, noted.data(), bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr* pointer, std::size_t bytes) {
  *pointer = addresses.fetch_add(bytes + 512);
  FakeActivity activity{.what = FakeActivity::kMemory,
                        .call = CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2};
  activity.bytes = bytes;
  activity.address = *pointer;
  activity.kind = 1;
  Enqueue(activity, nullptr, 0);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemFree_v2(CUdeviceptr pointer) {
  FakeActivity activity{.what = FakeActivity::kMemory,
                        .call = CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2};
  activity.address = pointer;
  activity.kind = 2;
  Enqueue(activity, nullptr, 0);
  return CUDA_SUCCESS;
}
}
