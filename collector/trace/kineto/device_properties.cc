#include "collector/trace/kineto/device_properties.h"

#include <simdjson.h>

#include <array>

#include "collector/trace/kineto/stats.h"
#include "collector/trace/xplane/wire.h"
#include "common/text/utf8.h"

namespace strobe::kineto {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNames = {{
    {"name", "gpu_device_name"},
    {"totalGlobalMem", "memory_size"},
    {"computeMajor", "compute_cap_major"},
    {"computeMinor", "compute_cap_minor"},
    {"numSms", "core_count"},
}};

// Reads a text or an integer as text.
bool ReadText(ondemand::value value, std::string& text) {
  std::string_view string;
  if (value.get_string().get(string) == simdjson::SUCCESS) {
    text = string;
    return true;
  }
  std::int64_t integer = 0;
  if (value.get_int64().get(integer) != simdjson::SUCCESS) return false;
  text = std::to_string(integer);
  return true;
}

}  // namespace

std::map<std::string, std::vector<std::pair<std::string, std::string>>> ReadDeviceProperties(
    std::string_view json) {
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> devices;
  const simdjson::padded_string padded(json);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::array array;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_array().get(array) != simdjson::SUCCESS)
    return devices;
  for (auto element : array) {
    ondemand::object object;
    if (element.get_object().get(object) != simdjson::SUCCESS) break;
    std::string id;
    std::vector<std::pair<std::string, std::string>> stats;
    for (auto result : object) {
      ondemand::field field;
      std::string_view key;
      std::string text;
      if (std::move(result).get(field) != simdjson::SUCCESS ||
          field.unescaped_key().get(key) != simdjson::SUCCESS)
        return devices;
      const std::string name(key);
      if (!ReadText(field.value(), text)) continue;
      if (name == "id") id = text;
      for (const auto& [ours, theirs] : kNames) {
        if (name == ours) stats.emplace_back(theirs, text);
      }
    }
    if (!id.empty()) devices[id] = std::move(stats);
  }
  return devices;
}

void AppendPlaneStat(std::string_view name, std::string_view value, PlaneNames& names,
                     std::string& to) {
  constexpr std::uint32_t kStats = 6, kInt64 = 4, kText = 5;
  std::string stat;
  wire::AppendVarintField(1, static_cast<std::uint64_t>(names.StatId(name)), stat);
  if (const auto integer = IntegerOf({JsonValue::Kind::kScalar, value}))
    wire::AppendVarintField(kInt64, static_cast<std::uint64_t>(*integer), stat);
  else
    wire::AppendBytesField(kText, CutUtf8(value, std::string::npos), stat);
  wire::AppendBytesField(kStats, stat, to);
}

}  // namespace strobe::kineto
