// The part of CUPTI and of CUDA's driver that the agent calls, found at run time: a program without
// them, or with any version of CUDA 12 or 13, runs the same. CUPTI's first-generation interface is
// used throughout, because both have it.
#pragma once
#include <cuda.h>
#include <cupti.h>

namespace strobe::agent {

// X(member, symbol, needed). The agent does without what is not needed.
#define STROBE_CUPTI_FUNCTIONS(X)                             \
  X(subscribe, cuptiSubscribe, true)                          \
  X(unsubscribe, cuptiUnsubscribe, true)                      \
  X(register_callbacks, cuptiActivityRegisterCallbacks, true) \
  X(enable, cuptiActivityEnable, true)                        \
  X(disable, cuptiActivityDisable, true)                      \
  X(flush_all, cuptiActivityFlushAll, true)                   \
  X(next_record, cuptiActivityGetNextRecord, true)            \
  X(dropped_records, cuptiActivityGetNumDroppedRecords, true) \
  X(timestamp, cuptiGetTimestamp, true)                       \
  X(callback_name, cuptiGetCallbackName, false)               \
  X(set_thread_id_type, cuptiSetThreadIdType, false)

struct Cupti {
#define STROBE_MEMBER(member, symbol, needed) decltype(&::symbol) member = nullptr;
  STROBE_CUPTI_FUNCTIONS(STROBE_MEMBER)
#undef STROBE_MEMBER
};

// Not by cuda.h's names, which are macros for the newest version of each.
struct CudaDriver {
  CUresult (*driver_version)(int*) = nullptr;
  CUresult (*device_count)(int*) = nullptr;
  CUresult (*device_get)(CUdevice*, int) = nullptr;
  CUresult (*device_name)(char*, int, CUdevice) = nullptr;
  CUresult (*device_uuid)(CUuuid*, CUdevice) = nullptr;
  CUresult (*device_memory)(std::size_t*, CUdevice) = nullptr;
  CUresult (*device_attribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
};

// The driver that this process has loaded already; false when it has none, and then none is loaded.
bool FindCudaDriver(CudaDriver& driver);

// $STROBE_CUPTI, else the copy that is loaded already, else the one of the CUDA runtime that the
// program uses (its toolkit or its Python wheels), else what the loader finds. Never a newer
// generation than the driver's. Null when there is none or it lacks a needed function.
void* OpenCupti(int driver_version, Cupti& cupti);

}  // namespace strobe::agent
