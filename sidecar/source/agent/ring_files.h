// Opens the ring files of a directory for the sidecar. Programs that write them may be killed,
// truncate them, or be hostile.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "agent/wire/ring_file.h"
#include "common/memory/foreign_memory.h"

namespace strobe::source {

// A ring file in which lost pages read as zeros.
struct GuardedRings {
  wire::RingFile file{};
  // Declared after `file`, so that the guard ends before the mapping.
  ForeignMemory guard{};
};

struct OpenedRings {
  GuardedRings rings{};  // Usable if `error` is kNone.
  wire::RingFileError error = wire::RingFileError::kUnreadable;
  // The program runs, or may run. Also set for files that cannot be read.
  bool lives = false;
  std::uint32_t version = 0;  // The version of the file, if known.
  std::uint32_t pid = 0;      // The process ID of the program, if known.
};

OpenedRings OpenRings(const std::string& path);

// The file can be read, its program has ended and not by its own exit, and no forked child uses it.
bool WasKilled(const OpenedRings& opened);

// Removes a ring file and the file of collectives beside it.
void RemoveRings(const std::string& path);

// Returns the paths of the ring files, sorted, at most 4,096. Empty if the directory cannot be
// read.
std::vector<std::string> RingFiles(const std::string& directory);

}  // namespace strobe::source
