#include "collector/trace/report/digest_operations.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "collector/trace/report/digest_steps.h"
#include "collector/trace/report/merged_calls.h"
#include "collector/trace/report/robust.h"
#include "collector/trace/report/step_operations.h"
#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::report {
namespace {

// Hostile texts name more.
constexpr std::uint64_t kMaxReplicas = 1 << 20;
constexpr std::size_t kMaxDimensions = 8;
// Ranks of a group, as in digests, and about how many the groups of a digest have together.
constexpr std::size_t kMaxRanks = 65'536, kMaxRanksOfDigest = 1 << 20;

// Reads numbers with commas between them from the front of `text`, and takes them away.
std::vector<std::uint32_t> TakeNumbers(std::string_view& text) {
  std::vector<std::uint32_t> numbers;
  while (true) {
    std::uint32_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec != std::errc()) return numbers;
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
    numbers.push_back(number);
    if (!text.starts_with(',')) return numbers;
    text.remove_prefix(1);
  }
}

bool Take(std::string_view word, std::string_view& text) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::vector<std::uint32_t> InList(std::string_view text, std::uint32_t id) {
  while (Take("{", text)) {
    std::vector<std::uint32_t> group = TakeNumbers(text);
    if (!Take("}", text)) return {};
    if (std::find(group.begin(), group.end(), id) != group.end()) return group;
    if (!Take(",", text)) return {};
  }
  return {};
}

// The product of sizes; 0 if it is too large or there are none.
std::uint64_t ProductOf(const std::vector<std::uint32_t>& sizes) {
  if (sizes.empty() || sizes.size() > kMaxDimensions) return 0;
  std::uint64_t product = 1;
  for (const std::uint32_t size : sizes) {
    product *= size;
    if (product > kMaxReplicas) return 0;
  }
  return product;
}

bool IsOrder(const std::vector<std::uint32_t>& order, std::size_t dimensions) {
  if (order.size() != dimensions) return false;
  for (std::uint32_t i = 0; i < dimensions; ++i)
    if (std::find(order.begin(), order.end(), i) == order.end()) return false;
  return true;
}

std::vector<std::uint32_t> InArray(std::string_view text, std::uint32_t id) {
  const std::vector<std::uint32_t> shape = TakeNumbers(text);
  if (shape.size() != 2 || shape[1] > kMaxRanks || !Take("]<=[", text)) return {};
  const std::vector<std::uint32_t> sizes = TakeNumbers(text);
  const std::uint64_t all = ProductOf(sizes);
  if (all == 0 || all != ProductOf(shape) || id >= all || !Take("]", text)) return {};
  std::vector<std::uint32_t> order;
  if (Take("T(", text)) {
    order = TakeNumbers(text);
    if (!IsOrder(order, sizes.size())) return {};
  } else {
    for (std::uint32_t i = 0; i < sizes.size(); ++i) order.push_back(i);
  }
  std::vector<std::uint64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  // Where `id` is after the dimensions were put in this order; then which numbers are around it.
  std::uint64_t place = 0;
  for (const std::uint32_t i : order) place = place * sizes[i] + id / strides[i] % sizes[i];
  std::vector<std::uint32_t> group(shape[1]);
  for (std::size_t i = 0; i < group.size(); ++i) {
    std::uint64_t at = place - place % shape[1] + i, number = 0;
    for (auto dimension = order.rbegin(); dimension != order.rend(); ++dimension) {
      number += at % sizes[*dimension] * strides[*dimension];
      at /= sizes[*dimension];
    }
    group[i] = static_cast<std::uint32_t>(number);
  }
  return group;
}

// Ranks wait for each other only in calls that all of them take part in.
bool Waits(digest::CollectiveKind kind) {
  return kind != digest::CollectiveKind::kSend && kind != digest::CollectiveKind::kReceive &&
         kind != digest::CollectiveKind::kPermute;
}

// See OperationType.
bool IsRooted(digest::CollectiveKind kind) {
  return kind == digest::CollectiveKind::kBroadcast || kind == digest::CollectiveKind::kReduce ||
         kind == digest::CollectiveKind::kGather || kind == digest::CollectiveKind::kScatter;
}

