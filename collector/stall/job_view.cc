#include "collector/stall/job_view.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

#include "common/base/strings.h"

namespace strobe::stall {
namespace {

// Does it finish only after all members of its group have launched it?
bool NeedsAll(const std::string& op) {
  const std::string plain = PlainOp(op);
  return plain.starts_with("all") || plain.starts_with("reduce_scatter") || plain == "barrier";
}

// The numbers of elements: "[[64, 64], [8]] Float" as "4096 8 Float". Tensors of the same number of
// elements may be of different dimensions on each rank.
std::string SizesText(std::string_view shape) {
  std::string text;
  std::int64_t elements = 1;
  bool open = false;
  for (std::size_t at = 0; at < shape.size();) {
    const char byte = shape[at++];
    if (byte == '[') {
      elements = 1;
      open = true;
    } else if (byte == ']') {
      if (open) text += StrCat(elements, " ");
      open = false;
      if (shape.substr(at).find(']') == std::string_view::npos)
        return text += shape.substr(std::min(at + 1, shape.size()));
    } else if (byte >= '0' && byte <= '9') {
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(&shape[at - 1], shape.data() + shape.size(), size);
      at = static_cast<std::size_t>(end - shape.data());
      // Whatever the product is: it must not overflow.
      elements = static_cast<std::int64_t>(static_cast<std::uint64_t>(elements) *
                                           static_cast<std::uint64_t>(size));
    }
  }
  return std::string(shape);
}

bool HasOpenTransfer(const FlightRecord& record) {
  return std::any_of(record.entries.begin(), record.entries.end(),
                     [](const FlightEntry& entry) { return entry.p2p && !entry.finished; });
}

bool IsGloo(const FlightRecord& record) {
  return std::any_of(record.entries.begin(), record.entries.end(), [&](const FlightEntry& entry) {
    return record.op(entry).starts_with("gloo:");
  });
}

class ViewBuilder {
 public:
  explicit ViewBuilder(const JobEvidence& evidence) : evidence_(evidence) {}

  JobView Build() {
    AddMembers();
    for (const auto& [rank, one] : evidence_.ranks) {
      if (one.flight) AddEntries(rank, *one.flight, view_.first);
      if (one.flight_later) AddEntries(rank, *one.flight_later, view_.later);
    }
    for (const auto& [rank, one] : evidence_.ranks) {
      if (one.flight) AddStatuses(rank, *one.flight, view_.first);
      if (one.flight_later) AddStatuses(rank, *one.flight_later, view_.later);
    }
    for (std::size_t i = 0; i < view_.groups.size(); ++i) {
      JobGroup& group = view_.groups[i];
      if (!group.ranks.empty()) continue;
      group.guessed = true;
      const std::set<int>& launchers = launchers_[static_cast<std::uint32_t>(i)];
      group.ranks.assign(launchers.begin(), launchers.end());
    }
    SortRanks();
    return std::move(view_);
  }

 private:
  std::uint32_t IndexOf(const FlightGroup& group) {
    const auto [at, added] = index_.try_emplace({group.name, group.desc},
                                                static_cast<std::uint32_t>(view_.groups.size()));
    if (added) view_.groups.push_back({.name = group.name, .desc = group.desc});
    return at->second;
  }

  // What a process says of its groups beats what its dump does.
  void AddMembers() {
    const auto add = [this](const FlightGroup& group) {
      if (!group.ranks.empty()) view_.groups[IndexOf(group)].ranks = group.ranks;
    };
    for (const auto& [rank, one] : evidence_.ranks) {
      if (!one.flight) continue;
      gloo_ = gloo_ || IsGloo(*one.flight);
      for (const FlightGroup& group : one.flight->groups) add(group);
    }
    for (const auto& [rank, one] : evidence_.ranks) {
      for (const FlightGroup& group : one.groups) add(group);
    }
  }

  void AddEntries(int rank, const FlightRecord& record, Look& look) {
    std::vector<std::uint32_t> groups;
    groups.reserve(record.groups.size());
    for (const FlightGroup& group : record.groups) groups.push_back(IndexOf(group));
    for (const FlightEntry& entry : record.entries) {
      const std::uint32_t group = groups[entry.group];
      launchers_[group].insert(rank);
      group_of_id_[{rank, entry.pg_id}] = group;
      groups_of_id_[entry.pg_id].insert(group);
      Launches& launches = look[{group, rank}];
      launches.launched = std::max(launches.launched, entry.seq);
      if (entry.p2p) continue;  // It has the number of the collective before.
      if (entry.finished)
        launches.finished = std::max(launches.finished, entry.seq);
      else
        launches.open.try_emplace(entry.seq, OpenOp{&record, &entry});
      if (entry.finished && NeedsAll(record.op(entry))) done_by_all_.insert(group);
    }
  }

