// Reads /proc/net/tcp and /proc/net/tcp6.
#pragma once
#include <string_view>
#include <vector>

#include "collector/stall/evidence.h"

namespace strobe::stall {

bool LooksLikeSockets(std::string_view text);

// The established connections between machines; those within one cannot be cut.
std::vector<TcpLink> ReadSockets(std::string_view text);

}  // namespace strobe::stall
