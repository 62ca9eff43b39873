#include "collector/stall/collective_record.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "collector/stall/evidence.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::stall {
namespace {

using CollectiveJson = nlohmann::json;

constexpr std::string_view kCollectivesMark = "\"strobe_collectives\"";
constexpr std::size_t kMaxCommunicators = 4096;

const CollectiveJson* Member(const CollectiveJson& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? nullptr : &*found;
}

std::int64_t IntegerAt(const CollectiveJson* value, std::int64_t least, std::int64_t most) {
  if (value == nullptr || !value->is_number_integer()) return least;
  if (value->is_number_unsigned())
    return static_cast<std::int64_t>(std::clamp<std::uint64_t>(
        value->get<std::uint64_t>(), static_cast<std::uint64_t>(std::max<std::int64_t>(least, 0)),
        static_cast<std::uint64_t>(most)));
  return std::clamp(value->get<std::int64_t>(), least, most);
}

std::string TextAt(const CollectiveJson* value) {
  constexpr std::size_t kMost = 200;
  if (value == nullptr || !value->is_string()) return "";
  return value->get_ref<const std::string&>().substr(0, kMost);
}

constexpr std::int64_t kMostNumber = std::numeric_limits<std::int64_t>::max() / 4;

CollectiveRow RowOf(const CollectiveJson& json) {
  return {.number = IntegerAt(Member(json, "number"), 0, kMostNumber),
          .call = TextAt(Member(json, "call")),
          .type = TextAt(Member(json, "type")),
          .count = IntegerAt(Member(json, "count"), 0, kMostNumber),
          .root = static_cast<int>(IntegerAt(Member(json, "root"), -1, kMaxRank)),
          .begun_ns = IntegerAt(Member(json, "begun_ns"), 0, kMostNumber)};
}

TransferRow TransferOf(const CollectiveJson& json) {
  return {.peer = static_cast<int>(IntegerAt(Member(json, "peer"), -1, kMaxRank)),
          .sends = TextAt(Member(json, "call")) == "Send",
          .number = IntegerAt(Member(json, "number"), 0, kMostNumber),
          .bytes = IntegerAt(Member(json, "bytes"), 0, kMostNumber),
          .begun_ns = IntegerAt(Member(json, "begun_ns"), 0, kMostNumber)};
}

// The words of PyTorch, which the rules compare.
std::string OperationOf(const std::string& call) {
  static const std::map<std::string, std::string> words = {
      {"AllReduce", "all_reduce"}, {"AllGather", "all_gather"}, {"ReduceScatter", "reduce_scatter"},
      {"Broadcast", "broadcast"},  {"Reduce", "reduce"},        {"AlltoAll", "all_to_all"},
      {"Gather", "gather"},        {"Scatter", "scatter"}};
  const auto found = words.find(call);
  return StrCat("nccl:", found == words.end() ? call : found->second);
}

// Does this member of a collective need the others to go on?
bool NeedsOthers(const CollectiveRow& row, int rank) {
  const bool is_root = row.root == rank;
  if (row.call == "Broadcast" || row.call == "Scatter") return !is_root;
  if (row.call == "Reduce" || row.call == "Gather") return is_root;
  return true;
}

// The ranks of one communicator, as far as they are known.
struct Members {
  int size = 0;
  std::map<int, int> job_ranks{};          // By the rank in the communicator.
  std::map<int, std::int64_t> launched{};  // By the rank of the job: how many collectives.
  std::set<int> whole{};                   // Ranks of the job of which nothing was overwritten.
  std::map<std::tuple<int, int, bool>, std::int64_t> transfers{};  // The newest: from, to, sends.

  // How many collectives all of them have begun.
  std::int64_t BegunByAll() const {
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, count] : launched) fewest = std::min(fewest, count);
    return fewest;
  }
  // How many transfers in this direction the one side has begun; nullopt if that is not known.
  std::optional<std::int64_t> Begun(int from, int to, bool sends) const {
    const auto found = transfers.find({from, to, sends});
    if (found != transfers.end()) return found->second;
    const auto rank = job_ranks.find(sends ? from : to);
    if (rank == job_ranks.end() || !whole.contains(rank->second)) return std::nullopt;
    return 0;
  }
};

