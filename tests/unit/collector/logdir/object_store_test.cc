#include "collector/logdir/object_store.h"

#include <gmock/gmock.h>

#include "tests/fakes/memory_store.h"

namespace strobe {
namespace {

TEST(GetText, ReadsTextsOfAnySizeWithinTheLimit) {
  MemoryBucket bucket;
  MemoryStore store(bucket);
  for (const std::size_t size : {0u, 1u, 1u << 20, (1u << 20) + 1, 3u << 20}) {
    const std::string text(size, 'x');
    ASSERT_TRUE(PutText(store, "k", text).ok());
    EXPECT_EQ(*GetText(store, "k", 4 << 20), text);
  }
  EXPECT_TRUE(absl::IsOutOfRange(GetText(store, "k", 1000).status()));
  EXPECT_TRUE(absl::IsNotFound(GetText(store, "none", 1000).status()));
}

TEST(DeleteBelow, TakesWhatLiesThereAndNothingElse) {
  MemoryBucket bucket;
  MemoryStore store(bucket);
  for (const char* key : {"a/1", "a/b/2", "ab/3"}) ASSERT_TRUE(PutText(store, key, "x").ok());
  EXPECT_EQ(*DeleteBelow(store, "a/"), 2u);
  EXPECT_EQ(*DeleteBelow(store, "a/"), 0u);
  EXPECT_EQ(ListAll(store, "")->size(), 1u);
}

}  // namespace
}  // namespace strobe
