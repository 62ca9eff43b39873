#include "capture/stall_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "capture/answer_limits.h"
#include "collector/stall/evidence_files.h"
#include "collector/stall/judge.h"
#include "collector/stall/stack_groups.h"
#include "collector/stall/verdict.h"
#include "common/base/strings.h"
#include "common/text/ip_text.h"
#include "common/text/json.h"

namespace strobe::capture {
namespace {

using EvidenceObject = nlohmann::ordered_json;

// What is kept in the run of one job. More would have to be held in memory until it is written.
constexpr std::size_t kMaxKeptBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxMissingLines = 4, kMaxWorkerNotes = 64;
constexpr int kMaxFileRank = stall::kMaxRank;

// "other-branch" as "OtherBranch", "cannot tell" as "CannotTell": names in Kubernetes' way.
std::string CamelCase(std::string_view name) {
  std::string made;
  bool upper = true;
  for (const char letter : name) {
    const bool separates = letter == '-' || letter == ' ';
    if (!separates)
      made +=
          upper && letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
    upper = separates;
  }
  return made;
}

std::set<int> RanksOfFiles(const WorkerEvidence& worker) {
  std::set<int> ranks;
  for (const v1::EvidenceFile& file : worker.files) {
    const int rank = stall::ParseEvidenceName(file.name()).rank;
    if (rank >= 0) ranks.insert(rank);
  }
  return ranks;
}

// By how much the ranks in the names of each worker's files are raised. Processes that do not know
// their rank in the job are named by their rank in the pod, so that several pods have a rank 0. The
// pods' own ranks then tell the processes apart, if all are known.
std::vector<int> RankShifts(const std::vector<WorkerEvidence>& workers) {
  std::vector<int> shifts(workers.size(), 0);
  std::set<int> all;
  std::size_t named = 0;
  int most = 0;
  bool known = true;
  for (const WorkerEvidence& worker : workers) {
    const std::set<int> ranks = RanksOfFiles(worker);
    if (ranks.empty()) continue;
    named += ranks.size();
    all.insert(ranks.begin(), ranks.end());
    most = std::max(most, *ranks.rbegin() + 1);
    const bool local = *ranks.rbegin() + 1 == static_cast<int>(ranks.size());
    known = known && worker.rank >= 0 && local;
  }
  if (named == all.size() || !known) return shifts;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const std::int64_t shift = std::int64_t{std::max(workers[i].rank, 0)} * most;
    if (shift + most > kMaxFileRank) return std::vector<int>(workers.size(), 0);
    shifts[i] = static_cast<int>(shift);
  }
  return shifts;
}

// The states of processes, whose ranks are inside the file: raised, and without those of which this
// worker has nothing to say.
template <typename IsOwn>
std::string OwnStates(const std::string& bytes, int shift, const IsOwn& is_own) {
  nlohmann::json states = ReadJson(bytes, {.max_depth = 6, .max_values = stall::kMaxJsonValues});
  if (!states.is_object()) return bytes;
  for (auto& [name, by_rank] : states.items()) {
    if (!by_rank.is_object()) continue;
    nlohmann::json shifted = nlohmann::json::object();
    for (auto& [key, value] : by_rank.items()) {
      int rank = 0;
      if (absl::SimpleAtoi(key, &rank) && rank >= 0 && rank <= kMaxFileRank - shift &&
          is_own(rank + shift))
        shifted[StrCat(rank + shift)] = value;
    }
    by_rank = std::move(shifted);
  }
  return JsonText(states);
}

// The ranks, as its files name them, of which the worker tells that they have ended.
std::set<int> EndedRanks(const WorkerEvidence& worker) {
  stall::JobEvidence states;
  for (const v1::EvidenceFile& file : worker.files) {
    if (stall::KindOfEvidence(file.content()) == stall::EvidenceKind::kProcesses)
      (void)stall::AddEvidence(file.name(), file.content(), states);
  }
  std::set<int> ended;
  for (const auto& [rank, one] : states.ranks) {
    if (one.state == stall::ProcessState::kGone) ended.insert(rank);
  }
  return ended;
}

// Makes the groups of a job whose ranks were raised its own.
void ShiftGroups(int shift, std::vector<stall::FlightGroup>& groups) {
  for (stall::FlightGroup& group : groups) {
    group.name += StrCat("@", shift);
    for (int& rank : group.ranks) rank += shift;
  }
}

// The evidence of all workers together.
class Joined {
 public:
  explicit Joined(JobEvidenceOrder& order) : order_(order), shifts_(RankShifts(order.workers)) {
    for (std::size_t i = 0; i < order.workers.size(); ++i) {
      const WorkerEvidence& worker = order.workers[i];
      for (const v1::EvidenceFile& file : worker.files) bytes_ += file.content().size();
      // An ended process may have the number of one that runs elsewhere since.
      const std::set<int> ended = EndedRanks(worker);
      for (const int rank : RanksOfFiles(worker)) {
        if (!ended.contains(rank) && !Owns(i, rank + shifts_[i]))
          contested_.insert(rank + shifts_[i]);
      }
    }
    for (std::size_t i = 0; i < order.workers.size(); ++i) Add(i);
    AddLabels();
    // Evidence of two jobs, mixed, would name anybody.
    for (const int rank : contested_) evidence_.ranks.erase(rank);
    std::size_t processes = 0;
    for (const WorkerEvidence& worker : order.workers) processes += worker.processes;
    NoteSilent();
    // Processes know better how many they are than their pods tell.
    evidence_.world =
        world_ > 0 ? world_ : static_cast<int>(std::min<std::size_t>(processes, kMaxFileRank));
  }

