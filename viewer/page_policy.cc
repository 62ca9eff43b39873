#include "viewer/page_policy.h"

#include <algorithm>

#include "common/text/ip_text.h"

namespace strobe::viewer {

bool IsAllowedHost(const std::string& host, const std::vector<std::string>& hosts) {
  std::string name = host.substr(0, host.find(':'));
  if (host.starts_with('[')) name = host.substr(0, host.find(']') + 1);
  return IsLoopbackHost(name) || std::find(hosts.begin(), hosts.end(), name) != hosts.end();
}

bool IsAskedFromElsewhere(const http::Request& request) {
  if (!request.path.starts_with("/api/") && !request.path.starts_with("/data/")) return false;
  return std::any_of(request.headers.begin(), request.headers.end(), [](const auto& header) {
    const auto& [name, value] = header;
    // Without the header it is no browser, or an old one; "none" is an address that was typed in.
    return name == kFetchSite && value != "same-origin" && value != "none";
  });
}

void AddPolicy(http::Page& page) {
  page.headers.emplace_back("Content-Security-Policy",
                            "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
                            "'self' blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; "
                            "form-action 'none'; frame-ancestors 'none'");
  page.headers.emplace_back("X-Content-Type-Options", "nosniff");
  page.headers.emplace_back("Referrer-Policy", "no-referrer");
  page.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
}

}  // namespace strobe::viewer
