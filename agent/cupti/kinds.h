// The kinds of records that the modes of recording devices consist of.
#pragma once
#include <cupti.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "agent/cupti/subscription.h"
#include "agent/wire/layout.h"

namespace strobe::agent {

// The calls of CUDA that start work on a device: what the modes record that show launches, but not
// every call.
std::span<const CUpti_CallbackId> LaunchCallsOfDriver();
std::span<const CUpti_CallbackId> LaunchCallsOfRuntime();

struct CuptiFailure {
  wire::DeviceStep step;
  CUptiResult result;
};
// What undoes the calls of CUPTI that were made, the last one first.
using CuptiUndo = std::vector<std::function<CUptiResult()>>;

// The mode in a word of FileHeader::device_mode.
wire::DeviceMode ModeOf(std::uint32_t word);

// Enables what the mode records. `subscription` must outlive `undo`. After a failure, `undo` has
// what was enabled before.
std::optional<CuptiFailure> EnableKinds(Subscription& subscription, wire::DeviceMode mode,
                                        CuptiUndo& undo);

}  // namespace strobe::agent
