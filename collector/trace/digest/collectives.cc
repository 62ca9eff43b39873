#include "collector/trace/digest/collectives.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "collector/trace/digest/process_groups.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::digest {
namespace {

constexpr std::array<std::string_view, 11> kCollectiveStats = {"Collective name",
                                                               "Process Group Name",
                                                               "Process Group Description",
                                                               "Group size",
                                                               "Process Group Ranks",
                                                               "In msg nelems",
                                                               "Out msg nelems",
                                                               "dtype",
                                                               "Seq",
                                                               "hlo_op",
                                                               "long_name"};
constexpr std::size_t kMaxRanks = 65536;

// "[0, 8, 16]": its numbers. Empty if it is cut or anything else: PyTorch writes "..." for the rest
// of a long list.
std::vector<std::uint32_t> RanksOf(std::string_view text) {
  std::vector<std::uint32_t> ranks;
  const char *at = text.data(), *const end = text.data() + text.size();
  while (at != end) {
    if (*at >= '0' && *at <= '9') {
      std::uint32_t rank = 0;
      const auto read = std::from_chars(at, end, rank);
      if (read.ec != std::errc() || ranks.size() == kMaxRanks) return {};
      ranks.push_back(rank);
      at = read.ptr;
    } else if (std::string_view("[], \t\r\n").find(*at++) == std::string_view::npos) {
      return {};
    }
  }
  return ranks;
}

// "..., replica_groups={{0,1},{2,3}}, ...": "{{0,1},{2,3}}"; also the short form "[2,4]<=[8]", and
// the pairs of a permutation.
std::string_view GroupsOf(std::string_view hlo) {
  for (const std::string_view key : {"replica_groups=", "source_target_pairs="}) {
    const std::size_t found = hlo.find(key);
    if (found == std::string_view::npos) continue;
    const std::string_view rest = hlo.substr(found + key.size());
    if (!rest.starts_with('{')) return rest.substr(0, rest.find(", "));
    int depth = 0;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      depth += rest[i] == '{' ? 1 : rest[i] == '}' ? -1 : 0;
      if (depth == 0) return rest.substr(0, i + 1);
    }
  }
  return {};
}

}  // namespace

std::uint32_t Names::Find(std::string_view name) {
  const std::string text = CutUtf8(name, kMaxBytes);
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(names_.size());
  names_.push_back(text);
  numbers_.emplace(text, number);
  return number;
}

CollectiveStats::CollectiveStats(const xplane::Plane& plane) : plane_(plane) {
  for (std::size_t i = 0; i < kStats; ++i) ids_[i] = plane.StatId(kCollectiveStats[i]);
}

absl::StatusOr<CollectiveStats::Values> CollectiveStats::Read(std::string_view event) const {
  Values told;
  std::uint64_t elements = 0;
  std::string_view dtype;
  const auto wanted = [&](std::int64_t id) {
    return id != 0 && std::find(ids_.begin(), ids_.end(), id) != ids_.end();
  };
  xplane::Event ignored;
  RETURN_IF_ERROR(ReadEvent(event, ignored, wanted, [&](const RawStat& stat) {
    const auto known = std::find(ids_.begin(), ids_.end(), stat.name_id);
    const auto natural = static_cast<std::uint64_t>(std::max<std::int64_t>(stat.value, 0));
    switch (known - ids_.begin()) {
      case kName:
        told.name = TextOfStat(plane_, stat);
        break;
      case kGroup:
        told.group = TextOfStat(plane_, stat);
        break;
      case kDescription:
        told.description = TextOfStat(plane_, stat);
        break;
      case kSize:
        told.size = static_cast<std::uint32_t>(std::min<std::uint64_t>(natural, 1u << 30));
        break;
      case kRanks:
        told.ranks = TextOfStat(plane_, stat);
        break;
      case kInElements:
      case kOutElements:
        elements = std::max(elements, natural);
        break;
      case kDtype:
        dtype = TextOfStat(plane_, stat);
        break;
      case kSequence:
        if (stat.is_integer && stat.value >= 0) told.sequence = stat.value;
        break;
      case kHloOp:
        told.hlo_op = TextOfStat(plane_, stat);
        break;
      case kLongName:
        told.long_name = TextOfStat(plane_, stat);
        break;
      default:
        break;
    }
  }));
  constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 56;
  told.bytes = std::min(elements, kMaxElements) * DtypeBytes(dtype);
  return told;
}

std::uint32_t Collectives::CommunicatorOf(std::string_view hlo,
                                          const CollectiveStats::Values& told) {
  const std::string_view groups = GroupsOf(hlo);
  std::string key = StrCat(told.group, "\n", told.description, "\n", told.ranks, "\n", groups);
  const auto found = communicator_numbers_.find(key);
  if (found != communicator_numbers_.end()) return found->second;
  if (communicators_.size() == kMaxCommunicators) return 0;
  Communicator communicator{.size = told.size, .ranks = RanksOf(told.ranks)};
  communicator.name = CommunicatorName(told.group.empty() ? groups : told.group, told.description);
  if (communicator.size == 0)
    communicator.size = static_cast<std::uint32_t>(communicator.ranks.size());
  const auto number = static_cast<std::uint32_t>(communicators_.size());
  communicators_.push_back(std::move(communicator));
  communicator_numbers_.emplace(std::move(key), number);
  return number;
}

void Collectives::Add(std::string_view name, std::string_view hlo, const WorkClass& work,
                      const CollectiveStats::Values& told, std::uint32_t device,
                      const Times& times) {
  if (all_.size() == kMaxCollectives) {
    ++left_out_;
    return;
  }
  Collective collective{.device = device,
                        .begin_ns = times.begin_ps / 1000,
                        .end_ns = times.end_ps / 1000,
                        .bytes = told.bytes,
                        .sequence = told.sequence,
                        .kind = work.collective};
  if (collective.kind == CollectiveKind::kOther) collective.kind = CollectiveKindOf(told.name);
  std::deque<Begun>& begun = begun_[{device, work.collective}];
  if (work.phase == WorkClass::kDone && !begun.empty()) {
    // This is the end of an operation whose begin was recorded; otherwise it began before the
    // recording.
    collective.communicator = begun.front().communicator;
    collective.name = begun.front().name;
    collective.begin_ns = begun.front().begin_ps / 1000;
    begun.pop_front();
  } else {
    collective.communicator = CommunicatorOf(hlo, told);
    collective.name = names_.Find(told.hlo_op.empty() ? WithoutArguments(name) : told.hlo_op);
  }
  if (work.phase == WorkClass::kStart) {
    constexpr std::size_t kMaxBegun = 4096;
    if (begun.size() == kMaxBegun) begun.pop_front();
    begun.push_back({collective.communicator, collective.name, times.begin_ps});
    return;
  }
  all_.push_back(collective);
  any_on_device_ = any_on_device_ || device != kNoDevice;
}

void Collectives::Finish(Digest& digest) && {
  std::stable_sort(all_.begin(), all_.end(), [](const Collective& a, const Collective& b) {
    return std::tie(a.begin_ns, a.device) < std::tie(b.begin_ns, b.device);
  });
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> counts;
  for (Collective& collective : all_)
    collective.ordinal = counts[{collective.communicator, collective.name, collective.device}]++;
  digest.collectives = std::move(all_);
  digest.communicators = std::move(communicators_);
  digest.cuts.collectives += left_out_;
}

}  // namespace strobe::digest
