#include "cli/stall/evidence_places.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/strings.h"

namespace strobe::cli {
namespace {

using testing::HasSubstr;

constexpr char kStacks[] = "Thread 1 (idle): \"MainThread\"\n    f (a.py:1)\n";

class EvidencePlaces : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "evidence-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::filesystem::path root_{};
};

TEST_F(EvidencePlaces, ReadsFoldersAndTakesASecondOneForASecondLook) {
  for (const char* look : {"look1", "look2"}) {
    Write(StrCat(look, "/rank_0.txt"), kStacks);
    Write(StrCat(look, "/node-1/rank_1.txt"), kStacks);
    Write(StrCat(look, "/notes.txt"), "it stood still at noon\n");
  }
  const auto found = ReadEvidence({root_ / "look1", root_ / "look2"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->left_out.empty());
  ASSERT_EQ(found->evidence.ranks.size(), 2u);
  EXPECT_TRUE(found->evidence.ranks.at(1).stacks_later.has_value());
}

TEST_F(EvidencePlaces, LeavesOutDamagedFilesAndSaysWhy) {
  Write("rank_0.txt", kStacks);
  const std::string damaged = Write("nccl_trace_rank_1", "\x80\x02}");
  const auto found = ReadEvidence({root_});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->left_out.size(), 1u);
  EXPECT_THAT(found->left_out[0], testing::AllOf(HasSubstr(damaged), HasSubstr("offset 3")));
  EXPECT_THAT(MessageOf(ReadEvidence({damaged}).status()), HasSubstr("offset 3"));
}

TEST_F(EvidencePlaces, NamesWhatIsWrongAndWhatIsRead) {
  EXPECT_TRUE(absl::IsNotFound(ReadEvidence({root_ / "none"}).status()));
  EXPECT_THAT(MessageOf(ReadEvidence({root_}).status()),
              HasSubstr("TORCH_NCCL_DEBUG_INFO_TEMP_FILE"));
  const std::string notes = Write("notes.txt", "it stood still at noon\n");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadEvidence({notes}).status()));
  EXPECT_THAT(MessageOf(ReadEvidence({notes}).status()), HasSubstr("notes.txt is no evidence"));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadEvidence({"/dev/null"}).status()));
}

}  // namespace
}  // namespace strobe::cli
