#include "viewer/service/asker.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::viewer {
namespace {

constexpr std::string_view kReserved = "system:";

bool IsReserved(std::string_view name) { return name.starts_with(kReserved); }

std::string_view Stripped(std::string_view text) {
  return ToStd(absl::StripAsciiWhitespace(ToAbsl(text)));
}

// The header's value; empty if it was not sent.
absl::StatusOr<std::string_view> OnlyValue(const http::Request& request, const std::string& name) {
  std::string_view value;
  bool found = false;
  for (const auto& [sent, text] : request.headers) {
    if (sent != name) continue;
    if (found)
      return absl::InvalidArgumentError(StrCat("the header ", name, " was sent more than once"));
    found = true;
    value = text;
  }
  return Stripped(value);
}

absl::Status CheckName(std::string_view name, const std::string& header, std::size_t longest) {
  if (name.size() > longest)
    return absl::OutOfRangeError(StrCat("a name in the header ", header, " is too long"));
  const bool control = std::any_of(name.begin(), name.end(),
                                   [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; });
  if (control || !IsUtf8(name))
    return absl::InvalidArgumentError(
        StrCat("the header ", header, " contains characters that are not allowed in names"));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadGroups(std::string_view text,
                                                    const IdentityHeaders& names) {
  std::vector<std::string> groups;
  if (text.empty()) return groups;
  if (text.size() > kMaxGroupsHeaderBytes)
    return absl::OutOfRangeError(StrCat("the header ", names.groups, " is too long"));
  for (const std::string& part : Split(text, ',')) {
    const std::string_view group = Stripped(part);
    if (group.empty()) continue;
    RETURN_IF_ERROR(CheckName(group, names.groups, kMaxGroupBytes));
    if (!IsReserved(group)) groups.push_back(StrCat(names.groups_prefix, group));
    if (groups.size() > kMaxGroups)
      return absl::OutOfRangeError(
          StrCat("the header ", names.groups, " contains too many groups"));
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

}  // namespace

absl::StatusOr<Asker> ReadAsker(const http::Request& request, const IdentityHeaders& names) {
  ASSIGN_OR_RETURN(const std::string_view user, OnlyValue(request, names.user));
  if (user.empty())
    return absl::UnauthenticatedError(
        StrCat("nobody is logged in: the request has no header ", names.user,
               "; open the address of the authenticating proxy instead"));
  RETURN_IF_ERROR(CheckName(user, names.user, kMaxUserBytes));
  if (Contains(user, ","))
    return absl::InvalidArgumentError(
        StrCat("the header ", names.user, " contains a comma, so it may name two users"));
  if (IsReserved(user))
    return absl::PermissionDeniedError(
        StrCat("users whose names begin with ", kReserved, " belong to Kubernetes"));
  ASSIGN_OR_RETURN(const std::string_view groups, OnlyValue(request, names.groups));
  Asker asker{.user = StrCat(names.user_prefix, user)};
  ASSIGN_OR_RETURN(asker.groups, ReadGroups(groups, names));
  return asker;
}

}  // namespace strobe::viewer
