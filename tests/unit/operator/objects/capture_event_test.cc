#include "operator/objects/capture_event.h"

#include <gmock/gmock.h>

namespace strobe::objects {
namespace {

using namespace std::chrono_literals;

class CaptureEventTest : public testing::Test {
 protected:
  CaptureEventTest() {
    request_.ns = "team";
    request_.name = "look";
    request_.uid = "u-1";
    request_.capture.logdir = "s3://b/logs";
    request_.capture.duration = 2s;
    status_.attempt = 1;
    status_.matched = status_.ok = 2;
    status_.run = "s3://b/logs/plugins/profile/look";
    status_.report = "rank 1 holds up 1 other";
    status_.start_time = WallTime{1000s};
    status_.conditions = {
        {.type = "Synchronized", .status = kube::ConditionStatus::kTrue, .message = "skew 9us"},
        {.type = "Succeeded",
         .status = kube::ConditionStatus::kTrue,
         .reason = "AllWorkersOk",
         .message = "2 of 2"}};
  }
  const WallTime now_{2000s};
  ProfileRequest request_;
  RequestStatus status_;
};

TEST_F(CaptureEventTest, HasTheAttributesOfCloudEventsAndWhatTheStatusKnows) {
  const nlohmann::json event = CaptureEvent(request_, status_, "Succeeded", "cluster-a", now_);
  EXPECT_EQ(event["specversion"], "1.0");
  EXPECT_EQ(event["id"], "u-1.ended");
  EXPECT_EQ(event["type"], "dev.strobe.capture.succeeded");
  EXPECT_EQ(event["source"], "cluster-a");
  EXPECT_EQ(event["subject"], "team/look");
  const nlohmann::json& data = event["data"];
  EXPECT_EQ(data["reason"], "AllWorkersOk");
  EXPECT_EQ(data["synchronized"], true);
  EXPECT_EQ(data["workers"]["ok"], 2);
  EXPECT_EQ(data["report"], "rank 1 holds up 1 other");
  EXPECT_FALSE(data.contains("viewer")) << "what is not known is left out";
}

TEST_F(CaptureEventTest, AnAnnotationCoversWhatWasRecorded) {
  nlohmann::json annotation = GrafanaAnnotation(request_, status_, "Succeeded", "cluster-a", now_);
  EXPECT_EQ(annotation["time"], 1'000'000);
  EXPECT_EQ(annotation["timeEnd"], 1'002'000);
  EXPECT_EQ(annotation["tags"], (nlohmann::json{"strobe", "cluster-a", "team", "Succeeded"}));
  EXPECT_EQ(annotation["text"], "Capture team/look: Succeeded: 2 of 2\nrank 1 holds up 1 other");
  status_.attempt = 1;
  status_.recorded = 500ms;
  annotation = GrafanaAnnotation(request_, status_, "Succeeded", "cluster-a", now_);
  EXPECT_EQ(annotation["timeEnd"], 1'000'500) << "it was ended early";
  status_.start_time.reset();
  annotation = GrafanaAnnotation(request_, status_, "Failed", "cluster-a", now_);
  EXPECT_EQ(annotation["time"], 2'000'000);
  EXPECT_EQ(annotation["timeEnd"], 2'000'000);
}

}  // namespace
}  // namespace strobe::objects
