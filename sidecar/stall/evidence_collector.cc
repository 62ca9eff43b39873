#include "sidecar/stall/evidence_collector.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "agent/wire/ticks.h"
#include "collector/stall/sockets.h"
#include "common/base/guard.h"
#include "common/base/strings.h"
#include "sidecar/stall/collective_evidence.h"
#include "sidecar/stall/evidence_answer.h"

namespace strobe::stall {
namespace {

constexpr std::size_t kMaxPairs = 4096, kMaxTable = std::size_t{16} << 20;

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kUsualBytes = std::uint64_t{8} << 20;
constexpr std::size_t kMaxFileBytes = std::size_t{32} << 20;
constexpr Nanos kUsualBetween = milliseconds(1500), kMostBetween = seconds(10);
constexpr Nanos kProcessPatience = milliseconds(2800), kAskEvery = milliseconds(50);
// RAS may need longer where a process is stopped. The verdict does not wait for that.
constexpr Nanos kRasPatience = seconds(4), kQueuePatience = seconds(15);
constexpr Nanos kRemoveOldEvery = seconds(60);

// The kinds that a request names; all if it names none.
class WantedKinds {
 public:
  explicit WantedKinds(const v1::ReadEvidenceRequest& request) : request_(request) {}

  bool Has(v1::EvidenceKind kind) const {
    return request_.kinds().empty() || std::find(request_.kinds().begin(), request_.kinds().end(),
                                                 kind) != request_.kinds().end();
  }
  std::uint32_t OfProcesses() const {
    return (Has(v1::EVIDENCE_STACKS) ? wire::kWantStacks : 0) |
           (Has(v1::EVIDENCE_COLLECTIVES) ? wire::kWantCollectives : 0);
  }

 private:
  const v1::ReadEvidenceRequest& request_;
};

// RAS is asked beside the processes, and twice if it answers soon.
class RasAnswers {
 public:
  RasAnswers(const RasOptions& options, Nanos between, std::function<bool()> is_wanted)
      : options_(options),
        between_(between),
        is_wanted_(std::move(is_wanted)),
        until_(SystemClock().MonoNow() + between + kRasPatience),
        thread_([this] { (void)RunGuarded("ras", [this] { Run(); }); }) {}
  ~RasAnswers() {
    if (thread_.joinable()) thread_.join();
  }
  RasAnswers(const RasAnswers&) = delete;
  RasAnswers& operator=(const RasAnswers&) = delete;

  // `uses_nccl` is asked if nobody listens, which is worth a note for jobs that use it.
  void AddTo(EvidenceAnswer& answer, const std::function<bool()>& uses_nccl) {
    thread_.join();
    if (!first_.ok() && (!absl::IsNotFound(first_.status()) || uses_nccl()))
      answer.Note(StrCat("RAS: ", absl::IsCancelled(first_.status()) ? "it has not answered in time"
                                                                     : MessageOf(first_.status())));
    if (first_.ok()) answer.Add("ras.a", *std::move(first_));
    if (second_.ok()) answer.Add("ras.b", *std::move(second_));
  }

 private:
  void Run() {
    const std::function<bool()> is_wanted = [this] {
      return is_wanted_() && SystemClock().MonoNow() < until_;
    };
    const MonoTime again = SystemClock().MonoNow() + between_;
    first_ = AskRas(options_, is_wanted);
    if (!first_.ok() || SystemClock().MonoNow() > again) return;
    while (SystemClock().MonoNow() < again && is_wanted()) std::this_thread::sleep_for(kAskEvery);
    second_ = AskRas(options_, is_wanted);
  }

  const RasOptions options_;
  const Nanos between_;
  const std::function<bool()> is_wanted_;
  const MonoTime until_;
  absl::StatusOr<std::string> first_ = absl::UnavailableError("it was not asked");
  absl::StatusOr<std::string> second_ = absl::UnavailableError("it was not asked");
  std::thread thread_;  // Last: it uses the rest.
};

// The collectives that programs tell through NCCL's plugin, at the begin and when the time between
// the looks is over.
class CollectiveLooks {
 public:
  // Looks at nothing without a clock.
  CollectiveLooks(const std::string& directory, const std::map<int, EvidenceProcess>& processes,
                  Nanos between, const Clock* clock)
      : directory_(directory),
        processes_(processes),
        again_(SystemClock().MonoNow() + between),
        clock_(clock),
        first_(Look()) {}

