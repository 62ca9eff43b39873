#include "sidecar/source/inproc_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "collector/kineto/trace_file.h"
#include "common/base/capture_defaults.h"
#include "common/base/duration.h"
#include "common/base/file_descriptor.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "sidecar/session/trace_report.h"
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
// A program may hold its interpreter for that long.
constexpr Nanos kAskStepsFor = std::chrono::milliseconds(200);
constexpr std::size_t kAskers = 8;

// Opens a trace that a process left in the directory.
absl::StatusOr<FileDescriptor> OpenTrace(const std::string& directory, const std::string& name,
                                         std::uint64_t max_bytes) {
  const FileDescriptor folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  FileDescriptor file(
      openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  (void)unlinkat(folder.get(), name.c_str(), 0);
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0)
    return absl::NotFoundError("its trace cannot be opened");
  if (!S_ISREG(info.st_mode)) return absl::NotFoundError("its trace is no regular file");
  if (static_cast<std::uint64_t>(info.st_size) > max_bytes) {
    return absl::ResourceExhaustedError(
        StrCat("its trace has ", info.st_size, " bytes, allowed are ", max_bytes));
  }
  return file;
}

absl::StatusOr<std::size_t> ReadSome(int file, std::span<char> room) {
  const ssize_t size = read(file, room.data(), room.size());
  if (size < 0) return absl::UnavailableError("its trace cannot be read");
  return static_cast<std::size_t>(size);
}

// The trace as an XSpace.
absl::StatusOr<std::string> TakeTrace(const std::string& directory, const InprocAnswer& answer,
                                      std::uint64_t max_bytes) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenTrace(directory, answer.file, max_bytes));
  if (answer.format == "kineto") {
    kineto::ReadReport report;
    return kineto::ReadTraceFile([&](std::span<char> room) { return ReadSome(file.get(), room); },
                                 report,
                                 {.began_ns = answer.started_ns, .ended_ns = answer.stopped_ns});
  }
  std::string xspace;
  constexpr std::size_t kPiece = 1 << 20;
  while (true) {
    const std::size_t before = xspace.size();
    xspace.resize(before + kPiece);
    ASSIGN_OR_RETURN(const std::size_t size,
                     ReadSome(file.get(), std::span(xspace).subspan(before)));
    xspace.resize(before + size);
    if (size == 0) return xspace;
    if (xspace.size() > max_bytes) return absl::ResourceExhaustedError("its trace grows");
  }
}

FrameworkAnswer RecordOne(const std::string& directory, const v1::CapturePlan& plan,
                          const Announcement& process, std::uint64_t room,
                          const Cancellation& cancel, const Cancellation& terminate,
                          const InprocCallbacks& callbacks) {
  FrameworkAnswer answer{.address = process.label(),
                         .who = StrCat(process.framework, " in ", process.label())};
  const std::uint64_t xspace_bytes = plan.max_bytes() > 0 ? std::min(plan.max_bytes(), room) : room;
  const bool is_json = process.framework == "torch";
  const std::uint64_t max_bytes =
      is_json && xspace_bytes < (1ull << 61) ? kJsonPerXSpace * xspace_bytes : xspace_bytes;
  const InprocAnswer told = CallProcess(directory, process, InprocRequest(plan, process, max_bytes),
                                        cancel, terminate, callbacks);
  answer.verdict = told.verdict;
  if (!told.recorded) return answer;
  absl::StatusOr<std::string> trace = TakeTrace(directory, told, max_bytes);
  if (trace.ok() && trace->size() <= xspace_bytes) {
    answer.trace = *std::move(trace);
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

// Processes that do not tell the steps of the plan's loop are recorded by time. Returns the number
// of those that do.
std::size_t TakeStepsFromOthers(const std::string& directory,
                                const std::vector<Announcement>& processes,
                                std::vector<v1::CapturePlan>& plans) {
  std::atomic<std::size_t> stepping{0};
  ParallelFor(processes.size(), kAskers, [&](std::size_t i) {
    if (plans[i].steps() == 0) return;
    const auto told = AskSteps(directory, processes[i], kAskStepsFor);
    const bool tells = std::any_of(told.begin(), told.end(), [&](const v1::StepPace& pace) {
      return pace.loop() == plans[i].step_loop();
    });
    if (tells)
      ++stepping;
    else
      plans[i].set_steps(0);
  });
  return stepping;
}

}  // namespace

std::vector<Announcement> ToRecord(const v1::CapturePlan& plan, std::vector<Announcement> all) {
  const bool servers = !plan.framework_servers().empty();
  std::erase_if(all, [&](const Announcement& process) {
    // Its server knows no steps; the process itself begins at one.
    const bool by_server = !process.address.empty() && (plan.steps() == 0 || servers);
    return !process.trains || by_server || (servers && process.framework != "torch") ||
           (!plan.container().empty() && process.container != plan.container());
  });
  return all;
}

InprocSource::InprocSource(const Clock& clock, std::string directory)
    : clock_(clock), directory_(std::move(directory)) {}

std::vector<v1::Source> InprocSource::Probe(Nanos) {
  std::vector<v1::Source> sources;
  for (const Announcement& process : ToRecord({}, ReadAnnouncements(directory_))) {
    v1::Source& source = sources.emplace_back();
    source.set_kind(v1::SOURCE_FRAMEWORK);
    source.set_address(process.label());
    source.set_detail(StrCat(process.framework, " ", process.version));
    source.set_ready(true);
  }
  return sources;
}

std::vector<v1::StepPace> InprocSource::Steps() {
  std::vector<Announcement> processes = ReadAnnouncements(directory_);
  std::erase_if(processes, [](const Announcement& process) { return !process.trains; });
  std::vector<std::vector<v1::StepPace>> told(processes.size());
  ParallelFor(processes.size(), kAskers,
              [&](std::size_t i) { told[i] = AskSteps(directory_, processes[i], kAskStepsFor); });
  std::vector<v1::StepPace> all;
  for (std::vector<v1::StepPace>& loops : told)
    std::move(loops.begin(), loops.end(), std::back_inserter(all));
  return all;
}

// PyTorch needs tens of milliseconds when it prepares its first recording.
Nanos InprocSource::lead() const { return 2 * kProfilerSendAhead; }

Recording InprocSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                               const Cancellation& terminate,
                               const std::function<void()>& collecting) {
  const std::vector<Announcement> processes = ToRecord(plan, ReadAnnouncements(directory_));
  if (processes.empty()) {
    collecting();
    return {.outcome = Outcome::kNoSource,
            .message = "no process announced a profiler of its framework"};
  }
  RecordingTimes times(clock_, plan);
  times.Look();
  const v1::CapturePlan planned = session::OnClockSetBy(times.set(), plan);
  std::vector<v1::CapturePlan> plans(processes.size(), planned);
  const std::size_t stepping = TakeStepsFromOthers(directory_, processes, plans);
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
          RecordOne(directory_, plans[i - 1], processes[i - 1], room, cancel, terminate, callbacks);
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
  Recording joined = JoinAnswers(plan, times, room, std::move(answers));
  joined.stepping_processes = stepping;
  return joined;
}

}  // namespace strobe
