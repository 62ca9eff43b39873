#include "sidecar/source/auto_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/xplane/edit.h"
#include "collector/trace/xplane/names.h"
#include "common/base/parallel.h"
#include "common/base/strings.h"
#include "sidecar/source/base/process_ranks.h"
#include "sidecar/source/base/process_reports.h"
#include "sidecar/source/base/reported_steps.h"
#include "sidecar/source/lost_worker.h"

namespace strobe::source {

using session::Recording;

namespace {

// The limit for probing a server in the same pod.
constexpr Nanos kLook = std::chrono::milliseconds(100);

struct Part {
  session::Source& source;
  std::string_view name;
  bool explains = true;  // Its message best explains why there is no recording.
  bool follows = false;  // Its processes tell no steps, and are recorded as long as the others.
  // It waits until the end for programs that begin during the window; see LostWorker.
  bool waits = false;
};

// What one part recorded of one worker.
struct Recorded {
  const Part* part = nullptr;
  Recording recording{};
};

// Joins what the parts recorded of one worker.
Recording JoinParts(std::vector<Recorded> recorded) {
  Recording joined = std::move(recorded.front().recording);
  for (std::size_t i = 1; i < recorded.size(); ++i) {
    auto& [part, recording] = recorded[i];
    const bool nobody = recording.outcome == Outcome::kNoSource && recording.processes.empty();
    if (nobody && !part->explains) continue;
    joined = JoinRecordings(std::move(joined), std::move(recording), part->name);
  }
  return joined;
}

// If there is no source, names the ranks that were asked for: other processes may exist.
void TellRanks(const v1::CapturePlan& plan, Recording& recording) {
  if (recording.outcome != Outcome::kNoSource || IsWanted(plan, std::nullopt)) return;
  const bool local = plan.ranks().empty();
  std::vector<std::string> numbers;
  for (const std::uint32_t rank : local ? plan.local_ranks() : plan.ranks())
    numbers.push_back(StrCat(rank));
  recording.message = StrCat("no process with ", local ? "local rank " : "rank ",
                             Join(numbers, ", "), ": ", recording.message);
}

// Tells in the trace why Python calls are missing that were asked for. A process whose framework
// was asked has a row, which tells what became of it.
void TellMissingPython(const v1::CapturePlan& plan, Recording& recording) {
  if (plan.tracers().python() == 0 || recording.xspace.empty()) return;
  const auto& rows = recording.processes;
  const bool asked = std::any_of(rows.begin(), rows.end(), [](const v1::ProcessReport& row) {
    return row.source() == v1::SOURCE_FRAMEWORK;
  });
  if (asked) return;
  xplane::AppendNote(
      xplane::kWarningsField,
      "Python calls were requested (tracers.python) but are missing: only the profilers of "
      "PyTorch, JAX and TensorFlow record them, and no process of this worker has one",
      recording.xspace);
}

// Joins what the parts recorded, for each local rank.
std::vector<Recording> JoinByRank(const v1::CapturePlan& plan, std::vector<Recorded> recorded) {
  std::vector<Rank> ranks;
  for (const Recorded& one : recorded) ranks.push_back(one.recording.rank);
  std::vector<Recording> joined;
  for (const RankGroup& group : GroupByRank(plan, ranks)) {
    std::vector<Recorded> of_rank;
    for (const std::size_t i : group.members) of_rank.push_back(std::move(recorded[i]));
    joined.push_back(JoinParts(std::move(of_rank)));
    joined.back().rank = group.rank;
    TellRanks(plan, joined.back());
    TellMissingPython(plan, joined.back());
  }
  return joined;
}

// Ends the followers when the last leader is gone, even by an exception.
class Leader {
 public:
  Leader(std::atomic<std::size_t>& left, Cancellation& followers)
      : left_(left), followers_(followers) {}
  ~Leader() {
    if (--left_ == 0) followers_.Cancel();
  }

 private:
  std::atomic<std::size_t>& left_;
  Cancellation& followers_;
};

// Cancels at the end of a scope, even by an exception.
class CancelAtScopeEnd {
 public:
  explicit CancelAtScopeEnd(Cancellation& cancellation) : cancellation_(cancellation) {}
  ~CancelAtScopeEnd() { cancellation_.Cancel(); }
  CancelAtScopeEnd(const CancelAtScopeEnd&) = delete;
  CancelAtScopeEnd& operator=(const CancelAtScopeEnd&) = delete;

