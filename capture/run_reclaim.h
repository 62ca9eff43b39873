// Deletes a request's runs through the sidecar of any of its pods, because the operator holds no
// storage identity. It asks a few sidecars at a time whether they answer, and gives up after a
// minute, so that a job whose pods are all gone does not hold up a deletion.
// Threads: all state belongs to the executor; result() may be called from any thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "capture/owned_tasks.h"
#include "capture/ports.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace strobe::capture {

class RunReclaim : public OwnedTasks::Owner {
 public:
  static constexpr std::size_t kMaxAsked = 8;  // Connections that are open at a time.
  static constexpr Nanos kCheckTimeout = std::chrono::seconds(3);
  static constexpr Nanos kReclaimTimeout = std::chrono::seconds(10);  // For one run.
  static constexpr Nanos kTotalTimeout = std::chrono::seconds(60);

  struct Dependencies {
    const Clock& clock;
    Executor& executor;
    WorkerConnector& workers;
  };

  // Targets that are not usable are skipped. `done` is called once, on the executor, when result()
  // is set; not at all when the object is dropped before.
  static std::shared_ptr<RunReclaim> Start(Dependencies dependencies, std::vector<Target> targets,
                                           std::vector<v1::ReclaimRequest> runs,
                                           std::function<void()> done);

  // None while it is under way. OK: every run is gone. Else the last error, which is final.
  std::optional<absl::Status> result() const;

 private:
  RunReclaim(Dependencies dependencies, std::vector<Target> targets,
             std::vector<v1::ReclaimRequest> runs, std::function<void()> done)
      : deps_(dependencies),
        tasks_(deps_.executor),
        targets_(std::move(targets)),
        runs_(std::move(runs)),
        done_(std::move(done)) {}

  void RunTask(const OwnedTasks::Work& work) override;
  void Begin();
  void AskMore();
  void OnChecked(std::size_t index, std::shared_ptr<Worker> worker, const absl::Status& status);
  void ReclaimNext();
  void OnReclaimed(const absl::Status& status);
  void Finish(absl::Status status);

  const Dependencies deps_;
  OwnedTasks tasks_;
  const std::vector<Target> targets_;
  const std::vector<v1::ReclaimRequest> runs_;
  const std::function<void()> done_;
  MonoTime deadline_{};
  std::size_t next_ = 0;                          // The next target to ask.
  std::size_t unanswered_ = 0;                    // Targets that have not answered yet.
  std::vector<std::shared_ptr<Worker>> there_{};  // They answered and have not been tried yet.
  std::shared_ptr<Worker> worker_{};              // The one that deletes now.
  std::size_t run_ = 0;                           // The run that is deleted now.
  absl::Status last_ = absl::UnavailableError("no sidecar is left to delete them");
  bool finished_ = false;

  mutable Mutex mutex_;
  std::optional<absl::Status> result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::capture
