// Puts the events of a trace file on the lines of planes.
#pragma once
#include <cstdint>
#include <optional>

#include "collector/trace/kineto/event_encoder.h"
#include "collector/trace/kineto/first_events.h"
#include "collector/trace/kineto/flow_ends.h"
#include "collector/trace/kineto/lines.h"
#include "collector/trace/kineto/metadata.h"
#include "collector/trace/kineto/names.h"
#include "collector/trace/kineto/open_spans.h"
#include "collector/trace/kineto/read_report.h"
#include "collector/trace/kineto/trace_event.h"
#include "collector/trace/kineto/usual_times.h"

namespace strobe::kineto {

class TracePlanes {
 public:
  explicit TracePlanes(ReadReport& report) : report_(report) {}

  void Add(const TraceEvent& event);
  // See EventTimes.
  void ZeroIsLost() { times_.ZeroIsLost(); }
  // Call it once after the last event.
  void Finish();

  const Lines& lines() const { return lines_; }
  const Metadata& metadata() const { return metadata_; }

  // The time from which the lines' times count, and the times of the first and the last event; the
  // first one is the begin of the file's window if that is a little earlier. All are 0 without
  // events.
  std::int64_t origin_us() const { return times_.origin_us(); }
  std::int64_t begin_ps() const { return begin_ps_; }
  std::int64_t end_ps() const { return end_ps_; }

 private:
  // The newest event. Its arrows mostly follow it in the file, before the next event begins.
  struct Pending {
    Line* line = nullptr;
    std::int64_t begin_ps = 0;
    std::optional<std::int64_t> correlation{};
  };

  void BeginTimes();
  void Take(const TraceEvent& event);
  std::optional<std::int64_t> TimeOf(const TraceEvent& event);
  void StartAgain(std::int64_t origin_us);
  void WritePending();
  void AddSpan(const TraceEvent& event);
  void AddInstant(const TraceEvent& event);
  void BeginSpan(const TraceEvent& event);
  void EndSpan(const TraceEvent& event);
  void AddAsync(const TraceEvent& event);
  void AddCounter(const TraceEvent& event);
  void AddMemory(const TraceEvent& event);
  void AddFlow(const TraceEvent& event);
  void AddBoundFlow(const TraceEvent& event, Line& line);
  void KeepUsual(const UsualTimes::Usual& usual);

  ReadReport& report_;
  NameTable table_{};
  Lines lines_{table_};
  Metadata metadata_{report_};

  // The first event's time may be an impossible one, from which all others would be too far away.
  FirstEvents first_{};
  bool begun_ = false;  // The first events have been taken.
  EventTimes times_{};
  std::int64_t begin_ps_ = 0, end_ps_ = 0;

  EventEncoder encoder_{table_};
  Pending pending_{};
  OpenSpans open_spans_{times_, report_};
  FlowEnds flow_ends_{};  // Ends that followed no event which they belong to.
};

}  // namespace strobe::kineto
