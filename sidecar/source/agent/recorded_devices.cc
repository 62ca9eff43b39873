#include "sidecar/source/agent/recorded_devices.h"

#include <algorithm>
#include <span>
#include <utility>

#include "agent/wire/ticks.h"
#include "common/text/safe_text.h"
#include "sidecar/source/agent/device_answer.h"

namespace strobe::source {
namespace {

using wire::DevicePhase;

static_assert(
    static_cast<int>(DeviceMode::kKernels) == static_cast<int>(wire::DeviceMode::kKernels) &&
    static_cast<int>(DeviceMode::kLaunches) == static_cast<int>(wire::DeviceMode::kLaunches) &&
    static_cast<int>(DeviceMode::kGraphs) == static_cast<int>(wire::DeviceMode::kGraphs) &&
    static_cast<int>(DeviceMode::kAll) == static_cast<int>(wire::DeviceMode::kAll));

// A request that ends so soon may have ended before the program reads that it was extended.
constexpr std::uint64_t kAlmostOverNs = 1'000'000'000;
// The rate of ticks is not known exactly when the first records are read.
constexpr std::int64_t kSlackNs = 1'000'000'000;

// Nobody has written the flight recorder's mode, which is the default.
DeviceMode ModeIn(const wire::FileHeader& header) {
  const std::uint32_t mode = header.device_mode.load(std::memory_order_relaxed);
  const std::uint32_t number = mode & wire::kDeviceModeMask;
  return number == 0 ? DeviceMode::kLaunches : AgentsMode(number);
}

// CUPTI tells names as "CUPTI for <name>".
std::string HolderIn(const wire::FileHeader& header) {
  constexpr std::string_view kBefore = "CUPTI for ";
  std::string_view text(header.device_holder, wire::kHolderBytes);
  text = text.substr(0, text.find('\0'));
  if (text.starts_with(kBefore)) text.remove_prefix(kBefore.size());
  return std::string(CutUtf8(WithoutControls(text), wire::kHolderBytes));
}

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
  const bool recorded = request.before == Before::kHeld && IsRecordedAlready(now);
  until_ns_ = now + static_cast<std::uint64_t>(request.most.count());
  if (recorded) ReadHeld();
  // A program that received the request by its orders, or is recorded already, keeps that request's
  // number.
  const std::uint32_t asked = to.device_control.load();
  wish_ = recorded || request.before == Before::kAll ? asked : 0;
  // What the flight recorder records keeps its mode, and so do programs that have read the orders.
  if (wish_ == 0) {
    to.device_mode.store(request.mode, std::memory_order_relaxed);
    wish_ = NewWish(AnswerOf(to).wish, asked);
  }
  armed_ = true;
  Insist();
  file_.WakeProgram();
}

void RecordedDevices::Insist() const {
  wire::FileHeader& to = *file_.header();
  if (to.device_until.load() < until_ns_) to.device_until.store(until_ns_);
  if (to.device_control.load() == wish_) return;
  to.device_control.store(wish_, std::memory_order_release);
  file_.WakeProgram();
}

void RecordedDevices::ReadHeld() {
  const std::uint64_t again = wire::AgainAfter(file_.device_words());
  holds_before_ = true;
  if (reader_->SkipToOldest(file_.header()->device_begin.load(), again))
    described_from_ = reader_->position() + again;
}

void RecordedDevices::ReadLeft(std::int64_t since_ns) {
  since_ns_ = since_ns;
  reader_.emplace(file_.device_ring(), file_.device_data(), file_.device_words());
  ReadHeld();
}

void RecordedDevices::LeaveToFramework() const {
  if (file_.header()->device_control.exchange(0) != 0) file_.WakeProgram();
}

void RecordedDevices::Disarm() {
  if (std::exchange(armed_, false))
    file_.header()->device_control.store(0, std::memory_order_release);
}

DeviceStatus RecordedDevices::status() const {
  const wire::FileHeader& from = *file_.header();
  const DeviceAnswer answer = AnswerOf(from);
  DeviceStatus status{.uses_cuda = from.uses_cuda.load(std::memory_order_relaxed) != 0};
  status.refusal =
      static_cast<wire::DeviceRefusal>(from.device_refusal.load(std::memory_order_relaxed));
  status.was_asked = wish_ != 0;
  status.answered = status.was_asked && answer.wish == wish_;
  if (status.answered) status.phase = answer.phase;
  status.mode = ModeIn(from);
  status.holder = HolderIn(from);
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
  if (armed_) Insist();
  if (!reader_) return 0;
  const double filled = reader_->filled();
  reader_->DrainRecords(
      buffer, [&](wire::RecordType type, std::uint8_t, std::span<const std::uint64_t> payload) {
        const bool describes = type == wire::RecordType::kText || type == wire::RecordType::kDevice;
        if (reader_->position() <= described_from_ && !describes) return;
        const bool fits = activity_.Add(type, payload, budget);
        if (wire::HasNumber(type)) ++(fits ? kept_ : over_budget_);
        // Also read from records that do not fit into the budget.
        if (type == wire::RecordType::kClock && payload.size() == wire::kWordsOf<wire::ClockRecord>)
          OnClock(wire::FromWords<wire::ClockRecord>(payload), budget, monotonic);
      });
  return filled;
}

void RecordedDevices::OnClock(const wire::ClockRecord& clock, std::uint64_t& budget,
                              const std::function<std::int64_t(std::uint64_t)>& monotonic) {
  const bool is_first = std::exchange(last_ticks_, clock.ticks) == 0;
  if (!holds_before_) return;
  const bool before = monotonic(clock.ticks) <= since_ns_ - kSlackNs;
  if (before) kept_ -= activity_.ForgetBefore(clock.device_ns, budget);
  if (before || is_first) lost_before_ = clock.lost;
}

std::optional<std::uint64_t> RecordedDevices::first_ticks() const {
  if (activity_.clocks.empty()) return std::nullopt;
  return activity_.clocks.front().ticks;
}

}  // namespace strobe::source
