#include "sidecar/source/kineto/kineto_source.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/base/duration.h"
#include "common/base/parallel.h"
#include "common/base/strings.h"
#include "sidecar/source/agent/ring_files.h"
#include "sidecar/source/base/framework_answers.h"
#include "sidecar/source/base/memory_headroom.h"
#include "sidecar/source/base/process_ranks.h"
#include "sidecar/source/base/recording_times.h"
#include "sidecar/source/inproc/left_trace.h"
#include "sidecar/source/kineto/kineto_directory.h"
#include "sidecar/source/kineto/kineto_verdict.h"

namespace strobe::source {
namespace {

using session::Recording;
using std::chrono::milliseconds;

// Traces are written by other processes, which tell nobody when they are finished.
constexpr Nanos kLookForTraces = milliseconds(100);
// Part of the lead, because a question may come late.
constexpr Nanos kLeadMargin = milliseconds(300);
constexpr std::size_t kConverters = 2;

std::vector<std::string> LabelsOf(const std::vector<KinetoClient>& clients) {
  std::vector<std::string> labels;
  for (const KinetoClient& client : clients) {
    const auto same = std::count_if(clients.begin(), clients.end(),
                                    [&](const auto& other) { return other.pid() == client.pid(); });
    labels.push_back(client.Label(same > 1));
  }
  return labels;
}

// Whether the announcement is the client's. Containers of a pod may have processes of the same ID,
// but each socket has its own name, and a machine starts few processes in one tick.
bool IsOfClient(const Announcement& process, const KinetoClient& client) {
  if (process.framework != "torch") return false;
  if (!process.kineto.empty()) return process.kineto == client.socket;
  return process.asks_kineto && process.pid == client.pid() &&
         (!client.began || *client.began == process.began);
}

// Whether Kineto's daemon records the announced process, if it is a client. Without the socket's
// name, the client could be a process of another container. Beside another framework nothing is
// missing without PyTorch, and Kineto would take the devices from that one.
bool IsLeftToKineto(const Announcement& process) {
  return process.refuses && process.trains && !process.beside && !process.kineto.empty();
}

// The ranks of programs with the agent, by process ID. A pod with several containers may have
// several programs of one ID, of which none is known then.
std::map<std::uint32_t, Rank> RanksByPid(const std::string& agent_directory) {
  std::map<std::uint32_t, Rank> ranks;
  for (const std::string& path : RingFiles(agent_directory)) {
    const OpenedRings opened = OpenRings(path);
    if (opened.error != wire::RingFileError::kNone || !opened.lives) continue;
    const auto [place, first] = ranks.emplace(opened.pid, RankIn(*opened.rings.file.header()));
    if (!first) place->second.reset();
  }
  return ranks;
}

// The rank of each client, as far as its process announced it or has the agent. Kineto's protocol
// does not tell it.
std::vector<Rank> RanksOfClients(const std::vector<KinetoClient>& clients,
                                 const std::vector<Announcement>& announced,
                                 const std::string& agent_directory) {
  const std::map<std::uint32_t, Rank> by_pid = RanksByPid(agent_directory);
  std::vector<Rank> ranks;
  for (const KinetoClient& client : clients) {
    const auto process =
        std::find_if(announced.begin(), announced.end(),
                     [&](const Announcement& one) { return IsOfClient(one, client); });
    const auto program = by_pid.find(client.pid());
    if (process != announced.end())
      ranks.push_back(process->job_rank());
    else
      ranks.push_back(program == by_pid.end() ? std::nullopt : program->second);
  }
  return ranks;
}

// The recording of one process.
struct KinetoRun {
  KinetoClient client{};
  std::string trace{};  // Its path.
  KinetoDelivery delivery{};
  KinetoSigns signs{};
  FrameworkAnswer answer{};
  bool decided = false;
};

// One capture of all processes that ask. Ends the orders at the latest when it is destroyed.
class KinetoCapture {
 public:
  KinetoCapture(const Clock& clock, KinetoDaemon& daemon, const v1::CapturePlan& plan,
                RecordingTimes& times, const std::vector<KinetoClient>& clients,
                const std::vector<Rank>& ranks)
      : clock_(clock), daemon_(daemon), plan_(plan), times_(times) {
    const std::vector<std::string> labels = LabelsOf(clients);
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (!IsWanted(plan, ranks[i])) continue;
      Begin(clients[i], labels[i]);
      runs_.back().answer.rank = ranks[i];
      // Nothing shows whether a process without a rank works or waits for one that does.
      if (!ranks[i]) runs_.back().answer.role = Role::kUnclear;
    }
  }
  ~KinetoCapture() {
    for (const KinetoRun& run : runs_) daemon_.End(run.client.socket, run.signs.finished);
  }
  KinetoCapture(const KinetoCapture&) = delete;
  KinetoCapture& operator=(const KinetoCapture&) = delete;

