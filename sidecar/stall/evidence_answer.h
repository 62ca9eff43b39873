// Puts the files of an answer to ReadEvidence together. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/stall/evidence_processes.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::stall {

inline constexpr std::size_t kMaxEvidenceFiles = 4096, kMaxEvidenceNotes = 64,
                             kMaxExceptionBytes = 16 << 10;

// Adds files while they fit; what does not is counted.
class EvidenceAnswer {
 public:
  explicit EvidenceAnswer(std::uint64_t max_bytes) : left_(max_bytes) {}

  // An empty one is not added.
  void Add(std::string name, std::string content);
  void Note(std::string note);
  v1::ReadEvidenceResponse Take(std::int64_t looked_at_ns);

 private:
  v1::ReadEvidenceResponse response_;
  std::uint64_t left_;
};

// The file that tells the states and last exceptions of all processes, as
// collector/stall/evidence_files.h reads it. `exceptions` has the content of "<stem>.exception",
// `moves` what MovesBetween returned.
std::string ProcessStates(const std::map<int, EvidenceProcess>& processes,
                          const std::map<int, std::string>& exceptions,
                          const std::vector<std::string>& moves, std::uint64_t now_ns);

// Sentences on the loops whose steps go on, by what Source::Steps returned at the two looks; `now`
// is the time of the second one.
std::vector<std::string> MovesBetween(std::span<const v1::StepPace> before,
                                      std::span<const v1::StepPace> after, WallTime now);

// Why a process that was asked shows less than it could; empty if it shows all.
std::string WhyLess(const EvidenceProcess& process, std::uint64_t order, std::uint64_t now_ns);

}  // namespace strobe::stall
