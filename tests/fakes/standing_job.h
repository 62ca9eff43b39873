// The evidence of a job in which nothing moves between two looks, as its ranks would leave it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collector/stall/evidence.h"

namespace strobe::stall {

class StandingJob {
 public:
  static constexpr std::int64_t kSecond = 1'000'000'000;
  static constexpr std::int64_t kLookedAt = 1'700'000'000 * kSecond;

  explicit StandingJob(int ranks, std::string backend = "gloo") : backend_(std::move(backend)) {
    evidence_.world = ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      RankEvidence& one = evidence_.ranks[rank];
      one.state = ProcessState::kThere;
      one.has_groups = true;
      one.flight = {.version = "2.10", .texts = {""}};
      InCode(rank, "optimizer");
    }
  }

  std::vector<int> All() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < evidence_.world; ++rank) ranks.push_back(rank);
    return ranks;
  }

  // Members of a group launched its next collective, which is finished, so long before the look.
  StandingJob& Did(const std::vector<int>& group, double seconds_ago,
                   const std::string& op = "all_reduce") {
    for (const int rank : group) DidAlone(rank, group, seconds_ago, op);
    return *this;
  }
  StandingJob& DidAlone(int rank, const std::vector<int>& group, double seconds_ago,
                        const std::string& op = "all_reduce") {
    Launch(rank, group, seconds_ago, op).finished = true;
    return *this;
  }
  // One in each of so many intervals before the look.
  StandingJob& DidEvery(const std::vector<int>& group, double seconds, int times,
                        double until = 0) {
    for (int i = times; i > 0; --i) Did(group, until + i * seconds);
    return *this;
  }
  // The rank launched the next one, which is not finished.
  StandingJob& Waits(int rank, const std::vector<int>& group, double seconds_ago,
                     const std::string& op = "all_reduce",
                     const std::string& shape = "[[8]] Float") {
    FlightEntry& entry = Launch(rank, group, seconds_ago, op);
    entry.shape = TextIndex(rank, shape);
    InCall(rank, op);
    return *this;
  }
  StandingJob& WaitsInTransfer(int rank, const std::vector<int>& group, double seconds_ago) {
    FlightEntry& entry = Launch(rank, group, seconds_ago, "recv");
    entry.p2p = true;
    entry.seq = --launched_[{rank, group}];
    return *this;
  }

  // Where the main thread is: in the program's own code, or in a call of torch.distributed.
  StandingJob& InCode(int rank, const std::string& name, const std::string& wchan = "futex_do_wait",
                      const std::string& state = "S") {
    return Stands(rank, {{"/app/train.py", 7, name}}, wchan, state);
  }
  StandingJob& InCall(int rank, const std::string& call) {
    return Stands(rank, {{"/site-packages/torch/distributed/distributed_c10d.py", 9, call},
                         {"/app/train.py", 7, "step"}});
  }
  StandingJob& Stands(int rank, std::vector<StackFrame> frames,
                      const std::string& wchan = "futex_do_wait", const std::string& state = "S") {
    evidence_.ranks.at(rank).stacks = {
        .threads = {{.state = state, .wchan = wchan, .frames = std::move(frames)}},
        .looked_at_ns = kLookedAt};
    return *this;
  }

  RankEvidence& At(int rank) { return evidence_.ranks.at(rank); }
  JobEvidence Evidence() const {
    JobEvidence evidence = evidence_;
    for (auto& [rank, one] : evidence.ranks) {
      one.flight_later = one.flight;
      one.stacks_later = one.stacks;
    }
    return evidence;
  }

 private:
  FlightEntry& Launch(int rank, const std::vector<int>& group, double seconds_ago,
                      const std::string& op) {
    FlightRecord& flight = *evidence_.ranks.at(rank).flight;
    std::string name;
    for (const int member : group) name += "-" + std::to_string(member);
    std::uint32_t index = 0;
    while (index < flight.groups.size() && flight.groups[index].name != name) ++index;
    if (index == flight.groups.size())
      flight.groups.push_back({.name = name, .desc = "group" + name, .ranks = group});
    flight.entries.push_back(
        {.group = index,
         .op = TextIndex(rank, backend_ + ":" + op),
         .pg_id = index,
         .seq = ++launched_[{rank, group}],
         .created_ns = kLookedAt - static_cast<std::int64_t>(seconds_ago * kSecond)});
    return flight.entries.back();
  }

  std::uint32_t TextIndex(int rank, const std::string& text) {
    std::vector<std::string>& texts = evidence_.ranks.at(rank).flight->texts;
    std::uint32_t index = 0;
    while (index < texts.size() && texts[index] != text) ++index;
    if (index == texts.size()) texts.push_back(text);
    return index;
  }

  const std::string backend_;
  JobEvidence evidence_{};
  std::map<std::pair<int, std::vector<int>>, std::int64_t> launched_{};
};

}  // namespace strobe::stall
