#include "sidecar/source/device/device_activity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "agent/wire/cut_name.h"

namespace strobe::source {
namespace {

constexpr std::size_t kMaxDevices = 64;  // Per program; no machine has more.

template <typename T>
bool Take(std::span<const std::uint64_t> payload, std::uint64_t& budget, std::vector<T>& to) {
  if (payload.size() != wire::kWordsOf<T>) return true;
  if (budget < sizeof(T)) return false;
  budget -= sizeof(T);
  to.push_back(wire::FromWords<T>(payload));
  return true;
}

bool TakeText(std::span<const std::uint64_t> payload, std::uint64_t& budget,
              absl::flat_hash_map<std::uint32_t, std::string>& to) {
  if (payload.empty()) return true;
  const auto number = static_cast<std::uint32_t>(payload[0]);
  const std::uint64_t size = payload[0] >> 32;
  if (size > (payload.size() - 1) * 8) return true;
  if (to.contains(number)) return true;
  if (budget < size + 64) return false;
  budget -= size + 64;
  to.emplace(number, std::string(reinterpret_cast<const char*>(payload.data() + 1), size));
  return true;
}

// Devices are described again and again, so that the ring always has them.
bool IsKnownDevice(std::span<const std::uint64_t> payload,
                   const std::vector<wire::DeviceRecord>& devices) {
  if (payload.size() != wire::kWordsOf<wire::DeviceRecord>) return false;
  const auto device = wire::FromWords<wire::DeviceRecord>(payload);
  return std::any_of(devices.begin(), devices.end(), [&](const wire::DeviceRecord& known) {
    return known.ordinal == device.ordinal &&
           std::equal(std::begin(known.uuid), std::end(known.uuid), device.uuid);
  });
}

}  // namespace

bool DeviceActivity::Add(wire::RecordType type, std::span<const std::uint64_t> payload,
                         std::uint64_t& budget) {
  using wire::RecordType;
  switch (type) {
    case RecordType::kKernel:
      return Take(payload, budget, kernels);
    case RecordType::kCopy:
      return Take(payload, budget, copies);
    case RecordType::kSet:
      return Take(payload, budget, sets);
    case RecordType::kMemory:
      return Take(payload, budget, memory);
    case RecordType::kCall:
      return Take(payload, budget, calls);
    case RecordType::kOverhead:
      return Take(payload, budget, overheads);
    case RecordType::kExternal:
      return Take(payload, budget, externals);
    case RecordType::kMarker:
      return Take(payload, budget, markers);
    case RecordType::kDevice:
      return devices.size() >= kMaxDevices || IsKnownDevice(payload, devices) ||
             Take(payload, budget, devices);
    case RecordType::kClock:
      return Take(payload, budget, clocks);
    case RecordType::kText:
      return TakeText(payload, budget, texts);
    default:
      return true;
  }
}

std::uint64_t DeviceActivity::ForgetBefore(std::uint64_t device_ns, std::uint64_t& budget) {
  std::uint64_t events = 0;
  const auto forget = [&]<typename T>(std::vector<T>& records, auto&& end) {
    const std::size_t count =
        std::erase_if(records, [&](const T& record) { return end(record) < device_ns; });
    budget += count * sizeof(T);
    events += count;
  };
  const auto end = [](const auto& record) { return record.end; };
  const auto time = [](const auto& record) { return record.time; };
  forget(kernels, end);
  forget(copies, end);
  forget(sets, end);
  forget(memory, time);
  forget(calls, end);
  forget(overheads, end);
  forget(markers, time);
  // An operation of a framework has no time. It is written with the call that it is about.
  budget += externals.size() * sizeof(wire::ExternalRecord);
  events += externals.size();
  externals.clear();
  if (clocks.size() > 1) {
    budget += (clocks.size() - 1) * sizeof(wire::ClockRecord);
    clocks.erase(clocks.begin(), clocks.end() - 1);
  }
  return events;
}

std::uint64_t DeviceActivity::CutNames() const {
  return static_cast<std::uint64_t>(std::count_if(texts.begin(), texts.end(), [](const auto& text) {
    return wire::IsCut(text.second, wire::kMaxTextBytes);
  }));
}

std::uint64_t DeviceActivity::MistimedKernels() const {
  constexpr std::uint64_t kTolerance = 100'000;  // ns; on an H100, kernels begin 5 us after.
  absl::flat_hash_map<std::uint32_t, std::uint64_t> launched;  // When, by correlation.
  for (const wire::CallRecord& call : calls) launched.emplace(call.correlation, call.begin);
  const auto has_times = [](const wire::KernelRecord& kernel) {
    return kernel.begin != 0 && kernel.end >= kernel.begin;
  };
  // Correlations count up, and begin again at 0 some time.
  const auto is_after = [](std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a - b) > 0;
  };
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> newest;
  for (const wire::KernelRecord& kernel : kernels) {
    if (!has_times(kernel)) continue;
    const auto [it, fresh] =
        newest.try_emplace({kernel.device, kernel.context, kernel.stream}, kernel.correlation);
    if (!fresh && is_after(kernel.correlation, it->second)) it->second = kernel.correlation;
  }
  return static_cast<std::uint64_t>(
      std::count_if(kernels.begin(), kernels.end(), [&](const wire::KernelRecord& kernel) {
        if (has_times(kernel)) {
          const auto launch = launched.find(kernel.correlation);
          return launch != launched.end() && kernel.begin + kTolerance < launch->second;
        }
        const auto last = newest.find({kernel.device, kernel.context, kernel.stream});
        return last != newest.end() && is_after(last->second, kernel.correlation);
      }));
}

