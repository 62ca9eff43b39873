#include "collector/store/stored_memory.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/fakes/memory_store.h"

namespace strobe::storage {
namespace {

constexpr std::size_t kBlock = 64 << 10;

class StoredMemoryTest : public testing::Test {
 protected:
  StoredMemoryTest() {
    for (std::size_t i = 0; i < 20 * kBlock + 3; ++i)
      text_ += static_cast<char>(i * 31 >> 4 ^ i / kBlock);
    EXPECT_TRUE(PutText(*store_, "w", text_).ok());
  }
  StoredMemory Map() { return *MapObject(store_, "w", pool_); }

  std::string text_;
  MemoryBucket bucket_;
  std::atomic<bool> fails_ = false;
  std::shared_ptr<ObjectStore> store_ = std::make_shared<MemoryStore>(bucket_);
  std::shared_ptr<FetchPool> pool_ =
      *FetchPool::Create({.block = kBlock, .blocks = 8, .threads = 2, .ahead = 1});
};

TEST_F(StoredMemoryTest, ReadsWhatTheStoreHasAndOnlyThat) {
  const StoredMemory object = Map();
  EXPECT_EQ(bucket_.Count("read"), 0u);
  EXPECT_EQ(object.memory.bytes().substr(9 * kBlock, 100), text_.substr(9 * kBlock, 100));
  EXPECT_EQ(bucket_.Count("read"), 1u);
  EXPECT_EQ(object.memory.bytes(), text_);
  EXPECT_EQ(object.version, "v1");
}

TEST_F(StoredMemoryTest, TellsThatTheObjectWasReplaced) {
  const StoredMemory object = Map();
  ASSERT_EQ(object.memory.bytes()[0], text_[0]);
  ASSERT_TRUE(PutText(*store_, "w", text_).ok());
  EXPECT_EQ(object.memory.bytes()[15 * kBlock], 0);
  EXPECT_TRUE(absl::IsDataLoss(object.memory.Check()));
  EXPECT_EQ(object.memory.Check().message(), "w was replaced while it was read");
}

TEST_F(StoredMemoryTest, TellsThatTheObjectWasDeletedOrTheStoreFails) {
  bucket_.before = [this](const std::string&) {
    return fails_ ? absl::PermissionDeniedError("no") : absl::OkStatus();
  };
  const StoredMemory deleted = Map(), failing = Map();
  ASSERT_EQ(failing.memory.bytes()[0], text_[0]);
  fails_ = true;
  EXPECT_EQ(failing.memory.bytes()[15 * kBlock], 0);
  EXPECT_TRUE(absl::IsPermissionDenied(failing.memory.Check()));
  fails_ = false;
  const std::vector<std::string> keys = {"w"};
  ASSERT_TRUE(store_->Delete(keys).ok());
  EXPECT_EQ(deleted.memory.bytes()[0], 0);
  EXPECT_EQ(deleted.memory.Check().message(), "w was deleted while it was read");
  EXPECT_TRUE(absl::IsNotFound(MapObject(store_, "w", pool_).status()));
}

}  // namespace
}  // namespace strobe::storage
