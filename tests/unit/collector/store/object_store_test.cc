#include "collector/store/object_store.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "tests/fakes/memory_store.h"

namespace strobe::storage {
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

// Lists, of a store that tells these keys, the files below the prefix.
std::vector<std::string> NamesBelow(ObjectStore& store, std::string_view prefix) {
  std::vector<std::string> names;
  const absl::Status listed = store.List(prefix, [&](const StoredObject& object) {
    EXPECT_EQ(object.key, StrCat(prefix, object.name()));
    names.emplace_back(object.name());
    return true;
  });
  EXPECT_TRUE(listed.ok()) << listed;
  std::sort(names.begin(), names.end());
  return names;
}

// Regression: the empty object "plugins/profile/run/", whose key is its own prefix, ended programs.
TEST(List, KeysThatAreNoFilesChangeNothingForTheOthers) {
  const std::string prefix = RunPrefix("run");
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    MemoryBucket bucket;
    MemoryStore store(bucket);
    const std::vector<std::string> files = {"a", "strobe.json", "sub/w1.xplane.pb", "w0.xplane.pb"};
    for (const std::string& file : files) ASSERT_TRUE(PutText(store, prefix + file, "x").ok());
    ASSERT_TRUE(PutText(store, RunPrefix("other") + "w0.xplane.pb", "x").ok());
    // Each round has other ones, and half of them come although they are not below the prefix.
    for (const std::string& key : OddKeys("run")) {
      if (round > 0 && random() % 2 == 0) continue;
      if (random() % 2 == 0)
        bucket.strays.push_back(key);
      else
        ASSERT_TRUE(PutText(store, key, "").ok());
    }
    EXPECT_EQ(NamesBelow(store, prefix), files);
    EXPECT_EQ(NamesBelow(store, RunPrefix("other")), std::vector<std::string>{"w0.xplane.pb"});
    EXPECT_EQ(ListAll(store, prefix)->size(), files.size());
    const std::vector<std::string> runs = *store.ListDirectories(kRunsPrefix);
    for (const std::string& name : runs) {
      EXPECT_TRUE(!name.empty() && name != "." && name != ".." && name.find('/') == name.npos)
          << name;
    }
  }
}

TEST(ListDirectories, NamesEachOnce) {
  MemoryBucket bucket;
  MemoryStore store(bucket);
  for (const char* key : {"p/a/1", "p/a/2", "p/b/", "p//c", "p/../d", "p/e"})
    ASSERT_TRUE(PutText(store, key, "x").ok());
  bucket.strays = {"p/a/3", "elsewhere/x"};
  EXPECT_THAT(*store.ListDirectories("p/"), testing::IsSupersetOf({"a", "b"}));
  EXPECT_THAT(*store.ListDirectories("p/"), testing::Not(testing::Contains("")));
  EXPECT_THAT(*store.ListDirectories("p/"), testing::Not(testing::Contains("..")));
}

TEST(HasFiles, AFoldersOwnObjectIsNoFile) {
  MemoryBucket bucket;
  MemoryStore store(bucket);
  for (const char* key : {"a/", "a/b/", "a//c"}) ASSERT_TRUE(PutText(store, key, "").ok());
  EXPECT_FALSE(*HasFiles(store, "a/"));
  ASSERT_TRUE(PutText(store, "a/1", "").ok());
  EXPECT_TRUE(*HasFiles(store, "a/"));
}

// Regression: rm said that a run was deleted, and the folder's own object stayed.
TEST(DeleteBelow, TakesWhatIsNoFileToo) {
  MemoryBucket bucket;
  MemoryStore store(bucket);
  for (const char* key : {"a/", "a/b/", "a//c", "a/1", "ab/"})
    ASSERT_TRUE(PutText(store, key, "").ok());
  bucket.strays = {"ab/", "", "a"};  // A listing that tells more than it should deletes no more.
  EXPECT_EQ(*DeleteBelow(store, "a/"), 4u);
  MutexLock lock(&bucket.mutex);
  EXPECT_EQ(bucket.objects.size(), 1u);
  EXPECT_TRUE(bucket.objects.contains("ab/"));
}

}  // namespace
}  // namespace strobe::storage
