// The processes of the agent's directory that have an evidence thread, or had one: their files
// "<stem>.evidence" and what lies beside them. The files come from the trainer, which may be
// hostile.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/wire/evidence_file.h"
#include "common/base/clock.h"
#include "common/base/file_descriptor.h"

namespace strobe::stall {

inline constexpr std::size_t kMaxEvidenceProcesses = 256;

struct EvidenceProcess {
  std::string stem{};  // What the names of its files begin with.
  FileDescriptor file{};
  std::uint32_t pid = 0;    // In its own PID namespace.
  std::uint64_t began = 0;  // As in wire::EvidenceHeader.
  std::int32_t rank = -1, local_rank = -1, world_size = -1;
  bool lives = false;
  bool has_ended = false;  // Its program has, although the process may linger.
  bool has_groups = false, has_stacks = false;
  // Another one that lives has the same number in a job of the same size; see ByRank.
  bool has_rival = false;
  std::string refusal{};                    // Why it has no stacks.
  std::uint64_t beat_ns = 0, answered = 0;  // As in wire::EvidenceHeader.
  wire::FlightState flight = wire::FlightState::kNotAsked;
};

// Opens the directory for the functions below.
FileDescriptor OpenEvidenceDirectory(const std::string& path);

std::vector<EvidenceProcess> ReadEvidenceProcesses(const FileDescriptor& directory);
// Reads again what changes. False if the file is none any more.
bool RefreshEvidence(EvidenceProcess& process);

struct EvidenceOrder {
  std::uint64_t number = 0;
  std::uint32_t wants = 0;
  Nanos between_looks{0};
};
void OrderEvidence(const EvidenceProcess& process, const EvidenceOrder& order);

// When it began, on the clock of `beat_ns`.
std::uint64_t BeganNs(const EvidenceProcess& process);

// A process whose beat is older than this, although it lives, is stopped. It is due each 100 ms,
// also on a busy machine.
inline constexpr std::uint64_t kSilentNs = 3'000'000'000;
bool IsSilent(const EvidenceProcess& process, std::uint64_t now_ns);

// The processes by their numbers in the job; by their numbers in the pod, or in the order in which
// they began, where they have no others. Processes without a number are left out if others have
// one, because launchers have none. Of several with one number, those that live come first, then
// those that have joined a job, the larger job and the newest process. One that ended before
// another began which has joined a job is left out. Pure.
std::map<int, EvidenceProcess> ByRank(std::vector<EvidenceProcess> processes);

// The content of "<stem>.<kind>"; empty if there is none or it has more than `max_bytes`.
std::string ReadEvidenceFile(const FileDescriptor& directory, const EvidenceProcess& process,
                             const std::string& kind, std::size_t max_bytes);

// Removes what the process wrote for its last order: the directory's volume is the pod's memory.
void RemoveLooks(const FileDescriptor& directory, const EvidenceProcess& process);

// Removes what processes left that have ended longer ago than half an hour, and all but the last 64
// of them.
void RemoveOldEvidence(const FileDescriptor& directory, std::uint64_t now_ns);

}  // namespace strobe::stall
