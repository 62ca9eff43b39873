#include "collector/trace/kineto/trace_file.h"

#include <utility>

#include "collector/trace/kineto/event_reader.h"
#include "collector/trace/kineto/event_splitter.h"
#include "collector/trace/kineto/gunzip.h"
#include "collector/trace/kineto/json_space.h"
#include "collector/trace/kineto/trace_planes.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

// A member's value, with the same white space in every file.
std::string Evenly(std::string_view value) {
  const bool nested = value.starts_with('[') || value.starts_with('{');
  std::string even;
  if (!nested || IsEvenlySpaced(value)) return std::string(value);
  AppendEvenlySpaced(value, even);
  return even;
}

class TraceFileReader {
 public:
  explicit TraceFileReader(ReadReport& report) : report_(report) {}

  absl::Status Read(const Source& source) {
    Gunzip input(source);
    for (;;) {
      ASSIGN_OR_RETURN(const std::size_t bytes, input.Read(splitter_.WriteSpace()));
      report_.bytes += bytes;
      if (bytes == 0) splitter_.EndInput();
      splitter_.Commit(bytes);
      RETURN_IF_ERROR(Take());
      if (bytes == 0) break;
    }
    report_.compressed_cut = input.damaged();
    planes_.Finish();
    Count();
    if (has_samples_ && !has_others_)
      return absl::DataLossError(
          "the file holds only samples of stacks, no events with times; Chrome's DevTools or "
          "https://www.speedscope.app open it");
    const TopLevel& top = splitter_.top();
    if (!splitter_.read_events() && top.begun() && !top.done())
      return absl::DataLossError(ToAbsl(StrCat(
          "the file is cut before its first event, so that nothing can be shown; ", kCutRemedy)));
    if (!splitter_.read_events())
      return absl::DataLossError("the file has no traceEvents: it is no trace in Chrome's format");
    return absl::OkStatus();
  }
  SpaceWriter Writer(const RecordedWindow& known) {
    return SpaceWriter(planes_, members_, report_, known);
  }

 private:
  // The most that members beside the events may take.
  static constexpr std::size_t kMaxMemberBytes = 4 << 20;

  absl::Status Take() {
    for (;;) {
      switch (splitter_.Next()) {
        case EventSplitter::Found::kMoreNeeded:
        case EventSplitter::Found::kEnd:
          return absl::OkStatus();
        case EventSplitter::Found::kNotJson:
          return absl::DataLossError("the file is neither JSON nor an XSpace");
        case EventSplitter::Found::kMember:
          TakeMember();
          break;
        case EventSplitter::Found::kEvents:
          TakeEvents();
          break;
      }
    }
  }

  void Add(const TraceEvent& event) {
    has_samples_ |= event.phase == 'P';
    // Metadata and marks of one instant come with samples too.
    has_others_ |= std::string_view("PMIiR").find(event.phase) == std::string_view::npos;
    planes_.Add(event);
  }

  void TakeMember() {
    const TopLevel& top = splitter_.top();
    has_samples_ |= top.key() == "samples" && top.value().size() > 2;
    member_bytes_ += top.key().size() + top.value().size();
    if (top.value_cut() || member_bytes_ > kMaxMemberBytes) ++report_.cut_values;
    if (member_bytes_ <= kMaxMemberBytes) members_.emplace_back(top.key(), Evenly(top.value()));
    if (top.key() == "schemaVersion") planes_.ZeroIsLost();  // Kineto's.
  }

  // Parses the events at once. If one is malformed, the others are parsed one by one.
  void TakeEvents() {
    const std::span<const EventExtent> events = splitter_.events();
    char* const buffer = splitter_.buffer();
    char& before = buffer[events.front().begin - 1];
    char& behind = buffer[events.back().end];
    const char was_before = std::exchange(before, '['), was_behind = std::exchange(behind, ']');
    const std::string_view all(&before, events.back().end - events.front().begin + 2);
    const std::size_t read =
        reader_.ReadArray(all, [this](const TraceEvent& event) { Add(event); });
    before = was_before;
    behind = was_behind;
    for (std::size_t i = read; i < events.size(); ++i) {
      const EventExtent extent = events[i];
      const std::string_view json(buffer + extent.begin, extent.end - extent.begin);
      if (const TraceEvent* event = reader_.ReadOne(json)) {
        Add(*event);
      } else if (splitter_.Reread(extent)) {
        return;
      }
    }
  }

  void Count() {
    report_.malformed = splitter_.damage().pieces;
    report_.malformed_bytes = splitter_.damage().bytes;
    report_.malformed_at = splitter_.damage().first_at;
    report_.too_large = splitter_.too_large();
    report_.repaired = reader_.repaired();
    report_.stray_bytes = splitter_.stray_brackets() + splitter_.top().stray_bytes();
    // Chrome permits that the array's end is missing.
    const bool is_cut = splitter_.cut() || !splitter_.top().done() ||
                        (report_.compressed_cut && splitter_.array_open());
    report_.cut = is_cut && !splitter_.damage().at_end;
  }

  ReadReport& report_;
  EventSplitter splitter_{};
  EventReader reader_{};
  TracePlanes planes_{report_};
  FileMembers members_{};
  std::size_t member_bytes_ = 0;
  bool has_samples_ = false, has_others_ = false;  // Were there any, and other events than marks?
};

}  // namespace

bool IsTraceFileName(std::string_view name) {
  return name.ends_with(".json") || name.ends_with(".json.gz");
}

absl::StatusOr<std::string> ReadTraceFile(const Source& source, ReadReport& report,
                                          const RecordedWindow& known) {
  TraceFileReader reader(report);
  RETURN_IF_ERROR(reader.Read(source));
  return reader.Writer(known).Encode();
}

}  // namespace strobe::kineto
