// The ports of a worker's profiler servers, as programs are told them. A program that listens on
// one of them leaves its devices to that server.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/wire/layout.h"

namespace strobe::source {

// In the layout of FileHeader::framework_ports.
using FrameworkPorts = std::array<std::uint64_t, 2>;

// `servers` are addresses, host:port. Ports beyond the capacity are left out; CUPTI then tells in
// their programs that it has a subscriber already.
FrameworkPorts PortsOf(const std::vector<std::string>& servers);

// Writes the ports and lets a program whose devices are recorded look whether it listens on one.
void TellFrameworkPorts(const FrameworkPorts& ports, wire::FileHeader& header);

}  // namespace strobe::source
