#include "collector/store/prefetch.h"

#include <gtest/gtest.h>

#include <array>

#include "collector/store/upload.h"
#include "tests/fakes/memory_store.h"

namespace strobe::storage {
namespace {

TEST(PrefetchedBytes, ReadsTheSameInAnyOrder) {
  MemoryBucket bucket;
  MemoryStore store(bucket);
  std::string bytes(3 * PrefetchedBytes::kBlock + 5, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 1021);
  ASSERT_TRUE(PutText(store, "k", bytes).ok());
  const std::array<std::string_view, 1> pieces = {bytes};
  EXPECT_EQ(*HashBytes(PrefetchedBytes(store, "k", bytes.size())), *HashBytes(MemoryBytes(pieces)));
  EXPECT_EQ(bucket.Count("read"), 4u) << "each block once";

  const PrefetchedBytes prefetched(store, "k", bytes.size());
  for (const std::size_t offset : {20u << 20, 0u, 24u << 20, 7u}) {
    std::string some(1000, '?');
    some.resize(std::min(some.size(), bytes.size() - offset));
    ASSERT_TRUE(prefetched.Read(offset, some).ok());
    EXPECT_EQ(some, bytes.substr(offset, some.size()));
  }
}

TEST(PrefetchedBytes, SaysThatTheObjectShrank) {
  MemoryBucket bucket;
  MemoryStore store(bucket);
  ASSERT_TRUE(PutText(store, "k", "short").ok());
  std::string some(10, '?');
  EXPECT_TRUE(absl::IsDataLoss(PrefetchedBytes(store, "k", 10).Read(0, some)));
}

}  // namespace
}  // namespace strobe::storage
