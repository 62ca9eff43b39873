#include "sidecar/source/agent/process_row.h"

#include <algorithm>
#include <utility>

#include "agent/wire/collective_layout.h"
#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::source {
namespace {

using wire::DevicePhase;

// Keeps the worst outcome that is added.
class RowBuilder {
 public:
  explicit RowBuilder(v1::ProcessReport& row) : row_(row) {
    row_.set_outcome(static_cast<v1::Outcome>(Outcome::kOk));
  }
  void Add(Outcome outcome, std::string message) {
    const auto now = static_cast<Outcome>(row_.outcome());
    const bool first_words = now == outcome && row_.message().empty();
    if (Describe(outcome).badness <= Describe(now).badness && !first_words) return;
    row_.set_outcome(static_cast<v1::Outcome>(outcome));
    row_.set_message(std::move(message));
  }

 private:
  v1::ProcessReport& row_;
};

std::string For(std::int64_t ns) { return FormatDuration(Nanos{ns}); }

// The interval in which the program could be recorded.
std::int64_t LifeBegins(const ProgramFacts& facts, const CaptureTimes& times) {
  return std::max(facts.born_ns, times.start_ns);
}

std::int64_t LifeEnds(const ProgramFacts& facts, const CaptureTimes& times) {
  if (facts.lives && !facts.ended_cleanly) return times.stop_ns;
  return std::min(facts.ended_cleanly ? facts.ended_ns : facts.seen_ns, times.stop_ns);
}

// A program that did not tell its end may have run until that was noticed. This is later than the
// time when it was last seen if the sidecar itself was suspended in between.
std::int64_t MayRunUntil(const ProgramFacts& facts, const CaptureTimes& times) {
  if (facts.lives || facts.ended_cleanly) return LifeEnds(facts, times);
  return std::max(facts.seen_ns, facts.gone_ns);
}

// Detects a recording that begins late or ends early while the program ran, or may have run.
void JudgeCoverage(const ProgramFacts& facts, const CaptureTimes& times, RowBuilder& row,
                   ProcessVerdict& verdict) {
  const std::int64_t wanted_from = std::max(facts.born_ns, times.instant_ns);
  const std::int64_t wanted_until = std::min(MayRunUntil(facts, times), times.end_ns);
  if (wanted_until <= wanted_from) return;
  if (facts.on_ns == 0) {
    verdict.unrecorded = true;
    row.Add(Outcome::kLateStart, "recording was not switched on before the window ended");
  } else if (facts.on_ns > wanted_from) {
    row.Add(Outcome::kLateStart,
            StrCat("recording began ", For(facts.on_ns - wanted_from), " after the ",
                   facts.born_ns > times.instant_ns ? "program did" : "instant"));
  } else if (facts.off_ns < wanted_until) {
    row.Add(Outcome::kLateStart,
            StrCat("something else switched off recording ", For(wanted_until - facts.off_ns),
                   " before the window ended"));
  }
}

void JudgeDeath(const ProgramFacts& facts, const CaptureTimes& times, RowBuilder& row) {
  const std::int64_t early = times.end_ns - LifeEnds(facts, times);
  if (facts.ended_cleanly) {
    if (early > 0) row.Add(Outcome::kOk, StrCat("ended ", For(early), " before the window did"));
    return;
  }
  if (facts.lives) return;
  const bool device_armed = facts.device.answered && facts.device.phase == DevicePhase::kArmed;
  if (!device_armed && facts.replaced)
    return row.Add(Outcome::kOk, "was replaced by another program (exec)");
  if (!device_armed && facts.seen_ns >= times.end_ns) return;  // It ended after the window.
  const bool recorded = facts.kept > 0 || facts.ever_recorded || facts.device.uses_cuda;
  // Complete records of a program that has ended can still be read; those in CUPTI's buffers are
  // lost.
  if (!device_armed && (facts.parent_lives || !recorded))
    return row.Add(Outcome::kOk, "ended while it was recorded; the cause is not known");
  row.Add(Outcome::kWorkerLost,
          "ended without exiting normally while it was recorded; the trace contains what it wrote "
          "before");
}

// It is no fault of the capture that a program which it finds by looking back has ended.
void JudgeEndBefore(const ProgramFacts& facts, const CaptureTimes& times, RowBuilder& row) {
  if (facts.last_record_ns == 0)
    return row.Add(Outcome::kOk, "had ended before the capture, and its rings contain no records");
  row.Add(Outcome::kOk,
          StrCat("had ended before the capture without exiting normally; its last record ended ",
                 For(times.start_ns - facts.last_record_ns), " before recording began"));
}

void JudgeRecords(const ProgramFacts& facts, RowBuilder& row) {
  if (facts.file_damaged) {
    row.Add(Outcome::kProfilerStartFailed,
            "its ring file was truncated, or its volume became full, while it was recorded");
  } else if (facts.rings_damaged) {
    row.Add(Outcome::kProfilerStartFailed, "its ring file is damaged");
  }
  if (facts.lost == 0) return;
  row.Add(Outcome::kEventsDropped,
          StrCat(facts.lost, " of ", facts.kept + facts.lost,
                 " records are missing: the program produced them faster than they could be read, "
                 "or more than fit into the sidecar's memory or the shared volume; lower "
                 "tracers.host or increase STROBE_RING_KB of the program"));
}

void JudgeDevices(const ProgramFacts& facts, const CaptureTimes& times, bool expects_device,
                  RowBuilder& row, ProcessVerdict& verdict) {
  const bool gone = !facts.lives && !facts.ended_cleanly;
  if (!gone) {
    DeviceVerdict device = JudgeDevice(facts.device);
    // Devices that were left out on purpose are a fault only if the capture expects a device.
    if (device.outcome == Outcome::kDeviceTraceMissing && !expects_device)
      device.outcome = Outcome::kOk;
    if (device.outcome != Outcome::kOk)
      verdict.errors.push_back(StrCat(facts.label, ": ", device.message));
    if (!device.message.empty()) row.Add(device.outcome, std::move(device.message));
  }
  if (!facts.device_began_ns || !facts.device_ended_ns) return;
  std::string hole;
  const std::int64_t wanted_from = std::max(facts.cuda_since_ns, times.instant_ns);
  const std::int64_t wanted_until = std::min(LifeEnds(facts, times), times.end_ns);
  if (*facts.device_began_ns > wanted_from) {
    hole = StrCat(
        "its devices were recorded only from ", For(*facts.device_began_ns - wanted_from),
        facts.cuda_since_ns > times.instant_ns ? " after it started CUDA" : " after the start");
  } else if (facts.device.phase == DevicePhase::kFlushed && !facts.ended_cleanly &&
             *facts.device_ended_ns < wanted_until) {
    hole = StrCat("its devices were recorded only until ",
                  For(wanted_until - *facts.device_ended_ns), " before the window ended");
  }
  if (hole.empty()) return;
  verdict.warnings.push_back(StrCat(facts.label, ": ", hole));
  row.Add(Outcome::kLateStart, std::move(hole));
}

}  // namespace

