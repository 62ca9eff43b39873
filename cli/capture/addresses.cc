#include "cli/capture/addresses.h"

#include <charconv>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

absl::Status Refuse(std::string_view entry, std::string_view why) {
  return absl::InvalidArgumentError(StrCat("--workers: \"", entry, "\" ", why,
                                           "; write host:port, such as 10.0.0.2:9470 for a sidecar "
                                           "or grpc://10.0.0.2:9012 for a profiler server"));
}

// Letters as the names of targets in the cluster have them.
bool IsRole(std::string_view text) {
  constexpr std::size_t kLongest = 32;
  return !text.empty() && text.size() <= kLongest && text.front() != '-' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos;
}

struct HostPort {
  std::string_view host, port;
};

absl::StatusOr<HostPort> SplitHostPort(std::string_view entry, std::string_view address) {
  if (address.empty()) return Refuse(entry, "is empty");
  if (address.find("://") != std::string_view::npos)
    return Refuse(entry, "has a scheme that is not grpc");
  if (address.find('/') != std::string_view::npos) return Refuse(entry, "has a path");
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return Refuse(entry, "has no port");
  const HostPort parts{address.substr(0, colon), address.substr(colon + 1)};
  if (parts.host.empty()) return Refuse(entry, "has no host");
  const bool bracketed = parts.host.front() == '[' && parts.host.back() == ']';
  if (!bracketed && parts.host.find(':') != std::string_view::npos) {
    return Refuse(entry, "has more than one colon (put an IPv6 address into brackets)");
  }
  unsigned port = 0;
  const auto [end, error] =
      std::from_chars(parts.port.data(), parts.port.data() + parts.port.size(), port);
  if (error != std::errc() || end != parts.port.data() + parts.port.size() || port == 0 ||
      port > 65535) {
    return Refuse(entry, "has a port that is not a number from 1 to 65535");
  }
  return parts;
}

}  // namespace

absl::StatusOr<std::vector<capture::Target>> ParseWorkers(std::string_view list) {
  std::vector<capture::Target> targets;
  std::set<std::string> seen;
  std::map<std::string, int> of_role;
  for (const std::string& part : Split(list, ',')) {
    const std::string entry(ToStd(absl::StripAsciiWhitespace(part)));
    std::string_view address = entry;
    const std::size_t equals = address.find('=');
    const std::string role(address.substr(0, equals == address.npos ? 0 : equals));
    if (equals != address.npos) {
      if (!IsRole(role)) return Refuse(entry, "has a role that is not lower-case letters");
      address.remove_prefix(equals + 1);
    }
    if (!targets.empty() && targets.front().role.empty() != role.empty())
      return Refuse(entry, "has no role while others have one, or the other way around");
    if (address.starts_with("grpc://")) address.remove_prefix(7);
    RETURN_IF_ERROR(SplitHostPort(entry, address).status());
    if (!seen.insert(std::string(address)).second) return Refuse(entry, "is listed twice");
    capture::Target target;
    target.address = std::string(address);
    target.name = target.address;
    target.file = ToSafeName(role.empty() ? std::string(address) : StrCat(role, ".", address));
    target.rank = of_role[role]++;
    target.role = role;
    target.role_from = role.empty() ? "" : "request";
    targets.push_back(std::move(target));
  }
  return targets;
}

}  // namespace strobe::cli
