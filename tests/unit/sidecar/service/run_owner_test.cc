#include "sidecar/service/run_owner.h"

#include <gmock/gmock.h>

#include "collector/store/run_claim.h"
#include "common/base/strings.h"
#include "sidecar/capture/original.h"
#include "sidecar/capture/trace_report.h"
#include "tests/fakes/fake_trace.h"
#include "tests/fakes/memory_store.h"

namespace strobe::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunOwnerTest : public testing::Test {
 protected:
  // A trace as a sidecar writes it: the framework's bytes, followed by the Strobe plane.
  static std::string TraceOf(const std::string& capture, std::size_t events = 10) {
    v1::Report report;
    report.mutable_plan()->set_capture_id(capture);
    report.set_message("a message");
    std::string trace;
    for (std::size_t i = 0; i < events; ++i) trace += FakeTrace(0, 1000).SerializeAsString();
    return trace + session::EncodeStrobePlane(report);
  }
  static std::string ManifestOf(const std::string& capture) {
    return StrCat("{\"format\": 1, \"captureId\": \"", capture, "\", \"later\": [1]}");
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(storage::PutText(store_, storage::RunPrefix("run") + name, text).ok());
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const auto objects = storage::ListAll(store_, storage::RunPrefix("run"));
    for (const storage::StoredObject& object : *objects)
      names.push_back(object.key.substr(storage::RunPrefix("run").size()));
    return names;
  }

  MemoryBucket bucket_;
  MemoryStore store_{bucket_};
};

TEST_F(RunOwnerTest, ARunIsReclaimedByItsOwnCapture) {
  for (const char* name : {"w0.xplane.pb", "w1.xplane.pb"}) Write(name, TraceOf("uid-1", 5000));
  Write("strobe.json", ManifestOf("uid-1"));
  for (const char* name : {"w0.SSTABLE", "w0.metadata.SSTABLE", "w1.op_stats_v2.pb",
                           "ALL_HOSTS.op_stats_v2.pb", "cache_version.txt", "w0.index"})
    Write(name, "derived");
  const auto done = ReclaimRun(store_, "run", "uid-1");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->deleted, 9u);
  EXPECT_EQ(done->left, 0u);
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_EQ(ReclaimRun(store_, "run", "uid-1")->deleted, 0u) << "nothing there is no error";
}

TEST_F(RunOwnerTest, ATraceWithARowForEachOfManyProcessesIsReclaimed) {
  v1::Report report;
  report.mutable_plan()->set_capture_id("uid-1");
  std::vector<v1::ProcessReport> processes(1000);
  for (v1::ProcessReport& process : processes) {
    process.set_name(std::string(1000, '\1'));
    process.set_message(std::string(1000, '\1'));
    process.set_note(std::string(1000, '\1'));
  }
  session::FillProcesses(processes, report);
  const std::string plane = session::EncodeStrobePlane(report);
  ASSERT_GT(plane.size(), 100'000u);
  ASSERT_LT(plane.size(), session::kMaxStrobePlaneBytes);
  Write("w0.xplane.pb", FakeTrace(0, 1000).SerializeAsString() + plane);
  EXPECT_EQ(ReclaimRun(store_, "run", "uid-1")->deleted, 1u);
}

TEST_F(RunOwnerTest, OriginalsBelongToTheCaptureInTheirHeader) {
  const auto original = [](const std::string& capture) {
    return StrCat(std::string_view("\x1f\x8b\x08\x10\0\0\0\0\4\xff", 10),
                  session::OriginalComment(capture), std::string_view("\0compressed", 11));
  };
  Write("w0.xplane.pb", TraceOf("uid-1"));
  Write("w0.0.pt.trace.json.gz", original("uid-1"));
  Write("w0.1.pt.trace.json.gz", original("uid-10"));
  Write("w0.2.pt.trace.json.gz", std::string_view("\x1f\x8b\x08\0", 4).data());
  Write("w0.3.pt.trace.json.gz", "");
  const auto done = ReclaimRun(store_, "run", "uid-1");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->deleted, 2u);
  EXPECT_THAT(Names(), ElementsAre("w0.1.pt.trace.json.gz", "w0.2.pt.trace.json.gz",
                                   "w0.3.pt.trace.json.gz"));
}

