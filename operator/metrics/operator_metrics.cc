#include "operator/metrics/operator_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "collector/store/logdir.h"
#include "common/base/guard.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/text/safe_text.h"
#include "common/tls/peer.h"
#include "operator/metrics/admission_metrics.h"
#include "operator/metrics/automatic_metrics.h"
#include "operator/metrics/buckets.h"

namespace strobe::metrics {
namespace {

const prometheus::Histogram::BucketBoundaries kStepBuckets = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                              1,     3,     10,   30,   100, 300};
// 0 is a bucket of its own: captures without a straggler.
const prometheus::Histogram::BucketBoundaries kStragglerBuckets = {
    0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
const prometheus::Histogram::BucketBoundaries kRatioBuckets = {
    0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

const Histogram::BucketBoundaries kSkewBuckets = {1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3,
                                                  3e-3, 1e-2, 3e-2, 0.1,  0.3,  1,    10};
const Histogram::BucketBoundaries kStageBuckets = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1,
                                                   3,     10,    30,   100,  300, 1000};

// The buckets that client-go uses.
const Histogram::BucketBoundaries kQueueBuckets = {1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3,
                                                   0.01, 0.1,  1,    10,   100,  1000};

constexpr char kController[] = "profilerequest";

}  // namespace

struct ReportMetrics::Families {
  explicit Families(prometheus::Registry& of) : registry(of) {}

