#include "collector/trace/digest/process_groups.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "collector/trace/digest/collectives.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"

namespace strobe::digest {
namespace {

constexpr std::size_t kMaxInfoBytes = 1 << 20, kMaxProcessGroups = 1024, kMaxGroupRanks = 65536;
constexpr std::size_t kInfoDepth = 4;  // An object, its list, a group, and its ranks.

std::optional<std::uint32_t> NumberOf(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

std::string TextIn(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The ranks of a group; empty if one of them is no rank.
std::vector<std::uint32_t> RanksIn(const nlohmann::json& group) {
  const auto found = group.find("ranks");
  if (found == group.end() || !found->is_array() || found->size() > kMaxGroupRanks) return {};
  std::vector<std::uint32_t> ranks;
  for (const nlohmann::json& entry : *found) {
    const std::optional<std::uint32_t> rank = NumberOf(entry);
    if (!rank) return {};
    ranks.push_back(*rank);
  }
  return ranks;
}

}  // namespace

std::string CommunicatorName(std::string_view name, std::string_view description) {
  std::string full(name);
  if (!description.empty() && description != "undefined")
    full += StrCat(full.empty() ? "" : " ", description);
  return CutUtf8(full, Names::kMaxBytes);
}

std::vector<Communicator> ProcessGroups(std::string_view distributed_info) {
  std::vector<Communicator> groups;
  if (distributed_info.size() > kMaxInfoBytes) return groups;
  const auto json = ReadJson<nlohmann::json>(distributed_info, {.max_depth = kInfoDepth});
  if (!json.is_object()) return groups;
  const auto list = json.find("pg_config");
  if (list == json.end() || !list->is_array()) return groups;
  for (const nlohmann::json& entry : *list) {
    if (groups.size() == kMaxProcessGroups) break;
    if (!entry.is_object()) continue;
    Communicator group{.name = CommunicatorName(TextIn(entry, "pg_name"), TextIn(entry, "pg_desc")),
                       .ranks = RanksIn(entry)};
    const auto size = entry.find("pg_size");
    if (size != entry.end()) group.size = NumberOf(*size).value_or(0);
    if (group.size == 0) group.size = static_cast<std::uint32_t>(group.ranks.size());
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace strobe::digest
