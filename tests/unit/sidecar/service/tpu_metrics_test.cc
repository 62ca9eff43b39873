#include "sidecar/service/tpu_metrics.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "tests/fakes/simulated_time.h"
#include "tpu/runtime_metrics.grpc.pb.h"

namespace strobe::service {
namespace {

namespace runtime = tpu::monitoring::runtime;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// An answer as libtpu serializes it, written by the public protocol and not by our file.
runtime::MetricResponse Parsed(std::string_view bytes) {
  runtime::MetricResponse answer;
  EXPECT_TRUE(answer.ParseFromString(std::string(bytes)));
  return answer;
}

TEST(TpuValuesOf, ReadsWhatLibtpuWrites) {
  // metric { name: "d" metrics { attribute { key: "device-id" value { int_attr: 3 } }
  //          timestamp { seconds: 1 } gauge { as_double: 97.5 } } }
  using namespace std::string_literals;
  const std::string duty =
      "\x0a\x25\x0a\x01"
      "d\x1a\x20\x0a\x0f\x0a\x09"
      "device-id\x12\x02\x18\x03\x12\x02\x08\x01\x1a\x09\x09\x00\x00\x00\x00\x00\x60\x58\x40"s;
  EXPECT_THAT(TpuValuesOf(Parsed(duty)), ElementsAre(Pair(3, 97.5)));
}

void Add(runtime::MetricResponse& answer, std::int64_t device, double value) {
  runtime::Metric& metric = *answer.mutable_metric()->add_metrics();
  metric.mutable_attribute()->mutable_value()->set_int_attr(device);
  metric.mutable_gauge()->set_as_double(value);
}

TEST(TpuValuesOf, DevicesOfQueuesAreOneOfSeveralAttributes) {
  runtime::MetricResponse answer;
  runtime::Metric& metric = *answer.mutable_metric()->add_metrics();
  auto& list = *metric.mutable_attribute()->mutable_value()->mutable_kvlist_attr();
  list.add_attributes()->set_key("core_type");
  runtime::Attribute& device = *list.add_attributes();
  device.set_key("device_ordinal");
  device.mutable_value()->set_string_attr("2");
  metric.mutable_gauge()->set_as_int(5);
  EXPECT_THAT(TpuValuesOf(answer), ElementsAre(Pair(2, 5)));
  device.mutable_value()->set_int_attr(1);  // As older versions write it.
  EXPECT_THAT(TpuValuesOf(answer), ElementsAre(Pair(1, 5)));
  device.mutable_value()->set_string_attr("2x");
  EXPECT_THAT(TpuValuesOf(answer), IsEmpty());
}

TEST(TpuValuesOf, TakesAnyNumber) {
  runtime::MetricResponse answer;
  Add(answer, -1, 1);
  Add(answer, 1, -1);
  Add(answer, 2, std::numeric_limits<double>::quiet_NaN());
  Add(answer, 3, std::numeric_limits<double>::infinity());
  EXPECT_THAT(TpuValuesOf(answer), IsEmpty());
  for (int i = 0; i < 1000; ++i) Add(answer, i, 1);
  EXPECT_EQ(TpuValuesOf(answer).size(), 64u);
  EXPECT_THAT(TpuValuesOf({}), IsEmpty());
}

// Knows no queues, as older versions of libtpu.
class Libtpu final : public runtime::RuntimeMetricService::Service {
 public:
  grpc::Status GetRuntimeMetric(grpc::ServerContext*, const runtime::MetricRequest* request,
                                runtime::MetricResponse* answer) override {
    ++calls;
    if (request->metric_name() == "hlo.queue.size.gauge")
      return {grpc::StatusCode::NOT_FOUND, "no such metric"};
    Add(*answer, 0, request->metric_name() == "tpu.runtime.tensorcore.dutycycle.percent" ? 80 : 7);
    return grpc::Status::OK;
  }
  std::atomic<int> calls{0};
};

TEST(TpuMetrics, AreReadWhereTheyAreToldAndNotMoreOftenThanNeeded) {
  SimulatedTime clock;
  Libtpu libtpu;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&libtpu);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  TpuMetrics metrics(clock, "127.0.0.1:" + std::to_string(port));
  const TpuReading reading = metrics.Read();
  EXPECT_THAT(reading.duty_cycle, ElementsAre(Pair(0, 80)));
  EXPECT_THAT(reading.memory_used, ElementsAre(Pair(0, 7)));
  EXPECT_THAT(reading.queued, IsEmpty());
  const int calls = libtpu.calls;
  metrics.Read();
  EXPECT_EQ(libtpu.calls, calls);
  clock.Advance(std::chrono::seconds(6));
  metrics.Read();
  EXPECT_EQ(libtpu.calls, 2 * calls);
  server->Shutdown();
  EXPECT_THAT(metrics.Read().duty_cycle, ElementsAre(Pair(0, 80))) << "asked a moment ago";
  clock.Advance(std::chrono::seconds(6));
  EXPECT_THAT(metrics.Read().duty_cycle, IsEmpty()) << "the program has ended";
}

TEST(TpuMetrics, WithoutAnAddressThereAreNone) {
  SimulatedTime clock;
  EXPECT_THAT(TpuMetrics(clock, "").Read().duty_cycle, IsEmpty());
}

}  // namespace
}  // namespace strobe::service
