#include "sidecar/source/inproc/inproc_source.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/base/duration.h"
#include "common/base/log.h"
#include "common/base/parallel.h"
#include "common/base/strings.h"
#include "common/protocol/capture_defaults.h"
#include "common/text/safe_text.h"
#include "sidecar/capture/step_progress.h"
#include "sidecar/capture/trace_report.h"
#include "sidecar/source/agent/process_files.h"
#include "sidecar/source/agent/ring_files.h"
#include "sidecar/source/base/framework_answers.h"
#include "sidecar/source/base/memory_headroom.h"
#include "sidecar/source/base/recording_times.h"
#include "sidecar/source/inproc/inproc_call.h"
#include "sidecar/source/inproc/left_trace.h"

namespace strobe::source {
namespace {

using session::Recording;

constexpr std::string_view kTorch = "torch";

// What an inference server says of itself when it begins, and of its recording.
void AddEngine(const Announcement& process, const std::optional<v1::EngineWork>& work,
               FrameworkAnswer& answer) {
  if (!process.engine_note.empty())
    answer.note += StrCat(answer.note.empty() ? "" : "; ", process.engine_note);
  if (!work) return;
  v1::EngineWork& engine = answer.engine.emplace(*work);
  engine.set_program(CutUtf8(process.engine, 128));
}

FrameworkAnswer RecordOne(const std::string& directory, const v1::CapturePlan& plan,
                          const Announcement& process, const InprocLimits& limits,
                          const Cancellation& cancel, const Cancellation& terminate,
                          const InprocCallbacks& callbacks) {
  FrameworkAnswer answer{.address = process.label(),
                         .who = StrCat(process.framework, " in ", process.label()),
                         .rank = process.job_rank(),
                         .role = process.role,
                         .job_role = process.job_role,
                         .job_role_from = process.job_role_from,
                         .beside = process.beside,
                         .counts_steps = plan.steps() > 0};
  InprocLimits asked = limits;
  if (process.framework == kTorch) asked.max_bytes = MaxJson(limits.max_bytes);
  const InprocAnswer told = CallProcess(directory, process, InprocRequest(plan, process, asked),
                                        cancel, terminate, callbacks);
  answer.verdict = told.verdict;
  answer.note = told.note;
  if (told.rank) answer.rank = process.Numbered(told.rank);
  if (told.aside && process.beside) {
    answer.note = std::exchange(answer.verdict, {Outcome::kOk, ""}).message;
  }
  answer.stop_took_ns = told.stop_took_ns;
  AddEngine(process, told.engine, answer);
  if (told.recorded) {
    const Rank rank = process.job_rank();
    TakeLeftTrace(
        directory,
        {.name = told.file,
         .format = told.format,
         .started_ns = told.started_ns,
         .stopped_ns = told.stopped_ns,
         .container = process.container,
         .number = rank && !rank->local_rank_assumed() ? rank->local_rank() : process.pid},
        limits.max_bytes, plan.tracers(), answer);
  }
  return answer;
}

// The processes whose ring files tell that they use CUDA, whether the agent or their framework
// records the devices; see Announcement::process.
std::set<std::string> ProcessesWithCuda(const std::string& directory) {
  std::set<std::string> processes;
  for (const std::string& path : RingFiles(directory)) {
    const OpenedRings opened = OpenRings(path);
    if (opened.error != wire::RingFileError::kNone || !opened.lives) continue;
    const wire::FileHeader& header = *opened.rings.file.header();
    if (header.uses_cuda.load() != 0)
      processes.insert(StrCat(opened.pid, "-", std::uint32_t{header.process_began}));
  }
  return processes;
}

}  // namespace

Nanos LeadOf(const std::vector<Announcement>& processes, const std::set<std::string>& with_cuda) {
  // PyTorch needs tens of milliseconds when it prepares its first recording.
  constexpr Nanos kLead = 2 * kProfilerSendAhead;
  // CUPTI needs a second to start, and more when a process loads it for the first time. Kineto's
  // own protocol warms up for whole seconds; TorchRecorder.prepare_ahead_ns is the same number.
  constexpr Nanos kCuptiStart = std::chrono::seconds(2);
  const bool cupti = std::any_of(processes.begin(), processes.end(), [&](const auto& process) {
    return process.framework == kTorch && process.trains && with_cuda.contains(process.process());
  });
  return cupti ? kLead + kCuptiStart : kLead;
}

v1::CapturePlan PlanFor(const Announcement& process, v1::CapturePlan plan) {
  const auto& tellers = plan.step_tellers();
  if (std::find(tellers.begin(), tellers.end(), process.socket) == tellers.end()) plan.set_steps(0);
  return plan;
}

InprocSource::InprocSource(const Clock& clock, std::string directory, bool may_stall)
    : clock_(clock), directory_(std::move(directory)), may_stall_(may_stall) {}

std::vector<Announcement> InprocSource::Announced(const v1::CapturePlan& plan) const {
  std::vector<Announcement> announced = ReadAnnouncements(directory_);
  const bool kineto_is_asked = kineto_filter_ && plan.container().empty();
  return kineto_is_asked ? kineto_filter_(std::move(announced)) : announced;
}

WorkerProcesses InprocSource::Processes() {
  if (directory_.empty()) return {};
  std::vector<FailedStart> failed = TakeFailedStarts(directory_);
  {
    MutexLock lock(&mutex_);
    std::set<std::string> logged;
    for (const FailedStart& start : failed) {
      if (!logged_.contains(start.process))
        LogWarning("a program cannot be recorded by its framework",
                   {{"process", start.process}, {"error", start.message}});
      if (start.lives) logged.insert(start.process);
    }
    logged_ = std::move(logged);
  }
  WorkerProcesses processes{ReadAnnouncements(directory_), {}};
  processes.failed = LivingAndUnannounced(std::move(failed), processes.announced);
  return processes;
}

std::vector<v1::Source> InprocSource::Probe(Nanos) {
  std::vector<v1::Source> sources;
  for (const Announcement& process : InprocTargets({}, Announced({}))) {
    v1::Source& source = sources.emplace_back();
    source.set_kind(v1::SOURCE_FRAMEWORK);
    source.set_address(process.label());
    source.set_detail(StrCat(process.framework, " ", process.version,
                             process.note.empty() ? "" : ": ", process.note));
    source.set_ready(true);
    if (const Rank rank = process.job_rank()) *source.add_ranks() = *rank;
  }
  for (const FailedStart& failed : Processes().failed) {
    v1::Source& source = sources.emplace_back();
    source.set_kind(v1::SOURCE_FRAMEWORK);
    source.set_address(StrCat("process ", failed.pid()));
    source.set_detail(StrCat("Strobe's part could not start: ", failed.message));
  }
  return sources;
}

std::vector<v1::StepPace> InprocSource::Steps() {
  const std::int64_t offset = WallLessMonotonic(clock_).count();
  const FileDescriptor directory(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<v1::StepPace> told;
  for (const Announcement& process : Announced({})) {
    if (process.trains) AddStepsOf(directory, process, offset, told);
  }
  return told;
}

std::vector<session::EngineReading> InprocSource::Engines() {
  const FileDescriptor directory(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<session::EngineReading> told;
  for (const Announcement& process : Announced({})) AddEngineOf(directory, process, told);
  return told;
}

Nanos InprocSource::lead() const { return LeadOf(Announced({}), ProcessesWithCuda(directory_)); }

std::vector<Recording> InprocSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                            const Cancellation& terminate,
                                            const std::function<void()>& collecting) {
  const std::vector<Announcement> processes = InprocTargets(plan, Announced(plan));
  if (processes.empty()) {
    collecting();
    return session::OneRecording({.outcome = Outcome::kNoSource,
                                  .message = "no process announced its framework's profiler"});
  }
  RecordingTimes times(clock_, plan);
  times.Look();
  const v1::CapturePlan planned = session::OnClockSetBy(times.set(), plan);
  std::vector<v1::CapturePlan> plans;
  for (const Announcement& process : processes) plans.push_back(PlanFor(process, planned));
  const std::uint64_t room = MemoryHeadroom(kTraceCopies * processes.size());
  const InprocLimits limits{.max_bytes = MaxTrace(plan, room), .may_stall = may_stall_};
  std::atomic<std::size_t> recording{processes.size()};
  Cancellation ended;
  const CancellationLink cancelled(cancel, ended), terminated(terminate, ended);
  const auto stopped = [&] {
    if (--recording > 0) return;
    ended.Cancel();
    collecting();
  };
  const InprocCallbacks callbacks{.until_deadline = [&times] { return times.UntilDeadline(); },
                                  .stopped = stopped};
  // Waits if another source needs more time ahead, because preparing early would only keep the
  // profiler from the program. Steps may come earlier than expected.
  const Nanos ahead = lead() + (plan.steps() > 0 ? session::kStepsMayHurry : Nanos{0});
  (void)cancel.WaitFor(std::max(times.UntilStart() - ahead, Nanos{0}));
  std::vector<FrameworkAnswer> answers(processes.size());
  // The first task watches the clock; the others talk to a process each.
  ParallelFor(processes.size() + 1, processes.size() + 1, [&](std::size_t i) {
    if (i > 0) {
      answers[i - 1] = RecordOne(directory_, plans[i - 1], processes[i - 1], limits, cancel,
                                 terminate, callbacks);
      return;
    }
    while (!ended.WaitFor(times.UntilNextLook())) times.Look();
    if (terminate.cancelled()) times.StopNow();
    times.Finish();
  });
  std::vector<Recording> recordings = JoinAnswers(plan, times, room, std::move(answers));
  const bool has_torch_options =
      std::any_of(processes.begin(), processes.end(),
                  [](const Announcement& process) { return process.framework == kTorch; });
  for (Recording& recorded : recordings) recorded.has_torch_options = has_torch_options;
  return recordings;
}

}  // namespace strobe::source
