#include "viewer/report/checked_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::viewer {
namespace {

using FieldJson = nlohmann::ordered_json;

constexpr std::size_t kMaxFieldTextBytes = 1000;
constexpr double kMaxFieldNumber = 1e18;

absl::StatusOr<FieldJson> ReadField(const FieldJson& value, const Field& field,
                                    const std::string& place) {
  switch (field.type) {
    case FieldType::kText:
      if (!value.is_string()) return WrongType(place, "a text");
      return FieldJson(CutUtf8(value.get_ref<const std::string&>(),
                               field.most > 0 ? field.most : kMaxFieldTextBytes));
    case FieldType::kNumber:
      if (!value.is_number() || !(std::abs(value.get<double>()) <= kMaxFieldNumber))
        return WrongType(place, "a number up to 1e18");
      return value;
    case FieldType::kFlag:
      if (!value.is_boolean()) return WrongType(place, "true or false");
      return value;
    case FieldType::kObject:
      return ReadFields(value, field.inside, place);
    case FieldType::kList:
      break;
  }
  if (!value.is_array()) return WrongType(place, "a list");
  FieldJson list = FieldJson::array();
  for (std::size_t i = 0; i < std::min(value.size(), field.most); ++i) {
    const FieldJson& entry = value[i];
    // Only numbers may be missing from a list.
    if (entry.is_null() && field.inside[0].type == FieldType::kNumber) {
      list.push_back(nullptr);
      continue;
    }
    ASSIGN_OR_RETURN(FieldJson read, ReadField(entry, field.inside[0], StrCat(place, "[", i, "]")));
    list.push_back(std::move(read));
  }
  return list;
}

}  // namespace

absl::StatusOr<FieldJson> ReadFields(const FieldJson& value, std::span<const Field> fields,
                                     const std::string& place) {
  if (!value.is_object()) return WrongType(place, "an object");
  FieldJson result = FieldJson::object();
  for (const Field& field : fields) {
    FieldJson& to = result[field.name];
    const auto found = value.find(field.name);
    if (found == value.end() || found->is_null()) continue;
    ASSIGN_OR_RETURN(to, ReadField(*found, field, StrCat(place, ".", field.name)));
    if (field.type == FieldType::kList && found->size() > field.most)
      result[StrCat(field.name, "More")] = found->size() - field.most;
  }
  return result;
}

absl::Status WrongType(const std::string& place, std::string_view expected) {
  return absl::InvalidArgumentError(StrCat(place, " is not ", expected));
}

}  // namespace strobe::viewer
