#include "agent/wire/collective_file.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace strobe::wire {
namespace {

namespace fs = std::filesystem;

class CollectiveFileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(testing::TempDir()) / (std::string("collectives_") + test->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    path_ = dir_ / "1-2.nccl";
  }
  void TearDown() override { fs::remove_all(dir_); }

  fs::path dir_, path_;
};

TEST_F(CollectiveFileTest, LiesBesideTheRings) {
  EXPECT_EQ(CollectivePath("/a/c@7-8.rings"), "/a/c@7-8.nccl");
}

TEST_F(CollectiveFileTest, IsSeenWholeOrNotAtAll) {
  CollectiveFile made = CollectiveFile::Create(path_);
  ASSERT_TRUE(made);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()), 1);
  EXPECT_EQ(fs::file_size(path_), kCollectiveFileBytes);
  CollectiveFile read = CollectiveFile::Map(path_);
  ASSERT_TRUE(read.Check());
  EXPECT_EQ(read.header()->magic, kCollectiveMagic);
  EXPECT_EQ(read.max_records(), kCollectiveRecords);
  EXPECT_THAT(read.Communicators(), testing::IsEmpty());
  CollectiveCopy copy;
  EXPECT_FALSE(read.Read(0, copy)) << "nothing was written yet";
}

TEST_F(CollectiveFileTest, OfAnotherVersionOrSizeIsRefused) {
  { ASSERT_TRUE(CollectiveFile::Create(path_)); }
  std::string bytes(kCollectiveFileBytes, '\0');
  std::ifstream(path_, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto check = [&](std::size_t at, std::uint32_t value, std::size_t size) {
    std::string changed = bytes.substr(0, size);
    std::memcpy(&changed[at], &value, sizeof value);
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << changed;
    return CollectiveFile::Map(path_).Check();
  };
  const auto at = [](auto CollectiveHeader::*member) {
    static const CollectiveHeader header{};
    return static_cast<std::size_t>(reinterpret_cast<const char*>(&(header.*member)) -
                                    reinterpret_cast<const char*>(&header));
  };
  EXPECT_TRUE(check(at(&CollectiveHeader::version), kCollectiveVersion, bytes.size()));
  EXPECT_FALSE(check(at(&CollectiveHeader::version), kCollectiveVersion + 1, bytes.size()));
  EXPECT_FALSE(check(at(&CollectiveHeader::record_bytes), 64, bytes.size()));
  EXPECT_FALSE(check(at(&CollectiveHeader::record_bytes), 1 << 11, bytes.size()));
  EXPECT_FALSE(check(at(&CollectiveHeader::max_records), 1000, bytes.size()));
  EXPECT_FALSE(check(at(&CollectiveHeader::max_communicators), 1 << 16, bytes.size()));
  EXPECT_FALSE(check(at(&CollectiveHeader::version), kCollectiveVersion, bytes.size() - 1));
  EXPECT_FALSE(check(at(&CollectiveHeader::version), kCollectiveVersion, 100));
}

// Records of a later version of this format may be longer.
TEST_F(CollectiveFileTest, LongerRecordsAreRead) {
  CollectiveFile made = CollectiveFile::Create(path_);
  made.header()->record_bytes = 256;
  made.header()->max_records = kCollectiveRecords / 2;
  CollectiveFile read = CollectiveFile::Map(path_);
  ASSERT_TRUE(read.Check());
  EXPECT_EQ(reinterpret_cast<char*>(read.record(1)) - reinterpret_cast<char*>(read.record(0)), 256);
}

TEST(Collectives, WordsOfTheLibrary) {
  for (const char* word : {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce",
                           "AlltoAll", "Gather", "Scatter", "Send", "Recv"})
    EXPECT_EQ(NameOf(CollectiveCallOf(word)), word);
  EXPECT_EQ(CollectiveCallOf("Other"), CollectiveCall::kOther);
  EXPECT_EQ(CollectiveCallOf(""), CollectiveCall::kOther);
  EXPECT_EQ(NameOf(static_cast<CollectiveCall>(200)), "Other");
  EXPECT_EQ(NameOf(ElementTypeOf("ncclBfloat16")), "BFloat16");
  EXPECT_EQ(BytesOf(ElementTypeOf("ncclFloat64")), 8u);
  EXPECT_EQ(ElementTypeOf("ncclFloat8e4m3"), ElementType::kFloat8);
  EXPECT_EQ(ElementTypeOf(""), ElementType::kOther);
  EXPECT_EQ(BytesOf(static_cast<ElementType>(99)), 0u);
}

}  // namespace
}  // namespace strobe::wire