// The memory that a worker's step takes, as a number of calls.
constexpr std::size_t kCallsLikeStep = 2;
// Digests are not trusted. Longer names are cut, and calls of more kinds are left out.
constexpr std::size_t kMaxNameBytes = 200, kMaxKeys = 20'000;

// Tells different communicators of the same name apart by their ranks. A hash, because XLA names
// them by the ranks of all groups.
std::string IdentityOf(const digest::Communicator& communicator) {
  Sha256 identity;
  identity.Update(StrCat(communicator.name.size(), " ", communicator.name, communicator.size));
  for (const std::uint32_t rank : communicator.ranks) identity.Update(StrCat(",", rank));
  return identity.Hex();
}

std::string SomeOf(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 3;
  if (names.size() <= kMaxNames) return Join(names, ", ");
  return StrCat(Join({names.begin(), names.begin() + kMaxNames}, ", "), " and ",
                names.size() - kMaxNames, " more");
}

}  // namespace

std::vector<std::uint32_t> ReplicaGroupOf(std::string_view groups, std::uint32_t id) {
  if (Take("[", groups)) return InArray(groups, id);
  return Take("{", groups) ? InList(groups, id) : std::vector<std::uint32_t>();
}

digest::Communicator WithOwnGroup(const digest::Digest& digest,
                                  const digest::Communicator& communicator) {
  digest::Communicator own = communicator;
  const bool one_device = digest.devices.size() == 1 && !digest.knows.host_device;
  if (!digest.rank || !one_device || !communicator.ranks.empty()) return own;
  std::vector<std::uint32_t> ranks = ReplicaGroupOf(communicator.name, *digest.rank);
  if (ranks.empty()) return own;
  own.size = static_cast<std::uint32_t>(ranks.size());
  own.ranks = std::move(ranks);
  return own;
}

class DigestMerger::Merged {
 public:
  explicit Merged(const MergeLimits& limits) : limits_(limits) {}

  void Add(const digest::Digest& digest) {
    Part part{.worker = WorkerOf(digest)};
    std::string_view loop;
    part.steps = StepsOf(digest, limits_.steps_per_worker, loop);
    part.loop = CutUtf8(loop, kMaxNameBytes);
    std::erase_if(part.steps, [&](const auto& step) { return step.number >= first_dropped_; });
    for (const WorkerStepTime& step : part.steps) {
      time_of_loop_[part.loop] += static_cast<double>(step.time.end_ns - step.time.begin_ns);
      kept_of_step_[step.number] += kCallsLikeStep;
    }
    kept_ += part.steps.size() * kCallsLikeStep;
    part.cut = digest.cuts.steps + digest.cuts.collectives > 0;
    parts_.push_back(std::move(part));
    calls_.emplace_back();
    if (!parts_.back().steps.empty()) AddCalls(digest);
    DropStepsBeyondLimit();
  }

  Job Finish(std::size_t expected_workers) {
    Job job;
    for (const Part& part : parts_) job.workers.push_back(part.worker);
    KeepMainLoop();
    for (const CommunicatorFacts& facts : communicator_facts_)
      job.communicators.push_back(CommunicatorOf(facts));
    AddSteps(job);
    AddOperations(job);
    CompareCalls(job);
    TellUnknown(job, expected_workers);
    return job;
  }

 private:
  struct Part {
    JobWorker worker{};
    std::string loop{};
    std::vector<WorkerStepTime> steps{};
    bool cut = false;  // Its digest is not complete.
  };
  struct Key {
    std::uint32_t communicator = 0;
    std::string name{};
    bool waits = true, rooted = false;
    bool numbered = true;    // All calls have a sequence number.
    std::uint32_t size = 0;  // The communicator's size; 0 = not told.
  };

  struct CommunicatorFacts {
    Communicator sums{};  // Without its members and its kind.
    RankOrder order = RankOrder::kUnknown;
    CallKinds kinds{};
  };

  static Communicator CommunicatorOf(const CommunicatorFacts& facts) {
    Communicator communicator = facts.sums;
    communicator.kind = GroupKindByName(communicator.name);
    communicator.named = communicator.kind != GroupKind::kUnknown;
    if (!communicator.named) communicator.kind = GroupKindByCalls(facts.kinds, facts.order);
    return communicator;
  }