ProcessVerdict JudgeProgram(const ProgramFacts& facts, const CaptureTimes& times,
                            bool expects_device) {
  ProcessVerdict verdict;
  RowBuilder row(verdict.row);
  verdict.row.set_name(facts.label);
  verdict.row.set_source(v1::SOURCE_AGENT);
  verdict.row.set_events(facts.kept);
  verdict.row.set_dropped(facts.lost);
  if (facts.on_ns != 0) {
    verdict.row.set_started_ns(times.Wall(std::max(facts.on_ns, LifeBegins(facts, times))));
    verdict.row.set_stopped_ns(
        times.Wall(std::max(std::min({facts.off_ns, LifeEnds(facts, times), times.stop_ns}),
                            std::min(facts.on_ns, times.stop_ns))));
  }
  if (facts.ended_before) {
    JudgeEndBefore(facts, times, row);
    JudgeRecords(facts, row);
    return verdict;
  }
  JudgeCoverage(facts, times, row, verdict);
  JudgeDeath(facts, times, row);
  JudgeRecords(facts, row);
  if (facts.tick_jump_ns > 0) {
    verdict.warnings.push_back(
        StrCat(facts.label, ": the processor's counter, by which it tells times, jumped by ",
               For(static_cast<std::int64_t>(facts.tick_jump_ns)),
               " against the kernel's clock while it was recorded; events around that moment, or "
               "after it if the counter went back, are misplaced"));
  }
  if (facts.cut > 0) {
    verdict.warnings.push_back(
        StrCat(facts.label, ": ", facts.cut,
               " annotations were truncated: their name and metadata exceed ",
               wire::kMaxScopeText >> 10, " KiB"));
  }
  if (facts.collectives_without_entry > 0) {
    verdict.warnings.push_back(
        StrCat(facts.label, ": ", facts.collectives_without_entry,
               " collectives are not shown: their process has made more than ",
               wire::kCollectiveCommunicators, " communicators"));
  }
  if (facts.device.cut_names > 0) {
    verdict.warnings.push_back(StrCat(facts.label, ": ", facts.device.cut_names,
                                      " names of the GPUs' work were truncated: they exceed ",
                                      wire::kMaxTextBytes,
                                      " bytes, and end with a hash of the whole name"));
  }
  JudgeDevices(facts, times, expects_device, row, verdict);
  const std::string recorded = DescribeRecording(facts.device);
  verdict.row.set_note(recorded);
  if (IsMuchLeftOut(facts.device)) verdict.warnings.push_back(StrCat(facts.label, ": ", recorded));
  return verdict;
}

v1::ProcessReport MissingProcess(std::string name, Outcome outcome, std::string message) {
  v1::ProcessReport row;
  row.set_name(std::move(name));
  row.set_source(v1::SOURCE_AGENT);
  row.set_outcome(static_cast<v1::Outcome>(outcome));
  row.set_message(std::move(message));
  return row;
}

}  // namespace strobe::source
