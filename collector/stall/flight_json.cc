#include "collector/stall/flight_json.h"

#include <algorithm>
#include <limits>

#include "collector/stall/flight_builder.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json_reader.h"

namespace strobe::stall {
namespace {

using Json = nlohmann::json;

// The deepest is the size of an input: root, entries, entry, input_sizes, size.
constexpr std::size_t kMaxJsonDepth = 8;

DumpValue ValueOf(const Json& json) {
  if (json.is_boolean()) return DumpValue::Bool(json.get<bool>());
  if (json.is_number_unsigned()) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    return DumpValue::Number(static_cast<std::int64_t>(std::min(json.get<std::uint64_t>(), kMost)));
  }
  if (json.is_number_integer()) return DumpValue::Number(json.get<std::int64_t>());
  if (json.is_string()) return DumpValue::Text(json.get_ref<const std::string&>());
  if (json.is_array()) {
    DumpValue list = DumpValue::Empty(DumpValue::Kind::kList);
    for (const Json& item : json) list.items.push_back(ValueOf(item));
    return list;
  }
  if (!json.is_object()) return DumpValue::None();  // Also the durations, which nobody needs.
  DumpValue dict = DumpValue::Empty(DumpValue::Kind::kDict);
  for (const auto& [key, value] : json.items()) {
    dict.items.push_back(DumpValue::Text(key));
    dict.items.push_back(ValueOf(value));
  }
  return dict;
}

}  // namespace

absl::StatusOr<FlightRecord> ReadFlightJson(std::string_view text) {
  if (text.size() > kMaxJsonBytes)
    return absl::DataLossError(StrCat("the dump has more than ", kMaxJsonBytes, " bytes"));
  Json json = ReadJson(text, {.max_depth = kMaxJsonDepth});
  if (json.is_discarded()) return absl::DataLossError("the dump is not JSON");
  if (!json.is_object()) return absl::DataLossError("the dump is not a JSON object");
  FlightBuilder builder;
  if (const auto entries = json.find("entries"); entries != json.end()) {
    for (const Json& entry : *entries) {
      const DumpValue value = ValueOf(entry);
      if (!FlightBuilder::IsEntry(value))
        return absl::DataLossError("an entry has no process_group or no collective_seq_id");
      RETURN_IF_ERROR(builder.AddEntry(value));
    }
    json.erase(entries);
  }
  return builder.Finish(ValueOf(json));
}

}  // namespace strobe::stall
