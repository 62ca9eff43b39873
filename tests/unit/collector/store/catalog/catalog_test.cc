#include "collector/store/catalog/catalog.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/memory_store.h"

namespace strobe::catalog {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CatalogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    MemoryStore store(bucket_);
    for (const char* run : {"2026_11_20_10_00_00", "2026_11_21_10_00_00"})
      ASSERT_TRUE(
          storage::PutText(store, storage::ManifestKey(run), R"({"requester": "jane"})").ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Catalog> Start() {
    std::vector<CatalogedLogdir> logdirs;
    logdirs.push_back({"gs://a", [this](const storage::StoreLimits&) {
                         return absl::StatusOr<std::unique_ptr<storage::ObjectStore>>(
                             std::make_unique<MemoryStore>(bucket_));
                       }});
    logdirs.push_back({"gs://wrong", [](const storage::StoreLimits&) {
                         return absl::StatusOr<std::unique_ptr<storage::ObjectStore>>(
                             absl::InvalidArgumentError("no such store"));
                       }});
    auto catalog = std::make_unique<Catalog>(
        std::move(logdirs),
        Options{.directory = folder_, .min_pause = std::chrono::milliseconds(1)});
    EXPECT_TRUE(catalog->AwaitListed(std::chrono::seconds(30)));
    return catalog;
  }
  std::vector<std::string> Found(const Catalog& catalog, const std::string& text) {
    const auto answer = catalog.Search({.text = text}, kAllVisible);
    EXPECT_TRUE(answer.ok()) << answer.status();
    std::vector<std::string> runs;
    for (const FoundRun& found : answer->runs) runs.push_back(found.entry->run);
    return runs;
  }

  std::string folder_;
  MemoryBucket bucket_;
};

TEST_F(CatalogTest, FollowsItsLogdirs) {
  const auto catalog = Start();
  EXPECT_THAT(Found(*catalog, "jane"), ElementsAre("2026_11_21_10_00_00", "2026_11_20_10_00_00"));
  const auto answer = catalog->Search({}, kAllVisible);
  EXPECT_EQ(answer->logdirs[0]->problem, "");
  EXPECT_THAT(answer->logdirs[1]->problem, HasSubstr("no such store"));
  MemoryStore store(bucket_);
  ASSERT_TRUE(storage::PutText(store, storage::ManifestKey("2026_11_22_10_00_00"),
                               R"({"requester": "joe"})")
                  .ok());
  while (Found(*catalog, "joe").empty()) std::this_thread::yield();
}

TEST_F(CatalogTest, ReadsNoManifestAgainAfterARestart) {
  Start().reset();
  const std::size_t reads = bucket_.Count("read");
  EXPECT_EQ(reads, 2u);
  const auto catalog = Start();
  EXPECT_EQ(Found(*catalog, "jane").size(), 2u);
  EXPECT_EQ(bucket_.Count("read"), reads);
}

TEST_F(CatalogTest, ADamagedFileIsMadeAnew) {
  Start().reset();
  for (const auto& file : std::filesystem::directory_iterator(folder_))
    std::ofstream(file.path()) << "damaged";
  EXPECT_EQ(Found(*Start(), "jane").size(), 2u);
  EXPECT_EQ(bucket_.Count("read"), 4u);
  EXPECT_EQ(Found(*Start(), "jane").size(), 2u);
  EXPECT_EQ(bucket_.Count("read"), 4u);
}

}  // namespace
}  // namespace strobe::catalog