  const stall::JobEvidence& evidence() const { return evidence_; }
  // Ranks of which several workers tell, whose evidence does not count.
  const std::set<int>& contested() const { return contested_; }
  // Null if no worker told of the rank.
  const WorkerEvidence* OwnerOf(int rank) const {
    const auto found = owners_.find(rank);
    return found == owners_.end() ? nullptr : &order_.workers[found->second];
  }
  // The worker of the evidence's silent pod; null if it has none.
  const WorkerEvidence* silent() const { return silent_; }

 private:
  void Add(std::size_t index) {
    WorkerEvidence& worker = order_.workers[index];
    bool emptied = false;
    for (v1::EvidenceFile& file : worker.files) {
      const absl::Status added = AddFile(index, file);
      world_ = std::max(world_, std::exchange(evidence_.world, 0));
      if (!added.ok()) Note(worker, StrCat(file.name(), ": ", MessageOf(added)));
      if (bytes_ <= kMaxKeptBytes) continue;
      file.clear_content();
      emptied = true;
    }
    if (emptied)
      Note(worker, StrCat("its files are not kept, because the job's have more than ",
                          kMaxKeptBytes >> 20, " MiB"));
  }

  void AddLabels() {
    std::vector<int> processes(order_.workers.size(), 0);  // How many are named of each worker.
    for (auto& [rank, one] : evidence_.ranks) {
      const auto owner = owners_.find(rank);
      if (owner == owners_.end()) continue;
      const WorkerEvidence& worker = order_.workers[owner->second];
      ShiftOwnJob(shifts_[owner->second], one);
      one.label = worker.pod.empty() ? worker.name : worker.pod;
      if (worker.processes > 1) one.label += StrCat(", process ", processes[owner->second]++);
    }
  }

  // A worker whose ranks are raised may be a job of its own, as a replica of a service is: then its
  // groups have its own ranks only.
  static void ShiftOwnJob(int shift, stall::RankEvidence& one) {
    const auto is_own = [shift](const stall::FlightGroup& group) {
      return group.ranks.empty() || group.ranks.back() < shift;
    };
    if (shift == 0 || one.groups.empty() ||
        !std::all_of(one.groups.begin(), one.groups.end(), is_own))
      return;
    ShiftGroups(shift, one.groups);
    for (std::optional<stall::FlightRecord>* record : {&one.flight, &one.flight_later}) {
      if (*record) ShiftGroups(shift, (*record)->groups);
    }
  }

