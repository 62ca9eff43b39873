// Which rank holds up a job, how, and how sure that is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::stall {

enum class StallClass : std::uint8_t {
  kUnknown,      // The evidence does not tell; `reason` says what is missing.
  kHost,         // Its program does something else and launches no collective.
  kDevice,       // All have launched it, and a device or the transport does not finish it.
  kSilent,       // The process is there and does not run: stopped or frozen.
  kGone,         // The process has ended.
  kMismatch,     // It launched another collective than the others, or one of another size.
  kOtherBranch,  // It left out a collective, or waits in a call that the others do not make.
  kNetwork,      // Its connections are cut.
  kProgressing,  // The job moves; nobody holds it up.
};

// "other-branch"
std::string_view NameOf(StallClass kind);

enum class Confidence : std::uint8_t { kCannotTell, kProbably, kFirm };

// "cannot tell"
std::string_view NameOf(Confidence confidence);

// A collective that ranks wait for.
struct Collective {
  std::string op{};               // "all_reduce"
  std::string group{}, desc{};    // Its group's name, unique in the job, and its description.
  std::vector<int> ranks{};       // The group's.
  std::int64_t seq = 0;           // Its number in the group.
  int first_waiter = -1;          // The lowest rank that waits in it.
  std::int64_t since_ns = 0;      // When that one launched it, since 1970.
  std::int64_t waited_ns = 0;     // For how long it had waited when it was looked at; 0 if unknown.
  std::int64_t usual_gap_ns = 0;  // Between two collectives of the group, before; 0 if unknown.
};

struct Culprit {
  int rank = 0;
  std::string label{};                     // The pod and process, if known.
  std::optional<Collective> blocked_on{};  // What it has not launched, or not finished.
  std::string launched{};                  // Instead of it: "broadcast".
  std::string line{};                      // Where it is: "loader.py:88 in Loader.next".
  std::string inside{};                    // The function that was called there, if another's.
  bool keeps_gil = false;                  // In both looks, on the same line.
};

struct LookedAt {
  std::size_t flight_records = 0, stacks = 0;  // The number of ranks.
  bool by_plugin = false;  // The flight records are the agent's, of the calls of NCCL.
  std::size_t states = 0;  // Processes of which it is known whether they run.
  std::size_t ras_reports = 0;
  bool twice = false;  // Was each rank that spoke looked at twice?
  bool ras_agrees = false;
};

struct Verdict {
  StallClass kind = StallClass::kUnknown;
  Confidence confidence = Confidence::kCannotTell;
  std::vector<Culprit> culprits{};         // In ascending order; empty if nobody is named.
  std::vector<int> waiters{};              // The ranks that they hold up.
  std::vector<int> without_evidence{};     // Ranks of the job of which nothing is known.
  std::string reason{};                    // A sentence, where the rest does not explain itself.
  std::optional<Collective> collective{};  // What the job stands in, if nobody is named.
  LookedAt looked_at{};
};

// A verdict that names these ranks, which are in ascending order.
template <typename Ranks>
Verdict NameRanks(StallClass kind, Confidence confidence, const Ranks& ranks) {
  Verdict verdict{.kind = kind, .confidence = confidence};
  for (const int rank : ranks) verdict.culprits.push_back({.rank = rank});
  return verdict;
}

// Lines for people, each ended. Names that programs chose may have control characters.
std::string VerdictText(const Verdict& verdict);

std::string VerdictJson(const Verdict& verdict, int indent);

// "0-3, 8"
std::string RanksText(const std::vector<int>& ranks);

}  // namespace strobe::stall
