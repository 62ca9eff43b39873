#include "agent/cupti/other_profilers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::agent {
namespace {

// Returns the inodes of all sockets of this network namespace that listen on one of the ports.
std::vector<unsigned long> ListeningSockets(std::span<const std::uint16_t> ports) {
  constexpr unsigned kListening = 0x0a;
  std::vector<unsigned long> inodes;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::FILE* file = std::fopen(table, "re");
    if (file == nullptr) continue;
    char line[512];
    while (std::fgets(line, sizeof line, file) != nullptr) {
      unsigned port = 0, state = 0;
      unsigned long inode = 0;
      // A line of /proc/self/net/tcp: index, local address:port, remote address:port, state, five
      // further fields, inode.
      // "0: 0100007F:2334 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 ..."
      if (std::sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
                      &port, &state, &inode) != 3)
        continue;
      if (state == kListening && std::find(ports.begin(), ports.end(), port) != ports.end())
        inodes.push_back(inode);
    }
    std::fclose(file);
  }
  return inodes;
}

}  // namespace

bool KinetoIsLoaded() {
  bool found = false;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const std::string_view name = path.substr(path.rfind('/') + 1);
        if (!name.starts_with("libtorch_cpu.so") && !name.starts_with("libkineto")) return 0;
        *static_cast<bool*>(to) = true;
        return 1;
      },
      &found);
  return found;
}

bool ListensOn(std::span<const std::uint16_t> ports) {
  if (ports.empty()) return false;
  const std::vector<unsigned long> inodes = ListeningSockets(ports);
  if (inodes.empty()) return false;
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return false;
  bool ours = false;
  while (const dirent* entry = readdir(directory)) {
    char target[64];
    const ssize_t size = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
    if (size <= 0) continue;
    target[size] = '\0';
    unsigned long inode = 0;
    if (std::sscanf(target, "socket:[%lu]", &inode) == 1)
      ours = ours || std::find(inodes.begin(), inodes.end(), inode) != inodes.end();
  }
  closedir(directory);
  return ours;
}

}  // namespace strobe::agent
