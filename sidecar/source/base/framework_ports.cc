#include "sidecar/source/base/framework_ports.h"

#include <cstddef>
#include <cstdlib>

namespace strobe::source {

FrameworkPorts PortsOf(const std::vector<std::string>& servers) {
  constexpr std::size_t kPortsPerWord = 4;
  FrameworkPorts words{};
  std::size_t count = 0;
  for (const std::string& server : servers) {
    const std::string digits = server.substr(server.rfind(':') + 1);
    const std::uint64_t port = std::strtoull(digits.c_str(), nullptr, 10) & 0xffff;
    if (port == 0 || count == words.size() * kPortsPerWord) continue;
    words[count / kPortsPerWord] |= port << 16 * (count % kPortsPerWord);
    ++count;
  }
  return words;
}

void TellFrameworkPorts(const FrameworkPorts& ports, wire::FileHeader& header) {
  for (std::size_t i = 0; i < ports.size(); ++i)
    header.framework_ports[i].store(ports[i], std::memory_order_relaxed);
  header.framework_ports_reported.fetch_add(1, std::memory_order_release);
}

}  // namespace strobe::source
