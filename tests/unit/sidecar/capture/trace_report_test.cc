#include "sidecar/capture/trace_report.h"

#include <gmock/gmock.h>

#include "sidecar/capture/trace_file.h"

namespace strobe::session {
namespace {

using testing::ElementsAre;

std::vector<std::string> MessagesOf(const v1::Report& report) {
  std::vector<std::string> messages;
  for (const v1::Report& worker : report.workers()) messages.push_back(worker.message());
  return messages;
}

TEST(EndUndelivered, OnlyWorkersWithoutAResultOfTheirOwnGetTheOutcome) {
  v1::Report report;
  report.set_state(v1::UPLOADING);
  const auto add = [&](Outcome outcome, std::string_view message, std::uint64_t bytes,
                       const std::string& url) {
    v1::Report& worker = *report.add_workers();
    if (outcome != Outcome::kUnknown) SetOutcome(outcome, message, worker);
    worker.set_bytes(bytes);
    worker.set_url(url);
  };
  add(Outcome::kEventsDropped, "stored", 10, "file:///logs/0");
  add(Outcome::kLateStart, "recorded", 10, "");
  add(Outcome::kNoSource, "had nothing to record", 0, "");
  add(Outcome::kUnknown, "", 0, "");
  EndUndelivered(Outcome::kWorkerLost, "lost", report);
  EXPECT_EQ(report.outcome(), v1::WORKER_LOST);
  EXPECT_THAT(MessagesOf(report), ElementsAre("stored", "lost", "had nothing to record", "lost"));
  EXPECT_EQ(report.workers(1).outcome(), v1::WORKER_LOST);
  EXPECT_EQ(report.workers(2).outcome(), v1::NO_SOURCE);
  EXPECT_EQ(report.state(), v1::DONE);
  for (const v1::Report& worker : report.workers()) EXPECT_EQ(worker.state(), v1::DONE);
}

TEST(EndUndelivered, AReportWithoutWorkersGetsTheOutcome) {
  v1::Report report;
  EndUndelivered(Outcome::kCancelled, "somebody cancelled it", report);
  EXPECT_EQ(report.outcome(), v1::CANCELLED);
  EXPECT_EQ(report.message(), "somebody cancelled it");
  EXPECT_EQ(report.state(), v1::DONE);
}

}  // namespace
}  // namespace strobe::session
