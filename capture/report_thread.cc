#include "capture/report_thread.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "collector/trace/digest/encode.h"
#include "collector/trace/report/role_report.h"
#include "common/base/guard.h"
#include "common/base/saturated.h"
#include "common/base/strings.h"

namespace strobe::capture {
namespace {

using Answer = absl::StatusOr<v1::ReadDigestResponse>;
using Arrived = std::pair<std::size_t, Answer>;  // With the worker's number.

std::string WhyMissing(const absl::Status& status) {
  if (absl::IsUnimplemented(status)) return "its sidecar is too old to make reports";
  return MessageOf(status);
}

// What the operator knows itself is not taken from a sidecar's digest.
void Identify(const ReportedWorker& worker, digest::Digest& digest) {
  digest.worker = worker.name;
  digest.role = worker.role;
  digest.group = worker.group;
  if (worker.rank >= 0) digest.rank = static_cast<std::uint32_t>(worker.rank);
  digest.clock_offset_ns = AddSaturated(digest.clock_offset_ns, worker.clock_correction.count());
  digest.clock_error_ns.reset();
  if (worker.error) digest.clock_error_ns = worker.error->count();
}

}  // namespace

struct ReportThread::Answers {
  // The next answer. Cancelled: the thread ends. DeadlineExceeded: `overdue`, which is asked from
  // time to time, is true and there is no answer.
  absl::StatusOr<Arrived> Next(const std::function<bool()>& overdue) {
    constexpr Nanos kLook = std::chrono::milliseconds(100);
    MutexLock lock(&mutex);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      return stopping || !arrived.empty();
    };
    while (!mutex.AwaitFor(kLook, ready)) {
      if (overdue()) return absl::DeadlineExceededError("");
    }
    if (stopping) return absl::CancelledError("");
    Arrived first = std::move(arrived.front());
    arrived.pop_front();
    return first;
  }

  Mutex mutex;
  std::deque<Arrived> arrived ABSL_GUARDED_BY(mutex);
  bool stopping ABSL_GUARDED_BY(mutex) = false;
};

ReportThread::ReportThread(const Clock& clock)
    : clock_(clock), thread_([this] { RunThread("report", [this] { Run(); }); }) {}

ReportThread::~ReportThread() {
  std::shared_ptr<Answers> answers;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    answers = answers_;
  }
  if (answers != nullptr) {
    MutexLock lock(&answers->mutex);
    answers->stopping = true;
  }
  thread_.join();
}

void ReportThread::Make(ReportOrder order, std::function<void(JobReport)> done) {
  const MonoTime give_up = clock_.MonoNow() + order.patience;
  MutexLock lock(&mutex_);
  jobs_.push_back({std::move(order), give_up, std::move(done)});
}

bool ReportThread::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

bool ReportThread::OthersWait() const {
  MutexLock lock(&mutex_);
  return !jobs_.empty();
}

void ReportThread::Run() {
  while (true) {
    Job job;
    {
      MutexLock lock(&mutex_);
      const auto work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !jobs_.empty();
      };
      mutex_.Await(work);
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      answers_ = std::make_shared<Answers>();
    }
    Report(std::move(job));
  }
}

void ReportThread::Report(Job job) {
  const std::vector<ReportedWorker>& workers = job.order.workers;
  std::shared_ptr<Answers> answers;
  {
    MutexLock lock(&mutex_);
    answers = answers_;
  }
  report::RoleReport report;
  const auto miss = [&report](const ReportedWorker& worker, const std::string& why) {
    report.AddMissing(worker.name, why, {worker.role, worker.group});
  };
  const auto take = [&](const ReportedWorker& worker, const Answer& answer) {
    if (!answer.ok()) return miss(worker, WhyMissing(answer.status()));
    absl::StatusOr<digest::Digest> digest = digest::DecodeDigest(answer->digest());
    if (!digest.ok()) return miss(worker, MessageOf(digest.status()));
    Identify(worker, *digest);
    report.Add(*digest);
  };
  const MonoTime began = clock_.MonoNow();
  const auto overdue = [&] { return clock_.MonoNow() - began >= kShare && OthersWait(); };
  std::set<std::size_t> asked;  // Without an answer so far.
  for (std::size_t next = 0; next < workers.size() || !asked.empty();) {
    if (next < workers.size() && asked.size() < kAtOnce) {
      const ReportedWorker& worker = workers[next];
      const Nanos left = overdue() ? Nanos{0} : job.give_up - clock_.MonoNow();
      if (worker.sidecar == nullptr) {
        miss(worker, worker.missing);
      } else if (left <= Nanos{0}) {
        miss(worker, "there was no time left to ask its sidecar");
      } else {
        asked.insert(next);
        v1::ReadDigestRequest request;
        request.set_capture_id(job.order.capture_id);
        request.set_worker(worker.trace);
        worker.sidecar->ReadDigest(request, std::min(left, kDigestTimeout),
                                   [answers, next](Answer answer) {
                                     MutexLock lock(&answers->mutex);
                                     answers->arrived.emplace_back(next, std::move(answer));
                                   });
      }
      ++next;
      continue;
    }
    absl::StatusOr<Arrived> arrived = answers->Next(overdue);
    if (absl::IsCancelled(arrived.status())) return;
    if (!arrived.ok()) {
      for (const std::size_t late : asked)
        miss(workers[late], "its sidecar had not answered when other reports had to be made");
      asked.clear();
      continue;
    }
    asked.erase(arrived->first);
    take(workers[arrived->first], arrived->second);
  }
  if (stopping()) return;
  report::MadeReport made = report.Finish(job.order.capture_id, job.order.run, kMaxReportBytes);
  job.done({.headline = std::move(made.headline),
            .json = std::move(made.json),
            .step_seconds = made.figures.step_seconds,
            .straggler_seconds = made.figures.straggler_seconds,
            .exposed_communication = made.figures.exposed_communication});
}

}  // namespace strobe::capture