TEST_F(RunOwnerTest, ARunOfSomebodyElseIsNot) {
  Write("w0.xplane.pb", TraceOf("victim-1"));
  Write("strobe.json", ManifestOf("victim-1"));
  Write("w0.SSTABLE", "derived");
  const absl::Status status = ReclaimRun(store_, "run", "uid-1").status();
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(MessageOf(status), HasSubstr("none of them from capture uid-1"));
  EXPECT_EQ(Names().size(), 3u);
}

TEST_F(RunOwnerTest, WhoAddsToARunTakesBackWhatIsTheirsAlone) {
  // The victim's capture has not published its manifest yet; uid-1 was faster.
  Write("w0.xplane.pb", TraceOf("victim-1"));
  Write("w0.SSTABLE", "derived");
  Write("ALL_HOSTS.op_stats_v2.pb", "derived");
  Write("notes.txt", "of a person");
  Write("x.xplane.pb", TraceOf("uid-1"));
  Write("x.SSTABLE", "derived");
  Write("strobe.json", ManifestOf("uid-1"));
  const auto done = ReclaimRun(store_, "run", "uid-1");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->deleted, 3u);
  EXPECT_EQ(done->left, 4u);
  EXPECT_THAT(Names(),
              ElementsAre("ALL_HOSTS.op_stats_v2.pb", "notes.txt", "w0.SSTABLE", "w0.xplane.pb"));
}

TEST_F(RunOwnerTest, TracesWithoutAStrobePlaneBelongToNobodyHere) {
  Write("w0.xplane.pb", FakeTrace(0, 1000).SerializeAsString());
  Write("w1.xplane.pb", "");
  Write("w2.xplane.pb", std::string(100, '\x0a'));
  EXPECT_TRUE(absl::IsPermissionDenied(ReclaimRun(store_, "run", "uid-1").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReclaimRun(store_, "run", "").status()));
}

TEST_F(RunOwnerTest, WhatCannotBeReadIsNotDeleted) {
  Write("w0.xplane.pb", TraceOf("uid-1"));
  bucket_.before = [](const std::string& call) {
    return call == "read" ? absl::PermissionDeniedError("write only") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsPermissionDenied(ReclaimRun(store_, "run", "uid-1").status()));
  EXPECT_THAT(Names(), ElementsAre("w0.xplane.pb"));
}

TEST_F(RunOwnerTest, AManifestIsWrittenOnceAndNeverOver) {
  ASSERT_TRUE(PublishManifest(store_, "run", ManifestOf("uid-1")).ok());
  EXPECT_TRUE(PublishManifest(store_, "run", ManifestOf("uid-1")).ok()) << "a repeated call";
  const absl::Status other = PublishManifest(store_, "run", ManifestOf("uid-2"));
  EXPECT_TRUE(absl::IsAlreadyExists(other));
  EXPECT_THAT(MessageOf(other), HasSubstr("to capture uid-1"));
  const absl::Status again = PublishManifest(store_, "run", ManifestOf("uid-1") + " ");
  EXPECT_TRUE(absl::IsAlreadyExists(again));
  EXPECT_THAT(MessageOf(again), HasSubstr("belongs to this capture"));
  EXPECT_EQ(bucket_.Bytes(storage::ManifestKey("run")), ManifestOf("uid-1"));
}

// Regression: the folder's own object made reclaiming end with INTERNAL.
TEST_F(RunOwnerTest, KeysThatAreNoFilesChangeNothing) {
  for (const std::string& key : OddKeys("run")) ASSERT_TRUE(storage::PutText(store_, key, "").ok());
  bucket_.strays = OddKeys("run");
  Write("w0.xplane.pb", TraceOf("uid-1"));
  Write("w0.SSTABLE", "derived");
  Write("ALL_HOSTS.op_stats.pb", "derived");
  Write("strobe.json", ManifestOf("uid-1"));
  const auto done = ReclaimRun(store_, "run", "uid-1");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->deleted, 4u);
  EXPECT_EQ(done->left, 0u);
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_EQ(ReclaimRun(store_, "run", "uid-1")->deleted, 0u);
}

