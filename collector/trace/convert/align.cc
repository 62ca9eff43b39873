#include "collector/trace/convert/align.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/edit.h"
#include "collector/trace/xplane/file_kind.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/summary.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::convert {
namespace {

// Until the year 2043. A trace may hold any number, and larger ones could overflow in sums.
constexpr std::int64_t kMaxNanos = std::int64_t{1} << 61;
constexpr std::size_t kMaxRoleText = 63;

// Reads the clock offset that the capture measured, and its window, from the trace's Strobe plane.
absl::Status ReadCapture(const xplane::Space& space, WorkerTrace& trace) {
  const xplane::Plane* plane = space.Find(xplane::kStrobePlane);
  if (plane == nullptr) return absl::OkStatus();
  std::int64_t instant = 0, duration = 0;
  RETURN_IF_ERROR(plane->ForEachStat([&](const xplane::Stat& stat) {
    const auto* text = std::get_if<std::string_view>(&stat.value);
    if (text != nullptr && plane->NameOf(stat) == "role") trace.role = CutUtf8(*text, kMaxRoleText);
    if (plane->NameOf(stat) == "clock_offset_ns")
      trace.clock_offset_ns = stat.Integer().value_or(0);
    if (plane->NameOf(stat) == "clock_error_ns") trace.clock_error_ns = stat.Integer();
    if (plane->NameOf(stat) == "instant_ns") instant = stat.Integer().value_or(0);
    if (plane->NameOf(stat) == "duration_ns") duration = stat.Integer().value_or(0);
    if (trace.clock_error_ns.value_or(0) < 0) trace.clock_error_ns.reset();  // Not measured.
  }));
  if (trace.clock_offset_ns < -kMaxNanos || trace.clock_offset_ns > kMaxNanos) {
    trace.clock_offset_ns = 0;
    trace.clock_error_ns.reset();
  }
  if (instant <= 0 || instant > kMaxNanos || duration <= 0 || duration > kMaxNanos)
    return absl::OkStatus();
  trace.window_begin_ns = instant - trace.clock_offset_ns;
  trace.window_end_ns = trace.window_begin_ns + duration;
  return absl::OkStatus();
}

// Workers of one run begin within minutes of each other.
constexpr std::int64_t kSameRunNanos = 86'400'000'000'000;
constexpr std::string_view kOtherRun =
    "the trace begins more than a day after the first one: they seem to be of different runs";

// The least of the lines' time stamps that are Unix times; 0 if there are none.
std::int64_t LeastUnixTime(const xplane::Space& space) {
  std::int64_t least = 0;
  for (const xplane::Plane& plane : space.planes) {
    for (const xplane::Line& line : plane.lines) {
      if (!xplane::IsUnixTime(line.timestamp_ns) || line.timestamp_ns > kMaxNanos) continue;
      least = least == 0 ? line.timestamp_ns : std::min(least, line.timestamp_ns);
    }
  }
  return least;
}

// Makes Unix times of lines count from the trace's zero, as other time stamps do.
void CountFromZero(std::int64_t zero, xplane::Space& space) {
  for (xplane::Plane& plane : space.planes) {
    for (xplane::Line& line : plane.lines) {
      if (xplane::IsUnixTime(line.timestamp_ns)) line.timestamp_ns -= zero;
    }
  }
}

absl::StatusOr<xplane::Space> ReadFromZero(std::string_view trace, xplane::Depth depth,
                                           std::int64_t& zero) {
  const std::string why = xplane::WhyNoSpace(trace.substr(0, xplane::kHeadBytes));
  if (!why.empty()) return absl::DataLossError(why);
  ASSIGN_OR_RETURN(xplane::Space space, xplane::Space::Read(trace, depth));
  ASSIGN_OR_RETURN(zero, xplane::TimeZero(space));
  if (zero < 0 || zero > kMaxNanos) zero = 0;  // Not told.
  if (zero == 0 && depth == xplane::Depth::kPlanes) {
    // Only the lines may tell.
    ASSIGN_OR_RETURN(const xplane::Space lines, xplane::Space::Read(trace));
    zero = LeastUnixTime(lines);
  } else if (zero == 0) {
    zero = LeastUnixTime(space);
  }
  CountFromZero(zero, space);
  return space;
}

absl::Status CheckEvents(const xplane::Space& space) {
  absl::Status damage;
  for (const xplane::Plane& plane : space.planes) {
    for (const xplane::Line& line : plane.lines) {
      const absl::Status status = xplane::ForEachEvent(line, [&](const xplane::Event& event) {
        if (damage.ok()) damage = xplane::ForEachStat(plane, event, [](const xplane::Stat&) {});
      });
      RETURN_IF_ERROR(damage);
      RETURN_IF_ERROR(status);
    }
  }
  return damage;
}

}  // namespace