  prometheus::Registry& registry;
  prometheus::Family<prometheus::Histogram>& job_steps =
      prometheus::BuildHistogram()
          .Name("strobe_capture_step_seconds")
          .Help("Mean duration of a training step in a capture, if its traces have steps.")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& job_stragglers =
      prometheus::BuildHistogram()
          .Name("strobe_capture_straggler_seconds")
          .Help(
              "How much longer a training step is because of workers that hold up the others; 0 if "
              "it is known that there are none.")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& exposed_communication =
      prometheus::BuildHistogram()
          .Name("strobe_capture_exposed_communication_ratio")
          .Help(
              "Share of the recorded time in which devices communicated and computed nothing, "
              "averaged over a capture's workers.")
          .Register(registry);
};

ReportMetrics::ReportMetrics(prometheus::Registry& registry)
    : families_(std::make_unique<Families>(registry)) {}

ReportMetrics::~ReportMetrics() = default;

void ReportMetrics::Observe(const std::string& ns, const capture::JobReport& report) {
  if (report.step_seconds)
    families_->job_steps.Add({{"namespace", ns}}, kStepBuckets).Observe(*report.step_seconds);
  if (report.straggler_seconds)
    families_->job_stragglers.Add({{"namespace", ns}}, kStragglerBuckets)
        .Observe(*report.straggler_seconds);
  if (report.exposed_communication)
    families_->exposed_communication.Add({{"namespace", ns}}, kRatioBuckets)
        .Observe(*report.exposed_communication);
}

// The series of the work queue, with client-go's names.
struct QueueSeries {
  prometheus::Registry& registry;
  const std::map<std::string, std::string> queue_labels = {{"name", kController},
                                                           {"controller", kController}};
  Gauge& depth = BuildGauge()
                     .Name("workqueue_depth")
                     .Help("Keys that wait to be reconciled.")
                     .Register(registry)
                     .Add(queue_labels);
  Counter& adds = BuildCounter()
                      .Name("workqueue_adds_total")
                      .Help("Keys that were added to the queue.")
                      .Register(registry)
                      .Add(queue_labels);
  Counter& retries = BuildCounter()
                         .Name("workqueue_retries_total")
                         .Help("Keys that were added again after a failure.")
                         .Register(registry)
                         .Add(queue_labels);
  Histogram& wait = BuildHistogram()
                        .Name("workqueue_queue_duration_seconds")
                        .Help("Time that keys waited.")
                        .Register(registry)
                        .Add(queue_labels, kQueueBuckets);
  Histogram& work = BuildHistogram()
                        .Name("workqueue_work_duration_seconds")
                        .Help("Time that keys were processed.")
                        .Register(registry)
                        .Add(queue_labels, kQueueBuckets);
  Gauge& unfinished = BuildGauge()
                          .Name("workqueue_unfinished_work_seconds")
                          .Help("Sum of the times for which the current keys have been processed.")
                          .Register(registry)
                          .Add(queue_labels);
  Gauge& longest = BuildGauge()
                       .Name("workqueue_longest_running_processor_seconds")
                       .Help("Longest time for which a current key has been processed.")
                       .Register(registry)
                       .Add(queue_labels);
};

struct OperatorMetrics::Families {
  prometheus::Registry registry;
  Family<Counter>& captures =
      BuildCounter()
          .Name("strobe_captures_total")
          .Help("Captures that ended, by result (Succeeded, Failed, Cancelled).")
          .Register(registry);
  Gauge& active = BuildGauge()
                      .Name("strobe_captures_active")
                      .Help("Captures that are running now.")
                      .Register(registry)
                      .Add({});
  Family<Counter>& verdicts = BuildCounter()
                                  .Name("strobe_stall_verdicts_total")
                                  .Help(
                                      "Verdicts about jobs that seemed to stand still, by class "
                                      "(Host, Device, Silent, Gone, "
                                      "Mismatch, OtherBranch, Network, Progressing, Unknown) and "
                                      "confidence (Firm, Probably, "
                                      "CannotTell).")
                                  .Register(registry);
  Family<Counter>& attempts = BuildCounter()
                                  .Name("strobe_capture_attempts_total")
                                  .Help("Attempts that ended.")
                                  .Register(registry);
  Family<Counter>& outcomes = BuildCounter()
                                  .Name("strobe_worker_outcomes_total")
                                  .Help("Workers' captures that ended, by outcome.")
                                  .Register(registry);
  Family<Histogram>& skew =
      BuildHistogram()
          .Name("strobe_capture_start_skew_seconds")
          .Help("Largest difference between two workers' starts in an attempt.")
          .Register(registry);
  Family<Histogram>& clock_error =
      BuildHistogram()
          .Name("strobe_clock_error_seconds")
          .Help("Uncertainty of a worker's clock offset, one observation per worker.")
          .Register(registry);
  Family<Histogram>& stages = BuildHistogram()
                                  .Name("strobe_capture_stage_seconds")
                                  .Help(
                                      "Duration of a stage: preflight, arm, delay, record, "
                                      "collect, upload (slowest worker), publish.")
                                  .Register(registry);
  AdmissionMetrics admission{registry};
  ReportMetrics reports{registry};
  ScheduleRunMetrics schedules{registry};
  ReceiverMetrics receiver{registry};
  TriggerAlertMetrics triggers{registry};
  Family<Counter>& bytes = BuildCounter()
                               .Name("strobe_capture_bytes_total")
                               .Help("Bytes of traces written to logdirs, by the logdir's scheme.")
                               .Register(registry);
  Family<Counter>& reports_replaced =
      BuildCounter()
          .Name("strobe_worker_reports_replaced_total")
          .Help("Workers' reports that were replaced by newer ones before they were processed.")
          .Register(registry);
  Family<Gauge>& last_success = BuildGauge()
                                    .Name("strobe_last_success_timestamp_seconds")
                                    .Help("Unix time of the last capture that succeeded.")
                                    .Register(registry);
  Family<Gauge>& pending = BuildGauge()
                               .Name("strobe_pending_requests")
                               .Help("ProfileRequests whose first attempt has not begun.")
                               .Register(registry);
  Family<Gauge>& oldest_pending =
      BuildGauge()
          .Name("strobe_oldest_pending_request_age_seconds")
          .Help("Time since the oldest pending ProfileRequest was created; 0 when none is pending.")
          .Register(registry);
  Family<Gauge>& authority_issued =
      BuildGauge()
          .Name("strobe_authority_issued_timestamp_seconds")
          .Help("Unix time from which the newest certificate authority is valid.")
          .Register(registry);
  Family<Gauge>& authority_expiry =
      BuildGauge()
          .Name("strobe_authority_expiry_timestamp_seconds")
          .Help("Unix time at which the newest certificate authority expires.")
          .Register(registry);
  Gauge& process_start = BuildGauge()
                             .Name("process_start_time_seconds")
                             .Help("Unix time at which this process started.")
                             .Register(registry)
                             .Add({});
  Family<Gauge>& build_info = BuildGauge()
                                  .Name("strobe_build_info")
                                  .Help("Constant 1, with the version as a label.")
                                  .Register(registry);

