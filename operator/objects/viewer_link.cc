#include "operator/objects/viewer_link.h"

#include <array>
#include <utility>

#include "absl/strings/str_replace.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::objects {
namespace {

constexpr std::size_t kMaxViewerUrlBytes = 1024;
constexpr std::array<std::string_view, 4> kPlaceholders = {"{run}", "{runUrl}", "{namespace}",
                                                           "{name}"};

}  // namespace

absl::Status CheckViewerUrl(std::string_view text) {
  if (text.empty()) return absl::OkStatus();
  if (!text.starts_with("https://") && !text.starts_with("http://"))
    return absl::InvalidArgumentError("viewer.url must begin with https:// or http://");
  if (text.size() > kMaxViewerUrlBytes)
    return absl::InvalidArgumentError(
        ToAbsl(StrCat("viewer.url must have at most ", kMaxViewerUrlBytes, " characters")));
  std::string rest(text);
  for (const std::string_view placeholder : kPlaceholders)
    rest = absl::StrReplaceAll(rest, {{ToAbsl(placeholder), ""}});
  if (Contains(rest, "{") || Contains(rest, "}"))
    return absl::InvalidArgumentError(
        "viewer.url may have the placeholders {run}, {runUrl}, {namespace} and {name} only");
  return absl::OkStatus();
}

std::string ViewerLink(std::string_view text, std::string_view run_url, std::string_view ns,
                       std::string_view name) {
  if (text.empty() || run_url.empty()) return "";
  const std::string_view run = run_url.substr(run_url.rfind('/') + 1);
  const std::array<std::string_view, 4> values = {run, run_url, ns, name};
  std::vector<std::pair<std::string, std::string>> replacements;
  for (std::size_t i = 0; i < values.size(); ++i)
    replacements.emplace_back(kPlaceholders[i], UrlEncode(values[i]));
  return absl::StrReplaceAll(ToAbsl(text), replacements);
}

}  // namespace strobe::objects
