// Decides how the recording of one process by Kineto's on-demand protocol ended. The protocol tells
// neither errors nor states, so that only its files and what the process asks show that. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/clock.h"
#include "sidecar/source/base/profile_call.h"
#include "sidecar/source/kineto/kineto_clients.h"

namespace strobe::source {

struct KinetoSigns {
  bool began = false;                  // The unfinished trace was seen.
  bool finished = false;               // The trace is there.
  std::uint64_t unfinished_bytes = 0;  // The present size of the unfinished trace.
  MonoTime grew{};                     // When that size changed.
};

// Nothing while the outcome is open; kOk without a message if the trace is there. `who` names the
// process in messages.
std::optional<CallVerdict> JudgeKineto(const KinetoDelivery& delivery, const KinetoSigns& signs,
                                       std::string_view who, MonoTime now);

// The verdict about a process when its capture is cancelled.
CallVerdict KinetoCancelled(const KinetoDelivery& delivery, std::string_view who, MonoTime now);

}  // namespace strobe::source
