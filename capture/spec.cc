#include "capture/spec.h"

#include <algorithm>
#include <charconv>

#include "common/base/strings.h"

namespace strobe::capture {

std::string CaptureId(const Spec& spec, int attempt) { return StrCat(spec.uid, "-", attempt); }

absl::StatusOr<std::size_t> ResolveMinWorkers(std::string_view text, std::size_t matched) {
  const bool percent = text.ends_with('%');
  const std::string_view digits = percent ? text.substr(0, text.size() - 1) : text;
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value == 0 ||
      (percent && value > 100)) {
    return absl::InvalidArgumentError(StrCat(
        "\"", text, "\" is neither a number of at least 1 nor a percentage from 1% to 100%"));
  }
  return percent ? std::max<std::size_t>((matched * value + 99) / 100, 1) : value;
}

}  // namespace strobe::capture