  // Counts a call of the worker that was added last.
  void NoteCall(const digest::Collective& call, std::uint32_t communicator,
                std::set<std::uint32_t>& called) {
    CommunicatorFacts& facts = communicator_facts_[communicator];
    if (called.insert(communicator).second) {
      ++facts.sums.callers;
      facts.sums.worker_steps += parts_.back().steps.size();
    }
    ++facts.sums.calls;
    ++facts.kinds[static_cast<std::size_t>(call.kind)];
    facts.sums.in_calls_ns += static_cast<double>(call.end_ns) - static_cast<double>(call.begin_ns);
  }

  struct Identity {
    digest::Communicator communicator{};  // With the ranks of the worker's own group.
    std::string text{};                   // As IdentityOf.
  };
  // A digest's communicators by number, because each may have thousands of ranks.
  struct Identities {
    std::map<std::uint32_t, Identity> of{};
    std::size_t ranks = 0;  // All have so many together; a short name may mean many.
  };

  // nullopt if it would be one key too many. Calls of known keys are always joined.
  std::optional<std::uint32_t> KeyOf(const digest::Digest& digest, const digest::Collective& call,
                                     Identities& identities) {
    static const digest::Communicator kUnnamed;
    const digest::Communicator& written = call.communicator < digest.communicators.size()
                                              ? digest.communicators[call.communicator]
                                              : kUnnamed;
    const auto [entry_of, unseen] = identities.of.try_emplace(call.communicator);
    if (unseen) {
      entry_of->second.communicator =
          identities.ranks < kMaxRanksOfDigest ? WithOwnGroup(digest, written) : written;
      identities.ranks += entry_of->second.communicator.ranks.size();
      entry_of->second.text = IdentityOf(entry_of->second.communicator);
    }
    const digest::Communicator& communicator = entry_of->second.communicator;
    const std::string& identity = entry_of->second.text;
    const std::string name = CutUtf8(digest.names[call.name], kMaxNameBytes);
    const auto known = communicators_.find(identity);
    const auto group = known != communicators_.end()
                           ? known->second
                           : static_cast<std::uint32_t>(communicators_.size());
    if (const auto entry = key_of_.find({group, name}); entry != key_of_.end())
      return entry->second;
    if (keys_.size() >= kMaxKeys) return std::nullopt;
    if (known == communicators_.end()) {
      communicators_.emplace(identity, group);
      communicator_facts_.push_back({.sums = {.name = CutUtf8(communicator.name, kMaxNameBytes)},
                                     .order = RankOrderOf(communicator, digest.world_size)});
    }
    const auto key = static_cast<std::uint32_t>(keys_.size());
    key_of_.emplace(std::pair(group, name), key);
    keys_.push_back({.communicator = group,
                     .name = name,
                     .waits = Waits(call.kind),
                     .rooted = IsRooted(call.kind),
                     .size = communicator.size});
    return key;
  }

  void AddCalls(const digest::Digest& digest) {
    const std::vector<WorkerStepTime>& steps = parts_.back().steps;
    CallList& calls = calls_.back();
    // The keys of pairs of a communicator and a name, because they are looked up for each call.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::optional<std::uint32_t>> keys;
    Identities identities;
    std::set<std::uint32_t> called;
    for (const digest::Collective& from : digest.collectives) {
      if (from.name >= digest.names.size() || from.end_ns < from.begin_ns) continue;
      MergedCall call{.ordinal = from.ordinal,
                      .sequence = from.sequence,
                      .begin_ns = CommonTime(digest, from.begin_ns),
                      .end_ns = CommonTime(digest, from.end_ns)};
      const auto next = std::partition_point(
          steps.begin(), steps.end(),
          [&](const WorkerStepTime& step) { return step.time.begin_ns <= call.begin_ns; });
      if (next == steps.begin() || call.begin_ns >= std::prev(next)->time.end_ns) continue;
      call.step = std::prev(next)->number;
      if (call.step >= first_dropped_) continue;
      const auto [key, fresh] = keys.try_emplace({from.communicator, from.name});
      if (fresh) key->second = KeyOf(digest, from, identities);
      if (!key->second) {
        ++counts_.unmatched;
        continue;
      }
      call.key = *key->second;
      keys_[call.key].numbered &= from.sequence >= 0;
      NoteCall(from, keys_[call.key].communicator, called);
      calls.push_back(call);
    }
    std::sort(calls.begin(), calls.end(), [](const MergedCall& a, const MergedCall& b) {
      return std::tie(a.key, a.ordinal) < std::tie(b.key, b.ordinal);
    });
    MergeDevices(calls);
    calls.shrink_to_fit();
    for (const MergedCall& call : calls) ++kept_of_step_[call.step];
    kept_ += calls.size();
  }

