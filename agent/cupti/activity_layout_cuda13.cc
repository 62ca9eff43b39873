// Compiled with CUDA 13's headers. It asserts that activity.cc, which is compiled with CUDA 12's
// headers, can read the records of CUDA 13 as well.
#include <cupti.h>

#include <cstddef>

namespace {

using Kernel = CUpti_ActivityKernel13;
using Copy = CUpti_ActivityMemcpy7;
using PeerCopy = CUpti_ActivityMemcpyPtoP4;
using Set = CUpti_ActivityMemset5;
using Memory = CUpti_ActivityMemory4;
using Call = CUpti_ActivityAPI;
using Overhead = CUpti_ActivityOverhead3;
using External = CUpti_ActivityExternalCorrelation;
using Marker = CUpti_ActivityMarker2;
using Graph = CUpti_ActivityGraphTrace2;
#include "agent/cupti/activity_layout.inc"

}  // namespace
