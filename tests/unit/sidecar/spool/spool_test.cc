#include "sidecar/spool/spool.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "sidecar/capture/session.h"

namespace strobe::spool {
namespace {

namespace fs = std::filesystem;

class SpoolTest : public testing::Test {
 protected:
  SpoolTest() { directory_ = std::string(mkdtemp(name_.data())) + "/spool"; }
  ~SpoolTest() override { fs::remove_all(name_); }

  std::unique_ptr<Spool> Open(std::uint64_t capacity = 1 << 20) {
    auto spool = Spool::Open(directory_, capacity);
    EXPECT_TRUE(spool.ok()) << spool.status();
    return *std::move(spool);
  }
  static v1::Report Report(const std::string& id, v1::CaptureState state = v1::UPLOADING) {
    v1::Report report;
    report.set_capture_id(id);
    report.set_state(state);
    report.set_events(7);
    return report;
  }
  static absl::Status Add(Spool& spool, const std::string& id, std::size_t size) {
    const std::string bytes(size, 'x');
    const std::array<std::string_view, 2> pieces = {bytes, "end"};
    const absl::Status added = spool.Add(id, pieces);
    return added.ok() ? spool.SaveReport(Report(id)) : added;
  }

  std::string name_ = "/tmp/strobe-spool-XXXXXX";
  std::string directory_;
};

TEST_F(SpoolTest, EachWorkerOfACaptureHasATrace) {
  v1::Report report = Report("a");
  for (const std::uint32_t local_rank : {0u, 3u})
    report.add_workers()->mutable_rank()->set_local_rank(local_rank);
  {
    const auto spool = Open();
    const std::array<std::string_view, 1> pieces = {"bytes"};
    for (const SpooledTrace& trace : TracesOf(report))
      ASSERT_TRUE(spool->Add(trace.id, pieces).ok());
    ASSERT_TRUE(spool->SaveReport(report).ok());
    const std::array<std::string_view, 1> orphan = {"no report has this rank"};
    ASSERT_TRUE(spool->Add("a@7", orphan).ok());
  }
  const auto spool = Open();
  EXPECT_TRUE(spool->HasTrace("a@0"));
  EXPECT_TRUE(spool->HasTrace("a@3"));
  EXPECT_EQ(spool->traces(), 2u);
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(spool->SaveReport(Report("a-" + std::to_string(i), v1::DONE)).ok());
  EXPECT_TRUE(fs::exists(directory_ + "/a.report.json")) << "its traces still wait";
}

TEST_F(SpoolTest, WhatWasAddedIsThereAfterARestart) {
  {
    const auto spool = Open();
    ASSERT_TRUE(Add(*spool, "a", 1000).ok());
    ASSERT_TRUE(spool->SaveUpload("a", {.id = "u", .part_bytes = 5, .parts = {"p0", ""}}).ok());
  }
  const auto spool = Open();
  ASSERT_EQ(spool->recovered().size(), 1u);
  EXPECT_EQ(spool->recovered()[0].events(), 7u);
  EXPECT_TRUE(spool->HasTrace("a"));
  EXPECT_EQ(spool->used_bytes(), 1003u);
  EXPECT_EQ(fs::file_size(spool->TracePath("a")), 1003u);
  const storage::UploadState state = spool->LoadUpload("a");
  EXPECT_EQ(state.id, "u");
  EXPECT_THAT(state.parts, testing::ElementsAre("p0", ""));
  spool->RemoveTrace("a");
  EXPECT_EQ(spool->used_bytes(), 0u);
  EXPECT_TRUE(spool->LoadUpload("a").id.empty());
}

TEST_F(SpoolTest, TellsHowOldItsOldestTraceIsAlsoAfterARestart) {
  const auto time = [&](const std::string& id) {
    return fs::file_time_type::clock::to_sys(
        fs::last_write_time(directory_ + "/" + id + ".xplane.pb"));
  };
  {
    const auto spool = Open();
    EXPECT_EQ(spool->oldest(), std::nullopt);
    ASSERT_TRUE(Add(*spool, "a", 10).ok());
    ASSERT_TRUE(Add(*spool, "b", 10).ok());
    EXPECT_EQ(spool->oldest(), std::min(time("a"), time("b")));
  }
  fs::last_write_time(directory_ + "/b.xplane.pb",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  const auto spool = Open();
  EXPECT_EQ(spool->oldest(), time("b"));
  spool->RemoveTrace("b");
  EXPECT_EQ(spool->oldest(), time("a"));
}

TEST_F(SpoolTest, RefusesWhatDoesNotFitAndLeavesTheRest) {
  const auto spool = Open(2000);
  ASSERT_TRUE(Add(*spool, "a", 1500).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Add(*spool, "b", 1000)));
  EXPECT_TRUE(spool->HasTrace("a"));
  EXPECT_FALSE(spool->HasTrace("b"));
  EXPECT_EQ(spool->free_bytes(), 2000u - 1503u);
}

TEST_F(SpoolTest, OneSidecarAtATime) {
  const auto spool = Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(Spool::Open(directory_, 1).status()));
}

TEST_F(SpoolTest, CleansUpWhatAKillLeftAndSetsRubbishAside) {
  fs::create_directories(directory_);
  std::ofstream(directory_ + "/half.xplane.pb") << "no report came";
  std::ofstream(directory_ + "/.x.xplane.pb.partial") << "half";
  std::ofstream(directory_ + "/gone.upload.json") << R"({"id": "u"})";
  std::ofstream(directory_ + "/bad.report.json") << "{";
  std::ofstream(directory_ + "/a.report.json") << R"({"captureId": "b"})";
  const auto spool = Open();
  EXPECT_TRUE(spool->recovered().empty());
  EXPECT_FALSE(fs::exists(directory_ + "/half.xplane.pb"));
  EXPECT_FALSE(fs::exists(directory_ + "/.x.xplane.pb.partial"));
  EXPECT_FALSE(fs::exists(directory_ + "/gone.upload.json")) << "its trace is gone";
  EXPECT_TRUE(fs::exists(directory_ + "/bad.report.json.unreadable"));
  EXPECT_TRUE(fs::exists(directory_ + "/a.report.json.unreadable"));
}

TEST_F(SpoolTest, AnUnreadableUploadStateMeansBeginAnew) {
  const auto spool = Open();
  ASSERT_TRUE(Add(*spool, "a", 10).ok());
  std::ofstream(directory_ + "/a.upload.json") << "{\"id\": \"u\", \"parts\": [";
  EXPECT_TRUE(spool->LoadUpload("a").id.empty());
}

TEST_F(SpoolTest, ForgetsOldReportsButNoneWithATrace) {
  const auto spool = Open();
  ASSERT_TRUE(Add(*spool, "kept", 10).ok());
  for (std::size_t i = 0; i < session::kRemembered + 10; ++i)
    ASSERT_TRUE(spool->SaveReport(Report("r" + std::to_string(i), v1::DONE)).ok());
  const auto count = std::count_if(fs::directory_iterator(directory_), {}, [](const auto& file) {
    return file.path().native().ends_with(".report.json");
  });
  EXPECT_EQ(count, static_cast<std::ptrdiff_t>(session::kRemembered));
  EXPECT_TRUE(fs::exists(directory_ + "/kept.report.json"));
}

}  // namespace
}  // namespace strobe::spool
