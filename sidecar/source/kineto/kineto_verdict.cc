#include "sidecar/source/kineto/kineto_verdict.h"

#include <string>

#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::source {
namespace {

using Stage = KinetoDelivery::Stage;
using Held = KinetoDelivery::Held;
using std::chrono::milliseconds;
using std::chrono::seconds;

// How long after the end a trace may take: a tick of Kineto's, and writing.
constexpr Nanos kFinish = seconds(3), kFinishPerMegabyte = milliseconds(20);
// Kineto neither retries nor ends what it cannot write.
constexpr Nanos kStuck = seconds(10);

CallVerdict WhyMissed(const KinetoDelivery& delivery, std::string_view who) {
  const std::string ahead = FormatDuration(delivery.order.Ahead());
  const auto failed = [&](std::string_view why) {
    return CallVerdict{Outcome::kProfilerStartFailed,
                       StrCat(who, " ", why, ", and must be asked ", ahead,
                              " before the start; start later (start.delay), or let it poll every "
                              "second (KINETO_CONFIG)")};
  };
  switch (delivery.held) {
    case Held::kInUse:
      return {Outcome::kBusy,
              StrCat(who, ": its profiler was in use until it was too late to begin")};
    case Held::kOccupied:
      return {Outcome::kBusy, StrCat(who,
                                     " was still recording for an earlier capture, which Kineto's "
                                     "protocol cannot cancel")};
    case Held::kUnread:
      return failed("did not read an earlier answer in time");
    case Held::kSeenLate:
      return failed("was not seen in time, because the sidecar got no CPU time");
    case Held::kNotAsked:
      break;
  }
  return failed(StrCat("polls every ", KinetoClient::Words(delivery.interval)));
}

// The process was told and nothing came of it.
CallVerdict WhyNothing(const KinetoDelivery& delivery, std::string_view who) {
  if (!delivery.idle) {
    return {Outcome::kBusy,
            StrCat(who, ": the program was already running its own profiler session")};
  }
  const bool late = delivery.read && delivery.order.start - *delivery.read < delivery.order.Ahead();
  return {
      Outcome::kProfilerStartFailed,
      StrCat(
          who,
          late ? " read the request too late"
               : " read the request but did not begin; Kineto does not say why",
          ". Perhaps the program's own profiler session came first, or the program cannot write ",
          delivery.order.path,
          " (PyTorch 2.15 and newer: only below $KINETO_ONDEMAND_TRACE_DIR). "
          "KINETO_LOG_LEVEL=1 in its environment shows Kineto's reasons")};
}

}  // namespace

std::optional<CallVerdict> JudgeKineto(const KinetoDelivery& delivery, const KinetoSigns& signs,
                                       std::string_view who, MonoTime now) {
  if (signs.finished) return CallVerdict{Outcome::kOk, ""};
  if (delivery.gone) {
    return CallVerdict{Outcome::kWorkerLost,
                       StrCat(who, signs.began ? ": was lost while it recorded"
                                               : ": ended before it was recorded")};
  }
  if (delivery.stage == Stage::kMissed) return WhyMissed(delivery, who);
  if (delivery.stage == Stage::kWaiting) return std::nullopt;
  const auto megabytes = static_cast<Nanos::rep>(signs.unfinished_bytes >> 20);
  if (now < delivery.order.end() + kFinish + megabytes * kFinishPerMegabyte) return std::nullopt;
  if (!signs.began) return WhyNothing(delivery, who);
  // Kineto writes nothing before the end of a recording, and nothing if it was cancelled.
  if (signs.unfinished_bytes > 0) {
    if (now - signs.grew < kStuck) return std::nullopt;
    return CallVerdict{Outcome::kSpoolFull,
                       StrCat(who, " stopped writing its trace after ", signs.unfinished_bytes,
                              " bytes; the volume of ", delivery.order.path,
                              " is full (strobe.dev/agent-memory)")};
  }
  return CallVerdict{
      Outcome::kBusy,
      StrCat(who, ": the program's own profiler session ended the recording; there is no trace")};
}

CallVerdict KinetoCancelled(const KinetoDelivery& delivery, std::string_view who, MonoTime now) {
  const bool was_told = delivery.stage == Stage::kSent || delivery.stage == Stage::kRead;
  if (!was_told) return {Outcome::kCancelled, StrCat(who, ": was not asked to record")};
  if (delivery.gone || now >= delivery.order.end())
    return {Outcome::kCancelled, StrCat(who, ": its trace was removed")};
  return {Outcome::kCancelled,
          StrCat(who, " records for another ", FormatDuration(delivery.order.end() - now),
                 ", because Kineto's protocol cannot cancel a request; its trace will be removed")};
}

}  // namespace strobe::source