  // Finds the only worker that did not answer, where all others told of all their processes.
  void NoteSilent() {
    std::vector<std::size_t> told(order_.workers.size(), 0);
    for (const auto& [rank, owner] : owners_) ++told[owner];
    const WorkerEvidence* silent = nullptr;
    for (std::size_t i = 0; i < order_.workers.size(); ++i) {
      const WorkerEvidence& worker = order_.workers[i];
      const bool answered = worker.missing.empty();
      if (answered ? told[i] < worker.processes : silent != nullptr) return;
      if (!answered) silent = &worker;
    }
    if (silent == nullptr || !contested_.empty()) return;
    silent_ = silent;
    evidence_.silent = {std::string(HostOf(silent->address)), silent->processes};
  }

  // Whether the rank is the worker's, which takes it if it is nobody's.
  bool Owns(std::size_t index, int rank) {
    return owners_.try_emplace(rank, index).first->second == index;
  }

  absl::Status AddFile(std::size_t index, const v1::EvidenceFile& file) {
    const stall::EvidenceName name = stall::ParseEvidenceName(file.name());
    const int rank = name.rank < 0 ? -1 : name.rank + shifts_[index];
    const auto is_own = [this, index](int of) { return Owns(index, of); };
    if (rank >= 0 && !is_own(rank))
      return absl::InvalidArgumentError(
          StrCat("it is of rank ", rank, ", which ", OwnerOf(rank)->name, " told of before"));
    if (stall::KindOfEvidence(file.content()) == stall::EvidenceKind::kProcesses)
      return stall::AddEvidence(file.name(), OwnStates(file.content(), shifts_[index], is_own),
                                evidence_);
    if (shifts_[index] == 0) return stall::AddEvidence(file.name(), file.content(), evidence_);
    return stall::AddEvidence(
        rank < 0 ? file.name() : StrCat(rank, name.later ? ".b." : ".a.", "evidence"),
        file.content(), evidence_);
  }

  static void Note(WorkerEvidence& worker, std::string note) {
    if (worker.notes.size() < kMaxWorkerNotes) worker.notes.push_back(std::move(note));
  }

  JobEvidenceOrder& order_;
  const std::vector<int> shifts_;
  std::size_t bytes_ = 0;
  int world_ = 0;  // As processes tell it; 0 if none does.
  stall::JobEvidence evidence_{};
  std::map<int, std::size_t> owners_{};  // The worker that told of a rank, by rank.
  std::set<int> contested_{};
  const WorkerEvidence* silent_ = nullptr;
};

EvidenceObject WorkerObject(const WorkerEvidence& worker) {
  EvidenceObject object = {{"name", worker.name}};
  if (!worker.pod.empty()) object["pod"] = worker.pod;
  if (!worker.node.empty()) object["node"] = worker.node;
  if (worker.rank >= 0) object["rank"] = worker.rank;
  if (!worker.missing.empty()) object["missing"] = worker.missing;
  EvidenceObject files = EvidenceObject::array();
  for (const v1::EvidenceFile& file : worker.files) files.push_back(file.name());
  object["files"] = std::move(files);
  if (worker.left_out_bytes > 0) object["leftOutBytes"] = worker.left_out_bytes;
  if (!worker.notes.empty()) object["notes"] = worker.notes;
  return object;
}

// With the stacks, and with the workers, unless that makes it too large.
std::string JsonOf(const JobEvidenceOrder& order, std::string_view text, EvidenceObject verdict,
                   const std::vector<stall::StackGroup>& groups) {
  // Lists of runs read the headline out of the first bytes.
  EvidenceObject object = {
      {"format", 1},
      {"captureId", order.capture_id},
      {"run", order.run},
      {"headline", text.substr(0, text.find('\n'))},
      {"lookedAt", FormatRfc3339(order.looked_at)},
      {"verdict", std::move(verdict)},
      {"stacks", EvidenceObject::parse(stall::StackGroupsJson(groups, kOneLine))}};
  EvidenceObject workers = EvidenceObject::array();
  for (const WorkerEvidence& worker : order.workers) workers.push_back(WorkerObject(worker));
  object["workers"] = std::move(workers);
  for (const char* dispensable : {"", "stacks", "workers"}) {
    object.erase(dispensable);
    std::string json = JsonText(object, 1);
    if (json.size() <= kMaxEvidenceJsonBytes) return json;
  }
  return "";
}

std::string TextWithMissing(const JobEvidenceOrder& order, std::string text) {
  std::size_t missing = 0;
  for (const WorkerEvidence& worker : order.workers) {
    if (worker.missing.empty() || ++missing > kMaxMissingLines) continue;
    text += StrCat("Nothing came from ", worker.name, ": ", worker.missing, ".\n");
  }
  if (missing > kMaxMissingLines)
    text += StrCat("Nothing came from ", missing - kMaxMissingLines, " more.\n");
  return text;
}

}  // namespace