  void AddTo(EvidenceAnswer& answer, const std::function<bool()>& is_wanted) const {
    if (first_.empty()) return;
    while (SystemClock().MonoNow() < again_ && is_wanted()) std::this_thread::sleep_for(kAskEvery);
    for (const auto& [rank, text] : first_) answer.Add(StrCat(rank, ".a.nccl"), text);
    for (const auto& [rank, text] : Look()) {
      if (first_.contains(rank)) answer.Add(StrCat(rank, ".b.nccl"), text);
    }
  }

 private:
  std::map<int, std::string> Look() const {
    if (clock_ == nullptr) return {};
    const auto wall_minus_monotonic =
        ToUnixNanos(clock_->WallNow()) - static_cast<std::int64_t>(wire::MonotonicNs());
    return ReadCollectiveEvidence(directory_, processes_, wall_minus_monotonic);
  }

  const std::string& directory_;
  const std::map<int, EvidenceProcess>& processes_;
  const MonoTime again_;
  const Clock* const clock_;
  const std::map<int, std::string> first_;
};

Nanos BetweenOf(const v1::ReadEvidenceRequest& request) {
  const Nanos between{request.between_looks_ns()};
  return between <= Nanos{0} ? kUsualBetween : std::min(between, kMostBetween);
}

bool UsesNccl(const FileDescriptor& directory, const std::map<int, EvidenceProcess>& processes) {
  return std::any_of(processes.begin(), processes.end(), [&](const auto& entry) {
    return Contains(ReadEvidenceFile(directory, entry.second, "groups", kMaxFileBytes), "nccl");
  });
}

// Groups and states are small and needed most; stacks are the largest.
void AddProcessFiles(const FileDescriptor& directory,
                     const std::map<int, EvidenceProcess>& processes, const WantedKinds& kinds,
                     std::uint64_t order, const std::vector<std::string>& moves,
                     EvidenceAnswer& answer) {
  const std::uint64_t now_ns = wire::MonotonicNs();
  std::map<int, std::string> exceptions;
  for (const auto& [rank, process] : processes)
    exceptions[rank] = ReadEvidenceFile(directory, process, "exception", kMaxExceptionBytes);
  answer.Add("processes.json", ProcessStates(processes, exceptions, moves, now_ns));
  const auto add = [&](const char* kind, bool only_answered) {
    for (const auto& [rank, process] : processes) {
      // What an earlier order left tells nothing of now.
      if (only_answered && process.answered != order) continue;
      answer.Add(StrCat(rank, ".", kind),
                 ReadEvidenceFile(directory, process, kind, kMaxFileBytes));
    }
  };
  if (kinds.Has(v1::EVIDENCE_COLLECTIVES)) {
    add("groups", /*only_answered=*/false);
    for (const char* kind : {"a.fr", "b.fr"}) add(kind, /*only_answered=*/true);
  }
  if (kinds.Has(v1::EVIDENCE_STACKS)) {
    for (const char* kind : {"a.stacks", "b.stacks"}) add(kind, /*only_answered=*/true);
  }
  if (kinds.OfProcesses() == 0) return;  // They were not asked.
  for (const auto& [rank, process] : processes) answer.Note(WhyLess(process, order, now_ns));
}

}  // namespace

std::string ShortSocketTable(std::string_view table) {
  std::string_view heading;
  struct Line {
    std::string_view text;
    bool retransmits = false;
  };
  std::map<std::pair<std::string, std::string>, Line> lines;  // By local and remote address.
  while (!table.empty()) {
    const std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(line.size() + 1, table.size()));
    if (LooksLikeSockets(line)) {
      heading = line;
      continue;
    }
    for (const TcpLink& link : ReadSockets(line)) {
      if (lines.size() == kMaxPairs && !lines.contains({link.local, link.remote})) continue;
      Line& kept = lines[{link.local, link.remote}];
      if (kept.text.empty() || (link.retransmits && !kept.retransmits))
        kept = {.text = line, .retransmits = link.retransmits};
    }
  }
  if (heading.empty()) return "";
  std::string text(heading);
  text += '\n';
  for (const auto& [pair, line] : lines) {
    text += line.text;
    text += '\n';
  }
  return text;
}

std::string ReadSocketTable() {
  std::string table;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    std::string text(std::istreambuf_iterator<char>(file), {});
    if (table.size() + text.size() <= kMaxTable) table += text;
  }
  return ShortSocketTable(table);
}

EvidenceCollector::EvidenceCollector(const Clock& clock, std::string directory, RasOptions ras,
                                     TellSteps steps)
    : clock_(clock),
      directory_(std::move(directory)),
      ras_(ras),
      steps_(std::move(steps)),
      thread_([this] {
        RunThread("evidence", [this] {
          do RemoveOld();
          while (!stop_.WaitFor(kRemoveOldEvery));
        });
      }) {}

