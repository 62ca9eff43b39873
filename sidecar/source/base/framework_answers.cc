#include "sidecar/source/base/framework_answers.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/slice.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "collector/store/logdir.h"
#include "collector/store/timed_file_store.h"
#include "collector/trace/analysis/judge.h"
#include "collector/trace/xplane/edit.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/summary.h"
#include "common/base/duration.h"
#include "common/base/strings.h"
#include "sidecar/source/base/engine_work.h"
#include "sidecar/source/base/process_reports.h"
#include "tensorflow/profiler_service.pb.h"

namespace strobe::source {
namespace {

using session::Recording;
using xplane::TraceSummary;

// Reads the trace that an older server wrote to the shared directory, under any file name. The
// trainer can write there too, so the entry may be large or not a regular file.
CallVerdict TakeSharedTrace(const SharedTraces& shared, const std::string& session_id,
                            std::string& trace) {
  if (shared.directory.empty())
    return {Outcome::kVersionMismatch, std::string(kCannotAnswerWithTrace)};
  const std::unique_ptr<storage::ObjectStore> store =
      storage::OpenFileStore(shared.directory, shared.limits);
  const absl::StatusOr<std::vector<storage::StoredObject>> files =
      storage::ListAll(*store, session_id + "/");
  CallVerdict verdict = {
      Outcome::kVersionMismatch,
      StrCat("neither returned its trace nor wrote one below ", shared.directory, "/", session_id,
             "; mount the shared directory at the same path in both containers")};
  if (!files.ok()) verdict = {Outcome::kProfilerStartFailed, MessageOf(files.status())};
  std::vector<std::string> keys;
  for (const storage::StoredObject& file :
       files.ok() ? *files : std::vector<storage::StoredObject>()) {
    keys.push_back(file.key);
    if (!file.key.ends_with(storage::kTraceSuffix) || file.bytes == 0) continue;
    if (file.bytes > shared.max_bytes) {
      verdict = {Outcome::kTruncated, StrCat("wrote a trace of ", file.bytes, " bytes")};
      continue;
    }
    absl::StatusOr<std::string> text = storage::GetText(*store, file.key, file.bytes);
    if (text.ok()) {
      trace = *std::move(text);
      verdict = {Outcome::kOk, ""};
    } else {
      verdict = {Outcome::kProfilerStartFailed, MessageOf(text.status())};
    }
  }
  (void)store->Delete(keys);  // Also removes the empty directory.
  return verdict;
}

// A recording that ended early, for example, has both a trace and a verdict.
bool HasTrace(const FrameworkAnswer& answer) {
  return answer.verdict.outcome == Outcome::kOk || !answer.trace.empty();
}

bool HasDevice(const TraceSummary& summary) {
  return std::any_of(summary.planes.begin(), summary.planes.end(),
                     [](const auto& plane) { return xplane::IsDevicePlane(plane.name); });
}

// Converts the trace's times to the wall clock as it was when the plan was made.
void CorrectTimes(const RecordingTimes& times, Nanos set_at_start, TraceSummary& summary) {
  if (summary.started_ns != 0) summary.started_ns -= set_at_start.count();
  if (summary.stopped_ns != 0) summary.stopped_ns -= times.SetAtStop().count();
}

analysis::Judgement JudgeProcess(const v1::CapturePlan& plan, const RecordingTimes& times,
                                 const FrameworkAnswer& answer, const TraceSummary& summary,
                                 bool expects_device) {
  const std::string& who = answer.who;
  std::optional<analysis::Window> window;
  // Whether the plan's steps were recorded is judged by the steps in the trace.
  if (plan.steps() == 0)
    window = analysis::Window{FromUnixNanos(plan.instant_ns()), times.Recorded()};
  if (answer.age != ServerAge::kSince2026)
    return {Outcome::kVersionMismatch, StrCat(who, " ", WhyNoHostTracing(answer.age))};
  analysis::Judgement judged = analysis::JudgeTrace(
      summary,
      {.window = window, .expects_device = expects_device, .host_level = plan.tracers().host()});
  const Nanos set = times.set_while_recording();
  const int badness = Describe(judged.outcome).badness;
  if (set != Nanos{0} && badness <= Describe(Outcome::kLateStart).badness) {
    judged.outcome = Outcome::kLateStart;
    judged.message = StrCat("the wall clock was set by ", FormatDuration(set),
                            " during the recording; later events are misplaced in the trace",
                            judged.message.empty() ? "" : "; ", judged.message);
  }
  if (judged.outcome == Outcome::kNoHostEvents && answer.engine && HadNoRequests(*answer.engine))
    judged.message = EngineWords(*answer.engine);
  if (!judged.message.empty()) judged.message = StrCat(who, ": ", judged.message);
  return judged;
}

v1::ProcessReport ReportOf(const FrameworkAnswer& answer, const TraceSummary& summary) {
  v1::ProcessReport row;
  row.set_name(answer.address);
  row.set_source(v1::SOURCE_FRAMEWORK);
  row.set_outcome(static_cast<v1::Outcome>(answer.verdict.outcome));
  row.set_message(answer.verdict.message);
  row.set_started_ns(summary.started_ns);
  row.set_stopped_ns(summary.stopped_ns);
  row.set_events(summary.events);
  if (answer.rank) *row.mutable_rank() = *answer.rank;
  row.set_note(answer.note);
  if (answer.engine) *row.mutable_engine() = *answer.engine;
  row.set_role(answer.job_role);
  row.set_role_from(answer.job_role_from);
  row.set_stop_took_ns(answer.stop_took_ns);
  if (answer.reached_back_ns) row.set_reached_back_ns(*answer.reached_back_ns);
  return row;
}

// The note of a framework whose trace is empty beside that of another one of its process. The whole
// trace is judged afterwards: one of the frameworks must have recorded something.
constexpr std::string_view kUnused = "this framework recorded nothing";

void AddNote(std::string_view more, std::string& note) {
  note += StrCat(note.empty() ? "" : "; ", more);
}

// Appends a trace to `whole`. With several processes, their address is added to the names of the
// planes.
absl::Status AddTrace(std::string trace, const std::string& tag, bool several, std::string& whole) {
  if (several) return xplane::AppendXSpace(trace, tag, whole);
  whole = std::move(trace);
  return absl::OkStatus();
}

// An answer and what its trace contains.
struct ReadAnswer {
  FrameworkAnswer answer{};
  TraceSummary summary{};
  bool left_out = false;
};

void FailToRead(const absl::Status& status, FrameworkAnswer& answer) {
  answer.trace.clear();
  answer.verdict = {Outcome::kProfilerStartFailed,
                    StrCat(answer.who, " sent no trace: ", status.message())};
}

ReadAnswer Read(std::uint64_t max_memory, FrameworkAnswer answer) {
  ReadAnswer read{std::move(answer), {}};
  if (!HasTrace(read.answer)) return read;
  absl::StatusOr<TraceSummary> summary = xplane::Summarize(read.answer.trace, max_memory);
  if (summary.ok())
    read.summary = *std::move(summary);
  else
    FailToRead(summary.status(), read.answer);
  if (read.answer.nothing_recorded) read.summary.events = 0;
  return read;
}

// Whatever became of a companion is no fault of the capture. One of which nothing was recorded is
// left out, and its row says why.
void ExcuseCompanion(ReadAnswer& read) {
  FrameworkAnswer& answer = read.answer;
  if (answer.role != Role::kCompanion || answer.verdict.outcome == Outcome::kOk) return;
  const bool idle = answer.verdict.outcome == Outcome::kNoHostEvents;
  read.left_out = idle || answer.trace.empty();
  const std::string why = idle ? "it ran nothing, joined no process group and told no step, beside "
                                 "processes that did"
                               : answer.verdict.message;
  const std::string_view what = read.left_out ? kLeftOut : "no part of the outcome: ";
  answer.note = StrCat(what, why, answer.note.empty() ? "" : "; ", answer.note);
  answer.verdict = {Outcome::kOk, ""};
  if (!read.left_out) return;
  answer.trace.clear();
  answer.stop_took_ns = 0;
  answer.original = {};
  read.summary = {};
}

// Joins the answers of one local rank.
Recording JoinOfRank(const v1::CapturePlan& plan, const RecordingTimes& times,
                     std::vector<ReadAnswer> answers) {
  Recording recording{.outcome = Outcome::kOk, .clock_set_at_stop = times.SetAtStop()};
  // A missing device plane is a fault only if no process of the worker has one, because another
  // process may have recorded the device.
  const bool devices = std::any_of(answers.begin(), answers.end(),
                                   [](const ReadAnswer& read) { return HasDevice(read.summary); });
  for (ReadAnswer& read : answers) {
    FrameworkAnswer& answer = read.answer;
    if (HasTrace(answer)) {
      const Nanos set_at_start = times.SetAtStart(FromUnixNanos(read.summary.started_ns));
      CorrectTimes(times, set_at_start, read.summary);
      const analysis::Judgement judged =
          JudgeProcess(plan, times, answer, read.summary, devices && plan.expects_device());
      if (answer.beside && judged.outcome == Outcome::kNoHostEvents)
        AddNote(kUnused, answer.note);
      else if (Describe(judged.outcome).badness > Describe(answer.verdict.outcome).badness)
        answer.verdict = {judged.outcome, judged.message};
      recording.clock_set_at_start = set_at_start;
      if (answer.engine && judged.outcome != Outcome::kNoHostEvents)
        answer.note =
            StrCat(EngineWords(*answer.engine), answer.note.empty() ? "" : "; ", answer.note);
    }
    ExcuseCompanion(read);
  }
  const auto asked = std::count_if(answers.begin(), answers.end(),
                                   [](const ReadAnswer& read) { return !read.left_out; });
  for (ReadAnswer& read : answers) {
    FrameworkAnswer& answer = read.answer;
    if (HasTrace(answer) && !read.left_out) {
      const absl::Status added =
          AddTrace(std::move(answer.trace), answer.address, asked > 1, recording.xspace);
      if (!added.ok()) FailToRead(added, answer);
    }
    if (answer.counts_steps) ++recording.stepping_processes;
    recording.processes.push_back(ReportOf(answer, read.summary));
    if (answer.original.file.get() >= 0) recording.originals.push_back(std::move(answer.original));
  }
  ConcludeProcesses(recording);
  return recording;
}

using google::protobuf::internal::WireFormatLite;

// After so many bytes, freed memory is returned to the system. The allocator would keep it.
constexpr std::size_t kTrimEvery = std::size_t{16} << 20;

// Reads slices and frees each after it has been read.
class SliceStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit SliceStream(std::vector<grpc::Slice> slices) : slices_(std::move(slices)) {}

