// Takes fields that are known out of JSON that nobody vouches for: of the right types and in
// bounded numbers. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe::viewer {

enum class FieldType : std::uint8_t { kText, kNumber, kFlag, kObject, kList };

inline constexpr FieldType kText = FieldType::kText, kFlag = FieldType::kFlag,
                           kObject = FieldType::kObject, kList = FieldType::kList;

// A field that the page shows.
struct Field {
  const char* name = "";  // Empty: the entry of a list.
  FieldType type = FieldType::kNumber;
  // For an object, its fields; for a list, one Field that describes every entry.
  std::span<const Field> inside{};
  std::size_t most = 0;  // Entries of a list that are kept; bytes of a text, if not 1,000.
};

// Each of the fields, null where `value` lacks it. A list that was cut has its rest counted beside
// it, such as "opsMore" beside "ops". InvalidArgument names the place of the first value of a wrong
// type; `place` is that of `value`.
absl::StatusOr<nlohmann::ordered_json> ReadFields(const nlohmann::ordered_json& value,
                                                  std::span<const Field> fields,
                                                  const std::string& place);

absl::Status WrongType(const std::string& place, std::string_view expected);

}  // namespace strobe::viewer
