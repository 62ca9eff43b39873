#include "collector/trace/report/worker_time.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "collector/trace/report/headline.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

using LostTimes = std::array<double, kLostParts>;

double NotNegative(std::int64_t ns) { return std::max(0.0, static_cast<double>(ns)); }

LostTimes LostOf(const digest::Breakdown& time, const digest::HostTime& host) {
  LostTimes lost{};
  const auto at = [&](LostPart part) -> double& { return lost[static_cast<std::size_t>(part)]; };
  at(LostPart::kLaunches) = NotNegative(host.host_bound_ns);
  at(LostPart::kInput) = NotNegative(host.input_stall_ns);
  at(LostPart::kGarbageCollection) = NotNegative(host.garbage_collection_ns);
  at(LostPart::kCommunication) = NotNegative(time.exposed_communication_ns);
  at(LostPart::kCopies) = NotNegative(time.exposed_copies_ns);
  const double explained =
      at(LostPart::kLaunches) + at(LostPart::kInput) + at(LostPart::kGarbageCollection);
  at(LostPart::kOtherIdle) = std::max(0.0, NotNegative(time.idle_ns) - explained);
  return lost;
}

// The steps of the loop that takes most of the time.
std::vector<const digest::Step*> MainSteps(const digest::Digest& digest) {
  std::map<std::uint32_t, double> taken;
  for (const digest::Step& step : digest.steps) taken[step.loop] += NotNegative(step.time.span_ns);
  std::vector<const digest::Step*> steps;
  if (taken.empty()) return steps;
  const auto main = std::max_element(
      taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const digest::Step& step : digest.steps)
    if (step.loop == main->first && step.time.span_ns > 0) steps.push_back(&step);
  return steps;
}

struct TimeSums {
  double span = 0, compute = 0, idle = 0;
  LostTimes lost{};
  std::array<std::pair<double, std::optional<std::int64_t>>, kLostParts> most{};

  void Add(const digest::Breakdown& time, const digest::HostTime& host,
           std::optional<std::int64_t> step) {
    span += NotNegative(time.span_ns);
    compute += NotNegative(time.compute_ns);
    idle += NotNegative(time.idle_ns);
    const LostTimes of_step = LostOf(time, host);
    for (std::size_t i = 0; i < kLostParts; ++i) {
      lost[i] += of_step[i];
      if (of_step[i] > most[i].first) most[i] = {of_step[i], step};
    }
  }
};

std::array<bool, kLostParts> MeasuredParts(const digest::Knows& knows) {
  std::array<bool, kLostParts> tells{};
  tells.fill(true);
  tells[static_cast<std::size_t>(LostPart::kLaunches)] = knows.launches;
  tells[static_cast<std::size_t>(LostPart::kInput)] = knows.input;
  tells[static_cast<std::size_t>(LostPart::kGarbageCollection)] = knows.garbage_collection;
  return tells;
}

std::string DeviceWord(const digest::Digest& digest) {
  if (digest.knows.host_device) return "CPU";
  for (const std::string_view word : {"GPU", "TPU"}) {
    for (const digest::Device& device : digest.devices)
      if (Contains(device.name, word)) return std::string(word);
  }
  return "device";
}

std::string CommunicationWord(const digest::Digest& digest) {
  for (const digest::Op& op : digest.ops) {
    if (op.kind != digest::WorkKind::kCommunication || op.name >= digest.names.size()) continue;
    if (ContainsIgnoreCase(digest.names[op.name], "rccl")) return "RCCL";
    if (ContainsIgnoreCase(digest.names[op.name], "nccl")) return "NCCL";
  }
  return "communication";
}

std::optional<double> MemoryOf(const digest::Digest& digest) {
  std::optional<double> share;
  for (const digest::Device& device : digest.devices) {
    if (!device.peak_memory_bytes || device.memory_bytes.value_or(0) == 0) continue;
    const double used =
        static_cast<double>(*device.peak_memory_bytes) / static_cast<double>(*device.memory_bytes);
    share = std::max(share.value_or(0), std::min(used, 1.0));
  }
  return share;
}

}  // namespace

WorkerTime WorkerTimeOf(const digest::Digest& digest) {
  WorkerTime result;
  if (!digest.knows.device) return result;
  TimeSums sums;
  for (const digest::Step* step : MainSteps(digest)) sums.Add(step->time, step->host, step->number);
  if (sums.span <= 0) sums.Add(digest.time, digest.host_time, std::nullopt);
  if (sums.span <= 0) return result;
  const auto share = [&](double ns) { return std::min(ns / sums.span, 1.0); };
  result.has_device = true;
  result.device = DeviceWord(digest);
  result.communication = CommunicationWord(digest);
  result.busy = 1 - share(sums.idle);
  result.compute = share(sums.compute);
  result.memory = MemoryOf(digest);
  const auto tells = MeasuredParts(digest.knows);
  for (std::size_t i = 0; i < kLostParts; ++i)
    result.lost[i] = {
        .measured = tells[i], .share = share(sums.lost[i]), .step = sums.most[i].second};
  return result;
}

std::string LostPartText(LostPart part, std::string_view communication) {
  switch (part) {
    case LostPart::kLaunches:
      return "waiting for launches";
    case LostPart::kInput:
      return "waiting for input";
    case LostPart::kGarbageCollection:
      return "garbage collection";
    case LostPart::kCommunication:
      return StrCat("exposed ", communication);
    case LostPart::kCopies:
      return "exposed copies";
    case LostPart::kOtherIdle:
      break;
  }
  return "other idle";
}

std::string WorkerTimeText(const WorkerTime& time) {
  constexpr double kNamedShare = 0.01;
  constexpr std::size_t kMostParts = 3;
  std::vector<std::pair<double, LostPart>> parts;
  for (std::size_t i = 0; i < kLostParts; ++i) {
    if (time.lost[i].measured && time.lost[i].share >= kNamedShare)
      parts.emplace_back(time.lost[i].share, static_cast<LostPart>(i));
  }
  // What has a reason comes first.
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    const auto order = [](const auto& part) {
      return std::pair(part.second == LostPart::kOtherIdle, -part.first);
    };
    return order(a) < order(b);
  });
  if (parts.size() > kMostParts) parts.resize(kMostParts);
  std::string text = StrCat(time.device, " busy ", PercentText(time.busy));
  for (const auto& [share, part] : parts)
    text += StrCat("; ", PercentText(share), " ", LostPartText(part, time.communication));
  return text;
}

}  // namespace strobe::report