  bool Next(const void** data, int* size) override {
    while (number_ < slices_.size() && at_ == slices_[number_].size()) FreeSlice();
    if (number_ == slices_.size()) return false;
    *data = slices_[number_].begin() + at_;
    *size = static_cast<int>(slices_[number_].size() - at_);
    at_ = slices_[number_].size();
    read_ += *size;
    return true;
  }

  void BackUp(int count) override {
    at_ -= static_cast<std::size_t>(count);
    read_ -= count;
  }

  bool Skip(int count) override {
    const void* data = nullptr;
    int size = 0;
    while (Next(&data, &size)) {
      if (size >= count) {
        BackUp(size - count);
        return true;
      }
      count -= size;
    }
    return false;
  }

  std::int64_t ByteCount() const override { return read_; }

 private:
  void FreeSlice() {
    freed_ += slices_[number_].size();
    slices_[number_++] = grpc::Slice();
    at_ = 0;
    if (freed_ >= kTrimEvery) {
      freed_ = 0;
      malloc_trim(0);
    }
  }

  std::vector<grpc::Slice> slices_;
  std::size_t number_ = 0, at_ = 0;  // The slice that is read, and how much of it was.
  std::size_t freed_ = 0;            // Since memory was returned.
  std::int64_t read_ = 0;
};

absl::Status Malformed() { return absl::InvalidArgumentError("the answer is malformed"); }

}  // namespace

