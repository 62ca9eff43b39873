#include "sidecar/capture/live_capture.h"

namespace strobe::session {

void LiveCapture::Cancel(std::string_view reason) {
  MutexLock lock(&mutex_);
  if (reason_.empty()) reason_ = std::string(reason);
  cancel_.Cancel();
}

void LiveCapture::Terminate(MonoTime now) {
  MutexLock lock(&mutex_);
  if (!terminated_at_) terminated_at_ = now;
  terminate_.Cancel();
}

void LiveCapture::Abort(const Harm& harm, MonoTime now) {
  MutexLock lock(&mutex_);
  if (cancel_.cancelled() || terminate_.cancelled()) return;
  harm_ = harm;
  if (!harm.keep) return cancel_.Cancel();
  terminated_at_ = now;
  terminate_.Cancel();
}

void LiveCapture::Suspend() {
  {
    MutexLock lock(&mutex_);
    suspended_ = true;
  }
  Cancel("the sidecar is shutting down");
}

bool LiveCapture::suspended() const {
  MutexLock lock(&mutex_);
  return suspended_;
}

std::optional<Harm> LiveCapture::harm() const {
  MutexLock lock(&mutex_);
  return harm_;
}

std::optional<MonoTime> LiveCapture::terminated_at() const {
  MutexLock lock(&mutex_);
  return terminated_at_;
}

std::string LiveCapture::reason() const {
  MutexLock lock(&mutex_);
  return reason_;
}

LiveCapture::End LiveCapture::CancelledEnd() const {
  MutexLock lock(&mutex_);
  if (harm_) return {Outcome::kAborted, harm_->message};
  return {Outcome::kCancelled, reason_};
}

}  // namespace strobe::session
