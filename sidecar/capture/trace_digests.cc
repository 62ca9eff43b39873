#include "sidecar/capture/trace_digests.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "collector/trace/convert/align.h"
#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/digest/encode.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "sidecar/capture/trace_report.h"

namespace strobe::session {
namespace {

constexpr std::size_t kMinDigestBytes = 64 << 10;  // See EncodeDigest.
constexpr int kPoliteness = 10;                    // The thread's nice value.

}  // namespace

absl::StatusOr<std::string> EncodedDigest(const TracePieces& trace, const std::string& worker,
                                          std::size_t max_bytes, const Cancellation& stop) {
  if (trace.empty()) return absl::NotFoundError("there is no trace");
  std::int64_t zero_ns = 0;
  ASSIGN_OR_RETURN(xplane::Space space, convert::ReadSpace(*trace.front(), zero_ns));
  if (stop.cancelled()) return absl::CancelledError("another capture has begun");
  // The Strobe plane is a piece of its own.
  for (std::size_t i = 1; i < trace.size(); ++i) {
    ASSIGN_OR_RETURN(xplane::Space more, xplane::Space::Read(*trace[i], xplane::Depth::kLines));
    std::move(more.planes.begin(), more.planes.end(), std::back_inserter(space.planes));
  }
  ASSIGN_OR_RETURN(const digest::Digest digest,
                   digest::ComputeDigest(space, worker, &stop, zero_ns));
  return digest::EncodeDigest(digest, max_bytes);
}

void TraceDigests::Begin(const v1::Report& report, const std::vector<TracePieces>& traces) {
  Join();
  std::vector<Job> jobs;
  const std::vector<const v1::Report*> reports = TraceReports(report);
  for (std::size_t i = 0; i < std::min(reports.size(), traces.size()); ++i) {
    if (!traces[i].empty()) jobs.push_back({reports[i]->plan().worker(), traces[i]});
  }
  {
    MutexLock lock(&mutex_);
    capture_id_ = report.capture_id();
    digests_.clear();
    for (const Job& job : jobs) digests_[job.worker] = std::nullopt;
  }
  if (jobs.empty()) return;
  stop_ = std::make_unique<Cancellation>();
  thread_ = std::thread([this, jobs = std::move(jobs), &stop = *stop_]() mutable {
    (void)RunGuarded("digest", [&] { Run(std::move(jobs), stop); });
    malloc_trim(0);  // A trace may have taken hundreds of megabytes.
  });
}

void TraceDigests::Stop() {
  if (stop_ != nullptr) stop_->Cancel();
}

void TraceDigests::Join() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void TraceDigests::Run(std::vector<Job> jobs, const Cancellation& stop) {
  // This lowers the priority of this thread only. It competes with the upload and, where there are
  // no cgroups, with the training job.
  (void)setpriority(PRIO_PROCESS, 0, kPoliteness);
  const std::size_t max_bytes =
      std::clamp(kMaxTotalBytes / jobs.size(), kMinDigestBytes, kMaxBytes);
  for (Job& job : jobs) {
    absl::StatusOr<std::string> digest = RunGuarded("digest", [&] {
      return stop.cancelled() ? absl::CancelledError("another capture has begun")
                              : digest_(job.trace, job.worker, max_bytes, stop);
    });
    job.trace.clear();
    if (!digest.ok())
      LogWarning("a trace cannot be summarized",
                 {{"worker", job.worker}, {"error", MessageOf(digest.status())}});
    Set(job.worker, std::move(digest));
  }
}

void TraceDigests::Set(const std::string& worker, absl::StatusOr<std::string> digest) {
  MutexLock lock(&mutex_);
  digests_[worker] = std::move(digest);
}

absl::StatusOr<std::string> TraceDigests::Wait(std::string_view capture_id, std::string_view worker,
                                               Nanos timeout) const {
  MutexLock lock(&mutex_);
  const auto find = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return capture_id_ == capture_id ? digests_.find(worker) : digests_.end();
  };
  const auto settled = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = find();
    return found == digests_.end() || found->second.has_value();
  };
  if (!mutex_.AwaitFor(timeout, settled))
    return absl::UnavailableError("the trace is still being summarized");
  const auto found = find();
  if (found == digests_.end())
    return absl::NotFoundError("the sidecar has no digest of this trace");
  const absl::StatusOr<std::string>& digest = *found->second;
  if (digest.ok()) return *digest;
  return absl::FailedPreconditionError(
      ToAbsl(StrCat("the trace cannot be summarized: ", MessageOf(digest.status()))));
}

}  // namespace strobe::session