absl::Status Unchanged(const std::vector<OpenTrace>& traces, absl::Status result) {
  for (const OpenTrace& trace : traces) RETURN_IF_ERROR(trace.Check());
  return result;
}

absl::StatusOr<xplane::Space> ReadSpace(std::string_view trace) {
  std::int64_t zero = 0;
  return ReadSpace(trace, zero);
}

absl::StatusOr<xplane::Space> ReadSpace(std::string_view trace, std::int64_t& zero_ns) {
  return ReadFromZero(trace, xplane::Depth::kLines, zero_ns);
}

std::string LeftOut::Warning() const { return StrCat(worker, " is not shown: ", why); }

absl::Status LeftOut::Error() const { return absl::DataLossError(StrCat(worker, ": ", why)); }

absl::StatusOr<AlignedTraces> AlignTraces(const std::vector<OpenTrace>& traces,
                                          xplane::Depth depth) {
  AlignedTraces aligned;
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const OpenTrace& trace = traces[i];
    std::int64_t zero = 0;
    WorkerTrace worker{.worker = trace.worker, .trace = i};
    absl::StatusOr<xplane::Space> space =
        trace.damage.ok() ? ReadFromZero(trace.bytes(), depth, zero) : trace.damage;
    const absl::Status status = space.ok() ? ReadCapture(*space, worker) : space.status();
    if (absl::IsDataLoss(status)) {
      aligned.left_out.push_back({trace.worker, MessageOf(status)});
      continue;
    }
    if (!status.ok())
      return absl::Status(status.code(), ToAbsl(StrCat(trace.worker, ": ", MessageOf(status))));
    // A trace that does not tell its start is shown from the zero of all traces.
    worker.zero_ns = zero;
    worker.shift_ns = zero == 0 ? 0 : zero - worker.clock_offset_ns;
    if (worker.shift_ns != 0) earliest = std::min(earliest, worker.shift_ns);
    worker.space = *std::move(space);
    aligned.workers.push_back(std::move(worker));
  }
  if (aligned.workers.empty() && !aligned.left_out.empty()) return aligned.left_out.front().Error();
  for (WorkerTrace& trace : aligned.workers) {
    trace.shift_ns = trace.shift_ns == 0 ? 0 : trace.shift_ns - earliest;
    if (trace.shift_ns > kSameRunNanos) trace.space.warnings.push_back(kOtherRun);
  }
  if (earliest != std::numeric_limits<std::int64_t>::max()) aligned.zero_ns = earliest;
  return aligned;
}

absl::StatusOr<std::size_t> LeaveOutDamaged(AlignedTraces& traces) {
  std::vector<absl::Status> checked(traces.workers.size());
  ParallelFor(checked.size(), std::max(1u, std::thread::hardware_concurrency()),
              [&](std::size_t i) { checked[i] = CheckEvents(traces.workers[i].space); });
  std::vector<WorkerTrace> whole;
  for (std::size_t i = 0; i < checked.size(); ++i) {
    WorkerTrace& worker = traces.workers[i];
    if (checked[i].ok())
      whole.push_back(std::move(worker));
    else
      traces.left_out.push_back({worker.worker, MessageOf(checked[i])});
  }
  traces.workers = std::move(whole);
  if (traces.workers.empty() && !traces.left_out.empty()) return traces.left_out.front().Error();
  return checked.size() - traces.workers.size();
}

absl::Status WriteMergedSpace(const AlignedTraces& traces, const Sink& sink) {
  std::int64_t id = 0;
  std::string piece;
  for (const WorkerTrace& trace : traces.workers) {
    for (const xplane::Plane& plane : trace.space.planes) {
      // These planes hold times on the worker's own clock. One plane for all is written below.
      if (plane.name.starts_with(xplane::kTaskEnvironmentPlane) ||
          plane.name == xplane::kStrobePlane)
        continue;
      piece.clear();
      RETURN_IF_ERROR(xplane::AppendPlane(
          plane.bytes,
          {.tag = trace.worker, .shift_ns = trace.shift_ns, .id = ++id, .zero_ns = trace.zero_ns},
          piece));
      RETURN_IF_ERROR(sink(piece));
    }
    piece.clear();
    for (const std::string_view text : trace.space.errors)
      wire::AppendBytesField(xplane::kErrorsField, StrCat(trace.worker, ": ", text), piece);
    for (const std::string_view text : trace.space.warnings)
      wire::AppendBytesField(xplane::kWarningsField, StrCat(trace.worker, ": ", text), piece);
    RETURN_IF_ERROR(sink(piece));
  }
  piece.clear();
  for (const LeftOut& worker : traces.left_out)
    wire::AppendBytesField(xplane::kWarningsField, worker.Warning(), piece);
  RETURN_IF_ERROR(sink(piece));
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  if (traces.zero_ns != 0)
    environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(traces.zero_ns));
  return sink(environment.Encode());
}

}  // namespace strobe::convert
