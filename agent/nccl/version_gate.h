// Which versions of NCCL and RCCL may measure the devices' times. POSIX only.
#pragma once
#include "agent/wire/collective_layout.h"

namespace strobe::nccl {

struct Library {
  wire::CollectiveLibrary kind = wire::CollectiveLibrary::kUnknown;
  int version = 0;  // 22809 is 2.28.9; 0 if it is not known.
};

// The library that has this address, for example that of a function which it passed. Loads nothing.
Library LibraryAt(const void* address);

// What is true of the devices' times with this library, if a pod asks for them. The begins of calls
// are taken with every version: they cost the same in all of them.
wire::DeviceTimes DeviceTimesOf(const Library& library);

}  // namespace strobe::nccl
