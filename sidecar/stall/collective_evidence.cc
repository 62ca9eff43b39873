#include "sidecar/stall/collective_evidence.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "collector/stall/flight_record.h"
#include "common/base/strings.h"
#include "common/memory/foreign_memory.h"
#include "common/text/json.h"

namespace strobe::stall {
namespace {

using wire::CollectiveCopy;
using wire::CommunicatorCopy;
using CollectiveEvidenceJson = nlohmann::ordered_json;

constexpr std::size_t kCallsPerCommunicator = 32, kTransfersPerPeer = 4;

// Converts ticks to Unix time by one line through two moments, which orders events and tells their
// age; a trace needs more.
class TickLine {
 public:
  TickLine(const wire::CollectiveHeader& header, const wire::TickMoment& now,
           std::int64_t wall_minus_monotonic_ns)
      : now_(now), wall_minus_monotonic_ns_(wall_minus_monotonic_ns) {
    const std::uint64_t ticks = now.ticks - header.born_ticks;
    const std::uint64_t ns = now.other_ns - header.born_ns;
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    if (ticks > 0 && ticks < kMost && ns < kMost)
      ns_per_tick_ = static_cast<double>(ns) / static_cast<double>(ticks);
  }
  std::int64_t UnixNs(std::uint64_t ticks) const {
    constexpr double kYearNs = 3.2e16;
    const double age = std::clamp(
        static_cast<double>(static_cast<std::int64_t>(now_.ticks - ticks)) * ns_per_tick_, -kYearNs,
        kYearNs);
    return static_cast<std::int64_t>(now_.other_ns) - static_cast<std::int64_t>(age) +
           wall_minus_monotonic_ns_;
  }

