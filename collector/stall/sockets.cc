#include "collector/stall/sockets.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include "collector/stall/text_pieces.h"

namespace strobe::stall {
namespace {

constexpr std::size_t kMaxLinks = 100'000;

template <typename Number>
std::optional<Number> FromHex(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "0A004D0A:A871" is 10.77.0.10: words of four bytes in the order of this machine. IPv4 addresses
// in IPv6's form become IPv4 ones. Empty if it is no address.
std::string AddressOf(std::string_view text) {
  text = text.substr(0, text.find(':'));
  if (text.size() != 8 && text.size() != 32) return "";
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i * 8 < text.size(); ++i) {
    const std::optional<std::uint32_t> word = FromHex<std::uint32_t>(text.substr(i * 8, 8));
    if (!word) return "";
    words[i] = *word;
  }
  const bool mapped =
      text.size() == 32 && words[0] == 0 && words[1] == 0 && words[2] == htonl(0xffff);
  const bool v4 = text.size() == 8 || mapped;
  std::array<char, INET6_ADDRSTRLEN> out{};
  const void* from = mapped ? &words[3] : words.data();
  if (inet_ntop(v4 ? AF_INET : AF_INET6, from, out.data(), out.size()) == nullptr) return "";
  return out.data();
}

std::array<std::string_view, 7> Fields(std::string_view line) {
  std::array<std::string_view, 7> fields;
  for (std::string_view& field : fields) field = TakeWord(line);
  return fields;
}

bool IsOwn(std::string_view address) {
  return address.empty() || address.starts_with("127.") || address == "::1";
}

}  // namespace

bool LooksLikeSockets(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  return line.find("local_address") != std::string_view::npos &&
         line.find("retrnsmt") != std::string_view::npos;
}

std::vector<TcpLink> ReadSockets(std::string_view text) {
  constexpr std::string_view kEstablished = "01", kRetransmitTimer = "01:";
  std::vector<TcpLink> links;
  while (!text.empty() && links.size() < kMaxLinks) {
    // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt
    const auto [number, local, remote, state, queues, timer, retransmits] = Fields(TakeLine(text));
    if (state != kEstablished) continue;
    TcpLink link{.local = AddressOf(local), .remote = AddressOf(remote)};
    if (IsOwn(link.local) || IsOwn(link.remote) || link.local == link.remote) continue;
    link.retransmits =
        timer.starts_with(kRetransmitTimer) && FromHex<std::uint32_t>(retransmits).value_or(0) > 0;
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace strobe::stall
