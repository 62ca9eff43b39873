#include "collector/stall/wait_graph.h"

#include <algorithm>
#include <cstddef>

namespace strobe::stall {
namespace {

// Bounds of the search for skipped collectives: those next to the gap tell.
constexpr std::size_t kMaxSuspects = 64, kMaxLater = 64;

// A wait that is over in the second look was none.
bool StillWaits(const JobView& view, std::uint32_t group, int rank, std::int64_t seq) {
  if (!view.seen_twice.contains(rank)) return true;
  const Launches* later = view.Find(view.later, group, rank);
  return later != nullptr && later->open.contains(seq);
}

class GraphBuilder {
 public:
  GraphBuilder(const JobEvidence& evidence, const JobView& view)
      : evidence_(evidence), view_(view) {}

  WaitGraph Build() {
    for (const auto& [key, launches] : view_.first) {
      const auto [group, rank] = key;
      if (launches.open.empty() || !IsMember(group, rank)) continue;
      const auto& [seq, op] = *launches.open.begin();
      if (!StillWaits(view_, group, rank, seq)) continue;
      graph_.waits.push_back({.group = group, .seq = seq, .waiter = rank, .op = op});
      graph_.waiting.insert(rank);
      waiting_in_.insert(key);
    }
    // In the order in which each rank launched them.
    std::sort(graph_.waits.begin(), graph_.waits.end(), [](const Wait& a, const Wait& b) {
      const auto position = [](const Wait& wait) {
        return std::make_pair(wait.waiter, wait.op.entry - wait.op.record->entries.data());
      };
      return position(a) < position(b);
    });
    for (const Wait& wait : graph_.waits) {
      for (const int member : view_.groups[wait.group].ranks) {
        if (member != wait.waiter) AddEdge(wait, member);
      }
    }
    return std::move(graph_);
  }

 private:
  // One that is in a group only by its own word is of another attempt, or lies.
  bool IsMember(std::uint32_t group, int rank) const {
    const std::vector<int>& ranks = view_.groups[group].ranks;
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  }

  void AddEdge(const Wait& wait, int member) {
    const auto evidence = evidence_.ranks.find(member);
    if (evidence == evidence_.ranks.end() || !evidence->second.flight ||
        view_.dark.contains(member)) {
      graph_.waits_for_dark = graph_.waits_for_dark || view_.dark.contains(member);
      ++graph_.blamed[member];
      return;
    }
    const Launches* launches = view_.Find(view_.first, wait.group, member);
    if (launches == nullptr && !TellsAllOf(member, *evidence->second.flight)) return;
    if (launches == nullptr || launches->launched < wait.seq) {
      graph_.lacks[member].push_back(wait);
      ++graph_.blamed[member];
      return;
    }
    const auto own = launches->open.find(wait.seq);
    if (own != launches->open.end() && waiting_in_.contains({wait.group, member})) {
      if (own->second.signature() == wait.op.signature()) return;
      std::map<int, OpenOp>& clash = graph_.clashes[{wait.group, wait.seq}];
      clash[member] = own->second;
      clash[wait.waiter] = wait.op;
    } else if (launches->finished >= wait.seq) {
      std::vector<Wait>& lags = graph_.lags[wait.waiter];
      if (lags.empty() || lags.back().group != wait.group) lags.push_back(wait);
    }
  }

  bool TellsAllOf(int rank, const FlightRecord& record) {
    const auto [at, added] = tells_all_.try_emplace(rank, false);
    if (added) at->second = TellsAll(record);
    return at->second;
  }

  const JobEvidence& evidence_;
  const JobView& view_;
  WaitGraph graph_{};
  std::set<std::pair<std::uint32_t, int>> waiting_in_{};
  std::map<int, bool> tells_all_{};
};

// The order in which a rank launched its collectives, each known by its group's description, which
// ranks of different groups share.
using LaunchKey = std::pair<std::string, std::int64_t>;
using LaunchOrder = std::map<LaunchKey, std::size_t>;

LaunchOrder OrderOf(const FlightRecord& record) {
  LaunchOrder order;
  for (std::size_t i = 0; i < record.entries.size(); ++i) {
    const FlightEntry& entry = record.entries[i];
    order.try_emplace({record.groups[entry.group].desc, entry.seq}, i);
  }
  return order;
}

// Did every other rank that knows both launch `lacked` before `later`?
bool AllLaunchedBefore(const std::map<int, LaunchOrder>& orders, int except,
                       const LaunchKey& lacked, const LaunchKey& later) {
  bool any = false;
  for (const auto& [rank, order] : orders) {
    if (rank == except) continue;
    const auto a = order.find(lacked), b = order.find(later);
    if (a == order.end() || b == order.end()) continue;
    if (a->second >= b->second) return false;
    any = true;
  }
  return any;
}

bool Skipped(const std::map<int, LaunchOrder>& orders, int rank, const LaunchKey& lacked) {
  const auto own = orders.find(rank);
  if (own == orders.end()) return false;
  const auto before = own->second.find({lacked.first, lacked.second - 1});
  std::vector<std::pair<std::size_t, LaunchKey>> later;
  for (const auto& [key, at] : own->second) {
    if (before == own->second.end() || at > before->second) later.emplace_back(at, key);
  }
  std::sort(later.begin(), later.end());
  if (later.size() > kMaxLater) later.resize(kMaxLater);
  return std::any_of(later.begin(), later.end(), [&](const auto& one) {
    return AllLaunchedBefore(orders, rank, lacked, one.second);
  });
}

}  // namespace

WaitGraph GraphOf(const JobEvidence& evidence, const JobView& view) {
  return GraphBuilder(evidence, view).Build();
}

std::vector<int> SkippersOf(const JobEvidence& evidence, const JobView& view,
                            const WaitGraph& graph) {
  std::map<int, LaunchOrder> orders;
  for (const auto& [rank, one] : evidence.ranks) {
    if (one.flight) orders[rank] = OrderOf(*one.flight);
  }
  std::vector<int> skippers;
  std::size_t suspects = 0;
  for (const auto& [rank, waits] : graph.lacks) {
    if (++suspects > kMaxSuspects) break;
    std::set<LaunchKey> lacked;
    for (const Wait& wait : waits) lacked.emplace(view.groups[wait.group].desc, wait.seq);
    if (std::any_of(lacked.begin(), lacked.end(),
                    [&, who = rank](const LaunchKey& key) { return Skipped(orders, who, key); }))
      skippers.push_back(rank);
  }
  return skippers;
}

std::string SiblingOp(const JobEvidence& evidence, const JobView& view, const std::string& desc,
                      std::int64_t seq, const std::map<int, OpenOp>& without) {
  const auto has_any = [&without](const std::vector<int>& ranks) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&without](int rank) { return without.contains(rank); });
  };
  std::map<std::pair<std::string, std::string>, bool> apart;  // By name and description.
  for (const JobGroup& group : view.groups) apart[{group.name, group.desc}] = !has_any(group.ranks);
  std::map<std::string, std::size_t> votes;
  for (const auto& [rank, one] : evidence.ranks) {
    if (!one.flight || without.contains(rank)) continue;
    for (const FlightEntry& entry : one.flight->entries) {
      const FlightGroup& group = one.flight->groups[entry.group];
      if (entry.seq == seq && group.desc == desc && apart[{group.name, group.desc}])
        ++votes[one.flight->op(entry)];
    }
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == votes.end() ? "" : most->first;
}

}  // namespace strobe::stall
