#include "viewer/report/report_maker.h"

#include <sys/resource.h>

#include <utility>

#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/report/role_report.h"
#include "common/base/guard.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "viewer/report/report_page.h"

namespace strobe::viewer {
namespace {

// The nice value of the thread that makes a report.
constexpr int kReportPoliteness = 10;

absl::StatusOr<digest::Digest> DigestOf(const Worker& worker, const Cancellation& stop) {
  std::int64_t zero_ns = 0;
  ASSIGN_OR_RETURN(const xplane::Space space,
                   convert::ReadSpace(worker.files->trace.bytes(), zero_ns));
  absl::StatusOr<digest::Digest> digest = digest::ComputeDigest(space, worker.name, &stop, zero_ns);
  RETURN_IF_ERROR(worker.Check());  // A changed file explains every other error.
  return digest;
}

}  // namespace

absl::StatusOr<std::string> MakeReport(const LoadedRun& run, Nanos patience,
                                       const Cancellation& stop, std::atomic<std::size_t>& done) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  report::RoleReport report;
  for (const convert::LeftOut& worker : run.left_out) report.AddMissing(worker.worker, worker.why);
  for (const Worker& worker : run.workers) {
    if (stop.cancelled()) return absl::CancelledError("the report is not needed any more");
    if (std::chrono::steady_clock::now() >= give_up) {
      report.AddMissing(worker.name, "there was no time left to read its trace");
    } else if (absl::StatusOr<digest::Digest> digest = DigestOf(worker, stop); digest.ok()) {
      report.Add(*digest);
    } else {
      report.AddMissing(worker.name, MessageOf(digest.status()));
    }
    ++done;
  }
  if (stop.cancelled()) return absl::CancelledError("the report is not needed any more");
  // A report that lacks a changed trace would be kept, and shown after the run was read anew.
  RETURN_IF_ERROR(run.Check());
  return report.Finish("", run.name, kMaxReportRead).json;
}

absl::StatusOr<std::string> MakeReportInTime(const LoadedRun& run, const Cancellation& stop,
                                             std::atomic<std::size_t>& done) {
  return MakeReport(run, kReportDeadline, stop, done);
}

ReportMaker::ReportMaker(std::shared_ptr<const LoadedRun> run, MakeFunction make)
    : total_(run->workers.size()), thread_([this, run = std::move(run), make = std::move(make)] {
        (void)setpriority(PRIO_PROCESS, 0,
                          kReportPoliteness);  // The kernel changes this thread only.
        absl::StatusOr<std::string> made =
            RunGuarded("report", [&] { return make(*run, stop_, done_); });
        MutexLock lock(&mutex_);
        report_ = std::move(made);
        made_ = true;
      }) {}

ReportMaker::~ReportMaker() {
  stop_.Cancel();
  thread_.join();
}

absl::StatusOr<std::string> ReportMaker::Get(Nanos wait) {
  MutexLock lock(&mutex_);
  mutex_.AwaitFor(wait, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return made_; });
  return report_;
}

}  // namespace strobe::viewer
