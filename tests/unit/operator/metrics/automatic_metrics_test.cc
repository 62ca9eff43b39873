#include "operator/metrics/automatic_metrics.h"

#include <gmock/gmock.h>

#include "operator/metrics/operator_metrics.h"

namespace strobe::metrics {
namespace {

using testing::HasSubstr;

TEST(ReceiverMetrics, CountsWithBoundedLabels) {
  OperatorMetrics metrics;
  trigger::AlertReceiverObserver& receiver = metrics.receiver();
  EXPECT_THAT(metrics.Render(), HasSubstr(R"(strobe_alert_receiver_requests_total{code="401"} 0)"));
  for (const std::string_view reason : trigger::kAlertRefusals)
    EXPECT_THAT(metrics.Render(), HasSubstr("strobe_alert_receiver_refused_total{reason=\"" +
                                            std::string(reason) + "\"} 0"));
  receiver.Answered(503);
  receiver.Read(500);
  receiver.Read(20);
  receiver.Taken(3, 2);
  receiver.Refused("token");
  receiver.Dropped("truncated", 70);
  for (const char* line : {
           R"(strobe_alert_receiver_requests_total{code="503"} 1)",
           "strobe_alert_receiver_bytes_total 520",
           R"(strobe_alert_receiver_alerts_total{status="firing"} 3)",
           R"(strobe_alert_receiver_alerts_total{status="resolved"} 2)",
           R"(strobe_alert_receiver_refused_total{reason="token"} 1)",
           R"(strobe_alert_receiver_dropped_total{reason="truncated"} 70)",
           R"(strobe_alert_receiver_dropped_total{reason="invalid"} 0)",
       })
    EXPECT_THAT(metrics.Render(), HasSubstr(line));
}

}  // namespace
}  // namespace strobe::metrics
