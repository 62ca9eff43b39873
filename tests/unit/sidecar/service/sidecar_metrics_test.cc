#include "sidecar/service/sidecar_metrics.h"

#include <gmock/gmock.h>

namespace strobe::service {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(SidecarMetrics, CountsCapturesAndBytes) {
  SidecarMetrics metrics;
  v1::Report report;
  report.set_outcome(v1::OK);
  report.set_url("file:///x");
  report.set_bytes(1000);
  (*report.mutable_dropped_events())["ring"] = 3;
  metrics.CaptureEnded(report);
  report.set_outcome(v1::UPLOAD_DENIED);
  report.clear_url();
  metrics.CaptureEnded(report);
  metrics.UploadRetried();
  metrics.KeptTraceDropped();
  const std::string text = metrics.Render({.holder = "some capture",
                                           .spool_bytes = 17,
                                           .spool_age = std::chrono::minutes(2),
                                           .agent_connected = true});
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_captures_total{cause=\"Ok\"} 1"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_captures_total{cause=\"UploadDenied\"} 1"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_upload_bytes_total 1000"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_armed 1"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_agent_connected 1"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_dropped_events_total{reason=\"ring\"} 6"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_dropped_events_total{reason=\"device\"} 0"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_spool_bytes 17"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_spool_age_seconds 120"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_upload_retries_total 1"));
  EXPECT_THAT(text, HasSubstr("strobe_sidecar_kept_traces_total{result=\"dropped\"} 1"));
  EXPECT_THAT(metrics.Render({}), HasSubstr("strobe_sidecar_armed 0"));
}

TEST(SidecarMetrics, CountsCollectivesByFunction) {
  SidecarMetrics metrics;
  metrics.Render({.collectives = {{"AllReduce", 3}}});
  EXPECT_THAT(metrics.Render({.collectives = {{"AllReduce", 5}, {"Send", 1}}}),
              AllOf(HasSubstr("strobe_sidecar_collectives_total{call=\"AllReduce\"} 5"),
                    HasSubstr("strobe_sidecar_collectives_total{call=\"Send\"} 1")));
}

TEST(SidecarMetrics, ShowsTpusAsLongAsTheyAreTold) {
  SidecarMetrics metrics;
  TpuReading tpus{.duty_cycle = {{0, 12.5}, {1, 90}}, .queued = {{3, 2}}};
  EXPECT_THAT(metrics.Render({.tpus = tpus}),
              AllOf(HasSubstr("strobe_sidecar_tpu_duty_cycle_percent{device=\"0\"} 12.5"),
                    HasSubstr("strobe_sidecar_tpu_queued_programs{device=\"3\"} 2")));
  tpus.duty_cycle.erase(0);
  EXPECT_THAT(metrics.Render({.tpus = tpus}),
              AllOf(Not(HasSubstr("strobe_sidecar_tpu_duty_cycle_percent{device=\"0\"}")),
                    HasSubstr("strobe_sidecar_tpu_duty_cycle_percent{device=\"1\"} 90")));
  EXPECT_THAT(metrics.Render({}), Not(HasSubstr("_tpu_duty_cycle_percent{")));
}

TEST(SidecarMetrics, HasTheSeriesOfRefusalsBeforeTheFirstOne) {
  SidecarMetrics metrics;
  const std::string text = metrics.Render({});
  for (const char* reason : {"handshake", "no_certificate", "untrusted", "expired", "wrong_name"}) {
    EXPECT_THAT(text, HasSubstr(std::string("strobe_sidecar_refused_peers_total{reason=\"") +
                                reason + "\"} 0"));
  }
}

}  // namespace
}  // namespace strobe::service
