#include "collector/store/file_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/file_descriptor.h"
#include "tests/fakes/flush_watch.h"

namespace strobe::storage {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::SizeIs;

class FileStoreTest : public testing::Test {
 protected:
  FileStoreTest() { root_ = mkdtemp(name_.data()); }
  ~FileStoreTest() override { fs::remove_all(root_); }
  absl::Status Put(FileStore& store, std::string_view key, std::string_view bytes) {
    const std::array<std::string_view, 2> pieces = {bytes, "!"};
    return store.Put(key, MemoryBytes(pieces), {});
  }

  std::string name_ = "/tmp/strobe-store-XXXXXX";
  std::string root_;
};

// Regression: such a run could not be removed, and was listed although it had no trace.
TEST_F(FileStoreTest, WhatAKilledWriterLeftGoesWithTheLastObject) {
  FileStore store(root_);
  for (const bool written : {false, true}) {
    ASSERT_TRUE(Put(store, "run/a", "a").ok());
    std::ofstream(root_ + "/run/.b.partial") << "half";
    const FileDescriptor writer(open((root_ + "/run/.b.partial").c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(flock(writer.get(), written ? LOCK_EX : LOCK_UN), 0);
    EXPECT_EQ(*DeleteBelow(store, "run/"), 1u);
    EXPECT_EQ(fs::exists(root_ + "/run"), written) << "somebody writes it now";
  }
}

TEST_F(FileStoreTest, TellsWithoutWritingWhetherItCanWrite) {
  EXPECT_TRUE(FileStore(root_ + "/logs").CheckWritable("plugins/profile/r/").ok());
  EXPECT_TRUE(fs::is_empty(root_));
  std::ofstream(root_ + "/file") << "no folder";
  fs::permissions(root_ + "/file", fs::perms::all);
  for (const char* below : {"/file", "/file/logs"}) {
    const absl::Status refused = FileStore(root_ + below).CheckWritable("");
    EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), EndsWith("Not a directory"));
  }
  EXPECT_TRUE(FileStore("/").CheckWritable("").ok() == (access("/", W_OK) == 0));
}

TEST_F(FileStoreTest, WritesReadsListsAndDeletes) {
  FileStore store(root_);
  ASSERT_TRUE(Put(store, "plugins/profile/r/b.xplane.pb", "bb").ok());
  ASSERT_TRUE(Put(store, "plugins/profile/r/a.xplane.pb", "a").ok());
  EXPECT_EQ(*GetText(store, "plugins/profile/r/b.xplane.pb", 100), "bb!");
  EXPECT_EQ(store.Stat("plugins/profile/r/b.xplane.pb")->bytes, 3u);
  EXPECT_THAT(*store.ListDirectories("plugins/profile/"), testing::ElementsAre("r"));
  const auto objects = ListAll(store, "plugins/profile/r/");
  ASSERT_THAT(*objects, SizeIs(2));
  EXPECT_EQ((*objects)[0].key, "plugins/profile/r/a.xplane.pb");
  EXPECT_EQ((*objects)[0].bytes, 2u);
  EXPECT_EQ(*DeleteBelow(store, "plugins/profile/r/"), 2u);
  EXPECT_FALSE(fs::exists(root_ + "/plugins/profile/r")) << "an empty run leaves no directory";
  const std::array<std::string, 1> gone = {"plugins/profile/r/a.xplane.pb"};
  EXPECT_TRUE(store.Delete(gone).ok()) << "deleting twice is fine";
  EXPECT_TRUE(ListAll(store, "plugins/")->empty()) << "listing what is not there too";
}

TEST_F(FileStoreTest, ReadersNeverSeeHalfAnObject) {
  FileStore store(root_);
  const std::string small(10, 's'), large(1 << 19, 'l');
  ASSERT_TRUE(Put(store, "r/x", small).ok());
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(Put(store, "r/x", i % 2 == 0 ? large : small).ok());
  });
  for (int i = 0; i < 200; ++i) {
    const std::string seen = *GetText(store, "r/x", 1 << 20);
    EXPECT_TRUE(seen == small + "!" || seen == large + "!") << seen.size();
  }
  writer.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ + "/r"), {}), 1)
      << "and no temporary file is left";
}

TEST_F(FileStoreTest, SaysWhatIsWrong) {
  FileStore store(root_);
  EXPECT_TRUE(absl::IsInvalidArgument(Put(store, "../x", "x")));
  EXPECT_TRUE(absl::IsNotFound(store.Stat("nothing").status()));
  EXPECT_TRUE(absl::IsNotFound(GetText(store, "nothing", 1).status()));
  ASSERT_TRUE(Put(store, "file", "x").ok());
  EXPECT_FALSE(Put(store, "file/below", "x").ok());
  FileStore proc("/proc");
  EXPECT_FALSE(Put(proc, "strobe/x", "x").ok());
}

