// What PyTorch's Flight Recorder of one process recorded of its collectives.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strobe::stall {

// The recorder keeps 2,000 entries unless told otherwise, in about 120 bytes each, and three times
// as many with frames.
inline constexpr std::size_t kMaxDumpBytes = std::size_t{32} << 20;
inline constexpr std::size_t kMaxEntries = 100'000;
inline constexpr std::size_t kMaxGroups = 20'000;
inline constexpr int kMaxRank = 200'000;
// A file of evidence in JSON has no more.
inline constexpr std::size_t kMaxJsonValues = 2'000'000;

struct FlightGroup {
  std::string name{}, desc{};
  std::vector<int> ranks{};  // Global ranks in ascending order; empty if the dump has none.
};

struct FlightEntry {
  std::uint32_t group = 0;                    // Index into FlightRecord::groups.
  std::uint32_t op = 0, shape = 0, site = 0;  // Indexes into FlightRecord::texts.
  std::int64_t pg_id = 0;       // An ordinal of the process; differs between processes.
  std::int64_t seq = 0;         // The number of the collective in its group, from 1.
  std::int64_t created_ns = 0;  // Since 1970.
  bool finished = false, p2p = false;
};

// NCCL's own counts of a group. Those of gloo count sends too and cannot be compared.
struct FlightStatus {
  std::int64_t pg_id = 0, enqueued = 0, completed = 0;
};

struct FlightRecord {
  std::string version{};
  std::vector<FlightGroup> groups{};
  std::vector<FlightStatus> statuses{};
  std::vector<std::string> texts{};  // The first is empty.
  std::vector<FlightEntry> entries{};

  const std::string& op(const FlightEntry& entry) const { return texts[entry.op]; }
  const std::string& shape(const FlightEntry& entry) const { return texts[entry.shape]; }
  // The line that called it: "file.py:12 in name"; empty in a dump without frames.
  const std::string& site(const FlightEntry& entry) const { return texts[entry.site]; }
};

}  // namespace strobe::stall