 private:
  Cancellation& cancellation_;
};

// The processes of the source that tell steps of the plan's loop; see StepPace.teller.
std::vector<std::string> Tellers(session::Source& source, const v1::CapturePlan& plan) {
  std::vector<std::string> tellers;
  for (const v1::StepPace& pace : source.Steps()) {
    if (pace.loop() == plan.step_loop()) tellers.push_back(pace.teller());
  }
  return tellers;
}

std::vector<v1::StepPace> Joined(std::vector<v1::StepPace> told, std::vector<v1::StepPace> more) {
  std::move(more.begin(), more.end(), std::back_inserter(told));
  if (told.size() > kMaxReportedLoops) told.resize(kMaxReportedLoops);
  return told;
}

// Ends a part that waits for programs when the worker is lost.
void EndLostWorker(LostWorker& worker, Cancellation& end) {
  while (!end.WaitFor(kLook)) {
    if (worker.IsLost(kLook)) end.Cancel();
  }
}

// Records with all parts at once. Collecting begins when all of them have stopped.
std::vector<Recording> RecordAll(const std::vector<Part>& parts, const v1::CapturePlan& plan,
                                 const Cancellation& cancel, const Cancellation& terminate,
                                 const std::function<void()>& collecting) {
  std::atomic<std::size_t> running{parts.size()};
  const auto stopped = [&] {
    if (--running == 0) collecting();
  };
  std::vector<std::vector<Recording>> recordings(parts.size());
  const auto leaders = static_cast<std::size_t>(
      std::count_if(parts.begin(), parts.end(), [](const Part& part) { return !part.follows; }));
  std::atomic<std::size_t> leading{leaders}, present{leaders};
  // A recording that is ended early also ends for the followers and for the waiting part.
  Cancellation end_followers, end_waiting;
  const CancellationLink to_followers(terminate, end_followers), to_waiting(terminate, end_waiting);
  const auto led = [&] {
    if (--leading == 0) end_followers.Cancel();
    stopped();
  };
  const auto waiting =
      std::find_if(parts.begin(), parts.end(), [](const Part& part) { return part.waits; });
  std::optional<LostWorker> worker;
  if (waiting != parts.end()) worker.emplace(waiting->source, parts.size() - 1);
  const auto record = [&](std::size_t i) {
    if (i == parts.size()) return EndLostWorker(*worker, end_waiting);
    session::Source& source = parts[i].source;
    if (parts[i].follows) {
      recordings[i] = source.Record(plan, cancel, end_followers, stopped);
    } else if (parts[i].waits) {
      const CancelAtScopeEnd ends(end_waiting);
      recordings[i] = source.Record(plan, cancel, end_waiting, stopped);
    } else {
      const Leader leader(present, end_followers);
      recordings[i] = source.Record(plan, cancel, terminate, led);
      if (worker) worker->OnRecorded(recordings[i]);
    }
  };
  ParallelFor(parts.size() + (worker ? 1 : 0), parts.size() + 1, record);
  std::vector<Recorded> recorded;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (Recording& recording : recordings[i])
      recorded.push_back({&parts[i], std::move(recording)});
  }
  return JoinByRank(plan, std::move(recorded));
}

}  // namespace

AutoSource::AutoSource(session::Source& framework, InprocSource& inproc, session::Source& agent,
                       KinetoSource* kineto)
    : AutoSource(framework, static_cast<session::Source&>(inproc), agent,
                 static_cast<session::Source*>(kineto)) {
  processes_ = [&inproc] { return inproc.Processes(); };
  if (kineto == nullptr) return;
  inproc.ShareWithKineto([kineto](std::vector<Announcement> announced) {
    return kineto->LeftToInproc(std::move(announced));
  });
}

std::vector<v1::Source> AutoSource::Probe(Nanos timeout) {
  std::vector<v1::Source> servers = framework_.Probe(timeout), agents = agent_.Probe(timeout);
  std::vector<v1::Source> processes, unready, failed;
  const auto ready = [](const v1::Source& source) { return source.ready(); };
  for (v1::Source& process : inproc_.Probe(timeout))
    (process.ready() ? processes : failed).push_back(std::move(process));
  if (kineto_ != nullptr) {
    for (v1::Source& process : kineto_->Probe(timeout))
      (process.ready() ? processes : unready).push_back(std::move(process));
  }
  unready.insert(unready.end(), failed.begin(), failed.end());
  // Injection configures one server address in every pod, whether the trainer has a server or not.
  // If another source is ready, that server may be missing. Several addresses are configured only
  // by users who have several servers.
  const bool agent = std::any_of(agents.begin(), agents.end(), ready);
  if (servers.size() == 1 && (agent || !processes.empty()))
    std::erase_if(servers, [&](const auto& source) { return !ready(source); });
  servers.insert(servers.end(), processes.begin(), processes.end());
  const bool all = std::all_of(servers.begin(), servers.end(), ready);
  if (!servers.empty() && all && !agent) agents.clear();
  servers.insert(servers.end(), agents.begin(), agents.end());
  // Kineto's reasons come first, because the pod was made for Kineto's daemon and only the first
  // reason is shown.
  if (std::none_of(servers.begin(), servers.end(), ready))
    servers.insert(servers.begin(), unready.begin(), unready.end());
  return servers;
}

