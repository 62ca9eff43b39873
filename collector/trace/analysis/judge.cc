#include "collector/trace/analysis/judge.h"

#include <algorithm>

#include "collector/trace/xplane/names.h"
#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::analysis {
namespace {

const std::string* FindText(const std::vector<std::string>& texts, std::string_view word) {
  const auto found = std::find_if(texts.begin(), texts.end(), [word](const std::string& text) {
    return ContainsIgnoreCase(text, word);
  });
  return found == texts.end() ? nullptr : &*found;
}

// Says which part of the window was not recorded; empty when all of it was.
std::string CoverageGap(const xplane::TraceSummary& trace, const Window& window) {
  if (trace.started_ns == 0) return "the trace does not say when recording began";
  const Nanos late = FromUnixNanos(trace.started_ns) - window.begin;
  if (late > Nanos{0})
    return StrCat("recording began ", FormatDuration(late), " after the instant");
  if (trace.stopped_ns != 0) {
    const Nanos early = window.end() - FromUnixNanos(trace.stopped_ns);
    if (early > Nanos{0}) {
      return StrCat("recording ended ", FormatDuration(early), " before the window did");
    }
  }
  return "";
}

// What could not be read of a file; null if all was. Such words are those of kineto::Warnings.
const std::string* FindDamage(const xplane::TraceSummary& trace) {
  for (const std::string_view words : {"malformed JSON", "more than 2 MiB", "the file is cut"}) {
    if (const std::string* text = FindText(trace.warnings, words)) return text;
  }
  return nullptr;
}

// The window's length, for messages about missing events: often it was too short for a step.
std::string WindowWords(const Requested& asked) {
  if (!asked.window) return "";
  if (asked.window->duration == Nanos{0}) return "; recording was ended before its window began";
  return StrCat(" in a window of ", FormatDuration(asked.window->duration));
}

}  // namespace

Judgement JudgeTrace(const xplane::TraceSummary& trace, const Requested& asked) {
  const std::string gap = asked.window ? CoverageGap(trace, *asked.window) : "";
  const bool covers = gap.empty();
  const auto judged = [covers](Outcome outcome, std::string message) {
    return Judgement{outcome, std::move(message), covers};
  };
  if (const std::string* text = FindText(trace.errors, "INSUFFICIENT_PRIVILEGES")) {
    return judged(Outcome::kPermissionDenied, *text);
  }
  const std::string* const damage = FindDamage(trace);
  if (damage != nullptr && trace.events == 0) return judged(Outcome::kEventsDropped, *damage);
  if (trace.events == 0) {
    return judged(
        Outcome::kNoHostEvents,
        StrCat("none of the trace's ", trace.planes.size(), " planes has an event",
               WindowWords(asked),
               asked.host_level == 0u ? "; tracers.host is Disabled, so no annotation was recorded"
                                      : ""));
  }
  bool device_plane = false, device_events = false, device_values = false;
  for (const xplane::PlaneSummary& plane : trace.planes) {
    if (!xplane::IsDevicePlane(plane.name)) continue;
    device_plane = true;
    device_events = device_events || plane.events > plane.values;
    device_values = device_values || plane.values > 0;
  }
  if (asked.expects_device && !device_plane) {
    return judged(Outcome::kDeviceTraceMissing,
                  "the job uses an accelerator, the trace has no /device: plane");
  }
  if (device_plane && !device_events) {
    return judged(Outcome::kNoDeviceActivity,
                  StrCat("the trace's device planes have no event",
                         device_values ? " but values of counters" : "", WindowWords(asked)));
  }
  const std::string* const dropped = FindText(trace.warnings, "events dropped");
  if (!covers)
    return judged(Outcome::kLateStart, dropped == nullptr ? gap : StrCat(gap, "; ", *dropped));
  if (dropped != nullptr) return judged(Outcome::kEventsDropped, *dropped);
  if (damage != nullptr) return judged(Outcome::kEventsDropped, *damage);
  return judged(Outcome::kOk, "");
}

}  // namespace strobe::analysis
