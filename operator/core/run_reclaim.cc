#include "operator/core/run_reclaim.h"

#include <utility>

#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe {

std::shared_ptr<RunReclaim> RunReclaim::Start(Dependencies dependencies,
                                              std::vector<Target> targets,
                                              std::vector<v1::ReclaimRequest> runs,
                                              std::function<void()> done) {
  std::erase_if(targets, [](const Target& target) { return target.outcome != Outcome::kUnknown; });
  std::shared_ptr<RunReclaim> self(
      new RunReclaim(dependencies, std::move(targets), std::move(runs), std::move(done)));
  dependencies.executor.Post([self] { self->Begin(); });
  return self;
}

std::optional<absl::Status> RunReclaim::result() const {
  MutexLock lock(&mutex_);
  return result_;
}

void RunReclaim::Begin() {
  deadline_ = deps_.clock.MonoNow() + kTotalTimeout;
  deps_.executor.PostAfter(kTotalTimeout, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->finished_) return;
    self->Finish(absl::DeadlineExceededError(
        StrCat("not done after ", FormatDuration(kTotalTimeout), "; ", self->last_.message())));
  });
  AskMore();
}

// Asking harms nobody, so several are asked at once; deleting is for one at a time.
void RunReclaim::AskMore() {
  while (!finished_ && asked_ + there_.size() < kMaxAsked && next_ < targets_.size()) {
    const std::size_t index = next_++;
    ++asked_;
    const std::shared_ptr<Worker> worker = deps_.workers.Connect(targets_[index]);
    worker->Check("", kCheckTimeout,
                  [weak = weak_from_this(), &executor = deps_.executor, index,
                   worker](absl::StatusOr<Preflight> answer) {
                    executor.Post([weak, index, worker, status = answer.status()] {
                      if (const auto self = weak.lock()) self->OnChecked(index, worker, status);
                    });
                  });
  }
  if (!finished_ && asked_ == 0 && there_.empty() && worker_ == nullptr) Finish(last_);
}

void RunReclaim::OnChecked(std::size_t index, std::shared_ptr<Worker> worker, absl::Status status) {
  --asked_;
  if (finished_) return;
  if (status.ok())
    there_.push_back(std::move(worker));
  else
    last_ = absl::Status(status.code(),
                         StrCat("sidecar of ", targets_[index].name, ": ", status.message()));
  if (worker_ == nullptr) return ReclaimNext();
}

void RunReclaim::ReclaimNext() {
  if (finished_) return;
  if (worker_ == nullptr) {
    if (there_.empty()) return AskMore();
    worker_ = std::move(there_.back());
    there_.pop_back();
  }
  if (run_ == runs_.size()) return Finish(absl::OkStatus());
  worker_->Reclaim(runs_[run_], kReclaimTimeout,
                   [weak = weak_from_this(),
                    &executor = deps_.executor](absl::StatusOr<v1::ReclaimResponse> answer) {
                     executor.Post([weak, status = answer.status()] {
                       if (const auto self = weak.lock()) self->OnReclaimed(status);
                     });
                   });
}

// What one may not or cannot delete another may be able to: they can have different identities.
void RunReclaim::OnReclaimed(absl::Status status) {
  if (finished_) return;
  if (status.ok()) {
    ++run_;
  } else {
    last_ = std::move(status);
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

}  // namespace strobe