  // Several devices of a worker take part in a call: it arrives with the last of them.
  static void MergeDevices(CallList& calls) {
    std::size_t kept = 0;
    for (const MergedCall& call : calls) {
      if (kept > 0 && calls[kept - 1].key == call.key && calls[kept - 1].ordinal == call.ordinal) {
        MergedCall& merged = calls[kept - 1];
        merged.begin_ns = std::max(merged.begin_ns, call.begin_ns);
        merged.end_ns = std::max(merged.end_ns, call.end_ns);
      } else {
        calls[kept++] = call;
      }
    }
    calls.resize(kept);
  }

  void DropStepsBeyondLimit() {
    if (kept_ <= limits_.calls) return;
    // Drops a quarter of the limit at once, so that the lists are not searched for each digest.
    while (kept_ > limits_.calls / 4 * 3 && !kept_of_step_.empty()) {
      const auto last = std::prev(kept_of_step_.end());
      first_dropped_ = last->first;
      kept_ -= last->second;
      kept_of_step_.erase(last);
    }
    for (CallList& calls : calls_) {
      std::erase_if(calls, [&](const MergedCall& call) { return call.step >= first_dropped_; });
      calls.shrink_to_fit();
    }
    for (Part& part : parts_) {
      std::erase_if(part.steps, [&](const auto& step) { return step.number >= first_dropped_; });
      part.steps.shrink_to_fit();
    }
  }

  void KeepMainLoop() {
    const auto main =
        std::max_element(time_of_loop_.begin(), time_of_loop_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (part.steps.empty() || part.loop == main->first) continue;
      other_loops_.push_back(NameOf(part.worker));
      part.steps.clear();
      calls_[i].clear();
    }
  }

  void AddSteps(Job& job) {
    std::map<std::int64_t, std::vector<WorkerStep>> steps;
    for (std::uint32_t i = 0; i < parts_.size(); ++i) {
      for (WorkerStepTime& step : parts_[i].steps) {
        step.time.worker = i;
        if (step.whole || parts_[i].steps.size() == 1) steps[step.number].push_back(step.time);
      }
    }
    for (auto& [number, workers] : steps)
      job.steps.push_back({.number = number, .workers = std::move(workers)});
  }

