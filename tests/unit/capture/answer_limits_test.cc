#include "capture/answer_limits.h"

#include <gmock/gmock.h>

#include <limits>

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::capture {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

bool IsValid(const std::string& text) { return CutUtf8(text, text.size()) == text; }

TEST(BoundAnswer, ErrorsKeepTheirCodeAndGetValidWords) {
  const absl::Status status =
      BoundError(absl::UnavailableError("\xff" + std::string(1'000'000, 'x')));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_TRUE(IsValid(MessageOf(status)));
  EXPECT_LE(status.message().size(), 1024u);
  EXPECT_TRUE(BoundError(absl::OkStatus()).ok());
}

TEST(BoundAnswer, ReportsAreBoundedInEveryField) {
  v1::Report report;
  const std::string text = std::string(100'000, 'x') + "\xc3";
  report.set_state(v1::DONE);
  report.set_outcome(v1::OK);
  for (std::string* field :
       {report.mutable_message(), report.mutable_url(), report.mutable_sha256(),
        report.mutable_capture_id(), report.mutable_plan()->mutable_logdir()})
    *field = text;
  for (int i = 0; i < 1000; ++i) {
    report.add_planes(text.substr(0, 2000));
    report.add_notes(text.substr(0, 2000));
    v1::ProcessReport& process = *report.add_processes();
    process.set_message(text.substr(0, 2000));
    process.set_note(text);
    process.set_stop_took_ns(-kHuge);
    (*report.mutable_dropped_events())[std::to_string(i)] = 1;
  }
  report.set_bytes(std::numeric_limits<std::uint64_t>::max());
  BoundAnswer(report);
  EXPECT_LT(report.ByteSizeLong(), kMaxAnswerBytes);
  EXPECT_EQ(report.planes_size(), 32);
  EXPECT_EQ(report.processes_size(), 64);
  EXPECT_TRUE(IsValid(report.processes(0).note()));
  EXPECT_EQ(report.processes(0).stop_took_ns(), 0);
  EXPECT_TRUE(IsValid(report.message()));
  EXPECT_EQ(report.outcome(), v1::OK);
}

TEST(BoundAnswer, TimesCanBeCalculatedWith) {
  for (const std::int64_t odd : {kHuge, -kHuge}) {
    v1::Report report;
    report.set_started_ns(odd);
    report.set_stopped_ns(-odd);
    v1::CapturePlan& plan = *report.mutable_plan();
    plan.set_instant_ns(odd);
    plan.set_guard_ns(-odd);
    plan.set_duration_ns(odd);
    plan.set_deadline_ns(odd);
    plan.set_clock_offset_ns(odd);
    plan.set_clock_error_ns(odd);
    BoundAnswer(report);
    std::int64_t sum = 0;
    EXPECT_FALSE(__builtin_add_overflow(plan.instant_ns() - plan.clock_offset_ns(),
                                        plan.duration_ns() + plan.guard_ns(), &sum));
    EXPECT_FALSE(__builtin_sub_overflow(report.started_ns() - plan.clock_offset_ns(),
                                        -2 * kMaxOffsetNs, &sum));
    v1::DescribeResponse description;
    description.set_lead_ns(odd);
    description.set_wake_lateness_ns(odd);
    BoundAnswer(description);
    EXPECT_LE(description.lead_ns(), Nanos(std::chrono::minutes(1)).count());
    EXPECT_GE(description.lead_ns(), 0);
  }
}

TEST(BoundAnswer, AnOutcomeThatNobodyKnowsIsNoSuccess) {
  v1::Report report;
  report.set_state(v1::DONE);
  for (const int number : {9999, -1, 0}) {
    report.set_outcome(static_cast<v1::Outcome>(number));
    report.set_message("the worker's own words");
    BoundAnswer(report);
    EXPECT_EQ(report.outcome(), v1::VERSION_MISMATCH);
    EXPECT_THAT(report.message(), HasSubstr(std::to_string(number)));
    EXPECT_THAT(report.message(), HasSubstr("the worker's own words"));
  }
  v1::ArmResponse refused;
  refused.set_refusal(v1::OK);
  BoundAnswer(refused);
  EXPECT_EQ(refused.refusal(), v1::VERSION_MISMATCH);
}

TEST(BoundAnswer, WhatASidecarReallySendsStaysAsItIs) {
  v1::Report report;
  report.set_capture_id("uid-1");
  report.set_state(v1::RECORDING);
  report.mutable_plan()->set_instant_ns(1'790'000'000'000'000'000);
  report.mutable_plan()->set_clock_offset_ns(-1'700'000'000'000'000'000);  // 54 years.
  report.mutable_plan()->set_clock_error_ns(-1);
  report.add_processes()->set_outcome(v1::OK);
  const std::string before = report.SerializeAsString();
  BoundAnswer(report);
  EXPECT_EQ(report.SerializeAsString(), before);
}

TEST(BoundAnswer, EvidenceIsBoundedAndItsNamesArePathsParts) {
  v1::ReadEvidenceResponse response;
  for (int i = 0; i < 5000; ++i) response.add_files()->set_name("../../x/" + std::string(300, 'n'));
  for (int i = 0; i < 100; ++i) response.add_notes(std::string(2000, 'x') + "\xc3");
  response.set_looked_at_ns(kHuge);
  BoundAnswer(response);
  EXPECT_EQ(response.files_size(), 4096);
  EXPECT_LE(response.files(0).name().size(), 128u);
  EXPECT_EQ(response.files(0).name().find('/'), std::string::npos);
  EXPECT_NE(response.files(0).name()[0], '.');
  EXPECT_EQ(response.notes_size(), 64);
  EXPECT_TRUE(IsValid(response.notes(0)));
  EXPECT_LE(response.looked_at_ns(), kMaxTimeNs);
}

}  // namespace
}  // namespace strobe::capture