  bool decided() const {
    return std::all_of(runs_.begin(), runs_.end(), [](const auto& run) { return run.decided; });
  }

  // Looks at what has become of the orders.
  void Look() {
    const MonoTime now = clock_.MonoNow();
    for (KinetoRun& run : runs_) {
      if (run.decided) continue;
      // Reads this before the files, because a process finishes its trace before it ends.
      run.delivery = daemon_.DeliveryOf(run.client.socket).value_or(run.delivery);
      LookForTrace(run.trace, now, run.signs);
      if (auto verdict = JudgeKineto(run.delivery, run.signs, run.answer.who, now))
        Decide(*std::move(verdict), run);
    }
  }

  // Takes back the orders that no process has been told yet.
  void Withdraw() {
    Look();
    for (KinetoRun& run : runs_) {
      if (run.decided || run.delivery.stage != KinetoDelivery::Stage::kWaiting) continue;
      Decide({Outcome::kCancelled,
              StrCat(run.answer.who,
                     ": the recording was ended before the process was asked to begin")},
             run);
    }
  }

  void Cancel() {
    for (KinetoRun& run : runs_) {
      if (!run.decided)
        Decide(KinetoCancelled(run.delivery, run.answer.who, clock_.MonoNow()), run);
    }
  }

  void GiveUp() {
    for (KinetoRun& run : runs_) {
      if (!run.decided)
        Decide({Outcome::kDeadlineExceeded, StrCat(run.answer.who, " did not finish its trace")},
               run);
    }
  }

  std::vector<FrameworkAnswer> Take() {
    const std::uint64_t max_bytes = MaxTrace(plan_, headroom());
    ParallelFor(runs_.size(), kConverters, [&](std::size_t i) {
      KinetoRun& run = runs_[i];
      if (!run.signs.finished) return;
      const std::size_t slash = run.trace.rfind('/');
      TakeLeftTrace(
          run.trace.substr(0, slash),
          {.name = run.trace.substr(slash + 1), .format = "kineto", .number = run.client.pid()},
          max_bytes, plan_.tracers(), run.answer);
      TellCap(run);
    });
    std::vector<FrameworkAnswer> answers;
    for (KinetoRun& run : runs_) {
      if (!IsLauncher(run)) answers.push_back(std::move(run.answer));
    }
    return answers;
  }

  std::uint64_t headroom() const { return headroom_; }

 private:
  void Begin(const KinetoClient& client, const std::string& label) {
    const KinetoDaemonOptions& options = daemon_.options();
    KinetoRun& run = runs_.emplace_back();
    run.client = client;
    run.answer = {.address = label, .who = StrCat("Kineto in ", label)};
    run.delivery.order = MakeKinetoOrder(plan_, clock_.MonoNow() + times_.UntilStart(),
                                         options.max_duration, NewKinetoTrace(options.directory));
    run.trace = KinetoTracePath(run.delivery.order, client.pid());
    run.delivery.gone = !daemon_.Assign(client.socket, run.delivery.order);
    headroom_ = MemoryHeadroom(kTraceCopies * runs_.size());
  }

  void Decide(CallVerdict verdict, KinetoRun& run) {
    run.decided = true;
    // A finished trace is removed when nobody awaits it, so its order ends after Take.
    if (!run.signs.finished) daemon_.End(run.client.socket, /*done=*/false);
    // A trace that its process will not finish takes the trainer's memory, so it is removed. After
    // a cancellation, the process still finishes it.
    if (verdict.outcome != Outcome::kCancelled) RemoveUnfinishedTrace(run.trace);
    run.answer.verdict = std::move(verdict);
  }

  void TellCap(KinetoRun& run) const {
    const Nanos most = daemon_.options().max_duration;
    if (run.answer.verdict.outcome != Outcome::kOk || times_.Recorded() <= most) return;
    run.answer.verdict = {Outcome::kLateStart,
                          StrCat(run.answer.who, ": only the first ", FormatDuration(most),
                                 " of the window were recorded (--kineto-max-duration), because "
                                 "Kineto's protocol cannot end a recording early")};
  }

  // A process that started others of the worker, or was started by one, and ran no operator:
  // torchrun's launcher, for example.
  bool IsLauncher(const KinetoRun& run) const {
    const bool related = std::any_of(runs_.begin(), runs_.end(), [&](const KinetoRun& other) {
      return &other != &run && AreRelated(run.client, other.client);
    });
    return related && run.signs.finished && run.answer.nothing_recorded;
  }

  const Clock& clock_;
  KinetoDaemon& daemon_;
  const v1::CapturePlan& plan_;
  RecordingTimes& times_;
  std::uint64_t headroom_ = 0;
  std::vector<KinetoRun> runs_;
};

v1::Source SourceOf(std::string address, std::string detail, bool ready) {
  v1::Source source;
  source.set_kind(v1::SOURCE_FRAMEWORK);
  source.set_address(std::move(address));
  source.set_detail(std::move(detail));
  source.set_ready(ready);
  return source;
}

constexpr char kDaemon[] = "Kineto's daemon";

}  // namespace

