#include "collector/storage/file_store.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>

namespace strobe {
namespace {

namespace fs = std::filesystem;
using testing::SizeIs;

class FileStoreTest : public testing::Test {
 protected:
  FileStoreTest() { root_ = mkdtemp(name_.data()); }
  ~FileStoreTest() override { fs::remove_all(root_); }
  absl::Status Put(FileStore& store, std::string_view key, std::string_view bytes) {
    const std::array<std::string_view, 2> pieces = {bytes, "!"};
    return store.Put(key, pieces);
  }

  std::string name_ = "/tmp/strobe-store-XXXXXX";
  std::string root_;
};

TEST_F(FileStoreTest, WritesReadsListsAndDeletes) {
  FileStore store(root_);
  ASSERT_TRUE(Put(store, "plugins/profile/r/b.xplane.pb", "bb").ok());
  ASSERT_TRUE(Put(store, "plugins/profile/r/a.xplane.pb", "a").ok());
  EXPECT_EQ(*store.Get("plugins/profile/r/b.xplane.pb"), "bb!");
  const auto objects = store.List("plugins/profile/r/");
  ASSERT_THAT(*objects, SizeIs(2));
  EXPECT_EQ((*objects)[0].key, "plugins/profile/r/a.xplane.pb");
  EXPECT_EQ((*objects)[0].bytes, 2u);
  for (const StoredObject& object : *objects) EXPECT_TRUE(store.Delete(object.key).ok());
  EXPECT_FALSE(fs::exists(root_ + "/plugins/profile/r")) << "an empty run leaves no directory";
  EXPECT_TRUE(store.Delete("plugins/profile/r/a.xplane.pb").ok()) << "deleting twice is fine";
}

TEST_F(FileStoreTest, ReadersNeverSeeHalfAnObject) {
  FileStore store(root_);
  const std::string small(10, 's'), large(1 << 20, 'l');
  ASSERT_TRUE(Put(store, "r/x", small).ok());
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(Put(store, "r/x", i % 2 == 0 ? large : small).ok());
  });
  for (int i = 0; i < 200; ++i) {
    const std::string seen = *store.Get("r/x");
    EXPECT_TRUE(seen == small + "!" || seen == large + "!") << seen.size();
  }
  writer.join();
  EXPECT_THAT(*store.List("r/"), SizeIs(1)) << "and no temporary file is left";
}

TEST_F(FileStoreTest, SaysWhatIsWrong) {
  FileStore store(root_);
  EXPECT_TRUE(absl::IsInvalidArgument(Put(store, "../x", "x")));
  EXPECT_TRUE(absl::IsNotFound(store.Get("nothing").status()));
  ASSERT_TRUE(Put(store, "file", "x").ok());
  EXPECT_FALSE(Put(store, "file/below", "x").ok());
  FileStore proc("/proc");
  EXPECT_FALSE(Put(proc, "strobe/x", "x").ok());
}

TEST(BuiltInStores, RefusesStoresThatAreNotBuiltIn) {
  BuiltInStores stores;
  EXPECT_TRUE(stores.Open(*Logdir::Parse("/x")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(stores.Open(*Logdir::Parse("gs://b/x")).status()));
}

}  // namespace
}  // namespace strobe
