// What the answers of every server of the viewer have in common.
#pragma once
#include <string>
#include <vector>

#include "common/http/server.h"

namespace strobe::viewer {

// Whether browsers may use this name, from a Host header, for the server. `hosts` are the names
// besides localhost and the loopback's addresses.
bool IsAllowedHost(const std::string& host, const std::vector<std::string>& hosts);

// The header in which a browser tells which page makes it ask, to be named in ServerOptions.
inline constexpr char kFetchSite[] = "Sec-Fetch-Site";
// Whether a page of another site makes a browser ask for data. It could not read the answer, but
// have much work done here.
bool IsAskedFromElsewhere(const http::Request& request);

// The page may load only what this server serves, and no other site may frame it.
void AddPolicy(http::Page& page);

}  // namespace strobe::viewer
