#include "collector/trace/tally/tally.h"

#include <algorithm>
#include <array>
#include <utility>

#include "collector/trace/digest/event_times.h"
#include "collector/trace/index/index.h"
#include "collector/trace/tally/device_tally.h"
#include "collector/trace/tally/host_tally.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::tally {
namespace {

// XProf's kernel_stats_utils, PyProf's tc.py and PyTorch's plugin for TensorBoard have these.
constexpr std::array<std::string_view, 19> kTensorCorePatterns = {
    "16816",
    "c1688",
    "conv1x1",
    "conv2d_c1_k1",
    "dgrad_1x1_stride_2x2",
    "direct_group",
    "first_layer_wgrad_kernel",
    "h1688",
    "h884",
    "hmma",
    "i16832",
    "i8816",
    "s884",
    "s1688",
    "xmma_gemm",
    "xmma_implicit_gemm",
    "xmma_sparse_conv",
    "xmma_sparse_gemm",
    "xmma_warp_specialized_implicit_gemm"};

}  // namespace

const xplane::Plane* Source::PlaneOf(const index::Row& row) const {
  const std::vector<xplane::Plane>& planes = row.derived != 0 ? derived->planes : space->planes;
  const std::size_t number = row.derived != 0 ? row.derived - 1 : row.plane;
  return number < planes.size() ? &planes[number] : nullptr;
}

absl::StatusOr<std::string_view> Source::BytesOf(const index::Row& row,
                                                 const index::Entry& entry) const {
  if (row.derived != 0) return index::EventAt(index->derived(), trace.size(), entry.offset);
  return index::EventAt(trace, 0, entry.offset);
}

absl::StatusOr<std::string_view> Source::TextOf(const xplane::Plane& plane, const index::Row& row,
                                                const index::Entry& entry,
                                                std::int64_t stat_id) const {
  ASSIGN_OR_RETURN(const std::string_view bytes, BytesOf(row, entry));
  std::string_view text;
  xplane::Event event;
  RETURN_IF_ERROR(digest::ReadEvent(
      bytes, event, [stat_id](std::int64_t id) { return id != 0 && id == stat_id; },
      [&](const digest::RawStat& stat) { text = digest::TextOfStat(plane, stat); }));
  return text;
}

double BusFactor(digest::CollectiveKind kind, std::uint32_t ranks) {
  if (ranks < 2) return 0;
  const double part = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (kind) {
    case digest::CollectiveKind::kAllReduce:
      return 2 * part;
    case digest::CollectiveKind::kAllGather:
    case digest::CollectiveKind::kReduceScatter:
    case digest::CollectiveKind::kAllToAll:
    case digest::CollectiveKind::kGather:
    case digest::CollectiveKind::kScatter:
      return part;
    case digest::CollectiveKind::kBroadcast:
    case digest::CollectiveKind::kReduce:
    case digest::CollectiveKind::kPermute:
    case digest::CollectiveKind::kSend:
    case digest::CollectiveKind::kReceive:
      return 1;
    case digest::CollectiveKind::kBarrier:
    case digest::CollectiveKind::kOther:
      break;
  }
  return 0;
}

double TallyRow::BusBytesPerSecond() const { return bytes_per_s * BusFactor(collective, ranks); }

bool UsesTensorCores(std::string_view kernel) {
  return std::ranges::any_of(kTensorCorePatterns,
                             [&](std::string_view pattern) { return Contains(kernel, pattern); });
}

absl::StatusOr<Tally> TallyTrace(const Source& source) {
  Gathering gathering{.source = source};
  RETURN_IF_ERROR(AddDevices(gathering));
  ASSIGN_OR_RETURN(const bool joins_launches, AddHost(gathering));
  Tally tally{.device_ps = gathering.kernels.SelfTime(), .joins_launches = joins_launches};
  tally.kernels = std::move(gathering.kernels).Finish();
  tally.operators = std::move(gathering.operators).Finish();
  tally.modules = std::move(gathering.modules).Finish();
  tally.communication = std::move(gathering.communication).Finish();
  for (TallyRow& row : tally.communication.rows) {
    if (row.kind == kOfDevice && row.total_ps > 0)
      row.bytes_per_s = static_cast<double>(row.bytes) * 1e12 / static_cast<double>(row.total_ps);
  }
  return tally;
}

}  // namespace strobe::tally
