// The evidence of all ranks, joined by process group: who has launched and finished how much.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collector/stall/evidence.h"

namespace strobe::stall {

struct JobGroup {
  std::string name{}, desc{};
  std::vector<int> ranks{};
  bool guessed = false;  // No member told its members: they are those that launched something.
};

// A collective that its rank has launched and not finished.
struct OpenOp {
  const FlightRecord* record = nullptr;
  const FlightEntry* entry = nullptr;

  const std::string& op() const { return record->op(*entry); }
  // What must be equal on all ranks: the call and, where they must be equal, the sizes.
  std::string signature() const;
};

// What one rank did in one group.
struct Launches {
  std::int64_t launched = 0, finished = 0;  // The newest numbers.
  std::map<std::int64_t, OpenOp> open{};    // By number.
};

using Look = std::map<std::pair<std::uint32_t, int>, Launches>;  // By group and rank.

struct JobView {
  std::vector<JobGroup> groups{};
  Look first{}, later{};
  std::set<int> ranks{};  // All of the job, also without evidence.
  // Ranks that tell less than the others, and those whose recorder is off or younger than the job.
  std::set<int> dark{};
  std::set<int> speaking{};     // Ranks that told anything themselves.
  std::set<int> seen_twice{};   // Ranks with two Flight Recorder's dumps.
  std::set<int> in_transfer{};  // Ranks with sends or receives that are not finished.
  bool has_flight = false;
  bool all_twice = false;  // Is each that has a dump seen twice?

  const Launches* Find(const Look& look, std::uint32_t group, int rank) const {
    const auto at = look.find({group, rank});
    return at == look.end() ? nullptr : &at->second;
  }
};

// The view points into the evidence.
JobView ViewOf(const JobEvidence& evidence);

// Does this dump have all of the rank's collectives, so that one that is not in it was not
// launched? One of the active ones only does not tell what ended.
bool TellsAll(const FlightRecord& record);

// "all_reduce" of "gloo:all_reduce" and of "nccl:_all_reduce".
std::string PlainOp(const std::string& op);

}  // namespace strobe::stall