FrameworkAnswer TakeAnswer(ProfileCalls::Call& call, const std::string& address,
                           const SharedTraces& shared) {
  FrameworkAnswer answer{.address = address, .who = StrCat("profiler server at ", address)};
  if (!call.status.ok()) {
    answer.verdict =
        JudgeCallFailure(call.status.error_code(), call.status.error_message(), address);
    return answer;
  }
  absl::StatusOr<std::optional<std::string>> xspace = TakeXSpace(call.response);
  if (!xspace.ok()) {
    answer.verdict = {Outcome::kProfilerStartFailed,
                      StrCat(answer.who, ": ", xspace.status().message())};
  } else if (*xspace) {
    answer.trace = **std::move(xspace);
  } else {
    answer.verdict = TakeSharedTrace(shared, call.request.session_id(), answer.trace);
    if (answer.verdict.outcome != Outcome::kOk)
      answer.verdict.message = StrCat(answer.who, " ", answer.verdict.message);
  }
  return answer;
}

std::vector<Recording> JoinAnswers(const v1::CapturePlan& plan, const RecordingTimes& times,
                                   std::uint64_t max_memory, std::vector<FrameworkAnswer> answers) {
  std::vector<Rank> ranks;
  std::vector<ReadAnswer> read;
  for (FrameworkAnswer& answer : answers) {
    ranks.push_back(answer.rank);
    read.push_back(Read(max_memory, std::move(answer)));
  }
  // Where another process was recorded, one that shows no sign of being a worker and ran nothing is
  // none.
  const bool any_recorded = std::any_of(read.begin(), read.end(), [](const ReadAnswer& one) {
    return one.summary.events > 0 && one.answer.verdict.outcome == Outcome::kOk;
  });
  for (ReadAnswer& one : read) {
    const bool idle = HasTrace(one.answer) && one.summary.events == 0;
    if (any_recorded && idle && one.answer.role == Role::kUnclear)
      one.answer.role = Role::kCompanion;
  }
  std::vector<Recording> recordings;
  for (const RankGroup& group : GroupByRank(plan, ranks)) {
    std::vector<ReadAnswer> of_rank;
    for (const std::size_t i : group.members) of_rank.push_back(std::move(read[i]));
    recordings.push_back(JoinOfRank(plan, times, std::move(of_rank)));
    recordings.back().rank = group.rank;
  }
  return recordings;
}

