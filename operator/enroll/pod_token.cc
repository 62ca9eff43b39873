#include "operator/enroll/pod_token.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"
#include "common/base/strings.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

// The API server's clock may differ from this one.
constexpr Nanos kLeeway = std::chrono::minutes(5);

bool Names(const Json& audiences, std::string_view audience) {
  if (!audiences.is_array()) return audiences == audience;
  return std::find(audiences.begin(), audiences.end(), audience) != audiences.end();
}

}  // namespace

bool MayBeAccepted(std::string_view token, std::string_view audience, WallTime now) {
  const std::size_t first = token.find('.');
  const std::size_t second = first == token.npos ? token.npos : token.find('.', first + 1);
  if (second == token.npos || token.find('.', second + 1) != token.npos) return false;
  std::string payload;
  if (!absl::WebSafeBase64Unescape(ToAbsl(token.substr(first + 1, second - first - 1)), &payload))
    return false;
  const Json claims = Json::parse(payload, nullptr, /*allow_exceptions=*/false);
  if (!claims.is_object() || !Names(claims.value("aud", Json()), audience)) return false;
  const Json expires = claims.value("exp", Json());
  const auto earliest = std::chrono::duration<double>((now - kLeeway).time_since_epoch());
  return expires.is_number() && expires.get<double>() > earliest.count();
}

}  // namespace strobe::kube
