#include "sidecar/service/sidecar_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "collector/base/outcome.h"
#include "collector/base/version.h"

namespace strobe {

struct SidecarMetrics::Families {
  prometheus::Registry registry;
  prometheus::Gauge& armed = prometheus::BuildGauge()
                                 .Name("strobe_sidecar_armed")
                                 .Help("1 while a capture holds the worker.")
                                 .Register(registry)
                                 .Add({});
  prometheus::Family<prometheus::Counter>& captures =
      prometheus::BuildCounter()
          .Name("strobe_sidecar_captures_total")
          .Help("Captures of this worker that ended, by cause.")
          .Register(registry);
  prometheus::Counter& upload_bytes = prometheus::BuildCounter()
                                          .Name("strobe_sidecar_upload_bytes_total")
                                          .Help("Bytes of traces written to logdirs.")
                                          .Register(registry)
                                          .Add({});
  prometheus::Family<prometheus::Gauge>& build_info = prometheus::BuildGauge()
                                                          .Name("strobe_build_info")
                                                          .Help("Constant 1 with the version.")
                                                          .Register(registry);
};

SidecarMetrics::SidecarMetrics() : families_(std::make_unique<Families>()) {
  families_->build_info.Add({{"version", kVersion}}).Set(1);
}

SidecarMetrics::~SidecarMetrics() = default;

void SidecarMetrics::CaptureEnded(const v1::Report& report) {
  families_->captures.Add({{"cause", std::string(Name(static_cast<Outcome>(report.outcome())))}})
      .Increment();
  if (!report.url().empty()) {
    families_->upload_bytes.Increment(static_cast<double>(report.bytes()));
  }
}

std::string SidecarMetrics::Render(const std::string& holder) {
  families_->armed.Set(holder.empty() ? 0 : 1);
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace strobe
