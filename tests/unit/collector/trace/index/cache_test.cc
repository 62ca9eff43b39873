#include "collector/trace/index/cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "collector/trace/xplane/builder.h"

namespace strobe::index {
namespace {

namespace fs = std::filesystem;

class CacheTest : public testing::Test {
 protected:
  CacheTest() { fs::create_directories(folder_); }
  ~CacheTest() override { fs::remove_all(folder_); }

  static std::string Trace(int events) {
    xplane::PlaneBuilder plane("p");
    plane.BeginLine(1, "l", 0);
    for (int i = 0; i < events; ++i) plane.AddEvent(plane.EventId("e"), i * 100, 50);
    return plane.Encode();
  }
  absl::StatusOr<StoredIndex> Get(const std::string& trace, const std::string& beside = "") {
    warning_.clear();
    done_ = 0;
    absl::StatusOr<StoredIndex> stored = OpenStored(cache_, beside, SourceOf(trace), warning_);
    if (stored.ok()) return stored;
    return BuildStored(cache_, trace, *xplane::Space::Read(trace), {.done = &done_}, warning_);
  }
  std::size_t Files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(cache_.directory), fs::directory_iterator()));
  }

  const std::string folder_ =
      (fs::temp_directory_path() / ("strobe-cache-" + std::to_string(::getpid()))).native();
  Cache cache_{.directory = folder_ + "/made/by/need"};
  std::atomic<std::uint64_t> done_{0};
  std::string warning_;
};

TEST_F(CacheTest, ReadsATraceOnce) {
  EXPECT_EQ(Get(Trace(10))->index().header().events, 10u);
  EXPECT_EQ(done_, 10u);
  EXPECT_EQ(Get(Trace(10))->index().header().events, 10u);
  EXPECT_EQ(done_, 0u) << "from the cache";
  EXPECT_EQ(Get(Trace(11))->index().header().events, 11u);
  EXPECT_EQ(Files(), 2u) << "nothing passing is left";
}

TEST_F(CacheTest, AnIndexThatIsTruncatedWhileItIsOpenIsAnErrorAndNoSignal) {
  const auto stored = Get(Trace(100'000));
  ASSERT_TRUE(stored.ok());
  ASSERT_TRUE(stored->Check().ok());
  const fs::path file = fs::directory_iterator(cache_.directory)->path();
  fs::resize_file(file, 1);
  // No query may read outside the index.
  const Index& index = stored->index();
  std::uint64_t visited = 0;
  for (const Row& row : index.rows()) {
    EXPECT_LT(row.plane, index.planes().size());
    for (std::uint32_t t = 0; t < row.tracks; ++t) {
      const Track& track = index.tracks()[row.first_track + t];
      index.ForEachEntry(track, 0, track.events, [&](std::uint64_t, const Entry&) { ++visited; });
      index.FirstReaching(track, 1000);
    }
  }
  EXPECT_TRUE(absl::IsDataLoss(stored->Check()));
}

TEST_F(CacheTest, ATraceThatIsTruncatedWhileItIsReadGivesNoIndex) {
  const std::string path = folder_ + "/trace";
  std::ofstream(path, std::ios::binary) << Trace(100'000);
  const auto trace = MappedFile::Open(path);
  const auto space = xplane::Space::Read(trace->bytes());
  fs::resize_file(path, 5000);
  const BuildOptions options{.threads = 2, .check = [&] { return trace->Check(); }};
  const auto stored = BuildStored(cache_, trace->bytes(), *space, options, warning_);
  EXPECT_TRUE(absl::IsDataLoss(stored.status()));
  EXPECT_EQ(Files(), 0u);
}

TEST_F(CacheTest, DamageIsMadeAnew) {
  ASSERT_TRUE(Get(Trace(10)).ok());
  const fs::path file = fs::directory_iterator(cache_.directory)->path();
  fs::resize_file(file, 200);
  EXPECT_EQ(Get(Trace(10))->index().header().events, 10u);
  EXPECT_EQ(done_, 10u);
}

TEST_F(CacheTest, AStaleIndexBesideTheTraceIsRefused) {
  ASSERT_TRUE(Get(Trace(10)).ok());
  const std::string beside = folder_ + "/worker.index";
  fs::copy_file(fs::directory_iterator(cache_.directory)->path(), beside);
  cache_.directory.clear();
  EXPECT_EQ(Get(Trace(10), beside)->index().header().events, 10u);
  EXPECT_EQ(done_, 0u);
  EXPECT_EQ(Get(Trace(12), beside)->index().header().events, 12u);
  EXPECT_NE(warning_.find("another trace"), std::string::npos) << warning_;
}

TEST_F(CacheTest, WithoutAPlaceItLivesInMemory) {
  std::ofstream(folder_ + "/file") << "x";
  cache_.directory = folder_ + "/file/no";
  EXPECT_EQ(Get(Trace(10))->index().header().events, 10u);
  EXPECT_NE(warning_.find("in memory only"), std::string::npos) << warning_;
}

TEST_F(CacheTest, KeepsWithinItsBound) {
  ASSERT_TRUE(Get(Trace(10)).ok());
  cache_.max_bytes = fs::file_size(fs::directory_iterator(cache_.directory)->path()) + 100;
  ASSERT_TRUE(Get(Trace(11)).ok());
  EXPECT_EQ(Files(), 1u);
}

TEST_F(CacheTest, AnIndexThatIsLargerThanTheCacheCanBeReadButIsNotKept) {
  ASSERT_TRUE(Get(Trace(10)).ok());
  cache_.max_bytes = fs::file_size(fs::directory_iterator(cache_.directory)->path()) + 100;
  const auto stored = Get(Trace(100'000));
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->index().header().events, 100'000u);
  EXPECT_TRUE(stored->Check().ok());
  EXPECT_NE(warning_.find("the index is not kept"), std::string::npos) << warning_;
  EXPECT_EQ(Files(), 1u);
  EXPECT_TRUE(Get(Trace(10)).ok());
  EXPECT_EQ(done_, 0u) << "the small one is still there";
}

TEST_F(CacheTest, WhoeverStopsLeavesNothing) {
  const std::string trace = Trace(10);
  const std::atomic<bool> stop{true};
  EXPECT_TRUE(absl::IsCancelled(
      BuildStored(cache_, trace, *xplane::Space::Read(trace), {.stop = &stop}, warning_).status()));
  EXPECT_EQ(Files(), 0u);
}

}  // namespace
}  // namespace strobe::index
