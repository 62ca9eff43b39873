// The functions of CUPTI and of CUDA's driver that the agent calls. They are looked up at run time,
// so that the agent also loads into programs without CUDA. CUPTI's first generation
// of functions is in CUDA 12 and 13; of the second one, what the library has is used.
#pragma once
#include <cuda.h>
#include <cupti.h>

#include "agent/cupti/second_generation.h"

namespace strobe::agent {

// X(member, symbol, needed). The agent works without the functions that are not needed.
#define STROBE_CUPTI_FUNCTIONS(X)                              \
  X(subscribe, cuptiSubscribe, true)                           \
  X(unsubscribe, cuptiUnsubscribe, true)                       \
  X(register_callbacks, cuptiActivityRegisterCallbacks, true)  \
  X(enable, cuptiActivityEnable, true)                         \
  X(disable, cuptiActivityDisable, true)                       \
  X(flush_all, cuptiActivityFlushAll, true)                    \
  X(next_record, cuptiActivityGetNextRecord, true)             \
  X(dropped_records, cuptiActivityGetNumDroppedRecords, true)  \
  X(timestamp, cuptiGetTimestamp, true)                        \
  X(callback_name, cuptiGetCallbackName, false)                \
  X(version, cuptiGetVersion, false)                           \
  X(enable_driver_call, cuptiActivityEnableDriverApi, false)   \
  X(enable_runtime_call, cuptiActivityEnableRuntimeApi, false) \
  X(enable_domain, cuptiEnableDomain, false)                   \
  X(finalize, cuptiFinalize, false)                            \
  X(set_thread_id_type, cuptiSetThreadIdType, false)

struct Cupti {
#define STROBE_MEMBER(member, symbol, needed) decltype(&::symbol) member = nullptr;
  STROBE_CUPTI_FUNCTIONS(STROBE_MEMBER)
#undef STROBE_MEMBER
  SecondGeneration second{};
};

// Functions of CUDA's driver. The members are declared by hand, because the names in cuda.h are
// macros for the newest version of each function.
struct CudaDriver {
  CUresult (*driver_version)(int*) = nullptr;
  CUresult (*device_count)(int*) = nullptr;
  CUresult (*device_get)(CUdevice*, int) = nullptr;
  CUresult (*device_name)(char*, int, CUdevice) = nullptr;
  CUresult (*device_uuid)(CUuuid*, CUdevice) = nullptr;
  CUresult (*device_memory)(std::size_t*, CUdevice) = nullptr;
  CUresult (*device_attribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
};

// Finds the driver that this process has already loaded. Returns false if there is none; it never
// loads one.
bool FindCudaDriver(CudaDriver& driver);

// Opens CUPTI and returns its handle. Tries, in this order: $STROBE_CUPTI, a copy that is already
// loaded, the copy beside the CUDA runtime that the program uses (toolkit or Python wheel), and the
// loader's search path. Never opens a newer generation than the driver's. Null if there is none or
// if it lacks a needed function.
void* OpenCupti(int driver_version, Cupti& cupti);

}  // namespace strobe::agent