EvidenceCollector::~EvidenceCollector() {
  stop_.Cancel();
  thread_.join();
}

std::vector<v1::StepPace> EvidenceCollector::Steps() const {
  return steps_ ? steps_() : std::vector<v1::StepPace>();
}

void EvidenceCollector::RemoveOld() const {
  const FileDescriptor directory = OpenEvidenceDirectory(directory_);
  if (directory.get() >= 0) RemoveOldEvidence(directory, wire::MonotonicNs());
}

absl::StatusOr<v1::ReadEvidenceResponse> EvidenceCollector::Read(
    const v1::ReadEvidenceRequest& request, const std::function<bool()>& is_wanted) {
  {
    MutexLock lock(&mutex_);
    const bool is_free = mutex_.AwaitFor(
        kQueuePatience, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !collects_; });
    if (!is_free) return absl::UnavailableError("this sidecar is collecting evidence already");
    collects_ = true;
  }
  absl::StatusOr<v1::ReadEvidenceResponse> response =
      RunGuarded("evidence", [&] { return Collect(request, is_wanted); });
  MutexLock lock(&mutex_);
  collects_ = false;
  return response;
}

void EvidenceCollector::AskProcesses(std::map<int, EvidenceProcess>& processes,
                                     const EvidenceOrder& order,
                                     const std::function<bool()>& is_wanted) const {
  for (const auto& [rank, process] : processes) {
    if (process.lives) OrderEvidence(process, order);
  }
  const MonoTime until = SystemClock().MonoNow() + order.between_looks + kProcessPatience;
  const auto all_done = [&] {
    bool done = true;
    for (auto& [rank, process] : processes) {
      RefreshEvidence(process);
      done = done && (!process.lives || process.answered == order.number);
    }
    return done;
  };
  while (!all_done() && is_wanted() && SystemClock().MonoNow() < until)
    std::this_thread::sleep_for(kAskEvery);
}

absl::StatusOr<v1::ReadEvidenceResponse> EvidenceCollector::Collect(
    const v1::ReadEvidenceRequest& request, const std::function<bool()>& is_wanted) const {
  const FileDescriptor directory = OpenEvidenceDirectory(directory_);
  if (directory.get() < 0)
    return absl::FailedPreconditionError(StrCat(directory_, " cannot be read"));
  const WantedKinds kinds(request);
  const Nanos between = BetweenOf(request);
  EvidenceAnswer answer(request.max_bytes() == 0 ? kUsualBytes : request.max_bytes());
  std::optional<RasAnswers> ras;
  if (kinds.Has(v1::EVIDENCE_RAS)) ras.emplace(ras_, between, is_wanted);
  std::map<int, EvidenceProcess> processes = ByRank(ReadEvidenceProcesses(directory));
  // Evidence of two jobs, mixed, would name anybody.
  std::erase_if(processes, [&answer](const auto& entry) {
    const auto& [rank, process] = entry;
    if (process.has_rival)
      answer.Note(StrCat("several processes are rank ", rank, " of a job of ", process.world_size,
                         ", and nothing tells which of them is meant"));
    return process.has_rival;
  });
  const EvidenceOrder order{.number = static_cast<std::uint64_t>(ToUnixNanos(clock_.WallNow())),
                            .wants = kinds.OfProcesses(),
                            .between_looks = between};
  const std::vector<v1::StepPace> steps = Steps();
  const CollectiveLooks looks(directory_, processes, between,
                              kinds.Has(v1::EVIDENCE_COLLECTIVES) ? &clock_ : nullptr);
  if (order.wants != 0) AskProcesses(processes, order, is_wanted);
  looks.AddTo(answer, is_wanted);
  const std::int64_t looked_at = ToUnixNanos(clock_.WallNow());
  if (processes.empty()) {
    answer.Note(
        "no process of this worker has an evidence thread: it needs Python with a framework, and "
        "Strobe's agent");
  }
  AddProcessFiles(directory, processes, kinds, order.number,
                  MovesBetween(steps, Steps(), FromUnixNanos(looked_at)), answer);
  for (const auto& [rank, process] : processes) RemoveLooks(directory, process);
  if (kinds.Has(v1::EVIDENCE_SOCKETS)) {
    const std::string table = ReadSocketTable();  // All processes of a pod share its addresses.
    for (const auto& [rank, process] : processes) answer.Add(StrCat(rank, ".a.sockets"), table);
  }
  if (ras) ras->AddTo(answer, [&] { return UsesNccl(directory, processes); });
  if (!is_wanted()) return absl::CancelledError("nobody waits for the evidence any more");
  return answer.Take(looked_at);
}

}  // namespace strobe::stall