absl::StatusOr<std::optional<std::string>> TakeXSpace(grpc::ByteBuffer& answer) {
  constexpr std::uint32_t kXSpaceTag = WireFormatLite::MakeTag(
      tensorflow::ProfileResponse::kXspaceFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  std::vector<grpc::Slice> slices;
  if (!answer.Valid()) return std::nullopt;  // An answer without any field.
  if (const grpc::Status dumped = answer.Dump(&slices); !dumped.ok())
    return absl::InvalidArgumentError(
        StrCat("the answer cannot be read: ", dumped.error_message()));
  answer.Clear();
  std::int64_t size = 0;
  for (const grpc::Slice& slice : slices) size += static_cast<std::int64_t>(slice.size());

  SliceStream stream(std::move(slices));
  google::protobuf::io::CodedInputStream in(&stream);
  std::optional<std::string> xspace;
  while (const std::uint32_t tag = in.ReadTag()) {
    if (tag != kXSpaceTag) {
      if (!WireFormatLite::SkipField(&in, tag)) return Malformed();
      continue;
    }
    std::uint32_t length = 0;
    if (!in.ReadVarint32(&length) || length > size - in.CurrentPosition()) return Malformed();
    xspace.emplace();
    xspace->reserve(length);  // Its pages are used only when something is written to them.
    if (!in.ReadString(&*xspace, static_cast<int>(length))) return Malformed();
  }
  if (!in.ConsumedEntireMessage()) return Malformed();
  return xspace;
}

}  // namespace strobe::source
