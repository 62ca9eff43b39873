// CUDA's driver API for programs that tests run on a real GPU and on the fake driver. The library
// is found at run time, so that the programs can be built and started on machines without a GPU.
#pragma once
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

// One function pointer of `Cuda`. The names in cuda.h are macros for the newest version of each
// function.
#define FUNCTION(name, symbol, ...) \
  CUresult (*name)(__VA_ARGS__) = Find<CUresult (*)(__VA_ARGS__)>(symbol)

inline void* Driver() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    std::fprintf(stderr, "no CUDA driver: %s\n", dlerror());
    std::exit(2);
  }
  return library;
}

template <typename T>
T Find(const char* symbol) {
  return reinterpret_cast<T>(dlsym(Driver(), symbol));
}

inline void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: CUDA error %d\n", what, result);
  std::exit(2);
}

struct Cuda {
  FUNCTION(init, "cuInit", unsigned);
  FUNCTION(device_count, "cuDeviceGetCount", int*);
  FUNCTION(retain, "cuDevicePrimaryCtxRetain", CUcontext*, CUdevice);
  FUNCTION(set_current, "cuCtxSetCurrent", CUcontext);
  FUNCTION(load, "cuModuleLoadData", CUmodule*, const void*);
  FUNCTION(get, "cuModuleGetFunction", CUfunction*, CUmodule, const char*);
  FUNCTION(stream, "cuStreamCreate", CUstream*, unsigned);
  FUNCTION(synchronize, "cuStreamSynchronize", CUstream);
  FUNCTION(launch, "cuLaunchKernel", CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
           unsigned, unsigned, CUstream, void**, void**);
  FUNCTION(copy, "cuMemcpyHtoDAsync_v2", CUdeviceptr, const void*, std::size_t, CUstream);
  FUNCTION(clear, "cuMemsetD8Async", CUdeviceptr, unsigned char, std::size_t, CUstream);
  FUNCTION(allocate, "cuMemAlloc_v2", CUdeviceptr*, std::size_t);
  FUNCTION(release, "cuMemFree_v2", CUdeviceptr);
  FUNCTION(copy_back, "cuMemcpyDtoH_v2", void*, CUdeviceptr, std::size_t);
  FUNCTION(begin_capture, "cuStreamBeginCapture_v2", CUstream, CUstreamCaptureMode);
  FUNCTION(end_capture, "cuStreamEndCapture", CUstream, CUgraph*);
  FUNCTION(instantiate, "cuGraphInstantiateWithFlags", CUgraphExec*, CUgraph, unsigned long long);
  FUNCTION(launch_graph, "cuGraphLaunch", CUgraphExec, CUstream);
  // Only the fake driver has this function.
  void (*range)(const char*) = Find<void (*)(const char*)>("fake_cuda_range");
};