using Records = std::map<int, const CollectiveRecord*>;  // By the rank of the job.

class Adopter {
 public:
  explicit Adopter(const Records& records) {
    for (const auto& [rank, record] : records) {
      for (const CommunicatorRecord& group : record->communicators) AddMember(rank, *record, group);
    }
  }

  FlightRecord Build(const CollectiveRecord& record) {
    FlightRecord flight{.version = "nccl"};
    texts_.clear();
    groups_.clear();
    TextIndex("", flight);
    for (const CommunicatorRecord& group : record.communicators) {
      AddCalls(group, flight);
      AddTransfers(group, flight);
    }
    // The rules look at the order in which a rank began its calls.
    std::stable_sort(
        flight.entries.begin(), flight.entries.end(),
        [](const FlightEntry& a, const FlightEntry& b) { return a.created_ns < b.created_ns; });
    return flight;
  }

 private:
  void AddMember(int rank, const CollectiveRecord& record, const CommunicatorRecord& group) {
    Members& members = members_[group.id];
    members.size = std::max(members.size, group.ranks);
    members.job_ranks[group.rank] = rank;
    if (record.whole) members.whole.insert(rank);
    std::int64_t& launched = members.launched[rank];
    for (const CollectiveRow& row : group.calls) launched = std::max(launched, row.number);
    for (const TransferRow& row : group.transfers) {
      const auto [from, to] =
          row.sends ? std::pair(group.rank, row.peer) : std::pair(row.peer, group.rank);
      std::int64_t& newest = members.transfers[{from, to, row.sends}];
      newest = std::max(newest, row.number);
    }
  }

  std::uint32_t TextIndex(std::string text, FlightRecord& flight) {
    const auto [at, added] =
        texts_.try_emplace(std::move(text), static_cast<std::uint32_t>(flight.texts.size()));
    if (added) flight.texts.push_back(at->first);
    return at->second;
  }

  void AddCalls(const CommunicatorRecord& group, FlightRecord& flight) {
    if (group.calls.empty()) return;
    const auto [at, added] = groups_.try_emplace(group.id);
    if (added) {
      const Members& members = members_.at(group.id);
      FlightGroup made{.name = group.id, .desc = group.name};
      if (static_cast<int>(members.job_ranks.size()) == members.size) {
        for (const auto& [in_group, rank] : members.job_ranks) made.ranks.push_back(rank);
        std::sort(made.ranks.begin(), made.ranks.end());
      }
      at->second = {static_cast<std::uint32_t>(flight.groups.size()), members.BegunByAll()};
      flight.groups.push_back(std::move(made));
    }
    const auto [index, begun_by_all] = at->second;
    for (const CollectiveRow& row : group.calls) {
      flight.entries.push_back(
          {.group = index,
           .op = TextIndex(OperationOf(row.call), flight),
           .shape = TextIndex(StrCat("[", row.count, "] ", row.type), flight),
           .pg_id = index,
           .seq = row.number,
           .created_ns = row.begun_ns,
           .finished = row.number <= begun_by_all || !NeedsOthers(row, group.rank)});
    }
  }

  // Each direction between two ranks becomes a group of its own, because it has an order of its
  // own.
  void AddTransfers(const CommunicatorRecord& group, FlightRecord& flight) {
    // NCCL takes smaller sends into its own buffers, so that they end without the receiver.
    constexpr std::int64_t kBuffered = 16 << 20;
    const Members& members = members_.at(group.id);
    std::map<std::pair<int, int>, std::uint32_t> groups;
    for (const TransferRow& row : group.transfers) {
      if (row.peer < 0 || row.number == 0) continue;
      const auto [from, to] =
          row.sends ? std::pair(group.rank, row.peer) : std::pair(row.peer, group.rank);
      const auto [at, added] =
          groups.try_emplace({from, to}, static_cast<std::uint32_t>(flight.groups.size()));
      if (added) {
        FlightGroup made{.name = StrCat(group.id, " ", from, " to ", to), .desc = "transfers"};
        const auto a = members.job_ranks.find(from), b = members.job_ranks.find(to);
        if (a != members.job_ranks.end() && b != members.job_ranks.end())
          made.ranks = {std::min(a->second, b->second), std::max(a->second, b->second)};
        flight.groups.push_back(std::move(made));
      }
      const std::optional<std::int64_t> other = members.Begun(from, to, !row.sends);
      const bool waits = other && row.number > *other && (!row.sends || row.bytes >= kBuffered);
      flight.entries.push_back({.group = at->second,
                                .op = TextIndex("nccl:transfer", flight),
                                .pg_id = at->second,
                                .seq = row.number,
                                .created_ns = row.begun_ns,
                                .finished = !waits});
    }
  }

