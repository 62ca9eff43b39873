// The events of a trace file whose beginning and end are written apart.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/trace/kineto/byte_chunks.h"
#include "collector/trace/kineto/event_bytes.h"
#include "collector/trace/kineto/lines.h"
#include "collector/trace/kineto/read_report.h"
#include "collector/trace/kineto/trace_event.h"
#include "collector/trace/kineto/usual_times.h"

namespace strobe::kineto {

// Beginnings and ends are joined when all are known, or very many, because files may have them in
// any order.
class OpenSpans {
 public:
  OpenSpans(const EventTimes& times, ReadReport& report) : times_(times), report_(report) {}

  // `stats`: those of the event, encoded.
  void AddBegin(const TraceEvent& event, std::int64_t at_ps, Line& line, std::string_view stats) {
    AddMark(event, at_ps, &line, stats);
  }
  // `line`: null for an asynchronous event, which may end anywhere.
  void AddEnd(const TraceEvent& event, std::int64_t at_ps, Line* line);
  // Forgets all.
  void Clear(const Lines& lines);
  // Joins all. Events that do not end last until `end_ps`.
  void Finish(const Lines& lines, const UsualTimes::Usual& usual, std::int64_t end_ps);

 private:
  // The most that marks and open events may take.
  static constexpr std::size_t kMaxMarkBytes = 16 << 20, kMaxOpenBytes = 8 << 20;

  // A beginning or an end.
  struct Mark {
    std::int64_t at_ps = 0, name_id = 0;
    std::uint64_t name_hash = 0;  // 0: an end without a name.
    Line* line = nullptr;         // Null for the end of an asynchronous event.
    std::uint32_t key_size = 0, body_size = 0;
    std::uint64_t phase = 0;
  };

  void AddMark(const TraceEvent& event, std::int64_t at_ps, Line* line, std::string_view body);
  void JoinMarks(std::size_t keep, const UsualTimes::Usual& usual);
  void Join(const Mark& mark, std::string_view key, std::string_view body);
  void EndNewest(const Mark& mark, std::string_view body, std::vector<OpenSpan>& open);
  void Close(const OpenSpan& span, std::int64_t end_ps, std::string_view args);

  const EventTimes& times_;
  ReadReport& report_;
  ByteChunks marks_{};  // Each is followed by its key and its body.
  bool in_order_ = true;
  std::int64_t async_mark_ps_ = Line::kNever;                       // The time of the newest one.
  std::unordered_map<std::string, std::vector<OpenSpan>> async_{};  // See AsyncKey.
  std::size_t open_bytes_ = 0;
  EventBytes bytes_{};
};

}  // namespace strobe::kineto
