#include "agent/wire/cgroup_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

namespace strobe::wire {
namespace {

using Path = std::array<char, 1024>;
using Text = std::array<char, 8192>;

// The names of the files in each version of cgroups.
struct Version {
  const char* mount;
  const char* limit;
  const char* used;
  const char* reclaimable;  // The key in memory.stat.
};
constexpr Version kFirst{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file "};
constexpr Version kSecond{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};

// Version 1 reports "no limit" as a very large number of pages.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

// Reads as much of the file as fits into `text`. Empty if it cannot be read.
std::string_view Read(const char* path, Text& text) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd, text.data() + size, text.size() - size);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  close(fd);
  return {text.data(), size};
}

bool ParseNumber(std::string_view text, std::uint64_t& number) {
  return std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
}

// Returns the text behind `key` at the beginning of a line.
std::string_view AfterKey(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(key)) return line.substr(key.size());
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return {};
}

bool ReadNumber(const char* root, const Version& version, std::string_view group, const char* file,
                std::uint64_t& number) {
  Path path;
  Text text;
  std::snprintf(path.data(), path.size(), "%s%s%.*s/%s", root, version.mount,
                static_cast<int>(group.size()), group.data(), file);
  return ParseNumber(Read(path.data(), text), number);
}

void Consider(const char* root, const Version& version, std::string_view group, MemoryUse& worst) {
  MemoryUse here;
  if (!ReadNumber(root, version, group, version.limit, here.limit) || here.limit == 0 ||
      here.limit >= kNoLimit || !ReadNumber(root, version, group, version.used, here.used))
    return;
  Path path;
  Text text;
  std::snprintf(path.data(), path.size(), "%s%s%.*s/memory.stat", root, version.mount,
                static_cast<int>(group.size()), group.data());
  std::uint64_t reclaimable = 0;
  if (ParseNumber(AfterKey(Read(path.data(), text), version.reclaimable), reclaimable))
    here.used -= std::min(here.used, reclaimable);
  if (worst.limit == 0 || here.share() > worst.share()) worst = here;
}

// Considers `group` and all groups above it, because they have limits too. A container may see only
// its own group, mounted at the root instead of at the path that the kernel reports.
void ConsiderAll(const char* root, const Version& version, std::string_view group,
                 MemoryUse& worst) {
  if (group == "/") group = {};
  Consider(root, version, group, worst);
  while (!group.empty()) {
    const std::size_t slash = group.rfind('/');
    group = group.substr(0, slash == std::string_view::npos ? 0 : slash);
    Consider(root, version, group, worst);
  }
}

}  // namespace

MemoryUse ReadMemoryUse(const char* root) {
  MemoryUse worst;
  Path path;
  Text text;
  std::snprintf(path.data(), path.size(), "%s/proc/self/cgroup", root);
  std::string_view groups = Read(path.data(), text);
  while (!groups.empty()) {  // "<number>:<controllers>:<path>"
    std::string_view line = groups.substr(0, groups.find('\n'));
    groups.remove_prefix(std::min(groups.size(), line.size() + 1));
    line.remove_prefix(std::min(line.size(), line.find(':') + 1));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view controllers = line.substr(0, colon);
    const std::string_view group = line.substr(colon + 1);
    if (controllers.empty()) ConsiderAll(root, kSecond, group, worst);
    while (!controllers.empty()) {
      const std::string_view one = controllers.substr(0, controllers.find(','));
      if (one == "memory") ConsiderAll(root, kFirst, group, worst);
      controllers.remove_prefix(std::min(controllers.size(), one.size() + 1));
    }
  }
  return worst;
}

}  // namespace strobe::wire