TEST_F(FileStoreTest, NeverReplacesWhatIsOnlyToBeCreated) {
  FileStore store(root_);
  ASSERT_TRUE(Put(store, "r/x", "first").ok());
  const std::array<std::string_view, 1> pieces = {"second"};
  const absl::Status status = store.Put("r/x", MemoryBytes(pieces), {.create_only = true});
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_EQ(*GetText(store, "r/x", 100), "first!");
}

TEST_F(FileStoreTest, OneOfManyCreatorsWins) {
  FileStore store(root_);
  std::atomic<int> won{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string text(100'000, static_cast<char>('a' + i));
      const std::array<std::string_view, 1> pieces = {text};
      if (store.Put("r/x", MemoryBytes(pieces), {.create_only = true}).ok()) ++won;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
  const std::string text = *GetText(store, "r/x", 1 << 20);
  EXPECT_EQ(text, std::string(100'000, text.front()));
}

TEST_F(FileStoreTest, BeginsAnewWhereAWriterWasKilled) {
  fs::create_directories(root_ + "/r");
  std::ofstream(root_ + "/r/.x.partial") << std::string(1000, '?');
  FileStore store(root_);
  EXPECT_TRUE(ListAll(store, "r/")->empty());
  ASSERT_TRUE(Put(store, "r/x", "whole").ok());
  EXPECT_EQ(*GetText(store, "r/x", 100), "whole!");
}

// Regression: rm said that there was no such run, and the folder stayed.
TEST_F(FileStoreTest, AnEmptyFolderIsNoFileAndCanBeDeleted) {
  fs::create_directories(root_ + "/p/run/sub/deep");
  fs::create_directories(root_ + "/p/empty");
  std::ofstream(root_ + "/p/empty/.x.partial") << "half";
  FileStore store(root_);
  EXPECT_THAT(*store.ListDirectories("p/"), testing::ElementsAre("empty", "run"));
  EXPECT_TRUE(ListAll(store, "")->empty());
  EXPECT_FALSE(*HasFiles(store, "p/empty/"));
  EXPECT_EQ(*DeleteBelow(store, "p/empty/"), 1u);
  EXPECT_FALSE(fs::exists(root_ + "/p/empty"));
  EXPECT_EQ(*DeleteBelow(store, "p/run/"), 1u);
  EXPECT_FALSE(fs::exists(root_ + "/p/run/sub/deep"));
  EXPECT_EQ(*DeleteBelow(store, "p/none/"), 0u);
}

TEST_F(FileStoreTest, TakesEveryNameThatTheFileSystemTakes) {
  FileStore store(root_);
  const std::string longest(NAME_MAX, 'n');
  ASSERT_TRUE(Put(store, "r/" + longest, "x").ok());
  EXPECT_EQ(*GetText(store, "r/" + longest, 100), "x!");
  for (const std::string& key : {"r/" + longest + "n", longest + "n/x"}) {
    const absl::Status status = Put(store, key, "x");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ + "/r"), {}), 1)
      << "and no hidden file is left";
}

// Regression: the name of a new object could be lost with the power. The spool then removed the
// trace whose report it was.
TEST_F(FileStoreTest, FlushesTheObjectBeforeItHasItsNameAndTheFolderAfterwards) {
  FileStore store(root_);
  for (const bool create_only : {false, true}) {
    const std::string key = create_only ? "r/created" : "r/x";
    std::vector<std::string> flushed;
    const FlushWatch watch([&](const std::string& path) {
      flushed.push_back(path + (fs::exists(root_ + "/" + key) ? " named" : ""));
    });
    const std::array<std::string_view, 1> pieces = {"bytes"};
    ASSERT_TRUE(store.Put(key, MemoryBytes(pieces), {.create_only = create_only}).ok());
    EXPECT_THAT(flushed, testing::ElementsAre(EndsWith(".partial"), EndsWith("/r named")));
  }
}

TEST_F(FileStoreTest, StopsWhenCancelled) {
  Cancellation cancellation;
  cancellation.Cancel();
  FileStore store(root_, &cancellation);
  EXPECT_TRUE(absl::IsCancelled(Put(store, "r/x", "x")));
  EXPECT_FALSE(fs::exists(root_ + "/r/x"));
}

// Obstacles that a trainer with access to the same volume can create. Only the test may write to
// the directory `victim_`.
class HostileVolumeTest : public FileStoreTest {
 protected:
  HostileVolumeTest() {
    std::string name = "/tmp/strobe-victim-XXXXXX";
    victim_ = mkdtemp(name.data());
    std::ofstream(victim_ + "/secret") << "secret";
    fs::create_directories(root_ + "/r");
  }
  ~HostileVolumeTest() override {
    std::ifstream in(victim_ + "/secret");
    std::string text;
    in >> text;
    EXPECT_EQ(text, "secret");
    EXPECT_EQ(std::distance(fs::directory_iterator(victim_), {}), 1) << "nothing was written there";
    fs::remove_all(victim_);
  }

  std::string victim_;
};

TEST_F(HostileVolumeTest, ALinkedHiddenFileIsRemovedAndNotWrittenThrough) {
  FileStore store(root_);
  fs::create_symlink(victim_ + "/secret", root_ + "/r/.x.partial");
  ASSERT_TRUE(Put(store, "r/x", "mine").ok());
  EXPECT_EQ(*GetText(store, "r/x", 100), "mine!");
  fs::create_symlink(victim_ + "/new", root_ + "/r/.y.partial");
  ASSERT_TRUE(Put(store, "r/y", "mine").ok());
  fs::create_hard_link(victim_ + "/secret", root_ + "/r/.z.partial");
  ASSERT_TRUE(Put(store, "r/z", "mine").ok());
}

TEST_F(HostileVolumeTest, ALinkedFolderIsNotWrittenInto) {
  FileStore store(root_);
  fs::create_directory_symlink(victim_, root_ + "/linked");
  fs::create_directory_symlink(victim_, root_ + "/r/deep");
  for (const char* key : {"linked/x", "linked/more/x", "r/deep/x"}) {
    const absl::Status status = Put(store, key, "x");
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("symbolic link"));
  }
}

TEST_F(HostileVolumeTest, ALinkedTargetIsReplacedOrRefusedButNotFollowed) {
  FileStore store(root_);
  fs::create_symlink(victim_ + "/secret", root_ + "/r/x");
  const std::array<std::string_view, 1> pieces = {"mine"};
  EXPECT_TRUE(absl::IsAlreadyExists(store.Put("r/x", MemoryBytes(pieces), {.create_only = true})));
  ASSERT_TRUE(Put(store, "r/x", "mine").ok());
  EXPECT_FALSE(fs::is_symlink(root_ + "/r/x"));
  fs::create_symlink(victim_ + "/nothing", root_ + "/r/dangling");
  EXPECT_TRUE(
      absl::IsAlreadyExists(store.Put("r/dangling", MemoryBytes(pieces), {.create_only = true})));
}

TEST_F(HostileVolumeTest, LinksAreNeitherReadNorListedNorDeletedThrough) {
  FileStore store(root_);
  fs::create_symlink(victim_ + "/secret", root_ + "/r/link");
  fs::create_directory_symlink(victim_, root_ + "/linked");
  EXPECT_FALSE(GetText(store, "r/link", 100).ok());
  EXPECT_FALSE(GetText(store, "linked/secret", 100).ok());
  EXPECT_TRUE(absl::IsNotFound(store.Stat("r/link").status()));
  EXPECT_FALSE(store.Stat("linked/secret").ok());
  EXPECT_THAT(*ListAll(store, ""), SizeIs(0));
  EXPECT_THAT(*ListAll(store, "r/"), SizeIs(0));
  EXPECT_FALSE(ListAll(store, "linked/").ok());
  EXPECT_THAT(*store.ListDirectories(""), testing::ElementsAre("r"));
  const std::array<std::string, 1> through = {"linked/secret"}, link = {"r/link"};
  EXPECT_FALSE(store.Delete(through).ok());
  EXPECT_TRUE(store.Delete(link).ok()) << "the link itself may go";
}

TEST_F(HostileVolumeTest, PipesHoldNobody) {
  FileStore store(root_);
  ASSERT_EQ(mkfifo((root_ + "/r/.x.partial").c_str(), 0666), 0);
  ASSERT_TRUE(Put(store, "r/x", "mine").ok());
  ASSERT_EQ(mkfifo((root_ + "/r/pipe").c_str(), 0666), 0);
  EXPECT_TRUE(absl::IsNotFound(GetText(store, "r/pipe", 100).status()));
  EXPECT_TRUE(absl::IsNotFound(store.Stat("r/pipe").status()));
  EXPECT_THAT(*ListAll(store, "r/"), SizeIs(1));
}

TEST_F(HostileVolumeTest, TheLogdirItselfMayBeALink) {
  fs::create_directories(root_ + "/real");
  fs::create_directory_symlink(root_ + "/real", root_ + "/logs");
  FileStore store(root_ + "/logs");
  ASSERT_TRUE(Put(store, "r/x", "mine").ok());
  EXPECT_EQ(*GetText(store, "r/x", 100), "mine!");
  EXPECT_TRUE(fs::exists(root_ + "/real/r/x"));
}

TEST_F(HostileVolumeTest, AKillBetweenTwoNamesDoesNotGiveAwayTheFirst) {
  FileStore store(root_);
  ASSERT_TRUE(Put(store, "r/x", "first").ok());
  fs::create_hard_link(root_ + "/r/x", root_ + "/r/.x.partial");
  std::ifstream reader(root_ + "/r/x");
  ASSERT_TRUE(Put(store, "r/x", "second").ok());
  std::string seen;
  reader >> seen;
  EXPECT_EQ(seen, "first!") << "whoever reads it goes on reading what was there";
}

}  // namespace
}  // namespace strobe::storage
