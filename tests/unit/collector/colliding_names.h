// A trace whose ids were chosen so that std::unordered_map puts all of them into one bucket.
#pragma once
#include <cstdint>
#include <string>

#include "collector/trace/xplane/wire.h"

namespace strobe {

// With 170,000 keys, libstdc++ has this many buckets. Adding the keys takes it a minute.
inline constexpr std::int64_t kCollidingIds = 170'000, kCollidingBuckets = 172'933;

// A line with an event of each name; the event has a stat with the same id and number.
inline std::string CollidingNames() {
  std::string plane, line, space;
  wire::AppendBytesField(2, "/host:CPU", plane);
  for (std::int64_t i = 1; i <= kCollidingIds; ++i) {
    const auto id = static_cast<std::uint64_t>(i * kCollidingBuckets);
    std::string name, entry, stat, event;
    wire::AppendBytesField(2, std::to_string(i), name);
    wire::AppendVarintField(1, id, entry);
    wire::AppendBytesField(2, name, entry);
    wire::AppendBytesField(4, entry, plane);
    wire::AppendBytesField(5, entry, plane);
    wire::AppendVarintField(1, id, stat);
    wire::AppendVarintField(4, static_cast<std::uint64_t>(i), stat);
    wire::AppendVarintField(1, id, event);
    wire::AppendVarintField(2, static_cast<std::uint64_t>(i) * 1000, event);
    wire::AppendVarintField(3, 500, event);
    wire::AppendBytesField(4, stat, event);
    wire::AppendBytesField(4, event, line);
  }
  wire::AppendBytesField(3, line, plane);
  wire::AppendBytesField(1, plane, space);
  return space;
}

}  // namespace strobe
