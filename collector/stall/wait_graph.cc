#include "collector/stall/wait_graph.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>

namespace strobe::stall {
namespace {

// Bounds of the search for skipped collectives: those next to the gap tell.
constexpr std::size_t kMaxSuspects = 64, kMaxLacked = 64, kMaxLater = 64;
// How many other groups are compared with a clash.
constexpr std::size_t kMaxSiblings = 256;

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
      for (Member& member : MembersOf(wait.group)) {
        if (member.rank != wait.waiter) AddEdge(wait, member);
      }
    }
    for (const auto& [group, members] : members_) {
      for (const Member& member : members) {
        if (member.blamed > 0) graph_.blamed[member.rank] += member.blamed;
      }
    }
    return std::move(graph_);
  }

 private:
  // Each of thousands of ranks may wait for all others, so that an edge must cost little.
  struct Member {
    int rank = 0;
    bool dark = false, silent = false;  // Silent: nothing is known of its collectives.
    bool waits = false, tells_all = false;
    const Launches* launches = nullptr;
    std::size_t blamed = 0;
  };

  std::vector<Member>& MembersOf(std::uint32_t group) {
    const auto [at, added] = members_.try_emplace(group);
    if (!added) return at->second;
    for (const int rank : view_.groups[group].ranks) {
      const auto evidence = evidence_.ranks.find(rank);
      Member member{.rank = rank, .dark = view_.dark.contains(rank)};
      member.silent = evidence == evidence_.ranks.end() || !evidence->second.flight || member.dark;
      if (!member.silent) {
        member.launches = view_.Find(view_.first, group, rank);
        member.waits = waiting_in_.contains({group, rank});
        member.tells_all = member.launches != nullptr || TellsAllOf(rank, *evidence->second.flight);
      }
      at->second.push_back(member);
    }
    return at->second;
  }

  // One that is in a group only by its own word is of another attempt, or lies.
  bool IsMember(std::uint32_t group, int rank) const {
    const std::vector<int>& ranks = view_.groups[group].ranks;
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  }

  void AddEdge(const Wait& wait, Member& member) {
    if (member.silent) {
      graph_.waits_for_dark = graph_.waits_for_dark || member.dark;
      ++member.blamed;
      return;
    }
    if (!member.tells_all) return;
    const Launches* launches = member.launches;
    if (launches == nullptr || launches->launched < wait.seq) {
      graph_.lacks[member.rank].push_back(wait);
      ++member.blamed;
      return;
    }
    const auto own = launches->open.find(wait.seq);
    if (own != launches->open.end() && member.waits) {
      if (SignatureOf(own->second) == SignatureOf(wait.op)) return;
      std::map<int, OpenOp>& clash = graph_.clashes[{wait.group, wait.seq}];
      clash[member.rank] = own->second;
      clash[wait.waiter] = wait.op;
    } else if (launches->finished >= wait.seq) {
      std::vector<Wait>& lags = graph_.lags[wait.waiter];
      if (lags.empty() || lags.back().group != wait.group) lags.push_back(wait);
    }
  }

  const std::string& SignatureOf(const OpenOp& op) {
    const auto [at, added] = signatures_.try_emplace(op.entry);
    if (added) at->second = op.signature();
    return at->second;
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
  std::map<std::uint32_t, std::vector<Member>> members_{};
  std::unordered_map<const FlightEntry*, std::string> signatures_{};
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

// Did the rank leave out one of these collectives?
bool SkippedAny(const std::map<int, LaunchOrder>& orders, int rank,
                const std::set<LaunchKey>& lacked) {
  const auto own = orders.find(rank);
  if (own == orders.end()) return false;
  std::map<std::size_t, const LaunchKey*> launched;
  for (const auto& [key, at] : own->second) launched[at] = &key;
  return std::any_of(lacked.begin(), lacked.end(), [&](const LaunchKey& key) {
    const auto before = own->second.find({key.first, key.second - 1});
    auto later =
        before == own->second.end() ? launched.begin() : launched.upper_bound(before->second);
    for (std::size_t i = 0; i < kMaxLater && later != launched.end(); ++i, ++later) {
      if (AllLaunchedBefore(orders, rank, key, *later->second)) return true;
    }
    return false;
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
    for (const Wait& wait : waits) {
      lacked.emplace(view.groups[wait.group].desc, wait.seq);
      if (lacked.size() == kMaxLacked) break;
    }
    if (SkippedAny(orders, rank, lacked)) skippers.push_back(rank);
  }
  return skippers;
}

Siblings::Siblings(const JobEvidence& evidence, const JobView& view, const WaitGraph& graph) {
  std::map<std::pair<std::string_view, std::string_view>, const JobGroup*> groups;
  for (const JobGroup& group : view.groups) groups[{group.name, group.desc}] = &group;
  for (const auto& [key, launched] : graph.clashes)
    votes_[{view.groups[key.first].desc, key.second}];
  for (const auto& [rank, one] : evidence.ranks) {
    if (!one.flight) continue;
    for (const FlightEntry& entry : one.flight->entries) {
      const FlightGroup& group = one.flight->groups[entry.group];
      const auto clash = votes_.find({group.desc, entry.seq});
      if (clash == votes_.end()) continue;
      const auto known = groups.find({group.name, group.desc});
      if (known == groups.end()) continue;
      const std::vector<int>& ranks = known->second->ranks;
      if (std::binary_search(ranks.begin(), ranks.end(), rank))
        ++clash->second[known->second][one.flight->op(entry)];
    }
  }
}

std::string Siblings::OpOf(const std::string& desc, std::int64_t seq,
                           const std::map<int, OpenOp>& without) const {
  const auto found = votes_.find({desc, seq});
  if (found == votes_.end()) return "";
  Votes votes;
  std::size_t looks = 0;
  for (const auto& [group, votes_of_group] : found->second) {
    if (++looks > kMaxSiblings) break;
    const std::vector<int>& ranks = group->ranks;
    const bool apart = std::none_of(without.begin(), without.end(), [&ranks](const auto& one) {
      return std::binary_search(ranks.begin(), ranks.end(), one.first);
    });
    if (!apart) continue;
    for (const auto& [op, count] : votes_of_group) votes[op] += count;
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == votes.end() ? "" : most->first;
}

}  // namespace strobe::stall
