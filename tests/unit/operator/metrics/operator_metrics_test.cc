#include "operator/metrics/operator_metrics.h"

#include <gmock/gmock.h>

namespace strobe::metrics {
namespace {

using std::chrono::minutes;
using testing::HasSubstr;
using testing::Not;

TEST(OperatorMetrics, HasTheSeriesOfBoundedLabelsBeforeTheFirstEvent) {
  const std::string text = OperatorMetrics().Render();
  for (const char* series : {
           R"(strobe_enrollments_total{result="ok"} 0)",
           R"(strobe_enrollments_total{result="denied"} 0)",
           R"(strobe_enrollments_total{result="invalid"} 0)",
           R"(strobe_enrollments_total{result="failed"} 0)",
           R"(strobe_refused_peers_total{reason="handshake",server="enrollment"} 0)",
           R"(strobe_refused_peers_total{reason="untrusted",server="worker"} 0)",
           R"(strobe_refused_peers_total{reason="wrong_name",server="worker"} 0)",
       })
    EXPECT_THAT(text, HasSubstr(series));
}

TEST(OperatorMetrics, PendingRequestsOfANamespaceReturnToZero) {
  OperatorMetrics metrics;
  metrics.PendingRequests({{"ml", {2, minutes(5)}}});
  EXPECT_THAT(metrics.Render(), HasSubstr(R"(strobe_pending_requests{namespace="ml"} 2)"));
  EXPECT_THAT(metrics.Render(),
              HasSubstr(R"(strobe_oldest_pending_request_age_seconds{namespace="ml"} 300)"));
  metrics.PendingRequests({{"other", {1, minutes(1)}}});
  EXPECT_THAT(metrics.Render(), HasSubstr(R"(strobe_pending_requests{namespace="ml"} 0)"));
  EXPECT_THAT(metrics.Render(),
              HasSubstr(R"(strobe_oldest_pending_request_age_seconds{namespace="ml"} 0)"));
}

TEST(OperatorMetrics, WhatAReportDoesNotKnowIsNotObserved) {
  OperatorMetrics metrics;
  objects::ProfileRequest request;
  request.ns = "ml";
  capture::AttemptResult result;
  result.report = {.step_seconds = 0.2, .straggler_seconds = 0};
  capture::AttemptProgress progress;
  progress.result = std::make_shared<const capture::AttemptResult>(result);
  metrics.AttemptEnded(request, progress);
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr(R"(strobe_capture_step_seconds_sum{namespace="ml"} 0.2)"));
  EXPECT_THAT(text,
              HasSubstr(R"(strobe_capture_straggler_seconds_bucket{namespace="ml",le="0"} 1)"));
  EXPECT_THAT(text, Not(HasSubstr("strobe_capture_exposed_communication_ratio_count")));
}

TEST(OperatorMetrics, TheAuthorityHasTimesOnlyOnceThereIsOne) {
  OperatorMetrics metrics;
  EXPECT_THAT(metrics.Render(), Not(HasSubstr("strobe_authority_expiry_timestamp_seconds ")));
  metrics.NewestAuthority(WallTime{std::chrono::seconds(1000)},
                          WallTime{std::chrono::seconds(5000)});
  EXPECT_THAT(metrics.Render(), HasSubstr("strobe_authority_issued_timestamp_seconds 1000"));
  EXPECT_THAT(metrics.Render(), HasSubstr("strobe_authority_expiry_timestamp_seconds 5000"));
}

TEST(OperatorMetrics, TheLeaderNamesItsLease) {
  OperatorMetrics metrics;
  metrics.Leading(true, "strobe-system", "strobe-operator");
  EXPECT_THAT(metrics.Render(),
              HasSubstr(R"(leader_election_master_status{lease_namespace="strobe-system",)"
                        R"(name="strobe-operator"} 1)"));
}

TEST(OperatorMetrics, VerdictsAreCountedByClassAndConfidence) {
  OperatorMetrics metrics;
  objects::ProfileRequest request;
  request.ns = "ml";
  capture::AttemptResult result;
  capture::AttemptProgress progress;
  progress.result = std::make_shared<const capture::AttemptResult>(result);
  metrics.AttemptEnded(request, progress);
  EXPECT_THAT(metrics.Render(), Not(HasSubstr("strobe_stall_verdicts_total{")));
  result.stall.kind = "Host";
  result.stall.confidence = "Firm";
  progress.result = std::make_shared<const capture::AttemptResult>(result);
  metrics.AttemptEnded(request, progress);
  EXPECT_THAT(
      metrics.Render(),
      HasSubstr(R"(strobe_stall_verdicts_total{class="Host",confidence="Firm",namespace="ml"} 1)"));
}

}  // namespace
}  // namespace strobe::metrics
