// What is known of the processes of a job that may stand still.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/stall/collective_record.h"
#include "collector/stall/flight_record.h"
#include "collector/stall/ras_report.h"
#include "collector/stall/stack_dump.h"

namespace strobe::stall {

// An established TCP connection, by addresses without ports.
struct TcpLink {
  std::string local{}, remote{};
  bool retransmits = false;  // What was sent has not been acknowledged in time.
};

enum class ProcessState : std::uint8_t { kUnknown, kThere, kStopped, kGone };

// The evidence of one rank. `later` is a second look, about a second after the first.
struct RankEvidence {
  std::string label{};  // The pod and process, if known.
  std::optional<FlightRecord> flight{}, flight_later{};
  std::size_t flight_hash = 0;  // The hash of the bytes of `flight`.
  std::optional<CollectiveRecord> collectives{}, collectives_later{};
  std::optional<StackDump> stacks{}, stacks_later{};
  std::vector<FlightGroup> groups{};  // The process groups, as the process itself knows them.
  bool has_groups = false;  // It had a standing record, which would hold its last exception.
  // It uses a library that ends the process without an exception when it misses a peer, as NCCL's
  // watchdog does.
  bool may_abort = false;
  std::vector<TcpLink> links{};
  ProcessState state = ProcessState::kUnknown;
  // How many seconds before it was looked at the process began, or ended if it is gone.
  std::optional<double> age_s{};
  std::string exception{};      // Uncaught, its last line.
  std::optional<int> signal{};  // That ended it; 0 if it exited.

  // Did the process itself say anything?
  bool speaks() const { return flight.has_value() || stacks.has_value(); }
};

// A pod of the job that did not answer.
struct SilentPod {
  std::string address{};
  std::size_t processes = 1;
};

struct JobEvidence {
  int world = 0;                        // How many ranks the job has; 0 if unknown.
  std::map<int, RankEvidence> ranks{};  // Only ranks that have any evidence.
  std::vector<RasReport> ras{};         // In the order in which they were asked.
  std::vector<std::string> moves{};     // Sentences on training steps that go on, at most 64.
  // The only one, if all other pods told of all their processes.
  std::optional<SilentPod> silent{};
};

}  // namespace strobe::stall