void TakeAnswer(absl::StatusOr<v1::ReadEvidenceResponse> answer, WorkerEvidence& worker) {
  if (!answer.ok()) {
    worker.missing = absl::IsUnimplemented(answer.status())
                         ? "its sidecar is too old to read evidence"
                         : MessageOf(BoundError(answer.status()));
    return;
  }
  worker.missing.clear();
  for (v1::EvidenceFile& file : *answer->mutable_files()) worker.files.push_back(std::move(file));
  worker.notes.assign(answer->notes().begin(), answer->notes().end());
  worker.left_out_bytes = answer->left_out_bytes();
}

stall::JobEvidence JoinEvidence(JobEvidenceOrder& order) { return Joined(order).evidence(); }

StallReport ReportStall(JobEvidenceOrder& order) {
  const Joined joined(order);
  const stall::JobEvidence& evidence = joined.evidence();
  const stall::Verdict verdict = stall::JudgeStall(evidence);
  const std::vector<stall::StackGroup> groups = stall::GroupStacks(evidence, /*all_threads=*/false);
  StallReport report;
  report.kind = CamelCase(stall::NameOf(verdict.kind));
  report.confidence = CamelCase(stall::NameOf(verdict.confidence));
  EvidenceObject verdict_object = EvidenceObject::parse(stall::VerdictJson(verdict, kOneLine));
  const auto text = verdict_object.at("text").get<std::string>();
  report.text = TextWithMissing(order, text);
  if (const std::set<int>& contested = joined.contested(); !contested.empty())
    report.text += StrCat("Several workers tell of ", contested.size() == 1 ? "rank " : "ranks ",
                          stall::RanksText({contested.begin(), contested.end()}),
                          ", as if they were of several jobs: choose one job's pods.\n");
  const auto with_stacks = static_cast<std::size_t>(
      std::count_if(evidence.ranks.begin(), evidence.ranks.end(),
                    [](const auto& one) { return one.second.stacks.has_value(); }));
  report.stacks = stall::StackGroupsText(groups, with_stacks);
  for (const stall::Culprit& culprit : verdict.culprits) {
    StallCulprit named{.rank = culprit.rank, .line = culprit.line};
    const WorkerEvidence* owner = joined.OwnerOf(culprit.rank);
    // A rank of which nobody told is named only if it is in the silent pod.
    if (owner == nullptr && verdict.kind == stall::StallClass::kNetwork) owner = joined.silent();
    if (owner != nullptr) {
      named.pod = owner->pod;
      named.node = owner->node;
    }
    report.culprits.push_back(std::move(named));
  }
  report.json = JsonOf(order, text, std::move(verdict_object), groups);
  return report;
}

}  // namespace strobe::capture
