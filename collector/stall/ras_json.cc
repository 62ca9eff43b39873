#include "collector/stall/ras_json.h"

#include <algorithm>
#include <limits>

#include "common/base/strings.h"
#include "common/text/json_reader.h"

namespace strobe::stall {
namespace {

using RasJson = nlohmann::json;

std::int64_t IntOf(const RasJson& object, const char* key, std::int64_t otherwise = 0) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                             : otherwise;
}

int SmallInt(const RasJson& object, const char* key) {
  return static_cast<int>(
      std::clamp<std::int64_t>(IntOf(object, key), -1, std::numeric_limits<std::int32_t>::max()));
}

std::string StringOf(const RasJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// An empty object in place of a member that is missing or of another kind.
const RasJson& ObjectOf(const RasJson& object, const char* key) {
  static const RasJson kNothing = RasJson::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : kNothing;
}

RasRank RankOfJson(const RasJson& json) {
  const RasJson& status = ObjectOf(json, "status");
  RasRank rank{.rank = SmallInt(json, "rank"),
               .host = StringOf(json, "host"),
               .pid = IntOf(json, "pid", -1),
               .gpu = StrCat(IntOf(json, "cuda_dev", -1)),
               .init_state = IntOf(status, "init_state"),
               .async_error = IntOf(status, "async_error")};
  for (const auto& [op, count] : ObjectOf(json, "collective_counts").items()) {
    if (count.is_number_integer()) rank.counts.push_back({op, count.get<std::int64_t>()});
  }
  return rank;
}

RasMissing MissingOfJson(const RasJson& json) {
  const RasJson& status = ObjectOf(json, "status");
  const auto dead = status.find("considered_dead");
  return {.rank = SmallInt(json, "rank"),
          .host = StringOf(json, "host"),
          .pid = IntOf(json, "pid", -1),
          .dead = dead != status.end() && dead->is_boolean() && dead->get<bool>()};
}

// "0xae94423cfbb2ef4a" as the text writes it, with 16 digits.
std::string HashOf(std::string hash) {
  if (hash.starts_with("0x")) hash.erase(0, 2);
  return std::string(hash.size() < 16 ? 16 - hash.size() : 0, '0') + hash;
}

RasCommunicator CommunicatorOfJson(const RasJson& json) {
  RasCommunicator made{.hash = HashOf(StringOf(json, "hash")), .size = SmallInt(json, "size")};
  if (const auto ranks = json.find("ranks"); ranks != json.end() && ranks->is_array()) {
    for (const RasJson& rank : *ranks) {
      if (rank.is_object()) made.ranks.push_back(RankOfJson(rank));
    }
  }
  if (const auto ranks = json.find("missing_ranks"); ranks != json.end() && ranks->is_array()) {
    for (const RasJson& rank : *ranks) {
      if (rank.is_object()) made.missing.push_back(MissingOfJson(rank));
    }
  }
  return made;
}

}  // namespace

std::string WithCommas(std::string_view text) {
  constexpr std::string_view kKey = "\"nvml_dev\": ";
  std::string whole;
  whole.reserve(text.size() + 64);
  std::size_t done = 0;
  for (std::size_t at = text.find(kKey); at != std::string_view::npos; at = text.find(kKey, done)) {
    const std::size_t number = at + kKey.size();
    const std::size_t end = std::min(text.find_first_not_of("-0123456789", number), text.size());
    const std::size_t next = std::min(text.find_first_not_of(" \r\n", end), text.size());
    whole += text.substr(done, end - done);
    if (next > end && text.substr(next).starts_with("\"status\"")) whole += ',';
    done = end;
  }
  whole += text.substr(done);
  return whole;
}

absl::StatusOr<RasReport> ReadRasJson(std::string_view text) {
  RasJson json = ReadJson(text, {.max_depth = 8});
  if (json.is_discarded()) json = ReadJson(WithCommas(text), {.max_depth = 8});
  if (json.is_discarded())
    return absl::DataLossError("RAS's answer is not JSON, or was cut off; ask RAS again");
  if (!json.is_object() || !json.contains("nccl_version") || !json.contains("communicators"))
    return absl::DataLossError("the JSON is not an answer of NCCL's RAS to STATUS");
  RasReport report{.nccl_version = StringOf(json, "nccl_version"),
                   .timestamp = StringOf(json, "timestamp"),
                   .whole = true,
                   .timeouts = SmallInt(ObjectOf(json, "ras"), "timeouts_count")};
  if (!json["communicators"].is_array())
    return absl::DataLossError("communicators of RAS's answer is not a list");
  for (const RasJson& communicator : json["communicators"]) {
    if (communicator.is_object()) report.communicators.push_back(CommunicatorOfJson(communicator));
  }
  return report;
}

}  // namespace strobe::stall
