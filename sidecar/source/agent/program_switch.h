// The control words of one program's ring file while a capture records it: whether it annotates,
// and who records it.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "agent/wire/ring_file.h"

namespace strobe::source {

// The level that captures request in the file.
std::uint32_t CaptureWish(const wire::RingFile& file);

class ProgramSwitch {
 public:
  // For annotations up to `level`. The caller holds the file's lease, and keeps the file open while
  // it calls.
  ProgramSwitch(const wire::RingFile& file, std::uint32_t level) : file_(file), level_(level) {}
  ProgramSwitch(const ProgramSwitch&) = delete;
  ProgramSwitch& operator=(const ProgramSwitch&) = delete;

  // Switches annotations on for masks that have a bit in common with the filter. `since_ns`: since
  // when they count as on, if that is earlier than now.
  void On(std::uint32_t filter, std::optional<std::int64_t> since_ns);
  // Checks whether annotations are still on.
  void Check();
  bool is_on() const { return on_; }  // At the last check.
  // Withdraws what was requested.
  void Off();
  // Writes the holder of the lease, which other sidecars show in their messages.
  void WriteRecorder(std::string_view recorder);
  // Requests the attendance thread until `until_ns`; see FileHeader::attend_until.
  void RequestAttendance(std::uint64_t until_ns);

  // From when until when annotations were on for certain, in ns of CLOCK_MONOTONIC; 0 if never.
  std::int64_t on_ns() const { return on_ns_; }
  std::int64_t off_ns() const { return off_ns_; }

 private:
  wire::FileHeader& header() const { return *file_.header(); }

  const wire::RingFile& file_;
  const std::uint32_t level_;
  std::int64_t on_ns_ = 0, off_ns_ = 0;
  bool on_ = false, attended_ = false;
};

}  // namespace strobe::source
