// Makes the reports of captures, one at a time, on a thread of its own. At most kAtOnce digests are
// in flight, and each is merged and forgotten before others are asked for, so that the memory does
// not depend on the number of captures. Safe for concurrent use.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "capture/ports.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::capture {

class ReportThread final : public Reporter {
 public:
  static constexpr std::size_t kAtOnce = 8;
  static constexpr std::size_t kMaxReportBytes = 2 << 20;  // Sidecars write no larger one.
  static constexpr Nanos kDigestTimeout = std::chrono::seconds(10);  // For one worker.
  // For one report while others wait: workers that are gone must not delay other captures.
  static constexpr Nanos kShare = std::chrono::seconds(2);

  explicit ReportThread(const Clock& clock);  // The clock must outlive it.
  ~ReportThread() override;                   // Orders that are not finished are dropped.
  ReportThread(const ReportThread&) = delete;
  ReportThread& operator=(const ReportThread&) = delete;

  void Make(ReportOrder order, std::function<void(JobReport)> done) override;

 private:
  struct Job {
    ReportOrder order{};
    MonoTime give_up{};
    std::function<void(JobReport)> done{};
  };
  // The digests that were asked for. Callbacks share it, because they may come after the report.
  struct Answers;

  void Run();
  void Report(Job job);
  bool stopping() const;
  bool OthersWait() const;

  const Clock& clock_;
  mutable Mutex mutex_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Answers> answers_ ABSL_GUARDED_BY(mutex_);  // For the present report.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Declared last: the thread uses the members above.
};

}  // namespace strobe::capture
