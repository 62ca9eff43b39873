#include "sidecar/source/framework/framework_source.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/protocol/capture_defaults.h"
#include "sidecar/capture/trace_report.h"
#include "sidecar/source/base/memory_headroom.h"
#include "sidecar/source/base/profile_call.h"
#include "sidecar/source/base/profile_calls.h"
#include "sidecar/source/base/snapshot_trace.h"

namespace strobe::source {
namespace {

using session::Recording;
using std::chrono::milliseconds;

// Time for determining a server's age before the request is sent. If the server answers slowly, the
// request is sent up to kLatestSend before the start.
constexpr Nanos kAskFor = kProfilerSendAhead;
constexpr Nanos kLatestSend = milliseconds(100);
constexpr Nanos kMinAsk = milliseconds(50);
constexpr Nanos kConnectFor = milliseconds(50);  // For connections on the loopback.
// How long a server's age is remembered in case it becomes too busy to answer. It does not change
// while the container runs.
constexpr Nanos kBelieveFor = std::chrono::minutes(10);
// For ending continuous profiling before a recording.
constexpr Nanos kEndSessionsFor = milliseconds(500);

// The limit on the answer of each process. A larger answer is refused before it is read.
struct AnswerLimit {
  int bytes = std::numeric_limits<int>::max();
  std::string words = "gRPC is limited to 2 GiB";
};

// `max_bytes` is the plan's limit, 0 = none.
AnswerLimit LimitOf(std::uint64_t max_bytes, std::size_t processes) {
  constexpr std::uint64_t kAround = 64 << 10;  // An answer is slightly larger than its trace.
  AnswerLimit limit;
  const auto lower = [&limit](std::uint64_t bytes, std::uint64_t trace, std::string_view cause) {
    if (bytes < static_cast<std::uint64_t>(limit.bytes))
      limit = {static_cast<int>(bytes), StrCat("the limit is ", trace, " bytes", cause)};
  };
  if (max_bytes > 0) lower(max_bytes + kAround, max_bytes, " (maxBytesPerWorker)");
  // One trace is in memory once; see TakeXSpace. A quarter more is for what is read and freed
  // meanwhile. Several are joined, which copies them.
  const std::uint64_t room =
      processes == 1 ? MemoryHeadroom(1) / 5 * 4 : MemoryHeadroom(2 * processes);
  lower(room, room, ", which is what remains of the sidecar's memory limit");
  return limit;
}

using Holds = std::vector<std::unique_ptr<InprocHold>>;

std::vector<tensorflow::ProfileRequest> RequestsFor(const v1::CapturePlan& plan,
                                                    const std::vector<ServerAge>& ages,
                                                    const Holds& holds,
                                                    const std::vector<bool>& spares_gpus,
                                                    const std::string& shared_dir) {
  std::vector<tensorflow::ProfileRequest> requests;
  for (std::size_t i = 0; i < ages.size(); ++i) {
    tensorflow::ProfileRequest request = MakeProfileRequest(plan, i, shared_dir);
    if (ages[i] != ServerAge::kSince2026) request.mutable_opts()->set_host_tracer_level(0);
    if (spares_gpus[i]) request.mutable_opts()->set_device_tracer_level(0);
    if (holds[i] != nullptr && !holds[i]->leads()) {
      request.mutable_opts()->set_device_tracer_level(0);
      request.mutable_opts()->set_python_tracer_level(0);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

// A refused connection is an answer too; waiting for the deadline would not help.
bool IsConnected(grpc::Channel& channel, std::chrono::system_clock::time_point deadline) {
  grpc_connectivity_state state = channel.GetState(false);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
         channel.WaitForStateChange(state, deadline)) {
    state = channel.GetState(false);
  }
  return state == GRPC_CHANNEL_READY;
}

// Whether a program wants its profiler back.
bool AnyWantsBack(const Holds& holds) {
  return std::any_of(holds.begin(), holds.end(),
                     [](const auto& hold) { return hold != nullptr && hold->WantsBack(); });
}

// Adds what the process told while it held its profiler, and gives the profiler back. A server
// whose call failed may still be collecting.
void EndHold(InprocHold& hold, const v1::CapturePlan& plan, FrameworkAnswer& answer) {
  const bool ended = answer.verdict.outcome == Outcome::kOk;
  if (!hold.leads() && plan.tracers().python() > 0)
    answer.note = "Python calls are recorded only by another framework of the process";
  if (ended && hold.WantsBack()) {
    answer.verdict = {Outcome::kTruncated,
                      StrCat(answer.who, ": the program started a profiler session of its own")};
  }
  if (ended) hold.Release();
}

// Waits until all calls have ended. Returns when recording stopped, by MonotonicNow; 0 if every
// call ended before that.
std::int64_t Await(ProfileCalls& calls, RecordingTimes& times, const Holds& holds,
                   const Cancellation& cancel, const Cancellation& terminate,
                   const std::function<void()>& collecting) {
  const Nanos set_when_sent = times.set();
  bool stopped = false, terminated = false;
  std::int64_t stopped_ns = 0;
  const auto end_sessions = [&] {
    if (!std::exchange(terminated, true)) calls.Terminate();
  };
  while (!calls.WaitFor(times.UntilNextLook())) {
    times.Look();
    if (cancel.cancelled()) calls.TryCancel();
    if (!terminated && (terminate.cancelled() || AnyWantsBack(holds))) {
      times.StopNow();
      times.Look();
      end_sessions();
    }
    if (!stopped && times.UntilStop() == Nanos{0}) {
      stopped = true;
      stopped_ns = MonotonicNow();
      collecting();
    }
    // Servers measure the duration on the wall clock. If it was set back, they would record longer
    // by that amount.
    if (stopped && times.set() != set_when_sent) end_sessions();
  }
  times.Finish();
  if (!stopped) collecting();
  return stopped_ns;
}

// Waits until the end of the window. False if the capture was cancelled.
bool AwaitStop(RecordingTimes& times, const Cancellation& cancel, const Cancellation& terminate) {
  while (times.UntilStop() > Nanos{0}) {
    if (cancel.WaitFor(times.UntilNextLook())) return false;
    if (terminate.cancelled()) times.StopNow();
    times.Look();
  }
  return true;
}

// Turns the answer's snapshot into the capture's trace. `plan` is on the server's clock.
void CutAnswer(const v1::CapturePlan& plan, std::uint64_t max_memory, FrameworkAnswer& answer) {
  if (answer.verdict.outcome != Outcome::kOk) return;
  const Nanos look_back{plan.look_back_ns()};
  absl::StatusOr<SnapshotTrace> cut =
      CutSnapshot(answer.trace, plan.instant_ns() - plan.guard_ns(), look_back, max_memory);
  answer.trace.clear();
  if (!cut.ok()) {
    answer.verdict = {Outcome::kProfilerStartFailed,
                      StrCat(answer.who, " sent no snapshot: ", cut.status().message())};
    return;
  }
  answer.trace = std::move(cut->xspace);
  answer.reached_back_ns = cut->reached_back.count();
  answer.note = "a snapshot of continuous profiling: TPUs, without annotations";
  if (cut->has_devices) return;
  answer.verdict = {
      Outcome::kNoDeviceActivity,
      StrCat(answer.who, ": its snapshot has no activity of TPUs in the window or in ",
             FormatDuration(look_back), " before it")};
}

std::vector<Announcement> TrainingProcesses(const std::string& directory) {
  std::vector<Announcement> processes;
  if (!directory.empty()) processes = ReadAnnouncements(directory);
  std::erase_if(processes, [](const Announcement& process) { return !process.trains; });
  return processes;
}

}  // namespace

FrameworkSource::FrameworkSource(const Clock& clock, FrameworkOptions options)
    : clock_(clock), options_(std::move(options)) {
  if (!options_.flight_recorder) return;
  recorder_.emplace([this] { return Unannounced(TrainingProcesses(options_.announced_in)); },
                    options_.flight_state);
}

std::vector<std::string> FrameworkSource::Unannounced(
    const std::vector<Announcement>& processes) const {
  std::vector<std::string> addresses;
  for (const std::string& address : options_.addresses) {
    // A process that announced itself is recorded in the way that it announced, which is safe.
    const bool known = std::any_of(processes.begin(), processes.end(), [&](const auto& process) {
      return ListensOn(process, address);
    });
    if (!known) addresses.push_back(address);
  }
  return addresses;
}

std::vector<FrameworkSource::Server> FrameworkSource::Servers(const v1::CapturePlan& plan,
                                                              Nanos timeout) const {
  const std::vector<Announcement> processes = TrainingProcesses(options_.announced_in);
  std::vector<Server> given, announced;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  if (IsWanted(plan, std::nullopt)) {
    for (std::string& address : Unannounced(processes)) given.push_back({std::move(address)});
  }
  for (const Announcement& process : processes) {
    if (!process.address.empty() && IsWanted(plan, process.job_rank()))
      announced.push_back({process.address, process});
  }
  if (announced.empty()) return given;
  for (const auto& [address, process] : given) {
    channels.push_back(ConnectToProfiler(address, 1));
    channels.back()->GetState(true);
  }
  const auto deadline = DeadlineIn(timeout);
  const bool answers = std::any_of(channels.begin(), channels.end(), [&](const auto& channel) {
    return IsConnected(*channel, deadline);
  });
  if (answers) announced.insert(announced.begin(), given.begin(), given.end());
  return announced;
}

std::vector<v1::Source> FrameworkSource::Probe(Nanos timeout) {
  const std::vector<Server> servers = Servers({}, timeout / 4);
  Channels channels = Connect(servers, std::numeric_limits<int>::max());
  for (const auto& channel : channels) channel->GetState(true);
  const MonoTime until = clock_.MonoNow() + timeout;
  const auto deadline = DeadlineIn(timeout);
  std::vector<v1::Source> sources;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    v1::Source& source = sources.emplace_back();
    source.set_kind(v1::SOURCE_FRAMEWORK);
    source.set_address(servers[i].address);
    source.set_ready(IsConnected(*channels[i], deadline));
    if (const Rank rank = servers[i].rank()) *source.add_ranks() = *rank;
    if (!source.ready()) {
      const bool refused = channels[i]->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
      source.set_detail(refused ? "nothing is listening" : "does not answer");
      channels[i].reset();
    }
  }
  // Determines the ages now, because the machine may be busier during a capture.
  LearnAges(servers, channels, until - clock_.MonoNow());
  return sources;
}

FrameworkSource::Channels FrameworkSource::Connect(const std::vector<Server>& servers,
                                                   int max_bytes) {
  Channels channels;
  for (const auto& [address, process] : servers)
    channels.push_back(ConnectToProfiler(address, max_bytes));
  return channels;
}

FrameworkSource::Holds FrameworkSource::HoldProcesses(const v1::CapturePlan& plan,
                                                      const std::vector<Server>& servers) const {
  Holds holds;
  for (const auto& [address, process] : servers) {
    holds.push_back(process ? std::make_unique<InprocHold>(options_.announced_in, *process, plan)
                            : nullptr);
  }
  // Waits only after all have been asked: each may answer late, while a thread of its program holds
  // the interpreter's lock.
  const MonoTime answered_by = clock_.MonoNow() + options_.hold_for;
  for (const auto& hold : holds) {
    if (hold != nullptr) hold->Await(std::max(answered_by - clock_.MonoNow(), Nanos{0}));
  }
  return holds;
}

Nanos FrameworkSource::lead() const {
  return kAskFor + kProfilerSendAhead + kConnectFor + (recorder_ ? kEndSessionsFor : Nanos{0});
}

std::vector<ServerAge> FrameworkSource::LearnAges(const std::vector<Server>& servers,
                                                  const Channels& channels, Nanos timeout) {
  std::vector<ServerAge> ages = AskAges(channels, DeadlineIn(timeout));
  const MonoTime now = clock_.MonoNow();
  MutexLock lock(&mutex_);
  for (std::size_t i = 0; i < ages.size(); ++i) {
    LastAnswer& last = last_answers_[servers[i].address];
    if (ages[i] != ServerAge::kUnknown)
      last = {ages[i], now};
    else if (now - last.at < kBelieveFor)
      ages[i] = last.age;
  }
  return ages;
}

std::optional<std::string> FrameworkSource::WhyNoSnapshots(
    const v1::CapturePlan& plan, const std::vector<Server>& servers) const {
  if (!recorder_ || plan.look_back_ns() == 0 || plan.tracers().device() == 0) return std::nullopt;
  for (const auto& [address, process] : servers) {
    const std::string why_not =
        process ? "its process announced itself" : recorder_->WhyNot(address);
    if (!why_not.empty()) return StrCat(address, ": ", why_not);
  }
  return "";
}

std::vector<Recording> FrameworkSource::RecordSnapshots(const v1::CapturePlan& plan,
                                                        const std::vector<Server>& servers,
                                                        RecordingTimes& times,
                                                        const Cancellation& cancel,
                                                        const Cancellation& terminate,
                                                        const std::function<void()>& collecting) {
  const bool stopped = AwaitStop(times, cancel, terminate);
  collecting();
  if (!stopped) return session::OneRecording({.outcome = Outcome::kCancelled});
  const std::int64_t stopped_ns = MonotonicNow();
  // What is cut off a snapshot does not count against the plan's limit. The rest is copied.
  const AnswerLimit limit = LimitOf(/*max_bytes=*/0, servers.size() + 1);
  const Channels channels = Connect(servers, limit.bytes);
  ProfileCalls calls(channels, std::vector<tensorflow::ProfileRequest>(channels.size()),
                     times.UntilDeadline(), ProfileCalls::kGetSnapshot);
  while (!calls.WaitFor(times.UntilNextLook())) {
    times.Look();
    if (cancel.cancelled()) calls.TryCancel();
  }
  times.Finish();
  const v1::CapturePlan on_their_clock = session::OnClockSetBy(times.set(), plan);
  std::vector<FrameworkAnswer> answers;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    ProfileCalls::Call& call = *calls.calls()[i];
    const grpc::StatusCode code = call.status.error_code();
    if (code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::NOT_FOUND)
      recorder_->OnEnded(servers[i].address);
    FrameworkAnswer& answer =
        answers.emplace_back(TakeAnswer(call, servers[i].address, SharedTraces{}));
    if (answer.verdict.outcome == Outcome::kOk)
      answer.stop_took_ns = std::max<std::int64_t>(call.ended_ns - stopped_ns, 0);
    if (answer.verdict.outcome == Outcome::kTruncated)
      answer.verdict.message += StrCat("; ", limit.words);
    CutAnswer(on_their_clock, MemoryHeadroom(2), answer);
  }
  return JoinAnswers(plan, times, MemoryHeadroom(2 * channels.size()), std::move(answers));
}

std::vector<Recording> FrameworkSource::Record(const v1::CapturePlan& plan,
                                               const Cancellation& cancel,
                                               const Cancellation& terminate,
                                               const std::function<void()>& collecting) {
  RecordingTimes times(clock_, plan);
  const std::vector<Server> servers = Servers(plan, kConnectFor);
  if (servers.empty()) {
    collecting();
    return session::OneRecording(
        {.outcome = Outcome::kNoSource, .message = "no process has a profiler server"});
  }
  std::optional<ServerFlightRecorder::Pause> pause;
  if (recorder_) pause.emplace(*recorder_);
  const std::optional<std::string> obstacle = WhyNoSnapshots(plan, servers);
  if (obstacle && obstacle->empty())
    return RecordSnapshots(plan, servers, times, cancel, terminate, collecting);
  // A process has only one profiler session.
  if (recorder_) recorder_->EndSessions();
  const AnswerLimit limit = LimitOf(plan.max_bytes(), servers.size());
  const Channels channels = Connect(servers, limit.bytes);
  // Without host annotations, old servers are safe.
  std::vector<ServerAge> ages(channels.size(), ServerAge::kSince2026);
  if (plan.tracers().host() > 0 && !options_.risks.host_tracing_on_old_servers)
    ages = LearnAges(servers, channels, std::max(times.UntilStart() - kLatestSend, kMinAsk));
  // After a server has received the request, it cannot be cancelled before the start.
  if (cancel.WaitFor(std::max(times.UntilStart() - kProfilerSendAhead, Nanos{0}))) {
    collecting();
    return session::OneRecording(
        {.outcome = Outcome::kCancelled, .message = "cancelled before the start"});
  }
  times.Look();
  const Holds holds = HoldProcesses(plan, servers);
  std::vector<bool> spares_gpus;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    // A process whose devices another framework of it records is not asked for them anyway.
    const bool asks = plan.tracers().device() > 0 && (!holds[i] || holds[i]->leads());
    spares_gpus.push_back(asks && !(holds[i] && holds[i]->safe()) &&
                          SparesGpus(options_.risks, servers[i].address));
  }
  ProfileCalls calls(channels,
                     RequestsFor(session::OnClockSetBy(times.set(), plan), ages, holds, spares_gpus,
                                 options_.shared_dir),
                     times.UntilDeadline());
  const std::int64_t stopped_ns = Await(calls, times, holds, cancel, terminate, collecting);