std::vector<KinetoClient> WithoutAnnounced(std::vector<KinetoClient> clients,
                                           const std::vector<Announcement>& announced) {
  std::erase_if(clients, [&](const KinetoClient& client) {
    return std::any_of(announced.begin(), announced.end(), [&](const Announcement& process) {
      return IsOfClient(process, client) && !IsLeftToKineto(process);
    });
  });
  return clients;
}

std::vector<Announcement> WithoutClients(std::vector<Announcement> announced,
                                         const std::vector<KinetoClient>& clients) {
  std::erase_if(announced, [&](const Announcement& process) {
    return IsLeftToKineto(process) &&
           std::any_of(clients.begin(), clients.end(),
                       [&](const KinetoClient& client) { return IsOfClient(process, client); });
  });
  return announced;
}

std::vector<Announcement> KinetoSource::LeftToInproc(std::vector<Announcement> announced) const {
  if (!daemon_.problem().empty()) return announced;
  return WithoutClients(std::move(announced), daemon_.clients());
}

KinetoSource::KinetoTargets KinetoSource::Look() const {
  KinetoTargets found{daemon_.clients(), {}};
  if (found.clients.empty()) return found;
  found.announced = ReadAnnouncements(agent_directory_);
  found.clients = WithoutAnnounced(std::move(found.clients), found.announced);
  return found;
}

std::vector<v1::Source> KinetoSource::Probe(Nanos) {
  if (const std::string problem = daemon_.problem(); !problem.empty())
    return {SourceOf(kDaemon, problem, /*ready=*/false)};
  const auto [clients, announced] = Look();
  const std::vector<std::string> labels = LabelsOf(clients);
  const std::vector<Rank> ranks = RanksOfClients(clients, announced, agent_directory_);
  std::vector<v1::Source> sources;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    sources.push_back(SourceOf(
        labels[i], StrCat("Kineto, polls every ", KinetoClient::Words(clients[i].Interval())),
        /*ready=*/true));
    if (ranks[i]) *sources.back().add_ranks() = *ranks[i];
  }
  if (!sources.empty() || !daemon_.clients().empty()) return sources;
  return {SourceOf(kDaemon,
                   "no PyTorch process contacts it; they need KINETO_USE_DAEMON=1 when they import "
                   "torch or, without Python, call torch::global_kineto_init()",
                   /*ready=*/false)};
}

Nanos KinetoSource::lead() const {
  Nanos longest{0};
  for (const KinetoClient& client : Look().clients) longest = std::max(longest, client.Interval());
  if (longest == Nanos{0}) return longest;
  return longest + KinetoOrder{.warm_up = kKinetoWarmUp}.Ahead() + kLeadMargin;
}

std::vector<Recording> KinetoSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                            const Cancellation& terminate,
                                            const std::function<void()>& collecting) {
  RecordingTimes times(clock_, plan);
  times.Look();
  if (const std::string problem = daemon_.problem(); !problem.empty()) {
    collecting();
    std::vector<FrameworkAnswer> answers(1);
    answers.front().address = answers.front().who = kDaemon;
    answers.front().verdict = {Outcome::kNoSource, StrCat(kDaemon, ": ", problem)};
    return JoinAnswers(plan, times, 0, std::move(answers));
  }
  const auto [clients, announced] = Look();
  KinetoCapture capture(clock_, daemon_, plan, times, clients,
                        RanksOfClients(clients, announced, agent_directory_));
  if (capture.decided()) {
    collecting();
    return session::OneRecording(
        {.outcome = Outcome::kNoSource, .message = "no PyTorch process contacts Kineto's daemon"});
  }
  bool stopped = false;
  Cancellation end;
  const CancellationLink cancels(cancel, end), terminates(terminate, end);
  MonoTime next_look = clock_.MonoNow();
  while (!capture.decided()) {
    // Once it is terminated, only a cancellation is awaited.
    (void)(terminate.cancelled() ? cancel : end).WaitFor(times.UntilNextLook());
    if (cancel.cancelled()) capture.Cancel();
    times.Look();
    if (terminate.cancelled()) {
      times.StopNow();
      capture.Withdraw();
    }
    if (times.UntilStop() == Nanos{0} && !std::exchange(stopped, true)) collecting();
    if (clock_.MonoNow() < next_look) continue;
    next_look = clock_.MonoNow() + kLookForTraces;
    capture.Look();
    if (times.UntilDeadline() == Nanos{0}) capture.GiveUp();
  }
  times.Finish();
  if (!stopped) collecting();
  std::vector<FrameworkAnswer> answers = capture.Take();
  std::vector<Recording> recordings =
      JoinAnswers(plan, times, capture.headroom(), std::move(answers));
  for (Recording& recorded : recordings) recorded.has_torch_options = true;
  return recordings;
}

}  // namespace strobe::source
