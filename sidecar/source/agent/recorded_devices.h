// The devices of one program while it is recorded: the request in its ring file, and the records of
// its device ring.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "agent/wire/ring_file.h"
#include "agent/wire/ring_reader.h"
#include "common/base/clock.h"
#include "sidecar/source/base/framework_ports.h"
#include "sidecar/source/device/device_activity.h"
#include "sidecar/source/device/device_verdict.h"

namespace strobe::source {

class RecordedDevices {
 public:
  // What is read besides the records of this request.
  enum class Before {
    kNothing,
    kAll,  // The program is younger than the capture, and may have been armed by its orders.
    kHeld  // What the ring still has of the flight recorder's request, which is then taken over.
  };
  struct Request {
    Before before = Before::kNothing;
    Nanos most{0};           // How long the devices may stay armed.
    std::uint32_t mode = 0;  // FileHeader::device_mode.
    FrameworkPorts framework_ports{};
    // The begin of the trace (CLOCK_MONOTONIC in ns). What was recorded or lost long before is left
    // out.
    std::int64_t since_ns = 0;
  };

  // The caller holds the file's lease and keeps the file open until Close.
  explicit RecordedDevices(const wire::RingFile& file) : file_(file) {}
  RecordedDevices(const RecordedDevices&) = delete;
  RecordedDevices& operator=(const RecordedDevices&) = delete;

  void Arm(const Request& request);
  // Reads what a program that has ended has left. See Request::since_ns.
  void ReadLeft(std::int64_t since_ns);
  // Withdraws the request of Arm. The caller wakes the program.
  void Disarm();
  // Withdraws the flight recorder's request, because the framework is about to record the devices.
  void LeaveToFramework() const;
  // Closes the ring; activity() stays valid.
  void Close() { reader_.reset(); }

  // For the following four, the file must be open.
  DeviceStatus status() const;
  // True if no more records are expected. `lives` tells that the program runs.
  bool Settled(bool lives) const;
  // Reads new records. `budget` is the number of bytes that may still be kept. `monotonic` converts
  // ticks to CLOCK_MONOTONIC in ns. Returns how full the ring was, from 0 to 1.
  double Drain(wire::RecordBuffer& buffer, std::uint64_t& budget,
               const std::function<std::int64_t(std::uint64_t)>& monotonic);
  bool damaged() const { return reader_ && reader_->damaged(); }

  std::uint64_t kept() const { return kept_; }
  // Records that were overwritten, or did not fit into the budget. Zero after Close.
  std::uint64_t lost() const { return over_budget_ + (reader_ ? reader_->lost() : 0); }

  const DeviceActivity& activity() const { return activity_; }
  DeviceClock clock() const { return DeviceClock(activity_.clocks); }
  // The ticks from and until which the devices were recorded. None if they were not.
  std::optional<std::uint64_t> first_ticks() const;
  std::uint64_t last_ticks() const { return last_ticks_; }

 private:
  // True if the program records the devices for the flight recorder, and goes on.
  bool IsRecordedAlready(std::uint64_t now_ns) const;
  // Reads from the begin of the last request's records on, as far as the ring has them.
  void ReadHeld();
  // Repeats the request: the flight recorder may have looked before the lease was taken.
  void Insist() const;
  void OnClock(const wire::ClockRecord& clock, std::uint64_t& budget,
               const std::function<std::int64_t(std::uint64_t)>& monotonic);

  const wire::RingFile& file_;
  std::uint32_t wish_ = 0;
  std::uint64_t until_ns_ = 0;
  bool armed_ = false;
  bool holds_before_ = false;  // Records from before the request are read too.
  std::int64_t since_ns_ = 0;
  // Records before this position are read only for what they describe.
  std::uint64_t described_from_ = 0;
  std::uint64_t lost_before_ = 0, buffers_lost_before_ = 0;
  std::optional<wire::RingReader> reader_;
  std::uint64_t kept_ = 0, over_budget_ = 0, last_ticks_ = 0;
  DeviceActivity activity_;
};

}  // namespace strobe::source
