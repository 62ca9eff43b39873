// Deletes a request's runs through any one sidecar of its pods, because the operator holds no
// storage identity. Looks for one that answers a few at a time, and gives up when its time is over,
// so that a thousand pods that are gone do not hold up a deletion.
// Threads: as CaptureAttempt; all state belongs to the executor.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "operator/core/ports.h"

namespace strobe {

class RunReclaim : public std::enable_shared_from_this<RunReclaim> {
 public:
  static constexpr std::size_t kMaxAsked = 8;  // Sidecars asked at one time whether they are there.
  static constexpr Nanos kCheckTimeout = std::chrono::seconds(3);
  static constexpr Nanos kReclaimTimeout = std::chrono::seconds(10);  // Of each run.
  static constexpr Nanos kTotalTimeout = std::chrono::seconds(60);

  struct Dependencies {
    const Clock& clock;
    Executor& executor;
    WorkerConnector& workers;
  };

  // `done` is called once, on the executor, when result() is there.
  static std::shared_ptr<RunReclaim> Start(Dependencies dependencies, std::vector<Target> targets,
                                           std::vector<v1::ReclaimRequest> runs,
                                           std::function<void()> done);

  // Nothing while it goes on. Ok: each run is gone.
  std::optional<absl::Status> result() const;

 private:
  RunReclaim(Dependencies dependencies, std::vector<Target> targets,
             std::vector<v1::ReclaimRequest> runs, std::function<void()> done)
      : deps_(dependencies),
        targets_(std::move(targets)),
        runs_(std::move(runs)),
        done_(std::move(done)) {}

  void Begin();
  void AskMore();
  void OnChecked(std::size_t index, std::shared_ptr<Worker> worker, absl::Status status);
  void ReclaimNext();
  void OnReclaimed(absl::Status status);
  void Finish(absl::Status status);

  const Dependencies deps_;
  const std::vector<Target> targets_;
  const std::vector<v1::ReclaimRequest> runs_;
  const std::function<void()> done_;
  MonoTime deadline_{};
  std::size_t next_ = 0, asked_ = 0;  // The next target to ask; how many have not answered yet.
  std::vector<std::shared_ptr<Worker>> there_{};  // Have answered and are still to be tried.
  std::shared_ptr<Worker> worker_{};              // Deletes at present.
  std::size_t run_ = 0;
  absl::Status last_ = absl::UnavailableError("no sidecar of its pods is left to delete them");
  bool finished_ = false;

  mutable Mutex mutex_;
  std::optional<absl::Status> result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe
