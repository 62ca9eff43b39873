#include "sidecar/source/agent/program_switch.h"

#include <cstring>
#include <string>
#include <utility>

#include "common/text/safe_text.h"
#include "sidecar/source/base/recording_times.h"

namespace strobe::source {
namespace {

constexpr std::uint64_t kAttendanceSlackNs = 1'000'000'000;

}  // namespace

std::uint32_t CaptureWish(const wire::RingFile& file) {
  return file.header()->wishes[static_cast<std::size_t>(wire::Wisher::kCapture)].load();
}

void ProgramSwitch::On(std::uint32_t filter, std::optional<std::int64_t> since_ns) {
  on_ = true;
  header().filter.store(filter, std::memory_order_relaxed);
  file_.Wish(wire::Wisher::kCapture, level_);
  // Reads the clock after switching on: if the sidecar is suspended in between, it claims less
  // time, not more.
  on_ns_ = since_ns ? *since_ns : MonotonicNow();
  off_ns_ = on_ns_;
}

void ProgramSwitch::Check() {
  if (!on_) return;
  // Reads the clock before the control word: annotations were on at least at that time.
  const std::int64_t now = MonotonicNow();
  on_ = CaptureWish(file_) == level_ && header().control.load(std::memory_order_relaxed) >= level_;
  if (on_) off_ns_ = now;
}

void ProgramSwitch::Off() {
  on_ = false;
  file_.Wish(wire::Wisher::kCapture, 0);
  header().filter.store(~0u, std::memory_order_relaxed);
  if (std::exchange(attended_, false)) header().attend_until.store(0, std::memory_order_relaxed);
}

void ProgramSwitch::WriteRecorder(std::string_view recorder) {
  const std::string text = CutUtf8(recorder, wire::kRecorderBytes);
  std::memset(header().recorder, 0, wire::kRecorderBytes);
  std::memcpy(header().recorder, text.data(), text.size());
}

void ProgramSwitch::RequestAttendance(std::uint64_t until_ns) {
  // The job guard may have requested it already, for a longer time.
  if (header().attend_until.load(std::memory_order_relaxed) >= until_ns - kAttendanceSlackNs)
    return;
  header().attend_until.store(until_ns, std::memory_order_relaxed);
  attended_ = true;
}

}  // namespace strobe::source
