#include "operator/admission/annotation_values.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>

#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/protocol/trainer_changes.h"
#include "common/text/quantity.h"
#include "operator/base/sidecar_user.h"

namespace strobe::admission {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Removes the leading digits from the text and returns them.
std::string_view TakeDigits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsDigit);
  const std::string_view digits(text.data(), static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

bool AnyNonZero(std::string_view digits) {
  return std::any_of(digits.begin(), digits.end(), [](char c) { return c != '0'; });
}

struct Size {
  std::string_view digits;
  char unit = '\0';  // In upper case; NUL for bytes.
};

bool ParseSize(std::string_view text, Size& size) {
  size.digits = TakeDigits(text);
  std::string unit(text);
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  if (!unit.empty() && std::string_view("KMGT").find(unit.front()) != std::string_view::npos) {
    size.unit = unit.front();
    const std::string_view rest = std::string_view(unit).substr(1);
    if (rest != "" && rest != "B" && rest != "I" && rest != "IB") return false;
  } else if (unit != "" && unit != "B") {
    return false;
  }
  // Limits the digits so that the number of bytes fits into 64 bits.
  const std::size_t longest = size.unit == '\0' ? 18 : 7;
  return AnyNonZero(size.digits) && size.digits.size() <= longest;
}

}  // namespace

bool IsPort(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0 && port < 65536;
}

bool IsPorts(std::string_view text) {
  const std::vector<std::string> parts = Split(text, ',');
  return std::all_of(parts.begin(), parts.end(), [](const std::string& p) { return IsPort(p); });
}

bool IsZero(std::string_view text) { return ParseQuantity(text) == 0.0; }
bool IsCpu(std::string_view text) { return ParseQuantity(text).value_or(0) >= kMinCpu; }
bool IsSidecarMemory(std::string_view text) {
  return ParseQuantity(text).value_or(0) >= kMinSidecarMemory;
}
bool IsAgentMemory(std::string_view text) { return IsSidecarMemory(text); }

bool IsBytes(std::string_view text) { return ParseBytes(text).has_value(); }

bool IsUser(std::string_view text) {
  const std::vector<std::string> ids = Split(text, ':');
  return ids.size() <= 2 && std::all_of(ids.begin(), ids.end(), [](std::string_view id) {
           std::int64_t number = 0;
           const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
           return error == std::errc() && end == id.data() + id.size() && kube::IsSidecarId(number);
         });
}

bool IsTrainerChangeList(std::string_view text) {
  const std::vector<std::string> names = Split(text, ',');
  return text == "none" || std::all_of(names.begin(), names.end(), [](const std::string& name) {
           return IsTrainerChange(name);
         });
}

bool IsUploadRate(std::string_view text) {
  Size size;
  return ParseSize(text, size) && (size.unit == 'M' || size.unit == 'G' || size.unit == 'T');
}

bool IsLookBack(std::string_view text) {
  const absl::StatusOr<Nanos> duration = ParseDuration(text);
  return duration.ok() && *duration <= std::chrono::minutes(10);
}

bool IsCollectives(std::string_view text) { return text == "calls" || text == "times"; }

bool IsKinetoDuration(std::string_view text) {
  return IsLookBack(text) && *ParseDuration(text) >= std::chrono::milliseconds(1);
}

}  // namespace strobe::admission
