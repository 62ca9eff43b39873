#include "capture/run_reclaim.h"

#include <utility>

#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::capture {

std::shared_ptr<RunReclaim> RunReclaim::Start(Dependencies dependencies,
                                              std::vector<Target> targets,
                                              std::vector<v1::ReclaimRequest> runs,
                                              std::function<void()> done) {
  std::erase_if(targets, [](const Target& target) { return !target.usable(); });
  std::shared_ptr<RunReclaim> self(
      new RunReclaim(dependencies, std::move(targets), std::move(runs), std::move(done)));
  self->tasks_.Bind(self);
  dependencies.executor.Post([self] { self->Begin(); });
  return self;
}

std::optional<absl::Status> RunReclaim::result() const {
  MutexLock lock(&mutex_);
  return result_;
}

void RunReclaim::RunTask(const OwnedTasks::Work& work) {
  if (!finished_) work();
}

void RunReclaim::Begin() {
  deadline_ = deps_.clock.MonoNow() + kTotalTimeout;
  tasks_.PostAfter(kTotalTimeout, [this] {
    Finish(absl::DeadlineExceededError(
        StrCat("not done after ", FormatDuration(kTotalTimeout), "; ", last_.message())));
  });
  AskMore();
}

// Asking changes nothing, so several sidecars are asked at once. Only one deletes at a time.
void RunReclaim::AskMore() {
  while (unanswered_ + there_.size() < kMaxAsked && next_ < targets_.size()) {
    const std::size_t index = next_++;
    ++unanswered_;
    const std::shared_ptr<Worker> worker = deps_.workers.Connect(targets_[index]);
    worker->Check("", kCheckTimeout,
                  tasks_.OnExecutor([this, index, worker](const absl::StatusOr<Preflight>& answer) {
                    OnChecked(index, worker, answer.status());
                  }));
  }
  if (unanswered_ == 0 && there_.empty() && worker_ == nullptr) Finish(last_);
}

void RunReclaim::OnChecked(std::size_t index, std::shared_ptr<Worker> worker,
                           const absl::Status& status) {
  --unanswered_;
  if (status.ok())
    there_.push_back(std::move(worker));
  else
    last_ = absl::Status(status.code(),
                         StrCat("sidecar of ", targets_[index].name, ": ", status.message()));
  if (worker_ == nullptr) ReclaimNext();
}

void RunReclaim::ReclaimNext() {
  if (worker_ == nullptr) {
    if (there_.empty()) return AskMore();
    worker_ = std::move(there_.back());
    there_.pop_back();
  }
  if (run_ == runs_.size()) return Finish(absl::OkStatus());
  worker_->Reclaim(runs_[run_], kReclaimTimeout,
                   tasks_.OnExecutor([this](const absl::StatusOr<v1::ReclaimResponse>& answer) {
                     OnReclaimed(answer.status());
                   }));
}

// If one sidecar cannot delete a run, the next is tried: pods can have different identities.
void RunReclaim::OnReclaimed(const absl::Status& status) {
  if (status.ok()) {
    ++run_;
  } else {
    last_ = status;
    worker_.reset();
  }
  ReclaimNext();
}

void RunReclaim::Finish(absl::Status status) {
  finished_ = true;
  worker_.reset();
  there_.clear();
  {
    MutexLock lock(&mutex_);
    result_ = std::move(status);
  }
  done_();
}

}  // namespace strobe::capture
