// Puts the events of a trace file on the lines of planes.
#pragma once
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/trace/kineto/device_work.h"
#include "collector/trace/kineto/event_bytes.h"
#include "collector/trace/kineto/first_events.h"
#include "collector/trace/kineto/flow_ends.h"
#include "collector/trace/kineto/lines.h"
#include "collector/trace/kineto/micros.h"
#include "collector/trace/kineto/names.h"
#include "collector/trace/kineto/read_report.h"
#include "collector/trace/kineto/trace_event.h"
#include "collector/trace/kineto/usual_times.h"

namespace strobe::kineto {

// Estimates the floating-point operations of one of PyTorch's operators from the shapes of its
// inputs. PyTorch counts the same when it is asked to, but its trace files have only the shapes.
// nullopt for operators that PyTorch does not count, and for events without shapes. A product of
// matrices counts two operations per pair of numbers. Pure.
std::optional<std::uint64_t> FlopsOf(const TraceEvent& event);

// What the file says about a thread or stream.
struct ThreadInfo {
  std::string name{};
  std::optional<std::int64_t> sort_index{};
};

class TracePlanes {
 public:
  explicit TracePlanes(ReadReport& report) : report_(report) {}

  void Add(const TraceEvent& event);
  // The file's program gives no event the time 0, except where it has lost the event's time.
  void ZeroIsLost() { zero_is_lost_ = true; }
  // Call it once after the last event.
  void Finish();

  const Lines& lines() const { return lines_; }
  NameTable& table() { return table_; }
  // By process, and by process and thread. Streams have names of their own, because the number of a
  // device may also be that of a process.
  const std::map<std::string, std::string>& processes() const { return processes_; }
  const std::map<std::pair<std::string, std::string>, ThreadInfo>& threads() const {
    return threads_;
  }
  const std::map<std::pair<std::string, std::string>, ThreadInfo>& streams() const {
    return streams_;
  }
  // What the file calls processes that are devices, such as "GPU 0" or "NPU".
  const std::map<std::string, std::string>& device_labels() const { return device_labels_; }
  // Other metadata: name and text.
  const std::deque<std::pair<std::string, std::string>>& metadata() const { return metadata_; }

  // The time from which the lines' times count, and the times of the first and the last event; the
  // first one is the begin of the file's window if that is a little earlier. All are 0 without
  // events.
  std::int64_t origin_us() const { return origin_us_.value_or(0); }
  std::int64_t begin_ps() const { return begin_ps_; }
  std::int64_t end_ps() const { return end_ps_; }

 private:
  // The most that marks, open events and metadata may take.
  static constexpr std::size_t kMaxMarkBytes = 16 << 20, kMaxOpenBytes = 8 << 20,
                               kMaxMetadataBytes = 4 << 20;
  // What an entry takes beside its texts.
  static constexpr std::size_t kMetadataBytes = 128;

  // The newest event. Its arrows mostly follow it in the file, before the next event begins.
  struct Pending {
    Line* line = nullptr;
    std::int64_t begin_ps = 0;
    std::optional<std::int64_t> correlation{};
  };
  // A beginning or an end that stands apart. They are joined when all are known, or very many,
  // because files may have them in any order.
  struct Mark {
    std::int64_t at_ps = 0, name_id = 0;
    std::uint64_t name_hash = 0;  // 0: an end without a name.
    Line* line = nullptr;         // Null for the end of an asynchronous event.
    std::uint32_t key_size = 0, body_size = 0;
    std::uint64_t phase = 0;
  };

  void BeginTimes();
  void Take(const TraceEvent& event);
  std::optional<std::int64_t> TimeOf(const TraceEvent& event);
  Line& LineOf(const TraceEvent& event, EventKind& kind);
  void StartAgain(std::int64_t origin_us);
  static std::int64_t NameId(const TraceEvent& event, const Line& line);
  Line& LineOfUnknown(const TraceEvent& event, LineKey key);
  void BeginEvent(const TraceEvent& event, Line& line, std::int64_t begin_ps);
  void AddHead(const TraceEvent& event, const Line& line);
  void AddStats(const TraceEvent& event, EventKind kind, Line& line);
  void AddMembers(const TraceEvent& event, Line& line);
  void AddBoundFlow(const TraceEvent& event, Line& line);
  void AddDetails(const TraceEvent& event, EventKind kind, Line& line);
  void Write();
  void AppendTo(Line& line);

  void AddSpan(const TraceEvent& event);
  void AddInstant(const TraceEvent& event);
  void BeginSpan(const TraceEvent& event);
  void EndSpan(const TraceEvent& event);
  void AddAsync(const TraceEvent& event);
  void AddMark(const TraceEvent& event, std::int64_t at_ps, Line* line, std::string_view body);
  void AddEnd(const TraceEvent& event, std::int64_t at_ps, Line* line);
  void JoinMarks(std::size_t keep);
  void Join(const Mark& mark, std::string_view key, std::string_view body);
  void EndNewest(const Mark& mark, std::string_view body, std::vector<OpenSpan>& open);
  void Close(const OpenSpan& span, std::int64_t end_ps, std::string_view args);
  void LeaveOutUnusual();
  void AddFlow(const TraceEvent& event);
  std::uint64_t FlowId(std::string_view category, std::string_view id, std::string_view pid);
  void AddCorrelation(std::int64_t correlation, Line& line);
  void AddCounter(const TraceEvent& event);
  void AddMemory(const TraceEvent& event);
  void AddMetadata(const TraceEvent& event);
  template <typename Map, typename Change>
  void Rename(Map& map, const typename Map::key_type& key, std::size_t key_bytes, std::size_t most,
              const Change& change);
  void NameThread(const std::pair<std::string, std::string>& key, std::string name, bool stream);

  ReadReport& report_;
  NameTable table_{};
  // The ids of stats that many events have.
  const std::uint32_t category_id_ = table_.Id("cat"),
                      correlation_id_ = table_.Id("correlation_id"), flow_id_ = table_.Id("flow"),
                      flops_id_ = table_.Id("flops");
  Lines lines_{table_};
  std::map<std::string, std::string> processes_, device_labels_;
  std::map<std::pair<std::string, std::string>, ThreadInfo> threads_, streams_;
  std::deque<std::pair<std::string, std::string>> metadata_;  // Its texts do not move.
  std::set<std::pair<std::string_view, std::string_view>> kept_metadata_;
  std::size_t metadata_bytes_ = 0;

  // The first event's time may be an impossible one, from which all others would be too far away.
  FirstEvents first_;
  bool begun_ = false;  // The first events have been taken.
  std::optional<std::int64_t> origin_us_;
  UsualTimes times_;
  bool zero_is_lost_ = false;
  UsualTimes::Usual usual_;  // Known when all events are.
  std::int64_t begin_ps_ = 0, end_ps_ = 0;
  std::optional<Micros> window_begin_;

  EventBytes bytes_;
  Pending pending_;
  ByteChunks marks_;  // Each is followed by its key and its body.
  bool marks_in_order_ = true;
  std::int64_t async_mark_ps_ = Line::kNever;  // The time of the newest one.
  FlowEnds flow_ends_;                         // Ends that followed no event which they belong to.
  std::unordered_map<std::string, std::vector<OpenSpan>> async_;  // See AsyncKey.
  std::size_t open_bytes_ = 0;
};

}  // namespace strobe::kineto
