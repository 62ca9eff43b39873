// The interface by which the fake driver reports activities to the fake CUPTI.
#pragma once
#include <cstdint>

struct FakeActivity {
  // A graph is told after its nodes.
  enum What { kKernel, kCopy, kSet, kMemory, kRange, kGraph } what = kKernel;
  const char* name = nullptr;                  // Name of the kernel or the range.
  std::uint32_t call = 0;                      // CUpti_driver_api_trace_cbid.
  std::uint64_t call_begin = 0, call_end = 0;  // CLOCK_REALTIME in ns, like CUPTI's time.
  std::uint64_t begin = 0, end = 0;            // On the device; equal for instants.
  std::uint32_t device = 0, context = 1, stream = 0, correlation = 0;
  std::uint32_t graph = 0;  // The graph that it is, or is a node of; 0 if none.
  std::uint32_t grid[3] = {}, block[3] = {}, shared = 0, registers = 32;
  std::uint64_t bytes = 0, address = 0;
  std::uint32_t kind = 0;  // Copy: CUpti_ActivityMemcpyKind. Memory: 1 allocated, 2 released.
                           // Range: 2 begins, 4 ends.
};

using FakeActivityHook = void (*)(const FakeActivity&);

// The fake libcuda.so.1 exports these functions. Null removes the hook.
extern "C" void fake_cuda_set_hook(FakeActivityHook hook);
// Begins a range like one of NVTX. A null name ends the calling thread's newest range.
extern "C" void fake_cuda_range(const char* name);