  Family<Counter>& reconciles = BuildCounter()
                                    .Name("controller_runtime_reconcile_total")
                                    .Help("Reconciliations, by result.")
                                    .Register(registry);
  Family<Counter>& reconcile_errors = BuildCounter()
                                          .Name("controller_runtime_reconcile_errors_total")
                                          .Help("Reconciliations that failed and are retried.")
                                          .Register(registry);
  Family<Histogram>& reconcile_time = BuildHistogram()
                                          .Name("controller_runtime_reconcile_time_seconds")
                                          .Help("Duration of a reconciliation.")
                                          .Register(registry);
  // controller-runtime's metrics for terminal errors, panics and timeouts are left out, because
  // these do not exist here.
  Gauge& workers = BuildGauge()
                       .Name("controller_runtime_max_concurrent_reconciles")
                       .Help("Reconciliations that may run at once.")
                       .Register(registry)
                       .Add({{"controller", kController}});
  Gauge& active_workers = BuildGauge()
                              .Name("controller_runtime_active_workers")
                              .Help("Reconciliations that are running now.")
                              .Register(registry)
                              .Add({{"controller", kController}});
  QueueSeries queue{.registry = registry};
  Family<Counter>& requests = BuildCounter()
                                  .Name("rest_client_requests_total")
                                  .Help("Requests to the API server.")
                                  .Register(registry);
  Family<Histogram>& request_time = BuildHistogram()
                                        .Name("rest_client_request_duration_seconds")
                                        .Help("Duration of requests to the API server.")
                                        .Register(registry);
  Family<Counter>& notifications = BuildCounter()
                                       .Name("strobe_notifications_total")
                                       .Help(
                                           "Notifications of notify.url about captures that ended, "
                                           "by result (delivered, refused, undelivered, dropped).")
                                       .Register(registry);
  Family<Counter>& enrollments = BuildCounter()
                                     .Name("strobe_enrollments_total")
                                     .Help(
                                         "Sidecars that requested a certificate, by result (ok, "
                                         "denied, invalid, failed, limited).")
                                     .Register(registry);
  Family<Counter>& signs_refused =
      BuildCounter()
          .Name("strobe_signs_refused_total")
          .Help(
              "Reports of signs from sidecars that were refused before they were processed, by "
              "reason (unauthenticated, invalid, busy).")
          .Register(registry);
  Family<Counter>& refused_peers =
      BuildCounter()
          .Name("strobe_refused_peers_total")
          .Help("Connections refused because of the peer's identity, by server and reason.")
          .Register(registry);
  Family<Counter>& panics =
      BuildCounter()
          .Name("strobe_panics_total")
          .Help("Exceptions that ended a piece of work, by place. Each is a defect of Strobe.")
          .Register(registry);
  Family<Gauge>& leader = BuildGauge()
                              .Name("leader_election_master_status")
                              .Help("1 while this process leads.")
                              .Register(registry);
};

OperatorMetrics::OperatorMetrics() : families_(std::make_unique<Families>()) {
  families_->build_info.Add({{"version", kVersion}}).Set(1);
  families_->process_start.SetToCurrentTime();
  for (const char* result : {"success", "requeue_after", "requeue", "error"}) {
    families_->reconciles.Add({{"controller", kController}, {"result", result}});
  }
  families_->reconcile_errors.Add({{"controller", kController}});
  // The series below exist from the start, so that Prometheus sees the first event as an increase
  // from 0. The series of namespaces cannot: which namespaces there are is not known.
  for (const char* result : {"delivered", "refused", "undelivered", "dropped"})
    families_->notifications.Add({{"result", result}});
  for (const char* result : {"ok", "denied", "invalid", "failed", "limited"})
    families_->enrollments.Add({{"result", result}});
  for (const char* reason : {"unauthenticated", "invalid", "busy"})
    families_->signs_refused.Add({{"reason", reason}});
  families_->refused_peers.Add({{"server", "enrollment"}, {"reason", "handshake"}});
  for (const PeerVerdict verdict : kRefusals)
    families_->refused_peers.Add({{"server", "worker"}, {"reason", std::string(Name(verdict))}});
  for (const char* where : {"reconcile", "capture", "events", "executor", "http", "slow_work",
                            "webhook", "watch", "lease", "lease.watchdog", "authorities", "enroll",
                            "signs", "tls_servers", "start", "report", "notify"})
    families_->panics.Add({{"where", where}});
}

OperatorMetrics::~OperatorMetrics() = default;

AdmissionMetrics& OperatorMetrics::admission() { return families_->admission; }

void OperatorMetrics::AttemptEnded(const objects::ProfileRequest& request,
                                   const capture::AttemptProgress& progress) {
  if (progress.result == nullptr) return;
  const capture::AttemptResult& result = *progress.result;
  families_->attempts.Add({{"namespace", request.ns}}).Increment();
  Nanos upload{0};
  for (const capture::WorkerResult& worker : result.workers) {
    families_->outcomes
        .Add({{"namespace", request.ns}, {"cause", std::string(Name(worker.outcome))}})
        .Increment();
    if (worker.error)
      families_->clock_error.Add({{"namespace", request.ns}}, kSkewBuckets)
          .Observe(Seconds(*worker.error));
    upload = std::max(upload, Nanos{worker.report.upload_took_ns()});
  }
  if (result.skew && result.ok > 1)
    families_->skew.Add({{"namespace", request.ns}}, kSkewBuckets)
        .Observe(Seconds(result.skew->achieved));
  for (const auto& [phase, took] : progress.took) {
    families_->stages
        .Add({{"namespace", request.ns}, {"stage", std::string(capture::Name(phase))}},
             kStageBuckets)
        .Observe(Seconds(took));
  }
  if (upload > Nanos{0})
    families_->stages.Add({{"namespace", request.ns}, {"stage", "upload"}}, kStageBuckets)
        .Observe(Seconds(upload));
  families_->reports.Observe(request.ns, result.report);
  if (!result.stall.empty())
    families_->verdicts
        .Add({{"namespace", request.ns},
              {"class", result.stall.kind},
              {"confidence", result.stall.confidence}})
        .Increment();
  const absl::StatusOr<storage::Logdir> logdir = storage::Logdir::Parse(request.capture.logdir);
  if (logdir.ok() && result.bytes > 0)
    families_->bytes.Add({{"namespace", request.ns}, {"scheme", logdir->scheme()}})
        .Increment(static_cast<double>(result.bytes));
  if (result.reports_replaced > 0)
    families_->reports_replaced.Add({{"namespace", request.ns}})
        .Increment(static_cast<double>(result.reports_replaced));
  if (result.succeeded) families_->last_success.Add({{"namespace", request.ns}}).SetToCurrentTime();
}

void OperatorMetrics::CaptureEnded(const objects::ProfileRequest& request,
                                   request::CaptureEnd end) {
  const auto counter = [&](request::CaptureEnd result) -> prometheus::Counter& {
    return families_->captures.Add(
        {{"namespace", request.ns}, {"result", std::string(request::Name(result))}});
  };
  // Creates all counters of a namespace together, so that a failure after a success is an increase
  // from 0.
  for (const request::CaptureEnd known :
       {request::CaptureEnd::kSucceeded, request::CaptureEnd::kFailed,
        request::CaptureEnd::kCancelled})
    counter(known);
  counter(end).Increment();
}

void OperatorMetrics::ActiveCaptures(std::size_t count) {
  families_->active.Set(static_cast<double>(count));
}

schedule::Metrics& OperatorMetrics::schedules() { return families_->schedules; }
trigger::AlertReceiverObserver& OperatorMetrics::receiver() { return families_->receiver; }
trigger::Metrics& OperatorMetrics::triggers() { return families_->triggers; }

void OperatorMetrics::Notified(const std::string& result) {
  families_->notifications.Add({{"result", result}}).Increment();
}

void OperatorMetrics::Enrolled(const std::string& result) {
  families_->enrollments.Add({{"result", result}}).Increment();
}

void OperatorMetrics::SignsRefused(const std::string& reason) {
  families_->signs_refused.Add({{"reason", reason}}).Increment();
}

void OperatorMetrics::PeerRefused(const std::string& server, const std::string& reason) {
  families_->refused_peers.Add({{"server", server}, {"reason", reason}}).Increment();
}

void OperatorMetrics::PendingRequests(const std::map<std::string, Pending>& by_namespace) {
  const auto set = [this](const std::string& ns, const Pending& pending) {
    families_->pending.Add({{"namespace", ns}}).Set(static_cast<double>(pending.count));
    families_->oldest_pending.Add({{"namespace", ns}}).Set(Seconds(pending.oldest));
  };
  MutexLock lock(&mutex_);
  for (const std::string& ns : known_pending_) {
    if (!by_namespace.contains(ns)) set(ns, {});
  }
  for (const auto& [ns, pending] : by_namespace) {
    set(ns, pending);
    known_pending_.insert(ns);
  }
}

void OperatorMetrics::NewestAuthority(WallTime from, WallTime until) {
  families_->authority_issued.Add({}).Set(Seconds(from.time_since_epoch()));
  families_->authority_expiry.Add({}).Set(Seconds(until.time_since_epoch()));
}

void OperatorMetrics::Reconciled(const std::string& result, Nanos took) {
  families_->reconciles.Add({{"controller", kController}, {"result", result}}).Increment();
  if (result == "error") families_->reconcile_errors.Add({{"controller", kController}}).Increment();
  families_->reconcile_time.Add({{"controller", kController}}, kReconcileBuckets)
      .Observe(Seconds(took));
}

void OperatorMetrics::Added() { families_->queue.adds.Increment(); }
void OperatorMetrics::Started(Nanos waited) { families_->queue.wait.Observe(Seconds(waited)); }
void OperatorMetrics::Finished(Nanos took) { families_->queue.work.Observe(Seconds(took)); }
void OperatorMetrics::Retried() { families_->queue.retries.Increment(); }

void OperatorMetrics::QueueLoad(const kube::WorkQueue::Load& load, int workers) {
  families_->queue.depth.Set(static_cast<double>(load.waiting));
  families_->queue.unfinished.Set(Seconds(load.running_total));
  families_->queue.longest.Set(Seconds(load.longest));
  families_->active_workers.Set(static_cast<double>(load.running));
  families_->workers.Set(workers);
}

void OperatorMetrics::Requested(const std::string& method, int status, Nanos took) {
  families_->requests.Add({{"code", StrCat(status)}, {"method", method}}).Increment();
  families_->request_time.Add({{"verb", method}}, kStageBuckets).Observe(Seconds(took));
}

void OperatorMetrics::Leading(bool leading, const std::string& lease_ns, const std::string& lease) {
  families_->leader.Add({{"name", lease}, {"lease_namespace", lease_ns}}).Set(leading ? 1 : 0);
}

std::string OperatorMetrics::Render() const {
  for (const auto& [where, count] : CaughtExceptions()) {
    Counter& counter = families_->panics.Add({{"where", where}});
    counter.Increment(static_cast<double>(count) - counter.Value());
  }
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace strobe::metrics
