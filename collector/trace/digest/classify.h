// Says what an event's time counts as, by the names that frameworks and libraries give to their
// events. README.md names the source of each rule. Pure.
#pragma once
#include <cstdint>
#include <string_view>

#include "collector/trace/digest/digest.h"
#include "collector/trace/xplane/space.h"

namespace strobe::digest {

struct WorkClass {
  WorkKind kind = WorkKind::kCompute;
  CollectiveKind collective = CollectiveKind::kOther;  // Set if the work is communication.
  // XLA splits an asynchronous operation into one that starts it and one that waits for its end.
  enum Phase : std::uint8_t { kWhole, kStart, kDone } phase = kWhole;
  // Other operations run inside, so that its own FLOPs would count theirs again.
  bool contains_others = false;
};

// Classifies work on a device as kCompute, kCommunication, kCopy or, for an infeed, kInput.
// `category` is XLA's stat hlo_category; empty if the event has none. `is_hlo`: the name is that of
// an HLO instruction, such as "all-reduce.1", so that it tells the opcode.
WorkClass ClassifyDeviceWork(std::string_view name, std::string_view category, bool is_hlo);

// Classifies an event whose name tells neither copies nor communication, by what its line holds,
// its stats, and the category that its profiler gave it.
WorkClass ClassifyByStats(const xplane::Plane& plane, const xplane::Line& line,
                          const xplane::Event& event);

// Classifies an event of a host thread as kInput, kGarbageCollection, kCommunication or kHost.
WorkKind ClassifyHostEvent(std::string_view name);

// The kind of a collective from any spelling of it: "all-reduce", "AllReduce", "_allgather_base".
CollectiveKind CollectiveKindOf(std::string_view name);

// The name of a kernel without the types of its arguments, which tell nothing that it does not.
std::string_view WithoutArguments(std::string_view kernel);

// The size of an element of PyTorch's type, such as "BFloat16", in bytes; 0 for unknown ones.
std::uint64_t DtypeBytes(std::string_view dtype);

}  // namespace strobe::digest
