#include "collector/trace/report/parallel_groups.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "common/base/enum_names.h"

namespace strobe::report {
namespace {

// The words of a name in lower case, without the digits at their ends.
std::vector<std::string> NameWords(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    if (upper || lower)
      words.back().push_back(upper ? static_cast<char>(c - 'A' + 'a') : c);
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

struct GroupWord {
  std::string_view word{};
  GroupKind kind = GroupKind::kUnknown;
};
// The words of PyTorch's DeviceMesh and its parallel plans, Megatron-LM, DeepSpeed and JAX.
constexpr GroupWord kGroupWords[] = {
    {"dp", GroupKind::kData},          {"ddp", GroupKind::kData},
    {"fsdp", GroupKind::kData},        {"hsdp", GroupKind::kData},
    {"data", GroupKind::kData},        {"replicate", GroupKind::kData},
    {"replica", GroupKind::kData},     {"tp", GroupKind::kTensor},
    {"tensor", GroupKind::kTensor},    {"pp", GroupKind::kPipeline},
    {"pipe", GroupKind::kPipeline},    {"pipeline", GroupKind::kPipeline},
    {"stage", GroupKind::kPipeline},   {"ep", GroupKind::kExpert},
    {"expert", GroupKind::kExpert},    {"experts", GroupKind::kExpert},
    {"cp", GroupKind::kSequence},      {"sp", GroupKind::kSequence},
    {"context", GroupKind::kSequence}, {"sequence", GroupKind::kSequence},
    {"seq", GroupKind::kSequence},     {"ulysses", GroupKind::kSequence},
};

// What lies between the first "{{" and the next '}' of "{{0,1},{2,3}}".
std::vector<std::uint32_t> FirstReplicaGroup(std::string_view text) {
  std::vector<std::uint32_t> ranks;
  text.remove_prefix(2);
  text = text.substr(0, text.find('}'));
  const char *at = text.data(), *const end = at + text.size();
  while (at < end) {
    std::uint32_t rank = 0;
    const auto read = std::from_chars(at, end, rank);
    if (read.ec != std::errc()) return {};
    ranks.push_back(rank);
    at = read.ptr == end ? end : read.ptr + 1;
  }
  return ranks;
}

RankOrder OrderOf(const std::vector<std::uint32_t>& ranks) {
  if (ranks.size() < 2) return RankOrder::kUnknown;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i] != ranks[i - 1] + 1) return RankOrder::kApart;
  }
  return RankOrder::kNeighbours;
}

// XLA's replica groups: "{{0,1},{2,3}}", or "[2,4]<=[8]" for two groups of four neighbours, of
// which a transposition after it says that they lie apart.
RankOrder OrderOfReplicaGroups(std::string_view name) {
  if (name.starts_with("{{")) {
    if (name.find("},{") == std::string_view::npos) return RankOrder::kAll;
    return OrderOf(FirstReplicaGroup(name));
  }
  if (name == "{}" || name.starts_with("[1,")) return RankOrder::kAll;
  if (!name.starts_with('[') || name.find("<=") == std::string_view::npos)
    return RankOrder::kUnknown;
  return name.find('T') == std::string_view::npos ? RankOrder::kNeighbours : RankOrder::kApart;
}

}  // namespace

std::string_view GroupKindName(GroupKind kind) {
  static constexpr EnumNames<GroupKind, kGroupKinds> kNames({{GroupKind::kUnknown, "unknown"},
                                                             {GroupKind::kAll, "all ranks"},
                                                             {GroupKind::kData, "data"},
                                                             {GroupKind::kTensor, "tensor"},
                                                             {GroupKind::kPipeline, "pipeline"},
                                                             {GroupKind::kExpert, "expert"},
                                                             {GroupKind::kSequence, "sequence"}});
  return kNames.Of(kind, "unknown");
}

GroupKind GroupKindByName(std::string_view name) {
  if (name.find("default_pg") != std::string_view::npos ||
      name.find("mesh_default") != std::string_view::npos)
    return GroupKind::kAll;
  std::array<bool, kGroupKinds> has{};
  for (const std::string& word : NameWords(name)) {
    for (const GroupWord& known : kGroupWords)
      if (known.word == word) has[static_cast<std::size_t>(known.kind)] = true;
  }
  const auto is = [&](GroupKind kind) { return has[static_cast<std::size_t>(kind)]; };
  // "EXPERT_DATA_PARALLEL_GROUP" shares the data of experts, and "dp_cp" that of contexts: the
  // words for experts and sequences only say which ranks, if another kind is named.
  GroupKind found = GroupKind::kUnknown;
  for (const GroupKind kind : {GroupKind::kData, GroupKind::kTensor, GroupKind::kPipeline}) {
    if (!is(kind)) continue;
    if (found != GroupKind::kUnknown) return GroupKind::kUnknown;
    found = kind;
  }
  if (found != GroupKind::kUnknown) return found;
  if (is(GroupKind::kExpert)) return GroupKind::kExpert;
  return is(GroupKind::kSequence) ? GroupKind::kSequence : GroupKind::kUnknown;
}

RankOrder RankOrderOf(const digest::Communicator& communicator,
                      std::optional<std::uint32_t> world_size) {
  if (communicator.size > 1 && world_size == communicator.size) return RankOrder::kAll;
  if (!communicator.ranks.empty()) return OrderOf(communicator.ranks);
  return OrderOfReplicaGroups(communicator.name);
}

GroupKind GroupKindByCalls(const CallKinds& calls, RankOrder order) {
  const auto count = [&](digest::CollectiveKind kind) {
    return calls[static_cast<std::size_t>(kind)];
  };
  std::size_t all = 0;
  for (const std::size_t of_kind : calls) all += of_kind;
  const std::size_t sent = count(digest::CollectiveKind::kSend) +
                           count(digest::CollectiveKind::kReceive) +
                           count(digest::CollectiveKind::kPermute);
  if (all == 0) return GroupKind::kUnknown;
  if (sent == all) return GroupKind::kPipeline;
  if (order == RankOrder::kAll) return GroupKind::kAll;
  if (count(digest::CollectiveKind::kAllToAll) > 0) return GroupKind::kExpert;
  if (order == RankOrder::kNeighbours) return GroupKind::kTensor;
  return order == RankOrder::kApart ? GroupKind::kData : GroupKind::kUnknown;
}

std::optional<std::uint32_t> StageOf(const digest::Digest& digest) {
  if (!digest.rank) return std::nullopt;
  for (const auto* groups : {&digest.groups, &digest.communicators}) {
    for (const digest::Communicator& group : *groups) {
      if (group.ranks.size() < 2 || GroupKindByName(group.name) != GroupKind::kPipeline) continue;
      const auto found = std::find(group.ranks.begin(), group.ranks.end(), *digest.rank);
      if (found != group.ranks.end())
        return static_cast<std::uint32_t>(found - group.ranks.begin());
    }
  }
  return std::nullopt;
}

}  // namespace strobe::report
