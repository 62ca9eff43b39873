#include "sidecar/source/device/collective_plane.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/strings.h"

namespace strobe::source {
namespace {

using wire::CollectiveCopy;
using wire::CommunicatorCopy;

struct CallSpan {
  std::int64_t begin_ps = 0, end_ps = 0;
  const CollectiveCopy* call = nullptr;
};

// Times of a forged file may be anything.
std::int64_t PsSince(std::int64_t start_ns, std::uint64_t device_ns, std::int64_t offset) {
  constexpr std::int64_t kDayNs = 86'400'000'000'000;
  const auto ns = static_cast<std::int64_t>(device_ns + static_cast<std::uint64_t>(offset) -
                                            static_cast<std::uint64_t>(start_ns));
  return std::clamp(ns, -kDayNs, kDayNs) * 1000;
}

std::string_view LibraryOf(const CollectiveActivity& activity) {
  return activity.library == wire::CollectiveLibrary::kRccl ? "rccl:" : "nccl:";
}

// CLOCK_MONOTONIC minus the clock of the calls' device, in ns; nullopt if it is not known. The
// program learns of the end of each call a little later: the shortest delay tells the most.
std::optional<std::int64_t> DeviceOffset(const std::vector<CollectiveCopy>& calls) {
  std::optional<std::int64_t> offset;
  for (const CollectiveCopy& call : calls) {
    if (!call.has_device_times()) continue;
    // Both count ns and may be forged; the difference wraps around.
    const auto seen = static_cast<std::int64_t>(call.end_seen_ns - call.device_end);
    offset = std::min(offset.value_or(seen), seen);
  }
  return offset;
}

}  // namespace

std::uint64_t CollectiveActivity::WithoutEntry() const {
  return static_cast<std::uint64_t>(
      std::count_if(calls.begin(), calls.end(), [](const CollectiveCopy& call) {
        return call.key.communicator >= wire::kCollectiveCommunicators;
      }));
}

void CollectivePlane::Add(const CollectiveTrace& trace) {
  // One pass over all calls, because a forged file may tell of many communicators.
  std::vector<std::vector<CollectiveCopy>> calls(trace.activity.communicators.size());
  for (const CollectiveCopy& call : trace.activity.calls) {
    if (call.key.communicator < calls.size()) calls[call.key.communicator].push_back(call);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const CommunicatorCopy& group = trace.activity.communicators[i];
    AddLine(trace, group, calls[i], std::nullopt);
    if (const auto offset = DeviceOffset(calls[i])) AddLine(trace, group, calls[i], offset);
  }
}

void CollectivePlane::AddLine(const CollectiveTrace& trace, const CommunicatorCopy& group,
                              const std::vector<CollectiveCopy>& calls,
                              std::optional<std::int64_t> device_offset) {
  std::vector<CallSpan> spans;
  for (const CollectiveCopy& call : calls) {
    if (device_offset && !call.has_device_times()) continue;
    CallSpan span{.call = &call};
    if (device_offset) {
      span.begin_ps = PsSince(trace.start_ns, call.device_begin, *device_offset);
      span.end_ps = PsSince(trace.start_ns, call.device_end, *device_offset);
    } else {
      span.begin_ps = trace.scale.Ps(call.begin);
      span.end_ps = call.launched == 0 ? span.begin_ps : trace.scale.Ps(call.launched);
    }
    if (span.begin_ps < 0 || span.end_ps > length_ps_ || span.end_ps < span.begin_ps) continue;
    spans.push_back(span);
  }
  if (spans.empty()) return;
  std::sort(spans.begin(), spans.end(), [](const CallSpan& a, const CallSpan& b) {
    return a.begin_ps != b.begin_ps ? a.begin_ps < b.begin_ps : a.end_ps > b.end_ps;
  });
  const std::string id = StrCat("0x", absl::Hex(group.id));
  builder_.BeginLine(
      lines_++,
      StrCat(trace.label, trace.label.empty() ? "" : " ", group.name, group.name.empty() ? "" : " ",
             id, " rank ", group.rank, " of ", group.ranks, device_offset ? xplane::kOnDevice : ""),
      0);
  const std::string_view library = LibraryOf(trace.activity);
  for (const CallSpan& span : spans) {
    const CollectiveCopy& call = *span.call;
    const std::string_view name = wire::NameOf(call.key.call);
    builder_.AddEvent(builder_.EventId(StrCat(library, name)), span.begin_ps,
                      span.end_ps - span.begin_ps);
    const auto add = [&](std::string_view stat, const xplane::BuilderValue& value) {
      builder_.AddEventStat(builder_.StatId(stat), value);
    };
    add("Collective name", xplane::Ref{name});
    add("Process Group Name", xplane::Ref{id});
    if (!group.name.empty()) add("Process Group Description", xplane::Ref{group.name});
    add("Group size", std::int64_t{group.ranks});
    add("In msg nelems", call.count);
    if (const std::string_view type = wire::NameOf(call.key.type); !type.empty())
      add("dtype", xplane::Ref{type});
    add("Seq", call.ordinal);
    if (call.key.peer >= 0)
      add(wire::IsTransfer(call.key.call) ? "peer" : "root", std::int64_t{call.key.peer});
    if (call.how.channels > 0) add("channels", std::uint64_t{call.how.channels});
    if ((call.how.flags & wire::kCaptured) != 0) add("captured", std::int64_t{1});
  }
}

std::string CollectivePlane::Encode() { return lines_ == 0 ? "" : builder_.Encode(); }

}  // namespace strobe::source