std::string_view DeviceActivity::Text(std::uint32_t number) const {
  const auto found = texts.find(number);
  return found == texts.end() ? std::string_view("?") : std::string_view(found->second);
}

DeviceClock::DeviceClock(std::vector<wire::ClockRecord> moments) : moments_(std::move(moments)) {
  std::stable_sort(moments_.begin(), moments_.end(),
                   [](const auto& a, const auto& b) { return a.device_ns < b.device_ns; });
  // Two moments with the same device time do not define a line.
  const auto same = [](const auto& a, const auto& b) { return a.device_ns == b.device_ns; };
  moments_.erase(std::unique(moments_.begin(), moments_.end(), same), moments_.end());
}

std::uint64_t DeviceClock::Ticks(std::uint64_t device_ns) const {
  if (moments_.size() < 2) return moments_.empty() ? 0 : moments_.front().ticks;
  // Uses the pair of moments around the time, or the nearest pair.
  auto after = std::upper_bound(moments_.begin() + 1, moments_.end() - 1, device_ns,
                                [](std::uint64_t ns, const auto& m) { return ns < m.device_ns; });
  const wire::ClockRecord &a = *(after - 1), &b = *after;
  const double rate = static_cast<double>(static_cast<std::int64_t>(b.ticks - a.ticks)) /
                      static_cast<double>(b.device_ns - a.device_ns);
  const auto since = static_cast<double>(static_cast<std::int64_t>(device_ns - a.device_ns));
  return a.ticks + static_cast<std::uint64_t>(static_cast<std::int64_t>(since * rate));
}

std::uint64_t DeviceClock::jump_ns(double ns_per_tick) const {
  double worst = 1e6;
  bool jumped = false;
  for (std::size_t i = 1; i < moments_.size(); ++i) {
    const wire::ClockRecord &a = moments_[i - 1], &b = moments_[i];
    const double ticked = static_cast<double>(static_cast<std::int64_t>(b.ticks - a.ticks));
    const double off =
        std::abs(static_cast<double>(b.device_ns - a.device_ns) - ticked * ns_per_tick);
    // A deviation below one part in a thousand is drift, not a step.
    if (off <= worst || off < std::abs(ticked) * ns_per_tick / 1000) continue;
    worst = off;
    jumped = true;
  }
  constexpr double kMaxNs = 9e18;  // Forged times are even further apart.
  return jumped ? static_cast<std::uint64_t>(std::min(worst, kMaxNs)) : 0;
}

}  // namespace strobe::source