  void AddOperations(Job& job) {
    std::vector<bool> numbered, clocks;
    for (const Key& key : keys_) numbered.push_back(key.numbered);
    for (const Part& part : parts_) clocks.push_back(part.worker.clock_error_ns.has_value());
    for (CallList& calls : calls_) {
      bool changed = false;
      for (MergedCall& call : calls) {
        if (!numbered[call.key]) continue;
        call.ordinal = call.sequence;
        changed = true;
      }
      if (changed)
        std::sort(calls.begin(), calls.end(), [](const MergedCall& a, const MergedCall& b) {
          return std::tie(a.key, a.ordinal) < std::tie(b.key, b.ordinal);
        });
    }
    const auto orders = OrderCalls(calls_, keys_.size(), numbered, clocks);
    std::vector<CallKey> keys;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const Key& key = keys_[i];
      // More workers call it than it has ranks, so several communicators have the same name.
      const bool ambiguous = key.size > 0 && orders[i].shift.size() > key.size;
      if (ambiguous) ambiguous_.insert(key.name);
      if (!key.waits) transfers_.insert(key.name);
      keys.push_back({.communicator = key.communicator,
                      .name = key.name,
                      .joined = key.waits && !ambiguous,
                      .rooted = key.rooted});
    }
    AddStepOperations(calls_, keys, orders, job, counts_);
    calls_.clear();
  }

  void TellUnknown(Job& job, std::size_t expected_workers) const {
    const auto tell = [&](const auto&... words) { job.unknown.push_back(StrCat(words...)); };
    const auto names = [&](auto chosen) {
      std::vector<std::string> found;
      for (const Part& part : parts_) {
        if (chosen(part)) found.push_back(NameOf(part.worker));
      }
      return found;
    };
    if (expected_workers > parts_.size())
      tell(expected_workers - parts_.size(), " of ", expected_workers,
           " workers are missing: whether others waited for them is not known");
    const auto without_steps = names([](const Part& part) { return part.steps.empty(); });
    if (without_steps.size() == parts_.size()) {
      tell("no trace has steps: what a worker does in a step is not known");
    } else if (const auto lacking = without_steps.size() - other_loops_.size(); lacking > 0) {
      tell(lacking, " of ", parts_.size(), " workers have no steps and are not compared");
    }
    if (!other_loops_.empty())
      tell("the steps of ", SomeOf(other_loops_), " are those of another loop");
    if (job.steps.size() == 1) tell("one step only: whether a difference is chance is not known");
    const auto unmeasured =
        names([](const Part& part) { return !part.worker.clock_error_ns.has_value(); });
    if (!unmeasured.empty() && parts_.size() > 1)
      tell("the clocks of ", unmeasured.size(), " workers are not measured (", SomeOf(unmeasured),
           "): whether they arrived last is known only from the durations of calls");
    std::vector<double> lengths;
    for (const JobStep& step : job.steps)
      for (const WorkerStep& worker : step.workers)
        lengths.push_back(static_cast<double>(worker.end_ns - worker.begin_ns));
    const double step_ns = Median(lengths);
    const auto vague = names([&](const Part& part) {
      return step_ns > 0 && static_cast<double>(part.worker.clock_error_ns.value_or(0)) > step_ns;
    });
    if (!vague.empty() && parts_.size() > 1)
      tell("the clocks of ", vague.size(), " workers are known less well than a step takes (",
           SomeOf(vague), "): whether they arrived last is known only from the durations of calls");
    const auto unplaced = names([](const Part& part) { return !part.worker.on_common_clock; });
    if (!unplaced.empty() && parts_.size() > 1)
      tell("the traces of ", SomeOf(unplaced),
           " do not say at which time they began: how long they waited, or others for them, is "
           "known only from the durations of calls");
    const auto cut = names([](const Part& part) { return part.cut; });
    if (!cut.empty())
      tell("the digests of ", SomeOf(cut),
           " are not complete: calls that they lack may have been made");
    if (first_dropped_ != std::numeric_limits<std::int64_t>::max())
      tell("there are too many calls: step ", first_dropped_, " and later ones were left out");
    if (!transfers_.empty())
      tell("who waits for whom in transfers between two workers is not known (",
           SomeOf({transfers_.begin(), transfers_.end()}), ")");
    if (!ambiguous_.empty())
      tell("several communicators have the same name, so that calls were not joined (",
           SomeOf({ambiguous_.begin(), ambiguous_.end()}), ")");
    if (counts_.unmatched > 0)
      tell(counts_.unmatched, " calls could not be joined with those of other workers");
    if (counts_.impossible > 0)
      tell(counts_.impossible,
           " calls do not overlap in time with those of other workers and were not joined");
  }

  const MergeLimits limits_;
  std::vector<Part> parts_{};
  std::vector<CallList> calls_{};                         // One for each part.
  std::map<std::string, std::uint32_t> communicators_{};  // By identity.
  std::vector<CommunicatorFacts> communicator_facts_{};
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> key_of_{};
  std::vector<Key> keys_{};
  std::map<std::string, double> time_of_loop_{};
  // Calls of each step, and of all; a step of a worker counts as kCallsLikeStep.
  std::map<std::int64_t, std::size_t> kept_of_step_{};
  std::size_t kept_ = 0;
  std::int64_t first_dropped_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::string> other_loops_{};
  std::set<std::string> ambiguous_{}, transfers_{};
  StepOperationCounts counts_{};
};

DigestMerger::DigestMerger(const MergeLimits& limits) : merged_(std::make_unique<Merged>(limits)) {}
DigestMerger::~DigestMerger() = default;
void DigestMerger::Add(const digest::Digest& digest) { merged_->Add(digest); }
Job DigestMerger::Finish(std::size_t expected_workers) { return merged_->Finish(expected_workers); }

}  // namespace strobe::report
