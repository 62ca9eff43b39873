#include "sidecar/service/tpu_metrics.h"

#include <grpcpp/grpcpp.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "tpu/runtime_metrics.grpc.pb.h"

namespace strobe::service {
namespace {

namespace runtime = tpu::monitoring::runtime;

constexpr Nanos kReadAgainAfter = std::chrono::seconds(5),
                kMostForReading = std::chrono::seconds(1);
// The program is not trusted. A host has at most eight chips.
constexpr int kMaxAnswerBytes = 1 << 20;
constexpr std::size_t kMaxDevices = 64;
constexpr int kReconnectMs = 5000;

struct RuntimeMetric {
  const char* name;
  TpuValues TpuReading::*values;
};
constexpr RuntimeMetric kMetrics[] = {
    {"tpu.runtime.tensorcore.dutycycle.percent", &TpuReading::duty_cycle},
    {"tpu.runtime.hbm.memory.usage.bytes", &TpuReading::memory_used},
    {"tpu.runtime.hbm.memory.total.bytes", &TpuReading::memory_total},
    {"hlo.queue.size.gauge", &TpuReading::queued},
};

std::optional<std::int64_t> NumberIn(const runtime::AttrValue& value) {
  if (value.has_int_attr()) return value.int_attr();
  const std::string& text = value.string_attr();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// A queue has several attributes, of which one is the device, as a text in newer versions.
std::optional<std::int64_t> DeviceIn(const runtime::AttrValue& value) {
  if (!value.has_kvlist_attr()) return NumberIn(value);
  for (const runtime::Attribute& attribute : value.kvlist_attr().attributes()) {
    if (attribute.key() == "device_ordinal") return NumberIn(attribute.value());
  }
  return std::nullopt;
}

}  // namespace

TpuValues TpuValuesOf(const runtime::MetricResponse& answer) {
  TpuValues values;
  for (const runtime::Metric& metric : answer.metric().metrics()) {
    const std::optional<std::int64_t> device = DeviceIn(metric.attribute().value());
    const runtime::Gauge& gauge = metric.gauge();
    const double value =
        gauge.has_as_int() ? static_cast<double>(gauge.as_int()) : gauge.as_double();
    if (device && *device >= 0 && std::isfinite(value) && value >= 0 && values.size() < kMaxDevices)
      values[*device] = value;
  }
  return values;
}

struct TpuMetrics::Connection {
  std::unique_ptr<runtime::RuntimeMetricService::Stub> stub;
};

TpuMetrics::TpuMetrics(const Clock& clock, std::string address)
    : clock_(clock), address_(std::move(address)) {}

TpuMetrics::~TpuMetrics() = default;

TpuReading TpuMetrics::Read() {
  if (address_.empty()) return {};
  MutexLock lock(&mutex_);
  const MonoTime now = clock_.MonoNow();
  if (read_at_ && now - *read_at_ < kReadAgainAfter) return reading_;
  read_at_ = now;
  reading_ = {};
  if (connection_ == nullptr) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // It is in this pod.
    connection_ = std::make_unique<Connection>(Connection{runtime::RuntimeMetricService::NewStub(
        grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments))});
  }
  const auto deadline = DeadlineIn(kMostForReading);
  for (const RuntimeMetric& metric : kMetrics) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    runtime::MetricRequest request;
    request.set_metric_name(metric.name);
    runtime::MetricResponse answer;
    if (connection_->stub->GetRuntimeMetric(&context, request, &answer).ok())
      reading_.*metric.values = TpuValuesOf(answer);
  }
  return reading_;
}

}  // namespace strobe::service
