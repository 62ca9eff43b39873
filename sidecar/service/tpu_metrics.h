// What the TPUs of a worker do, as libtpu tells it in the program that uses them. The sidecar shows
// it as metrics, so that alerts on them can start captures.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tpu::monitoring::runtime {
class MetricResponse;
}

namespace strobe::service {

// By libtpu's number of the chip or core. It counts duty cycles by chips and the rest by cores,
// where a chip has two.
using TpuValues = std::map<std::int64_t, double>;

struct TpuReading {
  TpuValues duty_cycle{};                   // Percent of the time in which the chip computed.
  TpuValues memory_used{}, memory_total{};  // Bytes.
  TpuValues queued{};                       // Programs that wait for the core.
};

// The values in an answer of libtpu; at most 64, and none that is no amount. Pure.
TpuValues TpuValuesOf(const tpu::monitoring::runtime::MetricResponse& answer);

// Safe for concurrent use.
class TpuMetrics {
 public:
  // `address` is host:port; empty if there are no TPUs. `clock` must outlive this object.
  TpuMetrics(const Clock& clock, std::string address);
  ~TpuMetrics();

  // Asks libtpu, unless it was asked in the last five seconds. Takes a second at most. What libtpu
  // does not tell is empty: no program uses the TPUs, or its version does not have that metric.
  TpuReading Read();

 private:
  struct Connection;

  const Clock& clock_;
  const std::string address_;
  Mutex mutex_;
  std::unique_ptr<Connection> connection_ ABSL_GUARDED_BY(mutex_);
  std::optional<MonoTime> read_at_ ABSL_GUARDED_BY(mutex_);
  TpuReading reading_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::service