TEST_F(RunOwnerTest, AFolderThatAConsoleMadeIsFree) {
  Write("", "");
  EXPECT_EQ(*storage::ClaimRun(store_, "run", "uid-1"), "run");
}

TEST_F(RunOwnerTest, AManifestOfAnotherToolStays) {
  Write("strobe.json", "not even JSON");
  EXPECT_TRUE(absl::IsAlreadyExists(PublishManifest(store_, "run", ManifestOf("uid-1"))));
  EXPECT_EQ(bucket_.Bytes(storage::ManifestKey("run")), "not even JSON");
}

TEST_F(RunOwnerTest, AReportIsWrittenOnceAndGoesWithItsCapture) {
  const std::string report = R"({"format":1,"captureId":"uid-1","workers":[{"worker":"w0"}]})";
  Write("w0.xplane.pb", TraceOf("uid-1"));
  ASSERT_TRUE(PublishReport(store_, "run", report).ok());
  EXPECT_TRUE(PublishReport(store_, "run", report).ok()) << "a repeated call";
  EXPECT_TRUE(absl::IsAlreadyExists(PublishReport(store_, "run", "{}")));
  EXPECT_EQ(bucket_.Bytes(storage::ReportKey("run")), report);
  EXPECT_EQ(ReclaimRun(store_, "run", "uid-1")->left, 0u);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(RunOwnerTest, AReportOfSomebodyElseStays) {
  for (const char* text : {R"({"captureId":"uid-2"})", R"({"captureId":["uid-1"]})", "[[[[", "7"}) {
    Write("w0.xplane.pb", TraceOf("uid-1"));
    Write("report.json", text);
    EXPECT_EQ(ReclaimRun(store_, "run", "uid-1")->left, 1u) << text;
    EXPECT_THAT(Names(), ElementsAre("report.json"));
  }
}

TEST_F(RunOwnerTest, AnAnswerThatWasLostIsNoConflict) {
  bool lost = false;
  bucket_.after = [&](const std::string& call) {
    if (call != "put" || std::exchange(lost, true)) return absl::OkStatus();
    return absl::UnavailableError("the answer was lost");
  };
  EXPECT_FALSE(PublishManifest(store_, "run", ManifestOf("uid-1")).ok());
  EXPECT_TRUE(PublishManifest(store_, "run", ManifestOf("uid-1")).ok());
}

TEST_F(RunOwnerTest, EvidenceIsReclaimedWithItsRun) {
  v1::EvidenceFile file;
  file.set_name("0.a.stacks");
  file.set_content("Thread 1");
  EXPECT_TRUE(PutEvidenceFile(store_, "run", "llm-0", file).ok());
  file.set_content("again");
  EXPECT_TRUE(PutEvidenceFile(store_, "run", "llm-0", file).ok()) << "the first one stays";
  EXPECT_EQ(*storage::GetText(store_, storage::EvidenceFileKey("run", "llm-0", "0.a.stacks"), 100),
            "Thread 1");
  const std::string evidence = R"({"format": 1, "captureId": "uid-1"})";
  EXPECT_TRUE(PublishEvidence(store_, "run", evidence).ok());
  EXPECT_TRUE(PublishEvidence(store_, "run", evidence).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(PublishEvidence(store_, "run", "{}")));
  Write("strobe.json", ManifestOf("uid-1"));
  EXPECT_TRUE(absl::IsPermissionDenied(ReclaimRun(store_, "run", "uid-2").status()));
  EXPECT_EQ(ReclaimRun(store_, "run", "uid-1")->left, 0u);
  EXPECT_THAT(Names(), IsEmpty());
}

}  // namespace
}  // namespace strobe::service
