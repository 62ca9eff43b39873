// The collectives of one program while it is recorded, from the file in which it tells them. The
// program may create that file at any time, or never.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/wire/collective_file.h"
#include "common/memory/foreign_memory.h"
#include "sidecar/source/device/collective_plane.h"

namespace strobe::source {

// The file of collectives in which lost pages read as zeros. Null if there is none, or none that
// can be read.
struct GuardedCollectives {
  wire::CollectiveFile file{};
  // Declared after `file`, so that the guard ends before the mapping.
  ForeignMemory guard{};
};
GuardedCollectives OpenCollectives(const std::string& ring_path);

class RecordedCollectives {
 public:
  // `holds_before`: what the program told earlier is read too.
  RecordedCollectives(const std::string& ring_path, bool holds_before)
      : ring_path_(ring_path), holds_before_(holds_before) {}
  RecordedCollectives(const RecordedCollectives&) = delete;
  RecordedCollectives& operator=(const RecordedCollectives&) = delete;

  // Asks for the devices' times until then, in ns of CLOCK_MONOTONIC; 0 withdraws it.
  void RequestDeviceTimes(std::uint64_t until_ns);
  // Reads new calls, and again those that the program may have added to. `budget` is the number of
  // bytes that may still be kept.
  void Drain(std::uint64_t& budget);
  // Closes the file; activity() stays valid.
  void Close();

  const CollectiveActivity& activity() const { return activity_; }

 private:
  void Open();
  void ReadNew(std::uint64_t& budget);
  void ReadAgain();

  const std::string ring_path_;
  const bool holds_before_;
  bool is_first_ = true, wants_times_ = false;
  GuardedCollectives opened_{};
  std::uint64_t until_ns_ = 0;
  std::optional<std::uint64_t> next_{};  // The number of the next call.
  std::size_t first_open_ = 0;           // The calls before it are complete.
  CollectiveActivity activity_{};
};

}  // namespace strobe::source
