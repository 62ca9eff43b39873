// Addresses as text. IPv6 addresses have brackets where a port or a path may follow.
#pragma once
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"

namespace strobe {

// Formats a name or an address for use before a port: "fd00::1" becomes "[fd00::1]".
inline std::string HostBeforePort(std::string_view host) {
  const bool ipv6 = host.find(':') != std::string_view::npos;
  return (ipv6 ? "[" : "") + std::string(host) + (ipv6 ? "]" : "");
}

inline std::string_view WithoutBrackets(std::string_view host) {
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

// The host of host:port, without brackets.
inline std::string_view HostOf(std::string_view address) {
  return WithoutBrackets(address.substr(0, address.rfind(':')));
}

// Is this the name of this machine itself: localhost, 127.x.x.x or [::1]? Names are not resolved.
inline bool IsLoopbackHost(std::string_view host) {
  const bool digits = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "[::1]" || (digits && host.starts_with("127."));
}

// Is it host:port with a port from 0 to 65535? Those who open ports take others modulo 65,536.
inline bool IsListenAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  int port = -1;
  return colon != std::string_view::npos &&
         absl::SimpleAtoi(std::string(text.substr(colon + 1)), &port) && port >= 0 && port <= 65535;
}

// Like IsLoopbackHost, for host:port.
inline bool IsLoopback(std::string_view address) {
  return IsLoopbackHost(address.substr(0, address.rfind(':')));
}

}  // namespace strobe
