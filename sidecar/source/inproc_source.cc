#include "sidecar/source/inproc_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "collector/kineto/trace_file.h"
#include "collector/storage/beneath.h"
#include "common/base/capture_defaults.h"
#include "common/base/duration.h"
#include "common/base/file_descriptor.h"
#include "common/base/log.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "sidecar/session/trace_report.h"
#include "sidecar/source/failed_starts.h"
#include "sidecar/source/framework_answers.h"
#include "sidecar/source/inproc_call.h"
#include "sidecar/source/memory_room.h"
#include "sidecar/source/recording_times.h"

namespace strobe {
namespace {

using session::Recording;

// The XSpace is in memory three times while it is made and joined. Kineto's JSON is read as a
// stream, and has several times the size of its XSpace.
constexpr std::uint64_t kCopies = 3;
constexpr std::uint64_t kJsonPerXSpace = 4;
constexpr std::string_view kTorch = "torch", kKineto = "kineto";
// All released versions up to 2.15 are such.
constexpr std::string_view kNoMemory =
    "no allocation was recorded: PyTorch without the fix of its issue 166121 records none where it "
    "records all threads";

// Opens a trace that a process left in the directory. The file is then ours alone, and gone when it
// is closed.
absl::StatusOr<FileDescriptor> OpenTrace(const std::string& directory, const std::string& name,
                                         std::uint64_t max_bytes) {
  ASSIGN_OR_RETURN(const FileDescriptor folder, OpenFolder(directory, "", Missing::kIsAnError));
  absl::StatusOr<FileDescriptor> file = OpenFileIn(folder, name);
  (void)unlinkat(folder.get(), name.c_str(), 0);
  struct stat info {};
  if (file.ok() && fstat(file->get(), &info) == 0 &&
      static_cast<std::uint64_t>(info.st_size) > max_bytes) {
    return absl::ResourceExhaustedError(
        StrCat("its trace has ", info.st_size, " bytes, allowed are ", max_bytes));
  }
  return file;
}

// The trace as an XSpace. `report` tells what was read of Kineto's format.
absl::StatusOr<std::string> ReadTrace(const FileDescriptor& file, const InprocAnswer& answer,
                                      std::uint64_t max_bytes, kineto::ReadReport& report) {
  if (answer.format == kKineto) {
    return kineto::ReadTraceFile([&](std::span<char> room) { return ReadSome(file, room); }, report,
                                 {.began_ns = answer.started_ns, .ended_ns = answer.stopped_ns});
  }
  std::string xspace;
  constexpr std::size_t kPiece = 1 << 20;
  while (true) {
    const std::size_t before = xspace.size();
    xspace.resize(before + kPiece);
    ASSIGN_OR_RETURN(const std::size_t size, ReadSome(file, std::span(xspace).subspan(before)));
    xspace.resize(before + size);
    if (size == 0) return xspace;
    if (xspace.size() > max_bytes) return absl::ResourceExhaustedError("its trace grows");
  }
}

// Tells a process's file from those of the worker's other processes.
std::string FileSuffix(const Announcement& process) {
  const std::uint32_t number = process.local_rank.value_or(process.pid);
  return StrCat(process.container, process.container.empty() ? "" : ".", number);
}

FrameworkAnswer RecordOne(const std::string& directory, const v1::CapturePlan& plan,
                          const Announcement& process, std::uint64_t room,
                          const Cancellation& cancel, const Cancellation& terminate,
                          const InprocCallbacks& callbacks) {
  FrameworkAnswer answer{.address = process.label(),
                         .who = StrCat(process.framework, " in ", process.label()),
                         .rank = process.place()};
  const std::uint64_t xspace_bytes = plan.max_bytes() > 0 ? std::min(plan.max_bytes(), room) : room;
  const bool is_json = process.framework == kTorch;
  const std::uint64_t max_bytes =
      is_json && xspace_bytes < (1ull << 61) ? kJsonPerXSpace * xspace_bytes : xspace_bytes;
  const InprocAnswer told = CallProcess(directory, process, InprocRequest(plan, process, max_bytes),
                                        cancel, terminate, callbacks);
  answer.verdict = told.verdict;
  answer.note = told.note;
  answer.stop_took_ns = told.stop_took_ns;
  if (!told.recorded) return answer;
  absl::StatusOr<FileDescriptor> file = OpenTrace(directory, told.file, max_bytes);
  kineto::ReadReport report;
  absl::StatusOr<std::string> trace =
      file.ok() ? ReadTrace(*file, told, max_bytes, report) : file.status();
  if (trace.ok() && trace->size() <= xspace_bytes) {
    answer.trace = *std::move(trace);
    if (plan.tracers().memory() && told.format == kKineto && report.allocations == 0)
      answer.note += StrCat(answer.note.empty() ? "" : "; ", kNoMemory);
    if (plan.tracers().keep_original() && told.format == kKineto)
      answer.original = {process.label(), FileSuffix(process), *std::move(file)};
  } else if (trace.ok() || absl::IsResourceExhausted(trace.status())) {
    answer.verdict = {
        Outcome::kTruncated,
        StrCat(answer.who, ": the trace is too large; allowed are ", xspace_bytes, " bytes")};
  } else {
    answer.verdict = {Outcome::kProfilerStartFailed,
                      StrCat(answer.who, ": ", MessageOf(trace.status()))};
  }
  return answer;
}

}  // namespace

std::vector<Announcement> ToRecord(const v1::CapturePlan& plan, std::vector<Announcement> all) {
  // Containers of a pod share its ports, so servers are not asked if the plan names one of them.
  const bool servers_are_asked = plan.container().empty();
  std::erase_if(all, [&](const Announcement& process) {
    return !process.trains || (servers_are_asked && !process.address.empty()) ||
           (!plan.container().empty() && process.container != plan.container()) ||
           !IsWanted(plan, process.place());
  });
  return all;
}

InprocSource::InprocSource(const Clock& clock, std::string directory)
    : clock_(clock), directory_(std::move(directory)) {}

std::vector<v1::Source> InprocSource::Probe(Nanos) {
  for (const FailedStart& failed : TakeFailedStarts(directory_)) {
    LogWarning("a program cannot be recorded by its framework",
               {{"process", failed.process}, {"error", failed.message}});
  }
  std::vector<v1::Source> sources;
  for (const Announcement& process : ToRecord({}, ReadAnnouncements(directory_))) {
    v1::Source& source = sources.emplace_back();
    source.set_kind(v1::SOURCE_FRAMEWORK);
    source.set_address(process.label());
    source.set_detail(StrCat(process.framework, " ", process.version));
    source.set_ready(true);
    if (const Rank rank = process.place()) *source.add_ranks() = *rank;
  }
  return sources;
}

// PyTorch needs tens of milliseconds when it prepares its first recording.
Nanos InprocSource::lead() const { return 2 * kProfilerSendAhead; }

std::vector<Recording> InprocSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                            const Cancellation& terminate,
                                            const std::function<void()>& collecting) {
  const std::vector<Announcement> processes = ToRecord(plan, ReadAnnouncements(directory_));
  if (processes.empty()) {
    collecting();
    return session::OneRecording({.outcome = Outcome::kNoSource,
             .message = "no process announced a profiler of its framework"});
  }
  RecordingTimes times(clock_, plan);
  times.Look();
  const v1::CapturePlan planned = session::OnClockSetBy(times.set(), plan);
  const std::uint64_t room = MemoryRoom(kCopies * processes.size());
  std::atomic<std::size_t> recording{processes.size() + 1};
  const auto stopped = [&] {
    if (--recording == 0) collecting();
  };
  const InprocCallbacks callbacks{.until_deadline = [&times] { return times.UntilDeadline(); },
                                  .stopped = stopped};
  std::vector<FrameworkAnswer> answers(processes.size());
  std::atomic<bool> ended{false};
  // The first task watches the clock; the others talk to a process each.
  ParallelFor(processes.size() + 1, processes.size() + 1, [&](std::size_t i) {
    if (i > 0) {
      answers[i - 1] =
          RecordOne(directory_, planned, processes[i - 1], room, cancel, terminate, callbacks);
      return;
    }
    constexpr Nanos kEvery = std::chrono::milliseconds(10);
    while (recording > 1 && !cancel.WaitFor(kEvery)) {
      if (terminate.cancelled() && !ended.exchange(true)) times.StopNow();
      times.Look();
    }
    times.Ended();
    stopped();
  });
  std::vector<Recording> recordings = JoinAnswers(plan, times, room, std::move(answers));
  const bool has_torch_options =
      std::any_of(processes.begin(), processes.end(),
                  [](const Announcement& process) { return process.framework == kTorch; });
  for (Recording& recorded : recordings) recorded.has_torch_options = has_torch_options;
  return recordings;
}

}  // namespace strobe
