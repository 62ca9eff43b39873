// What the answers of every server of the viewer have in common.
#pragma once
#include <string>
#include <vector>

#include "common/http/http_server.h"

namespace strobe::viewer {

// Whether browsers may use this name, from a Host header, for the server. `hosts` are the names
// besides localhost and the loopback's addresses.
bool IsAllowedHost(const std::string& host, const std::vector<std::string>& hosts);

// The page may load only what this server serves, and no other site may frame it.
void AddPolicy(http::Page& page);

}  // namespace strobe::viewer
