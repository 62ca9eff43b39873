// The ring files of a directory, as a sidecar opens them: written by programs that may be killed,
// truncate them, or be hostile.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "agent/wire/ring_file.h"
#include "common/base/foreign_memory.h"

namespace strobe {

// A ring file whose disappearing pages read as zeros.
struct GuardedRings {
  wire::RingFile file{};
  // After `file`: the guard ends before the mapping does.
  ForeignMemory guard{};
};

struct OpenedRings {
  GuardedRings rings{};  // Usable when error is kNone.
  wire::RingFileError error = wire::RingFileError::kUnreadable;
  bool lives = false;  // Its program runs, or may run; said also of files that cannot be read.
  std::uint32_t version = 0;  // Of the file, as far as it says so,
  std::uint32_t pid = 0;      // and of the program.
};

OpenedRings OpenRings(const std::string& path);

// Paths, sorted, at most 4,096 of them; none when the directory cannot be read.
std::vector<std::string> RingFiles(const std::string& directory);

}  // namespace strobe
