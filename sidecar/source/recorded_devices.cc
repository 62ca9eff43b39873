#include "sidecar/source/recorded_devices.h"

#include <algorithm>
#include <span>

#include "agent/wire/ticks.h"

namespace strobe {
namespace {

using wire::DevicePhase;

// A request that ends so soon may have ended before the program reads that it was extended.
constexpr std::uint64_t kAlmostOverNs = 1'000'000'000;

}  // namespace

bool RecordedDevices::IsRecordedAlready(std::uint64_t now_ns) const {
  const wire::FileHeader& header = *file_.header();
  const std::uint32_t wish = header.device_control.load();
  return wish != 0 && header.device_until.load() > now_ns + kAlmostOverNs &&
         header.device_state.load() == wire::DeviceState(wish, DevicePhase::kArmed);
}

void RecordedDevices::Arm(const Request& request) {
  wire::FileHeader& to = *file_.header();
  reader_.emplace(file_.device_ring(), file_.device_data(), file_.device_words());
  if (request.before == Before::kAll) reader_->SkipToStart();
  since_ns_ = request.since_ns;
  lost_before_ = to.device_lost.load(std::memory_order_relaxed);
  buffers_lost_before_ = to.device_buffers_lost.load(std::memory_order_relaxed);
  TellFrameworkPorts(request.framework_ports, to);
  const std::uint64_t now = wire::MonotonicNs();
  taken_over_ = request.before == Before::kHeld && IsRecordedAlready(now);
  to.device_until = now + static_cast<std::uint64_t>(request.most.count());
  // Texts and devices are described from there on.
  if (taken_over_) reader_->SkipToOldest(to.device_begin.load());
  // A program that received the request by its orders, or is recorded already, keeps that request's
  // number. Any other program gets a new number that it has not answered, and never 0.
  wish_ = taken_over_ || request.before == Before::kAll ? to.device_control.load() : 0;
  if (wish_ == 0) wish_ = static_cast<std::uint32_t>(to.device_state.load() >> 32) + 1;
  if (wish_ == 0) wish_ = 1;
  to.device_control.store(wish_, std::memory_order_release);
  file_.WakeProgram();
}

void RecordedDevices::ReadLeft() {
  reader_.emplace(file_.device_ring(), file_.device_data(), file_.device_words());
  reader_->SkipToOldest(file_.header()->device_begin.load());
}

void RecordedDevices::LeaveToFramework() const {
  if (file_.header()->device_control.exchange(0) != 0) file_.WakeProgram();
}

void RecordedDevices::Disarm() const {
  if (wish_ != 0) file_.header()->device_control.store(0, std::memory_order_release);
}

DeviceStatus RecordedDevices::status() const {
  const wire::FileHeader& from = *file_.header();
  const std::uint64_t state = from.device_state.load(std::memory_order_acquire);
  DeviceStatus status{.uses_cuda = from.uses_cuda.load(std::memory_order_relaxed) != 0};
  status.refusal =
      static_cast<wire::DeviceRefusal>(from.device_refusal.load(std::memory_order_relaxed));
  status.asked = wish_ != 0;
  status.answered = status.asked && state >> 32 == wish_;
  if (status.answered) status.phase = static_cast<DevicePhase>(static_cast<std::uint32_t>(state));
  status.step = static_cast<wire::DeviceStep>(from.device_step.load(std::memory_order_relaxed));
  status.result = from.device_result.load(std::memory_order_relaxed);
  const std::uint64_t lost = from.device_lost.load(std::memory_order_relaxed);
  status.lost = lost - std::min(lost, lost_before_);
  status.buffers_lost =
      from.device_buffers_lost.load(std::memory_order_relaxed) - buffers_lost_before_;
  return status;
}

bool RecordedDevices::Settled(bool lives) const {
  if (wish_ == 0 || !lives) return true;
  const DeviceStatus now = status();
  if (now.refusal != wire::DeviceRefusal::kNone) return true;
  if (!now.answered) return !now.uses_cuda;
  return now.phase != DevicePhase::kArmed;
}

double RecordedDevices::Drain(wire::RecordBuffer& buffer, std::uint64_t& budget,
                              const std::function<std::int64_t(std::uint64_t)>& monotonic) {
  if (!reader_) return 0;
  const double filled = reader_->filled();
  reader_->DrainRecords(
      buffer, [&](wire::RecordType type, std::uint8_t, std::span<const std::uint64_t> payload) {
        const bool fits = activity_.Add(type, payload, budget);
        if (wire::HasNumber(type)) ++(fits ? kept_ : over_budget_);
        if (type != wire::RecordType::kClock || payload.size() < wire::kWordsOf<wire::ClockRecord>)
          return;
        // Also read from records that do not fit into the budget.
        const auto clock = wire::FromWords<wire::ClockRecord>(payload);
        const bool is_first = last_ticks_ == 0;
        last_ticks_ = clock.ticks;
        if (taken_over_ && (is_first || monotonic(clock.ticks) <= since_ns_))
          lost_before_ = clock.lost;
      });
  return filled;
}

std::optional<std::uint64_t> RecordedDevices::first_ticks() const {
  if (activity_.clocks.empty()) return std::nullopt;
  return activity_.clocks.front().ticks;
}

}  // namespace strobe
