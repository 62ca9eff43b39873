#include "viewer/run/pools.h"

#include <unordered_map>

#include "common/base/strings.h"

namespace strobe::viewer {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kSeparators = "/-_:#. ";

}  // namespace

std::string PoolOf(std::string_view thread) {
  std::string_view name = thread, behind;
  // Python appends what a thread runs: "Thread-2 (serve)".
  if (const std::size_t open = name.rfind(" (");
      name.ends_with(')') && open != std::string_view::npos) {
    behind = name.substr(open);
    name = name.substr(0, open);
  }
  const std::size_t last = name.find_last_not_of(kDigits);
  if (last == std::string_view::npos || last + 1 == name.size()) return std::string(thread);
  // A number is a part of the name unless something separates them, as in "v4".
  if (kSeparators.find(name[last]) == std::string_view::npos) return std::string(thread);
  name = name.substr(0, last);
  // Ids may be negative, as in "tf_XLAEigen/-7".
  if (name.ends_with('/') && thread[last] == '-') name.remove_suffix(1);
  return name.empty() ? std::string(thread) : StrCat(name, behind);
}

std::vector<std::string> FindPools(const std::vector<std::string_view>& threads) {
  std::vector<std::string> pools;
  std::unordered_map<std::string, std::size_t> sizes;
  for (const std::string_view thread : threads) {
    pools.push_back(PoolOf(thread));
    ++sizes[pools.back()];
  }
  for (std::string& pool : pools) {
    if (sizes[pool] < 2) pool.clear();
  }
  return pools;
}

}  // namespace strobe::viewer
