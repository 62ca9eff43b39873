#include "sidecar/stall/socket_table.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "collector/stall/sockets.h"

namespace strobe::stall {
namespace {

constexpr std::size_t kMaxPairs = 4096, kMaxTable = std::size_t{16} << 20;

}  // namespace

std::string ShortSocketTable(std::string_view table) {
  std::string_view heading;
  struct Line {
    std::string_view text;
    bool retransmits = false;
  };
  std::map<std::pair<std::string, std::string>, Line> lines;  // By local and remote address.
  while (!table.empty()) {
    const std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(line.size() + 1, table.size()));
    if (LooksLikeSockets(line)) {
      heading = line;
      continue;
    }
    for (const TcpLink& link : ReadSockets(line)) {
      if (lines.size() == kMaxPairs && !lines.contains({link.local, link.remote})) continue;
      Line& kept = lines[{link.local, link.remote}];
      if (kept.text.empty() || (link.retransmits && !kept.retransmits))
        kept = {.text = line, .retransmits = link.retransmits};
    }
  }
  if (heading.empty()) return "";
  std::string text(heading);
  text += '\n';
  for (const auto& [pair, line] : lines) {
    text += line.text;
    text += '\n';
  }
  return text;
}

std::string ReadSocketTable() {
  std::string table;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    std::string text(std::istreambuf_iterator<char>(file), {});
    if (table.size() + text.size() <= kMaxTable) table += text;
  }
  return ShortSocketTable(table);
}

}  // namespace strobe::stall