  const SharedTraces shared{
      options_.shared_dir,
      static_cast<std::uint64_t>(limit.bytes),
      {.deadline = clock_.MonoNow() + times.UntilDeadline(), .cancellation = &cancel}};
  std::vector<FrameworkAnswer> answers;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    FrameworkAnswer& answer =
        answers.emplace_back(TakeAnswer(*calls.calls()[i], servers[i].address, shared));
    answer.age = ages[i];
    if (spares_gpus[i])
      answer.note = SparedNote(answer.who, holds[i] ? holds[i]->why_unsafe() : kMayLoseGpus);
    else if (holds[i] != nullptr && plan.tracers().device() > 0)
      answer.note = holds[i]->note();
    answer.rank = servers[i].rank();
    if (servers[i].process) {
      answer.role = servers[i].process->role;
      if (holds[i] != nullptr && holds[i]->rank())
        answer.rank = servers[i].process->Numbered(holds[i]->rank());
    }
    // A server tells nothing of its stop, so that this is the time until its answer was here.
    if (stopped_ns > 0 && answer.verdict.outcome == Outcome::kOk)
      answer.stop_took_ns = std::max<std::int64_t>(calls.calls()[i]->ended_ns - stopped_ns, 0);
    answer.beside = servers[i].process && servers[i].process->beside;
    if (answer.verdict.outcome == Outcome::kTruncated)
      answer.verdict.message += StrCat("; ", limit.words);
    if (holds[i] != nullptr) EndHold(*holds[i], plan, answer);
    if (obstacle)
      answer.note += StrCat(answer.note.empty() ? "" : "; ", "does not reach back: ", *obstacle);
  }
  // Joining the traces copies all of them once more.
  const std::uint64_t room = MemoryHeadroom(2 * channels.size());
  return JoinAnswers(plan, times, room, std::move(answers));
}

}  // namespace strobe::source