  std::map<std::string, Members> members_{};
  // Numbers of the record being built. What all have begun stands beside a group's.
  std::unordered_map<std::string, std::uint32_t> texts_{};
  std::map<std::string, std::pair<std::uint32_t, std::int64_t>> groups_{};
};

// Replaces the records of one look.
void Adopt(JobEvidence& evidence, std::optional<CollectiveRecord> RankEvidence::*from,
           std::optional<FlightRecord> RankEvidence::*to) {
  Records records;
  for (const auto& [rank, one] : evidence.ranks) {
    if (one.*from) records[rank] = &*(one.*from);
  }
  Adopter adopter(records);
  for (const auto& [rank, record] : records) evidence.ranks[rank].*to = adopter.Build(*record);
}

}  // namespace

bool LooksLikeCollectives(std::string_view bytes) {
  return bytes.starts_with('{') && Contains(bytes.substr(0, 200), kCollectivesMark);
}

absl::StatusOr<CollectiveRecord> ReadCollectives(std::string_view bytes) {
  if (bytes.size() > kMaxDumpBytes)
    return absl::DataLossError(StrCat("it has more than ", kMaxDumpBytes, " bytes"));
  const CollectiveJson json = ReadJson(bytes, {.max_depth = 6, .max_values = kMaxJsonValues});
  if (json.is_discarded() || !json.is_object())
    return absl::DataLossError("it is not JSON, or has too many values");
  if (IntegerAt(Member(json, "strobe_collectives"), 0, kMostNumber) != 1)
    return absl::DataLossError("it is of another version");
  CollectiveRecord record;
  const CollectiveJson* const whole = Member(json, "whole");
  record.whole = whole != nullptr && whole->is_boolean() && whole->get<bool>();
  const CollectiveJson* const groups = Member(json, "communicators");
  if (groups == nullptr || !groups->is_array())
    return absl::DataLossError("it has no communicators");
  if (groups->size() > kMaxCommunicators)
    return absl::DataLossError(StrCat("there are more than ", kMaxCommunicators, " communicators"));
  std::size_t rows = 0;
  for (const CollectiveJson& group : *groups) {
    CommunicatorRecord made{
        .id = TextAt(Member(group, "id")),
        .name = TextAt(Member(group, "name")),
        .rank = static_cast<int>(IntegerAt(Member(group, "rank"), 0, kMaxRank)),
        .ranks = static_cast<int>(IntegerAt(Member(group, "ranks"), 0, kMaxRank))};
    const CollectiveJson* const calls = Member(group, "calls");
    const CollectiveJson* const transfers = Member(group, "transfers");
    rows += (calls == nullptr ? 0 : calls->size()) + (transfers == nullptr ? 0 : transfers->size());
    if (rows > kMaxEntries)
      return absl::DataLossError(StrCat("there are more than ", kMaxEntries, " calls"));
    if (calls != nullptr && calls->is_array()) {
      for (const CollectiveJson& row : *calls) made.calls.push_back(RowOf(row));
    }
    if (transfers != nullptr && transfers->is_array()) {
      for (const CollectiveJson& row : *transfers) made.transfers.push_back(TransferOf(row));
    }
    record.communicators.push_back(std::move(made));
  }
  return record;
}

bool OnlyCollectivesTell(const JobEvidence& evidence) {
  bool any = false;
  for (const auto& [rank, one] : evidence.ranks) {
    if (one.flight && !one.flight->entries.empty()) return false;
    any = any || one.collectives.has_value();
  }
  return any;
}

JobEvidence WithCollectives(JobEvidence evidence) {
  Adopt(evidence, &RankEvidence::collectives, &RankEvidence::flight);
  Adopt(evidence, &RankEvidence::collectives_later, &RankEvidence::flight_later);
  return evidence;
}

}  // namespace strobe::stall