 private:
  const wire::TickMoment now_;
  const std::int64_t wall_minus_monotonic_ns_;
  double ns_per_tick_ = 1;
};

int RankOfFile(const wire::CollectiveHeader& header,
               const std::map<int, EvidenceProcess>& processes) {
  const int rank = header.rank;
  if (rank >= 0) return rank <= kMaxRank ? rank : -1;
  for (const auto& [number, process] : processes) {
    if (process.pid == header.pid) return number;
  }
  return -1;
}

// The newest records of one communicator, newest first.
struct NewestCalls {
  std::vector<CollectiveCopy> calls{};
  std::map<std::tuple<int, wire::CollectiveCall>, std::vector<CollectiveCopy>> transfers{};
};

std::vector<NewestCalls> FindNewest(const wire::CollectiveFile& file, std::size_t communicators) {
  std::vector<NewestCalls> all(communicators);
  const std::uint64_t made = file.header()->made.load(std::memory_order_acquire);
  const std::uint64_t kept = std::min<std::uint64_t>(made, file.max_records());
  for (std::uint64_t back = 1; back <= kept; ++back) {
    CollectiveCopy copy;
    if (!file.Read(made - back, copy) || copy.key.communicator >= communicators) continue;
    NewestCalls& newest = all[copy.key.communicator];
    const bool transfer = wire::IsTransfer(copy.key.call);
    std::vector<CollectiveCopy>& to =
        transfer ? newest.transfers[{copy.key.peer, copy.key.call}] : newest.calls;
    if (to.size() < (transfer ? kTransfersPerPeer : kCallsPerCommunicator)) to.push_back(copy);
  }
  return all;
}

CollectiveEvidenceJson CallJson(std::uint64_t number, const wire::CallKey& key, std::uint64_t count,
                                std::int64_t begun_ns) {
  return {{"number", number},
          {"call", std::string(wire::NameOf(key.call))},
          {"type", std::string(wire::NameOf(key.type))},
          {"count", count},
          {"root", key.peer},
          {"begun_ns", begun_ns}};
}

CollectiveEvidenceJson CallsOf(const CommunicatorCopy& group, const NewestCalls& newest,
                               const TickLine& line) {
  CollectiveEvidenceJson calls = CollectiveEvidenceJson::array();
  // The newest one is known even if the calls of other communicators have overwritten its record.
  const bool overwritten =
      group.collectives > 0 &&
      (newest.calls.empty() || newest.calls.front().ordinal != group.collectives);
  for (auto call = newest.calls.rbegin(); call != newest.calls.rend(); ++call)
    calls.push_back(CallJson(call->ordinal, call->key, call->count, line.UnixNs(call->begin)));
  if (overwritten)
    calls.push_back(CallJson(group.collectives, group.newest, group.newest_count,
                             line.UnixNs(group.newest_begin)));
  return calls;
}

CollectiveEvidenceJson TransfersOf(const NewestCalls& newest, const TickLine& line) {
  CollectiveEvidenceJson transfers = CollectiveEvidenceJson::array();
  for (const auto& [peer, of_peer] : newest.transfers) {
    for (auto call = of_peer.rbegin(); call != of_peer.rend(); ++call) {
      // One that the library has not enqueued has no peer yet.
      if (call->sequence == 0 || call->key.peer < 0) continue;
      constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
      transfers.push_back({{"peer", call->key.peer},
                           {"call", std::string(wire::NameOf(call->key.call))},
                           {"number", call->sequence},
                           {"bytes", std::min(call->count, kMost) * wire::BytesOf(call->key.type)},
                           {"begun_ns", line.UnixNs(call->begin)}});
    }
  }
  return transfers;
}

}  // namespace

std::string CollectiveEvidence(const wire::CollectiveFile& file, const wire::TickMoment& now,
                               std::int64_t wall_minus_monotonic_ns) {
  const std::vector<CommunicatorCopy> groups = file.Communicators();
  if (groups.empty()) return "";
  const wire::CollectiveHeader& header = *file.header();
  const TickLine line(header, now, wall_minus_monotonic_ns);
  const std::vector<NewestCalls> newest = FindNewest(file, groups.size());
  CollectiveEvidenceJson communicators = CollectiveEvidenceJson::array();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const CommunicatorCopy& group = groups[i];
    if (group.has_ended) continue;
    communicators.push_back({{"id", StrCat("0x", absl::Hex(group.id))},
                             {"name", group.name},
                             {"rank", group.rank},
                             {"ranks", group.ranks},
                             {"calls", CallsOf(group, newest[i], line)},
                             {"transfers", TransfersOf(newest[i], line)}});
  }
  const bool whole = header.made.load(std::memory_order_acquire) <= file.max_records() &&
                     header.without_entry.load(std::memory_order_relaxed) == 0;
  // The mark comes first, because readers look for it there.
  CollectiveEvidenceJson evidence;
  evidence["strobe_collectives"] = 1;
  evidence["whole"] = whole;
  evidence["communicators"] = std::move(communicators);
  return JsonText(evidence);
}

std::map<int, std::string> ReadCollectiveEvidence(const std::string& directory,
                                                  const std::map<int, EvidenceProcess>& processes,
                                                  std::int64_t wall_minus_monotonic_ns) {
  namespace fs = std::filesystem;
  constexpr int kMaxListed = 10'000;  // Anybody may create files here.
  std::map<int, std::string> evidence;
  std::map<int, std::uint64_t> born;  // A restarted program leaves an older file.
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (int i = 0; !error && entry != fs::directory_iterator() && i < kMaxListed;
       ++i, entry.increment(error)) {
    const std::string path = entry->path().native();
    if (!path.ends_with(".nccl")) continue;
    wire::CollectiveFile file = wire::CollectiveFile::Map(path);
    if (!file) continue;
    const absl::StatusOr<ForeignMemory> guard =
        ForeignMemory::Guard(file.memory(), file.size(), /*writable=*/true);
    if (!guard.ok() || !file.Check()) continue;
    const wire::CollectiveHeader& header = *file.header();
    const std::uint64_t since = header.born_ns;
    const int rank = RankOfFile(header, processes);
    if (rank < 0 || since < born[rank]) continue;
    std::string text =
        CollectiveEvidence(file, wire::MonotonicMoment(header.tick_kind), wall_minus_monotonic_ns);
    if (text.empty() || guard->damaged()) continue;
    born[rank] = since;
    evidence[rank] = std::move(text);
    if (evidence.size() >= kMaxEvidenceProcesses) break;
  }
  return evidence;
}

}  // namespace strobe::stall
