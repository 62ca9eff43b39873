#include "sidecar/service/sidecar_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <utility>
#include <vector>

#include "common/base/guard.h"
#include "common/base/version.h"
#include "common/protocol/outcome.h"
#include "common/tls/peer.h"
#include "sidecar/capture/trace_report.h"

namespace strobe::service {

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
  prometheus::Counter& upload_retries = prometheus::BuildCounter()
                                            .Name("strobe_sidecar_upload_retries_total")
                                            .Help("Requests to stores that were retried.")
                                            .Register(registry)
                                            .Add({});
  prometheus::Gauge& spool_bytes = prometheus::BuildGauge()
                                       .Name("strobe_sidecar_spool_bytes")
                                       .Help("Bytes of traces that are waiting for upload.")
                                       .Register(registry)
                                       .Add({});
  prometheus::Gauge& spool_age =
      prometheus::BuildGauge()
          .Name("strobe_sidecar_spool_age_seconds")
          .Help("Time that the oldest trace has waited for upload; 0 when none is waiting.")
          .Register(registry)
          .Add({});
  prometheus::Gauge& agent_connected =
      prometheus::BuildGauge()
          .Name("strobe_sidecar_agent_connected")
          .Help("1 while a program with the agent is running in this sidecar's pod.")
          .Register(registry)
          .Add({});
  prometheus::Family<prometheus::Counter>& dropped =
      prometheus::BuildCounter()
          .Name("strobe_sidecar_dropped_events_total")
          .Help("Events that captures could not keep, by reason (ring, device).")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& kept =
      prometheus::BuildCounter()
          .Name("strobe_sidecar_kept_traces_total")
          .Help(
              "Traces kept in the spool after their capture's deadline, by result (arrived, "
              "dropped).")
          .Register(registry);
  prometheus::Counter& kept_arrived = kept.Add({{"result", "arrived"}});
  prometheus::Counter& kept_dropped = kept.Add({{"result", "dropped"}});
  prometheus::Family<prometheus::Counter>& refused_peers =
      prometheus::BuildCounter()
          .Name("strobe_sidecar_refused_peers_total")
          .Help("Connections to the worker port that were refused, by reason.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& kineto_refused =
      prometheus::BuildCounter()
          .Name("strobe_sidecar_kineto_refused_total")
          .Help(
              "Datagrams to Kineto's daemon that were not used, by reason (forged, full, garbage, "
              "late).")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& collectives =
      prometheus::BuildCounter()
          .Name("strobe_sidecar_collectives_total")
          .Help(
              "Calls of NCCL or RCCL in this pod, by function (AllReduce, ..., Send, Recv, Other).")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& tpu_duty_cycle =
      prometheus::BuildGauge()
          .Name("strobe_sidecar_tpu_duty_cycle_percent")
          .Help("Share of the time in which a TPU computed, by libtpu, which numbers its chips.")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& tpu_memory_used =
      prometheus::BuildGauge()
          .Name("strobe_sidecar_tpu_memory_used_bytes")
          .Help("Memory in use on a TPU, by libtpu, which numbers its cores.")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& tpu_memory_total =
      prometheus::BuildGauge()
          .Name("strobe_sidecar_tpu_memory_total_bytes")
          .Help("Memory of a TPU, by libtpu, which numbers its cores.")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& tpu_queued =
      prometheus::BuildGauge()
          .Name("strobe_sidecar_tpu_queued_programs")
          .Help("Programs that wait for a TPU, by libtpu, which numbers its cores.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& panics =
      prometheus::BuildCounter()
          .Name("strobe_sidecar_panics_total")
          .Help("Exceptions that ended a piece of work, by place. Each is a defect of Strobe.")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& build_info =
      prometheus::BuildGauge()
          .Name("strobe_build_info")
          .Help("Constant 1, with the version as a label.")
          .Register(registry);
  // The series of TPUs go when libtpu does not tell them any more.
  std::mutex tpu_mutex;
  std::vector<std::pair<prometheus::Family<prometheus::Gauge>*, prometheus::Gauge*>> of_tpus;

  void Show(prometheus::Family<prometheus::Gauge>& family, prometheus::Gauge& gauge, double value) {
    gauge.Set(value);
    of_tpus.emplace_back(&family, &gauge);
  }
  void ShowTpus(const TpuReading& tpus) {
    for (const auto& [family, gauge] : std::exchange(of_tpus, {})) family->Remove(gauge);
    for (const auto& [device, value] : tpus.duty_cycle)
      Show(tpu_duty_cycle, tpu_duty_cycle.Add({{"device", std::to_string(device)}}), value);
    for (const auto& [device, value] : tpus.memory_used)
      Show(tpu_memory_used, tpu_memory_used.Add({{"device", std::to_string(device)}}), value);
    for (const auto& [device, value] : tpus.memory_total)
      Show(tpu_memory_total, tpu_memory_total.Add({{"device", std::to_string(device)}}), value);
    for (const auto& [device, value] : tpus.queued)
      Show(tpu_queued, tpu_queued.Add({{"device", std::to_string(device)}}), value);
  }
};

SidecarMetrics::SidecarMetrics() : families_(std::make_unique<Families>()) {
  // These series exist from the start, so that Prometheus sees the first event as an increase.
  for (const char* reason : {"ring", "device"}) families_->dropped.Add({{"reason", reason}});
  families_->refused_peers.Add({{"reason", "handshake"}});
  for (const PeerVerdict verdict : kRefusals)
    families_->refused_peers.Add({{"reason", std::string(Name(verdict))}});
  for (const char* where :
       {"capture", "worker", "http", "kept_traces", "digest", "enroll", "executor", "files",
        "flight_recorder", "job_guard", "kineto", "slow_work"})
    families_->panics.Add({{"where", where}});
  families_->build_info.Add({{"version", kVersion}}).Set(1);
}

SidecarMetrics::~SidecarMetrics() = default;

void SidecarMetrics::CaptureEnded(const v1::Report& report) {
  families_->captures.Add({{"cause", std::string(Name(static_cast<Outcome>(report.outcome())))}})
      .Increment();
  for (const v1::Report* worker : session::TraceReports(report)) {
    for (const auto& [reason, events] : worker->dropped_events())
      families_->dropped.Add({{"reason", reason}}).Increment(static_cast<double>(events));
    if (!worker->url().empty())
      families_->upload_bytes.Increment(static_cast<double>(worker->bytes()));
  }
}

void SidecarMetrics::UploadRetried() { families_->upload_retries.Increment(); }
void SidecarMetrics::KeptTraceArrived() { families_->kept_arrived.Increment(); }
void SidecarMetrics::KeptTraceDropped() { families_->kept_dropped.Increment(); }
void SidecarMetrics::PeerRefused(const std::string& reason) {
  families_->refused_peers.Add({{"reason", reason}}).Increment();
}

std::string SidecarMetrics::Render(const State& state) {
  for (const auto& [where, count] : CaughtExceptions()) {
    prometheus::Counter& counter = families_->panics.Add({{"where", where}});
    counter.Increment(static_cast<double>(count) - counter.Value());
  }
  for (const auto& [reason, count] : state.kineto_refused) {
    prometheus::Counter& counter = families_->kineto_refused.Add({{"reason", reason}});
    counter.Increment(static_cast<double>(count) - counter.Value());
  }
  for (const auto& [call, count] : state.collectives) {
    prometheus::Counter& counter = families_->collectives.Add({{"call", call}});
    counter.Increment(static_cast<double>(count) - counter.Value());
  }
  families_->armed.Set(state.holder.empty() ? 0 : 1);
  families_->spool_bytes.Set(static_cast<double>(state.spool_bytes));
  families_->spool_age.Set(std::chrono::duration<double>(state.spool_age).count());
  families_->agent_connected.Set(state.agent_connected ? 1 : 0);
  std::lock_guard<std::mutex> lock(families_->tpu_mutex);
  families_->ShowTpus(state.tpus);
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace strobe::service
