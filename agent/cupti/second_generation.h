// CUPTI's second generation of functions, by which several tools can record one process (CUDA 13.3;
// see CUPTI's release notes on multiple subscribers). CUDA 12's headers do not have them.
// second_generation_cuda13.cc asserts that these declarations are those of CUDA 13.
#pragma once
#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace strobe::agent {

struct SubscriberParams {
  std::size_t struct_size = 0;
  const char* subscriber_name = nullptr;
  // Where CUPTI writes the name of the tool that holds it, or of the first that shares it.
  char* old_subscriber_name = nullptr;
  std::size_t old_subscriber_size = 0;
  // The fields so far are those of CUDA 13.0, whose size is that of the offset of the next one.
  std::uint8_t allow_multiple_subscribers = 0;
  std::uint8_t padding[7] = {};
};

// CUPTI's versions (cuptiGetVersion) from which on the above has its last fields, and several tools
// may record. The version between them had sharing as a beta.
inline constexpr std::uint32_t kSharingWasAdded = 130200, kSharingIsProduction = 130300;

// CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE.
inline constexpr int kAttributeThreadIdType = 21;

using GiveSharedFunc = void(CUPTIAPI*)(std::uint8_t** buffer, std::size_t* size, std::size_t* most,
                                       void* info);
using TakeSharedFunc = void(CUPTIAPI*)(std::uint8_t* buffer, std::size_t size, std::size_t valid,
                                       void* info);

// A member is null if the library does not have its function.
struct SecondGeneration {
  CUptiResult(CUPTIAPI* subscribe)(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*,
                                   SubscriberParams*) = nullptr;
  CUptiResult(CUPTIAPI* register_callbacks)(CUpti_SubscriberHandle, GiveSharedFunc,
                                            TakeSharedFunc) = nullptr;
  // The last argument is a CUpti_ActivityConfig; null selects all fields and all calls.
  CUptiResult(CUPTIAPI* enable)(CUpti_SubscriberHandle, CUpti_ActivityKind, void*) = nullptr;
  CUptiResult(CUPTIAPI* disable)(CUpti_SubscriberHandle, CUpti_ActivityKind, void*) = nullptr;
  CUptiResult(CUPTIAPI* next_record)(CUpti_SubscriberHandle, std::uint8_t*, std::size_t,
                                     CUpti_Activity**) = nullptr;
  CUptiResult(CUPTIAPI* dropped_records)(CUpti_SubscriberHandle, CUcontext, std::uint32_t,
                                         std::size_t*) = nullptr;
  CUptiResult(CUPTIAPI* enable_driver_call)(CUpti_SubscriberHandle, CUpti_CallbackId,
                                            std::uint8_t) = nullptr;
  CUptiResult(CUPTIAPI* enable_runtime_call)(CUpti_SubscriberHandle, CUpti_CallbackId,
                                             std::uint8_t) = nullptr;
  CUptiResult(CUPTIAPI* set_attribute)(CUpti_SubscriberHandle, int, std::size_t*, void*) = nullptr;

  // Whether it has what a recording beside other tools needs.
  bool CanRecord() const {
    return subscribe != nullptr && register_callbacks != nullptr && enable != nullptr &&
           disable != nullptr && next_record != nullptr && dropped_records != nullptr;
  }
};

}  // namespace strobe::agent
