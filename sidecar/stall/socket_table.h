// The connections of the pod, as the kernel lists them in /proc/net/tcp and tcp6.
#pragma once
#include <string>
#include <string_view>

namespace strobe::stall {

// Keeps the lines that collector/stall/sockets.h reads: one for each pair of addresses that an
// established connection to another machine joins, rather one that retransmits. Pure.
std::string ShortSocketTable(std::string_view table);

// That of the sidecar's network namespace, which is the pod's. Empty if it cannot be read.
std::string ReadSocketTable();

}  // namespace strobe::stall