std::vector<v1::StepPace> AutoSource::Steps() { return Joined(inproc_.Steps(), agent_.Steps()); }

std::vector<session::EngineReading> AutoSource::Engines() { return inproc_.Engines(); }

Nanos AutoSource::lead() const {
  const Nanos kineto = kineto_ == nullptr ? Nanos{0} : kineto_->lead() + kLook;
  return std::max({framework_.lead() + kLook, inproc_.lead() + kLook, agent_.lead(), kineto});
}

v1::CapturePlan AutoSource::WithServers(const v1::CapturePlan& plan) {
  v1::CapturePlan with = plan;
  with.clear_framework_servers();
  for (const v1::Source& server : framework_.Probe(kLook)) {
    if (server.ready()) with.add_framework_servers(server.address());
  }
  return with;
}

// Sources whose processes tell the plan's steps end with the last step. The others are recorded for
// the same time, except profiler servers, which are told a duration when they begin. If processes
// begin at a step by themselves, no server is asked: a process has only one profiler session.
std::vector<Recording> AutoSource::RecordSteps(const v1::CapturePlan& plan,
                                               const Cancellation& cancel,
                                               const Cancellation& terminate,
                                               const std::function<void()>& collecting) {
  const bool contained = !plan.container().empty();
  std::vector<std::string> in_process;
  if (plan.source() != v1::SOURCE_AGENT) in_process = Tellers(inproc_, plan);
  const bool inproc_tells = !in_process.empty();
  const bool agent_tells = plan.source() != v1::SOURCE_FRAMEWORK && !Tellers(agent_, plan).empty();
  v1::CapturePlan planned = contained || inproc_tells ? plan : WithServers(plan);
  if (inproc_tells) planned.clear_framework_servers();
  planned.mutable_step_tellers()->Assign(in_process.begin(), in_process.end());
  // No process tells when the steps end, so the expected time is recorded.
  if (!inproc_tells && !agent_tells)
    planned.set_steps_by_ns(
        std::min(plan.steps_by_ns(), plan.instant_ns() + plan.duration_ns() + plan.guard_ns()));
  std::vector<Part> parts;
  if (plan.source() != v1::SOURCE_AGENT) {
    if (!contained && !inproc_tells) parts.push_back({.source = framework_, .name = "framework"});
    parts.push_back({.source = inproc_,
                     .name = "in-process",
                     .explains = false,
                     .follows = agent_tells && !inproc_tells});
    if (!contained && kineto_ != nullptr)
      parts.push_back({.source = *kineto_, .name = "kineto", .explains = false});
  }
  if (plan.source() != v1::SOURCE_FRAMEWORK)
    parts.push_back({.source = agent_, .name = "agent", .follows = inproc_tells && !agent_tells});
  return RecordAll(parts, planned, cancel, terminate, collecting);
}

std::vector<Recording> AutoSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                          const Cancellation& terminate,
                                          const std::function<void()>& collecting) {
  const WorkerProcesses processes = processes_ ? processes_() : WorkerProcesses{};
  std::vector<Recording> recordings = RecordParts(plan, cancel, terminate, collecting);
  AddMissingProcesses(plan, processes, recordings);
  return recordings;
}

std::vector<Recording> AutoSource::RecordParts(const v1::CapturePlan& plan,
                                               const Cancellation& cancel,
                                               const Cancellation& terminate,
                                               const std::function<void()>& collecting) {
  // Containers of a pod share its ports, so a profiler server's container cannot be determined.
  const bool contained = !plan.container().empty();
  if (plan.steps() > 0) return RecordSteps(plan, cancel, terminate, collecting);
  if (plan.source() == v1::SOURCE_AGENT)
    return RecordAll({{.source = agent_, .name = "agent"}}, plan, cancel, terminate, collecting);
  std::vector<Part> parts;
  if (!contained) parts.push_back({.source = framework_, .name = "framework"});
  parts.push_back({.source = inproc_, .name = "in-process", .explains = false});
  if (!contained && kineto_ != nullptr)
    parts.push_back({.source = *kineto_, .name = "kineto", .explains = false});
  // The agent's source also runs if there is no program yet. A program that starts during the
  // window belongs to the worker, and without it the recording would wrongly seem complete.
  if (plan.source() != v1::SOURCE_FRAMEWORK)
    parts.push_back({.source = agent_, .name = "agent", .waits = true});
  return RecordAll(parts, contained ? plan : WithServers(plan), cancel, terminate, collecting);
}

}  // namespace strobe::source