  // NCCL raises its counts after the call has returned, and the entry is there before, so that the
  // larger number counts.
  void AddStatuses(int rank, const FlightRecord& record, Look& look) {
    if (record.entries.empty() ? gloo_ : IsGloo(record)) return;
    std::map<std::int64_t, std::optional<std::uint32_t>> groups;  // By ordinal.
    for (const FlightStatus& status : record.statuses) {
      const auto [at, added] = groups.try_emplace(status.pg_id);
      if (added) at->second = GroupOfId(rank, status.pg_id);
      const std::optional<std::uint32_t> group = at->second;
      if (!group) continue;
      Launches& launches = look[{*group, rank}];
      launches.launched = std::max(launches.launched, status.enqueued);
      launches.finished = std::max(launches.finished, status.completed);
    }
  }

  // Ordinals differ between processes. One without an entry in this process is that of the only
  // group with this rank in which others have it.
  std::optional<std::uint32_t> GroupOfId(int rank, std::int64_t pg_id) const {
    if (const auto own = group_of_id_.find({rank, pg_id}); own != group_of_id_.end())
      return own->second;
    std::optional<std::uint32_t> found;
    const auto groups = groups_of_id_.find(pg_id);
    if (groups == groups_of_id_.end()) return std::nullopt;
    for (const std::uint32_t group : groups->second) {
      const std::vector<int>& ranks = view_.groups[group].ranks;
      if (!std::binary_search(ranks.begin(), ranks.end(), rank)) continue;
      if (found) return std::nullopt;
      found = group;
    }
    return found;
  }

  void SortRanks() {
    for (int rank = 0; rank < evidence_.world; ++rank) view_.ranks.insert(rank);
    for (const JobGroup& group : view_.groups)
      view_.ranks.insert(group.ranks.begin(), group.ranks.end());
    view_.all_twice = true;
    for (const auto& [rank, one] : evidence_.ranks) {
      view_.ranks.insert(rank);
      if (one.speaks()) view_.speaking.insert(rank);
      if (one.flight && one.flight_later) view_.seen_twice.insert(rank);
      if (one.flight && HasOpenTransfer(*one.flight) &&
          (!one.flight_later || HasOpenTransfer(*one.flight_later)))
        view_.in_transfer.insert(rank);
      view_.has_flight = view_.has_flight || one.flight.has_value();
      view_.all_twice = view_.all_twice && one.flight.has_value() == one.flight_later.has_value();
    }
    for (const int rank : view_.ranks) {
      const auto at = evidence_.ranks.find(rank);
      const bool accounted =
          at != evidence_.ranks.end() &&
          (at->second.state == ProcessState::kGone || at->second.state == ProcessState::kStopped ||
           (view_.has_flight ? TellsOfItself(rank, at->second) : at->second.speaks()));
      if (!accounted) view_.dark.insert(rank);
    }
  }

  // A record without an entry is that of a recorder that is off, or of a process that has taken the
  // place of another, if something is finished that needed the rank.
  bool TellsOfItself(int rank, const RankEvidence& one) const {
    if (!one.flight) return false;
    return !one.flight->entries.empty() || !TellsAll(*one.flight) ||
           std::none_of(done_by_all_.begin(), done_by_all_.end(), [&](std::uint32_t group) {
             const std::vector<int>& ranks = view_.groups[group].ranks;
             return std::binary_search(ranks.begin(), ranks.end(), rank);
           });
  }

  const JobEvidence& evidence_;
  JobView view_{};
  std::set<std::uint32_t> done_by_all_{};  // Groups that have finished what all must launch.
  std::map<std::pair<std::string, std::string>, std::uint32_t> index_{};
  std::map<std::uint32_t, std::set<int>> launchers_{};
  std::map<std::pair<int, std::int64_t>, std::uint32_t> group_of_id_{};
  std::map<std::int64_t, std::set<std::uint32_t>> groups_of_id_{};
  bool gloo_ = false;
};

}  // namespace

std::string PlainOp(const std::string& op) {
  std::string_view plain = op;
  plain.remove_prefix(plain.find(':') + 1);
  if (plain.starts_with('_')) plain.remove_prefix(1);
  return std::string(plain);
}

std::string OpenOp::signature() const {
  const std::string plain = PlainOp(op());
  const bool same_sizes = plain == "all_reduce" || plain == "allreduce" || plain == "broadcast";
  return same_sizes ? StrCat(op(), " ", SizesText(record->shape(*entry))) : op();
}

bool TellsAll(const FlightRecord& record) {
  const auto ended = [](const FlightEntry& entry) { return entry.finished; };
  if (std::any_of(record.entries.begin(), record.entries.end(), ended)) return true;
  return std::none_of(record.statuses.begin(), record.statuses.end(),
                      [](const FlightStatus& status) { return status.enqueued > 0; });
}

JobView ViewOf(const JobEvidence& evidence) { return ViewBuilder(evidence).Build(); }

}  // namespace strobe::stall
